"""What describes the package agrees with itself: versions, bounds, constraints."""

import re
import runpy
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import tarpon

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NEEDED = [Requirement(line) for line in PROJECT["project"]["dependencies"]]
EXTRAS = [
    Requirement(line)
    for lines in PROJECT["project"]["optional-dependencies"].values()
    for line in lines
]
PIN = re.compile(r"[\w.-]+==[\d.]+(\.?post\d+)?")


def pins(file):
    """Return the versions that a file of constraints names."""
    lines = (ROOT / file).read_text().splitlines()
    return {
        canonicalize_name(name): version for name, _, version in (x.partition("==") for x in lines)
    }


def group(name):
    lines = PROJECT["dependency-groups"][name]
    within = [line["include-group"] for line in lines if isinstance(line, dict)]
    own = [Requirement(line) for line in lines if isinstance(line, str)]
    return own + [one for other in within for one in group(other)]


def closure(wanted):
    """Return the names of packages and of all that they need, as far as they are installed."""
    seen, left = set(), [(one.name, extra) for one in wanted for extra in ("", *one.extras)]
    while left:
        name, extra = left.pop()
        if (canonicalize_name(name), extra) in seen:
            continue
        seen.add((canonicalize_name(name), extra))
        try:
            needs = map(Requirement, requires(name) or [])
        except PackageNotFoundError:
            continue
        for one in needs:
            if one.marker is None or one.marker.evaluate({"extra": extra}):
                left += [(one.name, extra) for extra in ("", *one.extras)]
    return {name for name, _ in seen}


@pytest.mark.parametrize("file", sorted(path.name for path in ROOT.glob("constraints*.txt")))
def test_constraints_are_names_and_versions_alone(file):
    lines = (ROOT / file).read_text().splitlines()
    assert [line for line in lines if not PIN.fullmatch(line)] == []
    assert len(lines) == len(pins(file))


def test_constraints_are_complete():
    wanted = [*NEEDED, *EXTRAS, *group("dev"), *group("release")]
    assert closure(wanted) - set(pins("constraints.txt")) == set()


def test_the_oldest_versions_are_the_lower_bounds():
    bounds = {}
    for one in [*NEEDED, *EXTRAS]:
        (bound,) = one.specifier
        assert bound.operator == ">="
        name, version = canonicalize_name(one.name), Version(bound.version)
        bounds[name] = min(version, bounds.get(name, version))
    oldest = {name: Version(version) for name, version in pins("constraints-minimal.txt").items()}
    assert oldest == bounds


def test_constraints_are_within_the_bounds():
    pinned = pins("constraints.txt")
    for one in [*NEEDED, *EXTRAS, *group("dev"), *group("release")]:
        assert one.specifier.contains(pinned[canonicalize_name(one.name)]), one


def test_all_say_the_same_version():
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited[1] == tarpon.__version__
    latest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert latest[1] == tarpon.__version__
    recipe = (ROOT / "conda" / "recipe.yaml").read_text()
    assert f'version: "{tarpon.__version__}"' in recipe


def test_all_say_the_same_pythons():
    said = PROJECT["project"]["classifiers"]
    pythons = [one[1] for text in said if (one := re.search(r":: (3\.\d+)$", text))]
    assert PROJECT["project"]["requires-python"] == f">={pythons[0]}"
    assert pythons == ["3.11", "3.12", "3.13", "3.14"]


def test_all_say_the_same_licence():
    assert PROJECT["project"]["license"] == "MIT"
    assert "license: MIT\n" in (ROOT / "CITATION.cff").read_text()
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")


def test_markers_are_described_once():
    names = [
        text.partition(":")[0] for text in PROJECT["tool"]["pytest"]["ini_options"]["markers"]
    ]
    assert len(names) == len(set(names))


def test_the_man_page_is_what_the_commands_say():
    written = (ROOT / "docs" / "tarpon.1").read_text(encoding="utf-8")
    assert written == runpy.run_path(str(ROOT / "docs" / "man.py"))["page"](), "python docs/man.py"
