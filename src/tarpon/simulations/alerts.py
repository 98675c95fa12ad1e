"""Warnings: swapped axes, repeated draws, raw chains."""

import warnings
from typing import TYPE_CHECKING

import numpy as np

from .._base import arrays
from .._base.arrays import power_of_two
from .._base.types import Array, Floats
from . import lattices
from .stored import Stored

if TYPE_CHECKING:
    from . import Simulations

_SWAP_FALSE_ALARM = 1e-6
_SQUARE = 32  # draws and simulations that suffice to see which axis is which
_SQUARE_PARAMETERS, _SQUARE_BYTES, _FEWEST = 16, 2**27, 10  # of which some are looked at
_CHAINS = 64  # simulations that suffice to see whether draws come from a chain
_CHAIN_DRAWS = 2000
_CHAIN_BYTES = 2**24
_LAG = 0.1  # the correlation of neighbouring draws from which they do
_LAGS = 256  # the longest distance of draws that are compared: the number of walkers, say
_LAG_PARAMETERS = 8  # in which draws that are further apart than neighbours are compared
_REPEATED = 0.01  # of the draws, from which on repeats trigger a warning
# Half of either in a first look, at so many draws of so many parameters, needs a second.
_FIRST_DRAWS, _FIRST_SIMS, _FIRST_PARAMETERS = 2**13, 8, 3


def warn_if_square_and_swapped(samples: Array) -> None:
    """Warn if there are as many draws as simulations and the draws seem to lie along axis 1.

    An analysis of variance: the draws of one simulation lie together, so the means over the
    draw axis differ between simulations. When it is the means over the simulation axis that
    differ, the two axes are probably swapped.
    """
    n_draws, n_sims, n_dims = samples.shape
    if n_draws != n_sims or n_draws < 3 or not n_dims:
        return
    corner = _corner(samples)
    if not np.isfinite(corner).all():  # refused by the pass that counts them
        return
    samples = _scaled(corner)
    n_draws = n_sims = len(samples)
    n_dims = samples.shape[2]
    between_sims, between_draws = (samples.mean(axis=axis).var(axis=0) for axis in (0, 1))
    if not (between_draws > between_sims).any():
        return
    from scipy.special import fdtrc

    rest = samples.var(axis=(0, 1)) - between_sims - between_draws
    f_ratio = between_draws / np.maximum(rest, np.finfo(float).tiny) * (n_sims - 1)
    p_value = n_dims * fdtrc(n_draws - 1, (n_draws - 1) * (n_sims - 1), f_ratio)
    if np.any((p_value < _SWAP_FALSE_ALARM) & (between_draws > between_sims)):
        warnings.warn(
            "`samples` has as many draws as simulations, and its draws seem to lie along axis 1: "
            "points that share an index of axis 0 lie together, as the draws of one simulation "
            "do. If so, pass `samples.swapaxes(0, 1)`.",
            stacklevel=4,
        )


