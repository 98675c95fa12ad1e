"""References: where the credible balls of TARP are centred.

A reference is any object with a method `draw(sims, rng)` that returns one point per simulation,
in parameter units. It may read the observations, and truths and draws together. It must not
depend on which point is the truth, or the ranks of an exact posterior would not be uniform.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.random import Generator

from ._base import arguments, optional
from ._base.arrays import host, long_rows, power_of_two, rounded_like
from ._base.text import clean
from ._base.types import Array, ArrayLike, Floats
from .simulations import Simulations, fields, shapes, weights
from .simulations.boxes import sampled_box

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

__all__ = [
    "Around",
    "Centre",
    "Fixed",
    "HeldOut",
    "Learned",
    "Normal",
    "Posterior",
    "Prior",
    "Reference",
    "Several",
    "Uniform",
]


class HeldOut(NamedTuple):
    """Draws that serve as reference points, and the simulations without these draws."""

    points: Array
    left: Simulations


class Reference(Protocol):
    r"""A distribution :math:`\tilde p(\theta_r | x)` of reference points."""

    def draw(self, sims: Simulations, rng: Generator) -> ArrayLike | HeldOut:
        """Return points of shape `(n_sims, n_dims)`, or a `HeldOut` if the points are draws."""
        ...


@dataclass(frozen=True)
class Uniform:
    r"""Uniform in a box, :math:`\theta_r \sim U(l, h)`, by default the box of all points.

    If truths and draws are more than 4 million numbers, the box is that of every n-th simulation,
    truth and draws, and a pass over all of them is saved. Which simulations these are depends on
    the shape of the data alone.

    Arguments:
        low: Lower corner of shape `(n_dims,)`, or one number for all parameters; by default the
            smallest of the truths and draws.
        high: Upper corner, likewise; by default the largest of the truths and draws.
        part: Two fractions of the sides of the box, between which points are drawn: `(0.0, 0.5)`
            is the lower half of every side.

    Example:
        >>> sims = Simulations(np.zeros((9, 3, 1)), np.ones((3, 1)))
        >>> Uniform(part=(0.9, 1.0)).draw(sims, np.random.default_rng(0)).min() > 0.9
        np.True_
    """

    low: ArrayLike = None
    high: ArrayLike = None
    part: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if not isinstance(self.part, tuple | list) or len(self.part) != 2:
            wanted = "two fractions of the sides of the box, like (0.0, 0.5)"
            raise TypeError(arguments.wrong("part", wanted, self.part))
        start, stop = (arguments.between("part", fraction, 0, 1) for fraction in self.part)
        if start > stop:
            raise ValueError(arguments.wrong("part", "two fractions that rise", self.part))

    def draw(self, sims: Simulations, rng: Generator) -> Floats:
        """Return one point per simulation, uniform in the part of the box."""
        corners = zip(("low", "high"), (self.low, self.high), strict=True)
        low, high = (
            np.broadcast_to(
                _given(name, sampled_box(sims)[k] if corner is None else corner, sims),
                (sims.n_dims,),
            )
            for k, (name, corner) in enumerate(corners)
        )
        if not (low <= high).all():
            raise ValueError(
                f"`low` must not exceed `high`, but got {clean(low)} and {clean(high)}."
            )
        start, stop = self.part
        points = rng.uniform(start, stop, size=(sims.n_sims, sims.n_dims))
        for rows, n in long_rows(points):
            rows *= np.tile(high - low, n)
            rows += np.tile(low, n)
        return points


@dataclass(frozen=True)
class Normal:
    r"""Normal, :math:`\theta_r \sim N(\mu, \mathrm{diag}(s^2))`.

    Arguments:
        mean: Mean :math:`\mu` of shape `(n_dims,)`, by default the centre of the box of
            `Uniform`.
        sd: Standard deviations :math:`s` of shape `(n_dims,)`, by default a tenth of the sides
            of the box.
    """

    mean: ArrayLike = None
    sd: ArrayLike = None

    def draw(self, sims: Simulations, rng: Generator) -> Floats:
        """Return one point per simulation, normal around the mean."""
        mean = _centre(sims) if self.mean is None else _given("mean", self.mean, sims)
        sd = _sides(sims) / 10 if self.sd is None else _given("sd", self.sd, sims)
        if (sd < 0).any():
            raise ValueError(f"`sd` must not be negative, but got {clean(sd)}.")
        return rng.normal(mean, abs(sd), size=(sims.n_sims, sims.n_dims))


@dataclass(frozen=True, eq=False, repr=False)
class Fixed:
    """Your own points, the same for all simulations or one per simulation.

    They must not be the truths under test, nor draws that are ranked: those are refused.

    Arguments:
        points: Points of shape `(n_dims,)` or `(n_sims, n_dims)`, in parameter units.
    """

    points: ArrayLike

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", shapes.array("points", self.points))

    def draw(self, sims: Simulations, rng: Generator) -> Array:
        """Return the points, a single one repeated for all simulations."""
        points = fields.flattened(self.points, sims.shape)
        shape = (sims.n_sims, sims.n_dims)
        if points.shape not in (shape, shape[1:]) and not (points.ndim == 0 and shape[1] == 1):
            raise ValueError(
                f"`points` of `Fixed` must be of shape ({shape[1]},) or {shape}, but got "
                f"{points.shape}."
            )
        return np.broadcast_to(points, shape)

    def __repr__(self) -> str:
        return f"Fixed(points of shape {np.shape(self.points)})"


@dataclass(frozen=True, eq=False, repr=False)
class Prior:
    r"""Draws from the prior, :math:`\theta_r \sim p(\theta)`.

    Arguments:
        source: Points `(n, n_dims)` to choose from at random, other than the truths under test;
            or a sampler, `source(n, rng)`, that returns `n` points.

    Example:
        >>> sims = Simulations(np.zeros((9, 3, 2)), np.ones((3, 2)))
        >>> prior = Prior(lambda n, rng: rng.normal(size=(n, 2)))
        >>> prior.draw(sims, np.random.default_rng(0)).shape
        (3, 2)
    """

    source: ArrayLike | Callable[[int, Generator], ArrayLike]

    def __post_init__(self) -> None:
        if callable(self.source):
            arguments.function("source", self.source, "points, or a function of n and rng")
        else:
            object.__setattr__(self, "source", shapes.array("source", self.source))

    def draw(self, sims: Simulations, rng: Generator) -> Array:
        """Return one point per simulation, chosen or sampled."""
        if callable(self.source):
            return shapes.array("source", self.source(sims.n_sims, rng))
        points = fields.flattened(self.source, sims.shape)
        points = points[:, None] if points.ndim == 1 and sims.n_dims == 1 else points
        if points.ndim != 2 or points.shape[1] != sims.n_dims or not len(points):
            raise ValueError(
                f"`source` of `Prior` must be points of shape (n, {sims.n_dims}), but got "
                f"{points.shape}."
            )
        _refuse_shared_rows(points, sims.theta, "Prior")
        return points[rng.integers(len(points), size=sims.n_sims)]

    def __repr__(self) -> str:
        kind = "sampler" if callable(self.source) else f"points of shape {np.shape(self.source)}"
        return f"Prior({kind})"


@dataclass(frozen=True)
class Several:
    """Several reference points per simulation, counted together, each with its own curve.

    Arguments:
        reference: Reference to draw the points from.
        n: Number of points per simulation.

    Example:
        >>> sims = Simulations(np.zeros((9, 3, 2)), np.ones((3, 2)))
        >>> Several(Uniform(), n=10).draw(sims, np.random.default_rng(0)).shape
        (3, 10, 2)
    """

    reference: Reference = Uniform()
    n: int = 10

    def __post_init__(self) -> None:
        arguments.function("reference", self.reference, "a reference with `draw`", "draw")
        arguments.positive("n", self.n)

    def draw(self, sims: Simulations, rng: Generator) -> Floats:
        """Return `n` points per simulation, `(n_sims, n, n_dims)`."""
        n_bytes = 32.0 * self.n * sims.n_sims * sims.n_dims
        advice = "Ask for fewer points per simulation."
        arguments.affordable(n_bytes, f"`n` = {arguments.shown(self.n)} of `Several`", advice)
        drawn = [self.reference.draw(sims, rng) for _ in range(self.n)]
        if any(isinstance(points, HeldOut) for points in drawn):
            raise ValueError(
                "`Several` cannot wrap a reference that holds draws out, such as `Posterior`. "
                "Wrap another reference."
            )
        checked = [reference_points(points, sims.n_sims, sims.shape) for points in drawn]
        return np.stack(checked, axis=1)


@dataclass(frozen=True)
class Posterior:
    r"""A draw from the posterior itself, :math:`\theta_r \sim \hat p(\theta | x)`.

    The last draw of each simulation is held out as its reference, and the truth is ranked
    among the other draws. The order of the draws must be arbitrary, as for independent draws.
    """

    def draw(self, sims: Simulations, rng: Generator) -> HeldOut:
        """Return the last draw of each simulation, and the simulations without these draws."""
        left, held = sims.hold_out(1)
        return HeldOut(held[0], left)


@dataclass(frozen=True)
class Centre:
    r"""The mean of all points of a simulation, truth and draws together.

    .. math:: \theta_r = \frac{1}{n + 1} \Big( \theta^* + \sum_j \theta_j \Big) .
    """

    def draw(self, sims: Simulations, rng: Generator) -> Floats:
        """Return the centre of each simulation, `(n_sims, n_dims)`."""
        return sims.centres()


@dataclass(frozen=True)
class Around:
    r"""A function of the observation, :math:`\theta_r = g(x) + s\, \epsilon`.

    TARP detects an estimator that ignores the data only if the reference depends on the data.

    Arguments:
        function: Function :math:`g` from observations `(n_sims, ...)` to points
            `(n_sims, n_dims)`.
        spread: Standard deviation :math:`s` of the normal noise :math:`\epsilon`.

    Example:
        >>> sims = Simulations(np.zeros((9, 3, 1)), np.ones((3, 1)), x=np.arange(3.0))
        >>> Around(lambda x: 2 * x[:, None]).draw(sims, np.random.default_rng(0)).ravel()
        array([0., 2., 4.])
    """

    function: Callable[[Array], ArrayLike]
    spread: ArrayLike = 0.0

    def __post_init__(self) -> None:
        arguments.function("function", self.function, "a function of the observations")

    def draw(self, sims: Simulations, rng: Generator) -> Array:
        """Return one point per simulation, the function of its observation plus noise."""
        x = shapes.needs_x(sims.x, "`Around`")
        points = shapes.array("points", self.function(x))
        points = points[:, None] if points.ndim == 1 and sims.n_dims == 1 else points
        points = reference_points(points, sims.n_sims, sims.shape)
        return points + _given("spread", self.spread, sims) * rng.standard_normal(points.shape)


@dataclass(frozen=True, eq=False, repr=False)
class Learned:
    r"""A guess of the truth from the observation, learned on other simulations.

    It depends on the data, like `Around`, but needs no function of yours: a regression of
    :math:`\theta` on :math:`x` becomes the reference. Needs scikit-learn.

    Arguments:
        theta: True parameters `(n, n_dims)` of simulations that are not under test.
        x: Observations `(n, ...)` of these simulations.
        method: "neighbour" for the truth of the nearest observation; "ridge" or "boosted" for a
            regression of the truths on the observations.
    """

    theta: ArrayLike
    x: ArrayLike
    method: str = "neighbour"

    def __post_init__(self) -> None:
        arguments.one_of("method", self.method, ("neighbour", "ridge", "boosted"))
        theta, x = shapes.array("theta", self.theta), shapes.array("x", self.x)
        if not theta.ndim or not len(theta) or theta.shape[:1] != x.shape[:1]:
            raise ValueError(
                f"`theta` and `x` of `Learned` must have one entry per simulation of the pool, "
                f"but got {theta.shape} and {x.shape}."
            )
        for name, numbers in (("theta", theta), ("x", x)):
            shapes.finite(f"`{name}` of the pool of `Learned`", numbers)
            object.__setattr__(self, name, numbers)

    def draw(self, sims: Simulations, rng: Generator) -> Floats:
        """Return one guess per simulation, from a model fitted to the other simulations."""
        observed = shapes.finite("observations `x`", shapes.needs_x(sims.x, "`Learned`"))
        theta, x = self.theta, self.x
        theta = theta[:, None] if theta.ndim == 1 else fields.flattened(theta, sims.shape)
        if theta.shape[1:] != (sims.n_dims,) or x.shape[1:] != observed.shape[1:]:
            raise ValueError(
                f"`Learned` needs {sims.n_dims} parameters and observations of shape "
                f"{observed.shape[1:]} each, like the simulations under test, but got "
                f"{theta.shape[1:]} and {x.shape[1:]}."
            )
        _refuse_shared_rows(theta, sims.theta, "Learned")
        _refuse_shared_rows(x.reshape(len(x), -1), observed.reshape(sims.n_sims, -1), "Learned")
        model = _regressor(self.method, int(rng.integers(2**31)))
        columns, found = x.reshape(len(x), -1), observed.reshape(sims.n_sims, -1)
        # Squares of very large or small numbers would be out of range.
        unit, x_unit = (power_of_two(abs(one).max(axis=0)) for one in (theta, columns))
        model.fit(columns / x_unit, theta / unit)
        return unit * model.predict(found / x_unit).reshape(sims.n_sims, -1)

    def __repr__(self) -> str:
        return f"Learned({len(self.theta)} simulations, method={self.method!r})"


def _given(name: str, value: ArrayLike, sims: Simulations) -> Floats:
    """Return finite numbers, one for all parameters or one per parameter."""
    numbers = fields.flattened(arguments.floats(name, value), sims.shape)
    numbers = arguments.per_parameter(name, numbers, sims.n_dims)
    if not np.isfinite(numbers).all():
        raise ValueError(f"`{name}` must be finite, but got {clean(numbers)}.")
    return numbers


def _centre(sims: Simulations) -> Floats:
    low, high = (np.asarray(corner, dtype=float) for corner in sampled_box(sims))
    return (low + high) / 2


def _sides(sims: Simulations) -> Floats:
    low, high = (np.asarray(corner, dtype=float) for corner in sampled_box(sims))
    return high - low


def _regressor(method: str, seed: int) -> "Pipeline":
    learn = partial(optional.package, user="`Learned`")
    if method == "neighbour":
        model = learn("sklearn.neighbors").KNeighborsRegressor(n_neighbors=1)
    elif method == "ridge":
        model = learn("sklearn.linear_model").RidgeCV(np.geomspace(1e-3, 1e3, 13))
    else:
        trees = learn("sklearn.ensemble").HistGradientBoostingRegressor(random_state=seed)
        model = learn("sklearn.multioutput").MultiOutputRegressor(trees)
    scaler = learn("sklearn.preprocessing").StandardScaler()
    return learn("sklearn.pipeline").make_pipeline(scaler, model)


def _refuse_shared_rows(points: Array, tested: Array, who: str) -> None:
    rows = {row.tobytes() for row in np.ascontiguousarray(points, dtype=float)}
    if any(row.tobytes() in rows for row in np.ascontiguousarray(host(tested), dtype=float)):
        raise ValueError(
            f"`{who}` contains simulations that are under test, so its points would depend on "
            f"their truths. Give it other simulations."
        )


_LOOKED_AT, _LOOKED_AT_BYTES, _FIRST_LOOK = 64, 2**24, 8
_FEWEST_TO_TELL = 20  # simulations: of two values, references and draws may agree by chance
_CHANCE = 1e-6  # of references that are drawn without a look at truths or draws


def refuse_own_points(points: Floats, sims: Simulations) -> None:
    """Raise where references are the truths under test, or a draw of every simulation.

    Of the points that equal a reference, it is chance which one is the truth. Truths that are
    equal far more often (Chernoff's bound), or the same draw of every simulation and no other
    point, are what the references were made of.

    Arguments:
        points: The references, `(n_sims, n_dims)` or `(n_sims, n, n_dims)`.
        sims: The simulations that are ranked.
    """
    row = 8 * (sims.n_draws + 1) * max(sims.n_dims, 1)
    few = slice(0, max(1, min(sims.n_sims, _LOOKED_AT, _LOOKED_AT_BYTES // row)))
    several = points[few].reshape(few.stop, -1, sims.n_dims)
    if not _may_be_own(several, sims):
        return
    draws = host(sims.samples[:, few])[:, :, None]
    truths = rounded_like(host(sims.theta[few])[:, None], draws)
    several, share = rounded_like(several, draws), _shares(sims, few)
    equal = (np.concatenate([truths[None], draws]) == several).all(axis=-1) & (share > 0)
    n_truths, expected = equal[0].sum(axis=0), (share * equal).sum(axis=(0, 1))
    surplus = np.log(np.maximum(n_truths, 1) / np.maximum(expected, 1e-300))
    if (n_truths * (surplus - 1) + expected > -np.log(_CHANCE)).any():
        raise ValueError(
            "the references are the truths under test, which no draw is as close to: ranks would "
            "be zero for exact posteriors too. Take points that do not depend on the truths."
        )
    same = equal[1:].all(axis=1) & (equal.sum(axis=0) == 1).all(axis=0)
    if few.stop >= _FEWEST_TO_TELL and same.any():
        raise ValueError(
            f"the references are draw {int(same.any(axis=1).argmax())} of every simulation, which "
            f"is ranked too. `references.Posterior()` holds the last draw out."
        )


def _may_be_own(several: Floats, sims: Simulations) -> bool:
    """Return whether any reference has the first parameter of a truth, or of a draw of a few."""
    draws = host(sims.samples[:, : min(len(several), _FIRST_LOOK), :1])
    truths = rounded_like(host(sims.theta[: len(several), :1]), draws)
    first = rounded_like(several[:, :, 0], draws)
    return bool((truths == first).any() or (draws == first[: draws.shape[1]]).any())


def _shares(sims: Simulations, few: slice) -> Floats:
    """Return how likely each point is the truth, truths first, `(n_draws + 1, n_few, 1)`."""
    draws, truths = sims.log_weights, sims.log_weights_theta
    if draws is None or truths is None:
        return np.full((sims.n_draws + 1, few.stop, 1), 1 / (sims.n_draws + 1))
    relative = weights.relative(np.concatenate([truths[None, few], draws[:, few]]))
    return (relative / relative.sum(axis=0))[..., None]


def reference_points(
    drawn: ArrayLike, n_sims: int, shape: tuple[int, ...], name: str = "reference"
) -> Floats:
    """Return finite reference points, (n_sims, n_dims), or several: (n_sims, n, n_dims)."""
    drawn, n_dims = fields.flattened(shapes.array(name, drawn), shape), prod(shape)
    if drawn.ndim not in (2, 3) or drawn.shape[:: drawn.ndim - 1] != (n_sims, n_dims):
        raise ValueError(
            f"`{name}` must be ({n_sims}, {n_dims}), one point per simulation, or several, "
            f"({n_sims}, n, {n_dims}), but got {drawn.shape}."
        )
    return shapes.finite(f"points of `{name}`", drawn.astype(float, copy=False))
