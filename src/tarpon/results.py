"""Results: what one test says, in numbers, words, tables and files."""

import json
import platform
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import bands, curves, verdict
from ._base import arguments, disk, optional, text
from ._base.types import RNG, Floats
from ._version import __version__
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

_FORMAT = 3


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """What one test says: ranks, their curve, an exact p-value, and the flaw in words.

    Arguments:
        test: The name of the test.
        ranks: The rank of each truth among its draws.
        reading: What a rank says about where the truth lies.
        names: One name a score.
        seed: The integer that gives this result again, as `rng=`.
        draws: How many draws each truth was ranked among.
        n_dropped: How many invalid simulations were left out.
        settings: What else the result depends on, in words.
        dropping: Whether it depends on the simulations which of them were left out.
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
        """One p-value for all scores, the exact one, or for several their Bonferroni bound."""
        return verdict.familywise(self.p_values)

    @property
    def fractions(self) -> Floats:
        """The fraction of draws that score below the truth, the paper's f."""
        return self.ranks.values / self.ranks.n_draws

    @cached_property
    def verdict(self) -> str:
        """What the test found, in words."""
        what = "parameters" if self.test == "SBC" else "references"
        said = verdict.sentence(self.ranks, self.p_values, self.reading, self.names, what)
        return f"{said}{self.dropping.doubt}"

    def band(self, confidence: float = 0.95) -> Band:
        """Return the band that an accurate posterior's whole curve leaves with 1 - confidence."""
        confidence = arguments.probability("confidence", confidence)
        return bands.band(self.ranks.n_sims, self.ranks.n_draws, confidence)

    def bootstrap(self, n: int = 1000, *, rng: RNG = None) -> Floats:
        """Return `n` curves of resampled simulations, `(n, n_levels)` or with one axis more.

        They show how much the curve would move with other simulations. They are no test: use
        `p_value` and `band` for that.
        """
        return curves.bootstrap(self.ranks, n, np.random.default_rng(arguments.seed(rng)))

    def plot(self, *, ax: "Axes | None" = None) -> "Axes":
        """Draw expected coverage with its band; `plots.difference` shows small errors better."""
        from . import plots

        return plots.coverage(self, ax=ax)

    def to_dataset(self) -> "Dataset":
        """Return ranks, their values spread over [0, 1], and the curve, as an xarray Dataset."""
        xarray = optional.package("xarray", "io")
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
        """Return the ranks spread over [0, 1] as an xarray DataTree that ArviZ reads.

        Its group `prior_sbc` has one variable a score, of dimensions `chain` (one) and `draw`
        (the simulations), as `arviz_plots.plot_ecdf_pit` wants it. A slash in the name of a
        score becomes the sign of division, since a tree keeps the slash for its groups.

        Example:
            >>> result = tarpon.sbc(tarpon.problems.gaussian("correct", n_dims=2, rng=0), rng=0)
            >>> dict(result.to_datatree()["prior_sbc"].sizes)
            {'chain': 1, 'draw': 500}
        """
        xarray = optional.package("xarray", "io")
        dataset = self.to_dataset()
        pit = {
            name.replace("/", "\N{DIVISION SLASH}"): (("chain", "draw"), values[None])
            for name, values in zip(self.names, dataset["pit"].values.T, strict=True)
        }
        coords = {"chain": [0], "draw": range(self.ranks.n_sims)}
        group = xarray.Dataset(pit, coords=coords, attrs=dataset.attrs)
        return xarray.DataTree.from_dict({"prior_sbc": group})

    def to_frame(self) -> "DataFrame":
        """Return a pandas table with one row a score.

        Its columns are the name of the score, its p-value, the same adjusted for the number of
        scores (Bonferroni), and the largest distance of its curve from the diagonal.

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
        return optional.package("pandas", "io").DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers and words that a program or a log would keep."""
        return {
            "schema": "tarpon-result-1",
            "test": self.test,
            "p_value": self.p_value,
            "p_values": dict(zip(self.names, self.p_values.tolist(), strict=True)),
            "verdict": self.verdict,
            "n_sims": self.ranks.n_sims,
            "draws": asdict(self.draws),
            "n_dropped": self.n_dropped,
            "dropping": self.dropping.to_dict() if self.n_dropped else None,
            "seed": self.seed,
            "settings": self.settings,
            "versions": versions(),
        }

    def save(self, path: str | Path) -> None:
        """Write an `.npz` file that `tarpon.load` reads again; nothing in it is pickled."""
        about = {
            "format": _FORMAT,
            "test": self.test,
            "n_draws": self.ranks.n_draws,
            "draws": asdict(self.draws),
            "reading": self.reading.value,
            "names": self.names,
            "seed": self.seed,
            "n_dropped": self.n_dropped,
            "dropping": asdict(self.dropping),
            "settings": self.settings,
            "versions": versions(),
        }
        with Path(path).open("wb") as file:
            np.savez(file, ranks=self.ranks.values, about=np.array(json.dumps(about)))

    @property
    def citation(self) -> str:
        """The papers behind the test, to cite along with tarpon."""
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


def load(path: str | Path) -> Result:
    """Read a result that `Result.save` has written. Nothing is unpickled.

    Example:
        >>> result = tarpon.sbc(tarpon.problems.gaussian("correct", n_sims=20, rng=0), rng=0)
        >>> result.save("result.npz")
        >>> tarpon.load("result.npz").p_value == result.p_value
        True
    """
    try:
        with np.load(disk.existing(path), allow_pickle=False) as file:
            about, ranks = json.loads(str(file["about"])), file["ranks"]
        if about["format"] != _FORMAT:
            raise ValueError(f"it has format {about['format']}, and this version reads {_FORMAT}")
        return Result(
            about["test"],
            Ranks(ranks.astype(np.int64), int(about["n_draws"])),
            Reading(about["reading"]),
            tuple(about["names"]),
            int(about["seed"]),
            Draws(**about["draws"]),
            int(about["n_dropped"]),
            dict(about["settings"]),
            Dropping(**about["dropping"]),
        )
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(
            f"{str(path)!r} is not a result saved by `Result.save`: {error}."
        ) from error


def versions() -> dict[str, str]:
    """Return what the numbers may depend on."""
    return {
        "tarpon": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
