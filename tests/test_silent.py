"""What used to be wrong without a word: each with a twin that must go through, or be found."""

import numpy as np
import pytest

import tarpon
from tarpon import Monitor, Simulations

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
