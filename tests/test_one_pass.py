"""Whole calls read plain arrays once: what was a pass of its own is noticed while counting."""

import numpy as np
import pytest

import tarpon
from tarpon import Simulations, metrics, references
from tarpon.backends import _kernels, _numpy, watched
from tarpon.simulations import Deferred, alerts, boxes
from tarpon.simulations.boxes import sampled_box

BAD = [np.nan, np.inf, -np.inf]


def both_orders(samples):
    return samples, np.ascontiguousarray(samples.swapaxes(0, 1)).swapaxes(0, 1)


def posteriors(n_draws, n_sims, n_dims, dtype="f4", seed=0):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n_sims, n_dims)).astype(dtype)
    return (theta + rng.normal(size=(n_draws, n_sims, n_dims))).astype(dtype), theta


class TestKernels:
    @pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
    @pytest.mark.parametrize("n_dims", [1, 2, 5, 8, 13, 40])
    def test_a_single_number_is_noticed(self, n_dims, dtype):
        samples, theta = posteriors(37, 6, n_dims, dtype)
        centres, ones = np.zeros((6, n_dims)), np.ones(n_dims)
        period = np.where(np.arange(n_dims) % 2, np.inf, 9.0)
        functions = {
            "closer": lambda s, t: _kernels.closer(s, t, centres, ones),
            "closer_l1": lambda s, t: _kernels.closer_l1(s, t, centres, ones),
            "closer_periodic": lambda s, t: _kernels.closer_periodic(s, t, centres, ones, period),
            "smaller": _kernels.smaller,
            "definition": _numpy.smaller,
        }
        for function in functions.values():
            for k, value in enumerate(BAD):
                broken = samples.copy()
                broken[11 * k, 5, -1] = value
                for ordered in (*both_orders(broken), broken[::-1, ::-1]):
                    assert not self.finite(function, ordered, theta)
            for ordered in both_orders(samples):
                assert self.finite(function, ordered, theta)

    @pytest.mark.parametrize("backend", [_kernels, _numpy])
    def test_so_is_a_truth(self, backend):
        samples, theta = posteriors(37, 6, 3)
        theta[3, 0] = np.inf
        assert not self.finite(backend.smaller, samples, theta)

    def test_so_it_is_for_several_centres(self):
        samples, theta = posteriors(400, 6, 40)
        centres = np.zeros((6, 20, 40))

        def count(s, t):
            return _kernels.closer(s, t, centres, np.ones(40))

        assert self.finite(count, samples, theta)
        samples[399, 5, 39] = np.nan
        assert not self.finite(count, samples, theta)

    def test_whole_numbers_are_finite(self):
        samples = np.arange(60).reshape(5, 4, 3)
        for ordered in both_orders(samples):
            assert self.finite(_kernels.smaller, ordered, samples[0])

    def finite(self, function, samples, theta):
        with watched() as sums:
            function(samples, theta)
        return sums.finite


class TestValidation:
    """Plain arrays are refused with the words of `Simulations`, whichever pass finds out."""

    @pytest.mark.parametrize("value", BAD)
    @pytest.mark.parametrize("shape", [(20, 30, 3), (30, 30, 3), (700, 300, 21), (300, 700, 21)])
    def test_invalid_simulations_are_named(self, shape, value):
        samples, theta = posteriors(*shape)
        samples[-1, 7, 1] = samples[2, 17, 2] = value
        said = self.said(lambda: Simulations(samples, theta))
        assert said.startswith(f"2 of {shape[1]} simulations hold NaN or infinite values, the")
        for ordered in both_orders(samples):
            for call in self.calls(ordered, theta):
                assert self.said(call) == said

    def test_truths_are_too(self):
        samples, theta = posteriors(700, 300, 21)
        theta[7, 20] = np.inf
        said = self.said(lambda: Simulations(samples, theta))
        for call in self.calls(samples, theta):
            assert self.said(call) == said

    def test_so_are_log_densities(self):
        densities, truths = (a[..., 0] for a in posteriors(50, 30, 1))
        for value in (np.nan, np.inf):
            broken, untrue = densities.copy(), truths.copy()
            broken[3, 4] = untrue[4] = value
            for pair in ((broken, truths), (densities, untrue)):
                said = self.said(lambda pair=pair: Simulations.of_densities(*pair))
                assert self.said(lambda pair=pair: tarpon.hpd(*pair)) == said

    def test_a_density_of_zero_is_an_answer(self):
        densities, truths = (a[..., 0] for a in posteriors(50, 30, 1))
        densities[3, 4] = truths[5] = -np.inf
        assert tarpon.hpd(densities, truths, rng=0).ranks.values[5] == 50

    def test_large_numbers_are_refused_or_counted(self):
        samples, theta = posteriors(700, 300, 21)
        samples[0, 7] = 3e38
        with pytest.raises(ValueError, match="leave no room to compute in single precision"):
            tarpon.tarp(samples, theta, rng=0)
        small = samples.astype(float), theta.astype(float)
        assert tarpon.sbc(*small, rng=0).ranks.values.max() <= 700

    def calls(self, samples, theta):
        fixed = references.Fixed(np.zeros(theta.shape[1]))
        yield lambda: tarpon.tarp(samples, theta, rng=0)
        yield lambda: tarpon.tarp(samples, theta, rng=0, reference=fixed)
        yield lambda: tarpon.tarp(samples, theta, rng=0, reference=references.Centre())
        yield lambda: tarpon.tarp(samples, theta, rng=0, reference=references.Posterior())
        yield lambda: tarpon.tarp(samples, theta, rng=0, metric=metrics.L1(1.0))
        yield lambda: tarpon.tarp(samples, theta, rng=0, metric=metrics.Lp(3.0))
        yield lambda: tarpon.sbc(samples, theta, rng=0)

    def said(self, call):
        with pytest.raises(ValueError, match="NaN or infinite") as error:
            call()
        return str(error.value)


