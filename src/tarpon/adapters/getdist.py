"""GetDist's text: the chains of cosmology, with weights in the first column."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._base import arguments
from .._base.types import Array, ArrayLike
from ..simulations import Simulations, shapes
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
    """Read chains as CosmoMC, Cobaya and GetDist write them, one root for each simulation.

    Where all weights are integers, they say how often a step was repeated, and chains are thinned
    to as many draws as they are worth. Where they are not, draws are weighted.

    Arguments:
        roots: For each simulation, what the names of its files begin with: `root.txt`, or
            `root_1.txt`, `root_2.txt` and so on, one a chain; and `root.paramnames`.
        theta: The true parameters: one array `(n_sims,)` a parameter, or such a mapping for each
            simulation, or `(n_sims, n_dims)` in the order of the parameters.
        discard: How many of the first rows of every chain to leave out, since these still
            remember where they began.
        variables: What to test; without it, what truths are named of, or all parameters that are
            not derived from others.
        x: What was observed, of shape `(n_sims, ...)`.
        on_invalid: What to do with simulations that hold NaN: `"raise"` or `"drop"`.
    """
    arguments.positive("discard", discard, 0)
    shapes.what_to_do(on_invalid)
    each = arguments.several("roots", roots, "a list of roots, one per simulation")
    runs = [_Run.read(arguments.path(root, "roots"), discard) for root in each]
    first = runs[0].sampled if runs else []
    wanted = _fits.some(_fits.named(theta, variables) or first)
    if all((weights == weights.round()).all() for run in runs for weights in run.weights):
        steps = (run.repeated(wanted, k) for k, run in enumerate(runs))
        return _fits.thinned(steps, theta, wanted, x=x, on_invalid=on_invalid)
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
                raise ValueError(f"{str(path)!r} holds weights that are negative or infinite.")
            weights.append(numbers[:, 0])
            rows.append(numbers[:, _LEADING:])
        return cls(names, sampled, weights, rows)

    def columns(self, wanted: Sequence[str], k: int) -> list[Array]:
        """Return the numbers of some parameters, `(n_rows, n_dims)` a chain."""
        place = {name: j for j, name in enumerate(self.names)}
        order = list(_fits.picked(place, wanted, k).values())
        return [rows[:, order] for rows in self.rows]

    def repeated(self, wanted: Sequence[str], k: int) -> dict[str, Array]:
        """Return all steps of each parameter, `(n_chains, n_steps)`, from the longest chains the
        last ones.
        """
        total = sum(float(weights.sum()) for weights in self.weights)
        if total > _MOST_STEPS:
            raise ValueError(f"fit {k} repeats its steps {total:g} times: thin it first.")
        both = zip(self.columns(wanted, k), self.weights, strict=True)
        steps = [np.repeat(rows, weights.astype(int), axis=0) for rows, weights in both]
        n_steps = min(len(chain) for chain in steps)
        cut = np.stack([chain[len(chain) - n_steps :] for chain in steps])
        return {name: cut[..., j] for j, name in enumerate(wanted)}


def _files(root: Path) -> list[Path]:
    """Return the files of all chains of a root."""
    one = root.with_name(f"{root.name}.txt")
    numbered = (path for path in root.parent.glob("*.txt") if path.stem.startswith(root.name))
    ends = {path.stem[len(root.name) :]: path for path in numbered}
    chains = {
        int(end[1:]): path for end, path in ends.items() if end[:1] in "_." and end[1:].isdigit()
    }
    found = [chains[k] for k in sorted(chains)] or [one] * one.exists()
    if not found:
        raise FileNotFoundError(
            f"there are no chains of {str(root)!r}: neither {one.name!r} nor {root.name}_1.txt."
        )
    return found


def _logarithm(weights: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(weights)
