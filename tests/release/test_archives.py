"""The wheel and the source archive hold what they should, and nothing else."""

import re
import subprocess
import sys
import tarfile
import zipfile
from configparser import ConfigParser
from email import message_from_bytes
from pathlib import Path

import pytest
from rattler_build import RattlerBuildError, Stage0Recipe

import tarpon

ROOT = Path(__file__).parents[2]
LEFT_OUT = {".ci/run"}
# Folders of a machine, and addresses of where packages are kept.
PRIVATE = re.compile(
    rb"file:/{2}|/(home|root|Users|tmp|opt|mnt)/\w|simple[/]|pypi[.]|index[-]url", re.IGNORECASE
)


def tracked(*folders):
    words = ["git", "ls-files", "-z", *folders]
    said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(said.stdout.split("\0")) - {""}


def inside(archive):
    """Return the contents of an archive by name, without the folder of a source archive."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            return {name: file.read(name) for name in file.namelist()}
    with tarfile.open(archive) as file:
        members = [member for member in file if member.isfile()]
        return {
            member.name.partition("/")[2]: file.extractfile(member).read() for member in members
        }


@pytest.fixture(scope="module")
def wheel(archives):
    return inside(archives[0])


@pytest.fixture(scope="module")
def source(archives):
    return inside(archives[1])


@pytest.fixture(scope="module")
def about(wheel):
    """Return the metadata of the wheel."""
    (text,) = (wheel[name] for name in wheel if name.endswith("/METADATA"))
    return message_from_bytes(text)


def test_the_wheel_holds_the_package_and_its_metadata(wheel):
    package = {name.removeprefix("src/") for name in tracked("src")}
    info = f"tarpon-{tarpon.__version__}.dist-info"
    described = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    manual = f"tarpon-{tarpon.__version__}.data/data/share/man/man1/tarpon.1"
    assert set(wheel) == package | {f"{info}/{name}" for name in described} | {manual}
    endings = {name.rpartition(".")[2] for name in package}
    assert endings == {"py", "pyi", "typed", "jinja", "js", "css"}
    assert wheel[f"{info}/licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()


def test_the_source_archive_holds_what_git_knows(source):
    assert set(source) == tracked() - LEFT_OUT | {"PKG-INFO"}


def test_a_wheel_of_the_source_archive_is_the_same(wheel, unpacked, tmp_path):
    words = ["-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path, unpacked]
    subprocess.run([sys.executable, *words], capture_output=True, check=True)
    (again,) = tmp_path.glob("*.whl")
    assert inside(again) == wheel


def test_no_folders_of_a_machine_and_no_registries(wheel, source):
    for name, content in (wheel | source).items():
        found = None if name.endswith(".png") else PRIVATE.search(content)
        assert found is None, f"{name}: {content[found.start() - 40 : found.end() + 40]}"


def test_the_index_can_show_it(archives):
    words = [sys.executable, "-m", "twine", "--no-color", "check", "--strict", *archives]
    said = subprocess.run(words, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout
    assert said.stdout.count("PASSED") == 2


def test_metadata_are_complete(about):
    assert about["Name"] == "tarpon"
    assert about["Version"] == tarpon.__version__
    assert about["License-Expression"] == "MIT"
    assert about["Requires-Python"] == ">=3.11"
    assert about["Summary"]
    assert about["Keywords"]
    assert about["Description-Content-Type"] == "text/markdown"
    assert about.get_payload(decode=True).strip() == (ROOT / "README.md").read_bytes().strip()


def test_the_recipe_for_conda_asks_for_what_the_wheel_asks_for(about):
    """The recipe is parsed and rendered by rattler-build, which refuses unknown fields."""
    recipe = Stage0Recipe.from_yaml((ROOT / "conda" / "recipe.yaml").read_text())
    (variant,) = recipe.render()
    found = {name.replace("-base", "") for name in variant.recipe.requirements.run}
    needed = [line for line in about.get_all("Requires-Dist") if "extra ==" not in line]
    assert found == {re.sub(r"(?=[<>=])", " ", one, count=1) for one in needed} | {
        f"python {about['Requires-Python']}"
    }
    wrong = (ROOT / "conda" / "recipe.yaml").read_text().replace("noarch:", "no_arch:")
    with pytest.raises(RattlerBuildError):
        Stage0Recipe.from_yaml(wrong)


def test_commands_and_plugins_are_there(wheel):
    points = ConfigParser()
    (text,) = (wheel[name] for name in wheel if name.endswith("/entry_points.txt"))
    points.read_string(text.decode())
    assert dict(points["console_scripts"]) == {"tarpon": "tarpon.cli:main"}
    assert dict(points["pytest11"]) == {"tarpon": "tarpon.gate.pytest_plugin"}
