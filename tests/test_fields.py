"""Fields: posteriors over images, maps and time series, with axes of their own."""

import numpy as np
import pytest
from click.testing import CliRunner

import tarpon
from tarpon import Simulations
from tarpon.adapters import files
from tarpon.adapters.bayesflow import from_bayesflow
from tarpon.adapters.chains import thin
from tarpon.cli import main
from tarpon.runner.problem import simulated
from tarpon.runner.store import stacked

RNG = np.random.default_rng(0)
THETA = RNG.normal(size=(20, 4, 6))
SAMPLES = THETA / 2 + RNG.normal(size=(9, 20, 4, 6))


def test_fields_are_kept_flat_and_not_copied():
    sims = Simulations(SAMPLES, THETA)
    assert sims.shape == (4, 6)
    assert sims.samples.shape == (9, 20, 24)
    assert sims.theta.shape == (20, 24)
    assert np.shares_memory(sims.samples, SAMPLES)
    assert np.shares_memory(sims.theta, THETA)
    assert repr(sims) == "Simulations(20 simulations, 9 draws each, fields of 4 x 6)"


def test_vectors_have_a_shape_of_one_axis():
    assert Simulations(SAMPLES[..., 0], THETA[..., 0]).shape == (4,)
    assert Simulations(SAMPLES[..., 0, 0], THETA[..., 0, 0]).shape == (1,)


def test_cells_are_named_by_their_places():
    names = Simulations(SAMPLES, THETA).names
    assert names[9] == "theta[1, 3]"
    assert names[-1] == "theta[3, 5]"
    assert names[:2] == ("theta[0, 0]", "theta[0, 1]")
    assert (len(names), names.index("theta[1, 3]")) == (24, 9)
    assert names == tuple(names)
    assert Simulations(SAMPLES, THETA, names=["lat", "lon"]).names[9] == "theta[lat=1, lon=3]"
    assert Simulations(SAMPLES, THETA, names=[str(k) for k in range(24)]).names[9] == "9"


def test_answers_are_those_of_flat_points():
    flat = SAMPLES.reshape(9, 20, 24), THETA.reshape(20, 24)
    for test in (tarpon.tarp, tarpon.sbc):
        assert (test(SAMPLES, THETA, rng=0).ranks.values == test(*flat, rng=0).ranks.values).all()


class TestHints:
    """What is wrong with a field, and what to do."""

    def raises(self, text, samples, theta=THETA):
        with pytest.raises(ValueError, match=text) as caught:
            Simulations(samples, theta)
        return str(caught.value)

    def test_the_message_says_what_was_wanted_and_what_came(self):
        said = self.raises("swapped", SAMPLES.swapaxes(0, 1))
        assert "must be (n_draws, 20, 4, 6) to match `theta` (20, 4, 6)" in said
        assert "but got (20, 9, 4, 6)" in said
        assert "try `samples.swapaxes(0, 1)`" in said

    def test_transposed_fields(self):
        said = self.raises("transposed", SAMPLES.swapaxes(-1, -2))
        assert "fields of 6 x 4, and the truths of 4 x 6" in said
        assert "try `samples.swapaxes(-1, -2)`" in said

    def test_axes_of_boxes_in_another_order(self):
        theta, samples = THETA.reshape(20, 2, 3, 4), SAMPLES.reshape(9, 20, 2, 3, 4)
        moved = samples.transpose(0, 1, 4, 2, 3)
        said = self.raises("another order", moved, theta)
        order = eval(said.split("samples.transpose")[1].rstrip("`."))
        assert moved.transpose(order).shape == samples.shape

    @pytest.mark.parametrize(
        ("moved", "text"),
        [
            (np.moveaxis(SAMPLES, 0, -1), r"draws look last: try `np.moveaxis\(samples, -1, 0\)`"),
            (SAMPLES.transpose(2, 3, 0, 1), r"try `samples.transpose\(2, 3, 0, 1\)`"),
            (SAMPLES[:, 0], "axis of the simulations is missing"),
            (SAMPLES.reshape(9, 20, 24), r"flat: try `samples.reshape\(9, 20, 4, 6\)`"),
            (SAMPLES[0], r"one draw a simulation, pass `samples\[None\]`"),
            (SAMPLES[:, :, None], r"axes of length 1.*`samples.reshape\(9, 20, 4, 6\)`"),
            (SAMPLES[:, :7], "There are 7 simulations of draws but 20 truths"),
            (SAMPLES[..., :5], "draws are fields of 4 x 5, and the truths fields of 4 x 6"),
        ],
    )  # fmt: skip
    def test_other_mistakes(self, moved, text):
        self.raises(text, moved)

    def test_flat_truths(self):
        self.raises(
            r"truths are flat: try `theta.reshape\(20, 4, 6\)`", SAMPLES, THETA.reshape(20, 24)
        )