def test_arrays_and_simulations_give_the_same_answer():
    samples, theta = posteriors(700, 300, 21)
    sims = Simulations(samples, theta)
    for test in (tarpon.tarp, tarpon.sbc):
        of_arrays, of_simulations = test(samples, theta, rng=0), test(sims, rng=0)
        np.testing.assert_array_equal(of_arrays.ranks.values, of_simulations.ranks.values)


class TestSampledBox:
    def test_it_is_the_box_of_few_numbers(self):
        sims = Simulations(*posteriors(20, 30, 3))
        np.testing.assert_array_equal(sampled_box(sims), sims.box)

    def test_it_lies_in_the_box_of_many(self, tmp_path):
        samples, theta = posteriors(700, 300, 21)
        sims = Simulations(samples, theta)
        low, high = sampled_box(sims)
        assert (low >= sims.box[0]).all()
        assert (high <= sims.box[1]).all()
        np.testing.assert_array_equal(sims.box[0], samples.min(axis=(0, 1)).clip(max=theta.min(0)))
        np.save(tmp_path / "draws.npy", samples)
        stored = Simulations(np.load(tmp_path / "draws.npy", mmap_mode="r"), theta)
        np.testing.assert_array_equal(sampled_box(stored), (low, high))
        np.testing.assert_array_equal(sampled_box(Deferred(samples, theta)), (low, high))

    def test_it_does_not_tell_truths_from_draws(self):
        samples, theta = posteriors(700, 300, 21)
        low, high = sampled_box(Simulations(samples, theta))
        for draw in (0, 350, 699):
            swapped = samples.copy()
            swapped[draw] = theta
            np.testing.assert_array_equal(
                sampled_box(Simulations(swapped, samples[draw])), (low, high)
            )

    def test_ranks_stay_uniform_and_would_not_with_a_box_of_truths(self, monkeypatch):
        # With one draw, the ranks of an exact posterior are 0 or 1 with equal probability: of
        # 4000, the number of ones is within five standard deviations, 158, of 2000 in all but
        # 6e-7 of cases.
        monkeypatch.setattr(boxes, "_BOX_NUMBERS", 0)
        monkeypatch.setattr(boxes, "_SAMPLED_NUMBERS", 0)
        monkeypatch.setattr(boxes, "_FEWEST_SAMPLED", 2)
        assert abs(self.n_ones() - 2000) < 158
        of_truths = lambda sims, step: (sims.theta[::step].min(0), sims.theta[::step].max(0))  # noqa: E731
        monkeypatch.setattr(boxes, "_sampled", of_truths)
        assert abs(self.n_ones() - 2000) > 158

    def n_ones(self):
        rng = np.random.default_rng(0)
        points = rng.normal(size=(1000, 2, 4, 2))
        return sum(
            int(tarpon.tarp(draws[:1], draws[1], rng=seed).ranks.values.sum())
            for seed, draws in enumerate(points)
        )


class TestFirstLook:
    """A look at a few draws decides whether more are looked at for chains and repeats."""

    @pytest.mark.parametrize("n_walkers", [1, 7])
    def test_chains_are_still_found(self, n_walkers):
        rng = np.random.default_rng(0)
        chains = rng.normal(size=(1000, 200, 4))
        for j in range(n_walkers, 1000):
            chains[j] = 0.2 * chains[j - n_walkers] + np.sqrt(1 - 0.04) * chains[j]
        with pytest.warns(UserWarning, match=r"correlate by 0\.(19|20)"):
            alerts.warn_if_chained(chains, None)

    def test_repeats_are_still_found(self):
        draws = np.random.default_rng(0).normal(size=(1000, 200, 4))
        draws[100:115] = draws[:15]
        with pytest.warns(UserWarning, match="of draws repeat another draw"):
            alerts.warn_if_chained(draws, None)

    def test_independent_draws_need_no_second_look(self):
        for seed in range(20):
            draws = np.random.default_rng(seed).normal(size=(1000, 64, 3))
            assert not alerts._suspicious(draws)
