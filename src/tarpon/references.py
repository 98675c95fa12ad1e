"""References: where the credible balls of TARP are centred.

A reference is any object with one method, `draw(sims, rng)`, that returns one point a
simulation in the parameters' own units. It may read the observations, and truths and draws
together, but must not tell which point is the truth: the ranks of an exact posterior are
uniform only then.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.random import Generator

from ._base import arguments
from ._base.arrays import host
from ._base.text import clean
from ._base.types import Array, ArrayLike, Floats
from .simulations import Simulations, shapes
from .simulations.shapes import array, finite

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
    """Reference points that are draws themselves, and the simulations without those draws."""

    points: Array
    left: Simulations


class Reference(Protocol):
    r"""A distribution :math:`\tilde p(\theta_r | x)` of reference points."""

    def draw(self, sims: Simulations, rng: Generator) -> ArrayLike | HeldOut:
        """Return points of shape `(n_sims, n_dims)`, or a `HeldOut` if they are draws."""
        ...


@dataclass(frozen=True)
class Uniform:
    r"""Uniform in a box, :math:`\theta_r \sim U(l, h)`, by default that of all truths and draws.

    Arguments:
        low: The lower corner, of shape `(n_dims,)`, or one number for all.
        high: The upper corner.
        part: The part of the box that is used, as two fractions of its sides: `(0.0, 0.5)` is
            the half of every side that starts at its lower end.

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
        """Return one point a simulation, from anywhere in the part of the box."""
        corners = zip(("low", "high"), (self.low, self.high), sims.box, strict=True)
        low, high = (
            np.broadcast_to(_given(name, box if given is None else given, sims), (sims.n_dims,))
            for name, given, box in corners
        )
        if not (low <= high).all():
            raise ValueError(
                f"the box of `Uniform` is empty: `low` is {clean(low)}, `high` is {clean(high)}."
            )
        start, stop = self.part
        fraction = rng.uniform(start, stop, size=(sims.n_sims, sims.n_dims))
        return low + fraction * (high - low)


@dataclass(frozen=True)
class Normal:
    r"""Normal, :math:`\theta_r \sim N(\mu, \mathrm{diag}(s^2))`.

    Arguments:
        mean: The mean :math:`\mu`, by default the centre of the box of all truths and draws.
        sd: The standard deviations :math:`s`, by default a tenth of the sides of that box.
    """

    mean: ArrayLike = None
    sd: ArrayLike = None

    def draw(self, sims: Simulations, rng: Generator) -> Floats:
        """Return one point a simulation, from about the mean."""
        low, high = (np.asarray(corner, dtype=float) for corner in sims.box)
        mean = (low + high) / 2 if self.mean is None else _given("mean", self.mean, sims)
        sd = (high - low) / 10 if self.sd is None else _given("sd", self.sd, sims)
        if (sd < 0).any():
            raise ValueError(f"`sd` must not be negative, but got {clean(sd)}.")
        return rng.normal(mean, abs(sd), size=(sims.n_sims, sims.n_dims))


@dataclass(frozen=True, eq=False, repr=False)
class Fixed:
    """Points of your own, the same for all simulations or one for each.

    Arguments:
        points: Of shape `(n_dims,)` or `(n_sims, n_dims)`, in parameter units.
    """

    points: ArrayLike

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", shapes.array("points", self.points))

    def draw(self, sims: Simulations, rng: Generator) -> Array:
        """Return the points, the same for all simulations if there is but one."""
        points = self.points
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
    r"""Draws of the prior, :math:`\theta_r \sim p(\theta)`.

    Arguments:
        source: Points `(n, n_dims)` to choose from at random, which must not be the truths
            under test; or a sampler, `source(n, rng)`, that returns such points.

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
        """Return one point a simulation, chosen or sampled."""
        if callable(self.source):
            return shapes.array("source", self.source(sims.n_sims, rng))
        points = self.source
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
    """Several points of each simulation, counted together: a curve and a p-value for each.

    Arguments:
        reference: Where they come from.
        n: How many there are.

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
        """Return `n` points a simulation, `(n_sims, n, n_dims)`."""
        n_bytes = 32.0 * self.n * sims.n_sims * sims.n_dims
        advice = "Ask for fewer points per simulation."
        arguments.affordable(n_bytes, f"`n` = {arguments.shown(self.n)} of `Several`", advice)
        drawn = [self.reference.draw(sims, rng) for _ in range(self.n)]
        if any(isinstance(points, HeldOut) for points in drawn):
            raise ValueError(
                "`Several` takes references that are no draws: `Posterior` holds one draw out, "
                "and there is but one last."
            )
        sizes = sims.n_sims, sims.n_dims
        return np.stack([reference_points(points, *sizes) for points in drawn], axis=1)


@dataclass(frozen=True)
class Posterior:
    r"""A draw of the posterior itself, :math:`\theta_r \sim \hat p(\theta | x)`.

    The last draw of each simulation is held out as its reference, and the truth is ranked
    among those that are left. Draws must come in no particular order, as independent ones do.
    """

    def draw(self, sims: Simulations, rng: Generator) -> HeldOut:
        """Return the last draws, and the simulations without them."""
        left, held = sims.hold_out(1)
        return HeldOut(held[0], left)


