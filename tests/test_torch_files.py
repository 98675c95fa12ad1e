"""Files of torch: tensors are read, and code in them is not run."""

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

import tarpon
from tarpon.adapters import files

torch = pytest.importorskip("torch", reason="needs torch: pip install tarpon[torch]")


def arrays():
    rng = np.random.default_rng(0)
    return {"samples": rng.normal(size=(12, 7, 3)), "theta": rng.normal(size=(7, 3))}


def tensors(**more):
    return {name: torch.from_numpy(array) for name, array in arrays().items()} | more


class Trap:
    """A pickle of it makes a folder when it is loaded."""

    def __reduce__(self):
        return (os.mkdir, ("sprung",))


def test_the_same_numbers_come_back(tmp_path):
    torch.save(tensors(names=["mass", "spin", "tilt"], epoch=3), tmp_path / "a.pt")
    sims = files.load(tmp_path / "a.pt")
    assert list(sims.names) == ["mass", "spin", "tilt"]
    for name, array in arrays().items():
        np.testing.assert_array_equal(np.asarray(getattr(sims, name)), array)
    here = tarpon.sbc(**arrays(), rng=0).ranks.values
    np.testing.assert_array_equal(tarpon.sbc(sims, rng=0).ranks.values, here)


def test_what_is_in_it_can_be_seen(tmp_path):
    torch.save(tensors(), tmp_path / "a.pt")
    assert "samples" in str(files.inspect(tmp_path / "a.pt"))
    assert files.inspect(tmp_path / "a.pt").problem == ""


def test_tensors_that_are_turned_round_are_read(tmp_path):
    turned = tensors()["samples"].permute(2, 0, 1).contiguous().permute(1, 2, 0)
    torch.save(tensors(samples=turned), tmp_path / "a.pt")
    sims = files.load(tmp_path / "a.pt")
    np.testing.assert_array_equal(np.asarray(sims.samples), arrays()["samples"])


def test_bfloat16_becomes_single_precision(tmp_path):
    torch.save({k: v.bfloat16() for k, v in tensors().items()}, tmp_path / "a.pt")
    sims = files.load(tmp_path / "a.pt")
    np.testing.assert_allclose(np.asarray(sims.samples), arrays()["samples"], rtol=2**-7)


def test_code_is_not_run(tmp_path):
    torch.save({"samples": Trap()}, "a.pt")
    with pytest.raises(
        ValueError, match="contains more than tensors: save a dictionary of tensors"
    ):
        files.load("a.pt")
    assert not Path("sprung").exists()


@pytest.mark.parametrize("what", ["list", "old", "sparse", "compressed"])
def test_what_is_no_dictionary_of_tensors(tmp_path, what):
    path, tensor = tmp_path / "a.pt", torch.eye(3)
    if what == "compressed":
        torch.save({"samples": tensor}, tmp_path / "b.pt")
        new = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        with zipfile.ZipFile(tmp_path / "b.pt") as old, new:
            for name in old.namelist():
                new.writestr(name, old.read(name))
    else:
        saved = {"list": [tensor], "sparse": {"samples": tensor.to_sparse()}}
        torch.save(saved.get(what, {"samples": tensor}), path,
                   _use_new_zipfile_serialization=what != "old")  # fmt: skip
    with pytest.raises(
        ValueError, match=r"contains a list|compressed|sparse|not a zip|more than tensors"
    ):
        files.load(path)
