"""Neighbours: the simulations that are most like an observation.

What chooses them may depend on observations and on pooled points, the truth as one of them, but
not on which point is the truth: then a test of the chosen ones is as exact as a test of all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._base import arrays
from .._base.arrays import Results, joined
from .._base.types import Array, ArrayLike, Floats, Ints
from . import fields, passes, shapes
from .views import points_alone

if TYPE_CHECKING:
    from . import Simulations

Summary = Callable[[Array], ArrayLike]

MOST_FEATURES = 8  # numbers of an observation; of more, as many principal components
_MOST_COLUMNS = 4096  # of observations of which principal components are taken
_ALIKE = 3.0  # times the noise up to which posterior means count as all the same


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The simulations that are nearest to an observation.

    Arguments:
        places: Their places among all simulations, ascending, `(n,)`.
        distance: The distance of each, `(n,)`.
        measure: What distances are measured by: `"posteriors"`, `"summary(x)"` or `"x"`.
    """

    places: Ints
    distance: Floats
    measure: str


@dataclass(frozen=True, eq=False)
class Observation:
    """What was observed, and the draws of its posterior if they are known.

    Arguments:
        x: The observation, with an axis of length one before its own.
        samples: The draws, `(n_draws, n_dims)`.
    """

    x: Array
    samples: Floats | None = None

    @classmethod
    def of(
        cls, sims: "Simulations", x: ArrayLike, samples: ArrayLike | None = None
    ) -> "Observation":
        """Return an observation that is like those of the simulations, or raise."""
        every = shapes.needs_x(sims.x, "`near`") if sims.x is None else sims.x
        one = shapes.finite("observation", shapes.array("x_o", x))
        if one.shape != every.shape[1:]:
            raise ValueError(
                f"`x_o` must have the shape of one observation, {tuple(every.shape[1:])}, but got "
                f"{one.shape}."
            )
        return cls(one[None], None if samples is None else _draws(sims, samples))


def _draws(sims: "Simulations", samples: ArrayLike) -> Floats:
    draws = shapes.finite("draws", shapes.array("samples", samples)).astype(float)
    draws = fields.flattened(draws, sims.shape)
    if draws.ndim == 3 and draws.shape[1] == 1:
        draws = draws[:, 0]
    if draws.ndim != 2 or draws.shape[1] != sims.n_dims or len(draws) < 2:
        raise ValueError(
            f"`samples` must be the draws of the posterior of `x_o`, "
            f"{fields.listed('n_draws', *sims.shape)}, but got {draws.shape}."
        )
    return draws


def nearest(
    sims: "Simulations", observation: Observation, n: int, summary: Summary | None = None
) -> Neighbours:
    r"""Return the simulations that are nearest to an observation.

    If its posterior is known, by the means :math:`m` and standard deviations :math:`s` of the
    pooled points,

    .. math:: d_i^2 = \frac{1}{2 D} \sum_k \Big(\frac{m_{ik} - m_k}{s_k}\Big)^2
              + \Big(\log \frac{s_{ik}^2}{s_k^2}\Big)^2 ,

    in units of its own posterior, so that the others change nothing among the near ones.
    Otherwise by standardised observations, or by the summary of the user.
    """
    if summary is None and observation.samples is not None:
        measure, d = "posteriors", _from_posterior(summaries(sims), observation.samples)
    else:
        measure = "x" if summary is None else "summary(x)"
        every, _ = features(sims, observation, summary)
        d = np.sqrt(np.square(every[:-1] - every[-1]).mean(axis=1))
    places = np.sort(np.argsort(d, kind="stable")[:n])
    return Neighbours(places, d[places], measure)


def _from_posterior(found: Results, samples: Floats) -> Floats:
    mean, sd = samples.mean(axis=0), samples.std(axis=0)
    sd = np.where(sd > 0, sd, 1.0)
    means, log_variances = (found["mean"] - mean) / sd, 2 * np.log(found["sd"] / sd)
    return np.sqrt(0.5 * (np.square(means) + np.square(log_variances)).mean(axis=1))


def summaries(sims: "Simulations") -> Results:
    """Return the `mean` and `sd` of the pooled points of each simulation, `(n_sims, n_dims)`."""
    return joined(passes.each(points_alone(sims), "summaries", _summaries))


def _summaries(part: "Simulations") -> Results:
    return joined(
        {"mean": arrays.host(block.centre), "sd": arrays.host(block.spread)}
        for piece in passes.pieces(part)
        for block in piece.blocks()
    )


