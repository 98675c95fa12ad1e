r"""`repair`: posteriors that are mended on some simulations, and proven on others.

What is fitted on some simulations and then held fixed is part of the sampler for the others. So
`check` on those is exact for the repaired posterior, whatever was fitted. The repaired draws are
independent draws of a well-defined posterior, because a draw is moved and kept by its data and by
held-out draws only, never by the truth or by the other draws that are published.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from .._base import arguments, disk
from .._base.tables import Table
from .._base.types import RNG, ArrayLike, Floats
from ..checks import Check, check
from ..checks.flaws import Kind
from ..checks.parameters import Parameter
from ..checks.values import Few
from ..simulations import Simulations, fields
from ..simulations.views import chosen
from . import domains, mended, repair_words
from .domains import Domain
from .fitting import Map, Step
from .moves import Moves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KIND = "repair"
_FEWEST_FIT, _FEWEST_PROOF = 50, 20  # simulations to fit and to prove a repair
_FEWEST_DRAWS = 30
_DOUBT = 0.2  # the p-value above which there is nothing to repair
_MOST_CALLS = 100  # of a sampler for one observation


@dataclass(frozen=True, eq=False, repr=False)
class Repair:
    """A repair, and its proof on simulations that it has not seen.

    It is a function of the draws of a posterior and its observation. A repair that was loaded has
    no `before` and `check`, but its text.

    Arguments:
        outcome: One of "repaired", "improved, still inaccurate", "nothing to repair" and "cannot
            be repaired".
        before: The check of the unseen simulations as they were, with as many draws as are kept:
            fewer draws show less, so that only this can be compared with `check`.
        check: The check of the same simulations, repaired; None if too few draws were kept.
        kept: The share of draws that are kept, of those that are not held out.
        steps: The steps, with their gains on simulations that were held out of the fit.
        missing: The share of the posterior where draws are missing.
        n_fit: The number of simulations that the repair was fitted on.
        n_unseen: The number of simulations of the proof.
        names: The names of the parameters.
        seed: The integer that reproduces this repair, as `rng=`.
    """

    outcome: str
    before: Check | None
    check: Check | None
    kept: float
    steps: tuple[Step, ...]
    missing: float
    n_fit: int
    n_unseen: int
    names: tuple[str, ...]
    seed: int
    _map: Map = field(repr=False)
    _domain: Domain = field(repr=False)
    _text: str = ""

    @property
    def proven(self) -> bool:
        """Whether the unseen simulations reject the posteriors as they were, and not as repaired.

        If as many draws that are not repaired pass as well, the proof is too small to tell. False
        for a repair that was loaded, whose text says the same.
        """
        passed = [one is not None and one.p_value > one.level for one in (self.before, self.check)]
        return passed == [False, True]

    @property
    def left(self) -> Table[Parameter]:
        """Bias, width and coverage that are left, parameter by parameter."""
        answer = self.before if self.outcome == "nothing to repair" else self.check
        return Table(()) if answer is None else answer.parameters

    @property
    def moves(self) -> Moves:
        """How far draws are moved, and by what they are widened, along the data."""
        move = self._map.move if self._applies else None
        return Moves.of(self._map.whitening, move, self._domain, self.names)

    def __call__(
        self, samples: ArrayLike, x: ArrayLike | None = None, *, outside: bool = False,
        rng: RNG = None,
    ) -> Floats:  # fmt: skip
        """Return repaired draws of the posterior of an observation.

        The first draws, a third of them but at most 200, give its units and are not returned.
        There are as many returned draws as are kept.

        Arguments:
            samples: The draws, `(n_draws, n_dims)`, independent and in random order.
            x: The observation, if the simulations have observations.
            outside: Whether to repair the posterior of an observation unlike the simulated ones.
            rng: Seed or generator.
        """
        arguments.flag("outside", outside)
        draws = domains.draws(samples, len(self.names), self._map.n_held)
        one = self._domain.observation(x)
        self._usable()
        if not outside:
            self._domain.belongs(one)
        if self.outcome == "nothing to repair":
            return fields.unflattened(draws, np.shape(samples)[1:])
        draw = np.random.default_rng(arguments.seed(rng))
        moved, kept = self._map(draws[:, None], one, draw)
        repaired = np.asarray(moved[:, 0][kept[:, 0]])
        return fields.unflattened(repaired, np.shape(samples)[1:])

    def applied(self, sims: Simulations, *, rng: RNG = None) -> Simulations:
        """Return simulations with repaired draws, for example fresh ones to check again.

        Each has as many draws as 95 % of them keep; the others are left out, which depends on the
        draws and not on the truths, so that a check stays exact.

        Arguments:
            sims: Simulations like those of the fit.
            rng: Seed or generator.
        """
        sims = mended.equal(sims, self._map.n_held)
        self._usable()
        if self.outcome == "nothing to repair":
            return sims
        found = mended.repaired(self._map, sims, np.random.default_rng(arguments.seed(rng)))
        if found.sims is None:
            raise ValueError(
                f"most of the simulations keep fewer than {mended.FEWEST_KEPT} draws: pass "
                f"simulations with more draws."
            )
        return found.sims

    def wrap(
        self, sampler: Callable[..., ArrayLike], *, outside: bool = False
    ) -> Callable[..., Floats]:
        """Return a sampler of repaired posteriors, `sampler(x, n_draws, rng)`.

        Arguments:
            sampler: Function of an observation, the number of draws, and a generator if it has a
                parameter `rng` or a third one; it returns draws `(n_draws, n_dims)`.
            outside: Whether to repair posteriors of observations unlike the simulated ones.
        """
        arguments.function("sampler", sampler, "a function of `x` and the number of draws")
        self._usable()
        named = arguments.name_of_rng(sampler)

        def repaired(x: ArrayLike, n_draws: int, rng: Generator | None = None) -> Floats:
            n_draws = arguments.positive("n_draws", n_draws)
            draw = np.random.default_rng() if rng is None else rng
            found, n_asked = [], self._map.n_held + int(n_draws / max(self.kept, 0.05)) + 10
            for _ in range(_MOST_CALLS):
                own = {named: draw} if named else {}
                found.append(self(sampler(x, n_asked, **own), x, outside=outside, rng=draw))
                if sum(map(len, found)) >= n_draws:
                    return np.concatenate(found)[:n_draws]
            raise ValueError(
                f"after {_MOST_CALLS} calls of the sampler only {sum(map(len, found))} of "
                f"{n_draws} draws were kept: the observation is unlike the simulated ones."
            )

        return repaired

    def save(self, path: str | Path) -> None:
        """Write an `.npz` file for `tarpon.load`, without pickling and without the checks.

        Example:
            >>> sims = tarpon.problems.zoo("shift", n_sims=500, rng=0)
            >>> tarpon.repair(sims, rng=0).save("repair.npz")
            >>> tarpon.load("repair.npz").outcome
            'repaired'
        """
        from . import repair_records

        disk.save(path, KIND, *repair_records.kept(self))

    def plot(
        self, samples: ArrayLike | None = None, x: ArrayLike | None = None, *, rng: RNG = None
    ) -> "Figure":
        """Draw bias and width before and after, what is moved along the data, and a posterior.

        Arguments:
            samples: Draws of one posterior, to draw it before and after.
            x: Its observation.
            rng: Seed or generator.
        """
        from .. import plots

        checks = self._checks()
        draw = [partial(plots.effects, one) for one in checks.values()]
        if self._applies and self._map.move is not None:
            draw += [partial(plots.moved, self)]
        if samples is not None:
            draw += [partial(plots.mended, self, samples, x, rng=rng)]
        if not draw:
            raise ValueError("there is nothing to draw of this repair without `samples`.")
        figure = plots.side_by_side(*draw)
        if checks:
            plots.alike(*figure.axes[: len(checks)], titles=list(checks))
        return figure

    def report(
        self,
        path: str | Path,
        samples: ArrayLike | None = None,
        x: ArrayLike | None = None,
        *,
        rng: RNG = None,
    ) -> None:
        """Write one HTML file: before and after side by side, what is moved, and a posterior.

        Arguments:
            path: The path of the file, which must end with `.html` or `.htm`.
            samples: Draws of one posterior, to show it before and after.
            x: Its observation.
            rng: Seed or generator.
        """
        from .. import report

        checks = self._checks()
        if not checks:
            raise ValueError(
                "a repair that was loaded has no checks to report: write the report before saving."
            )
        repaired = report.Repaired(self, samples, x, rng)
        report.write(path, *checks.values(), names=list(checks), repaired=repaired)

    def to_dict(self) -> dict[str, Any]:
        """Return everything that a program or a log would keep."""
        return repair_words.to_dict(self)

    def to_json(self) -> str:
        """Return the same as JSON."""
        return repair_words.to_json(self)

    def __repr__(self) -> str:
        return f"repair by {self.n_fit} simulations: {self.outcome}"

    def __str__(self) -> str:
        return self._text or repair_words.repair(self)

    @property
    def _applies(self) -> bool:
        """Whether the steps are applied to draws."""
        return self.outcome in ("repaired", "improved, still inaccurate")

    def _checks(self) -> dict[str, Check]:
        """Return the checks of draws as they were and, if steps are applied, as they are."""
        both = {"before": self.before, "after": self.check if self._applies else None}
        return {name: one for name, one in both.items() if one is not None}

    def _usable(self) -> None:
        if self.outcome == "cannot be repaired":
            raise ValueError(
                f"{str(self).splitlines()[0]}. Its draws are not returned: train again."
            )


def repair(
    sims: Simulations, *, share: float = 0.8, level: float = 0.05, n_swaps: int = 999,
    rng: RNG = None,
) -> Repair:  # fmt: skip
    """Repair posteriors on a share of the simulations, and prove it on the rest.

    Draws are first moved: location, width and correlation follow the data. Then they are kept with
    a probability, so that their shape follows the truths. A step is used only if it gains on
    simulations that are held out of its fit. The check of the unseen rest is exact for what
    `repair(samples, x)` returns.

    Arguments:
        sims: Simulations with draws of equal weight, in random order, and with observations if
            there are any.
        share: The share of simulations that the repair is fitted on.
        level: The level of the checks.
        n_swaps: The number of swaps of the checks.
        rng: Seed or generator.

    Returns:
        A `Repair`.

    Example:
        >>> sims = tarpon.problems.zoo("shift", n_sims=500, rng=0)
        >>> repair = tarpon.repair(sims, rng=0)
        >>> repair.outcome
        'repaired'
        >>> repair(sims.samples[:, 0], sims.x[0], rng=0).shape
        (67, 2)
    """
    arguments.instance("sims", sims, Simulations, "`Simulations`: tarpon.Simulations(...)")
    share, level = arguments.probability("share", share), arguments.probability("level", level)
    seed = arguments.seed(rng)
    split, fit, accept = np.random.default_rng(seed).spawn(3)
    sims = mended.equal(sims, _FEWEST_DRAWS)
    _no_few_values(sims)
    fitting, unseen = _parts(sims, share, split)
    doubt = check(fitting, level=_DOUBT, n_swaps=n_swaps, rng=seed)
    the_map = Map.fit(fitting.samples, fitting.theta, fitting.x, fit)
    found = mended.repaired(the_map, unseen, accept)
    before = check(found.before or unseen, level=level, n_swaps=n_swaps, rng=seed)
    after = None
    if found.sims is not None:
        after = check(found.sims, level=level, n_swaps=n_swaps, rng=seed)
    outcome = _outcome(the_map, doubt, before, after)
    return Repair(
        outcome, before, after, 1.0 if outcome == "nothing to repair" else found.kept,
        the_map.steps, the_map.lost, fitting.n_sims, unseen.n_sims, tuple(sims.names or ()), seed,
        the_map, Domain.of(sims),
    )  # fmt: skip


def _outcome(the_map: Map, doubt: Check, before: Check, after: Check | None) -> str:
    """Return what became of the posteriors."""
    idle = the_map.move is None and the_map.keep is None
    if doubt.p_value > _DOUBT or (idle and before.p_value > before.level):
        return "nothing to repair"
    if idle or after is None or the_map.lost > repair_words.LOST:
        return "cannot be repaired"
    if after.p_value > after.level:
        return "repaired"
    outside = any(one.kind is Kind.OUTSIDE for one in (*doubt.findings, *before.findings))
    return "cannot be repaired" if outside else "improved, still inaccurate"


def _parts(sims: Simulations, share: float, rng: Generator) -> tuple[Simulations, Simulations]:
    """Return the simulations of the fit and of the proof, split at random."""
    n_fit = round(share * sims.n_sims)
    if n_fit < _FEWEST_FIT or sims.n_sims - n_fit < _FEWEST_PROOF:
        raise ValueError(
            f"a repair needs at least {_FEWEST_FIT} simulations to be fitted and {_FEWEST_PROOF} "
            f"to be proven, but `share` = {share:g} of {sims.n_sims} leaves {n_fit} and "
            f"{sims.n_sims - n_fit}: simulate more, or change `share`."
        )
    order = rng.permutation(sims.n_sims)
    return chosen(sims, np.sort(order[:n_fit])), chosen(sims, np.sort(order[n_fit:]))


def _no_few_values(sims: Simulations) -> None:
    if few := Few.of(sims):
        names = ", ".join((sims.names or ())[k] for k in few.values)
        raise ValueError(
            f"parameters that take few values cannot be moved: {names}. Pass the others alone."
        )
