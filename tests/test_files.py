"""Files: the same numbers come back from every format, and nothing else comes out of a file."""

import io
import json
import os
import pickle
import re
import runpy
import shutil
import struct
import zipfile
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import safetensors.numpy
import xarray
import zarr
from click.testing import CliRunner

import tarpon
from tarpon.adapters import files
from tarpon.adapters.files.roles import ROLES
from tarpon.cli import main
from tarpon.simulations.stored import Stored

N_DRAWS, N_SIMS, N_DIMS = 12, 7, 3
NAMES = ["mass", "spin", "tilt"]
CORPUS = Path(__file__).parent / "corpus"
DIMS = {
    "samples": ("draw", "sim", "param"),
    "theta": ("sim", "param"),
    "x": ("sim", "pixel"),
    "log_prob_samples": ("draw", "sim"),
    "log_prob_theta": ("sim",),
}


def arrays():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(N_SIMS, N_DIMS))
    samples = rng.normal(size=(N_DRAWS, N_SIMS, N_DIMS))
    return {
        "samples": samples,
        "theta": theta,
        "x": rng.normal(size=(N_SIMS, 4)),
        "log_prob_samples": -np.square(samples).sum(axis=-1),
        "log_prob_theta": -np.square(theta).sum(axis=-1),
    }


def dataset(order=1):
    """Arrays with names for their axes, which may be turned round."""
    data = {name: (DIMS[name][::order], array.T if order < 0 else array)
            for name, array in arrays().items()}  # fmt: skip
    return xarray.Dataset(data, coords={"param": NAMES})


def arviz():
    """A posterior of three variables, four chains, and the truths among the constants."""
    chains = arrays()["samples"].reshape(4, 3, N_SIMS, N_DIMS)
    theta = arrays()["theta"]
    dims = ("chain", "draw", "sim")
    posterior = {"mu": (dims, chains[..., 0]), "tau": ((*dims, "k"), chains[..., 1:])}
    truths = {"mu": (("sim",), theta[:, 0]), "tau": (("sim", "k"), theta[:, 1:])}
    observed = {"x": (("sim", "pixel"), arrays()["x"])}
    groups = {"posterior": posterior, "constant_data": truths, "observed_data": observed}
    return xarray.DataTree.from_dict({k: xarray.Dataset(v) for k, v in groups.items()})


def folder(path):
    path.mkdir()
    for name, array in arrays().items():
        np.save(path / f"{name}.npy", array)
    np.save(path / "names.npy", NAMES)


def hdf5(path):
    with h5py.File(path, "w") as file:
        for name, array in arrays().items():
            file[f"run/{name}"] = array
        file["run/names"] = NAMES


def zarr_store(path):
    group = zarr.create_group(path, attributes={"names": NAMES})
    for name, array in arrays().items():
        group.create_array(name, data=array)


def netcdf4(path):
    with netCDF4.Dataset(path, "w") as file:
        for name, array in arrays().items():
            dims = [file.createDimension(f"{name}{k}", n).name for k, n in enumerate(array.shape)]
            file.createVariable(name, "f8", dims, fill_value=-1e30)[...] = array
        file.setncattr_string("names", NAMES)


WRITERS = {
    "a.npz": lambda path: np.savez(path, **arrays(), names=NAMES),
    "b.npz": lambda path: np.savez_compressed(path, **arrays(), names=NAMES),
    "folder": folder,
    "a.h5": hdf5,
    "a.nc": lambda path: dataset().to_netcdf(path, engine="h5netcdf"),
    "turned.nc": lambda path: dataset(-1).to_netcdf(path, engine="h5netcdf"),
    "b.nc": netcdf4,
    "a.zarr": zarr_store,
    "b.zarr": lambda path: dataset().to_zarr(path, zarr_format=3, consolidated=False),
    "turned.zarr": lambda path: dataset(-1).to_zarr(path, zarr_format=3, consolidated=False),
    "a.safetensors": lambda path: safetensors.numpy.save_file(
        arrays(), path, metadata={"names": ",".join(NAMES)}
    ),
}
ON_DISK = [name for name in WRITERS if not name.endswith(".npz")]


def written(tmp_path, name):
    WRITERS[name](tmp_path / name)
    return tmp_path / name


def same(sims, given=None):
    for name, array in (arrays() if given is None else given).items():
        np.testing.assert_array_equal(np.asarray(getattr(sims, name)), array)


@pytest.mark.filterwarnings("ignore:The data type")  # of words in Zarr
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.slow) if n in ("turned.nc", "b.nc") else n
        for n in WRITERS
    ],
)
class TestFormats:
    def test_every_format_returns_the_same_numbers(self, tmp_path, name):
        sims = files.load(written(tmp_path, name))
        same(sims)
        assert list(sims.names) == NAMES

    def test_draws_on_disk_stay_there(self, tmp_path, name):
        stays = isinstance(files.load(written(tmp_path, name)).samples, Stored)
        assert stays == (name in ON_DISK)

    def test_tests_of_files_agree_with_tests_in_memory(self, tmp_path, name):
        there = tarpon.sbc(files.load(written(tmp_path, name)), rng=0)
        here = tarpon.sbc(arrays()["samples"], arrays()["theta"], rng=0)
        np.testing.assert_array_equal(there.ranks.values, here.ranks.values)

    def test_contents_of_every_format_can_be_inspected(self, tmp_path, name):
        contents = files.inspect(written(tmp_path, name))
        assert not contents.problem
        roles = {entry.role for entry in contents.entries}
        assert roles >= {*arrays(), "names"}
        assert "7 simulations, 12 draws each, 3 parameters" in str(contents)


