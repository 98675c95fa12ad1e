"""`Monitor`: simulations come one by one, and the answer is looked at whenever one likes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._base import arguments, disk
from .._base.text import dropped, stated
from .._base.types import RNG, Array, ArrayLike, Floats, Ints
from ..engine import Run
from ..simulations import (
    Simulations,
    alerts,
    bound,
    given,
    passes,
    shapes,
    units,
    warn_of_dropping,
)
from ..simulations.views import bare, equalised
from ..simulations.weights import by_simulation
from .adversaries import ADVERSARY, Adversary, Gambler
from .bets import Stakes, Wealth, log_mean, radius, ranked

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..checks.tolerances import Tolerance

KIND = "monitor"
NEAR = "a function of one observation that returns True or False"
Near = Callable[[Array], bool]
_ADVERSARY = "adversary"
_ADVERSARY_SHARE = 0.2
_LARGEST_LOG = 700.0
_MOST_UNASKED = 20  # parameters of a simulation alone that are not taken for simulations


@dataclass(frozen=True, eq=False)
class History:
    """What a monitor said after every simulation.

    Arguments:
        n_sims: How many simulations there were.
        log_e: The logarithm of the e-value.
        within: The bound on the worst coverage error.
    """

    n_sims: Ints
    log_e: Floats
    within: Floats


class Monitor:
    r"""A test that may be looked at after every simulation, and stopped whenever it is settled.

    Each truth is ranked among its draws: every parameter, the distance from the centre of the
    points, from some of the draws, and the density where there is one. Bets on the ranks give an
    e-value; under accuracy it ever exceeds :math:`1/a` with a probability of at most :math:`a`,
    however often one looks. Coverage that was measured at the same time bounds how wrong it can
    be.

    Arguments:
        level: The probability of calling an accurate posterior inaccurate, ever; and that of a
            bound on coverage errors that is too small, ever.
        tolerance: The coverage error that is small enough to stop, or a `tarpon.Tolerance`, of
            which only `coverage` counts here.
        near: A function of one observation that returns whether it is near yours; only such
            simulations count, so that the answer is about them. It must be fixed beforehand and
            must not know the truths: then the test is as exact as that of all simulations.
        adversary: Learns from earlier simulations how to tell truths from draws, for example
            `tarpon.adversaries.Quadratic()`; none by default.
        rng: A seed or a generator, for ties.

    Example:
        >>> sims = tarpon.problems.zoo("narrow", n_dims=10, rng=0)
        >>> monitor = tarpon.Monitor(rng=0)
        >>> for k in range(200):
        ...     if monitor.add(sims.samples[:, k], sims.theta[k]).outcome != "running":
        ...         break
        >>> monitor.outcome, monitor.n_sims < 100
        ('inaccurate', True)
    """

    def __init__(
        self,
        *,
        level: float = 0.05,
        tolerance: "float | Tolerance" = 0.1,
        adversary: Adversary | None = None,
        near: Near | None = None,
        rng: RNG = None,
    ) -> None:
        self.level = arguments.probability("level", level)
        largest: Any = getattr(tolerance, "coverage", tolerance)
        self.tolerance = arguments.probability("tolerance", largest)
        self.seed = arguments.seed(rng)
        self.n_dropped = 0
        self.n_far = 0
        """How many simulations do not count, since they are not `near`."""
        self.approximate = False
        """Whether draws were resampled by weights that are not known of the truths."""
        if adversary is not None:
            arguments.function("adversary", adversary, ADVERSARY, "fit")
        if near is not None:
            arguments.function("near", near, NEAR)
        self.near = near
        self._gambler = None if adversary is None else Gambler(adversary)
        self._stakes = Stakes((), ())
        self._wealth = Wealth.initial(0)
        self._log_e: list[float] = []
        self._largest_log_e = 0.0
        self._within: list[float] = []

    def add(
        self,
        samples: ArrayLike | Simulations,
        theta: ArrayLike | None = None,
        *,
        x: ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ) -> Self:
        """Add one simulation or many, in the order in which they came.

        The monitor itself changes, and is returned: `Monitor().add(sims).outcome` is one line.
        Whether a simulation comes alone or with others makes no difference. If anything is wrong
        with one of them, none is added.

        More than 20 parameters of a first simulation need an axis that counts simulations, or
        names: the same shapes might be those of many simulations of one parameter.

        Arguments:
            samples: The posterior draws of one simulation, `(n_draws, n_dims)`; those of many,
                `(n_draws, n_sims, n_dims)` or a list with one array per simulation; or
                `Simulations`.
            theta: The true parameters, `(n_dims,)` or `(n_sims, n_dims)`.
            x: What was observed, of any shape, or `(n_sims, ...)`.
            names: Names, one per parameter; those of the first simulation stay.
        """
        if _is_single(samples, theta):
            samples, theta, x = _as_many(samples, theta, x)
            if not self.n_sims and names is None:
                one_simulation(len(samples), theta.shape[1])
        sims = given(samples, theta, x=x, names=names)
        sims = bound(sims, Run())
        warn_of_dropping(sims)
        if sims.n_dims:
            alerts.warn_if_chained(sims.samples, sims.log_weights)
        self._take(sims)
        return self

    def _take(self, sims: Simulations, *, until_settled: bool = False) -> None:
        """Add simulations, all of them or those up to the one that settles it."""
        with self._all_or_none():
            self._begin(sims)
            for one in passes.singles(sims):
                if not self._is_near(one):
                    self.n_far += 1
                    continue
                self._add(one)
                if until_settled and self.outcome != "running":
                    break

    def _is_near(self, one: Simulations) -> bool:
        if self.near is None:
            return True
        found = np.asarray(self.near(shapes.needs_x(one.x, "`Monitor(near=)`")[0]))
        if found.shape != () or found.dtype != bool:
            raise TypeError(
                f"`near` must return True or False for one observation, but returned "
                f"{arguments.shown(found)}."
            )
        return bool(found)

    @contextmanager
    def _all_or_none(self) -> Iterator[None]:
        """Go back to where the monitor stands now if anything goes wrong."""
        # Looks are only ever appended, and a copy of all of them would cost more with each.
        before, n_looks = dict(vars(self)), len(self._log_e)
        try:
            yield
        except BaseException:
            vars(self).update(before)
            del self._log_e[n_looks:], self._within[n_looks:]
            raise

    def _begin(self, sims: Simulations) -> None:
        if self._gambler is not None:
            shapes.needs_parameters(sims.n_dims)
        scores = Stakes.of(sims)
        if not self.n_sims:
            self._stakes, self._wealth = scores, Wealth.initial(len(scores.names))
        same_scores(scores.shares, self._stakes.shares, self._stakes.names)
        if self._gambler is not None and self.n_sims:
            same_observations(sims.x, self._gambler.x)
        self.n_dropped += sims.n_dropped

    def _add(self, one: Simulations) -> None:
        # Random numbers depend on the place of the simulation, never on which came with it.
        # (The last 1 tells this stream from that of the seed alone, in case the user has it too.)
        rng = np.random.default_rng([self.seed, self.n_sims, 1])
        one = bare(equalised(bare(one), rng))
        self.approximate |= one.draws.approximate
        one = units.tamed(one, shapes.pooled_box(one.samples, one.theta))
        block = next(one.blocks()).hidden(rng)
        ranks, n_points, sizes = ranked(block, rng)
        self._wealth = self._wealth.bet(ranks[0], n_points, sizes)
        if self._gambler is not None:
            self._gambler = self._gambler.bet(units.in_own_units(block), rng)
        self._look()

    def _look(self) -> None:
        """Write down what there is to be seen now."""
        bound = float(self._wealth.error()) + radius(self.n_sims, self.level)
        self._log_e.append(self._total())
        self._largest_log_e = max(self._largest_log_e, self._log_e[-1])
        self._within.append(min(self.within, bound))

    def _total(self) -> float:
        """Return the logarithm of the mean capital of all who bet."""
        ranks = float(log_mean(self._wealth.log_e(), np.array(self._stakes.shares)))
        if self._gambler is None:
            return ranks
        shares = np.array([1 - _ADVERSARY_SHARE, _ADVERSARY_SHARE])
        return float(log_mean(np.array([ranks, self._gambler.log_e]), shares))

    @property
    def n_sims(self) -> int:
        """How many simulations there are."""
        return self._wealth.n_sims

    @property
    def e_value(self) -> float:
        """The evidence against accuracy, one at first, and under accuracy one on average."""
        return _exp(self._log_e[-1]) if self._log_e else 1.0

    @property
    def p_value(self) -> float:
        """One over the largest e-value so far, which is a p-value at all times."""
        return min(1.0, _exp(-self._largest_log_e))

    @property
    def within(self) -> float:
        """How far the coverage of any score lies from any level, at most, at all times."""
        return self._within[-1] if self._within else 1.0

    @property
    def outcome(self) -> str:
        """One of "inaccurate", "within tolerance" and "running".

        A posterior may be inaccurate and yet have a coverage within the tolerance; it is called
        inaccurate then, and `within` says by how little.
        """
        if self.p_value <= self.level:
            return "inaccurate"
        return "within tolerance" if self.within <= self.tolerance else "running"

    @property
    def history(self) -> History:
        """The evidence and the bound after every simulation; of merged ones, from then on."""
        n_looks = len(self._log_e)
        n_sims = np.arange(self.n_sims - n_looks + 1, self.n_sims + 1)
        return History(n_sims, np.array(self._log_e), np.array(self._within))

    @property
    def scores(self) -> dict[str, float]:
        """The e-value of each score alone, of which `e_value` is a weighted mean."""
        found = dict(zip(self._stakes.names, self._wealth.log_e(), strict=True))
        if self._gambler is not None:
            found[_ADVERSARY] = self._gambler.log_e
        return {name: _exp(float(log_e)) for name, log_e in found.items()}

    @property
    def nats(self) -> float | None:
        """The mean logarithm of the adversary's bets, None without one.

        On average no more than the divergence of the posteriors from the exact ones, in nats.
        """
        return None if self._gambler is None else self._gambler.nats

    @property
    def nats_low(self) -> float | None:
        """A lower bound of that divergence by the adversary's bets, None without one.

        It exceeds the divergence, ever, with a probability of at most `level`.
        """
        return None if self._gambler is None else self._gambler.floor.low(self.level)

    def merge(self, other: "Monitor") -> "Monitor":
        """Return a monitor of the simulations of both, which must be different ones.

        Every bet's capital is multiplied by that of the same bet in the other monitor, which is
        fair for independent simulations, even if one was stopped because of the other. What was
        seen before does not count: the merged monitor has its first look now.

        Arguments:
            other: A monitor of the same estimator with a seed of its own.
        """
        arguments.instance("other", other, Monitor, "a `Monitor`")
        mergeable(self.seed, other.seed, self._gambler is None, other._gambler is None)
        if self.near is not other.near:
            raise ValueError(
                "both monitors must count the same simulations: give them the same function "
                "`near=`, or none."
            )
        for name, monitor in (("this monitor", self), ("`other`", other)):
            if not monitor.n_sims:
                raise ValueError(
                    f"both monitors must have simulations to be merged, but {name} has 0: add "
                    f"some to it first, or go on with the other one."
                )
        same_scores(other._stakes.shares, self._stakes.shares, self._stakes.names)
        both = copy(self)
        both._wealth = self._wealth.joined(other._wealth)
        if self._gambler is not None and other._gambler is not None:
            both._gambler = self._gambler.joined(other._gambler)
        both.n_dropped += other.n_dropped
        both.n_far += other.n_far
        both.approximate |= other.approximate
        both._log_e, both._largest_log_e, both._within = [], 0.0, []
        both._look()
        return both

    def save(self, path: str | Path) -> None:
        """Write an `.npz` file for `tarpon.load`, without pickling.

        The file contains neither the adversary nor the function `near`.

        An old file of the same name is replaced at once; if the program dies meanwhile, it stays.

        Example:
            >>> sims = tarpon.problems.zoo("exact", n_sims=20, rng=0)
            >>> tarpon.Monitor(rng=0).add(sims).save("monitor.npz")
            >>> tarpon.load("monitor.npz").n_sims
            20
        """
        about = {
            "level": self.level,
            "tolerance": self.tolerance,
            "seed": self.seed,
            "n_sims": self.n_sims,
            "n_dropped": self.n_dropped,
            "near": self.near is not None,
            "n_far": self.n_far,
            "approximate": self.approximate,
            "names": self._stakes.names,
            "adversary": None if self._gambler is None else self._gambler.n_bets,
        }
        arrays = {
            "shares": np.array(self._stakes.shares),
            "log_capital": self._wealth.log_capital,
            "covered": self._wealth.covered,
            "log_e": np.array(self._log_e),
            "within": np.array(self._within),
        }
        if self._gambler is not None:
            kept = self._gambler.to_arrays()
            arrays |= {f"adversary_{name}": values for name, values in kept.items()}
        disk.save(path, KIND, about, arrays)

    def plot(self, *, ax: "Axes | None" = None) -> "Axes":
        """Draw the evidence after every simulation."""
        from .. import plots

        return plots.evidence(self, ax=ax)

    def __repr__(self) -> str:
        if not self.n_sims:
            return f"Monitor before its first simulation{_not_near(self.n_far)}"
        exact = ", approximate since draws were resampled by weight" if self.approximate else ""
        exact += ", given that the dropped ones failed at random" if self.n_dropped else ""
        most = max(self.scores, key=lambda name: self.scores[name])
        by = f", most by {most}" if self.outcome == "inaccurate" else ""
        return (
            f"Monitor after {self.n_sims} simulations{dropped(self.n_dropped)}"
            f"{_not_near(self.n_far)}: {self.outcome}, "
            f"{stated('e', self.e_value, 3)} ({stated('p', self.p_value)}{exact}{by}), "
            f"coverage within ±{self.within:.2g} of every level."
        )


def _not_near(n_far: int) -> str:
    return f" ({n_far} others are not near)" if n_far else ""


def restored(
    record: disk.Record, adversary: Adversary | None = None, near: Near | None = None
) -> Monitor:
    """Return a monitor that was saved; raise `ValueError` if the record is of anything else.

    Arguments:
        record: Record of the monitor.
        adversary: Adversary that the monitor had.
        near: Function `near` that the monitor had.
    """
    monitor = Monitor(
        level=record.probability("level"),
        tolerance=record.probability("tolerance"),
        near=near,
        rng=record.count("seed"),
    )
    monitor.n_far = record.count("n_far")
    n_sims, monitor.n_dropped = record.count("n_sims"), record.count("n_dropped")
    monitor.approximate = record.value("approximate", bool)
    names = record.texts("names")
    shares = record.floats("shares", len(names), low=0.0, high=1.0)
    monitor._stakes = Stakes(names, tuple(shares.tolist()))
    monitor._wealth = Wealth.of_record(record, len(names), n_sims)
    n_looks = len(record.arrays.get("log_e", ()))
    if n_looks > n_sims or bool(n_looks) != bool(n_sims and names):
        raise ValueError(f"{n_looks} looks at {n_sims} simulations are impossible")
    monitor._log_e = record.floats("log_e", n_looks).tolist()
    monitor._within = record.floats("within", n_looks, low=0.0, high=1.0).tolist()
    monitor._largest_log_e = max([0.0, *monitor._log_e])
    if adversary is not None:
        monitor._gambler = Gambler.of_record(adversary, record, n_sims)
    return monitor


def _exp(logarithm: float) -> float:
    return exp(min(max(logarithm, -_LARGEST_LOG), _LARGEST_LOG))


def _is_single(samples: Any, theta: Any) -> bool:
    """Return whether draws and truth are those of one simulation."""
    if theta is None or isinstance(samples, Simulations):
        return False
    n_axes = _n_axes("theta", theta)
    if n_axes != 1 or by_simulation(samples, len(theta)):
        return n_axes == 0
    return _n_axes("samples", samples) == 2


def _n_axes(name: str, given: Any) -> int:
    known = getattr(given, "ndim", None)
    return known if isinstance(known, int) else shapes.array(name, given).ndim


def _as_many(
    samples: ArrayLike, theta: ArrayLike, x: ArrayLike | None
) -> tuple[Array, Array, Array | None]:
    """Return the arrays of one simulation with an axis that counts simulations."""
    samples, theta = shapes.array("samples", samples), shapes.array("theta", theta)
    if theta.ndim == 0:
        samples, theta = samples.reshape(-1, 1), theta[None]
    return samples[:, None], theta[None], None if x is None else shapes.array("x", x)[None]


def one_simulation(n_draws: int, n: int) -> None:
    """Raise if the shapes of one simulation might as well be those of many of one parameter."""
    if n > _MOST_UNASKED:
        raise ValueError(
            f"`samples` ({n_draws}, {n}) and `theta` ({n},) may be one simulation of {n} "
            f"parameters, or {n} simulations of one. Pass `samples[:, None], theta[None]` for the "
            f"first, `samples[..., None], theta[:, None]` for the second."
        )


def same_scores(shares: Sequence[float], before: Sequence[float], names: Sequence[str]) -> None:
    """Raise if simulations have other parameters or densities than those before."""
    if tuple(shares) != tuple(before):
        raise ValueError(
            f"all simulations of a `Monitor` must have the same parameters, and all or none of "
            f"them log-densities: so far it has ranked {', '.join(names) or 'nothing'}, and these "
            f"are ranked in {len(shares)} ways, not {len(before)}. Start another monitor for them."
        )


def same_observations(x: Array | None, before: Sequence[Array]) -> None:
    """Raise if an adversary got observations of some simulations only, or of another shape."""
    came = None if x is None else tuple(x.shape[1:])
    had = before[0].shape if before else None
    if came != had:
        raise ValueError(
            f"an adversary needs the same observations of all simulations, or none: `x` of one "
            f"simulation had shape {had} so far, and now {came}."
        )


def same_adversary(had: bool, given: Adversary | None) -> None:
    """Raise if a saved monitor had an adversary and none is given, or the other way round."""
    if had and given is None:
        raise ValueError(
            "the saved monitor had an adversary, which is not in the file: pass the same one as "
            "`adversary=`."
        )
    if not had and given is not None:
        raise ValueError("there was no adversary when the file was saved: remove `adversary=`.")


def same_window(had: bool, given: Near | None) -> None:
    """Raise if a saved monitor had `near` and none is given, or the other way round."""
    if had and given is None:
        raise ValueError(
            "the saved monitor counts only simulations that are near an observation, and the "
            "function is not in the file: pass the same one as `near=`."
        )
    if not had and given is not None:
        raise ValueError("there was no `near` when the file was saved: remove `near=`.")


def mergeable(seed: int, other: int, alone: bool, other_alone: bool) -> None:
    """Raise if two monitors are the same, or only one of them has an adversary."""
    if seed == other:
        raise ValueError(
            f"both monitors have the seed {seed}: they are the same, or break ties alike. Give "
            f"each an `rng=` of its own."
        )
    if alone != other_alone:
        raise ValueError("one of the monitors has an adversary and the other has none.")
