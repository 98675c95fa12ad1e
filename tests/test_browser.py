"""The report as its reader has it: in Chromium, with scripts and without, light and dark."""

import importlib.util
import os
import shutil
from itertools import product

import numpy as np
import pytest

import tarpon
from tarpon import report
from tarpon.problems import zoo

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = [
    "<script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "</text></svg><script>window.hacked = 1</script>",
    "<svg onload=window.hacked=1>",
    "'-alert(1)-'",
    "unbroken" * 40,
]
KINDS = ["good", "broken", "one", "many", "hostile", "formulas", "several", "local"]
SIZES = {"narrow": (360, 740), "phone": (390, 844), "laptop": (1100, 800), "wide": (1280, 900)}


def check(*, n_dims=4, n_sims=100, n_draws=50, n_swaps=99, broken=True, names=None):
    sims = zoo("exact", n_sims=n_sims, n_draws=n_draws, n_dims=n_dims, rng=0)
    samples = (sims.samples + sims.samples.mean(axis=0)) / 2 if broken else sims.samples
    return tarpon.check(samples, sims.theta, x=sims.x, names=names, n_swaps=n_swaps, rng=0)


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """The addresses of reports of every kind."""
    folder = tmp_path_factory.mktemp("reports")
    checks = {
        "good": check(broken=False),
        "broken": check(n_dims=12),
        "one": check(n_dims=1),
        "many": check(n_dims=120, n_sims=40, n_draws=20, n_swaps=19),
        "hostile": check(n_dims=len(HOSTILE), names=HOSTILE),
        "formulas": check(n_dims=3, names=[r"$\Omega_m$", r"$\frac", r"$\sqrt{\sigma_8}$"]),
    }
    for kind, one in checks.items():
        one.report(folder / f"{kind}.html", name=HOSTILE[0] if kind == "hostile" else kind)
    several = [checks["good"], checks["one"], checks["hostile"]]
    report.write(folder / "several.html", *several, names=["good", "one", HOSTILE[1]])
    local(folder / "local.html")
    return {kind: (folder / f"{kind}.html").as_uri() for kind in KINDS}


