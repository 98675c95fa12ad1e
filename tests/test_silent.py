"""What used to be wrong without a word: each with a twin that must go through, or be found."""

import json
from functools import cache

import numpy as np
import pytest
from click.testing import CliRunner

import tarpon
from tarpon import Monitor, Simulations, metrics, regions
from tarpon.adapters import files
from tarpon.cli import main
from tarpon.references import Centre, Fixed, Learned, Normal, Posterior, Several, Uniform
from tarpon.simulations.dropping import Dropping

FALSE_ALARM = 1e-6  # of each statistical test, should a seed or a stream ever change


def study(n_sims=200, n_dims=2, n_draws=99, *, width=1.0, seed=0):
    """Return draws, truths and observations of normal posteriors, exact where the width is 1."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n_sims, n_dims))
    x = theta + 0.5 * rng.normal(size=theta.shape)
    draws = 0.8 * x + width * np.sqrt(0.2) * rng.normal(size=(n_draws, n_sims, n_dims))
    return draws, theta, x


class TestMasksAreNaN:
    draws, theta, x = study()

    def masked(self, values, where=(3, 5)):
        """Return values with one of them masked, the fill value below the mask."""
        values = np.ma.array(values, copy=True)
        values[where] = 9999
        values[where] = np.ma.masked
        return values

    def every(self):
        """Yield one masked simulation in all that may be masked."""
        masked, whole = self.masked(self.draws), (100 * self.draws).astype(np.int32)
        yield masked, self.theta
        yield self.masked(self.draws.astype(np.float32)), self.theta
        yield self.masked(whole), (100 * self.theta).astype(np.int32)
        yield [masked[:, i] for i in range(200)], self.theta
        yield list(masked), self.theta
        yield self.draws, self.masked(self.theta, (5, 1))
        yield self.draws, self.masked((100 * self.theta).astype(np.int16), (5, 1))

    def test_and_refused(self):
        for samples, theta in self.every():
            with pytest.raises(ValueError, match=r"1 of 200 simulations hold NaN.*at index 5"):
                Simulations(samples, theta)
            with pytest.raises(ValueError, match="1 of 200 simulations hold NaN"):
                Monitor(rng=0).add(samples, theta)

    def test_or_dropped(self):
        for samples, theta in self.every():
            assert Simulations(samples, theta, on_invalid="drop").n_dropped == 1

    def test_in_memory_as_where_they_are_stored(self):
        array = pytest.importorskip("dask.array")
        xarray = pytest.importorskip("xarray")
        for masked in (self.masked(self.draws), self.masked((100 * self.draws).astype(int))):
            lazy = array.from_array(masked, chunks=(99, 50, 2), asarray=False)
            results = [
                tarpon.sbc(Simulations(samples, self.theta, on_invalid="drop"), rng=0)
                for samples in (masked, lazy, xarray.DataArray(masked), xarray.DataArray(lazy))
            ]
            assert {result.n_dropped for result in results} == {1}
            assert len({result.p_value for result in results}) == 1

    def test_also_those_of_pandas(self):
        pandas = pytest.importorskip("pandas")
        for kind in ("Float64", "Int64"):
            table = pandas.DataFrame((100 * self.theta).round()).astype(kind)
            assert Simulations(self.draws, table).n_sims == 200
            table.iloc[5, 1] = pandas.NA
            with pytest.raises(ValueError, match="at index 5"):
                Simulations(self.draws, table)
        with pytest.raises(TypeError, match="real numbers"):
            Simulations(self.draws, pandas.DataFrame([["a", "b"]] * 200))

    def test_of_densities_and_observations_too(self):
        densities = -np.square(self.draws).sum(axis=-1), -np.square(self.theta).sum(axis=-1)
        with pytest.raises(ValueError, match="1 of 200 simulations hold NaN"):
            tarpon.hpd(self.masked(densities[0]), densities[1])
        with pytest.raises(ValueError, match=r"observations.*must be finite"):
            tarpon.check(self.draws, self.theta, x=self.masked(self.x, (5, 1)), rng=0)

    def test_while_masks_of_nothing_change_nothing(self):
        bare = tarpon.sbc(self.draws, self.theta, rng=0)
        for mask in (False, np.ma.nomask):
            masked = np.ma.array(self.draws, mask=mask)
            assert tarpon.sbc(masked, self.theta, rng=0).p_value == bare.p_value
        assert Simulations(masked, self.theta).samples.base is self.draws


class TestMetricsMeasureSomething:
    exact, wrong = study()[:2], (study()[0] + 3, study()[1])

    @pytest.mark.parametrize(
        ("make", "text"),
        [
            (lambda: metrics.Weighted([0.0, 0.0]), "`weights` must not all be zero"),
            (lambda: metrics.Weighted(0.0), "`weights` must not all be zero"),
            (lambda: metrics.Weighted(np.ma.masked_equal([1.0, 2.0], 2.0)), "must be finite"),
            (lambda: metrics.Mahalanobis([[np.nan]]), "`covariance` must be finite"),
            (lambda: metrics.Mahalanobis([[np.inf, 0], [0, 1]]), "`covariance` must be finite"),
            (lambda: metrics.Mahalanobis([[1, 2], [2, 1]]), "no negative eigenvalue.* -1"),
            (lambda: metrics.Mahalanobis(-np.eye(2)), "no negative eigenvalue"),
            (lambda: metrics.Mahalanobis([[1, 0.9], [0, 1]]), "must be symmetric"),
            (lambda: metrics.Mahalanobis(np.zeros((2, 2))), "must not be zero"),
        ],
    )
    def test_or_cannot_be_made(self, make, text):
        with pytest.raises(ValueError, match=text):
            make()

    @pytest.mark.parametrize(
        "metric",
        [
            metrics.Weighted([0.0, 1.0]),
            metrics.Mahalanobis([[1.0, 0.5], [0.5, 1.0]]),
            metrics.Mahalanobis([[1.0, 0.0], [0.0, 0.0]]),  # one direction does not count
            metrics.Mahalanobis(np.cov(study()[1].T.astype(np.float32))),
            metrics.Mahalanobis(),
            lambda a, b: abs(a - b).sum(-1),
        ],
    )
    def test_and_then_they_tell_right_from_wrong(self, metric):
        assert tarpon.tarp(*self.exact, metric=metric, rng=0).p_value > FALSE_ALARM
        assert tarpon.tarp(*self.wrong, metric=metric, rng=0).p_value < FALSE_ALARM

    @pytest.mark.parametrize("n_dims", [1, 2])
    @pytest.mark.parametrize("reference", [Uniform(), Several(n=2)])
    def test_those_that_do_not_add_up_are_no_several_references(self, reference, n_dims):
        samples, theta = (points[..., :n_dims] for points in self.wrong)
        with pytest.raises(ValueError, match=r"must reduce the last axis.*Add `.sum\(-1\)`"):
            tarpon.tarp(samples, theta, metric=lambda a, b: (a - b) ** 2, reference=reference)

    def test_those_that_overflow_are_refused(self):
        samples, theta = (1e160 * points for points in self.wrong)
        refused = pytest.raises(ValueError, match=r"finite numbers.*overflow")
        with np.errstate(over="ignore"), refused:
            tarpon.tarp(samples, theta, metric=lambda a, b: ((a - b) ** 2).sum(-1), rng=0)

    def test_those_that_are_constant_are_warned_of(self):
        for metric in (metrics.Lp(1e5), lambda a, b: 0 * (a - b).sum(-1)):
            with pytest.warns(UserWarning, match="as far from its reference as the truth"):
                tarpon.tarp(*self.wrong, metric=metric, rng=0)


class TestReferencesKnowNoTruth:
    samples, theta, _ = study(n_draws=19)

    def points(self):
        """Yield references made of the truths."""
        yield self.theta
        yield self.theta.astype(np.float32).astype(float)
        yield np.stack([self.theta + 1, self.theta], axis=1)

    @pytest.mark.parametrize("n_sims", [10, 200])
    def test_or_are_refused(self, n_sims):
        for points in self.points():
            samples, theta = self.samples[:, :n_sims], self.theta[:n_sims]
            if points.ndim == 2 and (points != self.theta).any():
                samples = samples.astype(np.float32)  # truths get no more digits than draws
            with pytest.raises(ValueError, match="references are the truths under test"):
                tarpon.tarp(samples, theta, reference=_At(points[:n_sims]), rng=0)

    def test_of_integers_too(self):
        samples, theta = self.samples.round().astype(int), self.theta.round().astype(int)
        with pytest.raises(ValueError, match="references are the truths under test"):
            tarpon.tarp(samples, theta, reference=Fixed(theta), rng=0)

    def test_nor_a_draw_that_is_ranked(self):
        with pytest.raises(ValueError, match=r"are draw 3 of every simulation.*Posterior\(\)"):
            tarpon.tarp(self.samples, self.theta, reference=Fixed(self.samples[3]), rng=0)
        held = Fixed(self.samples[-1])
        alone = tarpon.tarp(self.samples[:-1], self.theta, reference=held, rng=0)
        assert alone.p_value > FALSE_ALARM

    @pytest.mark.parametrize("n_values", [2, 5])
    def test_while_others_may_meet_truths_by_chance(self, n_values):
        rng = np.random.default_rng(0)
        points = rng.integers(n_values, size=(21, 300, 2))
        for n_sims in (3, 20, 300):
            result = tarpon.tarp(
                points[2:, :n_sims], points[0, :n_sims], reference=Fixed(points[1, :n_sims]), rng=0
            )
            assert result.p_value > FALSE_ALARM

    def test_nor_do_weights_make_truths_of_them(self):
        """Truths are 0 or 1 as often as draws by their weight, and far more often than draws."""
        rng = np.random.default_rng(0)
        draws, theta = rng.integers(50, size=(200, 300, 1)), rng.integers(2, size=(300, 1))
        log_weights = [np.where(points < 2, 0.0, -30.0)[..., 0] for points in (draws, theta)]
        sims = Simulations(
            draws, theta, log_weights=log_weights[0], log_weights_theta=log_weights[1]
        )
        points = Fixed(rng.integers(2, size=(300, 1)))
        assert tarpon.tarp(sims, reference=points, rng=0).p_value > FALSE_ALARM


class _At:
    """References of a user's own."""

    def __init__(self, points):
        self.points = points

    def draw(self, sims, rng):
        return self.points