class TestPairs:
    def test_a_pair_of_npy_files(self, tmp_path):
        np.save(tmp_path / "mine.npy", arrays()["samples"])
        np.save(tmp_path / "true.npy", arrays()["theta"])
        sims = files.load(tmp_path / "mine.npy", theta=tmp_path / "true.npy")
        assert isinstance(sims.samples, Stored)
        same(sims, {name: arrays()[name] for name in ("samples", "theta")})

    def test_pairs_in_fortran_order_and_other_types(self, tmp_path):
        np.save(tmp_path / "a.npy", np.asfortranarray(arrays()["samples"]).astype(">f4"))
        np.save(tmp_path / "b.npy", arrays()["theta"].astype("f2"))
        sims = files.load(tmp_path / "a.npy", theta=tmp_path / "b.npy")
        np.testing.assert_allclose(np.asarray(sims.samples), arrays()["samples"], rtol=1e-6)

    def test_truths_in_a_file_of_another_format(self, tmp_path):
        np.save(tmp_path / "a.npy", arrays()["samples"])
        np.savez(tmp_path / "b.npz", truths=arrays()["theta"], more=np.zeros(3))
        same(files.load(tmp_path / "a.npy", theta=tmp_path / "b.npz"),
             {name: arrays()[name] for name in ("samples", "theta")})  # fmt: skip

    def test_a_second_file_without_truths_is_refused(self, tmp_path):
        np.save(tmp_path / "a.npy", arrays()["samples"])
        np.savez(tmp_path / "b.npz", one=np.zeros(3), two=np.zeros(3))
        with pytest.raises(ValueError, match="there is no array 'theta' in"):
            files.load(tmp_path / "a.npy", theta=tmp_path / "b.npz")
        with pytest.raises(FileNotFoundError, match="there is no file"):
            files.load(tmp_path / "a.npy", theta=tmp_path / "none.npy")


class TestArviZ:
    def check(self, path):
        sims = files.load(path)
        same(sims, {name: arrays()[name] for name in ("samples", "theta", "x")})
        assert sims.names == ("mu", "tau[0]", "tau[1]")
        assert isinstance(sims.samples, Stored)
        assert sims.samples.portable
        there, here = tarpon.sbc(sims, rng=0), tarpon.sbc(*list(arrays().values())[:2], rng=0)
        np.testing.assert_array_equal(there.ranks.values, here.ranks.values)

    def test_arviz_netcdf(self, tmp_path):
        arviz().to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
        self.check(tmp_path / "a.nc")

    @pytest.mark.filterwarnings("ignore")  # of xarray, on groups and consolidation
    def test_arviz_zarr(self, tmp_path):
        arviz().to_zarr(tmp_path / "a.zarr", zarr_format=3, consolidated=False)
        self.check(tmp_path / "a.zarr")

    @pytest.mark.parametrize("group", ["true_parameters", "prior"])
    def test_arviz_truths_in_other_groups(self, tmp_path, group):
        tree = arviz()
        tree[group] = tree["constant_data"].to_dataset()
        del tree["constant_data"]
        tree.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
        self.check(tmp_path / "a.nc")

    def test_several_observed_variables_lie_side_by_side(self, tmp_path):
        tree = arviz()
        x = xarray.DataArray(np.arange(N_SIMS * 6.0).reshape(N_SIMS, 2, 3), dims=("sim", "a", "b"))
        tree["observed_data"] = tree["observed_data"].to_dataset().assign(y=x)
        tree.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
        x = np.asarray(files.load(tmp_path / "a.nc").x)
        assert x.shape == (N_SIMS, 10)
        np.testing.assert_array_equal(x[1, 4:], np.arange(6, 12))

    def test_arviz_variable_with_named_parameters(self, tmp_path):
        data = dataset().expand_dims("chain").rename(samples="theta_", theta="t")
        groups = {
            "posterior": data[["theta_"]],
            "prior": dataset()[["theta"]].rename(theta="theta_"),
        }
        tree = xarray.DataTree.from_dict(groups)
        tree.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
        sims = files.load(tmp_path / "a.nc")
        same(sims, {name: arrays()[name] for name in ("samples", "theta")})
        assert list(sims.names) == NAMES

    def test_a_variable_of_one_number_has_a_name_without_index(self, tmp_path):
        data = {name: arrays()[name][..., :1] for name in ("samples", "theta")}
        groups = {
            "posterior": xarray.Dataset({"mu": (("draw", "sim", "k"), data["samples"])}),
            "prior": xarray.Dataset({"mu": (("sim", "k"), data["theta"])}),
        }
        xarray.DataTree.from_dict(groups).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
        assert files.load(tmp_path / "a.nc").names == ("mu",)
        samples, theta = data["samples"].swapaxes(0, 1), data["theta"]
        assert tarpon.adapters.from_bayesflow({"mu": samples}, {"mu": theta}).names == ("mu",)

    def test_arviz_file_of_one_posterior_is_refused(self, tmp_path):
        tree = xarray.DataTree.from_dict({"posterior": arviz()["posterior"].isel(sim=0)})
        tree.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
        with pytest.raises(ValueError, match="no dimension `sim`, so it contains a single"):
            files.load(tmp_path / "a.nc")