def local(path):
    """Write a report with maps and an observation; names of features are hostile."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 2))
    samples = x + np.where(x[:, :1] > 0.5, 0.4, 1.0) * rng.normal(size=(50, 600, 2))
    sims = tarpon.Simulations(samples, x + rng.normal(size=x.shape), x=x)
    found = tarpon.where(sims, names_x=[HOSTILE[0], "colour"], x_o=[1.0, 0.0], n_swaps=99, rng=0)
    near = tarpon.near(sims, [1.0, 0.0], n_swaps=99, rng=0)
    tarpon.check(sims, n_swaps=99, rng=0).report(path, where=found, near=near)


@pytest.fixture(scope="module")
def chromium():
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None or importlib.util.find_spec("playwright") is None:
        why = "needs Chromium and Playwright: apt-get install chromium, pip install playwright"
        if os.environ.get("TARPON_REQUIRE_BROWSER"):
            pytest.fail(why)
        pytest.skip(why)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def contexts(chromium):
    """Where scripts run, and where they do not."""
    found = {
        scripts: chromium.new_context(java_script_enabled=scripts) for scripts in (True, False)
    }
    yield found
    for context in found.values():
        context.close()


@pytest.fixture(scope="module")
def looked_at():
    """Pages that are open and as they were loaded, what went wrong in any, and what any asked."""
    return {}, [], set()


@pytest.fixture
def visit(contexts, reports, looked_at):
    """Open reports, and hold that nothing went wrong and that no request left the file.

    Pages are shared, but those that a test changes are opened for it `alone`.
    """
    (pages, troubles, asked), changed = looked_at, []

    def new_page(scripts):
        page = contexts[scripts].new_page()
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: troubles.append(dialog.message))
        page.on("request", lambda request: asked.add(request.url))
        return page

    def open_page(kind, *, size="wide", scheme="light", scripts=True, alone=False):
        key = kind, scripts
        new = alone or key not in pages
        page = new_page(scripts) if new else pages[key]
        width, height = SIZES[size]
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme, media="screen")
        if new:
            page.goto(reports[kind])
        if alone:
            changed.append(page)
        else:
            pages[key] = page
        return page

    yield open_page
    for page in changed:
        page.close()
    said = troubles.copy()
    troubles.clear()
    assert not said
    assert {url for url in asked if not url.startswith("data:")} <= set(reports.values())


@pytest.mark.parametrize("kind", KINDS)
def test_every_way_of_looking_shows_the_whole_report(visit, kind):
    """Four of the eight ways meet every pair: of size and colours, of size and scripts, …"""
    for size, scheme in product(("narrow", "wide"), ("light", "dark")):
        scripts = (size == "narrow") == (scheme == "light")
        page = visit(kind, size=size, scheme=scheme, scripts=scripts)
        assert page.locator("h1").is_visible()
        plots = page.locator("main > section .plot svg").all()
        assert plots
        for plot in plots[:4]:
            assert plot.bounding_box()["height"] > 60
        box = page.locator("body").bounding_box()
        assert box["width"] <= SIZES[size][0]
        if scripts:  # nothing is wider than the window
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0


def barriers(page, **options):
    """Return what axe calls serious or critical."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"resultTypes": ["violations"], **options})
    return [
        (one["id"], [node["html"][:200] for node in one["nodes"][:3]])
        for one in found.response["violations"]
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_no_serious_barrier(visit, kind):
    page = visit(kind, alone=kind == "one")
    if kind == "one":  # the smallest page stands for the tables behind figures of all
        page.evaluate(
            "document.querySelectorAll('details').forEach((part) => { part.open = true })"
        )
    # The contrast of hundreds of equal rows takes a minute, and is that of a dozen.
    assert not barriers(page, rules={"color-contrast": {"enabled": kind != "many"}})


@pytest.mark.parametrize("kind", ["one", "several", "local"])
def test_text_can_be_read_in_the_dark(visit, kind):
    assert not barriers(visit(kind, scheme="dark"), runOnly=["color-contrast"])


def test_arrow_keys_read_the_values(visit):
    page = visit("broken", alone=True)
    plot = page.locator(".plot").first
    out = page.locator("figure").first.locator(".readout")
    first = page.locator("figure").first.locator("tbody tr").first.locator("th, td")
    plot.focus()
    page.keyboard.press("ArrowRight")
    said = out.inner_text()
    cells = first.all_text_contents()
    assert len(cells) > 1
    assert all(cell in said for cell in cells)
    page.keyboard.press("End")
    assert out.inner_text() != said
    page.keyboard.press("Home")
    assert out.inner_text() == said
    assert page.locator(".cursor").count() == 1
    page.keyboard.press("Escape")
    assert out.inner_text() == ""
    assert out.get_attribute("aria-live") == "polite"


def test_the_pointer_reads_the_values(visit):
    page = visit("broken")
    plot = page.locator(".plot").first
    plot.hover()
    assert page.locator("figure").first.locator(".readout").inner_text()
    page.locator("h1").hover()
    assert not page.locator("figure").first.locator(".readout").inner_text()


def column(page, k):
    cells = page.locator(f"table.parameters tbody tr > :nth-child({k})")
    return cells.evaluate_all("(cells) => cells.map((cell) => Number(cell.dataset.value))")


@pytest.mark.parametrize("kind", ["broken", "many"])
def test_tables_are_sorted_by_any_column(visit, kind):
    page = visit(kind, alone=True)
    heads = page.locator("table.parameters thead th")
    for k in (1, 3, 4, 5, 6, 7, 8, 10):
        head = heads.nth(k - 1)
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "ascending"
        assert column(page, k) == sorted(column(page, k))
        head.locator("button").press("Enter")
        assert head.get_attribute("aria-sort") == "descending"
        assert column(page, k) == sorted(column(page, k), reverse=True)
    heads.nth(1).locator("button").click()
    names = page.locator("table.parameters tbody th").all_text_contents()
    assert names == [f"theta_{k}" for k in range(len(names))]


def test_parameters_are_filtered(visit):
    page = visit("many", alone=True)
    rows = page.locator("table.parameters tbody tr:visible")
    assert rows.count() == 120
    page.get_by_label("Filter by name").fill("THETA_11")
    assert rows.count() == 11
    assert "11 of 120 shown" in page.locator(".shown").inner_text()
    page.get_by_label("Filter by name").fill("")
    page.get_by_label("only those that fail").check()
    assert rows.count() == page.locator("table.parameters tr.fails").count()


def test_without_scripts_nothing_is_offered_that_needs_them(visit):
    page = visit("broken", scripts=False)
    assert not page.locator(".tools").is_visible()
    assert page.locator("thead button").count() == 0
    assert page.locator("table.parameters tbody tr").count() == 12


@pytest.mark.parametrize("kind", ["hostile", "several"])
def test_hostile_names_do_nothing(visit, kind):
    page = visit(kind, alone=True)
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true })")
    assert page.evaluate("window.hacked") is None
    assert page.locator("script").count() == 1
    assert page.locator("img").count() == 0
    assert HOSTILE[0] in page.locator("table.parameters").first.inner_text() or kind == "several"