@dataclass(frozen=True)
class Centre:
    r"""The mean of each simulation's points, truth and draws together,

    .. math:: \theta_r = \frac{1}{n + 1} \Big( \theta^* + \sum_j \theta_j \Big) .
    """

    def draw(self, sims: Simulations, rng: Generator) -> Floats:
        """Return the centre of each simulation."""
        return sims.centres()


@dataclass(frozen=True)
class Around:
    r"""A function of the observation, :math:`\theta_r = g(x) + s\, \epsilon`.

    A reference that follows the data is what lets TARP see an estimator that ignores them.

    Arguments:
        function: The function :math:`g`, from observations `(n_sims, ...)` to points
            `(n_sims, n_dims)`.
        spread: The standard deviation :math:`s` of normal noise around it.

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
        """Return one point a simulation, from about what the function makes of its observation."""
        x = shapes.needs_x(sims.x, "`Around`")
        points = shapes.array("points", self.function(x))
        points = points[:, None] if points.ndim == 1 and sims.n_dims == 1 else points
        points = reference_points(points, sims.n_sims, sims.n_dims)
        return points + _given("spread", self.spread, sims) * rng.standard_normal(points.shape)


@dataclass(frozen=True, eq=False, repr=False)
class Learned:
    r"""A guess of the truth from the observation, learned on other simulations.

    It follows the data without a function of yours (compare `Around`): whatever the pool says
    about :math:`\theta` given :math:`x` becomes the reference. Needs scikit-learn.

    Arguments:
        theta: The true parameters of simulations that are not under test, `(n, n_dims)`.
        x: Their observations, `(n, ...)`.
        method: "neighbour" takes the truth of the nearest observation, "ridge" and "boosted"
            regress the truths on the observations.
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
            finite(f"`{name}` of the pool of `Learned`", numbers)
            object.__setattr__(self, name, numbers)

    def draw(self, sims: Simulations, rng: Generator) -> Floats:
        """Return one guess a simulation, of a model that is fitted to the pool."""
        observed = finite("observations `x`", shapes.needs_x(sims.x, "`Learned`"))
        theta, x = self.theta, self.x
        theta = theta[:, None] if theta.ndim == 1 else theta
        if theta.shape[1:] != (sims.n_dims,) or x.shape[1:] != observed.shape[1:]:
            raise ValueError(
                f"`Learned` needs a pool with {sims.n_dims} parameters and observations of shape "
                f"{observed.shape[1:]}, but got {theta.shape[1:]} and {x.shape[1:]}."
            )
        _refuse_shared_rows(theta, sims.theta, "Learned")
        _refuse_shared_rows(x.reshape(len(x), -1), observed.reshape(sims.n_sims, -1), "Learned")
        model = _regressor(self.method, int(rng.integers(2**31)))
        model.fit(x.reshape(len(x), -1), theta)
        return model.predict(observed.reshape(sims.n_sims, -1)).reshape(sims.n_sims, -1)

    def __repr__(self) -> str:
        return f"Learned({len(self.theta)} simulations, method={self.method!r})"


def _given(name: str, value: ArrayLike, sims: Simulations) -> Floats:
    """Return finite numbers, one for all parameters or one per parameter."""
    numbers = arguments.per_parameter(name, arguments.floats(name, value), sims.n_dims)
    if not np.isfinite(numbers).all():
        raise ValueError(f"`{name}` must be finite, but got {clean(numbers)}.")
    return numbers


def _regressor(method: str, seed: int) -> Any:
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor
        from sklearn.linear_model import RidgeCV
        from sklearn.multioutput import MultiOutputRegressor
        from sklearn.neighbors import KNeighborsRegressor
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ImportError as error:
        raise ImportError(
            "`Learned` needs scikit-learn: install it with `pip install tarpon[learn]`."
        ) from error
    models = {
        "neighbour": KNeighborsRegressor(n_neighbors=1),
        "ridge": RidgeCV(np.geomspace(1e-3, 1e3, 13)),
        "boosted": MultiOutputRegressor(HistGradientBoostingRegressor(random_state=seed)),
    }
    return make_pipeline(StandardScaler(), models[method])


def _refuse_shared_rows(points: Array, tested: Array, who: str) -> None:
    rows = {row.tobytes() for row in np.ascontiguousarray(points, dtype=float)}
    if any(row.tobytes() in rows for row in np.ascontiguousarray(host(tested), dtype=float)):
        raise ValueError(
            f"`{who}` holds simulations that are under test, so the ranks would know their "
            f"truths. Give it simulations of its own."
        )


def reference_points(
    drawn: ArrayLike, n_sims: int, n_dims: int, name: str = "reference"
) -> Floats:
    """Return finite reference points, (n_sims, n_dims), or several: (n_sims, n, n_dims)."""
    drawn = array(name, drawn)
    if drawn.ndim not in (2, 3) or drawn.shape[:: drawn.ndim - 1] != (n_sims, n_dims):
        raise ValueError(
            f"`{name}` must be ({n_sims}, {n_dims}), one point a simulation, or several, "
            f"({n_sims}, n, {n_dims}), but got {drawn.shape}."
        )
    return finite(f"points of `{name}`", drawn.astype(float, copy=False))