def long_table(truths=True):
    """One row a draw, in no order."""
    given = arrays()
    draw, sim = (axis.ravel() for axis in np.indices((N_DRAWS, N_SIMS)))
    columns = {"sim": sim * 10, "draw": draw}
    for k, name in enumerate(NAMES):
        columns[name] = given["samples"][..., k].ravel()
        if truths:
            columns[f"true_{name}"] = np.tile(given["theta"][:, k], N_DRAWS)
    if truths:
        columns["log_prob"] = given["log_prob_samples"].ravel()
        columns["true_log_prob"] = np.tile(given["log_prob_theta"], N_DRAWS)
    shuffled = np.random.default_rng(1).permutation(N_DRAWS * N_SIMS)
    return {name: column[shuffled] for name, column in columns.items()}


def write_csv(path, columns):
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join(map(repr, map(float, row))) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


def write_parquet(path, columns):
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


@pytest.mark.parametrize(("ending", "write"), [("csv", write_csv), ("parquet", write_parquet)])
class TestTables:
    def test_table_with_truths(self, tmp_path, ending, write):
        write(tmp_path / f"a.{ending}", long_table())
        sims = files.load(tmp_path / f"a.{ending}")
        same(sims, {name: array for name, array in arrays().items() if name != "x"})
        assert list(sims.names) == NAMES

    def test_truths_in_a_second_table(self, tmp_path, ending, write):
        write(tmp_path / f"a.{ending}", long_table(truths=False))
        order = [3, 1, 0, 2, 6, 5, 4]
        truths = {"sim": np.array(order) * 10}
        truths |= {name: arrays()["theta"][order, k] for k, name in enumerate(NAMES)}
        write(tmp_path / f"b.{ending}", truths)
        sims = files.load(tmp_path / f"a.{ending}", theta=tmp_path / f"b.{ending}")
        same(sims, {name: arrays()[name] for name in ("samples", "theta")})

    def test_tables_of_different_simulations_are_refused(self, tmp_path, ending, write):
        write(tmp_path / f"a.{ending}", long_table(truths=False))
        write(tmp_path / f"b.{ending}", {"sim": np.arange(7), "mass": np.zeros(7)})
        with pytest.raises(ValueError, match="table of truths must have exactly one row"):
            files.load(tmp_path / f"a.{ending}", theta=tmp_path / f"b.{ending}")


def unequal():
    """Draws that differ in number and weight, one simulation after the other."""
    rng = np.random.default_rng(3)
    n_draws = np.array([3, 9, 5, 7])
    return {
        "samples": rng.normal(size=(n_draws.sum(), 2)),
        "theta": rng.normal(size=(4, 2)),
        "log_weights": rng.normal(size=n_draws.sum()),
        "log_weights_theta": rng.normal(size=4),
        "offsets": np.append(0, n_draws.cumsum()),
    }


class TestUnequalDraws:
    def check(self, path):
        given = unequal()
        there = tarpon.sbc(files.load(path), rng=0)
        here = tarpon.sbc(tarpon.Simulations(**given), rng=0)
        assert str(there.draws) == str(here.draws)
        assert there.p_value == here.p_value

    def test_unequal_draws_in_npz(self, tmp_path):
        np.savez(tmp_path / "a.npz", **unequal())
        self.check(tmp_path / "a.npz")

    def test_unequal_draws_in_hdf5(self, tmp_path):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            for name, array in unequal().items():
                file[name] = array
        self.check(tmp_path / "a.h5")

    @pytest.mark.parametrize(("ending", "write"), [("csv", "csv"), ("parquet", "parquet")])
    def test_unequal_draws_in_tables(self, tmp_path, ending, write):
        given, writers = unequal(), {"csv": write_csv, "parquet": write_parquet}
        sim = np.repeat(np.arange(4), np.diff(given["offsets"]))
        columns = {"sim": sim, "log_weight": given["log_weights"]}
        for k, name in enumerate("ab"):
            columns |= {name: given["samples"][:, k], f"true_{name}": given["theta"][sim, k]}
        columns["true_log_weight"] = given["log_weights_theta"][sim]
        writers[write](tmp_path / f"a.{ending}", columns)
        self.check(tmp_path / f"a.{ending}")

    def test_unequal_draws_too_large_when_padded_are_refused(self, tmp_path):
        offsets = np.append(0, 10_000 + np.arange(10_000))
        np.savez(tmp_path / "a.npz", samples=np.zeros((19_999, 1)), theta=np.zeros((10_000, 1)),
                 offsets=offsets)  # fmt: skip
        with pytest.raises(ValueError, match=r"`samples`.* needs 800 MB of memory at once"):
            files.load(tmp_path / "a.npz")


