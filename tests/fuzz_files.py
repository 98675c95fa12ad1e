"""Feed broken files to the loaders, guided by coverage: `python tests/fuzz_files.py npz -h`.

Needs atheris, which is not among the packages for development. Whatever a file holds, loading it
and reading all of it must give simulations or one of `EXPECTED`, within the time and memory given
here; anything else is a bug. Inputs worth keeping go to `tests/corpus`, which the tests replay.

    python tests/fuzz_files.py npz 120                 # seconds
    python tests/fuzz_files.py csv tests/corpus/FILE   # one input again
"""

import json
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

EXPECTED = (ValueError, FileNotFoundError, TypeError)
CORPUS = Path(__file__).parent / "corpus"
LIMITS = ["-timeout=20", "-rss_limit_mb=2048", "-max_len=20000"]
SAMPLES, THETA = np.arange(60.0).reshape(5, 4, 3), np.arange(12.0).reshape(4, 3)


def exercise(path):
    """Load a file, and read all of it."""
    from tarpon.adapters import files
    from tarpon.adapters.files import grouped

    grouped._PATIENCE = 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            assert str(files.inspect(path))
            sims = files.load(path, on_invalid="drop")
            for array in (sims.samples, sims.theta, sims.x, sims.log_prob_samples):
                if array is not None:
                    np.asarray(array)
        except EXPECTED:
            pass


def feed(target, data, folder):
    """Write an input where a loader finds it, and load it."""
    path = folder / f"a.{target}"
    if target in STORES:
        name, write = STORES[target]
        path = folder / name
        if not path.exists():
            write(path)
        (path / MEMBERS[target]).write_bytes(data)
    else:
        path.write_bytes(data)
    exercise(path)


def store(path):
    import zarr

    group = zarr.create_group(path)
    for name, array in {"samples": SAMPLES, "theta": THETA}.items():
        group.create_array(name, data=array, chunks=array.shape)


def plain_store(path):
    import zarr

    group = zarr.create_group(path)
    for name, array in {"samples": SAMPLES, "theta": THETA}.items():
        group.create_array(name, data=array, compressors=None)


def folder_of_npy(path):
    path.mkdir()
    np.save(path / "theta.npy", THETA)
    np.save(path / "samples.npy", SAMPLES)


STORES = {
    "zarr": ("a.zarr", store),
    "chunk": ("b.zarr", store),
    "plain_chunk": ("c.zarr", plain_store),
    "npy": ("folder", folder_of_npy),
}
MEMBERS = {
    "zarr": "samples/zarr.json",
    "chunk": "samples/c/0/0/0",
    "plain_chunk": "samples/c/0/0/0",
    "npy": "samples.npy",
}


def seeds(target, folder):
    """Write a few good files to start from."""
    import h5py
    import safetensors.numpy
    import xarray

    path = folder / f"seed.{target}"
    if target in STORES:
        name, write = STORES[target]
        write(folder / name)
        path.write_bytes((folder / name / MEMBERS[target]).read_bytes())
        shutil.rmtree(folder / name)
    elif target == "npz":
        np.savez(path, samples=SAMPLES, theta=THETA)
        np.savez_compressed(folder / "other.npz", samples=SAMPLES, theta=THETA, names=["a"] * 3)
    elif target == "h5":
        with h5py.File(path, "w") as file:
            file.create_dataset("samples", data=SAMPLES, chunks=True, compression="gzip")
            file["theta"], file["names"] = THETA, ["a", "b", "c"]
            file["soft"], file["far"] = h5py.SoftLink("/x"), h5py.ExternalLink("x.h5", "/x")
    elif target == "nc":
        dims = {"samples": ("draw", "sim", "param"), "theta": ("sim", "param")}
        data = {"samples": (dims["samples"], SAMPLES), "theta": (dims["theta"], THETA)}
        xarray.Dataset(data, coords={"param": list("abc")}).to_netcdf(path, engine="h5netcdf")
    elif target == "safetensors":
        safetensors.numpy.save_file({"samples": SAMPLES, "theta": THETA}, path, {"names": "a,b,c"})
    elif target == "csv":
        path.write_text("sim,draw,a,true_a\n0,0,1.5,2\n0,1,1,2\n1,0,-1e3,nan\n1,1,0,nan\n")
    elif target == "parquet":
        import pyarrow
        import pyarrow.parquet

        table = {"sim": [0, 0, 1, 1], "a": [1.0, 2.0, 3.0, 4.0], "true_a": [1.0, 1.0, 2.0, 2.0]}
        pyarrow.parquet.write_table(pyarrow.table(table), path)


def main():
    import atheris

    target, what = sys.argv[1:3]
    with atheris.instrument_imports(
        include=[
            "tarpon.adapters",
            "tarpon.simulations.sources",
            "tarpon.simulations.stored",
            "xarray.coding",
        ]
    ):
        import tarpon.adapters.files  # noqa: F401
    work = Path(tempfile.gettempdir()) / "tarpon-fuzz" / target  # a later run goes on from there
    kept = work / "corpus"
    if not kept.exists():
        kept.mkdir(parents=True)
        seeds(target, kept)
    for path in CORPUS.glob(f"{target}-*"):
        shutil.copy(path, kept)
    dictionary = work / "words"
    words = ["samples", "theta", "names", "shape", "descr", "<f8", "|O", "inf", "1e400", "true_a"]
    dictionary.write_text("\n".join(json.dumps(word) for word in words))
    how = [what] if Path(what).exists() else [f"-max_total_time={what}", str(kept)]
    flags = [*LIMITS, f"-dict={dictionary}", "-print_final_stats=1", *how]
    atheris.Setup([sys.argv[0], *flags], lambda data: feed(target, data, work))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