def noisy(n_sims=60, shape=(4, 6), n_draws=19, seed=1):
    """Return draws of exact posteriors of white fields observed in noise, truths and data."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n_sims, *shape))
    x = theta + rng.normal(size=theta.shape)
    return x / 2 + np.sqrt(0.5) * rng.normal(size=(n_draws, *x.shape)), theta, x


def test_all_that_narrows_keeps_the_shape(tmp_path):
    samples, theta, x = noisy()
    samples[0, 3] = np.nan
    sims = Simulations(samples, theta, x=x, on_invalid="drop")
    assert (sims.n_dropped, sims.shape) == (1, (4, 6))
    assert sims.near(x[0], 10).shape == (4, 6)
    assert sims.hold_out(2)[0].shape == (4, 6)
    assert sims.near(x[0], 10, samples=samples[:, 0]).n_sims == 10


def test_draws_of_unequal_number():
    sims = Simulations([SAMPLES[: 5 + k % 3, k] for k in range(20)], THETA)
    assert (sims.shape, sims.samples.shape) == ((4, 6), (7, 20, 24))


def test_stored_fields_are_read_flat(tmp_path):
    np.save(tmp_path / "s.npy", SAMPLES)
    sims = Simulations(np.load(tmp_path / "s.npy", mmap_mode="r"), THETA)
    assert (sims.shape, sims.samples.shape) == ((4, 6), (9, 20, 24))
    assert (sims.samples[:, 3:5] == SAMPLES[:, 3:5].reshape(9, 2, 24)).all()
    assert (tarpon.sbc(sims, rng=0).p_values == tarpon.sbc(SAMPLES, THETA, rng=0).p_values).all()


def test_scores_of_your_own_see_fields():
    seen = []

    def peak(theta, x):
        seen.append(theta.shape[2:])
        return theta.max(axis=(-1, -2))

    samples, theta, _ = noisy()
    tarpon.check(samples, theta, scores={"peak": peak}, n_swaps=99, rng=0)
    assert set(seen) == {(4, 6)}


def test_references_may_be_fields():
    centre = np.zeros((4, 6))
    fixed, flat = (tarpon.references.Fixed(points) for points in (centre, centre.ravel()))
    found = [tarpon.tarp(SAMPLES, THETA, reference=one, rng=0).p_value for one in (fixed, flat)]
    assert found[0] == found[1]


def test_samplers_return_fields():
    _, theta, x = noisy()

    def sampler(x, n_draws, rng):
        return x / 2 + np.sqrt(0.5) * rng.normal(size=(n_draws, *x.shape))

    sims = tarpon.from_sampler(sampler, theta, x, n_draws=9, rng=0, n_workers=1)
    assert (sims.shape, sims.n_draws) == ((4, 6), 9)
    with pytest.raises(RuntimeError, match=r"returned draws \(9, 24\), not \(9, 4, 6\)"):
        tarpon.from_sampler(
            lambda x, n, rng: rng.normal(size=(n, x.size)), theta, x, n_draws=9, rng=0, n_workers=1
        )


def test_monitors_take_fields():
    samples, theta, _ = noisy()
    assert tarpon.Monitor(rng=0).add(samples, theta).n_sims == 60
    one = tarpon.Monitor(rng=0).add(samples[:, :1], theta[:1])
    assert "theta[3, 5]" in one._stakes.names


class TestFiles:
    """Fields in files, by shape and by the names of their axes."""

    def test_archives_and_tensors(self, tmp_path):
        np.savez(tmp_path / "a.npz", samples=SAMPLES, theta=THETA)
        np.save(tmp_path / "s.npy", SAMPLES)
        np.save(tmp_path / "t.npy", THETA)
        for sims in (
            files.load(tmp_path / "a.npz"),
            files.load(tmp_path / "s.npy", theta=tmp_path / "t.npy"),
        ):
            assert (sims.shape, sims.names[9]) == ((4, 6), "theta[1, 3]")
        assert "fields of 4 x 6" in str(files.inspect(tmp_path / "a.npz"))

    def test_hdf5_and_zarr(self, tmp_path):
        h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["samples"], file["theta"] = SAMPLES, THETA
        group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=3)
        group.create_array("samples", data=SAMPLES, chunks=(9, 5, 2, 6))
        group.create_array("theta", data=THETA)
        for name in ("a.h5", "a.zarr"):
            sims = files.load(tmp_path / name)
            assert sims.shape == (4, 6)
            assert (sims.samples[:, 3:8] == SAMPLES[:, 3:8].reshape(9, 5, 24)).all()

    def test_named_axes_are_brought_into_order(self, tmp_path):
        xarray = pytest.importorskip("xarray")
        posterior = xarray.Dataset({"kappa": (("draw", "sim", "lat", "lon"), SAMPLES)})
        true = xarray.Dataset({"kappa": (("sim", "lon", "lat"), THETA.swapaxes(1, 2))})
        path = tmp_path / "a.nc"
        posterior.to_netcdf(path, group="posterior", engine="h5netcdf")
        true.to_netcdf(path, group="true_parameters", engine="h5netcdf", mode="a")
        sims = files.load(path)
        assert (sims.shape, sims.names[9]) == ((4, 6), "kappa[lat=1, lon=3]")
        assert (sims.theta == THETA.reshape(20, 24)).all()

    def test_arrays_with_named_axes(self):
        xarray = pytest.importorskip("xarray")
        samples = xarray.DataArray(SAMPLES, dims=("draw", "sim", "lat", "lon"))
        theta = xarray.DataArray(THETA, dims=("sim", "lat", "lon"))
        assert Simulations(samples, theta).names[9] == "theta[lat=1, lon=3]"
        with pytest.raises(ValueError, match=r"\(lat, lon\) and \(lon, lat\)"):
            Simulations(samples, theta.transpose("sim", "lon", "lat"))

    def test_bayesflow_of_one_field(self):
        samples = {"kappa": SAMPLES.swapaxes(0, 1)}
        sims = from_bayesflow(samples, {"kappa": THETA})
        assert (sims.shape, sims.names[9]) == ((4, 6), "kappa[1, 3]")
        assert (sims.samples == SAMPLES.reshape(9, 20, 24)).all()

    def test_chains_of_fields_are_thinned(self):
        pytest.importorskip("arviz_stats")
        rng = np.random.default_rng(0)
        chains = rng.normal(size=(2, 300, 20, 4, 6))
        sims = thin(chains, THETA)
        assert sims.shape == (4, 6)


@pytest.mark.parametrize(
    ("mistake", "fix"),
    [
        (lambda s: s.swapaxes(-1, -2), "samples = samples.transpose(0, 1, 3, 2)"),
        (lambda s: s[..., ::-1, :], "samples = np.flip(samples, axis=(2,))"),
        (lambda s: np.rot90(s, axes=(2, 3)), None),
    ],
)
def test_square_fields_that_are_turned_are_recognised(mistake, fix):
    samples, theta, x = noisy(n_sims=200, shape=(5, 5))
    check = tarpon.check(mistake(samples), theta, x=x, n_swaps=99, rng=0)
    advice = check.advice[0]
    assert advice.cause == "order of axes"
    assert fix is None or f"`{fix}`" in str(advice)
    line = str(advice).split("`samples = ")[1].split("`")[0]
    right = eval(line, {"np": np, "samples": mistake(samples)})
    assert (right == samples).all()


def test_fields_that_are_not_turned_have_no_such_advice():
    samples, theta, x = noisy(n_sims=200, shape=(5, 5))
    check = tarpon.check(1.5 * samples, theta, x=x, n_swaps=99, rng=0)
    assert check.outcome == "inaccurate"
    assert "order of axes" not in [advice.cause for advice in check.advice]


class Problem:
    """White fields in noise, with exact posteriors."""

    def prior(self, rng):
        return rng.normal(size=(3, 4))

    def simulate(self, theta, rng):
        return theta + rng.normal(size=theta.shape)

    def posterior(self, x, n_draws, rng):
        return x / 2 + np.sqrt(0.5) * rng.normal(size=(n_draws, *x.shape))

    def log_prob(self, theta, x):
        return -((theta - x / 2) ** 2).sum(axis=(1, 2))


def test_runs_simulate_fields(tmp_path):
    found = [simulated(Problem(), k, 0, 9) for k in range(12)]
    assert found[0]["samples"].shape == (9, 3, 4)
    assert found[0]["log_prob_samples"].shape == (9,)
    assert Simulations(**stacked(found)).shape == (3, 4)


def test_the_command_line_takes_fields(tmp_path):
    samples, theta, x = noisy()
    np.savez(tmp_path / "a.npz", samples=samples, theta=theta, x=x)
    run = CliRunner().invoke(main, ["inspect", str(tmp_path / "a.npz")])
    assert "fields of 4 x 6" in run.output
    command = ["check", str(tmp_path / "a.npz"), "--names", "lat,lon", "--rng", "0"]
    run = CliRunner().invoke(main, command)
    assert run.exit_code == 0, run.output
    assert "60 simulations × 19 draws" in run.output


def test_results_are_resumed_for_the_same_shape_and_names_only(tmp_path):
    samples, theta, _ = noisy()
    engine = tarpon.Engine(resume=tmp_path / "kept")
    first, again = (tarpon.sbc(samples, theta, rng=0, engine=engine) for _ in range(2))
    assert (first.ranks.values == again.ranks.values).all()
    others = (
        Simulations(samples, theta, names=["lat", "lon"]),
        Simulations(samples.reshape(19, 60, 6, 4), theta.reshape(60, 6, 4)),
    )
    for other in others:
        with pytest.raises(ValueError, match="kept"):
            tarpon.sbc(other, rng=0, engine=engine)


def test_large_square_fields_are_looked_at_in_part(tmp_path):
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(12, 30, 20)).astype(np.float32)
    samples = theta + rng.normal(size=(12, 12, 30, 20)).astype(np.float32)
    np.save(tmp_path / "s.npy", samples.swapaxes(0, 1))
    for swapped in (samples.swapaxes(0, 1), np.load(tmp_path / "s.npy", mmap_mode="r")):
        with pytest.warns(UserWarning, match="as many draws as simulations"):
            Simulations(swapped, theta)


def test_regions_and_repairs_take_fields():
    samples, theta, x = noisy(n_sims=300, shape=(2, 3), n_draws=60)
    sims = Simulations(0.7 * samples, theta, x=x)
    cover = tarpon.cover(sims, rng=0)
    inside = cover.holds(theta[:5], samples[:, 0])
    assert (inside == cover.holds(theta[:5].reshape(5, 6), samples[:, 0].reshape(60, 6))).all()
    assert cover.holds(theta[0], samples[:, 0]).shape == (1,)
    with pytest.raises(ValueError, match=r"\(n_draws, 6\)"):
        cover.holds(theta[:5], samples[:, 0, :1])
    repair = tarpon.repair(sims, n_swaps=199, rng=0)
    assert repair(samples[:, 0], x[0], outside=True, rng=0).shape[1:] == (2, 3)