class TestNames:
    def test_other_names_of_arrays_are_known(self, tmp_path):
        given = arrays()
        np.savez(tmp_path / "a.npz", Posterior_Samples=given["samples"], theta_true=given["theta"],
                 observations=given["x"])  # fmt: skip
        same(files.load(tmp_path / "a.npz"), {name: given[name] for name in list(given)[:3]})

    def test_names_of_arrays_can_be_given(self, tmp_path):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["post/chains"], file["post/true"] = arrays()["samples"], arrays()["theta"]
            file["x"] = "no observation"
        said = {"samples": "post/chains", "theta": "post/true", "x": None}
        sims = files.load(tmp_path / "a.h5", arrays=said)
        same(sims, {name: arrays()[name] for name in ("samples", "theta")})
        assert sims.x is None

    @pytest.mark.parametrize(
        ("said", "message"),
        [
            ({"sample": "a"}, r"must name arrays for samples, theta, .* but got \['sample'\]"),
            ({"samples": "b"}, r"there is no array 'b' to use as `samples`, but a, c"),
            ({}, r"must contain `samples` and `theta`.*but contains a, c\. .*\{'samples': 'a'\}"),
        ],
    )
    def test_unknown_names_of_arrays_are_refused(self, tmp_path, said, message):
        np.savez(tmp_path / "a.npz", a=arrays()["samples"], c=np.zeros(2))
        with pytest.raises(ValueError, match=message):
            files.load(tmp_path / "a.npz", arrays=said)

    def test_two_arrays_of_one_name_are_refused(self, tmp_path):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["one/samples"] = file["two/samples"] = arrays()["samples"]
        with pytest.raises(ValueError, match="may be one/samples or two/samples: choose one"):
            files.load(tmp_path / "a.h5")

    def test_files_with_densities_alone(self, tmp_path):
        given = {k: v for k, v in arrays().items() if k.startswith("log_prob")}
        np.savez(tmp_path / "a.npz", **given)
        assert files.load(tmp_path / "a.npz").n_dims == 0
        assert files.inspect(tmp_path / "a.npz").command.startswith("tarpon hpd")

    def test_axes_without_simulations_are_refused(self, tmp_path):
        data = dataset().drop_vars(["x", "log_prob_samples", "log_prob_theta"])
        data.rename(sim="simulation").to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
        with pytest.raises(ValueError, match=r"has axes .*but needs each of `sim` and `draw`"):
            files.load(tmp_path / "a.nc")

    def test_bfloat16_in_safetensors(self, tmp_path):
        bits = (arrays()["samples"].astype("f4").view("u4") >> 16).astype("<u2")
        theta = arrays()["theta"].astype("<f4")
        about = {
            "samples": {"dtype": "BF16", "shape": bits.shape, "data_offsets": [0, bits.nbytes]},
            "theta": {"dtype": "F32", "shape": theta.shape,
                      "data_offsets": [bits.nbytes, bits.nbytes + theta.nbytes]},
        }  # fmt: skip
        (tmp_path / "a.safetensors").write_bytes(tensors(about, bits.tobytes() + theta.tobytes()))
        sims = files.load(tmp_path / "a.safetensors")
        np.testing.assert_allclose(np.asarray(sims.samples), arrays()["samples"], rtol=2**-7)


def tensors(about, data=b""):
    header = about if isinstance(about, bytes) else json.dumps(about).encode()
    return struct.pack("<Q", len(header)) + header + data


def npy(header, data=b"", version=b"\x01\x00", length=None):
    header = header.encode()
    width = "<H" if version == b"\x01\x00" else "<I"
    length = len(header) if length is None else length
    return b"\x93NUMPY" + version + struct.pack(width, length) + header + data


def declared(shape, descr="<f8"):
    return f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}"