def test_colours_follow_the_reader(visit):
    ink = "getComputedStyle(document.querySelector('.plot text')).fill"
    assert visit("broken", scheme="light").evaluate(ink) == "rgb(29, 29, 27)"
    dark = visit("broken", scheme="dark")
    assert dark.evaluate(ink) == "rgb(233, 230, 223)"
    dark.emulate_media(media="print")
    assert dark.evaluate(ink) == "rgb(0, 0, 0)"
    assert dark.pdf().startswith(b"%PDF")


def test_a_link_opens_the_study_that_it_leads_to(visit):
    page = visit("several", alone=True)
    assert not page.locator("#s1 .headline").is_visible()
    page.locator("table.outcomes a").nth(1).click()
    page.locator("#s1 .headline").wait_for(state="visible")


def test_bias_and_width_are_on_the_first_screen(visit):
    for kind in ("good", "broken", "hostile"):
        page = visit(kind, size="laptop")
        figure = page.locator("section.top figure .plot")
        box = figure.bounding_box()
        assert box["y"] + box["height"] <= SIZES["laptop"][1]
        assert box["x"] > page.locator("h1").bounding_box()["x"] + 300  # beside the words
        assert page.locator("section.top .lead li").count() <= 4


def test_a_comparison_can_be_read_on_a_phone(visit):
    page = visit("several", size="phone", alone=True)
    wide = "document.documentElement.scrollWidth - innerWidth"
    assert page.evaluate(wide) <= 0
    for cell in page.locator("table.outcomes :is(th, td):visible").all():
        box = cell.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= SIZES["phone"][0]
    assert not page.locator("table.outcomes thead").is_visible()
    label = "getComputedStyle(document.querySelector('.outcomes td[data-label]'), '::before')"
    assert page.evaluate(f"{label}.content") == '"p: "'
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true })")
    assert page.evaluate(wide) <= 0


def test_all_angles_are_folded_until_asked_for(visit):
    page = visit("broken", alone=True)
    angles = page.locator("details.angles table")
    assert not angles.is_visible()
    page.locator("nav.contents a", has_text="All angles").click()
    angles.wait_for(state="visible")


def test_formulas_are_drawn_and_read(visit):
    page = visit("formulas")
    assert "Ω_m" in page.locator("table.parameters").inner_text()
    assert page.locator(".plot tspan", has_text="Ω").count()
    ink = "getComputedStyle(document.querySelector('.plot tspan')).fill"
    assert page.evaluate(ink) == "rgb(29, 29, 27)"


def test_maps_and_the_observation(visit):
    """Windows fade into the page where nothing is wrong, in the light and in the dark."""
    papers = {"light": "rgb(255, 253, 249)", "dark": "rgb(23, 24, 26)"}
    for (scheme, paper), size in product(papers.items(), ("wide", "phone")):
        page = visit("local", scheme=scheme, size=size)
        links = page.locator("nav.contents a")
        for name, n_figures in (("At your observation", 2), ("Where", 5)):
            section = page.locator("section", has=page.locator("h2", has_text=name))
            assert links.filter(has_text=name).count() == 1
            assert section.locator("figure").count() == n_figures
            for plot in section.locator(".plot svg").all():
                assert plot.bounding_box()["width"] > 240
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        dots = page.locator("section:has(> #s0-where) figure").first.locator("[style*=fill]")
        fills = dots.evaluate_all("(all) => all.map((one) => getComputedStyle(one).fill)")
        assert paper in fills
    assert page.evaluate("window.hacked") is None


def test_the_pointer_reads_a_window(visit):
    page = visit("local")
    figure = page.locator("section:has(> #s0-where) figure").first
    figure.locator(".plot").hover()
    assert "p, adjusted" in figure.locator(".readout").inner_text()
    page.locator("h1").hover()
    assert not figure.locator(".readout").inner_text()