def _corner(samples: Array) -> Array:
    """Return as many first draws as first simulations, in some of very many parameters."""
    n_draws, _, n_dims = samples.shape
    some = slice(None, None, -(-n_dims // _SQUARE_PARAMETERS))
    if not isinstance(samples, Stored):
        return arrays.host(samples[:_SQUARE, :_SQUARE, some])
    row = samples.dtype.itemsize * n_draws * n_dims
    n = min(_SQUARE, max(_FEWEST, _SQUARE_BYTES // row))
    return samples[:, :n][:n, :, some]


def _scaled(samples: Array) -> Floats:
    """Return draws times a power of two for each parameter: squares might be out of range."""
    return samples / power_of_two(abs(samples.astype(float)).max(axis=(0, 1)))


def of_draws(sims: "Simulations") -> tuple[str, ...]:
    """Return warnings if draws repeat, or look like a chain."""
    few = _a_few(sims.samples, sims.log_weights)
    return tuple(said for said in (_repeated(*few), _chained(*few)) if said)


def of_chains(sims: "Simulations") -> str | None:
    """Return a warning if the draws of simulations look like a chain; None otherwise."""
    return chained(sims.samples, sims.log_weights)


def chained(samples: Array, log_weights: Array | None) -> str | None:
    """Return a warning if draws correlate, like those of a chain; None otherwise."""
    return _chained(*_a_few(samples, log_weights))


def _a_few(samples: Array, log_weights: Array | None) -> tuple[Floats, Array]:
    """Return the first draws of a few simulations, and whether they weigh anything."""
    some = arrays.host(_first(samples))
    if log_weights is None:
        return some, np.ones(some.shape[:2], dtype=bool)
    return some, arrays.host(log_weights[:_CHAIN_DRAWS, : some.shape[1]]) > -np.inf


def _first(samples: Array) -> Array:
    """Return the first draws of a few simulations, where they are."""
    n_draws, _, n_dims = samples.shape
    few = slice(0, min(_CHAINS, max(1, _CHAIN_BYTES // (8 * n_draws * n_dims))))
    return samples[:, few][:_CHAIN_DRAWS]


def _repeated(some: Floats, there: Array) -> str | None:
    """Return a warning if whole draws of a continuous posterior repeat; None otherwise."""
    n_repeats = 0
    ordered = np.sort(np.where(there, some[..., 0].astype(float), np.nan), axis=0)
    for sim in np.flatnonzero((ordered[1:] == ordered[:-1]).any(axis=0)):
        draws = some[there[:, sim], sim]
        if not lattices.discrete(draws[:, None]).all():
            _, counts = np.unique(draws, axis=0, return_counts=True)
            n_repeats += int((counts - 1).sum())
    share = n_repeats / max(int(there.sum()), 1)
    if share < _REPEATED:
        return None
    return (
        f"{share:.0%} of draws repeat another draw of their simulation: rejected MCMC steps or "
        f"resampling. Thin chains with `tarpon.adapters.chains.thin`, and resample without "
        f"replacement."
    )


def _chained(some: Floats, there: Array) -> str | None:
    """Return a warning if draws correlate with those before them; None otherwise.

    Looks at a few simulations: the correlation of neighbours, over all of their parameters, and
    that of draws further apart, as from walkers that take turns, over some of them.
    """
    about = _standardised(_scaled(some), there[..., None])
    n_dims = some.shape[2]
    lags = _correlations(about[..., :: -(-n_dims // _LAG_PARAMETERS)], there)
    n_pairs = (there[1:] & there[:-1]).sum()
    next_to = float((about[1:] * about[:-1]).sum() / max(n_pairs * n_dims, 1))
    if n_pairs >= 2 and next_to >= max(_LAG, 5 / np.sqrt(n_pairs)):
        found = f"neighbouring draws correlate by {next_to:.2f}, as those of a chain do."
    elif lags[1:].any():
        k = 2 + int(lags[1:].argmax())
        found = (
            f"draws {k} apart correlate by {lags[k - 1]:.2f}, as those of {k} chains or walkers "
            f"that take turns do."
        )
    else:
        return None
    return (
        f"{found} Ranks among them look overconfident: thin the chains first, with "
        f"`tarpon.adapters.chains.thin`."
    )


def _standardised(some: Floats, there: Array) -> Floats:
    """Return draws about their mean and in units of their sd, without what simulations share."""
    about = (some - (there * some).sum(axis=0) / there.sum(axis=0)) * there
    square = (about**2).sum(axis=0) / there.sum(axis=0)
    varies = (some.max(axis=0) > some.min(axis=0)) & (square > 0)
    about /= np.sqrt(np.where(varies, square, np.inf))
    if about.shape[1] > 1:  # what all simulations share is no chain
        about = (about - about.mean(axis=1, keepdims=True)) * there
    return about


def _correlations(about: Floats, there: Array) -> Floats:
    """Return the correlations of draws 1, 2, ... apart; 0 for those that may be due to chance.

    Each is significant by six standard errors: the false-alarm rate of all is below 1e-6.
    """
    n_draws = len(about)
    n_lags = min(_LAGS, n_draws // 2)

    def products(numbers: Floats) -> Floats:
        waves = np.fft.rfft(numbers, n=2 * n_draws, axis=0)
        power = (abs(waves) ** 2).reshape(len(waves), -1).sum(axis=1)
        return np.fft.irfft(power, n=2 * n_draws)[1 : n_lags + 1]

    n_pairs = products(there.astype(float)).clip(min=1)
    found = products(about) / (n_pairs * about.shape[2])
    return np.where(found >= np.maximum(_LAG, 6 / np.sqrt(n_pairs)), found, 0.0)


def warn_if_chained(samples: Array, log_weights: Array | None) -> None:
    """Warn of draws in memory that repeat or look like a chain."""
    if isinstance(samples, Stored):
        return
    if log_weights is None and not _suspicious(_first(samples)):
        return
    few = _a_few(samples, log_weights)
    if not np.isfinite(few[0]).all():  # refused by the pass that counts them
        return
    for said in (_repeated(*few), _chained(*few)):
        if said is not None:
            warnings.warn(said, stacklevel=3)


def _suspicious(some: Array) -> bool:
    """Return whether a look at a few of the draws calls for one at all of them."""
    n_draws, _, n_dims = some.shape
    n_sims = max(_FIRST_SIMS, _FIRST_DRAWS // n_draws)
    few = arrays.host(some[:, :n_sims, :: -(-n_dims // _FIRST_PARAMETERS)]).astype(np.float64)
    few = np.ascontiguousarray(few.T)
    if n_draws < 3 or not np.isfinite(few).all():
        return True
    ordered = np.sort(few[0], axis=-1)
    repeated = (ordered[:, 1:] == ordered[:, :-1]).mean() >= _REPEATED / 2
    return bool(repeated) or bool((_around(few) >= _LAG / 2).any())


def _around(few: Floats) -> Floats:
    """Return the correlations of draws 1, 2, ... apart, as if the last came before the first.

    Arguments:
        few: Draws of shape `(n_dims, n_sims, n_draws)`.
    """
    n_draws = few.shape[-1]
    about = few - few.mean(axis=-1, keepdims=True)
    about /= np.maximum(abs(about).max(axis=-1, keepdims=True), np.finfo(float).tiny)
    power = np.square(abs(np.fft.rfft(about)))
    total = np.maximum(power.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
    products = np.fft.irfft((power / total).mean(axis=(0, 1)), n=n_draws)
    return products[1 : min(_LAGS, n_draws // 2) + 1] / max(products[0], np.finfo(float).tiny)
