"""Results of one test, as numbers, words, tables and files."""

from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import bands, curves, verdict
from ._base import arguments, disk, optional, text
from ._base.arguments import shown
from ._base.text import clean
from ._base.types import RNG, Floats
from .bands import Band
from .curves import Curve
from .ranks import Ranks
from .simulations.dropping import Dropping
from .simulations.weights import Draws
from .verdict import Reading

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame
    from xarray import Dataset, DataTree

KIND = "result"
_MOST_DRAWS = 10**7  # whose curve still fits into memory


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The result of one test: ranks, their curve, an exact p-value, and the flaw in words.

    Arguments:
        test: Name of the test.
        ranks: Ranks of the truths among their draws.
        reading: What a rank means for the position of the truth.
        names: Names, one per score.
        seed: Integer that reproduces this result, as `rng=`.
        draws: Number of draws that each truth was ranked among.
        n_dropped: Number of invalid simulations that were dropped.
        settings: Further arguments that the result depends on, in words.
        dropping: Whether dropping depends on the simulations.
    """

    test: str
    ranks: Ranks
    reading: Reading
    names: tuple[str, ...]
    seed: int
    draws: Draws
    n_dropped: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    dropping: Dropping = field(default=Dropping())

    @cached_property
    def curve(self) -> Curve:
        """Expected coverage against credibility level."""
        return Curve.of(self.ranks)

    @cached_property
    def p_values(self) -> Floats:
        """The exact p-value of each score, of shape `(n_scores,)`."""
        return bands.p_values(self.ranks)

    @property
    def p_value(self) -> float:
        """One p-value for all scores, exact for one score and the Bonferroni bound for several."""
        return verdict.familywise(self.p_values)

    @property
    def fractions(self) -> Floats:
        """The fraction of draws that score below the truth, the paper's f."""
        return self.ranks.values / self.ranks.n_draws

    @property
    def outcome(self) -> str:
        """One of "inaccurate" and "no evidence against", at a level of 5 %."""
        return "inaccurate" if self.p_value <= verdict.LEVEL else "no evidence against"

    @cached_property
    def verdict(self) -> str:
        """What the test found, in words."""
        scores = "parameters" if self.test == "SBC" else "references"
        words = verdict.sentence(self.ranks, self.p_values, self.reading, self.names, scores)
        return f"{words}{self.dropping.doubt}"

    def band(self, confidence: float = 0.95) -> Band:
        """Return the band that contains the whole curve of an accurate posterior."""
        confidence = arguments.probability("confidence", confidence)
        return bands.band(self.ranks.n_sims, self.ranks.n_draws, confidence)

    def bootstrap(self, n: int = 1000, *, rng: RNG = None) -> Floats:
        """Return `n` curves of resampled simulations, `(n, n_levels)` or with an axis of scores.

        They show how much the curve would vary with other simulations. To test accuracy, use
        `p_value` and `band`.
        """
        n, n_scores = arguments.positive("n", n), len(self.names)
        arguments.affordable(
            16.0 * n * (self.ranks.n_draws + 2) * n_scores,
            f"`n` = {arguments.shown(n)} curves",
            "Ask for fewer: a thousand show how much a curve moves.",
        )
        return curves.bootstrap(self.ranks, n, np.random.default_rng(arguments.seed(rng)))

    def plot(self, *, ax: "Axes | None" = None) -> "Axes":
        """Plot expected coverage with its band; `plots.difference` shows small errors better."""
        from . import plots

        return plots.coverage(self, ax=ax)

    def to_dataset(self) -> "Dataset":
        """Return ranks, their probability integral transform and the curve as a Dataset."""
        xarray = optional.package("xarray")
        shape = (self.ranks.n_sims, len(self.names))
        pit = self.ranks.pit(np.random.default_rng(self.seed)).reshape(shape)
        ecp = self.curve.ecp.reshape(-1, len(self.names))
        return xarray.Dataset(
            {
                "rank": (("sim", "score"), self.ranks.values.reshape(shape)),
                "pit": (("sim", "score"), pit),
                "ecp": (("level", "score"), ecp),
                "p_value": (("score",), self.p_values),
            },
            coords={"score": list(self.names), "level": self.curve.level},
            attrs={"test": self.test, "draws": str(self.draws), "seed": str(self.seed)},
        )

    def to_datatree(self) -> "DataTree":
        """Return the probability integral transform of the ranks as a DataTree for ArviZ.

        The group `prior_sbc` has one variable per score, of dimensions `chain` (length 1) and
        `draw` (the simulations), as `arviz_plots.plot_ecdf_pit` needs it. A slash in the name of
        a score becomes a division sign, since a tree uses the slash for groups.

        Example:
            >>> result = tarpon.sbc(tarpon.problems.gaussian("correct", n_dims=2, rng=0), rng=0)
            >>> dict(result.to_datatree()["prior_sbc"].sizes)
            {'chain': 1, 'draw': 500}
        """
        xarray = optional.package("xarray")
        dataset = self.to_dataset()
        pit = {
            name.replace("/", "\N{DIVISION SLASH}"): (("chain", "draw"), values[None])
            for name, values in zip(self.names, dataset["pit"].values.T, strict=True)
        }
        coords = {"chain": [0], "draw": range(self.ranks.n_sims)}
        group = xarray.Dataset(pit, coords=coords, attrs=dataset.attrs)
        return xarray.DataTree.from_dict({"prior_sbc": group})

    def to_frame(self) -> "DataFrame":
        """Return a pandas table with one row per score.

        The columns are the name of the score, its p-value, the p-value adjusted for the number
        of scores (Bonferroni), and the largest distance of the curve from the diagonal.

        Example:
            >>> result = tarpon.sbc(tarpon.problems.gaussian("correct", n_dims=2, rng=0), rng=0)
            >>> list(result.to_frame()["name"])
            ['theta_0', 'theta_1']
        """
        ecp = self.curve.ecp.reshape(-1, len(self.names))
        columns = {
            "name": list(self.names),
            "p_value": self.p_values,
            "adjusted": np.minimum(1.0, len(self.names) * self.p_values),
            "deviation": abs(ecp - self.curve.level[:, None]).max(axis=0),
        }
        return optional.package("pandas").DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers and words that a program or a log would store."""
        return {
            "schema": "tarpon-result-1",
            "test": self.test,
            "outcome": self.outcome,
            "p_value": self.p_value,
            "p_values": dict(zip(self.names, self.p_values.tolist(), strict=True)),
            "verdict": self.verdict,
            "n_sims": self.ranks.n_sims,
            "draws": asdict(self.draws),
            "n_dropped": self.n_dropped,
            "dropping": self.dropping.to_dict() if self.n_dropped else None,
            "seed": self.seed,
            "settings": self.settings,
            "versions": disk.versions(),
        }

    def save(self, path: str | Path) -> None:
        """Write an `.npz` file for `tarpon.load`, without pickling.

        An old file of the same name is replaced at once; if the disk is full, it stays.
        """
        about = {
            "test": self.test,
            "n_draws": self.ranks.n_draws,
            "draws": asdict(self.draws),
            "reading": self.reading.value,
            "names": self.names,
            "seed": self.seed,
            "n_dropped": self.n_dropped,
            "dropping": asdict(self.dropping),
            "settings": self.settings,
        }
        disk.save(path, KIND, about, {"ranks": self.ranks.values})

    @property
    def citation(self) -> str:
        """The papers behind the test, to cite together with tarpon."""
        return _CITATIONS[self.test]

    def _repr_html_(self) -> str:
        from . import report

        return report.card(self)

    def __repr__(self) -> str:
        dropped = text.dropped(self.n_dropped)
        return (
            f"{self.test} on {self.ranks.n_sims} simulations{dropped} × {self.draws}, "
            f"{text.stated('p', self.p_value)}: {self.verdict}"
        )


_BANDS = (
    "Säilynoja, Bürkner and Vehtari (2022), Graphical test for discrete uniformity and its "
    "applications in goodness-of-fit evaluation and multiple sample comparison."
)
_LEMOS = (
    "Lemos, Coogan, Hezaveh and Perreault-Levasseur (2023), Sampling-based accuracy testing of "
    "posterior estimators for general inference."
)
_TALTS = (
    "Talts, Betancourt, Simpson, Vehtari and Gelman (2018), Validating Bayesian inference "
    "algorithms with simulation-based calibration."
)
_CITATIONS = {
    "TARP": f"{_LEMOS} {_BANDS}",
    "HPD": f"{_LEMOS} {_BANDS}",
    "SBC": f"{_TALTS} {_BANDS}",
    "joint": f"{_LEMOS} {_BANDS}",
}
CITATION = (
    f"{_LEMOS} {_TALTS} {_BANDS} Westfall and Young (1993), Resampling-based multiple testing."
)


def restored(record: disk.Record) -> Result:
    """Return a result that was saved; raise `ValueError` if the record is of anything else."""
    n_draws = record.count("n_draws", 1, _MOST_DRAWS)
    ranks = record.arrays.get("ranks", np.empty(0))
    n_scores = ranks.shape[1:]
    test, settings = record.value("test", str), record.value("settings", dict)
    if test not in _CITATIONS or not ranks.size or len(n_scores) > 1:
        raise ValueError(f"there is no test {shown(test)} with ranks {ranks.shape}")
    if not all(isinstance(text, str) for text in settings.values()):
        raise ValueError(f"'settings' must be texts, but are {shown(settings)}")
    return Result(
        test,
        Ranks(record.integers("ranks", n_draws, None, *n_scores), n_draws),
        Reading(record.value("reading", str)),
        tuple(clean(name) for name in record.texts("names", *(n_scores or (1,)))),
        record.count("seed"),
        _draws(disk.Record(record.value("draws", dict), {})),
        record.count("n_dropped"),
        settings,
        _dropping(disk.Record(record.value("dropping", dict), {})),
    )


def _dropping(record: disk.Record) -> Dropping:
    """Return the p-values of dropping in a record."""
    p_values = {name: record.about.get(name) for name in ("truths", "draws", "x")}
    for name, p_value in p_values.items():
        if p_value is not None and not (isinstance(p_value, float) and 0 <= p_value <= 1):
            raise ValueError(f"{name!r} must be a p-value, but is {shown(p_value)}")
    return Dropping(**p_values, where=record.value("where", str))


def _draws(record: disk.Record) -> Draws:
    """Return the numbers of draws in a record."""
    fewest, worth = record.count("fewest"), record.about.get("worth")
    if worth is not None:
        worth = record.value("worth", list)
        if len(worth) != 2 or not all(isinstance(n, float) and isfinite(n) for n in worth):
            raise ValueError(f"'worth' must be two numbers, but is {shown(worth)}")
    return Draws(
        fewest,
        record.count("most", least=fewest),
        None if worth is None else (worth[0], worth[1]),
        record.value("approximate", bool),
    )