class TestMonitorsAskWhatTheyAreGiven:
    samples, theta, _ = study(n_sims=300, n_dims=1)

    def test_many_simulations_of_one_parameter_or_one_of_many(self):
        samples, theta = self.samples[..., 0], self.theta[:, 0]
        with pytest.raises(ValueError, match="one simulation of 300 parameters, or 300 simul"):
            Monitor(rng=0).add(samples, theta)
        assert Monitor(rng=0).add(samples[..., None], theta[:, None]).n_sims == 300
        assert Monitor(rng=0).add(samples[:, None], theta[None]).n_sims == 1
        named = [f"pixel {k}" for k in range(300)]
        assert Monitor(rng=0).add(samples, theta, names=named).n_sims == 1

    def test_once(self):
        monitor = Monitor(rng=0).add(self.samples[None, :, :, 0].swapaxes(0, 1), self.theta.T)
        assert monitor.add(self.samples[..., 0], self.theta[:, 0]).n_sims == 2

    def test_and_not_where_it_is_clear(self):
        assert Monitor(rng=0).add(self.samples[:, 0, 0], self.theta[0, 0]).n_sims == 1
        assert Monitor(rng=0).add(self.samples[:, :10, 0], self.theta[:10, 0]).n_sims == 1
        rows = list(self.samples.swapaxes(0, 1))
        assert Monitor(rng=0).add(rows, self.theta[:, 0]).n_sims == 300


