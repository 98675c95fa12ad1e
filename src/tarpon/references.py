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
from ._base.arrays import alike, host, power_of_two
from ._base.types import Array, ArrayLike, Floats
from .simulations import Simulations, shapes, weights
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

    def draw(self, sims: Simulations, rng: Generator) -> Floats:
        """Return one point a simulation, from anywhere in the part of the box."""
        low, high = (
            np.broadcast_to(corner if given is None else given, (sims.n_dims,)).astype(float)
            for given, corner in zip((self.low, self.high), sims.box, strict=True)
        )
        if not (low <= high).all():
            raise ValueError(f"the box of `Uniform` is empty: low is {low}, high is {high}.")
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
        mean = (low + high) / 2 if self.mean is None else np.asarray(self.mean, dtype=float)
        sd = (high - low) / 10 if self.sd is None else np.asarray(self.sd, dtype=float)
        return rng.normal(mean, sd, size=(sims.n_sims, sims.n_dims))


@dataclass(frozen=True, eq=False, repr=False)
class Fixed:
    """Points of your own, the same for all simulations or one for each.

    They must not be the truths under test, nor draws that are ranked: those are refused.

    Arguments:
        points: Of shape `(n_dims,)` or `(n_sims, n_dims)`, in parameter units.
    """

    points: ArrayLike

    def draw(self, sims: Simulations, rng: Generator) -> Array:
        """Return the points, the same for all simulations if there is but one."""
        points = shapes.array("points", self.points)
        shape = (sims.n_sims, sims.n_dims)
        if points.shape not in (shape, shape[1:]) and not (points.ndim == 0 and shape[1] == 1):
            raise ValueError(
                f"`Fixed` takes points of shape ({shape[1]},) or {shape}, but got {points.shape}."
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

    def draw(self, sims: Simulations, rng: Generator) -> Array:
        """Return one point a simulation, chosen or sampled."""
        if callable(self.source):
            return shapes.array("prior", self.source(sims.n_sims, rng))
        points = shapes.array("prior", self.source)
        points = points[:, None] if points.ndim == 1 and sims.n_dims == 1 else points
        if points.ndim != 2 or points.shape[1] != sims.n_dims or not len(points):
            raise ValueError(
                f"`Prior` takes points of shape (n, {sims.n_dims}), but got {points.shape}."
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

    def draw(self, sims: Simulations, rng: Generator) -> Floats:
        """Return `n` points a simulation, `(n_sims, n, n_dims)`."""
        drawn = [self.reference.draw(sims, rng) for _ in range(arguments.positive("n", self.n))]
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

    def draw(self, sims: Simulations, rng: Generator) -> Array:
        """Return one point a simulation, from about what the function makes of its observation."""
        x = shapes.needs_x(sims.x, "`Around`")
        points = shapes.array("points", self.function(x))
        points = points[:, None] if points.ndim == 1 and sims.n_dims == 1 else points
        return points + np.asarray(self.spread) * rng.standard_normal(points.shape)


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

    def draw(self, sims: Simulations, rng: Generator) -> Floats:
        """Return one guess a simulation, of a model that is fitted to the pool."""
        observed = shapes.needs_x(sims.x, "`Learned`")
        theta, x = shapes.array("theta", self.theta), shapes.array("x", self.x)
        theta = theta[:, None] if theta.ndim == 1 else theta
        if theta.shape[1:] != (sims.n_dims,) or x.shape[1:] != observed.shape[1:]:
            raise ValueError(
                f"`Learned` needs a pool with {sims.n_dims} parameters and observations of shape "
                f"{observed.shape[1:]}, but got {theta.shape[1:]} and {x.shape[1:]}."
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
        return f"Learned({len(np.asarray(self.theta))} simulations, method={self.method!r})"


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
    if method not in models:
        raise ValueError(f"`method` must be one of {', '.join(models)}, but got {method!r}.")
    return make_pipeline(StandardScaler(), models[method])


def _refuse_shared_rows(points: Array, tested: Array, who: str) -> None:
    rows = {row.tobytes() for row in np.ascontiguousarray(points, dtype=float)}
    if any(row.tobytes() in rows for row in np.ascontiguousarray(host(tested), dtype=float)):
        raise ValueError(
            f"`{who}` holds simulations that are under test, so the ranks would know their "
            f"truths. Give it simulations of its own."
        )


_LOOKED_AT, _LOOKED_AT_BYTES = 64, 2**24
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
    draws = host(sims.samples[:, few])[:, :, None]
    truths = alike(host(sims.theta[few])[:, None], draws)
    several = alike(points[few].reshape(few.stop, -1, sims.n_dims), draws)
    share = _shares(sims, few)
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


def _shares(sims: Simulations, few: slice) -> Floats:
    """Return how likely each point is the truth, truths first, `(n_draws + 1, n_few, 1)`."""
    draws, truths = sims.log_weights, sims.log_weights_theta
    if draws is None or truths is None:
        return np.full((sims.n_draws + 1, few.stop, 1), 1 / (sims.n_draws + 1))
    relative = weights.relative(np.concatenate([truths[None, few], draws[:, few]]))
    return (relative / relative.sum(axis=0))[..., None]


def reference_points(drawn: ArrayLike, n_sims: int, n_dims: int) -> Floats:
    """Return finite reference points, (n_sims, n_dims), or several: (n_sims, n, n_dims)."""
    drawn = array("reference", drawn)
    if drawn.ndim not in (2, 3) or drawn.shape[:: drawn.ndim - 1] != (n_sims, n_dims):
        raise ValueError(
            f"a reference must give one point a simulation, ({n_sims}, {n_dims}), or several, "
            f"({n_sims}, n, {n_dims}), but got {drawn.shape}."
        )
    return finite("reference points", drawn.astype(float, copy=False))
