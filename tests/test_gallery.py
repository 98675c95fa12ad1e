"""Entries of the gallery are short, whole and in its index; every flaw has its picture.

`test_docs.py` runs the code of both.
"""

import re
from pathlib import Path

import pytest

from tarpon.problems import FLAWS

GALLERY = Path(__file__).parents[1] / "docs" / "gallery"
INDEX = (GALLERY / "index.md").read_text()
ENTRIES = sorted(set(GALLERY.glob("*.md")) - {GALLERY / "index.md"})
MOST_LINES = 25


def code(page):
    return "".join(re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.stem)
def test_an_entry_is_short_and_whole(entry):
    page = entry.read_text()
    lines = code(page).splitlines()
    assert 0 < len(lines) <= MOST_LINES
    hidden = re.findall(r"^<!-- run\n(.*?)^-->$", page, re.DOTALL | re.MULTILINE)
    # What readers do not see only keeps the picture, or the file that they are told to write.
    assert all("images/" in block or "write_text" in block for block in hidden)
    names = {name for block in hidden for name in re.findall(r'"images/(\w+)\.png"', block)}
    assert names <= {entry.stem}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.stem)
def test_an_entry_has_a_card_with_its_title_and_picture(entry):
    page = entry.read_text()
    title = page.partition("\n")[0].removeprefix("# ")
    card = INDEX.partition(f":::{{grid-item-card}} {title}\n")[2].partition(":::\n")[0]
    assert f":link: {entry.stem}\n" in card
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", page)
    assert re.findall(r":img-top: (.*)", card) == pictures
    assert all((GALLERY / picture).exists() for picture in pictures)
    assert f"\n{entry.stem}\n" in INDEX.partition("{toctree}")[2]


def test_the_gallery_has_entries():
    assert len(ENTRIES) >= 14


def test_the_file_of_the_fixture_is_the_one_that_is_run():
    page = (GALLERY / "fixture.md").read_text()
    assert page.count(code(page)) == 2


@pytest.mark.parametrize("flaw", [flaw for flaw in FLAWS if FLAWS[flaw].circle == 1])
def test_every_flaw_of_the_zoo_is_drawn_and_described(flaw):
    label, folder = FLAWS[flaw].label, GALLERY.parent / "read"
    page = (folder / f"{flaw}.md").read_text()
    assert page.startswith(f"# {label[:1].upper()}{label[1:]}\n")
    assert f'zoo("{flaw}", n_sims=1000, rng=1)' in page
    words = page.partition(f"(images/{flaw}.png)")[2]
    assert (folder / "images" / f"{flaw}.png").exists()
    assert len(words.split()) > 15 or flaw == "exact"
    index = (GALLERY.parent / "read.md").read_text()
    assert f"[{label[:1].upper()}{label[1:]}](read/{flaw}.md)" in index
    assert f"\nread/{flaw}\n" in index.partition("{toctree}")[2]