@cache
def planned(level):
    return tarpon.plan(2, bias=0.5, n_draws=20, level=level, rng=0)


class TestPlansReachTheirLevel:
    def test_and_need_more_simulations_the_lower_it_is(self):
        plans = [planned(level) for level in (0.05, 0.01, 0.0015, 0.0009, 0.0002)]
        needed = [plan.n_sims[20] for plan in plans]
        assert needed == sorted(needed)
        assert needed[-1] < 1000
        assert [plan.n_swaps for plan in plans] == [999, 999, 3333, 5555, 24999]
        assert "n_swaps" not in str(plans[0])
        assert "with `check(..., n_swaps=5555)`" in str(plans[3])

    def test_and_the_check_that_they_plan_finds_the_error(self, request):
        """Of ten studies, with 90 % power planned, at most two find it with probability 4e-7."""
        plan = planned(0.0009)
        request.getfixturevalue("nothing_planted")
        found = 0
        for seed in range(10):
            rng = np.random.default_rng(seed)
            samples = rng.normal(size=(20, plan.n_sims[20], 2))
            theta = rng.normal((0.5, 0.0), size=(plan.n_sims[20], 2))
            check = tarpon.check(samples, theta, level=0.0009, n_swaps=plan.n_swaps, rng=0)
            found += check.outcome == "inaccurate"
        assert found > 2

    @pytest.mark.parametrize(
        ("n_dims", "more"),
        [(10**6, {}), (10, {"level": 1e-9}), (1, {"level": 1e-320}), (2, {"n_draws": 10**8})],
    )
    def test_or_say_how_much_memory_they_would_take(self, n_dims, more):
        with pytest.raises(ValueError, match=r"would take .* GB of memory"):
            tarpon.plan(n_dims, bias=0.3, **more, rng=0)


