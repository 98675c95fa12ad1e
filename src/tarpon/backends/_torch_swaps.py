"""The expensive part of the swap test on torch tensors; `_swaps` documents the functions."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag, pad

from .._base.arrays import rounded_like, to_device_of
from .._base.types import Ints

_TOGETHER = 2**27  # numbers that a device takes together


def pool(truths: Tensor, draws: Tensor, place: Ints) -> Tensor:
    """Return truths `(n_sims, ...)` and draws `(n_draws, n_sims, ...)` as one tensor."""
    truths, (n_draws, n_sims) = rounded_like(truths, draws), draws.shape[:2]
    pooled = torch.empty(
        (n_sims, n_draws + 1, *draws.shape[2:]),
        dtype=torch.promote_types(truths.dtype, draws.dtype),
        device=draws.device,
    ).swapaxes(0, 1)
    pooled[:n_draws], pooled[n_draws] = draws, truths
    at, every = to_device_of(place, draws), torch.arange(n_sims, device=draws.device)
    pooled[n_draws] = pooled[at, every]
    pooled[at, every] = truths.to(pooled.dtype)
    return pooled


def decorrelate(points: Tensor, correlation: Callable[[slice], Tensor]) -> Tensor:
    """Return decorrelated points."""
    roots = torch.linalg.cholesky(correlation(slice(None)))
    return torch.linalg.solve_triangular(roots, points.mT, upper=False).mT.contiguous()


def inner_products(a: Tensor, b: Tensor) -> Tensor:
    """Return the products of rows `(n_sims, n, n_dims)` with rows `(n_sims, m, n_dims)`."""
    return a @ b.mT


def pooled_scores(
    scores: Tensor, n_points: int, played: Tensor, table: Tensor
) -> tuple[Tensor, Tensor]:
    """Rank all points of every simulation among its first `n_points`; also count ties."""
    # Adding zero makes zeros of both signs equal, also if a sort compares bits.
    columns = _comparable(scores).swapaxes(1, 2).contiguous() + 0
    ordered, order = columns[..., :n_points].sort(dim=2)
    same = ordered[..., 1:] == ordered[..., :-1]
    in_order = pad(same, (1, 0)) | pad(same, (0, 1))
    tied = torch.zeros_like(in_order).scatter_(2, order, in_order).sum(dim=1)
    start, stop = (
        torch.searchsorted(ordered, columns, right=right, out_int32=True)
        for right in (False, True)
    )
    extra, stands_for = columns[..., n_points:], played[:, None].expand(-1, columns.shape[1], -1)
    replaced = columns.gather(2, stands_for)
    start[..., n_points:] -= (replaced < extra).to(torch.int32)
    stop[..., n_points:] += (replaced > extra).to(torch.int32)
    both = (start + stop).swapaxes(1, 2)
    found = 0.5 * (table[(both - 1) // 2] + table[both // 2])
    return found, torch.cat([tied, tied.gather(1, played)], dim=1)


def _comparable(scores: Tensor) -> Tensor:
    """Return scores in a type that can be sorted, with distinct numbers kept distinct."""
    if scores.is_floating_point():
        return scores if scores.dtype.itemsize > 2 else scores.float()
    return scores.long()


def add_moments(scores: Tensor, slots: Tensor, moments: Tensor, sums: Tensor) -> None:
    """Add the moments of the normal scores of the points that play the truth, per score."""
    n_rows, n_functions, n_scores = sums.shape
    total = _total(_moments(scores, moments).flatten(2), slots)
    sums += total.reshape(n_rows, n_scores, n_functions).swapaxes(1, 2)


def mean_moments(scores: Tensor, moments: Tensor) -> Tensor:
    """Return the moments of normal scores `(n_sims, n_all, n_scores)`, averaged over the last."""
    return _moments(scores, moments).mean(dim=2)


def _moments(scores: Tensor, moments: Tensor) -> Tensor:
    """Return the moments of normal scores, along a new last axis."""
    powers = torch.stack([scores**m for m in range(1, moments.shape[1])], dim=-1)
    return moments[:, 0] + powers @ moments[:, 1:].T


def add_along(scores: Tensor, slots: Tensor, moments: Tensor, along: Tensor, sums: Tensor) -> None:
    """Add the first two moments of normal scores, each times numbers of its simulation."""
    width = moments[1, 0] + moments[1, 2] * scores * scores
    for m, values in enumerate((moments[0, 1] * scores, width)):
        for way in range(along.shape[1]):
            sums[:, m, way] += _total(values * along[:, None, way], slots)


def add_values(values: Tensor, slots: Tensor, sums: Tensor) -> None:
    """Add the values `(n_sims, n_all, n_values)` of the points that play the truth."""
    sums += _total(values, slots)


def over_rows(
    run: Callable[[slice, slice, Tensor], None], values: Tensor, slots: Tensor, n_numbers: int
) -> None:
    """Call a function on some rows at a time, and on all simulations."""
    n_rows, n_sims = slots.shape
    every, step = (
        torch.arange(n_sims, device=values.device),
        max(1, _TOGETHER // (n_sims * n_numbers)),
    )
    for first in range(0, n_rows, step):
        rows = slice(first, min(first + step, n_rows))
        run(rows, slice(0, n_sims), values[every, slots[rows]].mT)


def by_simulation(function: Callable[[Tensor], Tensor], numbers: Tensor) -> Tensor:
    """Return a function of every number, of all simulations at once."""
    return function(numbers)


def _total(values: Tensor, slots: Tensor) -> Tensor:
    """Return sums over simulations of the values in the slots, `(n_rows, n_values)`."""
    n_sims, n_all, n_values = values.shape
    first = n_all * torch.arange(n_sims, device=values.device)
    return embedding_bag(slots + first, values.reshape(-1, n_values), mode="sum")
