"""The oldest versions of all packages, and other Pythons: tests that the source archive brings."""

import pytest

# Every layer from files to reports once; what takes minutes to compile or to repeat is left out.
TELLING = [
    f"tests/test_{name}.py"
    for name in ("architecture", "simulations", "metrics_and_references", "diagnostics", "files")
]


@pytest.mark.parametrize(
    "environment", ["oldest", "python3.12", "python3.13", "python3.14"], indirect=True
)
def test_passes_its_tests(environment, unpacked):
    # Old packages warn of each other: there, warnings are no errors.
    calm = ["-o", "filterwarnings=default"] if environment.folder.name == "oldest" else []
    words = ["-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *calm, *TELLING]
    assert " passed" in environment.run(*words, cwd=unpacked)


def test_wheels_of_everything_exist_for_the_newest_python(resolved):
    """Whether or not that Python is on this machine, nobody needs a compiler."""
    assert {"tarpon", "numba", "llvmlite", "scipy", "zarr"} <= resolved("python3.14")