class TestMissingChunksAreNamed:
    samples, theta, _ = study()
    kinds = pytest.mark.parametrize(
        "more",
        [{"compressors": None}, {}, {"shards": (99, 40, 2)}],
        ids=["plain", "packed", "sharded"],
    )

    def store(self, path, samples=None, **more):
        zarr = pytest.importorskip("zarr")
        group = zarr.create_group(path)
        samples = self.samples if samples is None else samples
        chunks = tuple(20 if n == 200 else n for n in samples.shape)
        group.create_array("samples", data=samples, chunks=chunks, **more)
        group.create_array("theta", data=self.theta)
        return group

    def lose(self, path, *lost):
        for chunk in lost:
            (path / "samples" / chunk).unlink()

    @kinds
    def test_with_their_array(self, tmp_path, more):
        path = tmp_path / "a.zarr"
        group = self.store(path, **more)
        n = 5 if "shards" in more else 10
        self.lose(path, "c/0/3/0")
        text = rf"a.zarr/samples' lacks 1 of {n} chunks \(c/0/3/0\), which are read as 0.0"
        with pytest.warns(UserWarning, match=text):
            files.load(path)
        with pytest.warns(UserWarning, match=text):
            Simulations(group["samples"], self.theta)
        self.lose(path, "c/0/0/0", "c/0/1/0", "c/0/2/0")
        with pytest.warns(UserWarning, match=rf"4 of {n} chunks \(c/0/0/0, .*, c/0/2/0, …\)"):
            files.load(path)

    @kinds
    def test_and_only_those(self, tmp_path, more):
        """A chunk of zeros that was written is there."""
        samples = self.samples.copy()
        samples[:, 40:80] = 0.0
        for k, kept in enumerate(({}, {"config": {"write_empty_chunks": True}})):
            path = tmp_path / f"{k}.zarr"
            self.store(path, samples if kept else None, **more, **kept)
            np.testing.assert_array_equal(
                files.load(path).samples[:, :], samples if kept else self.samples
            )

    def test_of_stores_that_are_no_folder(self):
        zarr = pytest.importorskip("zarr")
        memory = zarr.storage.MemoryStore()
        group = self.store(memory)
        Simulations(group["samples"], group["theta"])
        del memory._store_dict["samples/c/0/7/0"]
        with pytest.warns(UserWarning, match=r"lacks 1 of 10 chunks \(c/0/7/0\)"):
            Simulations(group["samples"], group["theta"])

    def test_of_turned_arrays(self, tmp_path):
        path = tmp_path / "a.zarr"
        turned = {"dimension_names": ["sim", "param", "draw"]}
        self.store(path, self.samples.transpose(1, 2, 0), **turned)
        assert files.load(path).n_draws == 99
        self.lose(path, "c/4/0/0")
        with pytest.warns(UserWarning, match=r"lacks 1 of 10 chunks \(c/4/0/0\)"):
            files.load(path)

    @pytest.mark.parametrize("chunks", [(99, 20, 2), None], ids=["chunks", "contiguous"])
    def test_that_hdf5_never_wrote(self, tmp_path, chunks):
        h5py = pytest.importorskip("h5py")
        path, n = tmp_path / "a.h5", 10 if chunks else 1
        with h5py.File(path, "w") as file:
            samples = file.create_dataset("samples", (99, 200, 2), "f8", chunks=chunks)
            file["theta"] = self.theta
            if chunks:
                samples[:, :140] = self.samples[:, :140]
        text = rf"'/samples' of '.*a.h5' lacks {3 if chunks else 1} of {n} chunks, .* as 0.0\."
        with pytest.warns(UserWarning, match=text):
            files.load(path)
        with h5py.File(path, "r+") as file:
            with pytest.warns(UserWarning, match=text):
                Simulations(file["samples"], self.theta)
            file["samples"][:] = self.samples
        np.testing.assert_array_equal(files.load(path).samples[:, :], self.samples)

    def test_by_inspect_too(self, tmp_path):
        path = tmp_path / "a.zarr"
        self.store(path)
        assert CliRunner().invoke(main, ["inspect", str(path)]).stdout.count("Warning") == 0
        self.lose(path, "c/0/3/0")
        said = CliRunner().invoke(main, ["inspect", str(path)])
        assert said.exit_code == 0
        assert "lacks 1 of 10 chunks (c/0/3/0)" in " ".join(said.stdout.split())
        said = CliRunner().invoke(main, ["inspect", str(path), "--json"])
        assert "c/0/3/0" in json.loads(said.stdout)["warnings"][0]


