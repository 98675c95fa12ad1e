"""Write a page as a notebook: the same words and code, and figures shown instead of saved.

    python docs/notebook.py docs/tutorials/transit.md     # writes docs/tutorials/transit.ipynb

The tests run the notebook, and compare it with its page.
"""

import argparse
import re
from pathlib import Path
from typing import Any

import nbformat

_PART = re.compile(
    r"^```python\n(?P<code>.*?)^```\n|^```text\n.*?^```\n|^<!--.*?-->\n|^!\[.*?\)\n",
    re.DOTALL | re.MULTILINE,
)
_SAVED = re.compile(r"^\w+\.savefig\(.*\)\n", re.MULTILINE)


def notebook(page: str) -> Any:
    """Return the notebook of a page; outputs and pictures of the page are left out."""
    cells, words = [], ""
    end = 0
    for part in _PART.finditer(page):
        words += page[end : part.start()]
        end = part.end()
        if part["code"]:
            cells += [
                _words(words),
                nbformat.v4.new_code_cell(_SAVED.sub("", part["code"]).strip()),
            ]
            words = ""
    cells.append(_words(words + page[end:]))
    cells = [cell for cell in cells if cell.source]
    for k, cell in enumerate(cells):
        cell.id = f"cell-{k}"  # the same whenever it is written
    return nbformat.v4.new_notebook(cells=cells)


def _words(text: str) -> Any:
    return nbformat.v4.new_markdown_cell(re.sub(r"\n{3,}", "\n\n", text).strip())


def main() -> None:
    """Write the notebooks of the pages of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="+", type=Path)
    for page in parser.parse_args().pages:
        nbformat.write(notebook(page.read_text()), page.with_suffix(".ipynb"))


if __name__ == "__main__":
    main()
