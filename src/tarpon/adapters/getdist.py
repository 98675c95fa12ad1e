"""Text files of GetDist: chains of cosmology, with weights in the first column."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._base.types import Array, ArrayLike
from ..simulations import Simulations
from . import _fits, _variables
from ._fits import Truths

_MOST_STEPS = 10**8
_LEADING = 2  # weight and log-posterior


def from_getdist(
    roots: Iterable[str | Path],
    theta: Truths,
    *,
    discard: int,
    variables: Sequence[str] | None = None,
    x: ArrayLike | None = None,
    on_invalid: str = "raise",
) -> Simulations:
    """Read chains of CosmoMC, Cobaya and GetDist, one root per simulation.

    If all weights are integers, they count how often a step was repeated, and chains are thinned
    to their effective sample size. Otherwise draws are weighted.

    Arguments:
        roots: Beginnings of the names of the files, one per simulation: `root.txt`, or
            `root_1.txt`, `root_2.txt` and so on, one per chain; and `root.paramnames`.
        theta: True parameters: one array `(n_sims,)` per parameter, or one mapping from parameters
            to values per simulation, or `(n_sims, n_dims)` in the order of the parameters.
        discard: Number of burn-in rows to discard at the start of every chain.
        variables: Parameters to test; by default those named in `theta`, or all that are not
            derived.
        x: Observations `(n_sims, ...)`.
        on_invalid: `"raise"`, or `"drop"` to drop simulations with NaN or infinite values.
    """
    runs = [_Run.read(Path(root), discard) for root in roots]
    first = runs[0].sampled if runs else []
    wanted = _fits.some(_fits.named(theta, variables) or first)
    if all((weights == weights.round()).all() for run in runs for weights in run.weights):
        by_sim = (run.repeated(wanted, k) for k, run in enumerate(runs))
        return _fits.thinned(by_sim, theta, wanted, x=x, on_invalid=on_invalid)
    log_weights: Any = [_logarithm(np.concatenate(run.weights)) for run in runs]
    return Simulations(
        [np.concatenate(run.columns(wanted, k)) for k, run in enumerate(runs)],
        _variables.truths(theta, wanted),
        log_weights=log_weights,
        names=wanted,
        x=x,
        on_invalid=on_invalid,
    )


@dataclass(frozen=True, eq=False)
class _Run:
    """The chains of one simulation."""

    names: list[str]
    sampled: list[str]
    weights: list[Array]
    rows: list[Array]

    @classmethod
    def read(cls, root: Path, discard: int) -> "_Run":
        """Read all chains of a root, without the first rows of each."""
        described = _fits.text(f"{root}.paramnames", "GetDist's names").splitlines()
        words = [line.split()[0] for line in described if line.strip()]
        names = [word.removesuffix("*") for word in words]
        sampled = [word for word in words if not word.endswith("*")]
        weights, rows = [], []
        for path in _files(root):
            lines = [line for line in _fits.text(path, "a chain").splitlines() if line.strip()]
            kept = [line for line in lines if not line.startswith("#")][discard:]
            numbers = _fits.table(path, kept, None, _LEADING + len(names))
            if not (np.isfinite(numbers[:, 0]) & (numbers[:, 0] >= 0)).all():
                raise ValueError(f"{str(path)!r} contains negative, NaN or infinite weights.")
            weights.append(numbers[:, 0])
            rows.append(numbers[:, _LEADING:])
        return cls(names, sampled, weights, rows)

    def columns(self, wanted: Sequence[str], k: int) -> list[Array]:
        """Return the numbers of some parameters, `(n_rows, n_dims)` per chain."""
        place = {name: j for j, name in enumerate(self.names)}
        order = list(_fits.picked(place, wanted, k).values())
        return [rows[:, order] for rows in self.rows]

    def repeated(self, wanted: Sequence[str], k: int) -> dict[str, Array]:
        """Return the steps of each parameter, `(n_chains, n_steps)`.

        All chains are cut to the last steps, as many as the shortest has.
        """
        total = sum(float(weights.sum()) for weights in self.weights)
        if total > _MOST_STEPS:
            raise ValueError(f"fit {k} has {total:g} steps with their repeats: thin it first.")
        both = zip(self.columns(wanted, k), self.weights, strict=True)
        steps = [np.repeat(rows, weights.astype(int), axis=0) for rows, weights in both]
        n_steps = min(len(chain) for chain in steps)
        cut = np.stack([chain[len(chain) - n_steps :] for chain in steps])
        return {name: cut[..., j] for j, name in enumerate(wanted)}


def _files(root: Path) -> list[Path]:
    """Return the files of all chains of a root."""
    single = root.with_name(f"{root.name}.txt")
    numbered = (path for path in root.parent.glob("*.txt") if path.stem.startswith(root.name))
    ends = {path.stem[len(root.name) :]: path for path in numbered}
    chains = {
        int(end[1:]): path for end, path in ends.items() if end[:1] in "_." and end[1:].isdigit()
    }
    paths = [chains[k] for k in sorted(chains)] or [single] * single.exists()
    if not paths:
        raise FileNotFoundError(
            f"there are no chains of {str(root)!r}: neither {single.name!r} nor "
            f"'{root.name}_1.txt' exists."
        )
    return paths


def _logarithm(weights: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(weights)