POOL = study(n_sims=300, seed=1)


def tarp(**options):
    """Return a test of draws, truths, observations and their unit by TARP."""
    return lambda samples, theta, x, unit: tarpon.tarp(
        samples, theta, x=x, rng=0, **{name: value(unit) for name, value in options.items()}
    )


TESTS = {
    "L2": tarp(),
    "L1": tarp(metric=lambda unit: metrics.L1(), reference=lambda unit: Centre()),
    "Lp": tarp(metric=lambda unit: metrics.Lp(3), reference=lambda unit: Normal()),
    "Weighted": tarp(
        metric=lambda unit: metrics.Weighted([1, 2]), reference=lambda unit: Several(n=2)
    ),
    "Periodic": tarp(metric=lambda unit: metrics.Periodic([40 * unit[0], np.inf])),
    "Mahalanobis": tarp(
        metric=lambda unit: metrics.Mahalanobis(), reference=lambda unit: Posterior()
    ),
    "own scale": tarp(metric=metrics.L2, reference=lambda unit: Fixed(3 * unit)),
    "Learned": tarp(reference=lambda unit: Learned(unit * POOL[1], unit * POOL[2], "ridge")),
    "sbc": lambda samples, theta, x, unit: tarpon.sbc(samples, theta, rng=0),
    "check": lambda samples, theta, x, unit: tarpon.check(samples, theta, n_swaps=99, rng=0),
    "check x": lambda samples, theta, x, unit: tarpon.check(
        samples, theta, x=np.repeat(x, 40, axis=1), n_swaps=99, rng=0
    ),
    "Monitor": lambda samples, theta, x, unit: Monitor(rng=0).add(samples, theta),
    "adversary": lambda samples, theta, x, unit: Monitor(
        adversary=tarpon.adversaries.Quadratic(), rng=0
    ).add(samples, theta, x=x),
}