def archive(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as members_of:
        for name, data in members.items():
            members_of.writestr(f"{name}.npy", data)
    return file.getvalue()


class Trap:
    """What would run if it were unpickled."""

    def __reduce__(self):
        return os.mkdir, ("sprung",)


def object_array():
    file = io.BytesIO()
    np.save(file, np.array([Trap()]), allow_pickle=True)
    return file.getvalue()


def plain(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def bomb():
    """A hundred megabytes of zeros in a hundred kilobytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as members:
        with members.open("samples.npy", "w") as member:
            member.write(npy(declared((1000, 12_500, 1))))
            for _ in range(10):
                member.write(bytes(10_000_000))
        members.writestr("theta.npy", plain(np.zeros((12_500, 1))))
    return file.getvalue()


def lying_archive():
    """An archive whose list of members says that one is larger than it is."""
    data = bytearray(archive(samples=plain(arrays()["samples"]), theta=plain(arrays()["theta"])))
    where = data.index(b"PK\x01\x02")
    data[where + 24 : where + 28] = struct.pack("<I", 2**31)
    return bytes(data)


def twice():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as members:
        members.writestr("samples.npy", plain(np.zeros(3)))
        with pytest.warns(UserWarning, match="Duplicate"):
            members.writestr("samples.npy", plain(np.zeros(3)))
    return file.getvalue()


def within_hdf5(write):
    def make(path):
        with h5py.File(path, "w") as file:
            write(file, path)
            if "theta" not in file:
                file["theta"] = arrays()["theta"]

    return make


def link_to_file(file, path):
    with h5py.File(path.parent / "other.h5", "w") as other:
        other["secret"] = arrays()["samples"]
    file["samples"] = h5py.ExternalLink("other.h5", "/secret")


def external_storage(file, path):
    (path.parent / "raw.bin").write_bytes(bytes(8 * N_DRAWS * N_SIMS * N_DIMS))
    file.create_dataset(
        "samples", (N_DRAWS, N_SIMS, N_DIMS), "f8", external=[("raw.bin", 0, 2016)]
    )


def virtual(file, path):
    layout = h5py.VirtualLayout((N_DRAWS, N_SIMS, N_DIMS), "f8")
    layout[...] = h5py.VirtualSource("other.h5", "secret", (N_DRAWS, N_SIMS, N_DIMS))
    file.create_virtual_dataset("samples", layout)


def soft_link(file, path):
    file["samples"] = h5py.SoftLink("/somewhere/else")


def records(file, path):
    file["samples"] = np.zeros((N_DRAWS, N_SIMS), dtype=[("a", "f8"), ("b", "f8")])


def lengths_that_differ(file, path):
    samples = file.create_dataset("samples", (N_DRAWS, N_SIMS), h5py.vlen_dtype("f8"))
    samples[0, 0] = [1.0, 2.0]


def never_written(file, path):
    file.create_dataset("samples", (10, 10**12, 1), "f8", chunks=(10, 10, 1))
    file.create_dataset("theta", (10**12, 1), "f8", chunks=(10, 1))


def one_huge_simulation(file, path):
    file.create_dataset("samples", (10**10, N_SIMS, N_DIMS), "f8", chunks=(100, 1, 1))


def huge_chunk(file, path):
    file.create_dataset("samples", (10**5, N_SIMS, 200), "f8", chunks=(10**5, N_SIMS, 200))
    file["theta"] = np.zeros((N_SIMS, 200))


def long_words(path):
    hdf5(path)
    with h5py.File(path) as file:
        where = file["run/names"].id.get_offset()
    data = bytearray(path.read_bytes())
    data[where : where + 4] = struct.pack("<I", 2**32 - 1)
    path.write_bytes(data)


def cyclic(file, path):
    file["again"] = file["/"]
    file["again/more"] = file["/"]


def damaged(file, path):
    file.create_dataset("samples", data=arrays()["samples"], chunks=True, compression="gzip")


def store(change=None, *, array="samples", **more):
    """Write a Zarr store, and change what describes one of its arrays."""

    def make(path):
        zarr_store(path)
        about = path / array / "zarr.json"
        described = json.loads(about.read_text())
        if change:
            change(described, path)
        about.write_text(json.dumps(described | more))

    return make


def with_codec(described, path):
    described["codecs"] = [{"name": "numcodecs.pickle", "configuration": {}}]


def out_of_the_store(described, path):
    root = path / "zarr.json"
    about = json.loads(root.read_text())
    inside = {"../../other": described}
    about["consolidated_metadata"] = {
        "kind": "inline", "must_understand": False, "metadata": inside
    }  # fmt: skip
    root.write_text(json.dumps(about))
    shutil.rmtree(path / "log_prob_theta")
    (path / "samples").rename(path.parent / "other")
    (path / "samples").mkdir()
    described["node_type"] = "group"


def linked_chunk(described, path):
    (path.parent / "secret").write_bytes(bytes(100))
    (path / "samples" / "c" / "9").symlink_to(path.parent / "secret")


def linked_array(described, path):
    zarr_store(path.parent / "other.zarr")
    (path / "extra").symlink_to(path.parent / "other.zarr")


def old_zarr(path):
    group = zarr.create_group(path, zarr_format=2)
    group.create_array("samples", data=np.zeros((3, 2, 1)))


def as_parquet(**columns):
    def make(path):
        pyarrow.parquet.write_table(pyarrow.table(columns), path)

    return make


def netcdf_of(**more):
    def make(path):
        hdf5(path)
        with h5py.File(path, "a") as file:
            for name, link in more.items():
                file[name] = link

    return make


def pickled(path):
    path.write_bytes(pickle.dumps({"samples": Trap()}))


FEW = {"samples": plain(arrays()["samples"]), "theta": plain(arrays()["theta"])}
TENSOR = {"dtype": "F64", "shape": [12, 7, 3], "data_offsets": [0, 2016]}
GRID = {"name": "regular", "configuration": {"chunk_shape": [10**6, 10**6, 10**6]}}
TINY = {"name": "regular", "configuration": {"chunk_shape": [1, 1, 1]}}
ODD = {"name": "regular", "configuration": {"chunk_shape": [0, -1]}}
HOSTILE = {
    # .npy and .npz
    "empty.npz": (b"", r"'.*empty\.npz' is empty\.$"),
    "text.npz": (b"not an archive", "does not start as such a file does.*end with .csv"),
    "cut.npz": (archive(**FEW)[:900], "cannot be read as an .npz file.*not a zip file"),
    "objects.npz": (archive(**FEW | {"samples": object_array()}),
                    r"`samples`.* must be plain numbers, but is \(1,\) of object"),
    "bomb.npz": (bomb, r"`samples`.* needs 100 MB of memory at once, and 67.1 MB are allowed"),
    "lies.npz": (lying_archive, r"'samples' declares 2\.02 kB of numbers, but contains 2\.15 GB"),
    "twice.npz": (twice, "it contains 'samples' twice"),
    "large.npz": (archive(**FEW | {"samples": npy(declared((10**6, 10**6, 10)))}),
                  "'samples' declares 80 TB of numbers, but contains 0 B"),
    "overflow.npz": (archive(**FEW | {"samples": npy(declared((2**40, 2**40, 2**40)))}),
                     "invalid shape .*, larger than any disk"),
    "negative.npz": (archive(**FEW | {"samples": npy(declared((-3, 7, 3)))}),
                     r"invalid shape \(-3, 7, 3\)"),
    "nan.npz": (archive(**FEW | {"samples": npy(declared("(nan, 7, 3)"))}),
                "malformed header: .*nan"),
    "float.npz": (archive(**FEW | {"samples": npy(declared((12.0, 7, 3)))}),
                  r"invalid shape \(12\.0, 7, 3\)"),
    "long_header.npz": (archive(samples=npy(declared((3,)), version=b"\2\0", length=2**32 - 1)),
                        r"malformed header: it declares 4\.29 GB"),
    "code.npz": (archive(samples=npy("__import__('os').mkdir('sprung')")),
                 "malformed header: __import__"),
    "deep.npz": (archive(samples=npy("-" * 4000)), "malformed header: ---"),
    "axes.npz": (archive(samples=npy(declared((1,) * 40), bytes(8))), "invalid shape"),
    "records.npz": (archive(samples=npy(declared((3,), [("a", "<f8")])), theta=FEW["theta"]),
                    "declares|must be plain numbers"),
    "complex.npz": (archive(**FEW | {"samples": plain(1j * arrays()["samples"])}),
                    "must be plain numbers, but is .* of complex128"),
    "words.npz": (archive(**FEW | {"theta": plain(np.array(["a", "b"]))}),
                  r"`theta`.* must be plain numbers, but is \(2,\) of <U1"),
    "escape.npz": (archive(**{"\x1b[2Jwiped": FEW["theta"]}), r"contains \\x1b\[2Jwiped\. Name"),
    "cut.npy": (FEW["samples"][:1000], "'cut' declares .* it was truncated or changed"),
    "version.npy": (b"\x93NUMPY\x09\x00" + bytes(20), "its version is not 1.0 or 2.0"),
    "header.npy": (b"\x93NUMPY\x01\x00v\x00{'descr'", "malformed header"),
    # wrong endings
    "hdf5.npz": (b"\x89HDF\r\n\x1a\n" + bytes(90),
                 r"ends with \.npz, but its content is \.h5"),
    "zip.h5": (archive(**FEW), r"ends with \.h5, but its content is \.npz"),
    "unknown.dat": (archive(**FEW), r"unknown ending.*Its content is \.npz: rename it"),
    "old.nc": (b"CDF\x01" + bytes(90), "netCDF of version 3: convert it"),
    "a.pkl": (pickled, "Pickles run code when they are read: save the arrays only"),
    "folder": (Path.mkdir, "it contains no .npy file"),
    # HDF5 and netCDF
    "text.h5": (b"not what it says", "cannot be read as an HDF5 file"),
    "text.nc": (b"not what it says", "cannot be read as a netCDF file"),
    "link.h5": (within_hdf5(link_to_file), "`samples`.* is a link to another file, 'other.h5'"),
    "soft.h5": (within_hdf5(soft_link), "`samples`.* is a link to '/somewhere/else': name that"),
    "external.h5": (within_hdf5(external_storage), "`samples`.* is stored in other files"),
    "virtual.h5": (within_hdf5(virtual), "`samples`.* is stored in other files"),
    "records.h5": (within_hdf5(records), "`samples`.* must be plain numbers"),
    "ragged.h5": (within_hdf5(lengths_that_differ), "`samples`.* must be plain numbers.*object"),
    "unwritten.h5": (within_hdf5(never_written), r"`theta`.* needs 8 TB of memory at once"),
    "one.h5": (within_hdf5(one_huge_simulation), r"`samples`.* needs 240 GB of memory at once"),
    "chunk.h5": (within_hdf5(huge_chunk), r"`samples`.* needs 1\.12 GB of memory at once"),
    "words.h5": (long_words, "'/run/names' declares words that are longer than the file"),
    "cyclic.h5": (within_hdf5(cyclic), r"must contain `samples` .* but contains theta\. Name"),
    "link.nc": (netcdf_of(more=h5py.ExternalLink("other.nc", "/x")),
                "'more' is a link to another file, 'other.nc'"),
    # Zarr
    "text.zarr": (b"not what it says", "cannot be read as a Zarr store of version 3.*zarr.json"),
    "empty.zarr": (Path.mkdir, "it has no `zarr.json`"),
    "old.zarr": (old_zarr, "its version is 2, where chunks may be pickled: write version 3"),
    "pickled.zarr": (store(with_codec), "`samples`.* is packed with 'numcodecs.pickle'"),
    "outside.zarr": (store(out_of_the_store),
                     r"must contain `samples`.*but contains names, [^.]*\. Name"),
    "chunk_link.zarr": (store(linked_chunk), "'samples/c/9' is a link: a store must contain"),
    "array_link.zarr": (store(linked_array), "'extra' is a link: a store must contain"),
    "objects.zarr": (store(data_type="object"), "`samples`.* has type 'object', which is not one"),
    "chunk.zarr": (store(chunk_grid=GRID), r"`samples`.* needs \S+ TB of memory at once"),
    "chunks.zarr": (store(shape=[10**4, 7, 300], chunk_grid=TINY),
                    "declares 21000000 chunks, most of which are missing"),
    "odd.zarr": (store(chunk_grid=ODD), r"has chunks of \(0, -1\), which do not fit"),
    "shape.zarr": (store(shape=[-1, 7, 3]), r"invalid shape \(-1, 7, 3\)"),
    "theta.zarr": (store(array="theta", shape=[10**12, 3], chunk_grid={
        "name": "regular", "configuration": {"chunk_shape": [10**9, 3]}}),
        r"`theta`.* needs 24 TB of memory at once"),
    "packed.zarr": (store(attributes={"scale_factor": 2.0}), "packed with a scale and an offset"),
    # safetensors
    "cut.safetensors": (tensors({"samples": TENSOR}, bytes(100)),
                        r"'samples' declares 2\.02 kB of numbers, but contains 0 B"),
    "lies.safetensors": (tensors({"samples": TENSOR | {"data_offsets": [0, 8]}}, bytes(2016)),
                         "'samples' declares 2.02 kB of numbers, but contains 8 B"),
    "before.safetensors": (tensors({"samples": TENSOR | {"data_offsets": [-8, 2008]}}, bytes(9)),
                           "'samples' declares .* but contains 0 B"),
    "overflow.safetensors": (tensors({"samples": TENSOR | {"shape": [2**62, 2**62]}}, bytes(2016)),
                             "invalid shape .*, larger than any disk"),
    "header.safetensors": (struct.pack("<Q", 2**63) + b"{}", r"header: it declares \S+ TB"),
    "json.safetensors": (tensors(b"[" * 100_000), "cannot be read as a safetensors file"),
    "list.safetensors": (tensors([1, 2]), "the description of its arrays is malformed"),
    "lacks.safetensors": (tensors({"samples": {"dtype": "F64"}}), "it lacks 'shape'"),
    "type.safetensors": (tensors({"samples": TENSOR | {"dtype": "OBJECT"}}, bytes(2016)),
                         "is of type 'OBJECT', which NumPy lacks"),
    # tables
    "text.csv": (b"sim,a,true_a\n0,one,2\n", "could not convert string 'one'"),
    "uneven.csv": (b"sim,a,true_a\n0,1,2\n0,1\n", "the number of columns changed from 3 to 2"),
    "names.csv": (b"sim,a\n0,1,2\n", "its first line has 2 names, but its rows have 3 numbers"),
    "column.csv": (b"a,true_a\n1,2\n", "a table must have a column `sim`.*this one has a, true_a"),
    "truth.csv": (b"sim,a,true_a\n0,1,2\n0,1,3\n", "'true_a' must be the same in all rows"),
    "missing.csv": (b"sim,a,b,true_a\n0,1,2,3\n", "no column 'true_b'"),
    "same.csv": (b"sim,a,a\n0,1,2\n", "must have different names"),
    "nan.csv": (b"sim,a,true_a\nnan,1,2\n", "its column `sim` must have a number in every row"),
    "binary.csv": (b"\xff\xfe\x00\x01" * 10, "cannot be read as a table"),
    "text.parquet": (b"not what it says", "does not start as such a file does"),
    "words.parquet": (as_parquet(sim=[0, 1], a=["x", "y"]), "its column 'a' contains string, not"),
    "lists.parquet": (as_parquet(sim=[0, 1], a=[[1.0], [2.0]]), "its column 'a' contains list"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.filterwarnings("ignore:loadtxt")
def test_hostile_files_get_a_clear_error(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    content, message = HOSTILE[name]
    path = tmp_path / "within" / name
    path.parent.mkdir()
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content in (bomb, lying_archive, twice):
        path.write_bytes(content())
    else:
        content(path)
    with pytest.raises(ValueError, match=message) as raised:
        files.load(path)
    assert len(str(raised.value).replace(str(path), "")) < 500
    assert not (tmp_path / "sprung").exists()


def test_more_memory_can_be_allowed(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", samples=np.zeros((1000, 10_000, 1)),
                        theta=np.zeros((10_000, 1)))  # fmt: skip
    with pytest.raises(ValueError, match=r"needs 80 MB of memory.*pass `most_bytes=`"):
        files.load(tmp_path / "a.npz")
    assert files.load(tmp_path / "a.npz", most_bytes=10**8).n_sims == 10_000
    with pytest.raises(ValueError, match="`most_bytes` must be at least 1"):
        files.load(tmp_path / "a.npz", most_bytes=0)


@pytest.mark.parametrize("damage", ["hdf5", "zarr", "plain zarr"])
def test_damaged_draws_are_noticed_when_they_are_read(tmp_path, damage):
    path = tmp_path / ("a.h5" if damage == "hdf5" else "a.zarr")
    if damage == "hdf5":
        within_hdf5(damaged)(path)
        data = path.read_bytes()
        with h5py.File(path) as file:
            where = file["samples"].id.get_chunk_info(0)
        cut = slice(where.byte_offset, where.byte_offset + where.size)
        path.write_bytes(data[: cut.start] + bytes(where.size) + data[cut.stop :])
    else:
        group = zarr.create_group(path)
        more = {} if damage == "zarr" else {"compressors": None}
        group.create_array("samples", data=arrays()["samples"], **more)
        group.create_array("theta", data=arrays()["theta"])
        chunk = path / "samples" / "c" / "0" / "0" / "0"
        chunk.write_bytes(chunk.read_bytes()[:100])
    sims = files.load(path)
    with pytest.raises(ValueError, match="simulations 0 to 6 cannot be read from where they are"):
        tarpon.sbc(sims, rng=0)


def test_a_device_is_not_a_file():
    with pytest.raises(ValueError, match="is neither a file nor a folder"):
        files.load("/dev/zero")


@pytest.mark.parametrize("name", ["a.npz", "folder", "a.h5", "a.zarr", "a.safetensors"])
def test_more_arrays_than_anyone_has_are_refused(tmp_path, monkeypatch, name):
    for module in ("flat", "grouped"):
        monkeypatch.setattr(f"tarpon.adapters.files.{module}.MOST_ARRAYS", 4)
    with pytest.raises(ValueError, match="it contains more than 4 arrays"):
        files.load(written(tmp_path, name))


def test_tables_that_do_not_fit_into_memory_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("sim,a,true_a\n0,1,2\n")
    pyarrow.parquet.write_table(pyarrow.table({"sim": [0], "a": [1.0]}), tmp_path / "a.parquet")
    for name, said in (("a.csv", "it has 19 B"), ("a.parquet", "it declares 16 B of numbers")):
        with pytest.raises(ValueError, match=f"{said}: store large studies in .npy or .zarr"):
            files.load(tmp_path / name, most_bytes=8)


def test_what_is_wrong_in_a_folder_is_said_of_its_file(tmp_path):
    path = written(tmp_path, "folder")
    (path / "x.npy").write_bytes(b"\x93NUMPY\x09\x00" + bytes(20))
    with pytest.raises(ValueError, match=r"in 'x\.npy', its version is not 1\.0 or 2\.0"):
        files.load(path)
    np.save(path / "x.npy", np.empty((0, 4)))
    with pytest.raises(ValueError, match=r"`x` must have one entry per simulation|\(7, ...\)"):
        files.load(path)


class TestInspect:
    def run(self, *words):
        return CliRunner().invoke(main, ["inspect", *map(str, words)])

    def test_inspect_on_the_command_line(self, tmp_path):
        said = self.run(written(tmp_path, "a.npz"))
        assert said.exit_code == 0
        rows = [line.split() for line in said.stdout.splitlines()]
        assert ["samples", "(12,", "7,", "3)", "float64", "2.02", "kB", "samples"] in rows
        assert f"To test it: tarpon check {tmp_path / 'a.npz'}" in said.stdout
        assert "\x1b" not in said.stdout

    def test_inspect_as_json(self, tmp_path):
        path = written(tmp_path, "a.npz")
        about = json.loads(self.run(path, "--json").stdout)
        assert about == json.loads(json.dumps(files.inspect(path).to_dict()))
        assert about["problem"] == ""

    def test_inspect_says_what_is_missing_and_what_to_do(self, tmp_path):
        np.savez(tmp_path / "a.npz", mine=arrays()["samples"], theta=arrays()["theta"])
        said = self.run(tmp_path / "a.npz")
        assert said.exit_code == 2
        assert "--array samples=mine" in said.stdout
        said = self.run(tmp_path / "a.npz", "--array", "samples=mine")
        assert said.exit_code == 0
        assert "--array samples=mine" in said.stdout

    def test_inspect_a_pair(self, tmp_path):
        np.save(tmp_path / "a.npy", arrays()["samples"])
        np.save(tmp_path / "b.npy", arrays()["theta"])
        said = self.run(tmp_path / "a.npy", "--theta", tmp_path / "b.npy")
        assert said.exit_code == 0
        assert "--theta" in said.stdout

    def test_inspect_reports_invalid_simulations(self, tmp_path):
        theta = arrays()["theta"]
        theta[3] = np.nan
        np.savez(tmp_path / "a.npz", **arrays() | {"theta": theta})
        said = str(files.inspect(tmp_path / "a.npz"))
        assert "1 of 7 simulations hold NaN or infinite values, the first at index 3" in said

    def test_inspect_misuse(self, tmp_path):
        assert "there is no file" in self.run(tmp_path / "none.npz").output
        assert "is not ROLE=NAME" in self.run(tmp_path, "--array", "samples").output


def test_the_page_on_files_names_all_roles():
    page = (Path(__file__).parents[1] / "docs" / "files.md").read_text()
    table = dict(re.findall(r"^\| `(\w+)` \| \(.*?\) \| (.*) \|$", page, re.MULTILINE))
    said = {role: tuple(re.findall(r"`(\w+)`", known)) for role, known in table.items()}
    assert said == {name: role.aliases for name, role in ROLES.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        path
        for path in sorted(CORPUS.iterdir())
        if not path.name.startswith(("saved_", "nc-hangs"))
    ],
    ids=lambda path: path.name,
)
def test_what_a_fuzzer_found_stays_fixed(path, tmp_path):
    fuzz = runpy.run_path(str(Path(__file__).with_name("fuzz_files.py")))
    fuzz["feed"](path.name.partition("-")[0], path.read_bytes(), tmp_path)


@pytest.mark.slow
def test_attributes_that_make_the_library_hang_are_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("tarpon.adapters.files.grouped._PATIENCE", 1.1)
    (tmp_path / "hangs.nc").write_bytes((CORPUS / "nc-hangs").read_bytes())
    for read in (files.inspect, files.load):
        with pytest.raises(ValueError, match=r"cannot be read within 1.1 seconds.*write it again"):
            read(tmp_path / "hangs.nc")
