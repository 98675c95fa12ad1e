"""The site: `make docs` builds it without a network, and what it shows needs none."""

import tarpon

project = "tarpon"
author = "the tarpon developers"
copyright = "the tarpon developers, MIT licence"
version = release = tarpon.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx-mathjax-offline",
]
exclude_patterns = ["_build"]

myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

default_role = "code"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "none"  # docstrings have the shapes
copybutton_prompt_text = "$ "
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "pydata_sphinx_theme"
html_title = "tarpon"
html_theme_options = {
    "show_toc_level": 2,
    "navbar_end": ["theme-switcher"],
    "navbar_align": "left",
    "header_links_before_dropdown": 11,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-light",
    "pygments_dark_style": "a11y-dark",
}
html_static_path = ["_static"]
html_css_files = ["tarpon.css"]
html_sidebars = {page: [] for page in ("index", "start", "choose")}
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