class TestUnitsDoNotMatter:
    """A power of two changes no digit, so nothing may change; nor by more than chance for 10."""

    exact, theta, x = study(n_sims=100, n_draws=49)
    wrong = exact + 2
    units = (
        2.0**-990,
        2.0**-500,
        2.0**500,
        2.0**990,
        (2.0**-530, 2.0**500),
        (2.0**990, 2.0**-990),
    )

    def p_values(self, test, unit):
        """Return the p-values of exact and of wrong posteriors."""
        unit = np.broadcast_to(np.asarray(unit, dtype=float), (2,))
        more = unit * self.theta, unit * self.x, unit
        return [TESTS[test](unit * samples, *more).p_value for samples in (self.exact, self.wrong)]

    @pytest.mark.parametrize("test", TESTS)
    def test_of_any_parameter(self, test):
        ordinary = self.p_values(test, 1.0)
        assert ordinary[0] > FALSE_ALARM
        assert ordinary[1] <= (0.01 if test.startswith("check") else FALSE_ALARM)
        for unit in self.units:
            assert self.p_values(test, unit) == ordinary, unit

    @pytest.mark.slow
    @pytest.mark.parametrize("test", TESTS)
    def test_in_powers_of_ten(self, test):
        for power in (-300, -200, -100, 1, 100, 200, 300):
            exact, wrong = self.p_values(test, 10.0**power)
            assert exact > FALSE_ALARM
            assert wrong <= (0.01 if test.startswith("check") else FALSE_ALARM)

    @pytest.mark.parametrize("unit", [2.0**-110, 2.0**110, (2.0**-100, 2.0**100)])
    def test_in_single_precision(self, unit):
        samples, theta = self.wrong.astype(np.float32), self.theta.astype(np.float32)
        unit = np.broadcast_to(np.asarray(unit, dtype=np.float32), (2,))
        for test in ("L2", "L1", "Weighted", "check", "Monitor"):
            ordinary, here = (
                TESTS[test](one * samples, one * theta, None, None).p_value
                for one in (np.ones(2, np.float32), unit)
            )
            assert here == ordinary

    def test_where_draws_are_stored_weighted_or_of_unequal_number(self, tmp_path):
        weights = {
            "log_weights": -0.1 * np.square(self.exact).sum(axis=-1),
            "log_weights_theta": -0.1 * np.square(self.theta).sum(axis=-1),
        }
        found = []
        for unit in (1.0, 2.0**-800, 2.0**800):
            samples, theta = unit * self.exact, unit * self.theta
            np.save(tmp_path / "samples.npy", samples)
            stored = np.load(tmp_path / "samples.npy", mmap_mode="r")
            rows = [samples[: 30 + i % 9, i] for i in range(100)]
            studies = [Simulations(stored, theta), Simulations(rows, theta)]
            studies.append(Simulations(samples, theta, **weights))
            checks = [tarpon.check(sims, n_swaps=49, rng=0) for sims in studies]
            found.append([(check.families, check.parameters) for check in checks])
        assert found[0] == found[1] == found[2]

    def test_to_scores_of_ones_own(self):
        """They see parameters in their own units, and so do trends."""
        for unit in (1.0, 2.0**-800, 2.0**800):
            seen = []

            def size(theta, x, unit=unit, seen=seen):
                seen.append(float(abs(theta).max() / unit))
                return theta.sum(axis=-1) / unit

            scores = {
                "sum": size,
                "ball": regions.Balls(np.zeros((100, 2)), metrics.L2(scale=unit)),
                "centre": regions.FromCentre(),
            }
            check = tarpon.check(
                unit * self.wrong, unit * self.theta, scores=scores, n_swaps=49, rng=0
            )
            place = check.evidence.slopes.worst[0].place[0] / unit
            if unit == 1.0:
                expected = max(seen), place, check.p_value
            assert (max(seen), place, check.p_value) == expected

    @pytest.mark.parametrize(
        ("dtype", "unit", "text"),
        [
            (
                float,
                1e302,
                "`theta_0` lies between .* above 1e301 .* double precision. Give it in",
            ),
            (float, 1e-304, "within 1e-301 leave no room to compute in double precision"),
            (np.float32, 1e37, "above 1e36 .* other units or in double precision"),
            (np.float32, 1e-38, "within 1e-36 leave no room to compute in single precision"),
        ],
    )
    def test_or_they_are_refused_where_precision_ends(self, dtype, unit, text):
        with pytest.raises(ValueError, match=text):
            tarpon.tarp((unit * self.exact).astype(dtype), (unit * self.theta).astype(dtype))