def uninformed(sims: "Simulations") -> bool:
    """Return whether posterior means and widths are all alike, so that they tell nothing."""
    found, n = summaries(sims), sims.draws.fewest + 1
    noise = np.square(found["sd"]).mean(axis=0) / n
    same_means = found["mean"].var(axis=0) <= _ALIKE * noise
    return bool((same_means & (np.log(found["sd"]).var(axis=0) <= _ALIKE / n)).all())


def of_draws(sims: "Simulations", samples: Floats) -> Floats:
    """Return the means and log sds of draws alone, standardised, those of an observation last."""
    found = joined(passes.each(points_alone(sims), "of draws", _of_draws))
    mean = np.concatenate([found["mean"], samples.mean(axis=0)[None]])
    sd = np.concatenate([found["sd"], samples.std(axis=0)[None]])
    both = np.column_stack([mean, np.log(np.where(sd > 0, sd, 1.0))])
    scale = both.std(axis=0)
    return (both - both.mean(axis=0)) / np.where(scale > 0, scale, 1.0)


def _of_draws(part: "Simulations") -> Results:
    found = []
    for piece in passes.pieces(part):
        for block in piece.blocks():
            draws = arrays.double(block.points[1:])
            if block.weighted:
                share = block.weights[1:] / block.weights[1:].sum(axis=0)
                share = arrays.to_device_of(share, draws)[..., None]
            else:
                share = 1 / len(draws)
            mean = (share * draws).sum(axis=0)
            variance = (share * (draws - mean) ** 2).sum(axis=0)
            found.append({"mean": arrays.host(mean), "sd": arrays.host(variance**0.5)})
    return joined(found)


def features(
    sims: "Simulations", observation: Observation, summary: Summary | None = None
) -> tuple[Floats, list[str]]:
    """Return the features of all observations, that of the user last, and their names.

    All are treated alike: standardised numbers that vary, or principal components of many, and
    how much these leave; of shape `(n_sims + 1, n_features)`.
    """
    every, label = np.concatenate([shapes.needs_x(sims.x, "`near`"), observation.x]), "x"
    if summary is not None:
        every, label = shapes.array("summary(x)", summary(every)), "summary(x)"
        if every.ndim == 0 or len(every) != sims.n_sims + 1:
            raise ValueError(
                f"`summary` must return one entry per observation, ({sims.n_sims + 1}, ...), but "
                f"got {every.shape}."
            )
    z, columns = _standardised(every.reshape(len(every), -1).astype(float))
    if len(columns) <= MOST_FEATURES:
        return z, [fields.place(every.shape[1:], int(k), label) for k in columns]
    leading = [f"principal component {k + 1} of {label}" for k in range(MOST_FEATURES)]
    return _principal(z), [*leading, f"the rest of {label}"]


def standardised(every: Floats) -> Floats:
    """Return the columns that vary, standardised; of many the leading principal components."""
    z, columns = _standardised(every)
    return z if len(columns) <= MOST_FEATURES else _principal(z)


def principal(every: Floats, n: int | None = None) -> Floats:
    """Return the leading principal components of standardised columns, and what they leave.

    Arguments:
        every: The rows, `(n_rows, n_columns)`.
        n: The number of first rows that the components are made of; all by default.
    """
    return _principal(_standardised(every, n)[0], n)


def _standardised(every: Floats, n: int | None = None) -> tuple[Floats, Ints]:
    """Return the columns that vary, with mean 0 and sd 1, and which these are; at least one."""
    about = every - every[:n].mean(axis=0)
    scale = about[:n].std(axis=0)
    varies = scale > 1e-9 * abs(every[:n]).max(axis=0, initial=1e-300)
    columns = np.flatnonzero(varies) if varies.any() else np.arange(1)
    return about[:, columns] / np.where(varies, scale, 1.0)[columns], columns


def _principal(z: Floats, n: int | None = None) -> Floats:
    """Return the leading principal components, and how much they leave of each row."""
    if z.shape[1] > _MOST_COLUMNS:  # a sketch, which keeps distances
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(z.shape[1], _MOST_COLUMNS))
        z = z @ signs / np.sqrt(_MOST_COLUMNS)
    axes = np.linalg.svd(z[:n], full_matrices=False)[2][:MOST_FEATURES]
    leading = z @ axes.T
    rest = np.sqrt(np.square(z - leading @ axes).mean(axis=1))
    return np.column_stack([leading, _standardised(np.log(rest + 1e-300)[:, None], n)[0]])