class TestDroppingIsNoLuck:
    samples, theta, x = study(n_sims=600, seed=3)

    def dropped(self, failed, **more):
        samples = np.where(failed[:, None], np.nan, self.samples)
        return Simulations(samples, self.theta, on_invalid="drop", **more)

    def by_parameters(self, **more):
        return self.dropped(self.theta[:, 0] > 0.8, **more)

    def by_chance(self, **more):
        return self.dropped(np.random.default_rng(0).random(600) < 0.2, **more)

    def test_where_failures_depend_on_the_parameters(self):
        """An exact posterior looks biased, and nothing calls that exact without a word."""
        check = tarpon.check(self.by_parameters(x=self.x), rng=0)
        assert check.outcome == "inaccurate"
        assert check.dropping.depends_on == ("truths", "x")
        said = str(check)
        assert "(exact only if failures depend on the observations alone, 999 swaps)" in said
        assert "which ones depends on the truths of theta_0 and the observations" in said
        assert "accurate ones look wrong" in said
        assert said.count("exact") == 1
        assert "; in doubt, since which simulations were dropped" in repr(check)
        assert check.to_dict()["dropping"]["depends_on"] == ["truths", "x"]

    @pytest.mark.parametrize("test", [tarpon.tarp, tarpon.sbc])
    def test_other_tests_say_so_too(self, test, tmp_path):
        with pytest.warns(UserWarning, match=r"depends on the truths of theta_0 \(p = 0.001\)"):
            result = test(self.by_parameters(), rng=0)
        assert "in doubt, since which simulations were dropped" in result.verdict
        assert "in doubt" in repr(result)
        result.save(tmp_path / "a.npz")
        again = tarpon.load(tmp_path / "a.npz")
        assert again.verdict == result.verdict
        assert again.to_dict() == result.to_dict()
        assert "in doubt" not in test(self.by_chance(), rng=0).verdict

    def test_monitors_too(self):
        with pytest.warns(UserWarning, match="depends on the truths of theta_0"):
            monitor = Monitor(rng=0).add(self.by_parameters())
        assert "given that the dropped ones failed at random" in repr(monitor)
        assert "at random" not in repr(Monitor(rng=0).add(self.samples, self.theta))

    def test_the_report_says_it_wherever_it_says_exact(self):
        check = tarpon.check(self.by_parameters(), n_swaps=99, rng=0)
        page = " ".join(tarpon.report.html(check).split())
        page = page.replace("exact tests of posterior accuracy", "")  # what to cite
        assert page.count("exact only if failures depend on the observations alone") > 3
        assert page.count("exact") == page.count("exact only if failures")
        assert "<strong>Warning.</strong>" in page

    def test_while_chance_is_what_it_is_given(self):
        check = tarpon.check(self.by_chance(x=self.x), rng=0)
        assert check.p_value > 0.001
        assert check.dropping.depends_on == ()
        assert "(exact given that the dropped ones failed at random, 999 swaps)" in str(check)
        whole = tarpon.check(self.samples, self.theta, x=self.x, rng=0)
        assert "(exact, 999 swaps)" in str(whole)
        assert whole.dropping == Dropping()

    def test_observations_alone_leave_the_answer_exact(self):
        """Truths do not follow these observations, so only those tell."""
        x = np.random.default_rng(1).normal(size=(600, 3))
        check = tarpon.check(self.dropped(x[:, 1] > 1, x=x), n_swaps=99, rng=0)
        assert check.dropping.depends_on == ("x",)
        assert "exact given that failures depend on the observations alone" in str(check)
        assert "depends on the observations (p = 0.002). The answer holds for" in str(check)

    def test_draws_that_fail_by_themselves_are_noticed(self):
        """Those in both tails have no density, so truths are kept there and draws are not."""
        rng = np.random.default_rng(0)
        draws, theta = rng.normal(size=(3, 2000, 1)), rng.normal(size=(2000, 1))
        log_prob = np.where(abs(draws[..., 0]) > 1.5, np.nan, 0.0)
        sims = Simulations(
            draws,
            theta,
            log_prob_samples=log_prob,
            log_prob_theta=np.zeros(2000),
            on_invalid="drop",
        )
        with pytest.warns(UserWarning, match="depends on the draws of theta_0"):
            assert "in doubt" in tarpon.sbc(sims, rng=0).verdict

    def test_both_tails_tell_as_one_does(self):
        assert self.dropped(abs(self.theta[:, 1]) > 1.5)._dropping.where == "theta_1"
        assert self.dropped(abs(self.theta[:, 1]) > 1.5)._dropping.doubtful

    def test_stored_draws_are_compared_as_those_in_memory(self, tmp_path):
        for failed in (self.theta[:, 0] > 0.8, np.random.default_rng(0).random(600) < 0.2):
            samples = np.where(failed[:, None], np.nan, self.samples)
            samples[5:, failed] = self.samples[5:, failed]
            np.save(tmp_path / "samples.npy", samples)
            stored = np.load(tmp_path / "samples.npy", mmap_mode="r")
            found = [
                tarpon.check(
                    Simulations(draws, self.theta, x=self.x, on_invalid="drop"), n_swaps=99, rng=0
                ).dropping
                for draws in (samples, stored)
            ]
            assert found[0] == found[1]
            assert found[0].draws is not None

    def test_truths_that_are_missing_themselves_prove_nothing(self):
        theta = self.theta.copy()
        theta[::7] = np.nan
        dropping = tarpon.sbc(Simulations(self.samples, theta, on_invalid="drop"), rng=0).dropping
        assert dropping.truths is None
        assert dropping.draws is not None
        densities = Simulations.of_densities(
            np.where(np.arange(50) % 5, 0.0, np.nan) + np.zeros((9, 50)),
            np.zeros(50),
            on_invalid="drop",
        )
        assert tarpon.hpd(densities, rng=0).dropping == Dropping()

    @pytest.mark.slow
    def test_failures_at_random_raise_a_false_alarm_in_one_percent(self):
        """Of 200 studies at 1 %, more than 12 raise one with a probability of 2e-7."""
        alarms = 0
        for seed in range(200):
            rng = np.random.default_rng([7, seed])
            theta = rng.normal(size=(60, 2))
            x, draws = theta + rng.normal(size=(60, 2)), theta / 2 + rng.normal(size=(5, 60, 2))
            draws[: rng.integers(1, 6), rng.permutation(60)[:6]] = np.nan
            sims = Simulations(draws, theta, x=x, on_invalid="drop")
            alarms += bool(sims._dropping.depends_on)
        assert alarms <= 12
