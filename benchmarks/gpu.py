"""Counting and `check` on a CUDA device, against its read limit and against torch itself.

    python benchmarks/gpu.py                    # prints, in about three minutes
    python benchmarks/gpu.py --write            # writes docs/benchmarks/gpu.md
    python benchmarks/gpu.py --quick            # counting in single precision only
    python benchmarks/gpu.py --tune             # tries many tiles, and prints the best

All numbers are measured in one run, on 10⁹ numbers: 4 GB in single precision. "Read" is the
highest speed at which a kernel, `torch.sum` or a copy reads the same memory. "Eager" is the
plain form in torch, the norm of differences. Times are medians.
"""

import argparse
import os
import time
import timeit
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import chain, product
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from tables import printed, write_page

from tarpon.backends import _torch, _triton
from tarpon.backends._terms import Constants, prepare
from tarpon.backends._triton import Tile

N_NUMBERS, N_DRAWS = 10**9, 1000
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "gpu.md"
DIMS = (1, 2, 4, 8, 16, 32, 64, 100, 256, 1000)
OTHER_DTYPES = (torch.float64, torch.float16, torch.bfloat16)


@triton.jit
def _read(numbers, out, n, SIZE: tl.constexpr):  # noqa: ANN001, ANN202
    at = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    total = tl.sum(tl.load(numbers + at, mask=at < n, other=0.0))
    if total == 12345.678:  # never true, but the compiler cannot know
        tl.store(out, total)


def milliseconds(function: Callable[[], object], budget: float = 0.15) -> float:
    """Return the median time of many calls, by the clock of the device."""
    function()
    torch.cuda.synchronize()
    times, begun = [], time.perf_counter()
    while len(times) < 5 or (time.perf_counter() - begun < budget and len(times) < 100):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        function()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop))
    return float(np.median(times))


def read_limit() -> float:
    """Return how many bytes can be read per second."""
    numbers = torch.randn(N_NUMBERS, device="cuda")
    other, out = torch.empty_like(numbers), torch.zeros(1, device="cuda")
    speeds = {"sum": numbers.nbytes / milliseconds(numbers.sum)}
    speeds["copy"] = 2 * numbers.nbytes / milliseconds(lambda: other.copy_(numbers))
    for size in (4096, 8192):
        grid = (triton.cdiv(N_NUMBERS, size),)
        took = milliseconds(lambda g=grid, s=size: _read[g](numbers, out, N_NUMBERS, SIZE=s))
        speeds[f"kernel of {size}"] = numbers.nbytes / took
    print(", ".join(f"{name} {speed / 1e6:.0f} GB/s" for name, speed in speeds.items()))
    return 1e3 * max(speeds.values())


def study(n_dims: int, dtype: torch.dtype, sims_first: bool) -> tuple[torch.Tensor, torch.Tensor]:
    n_sims = N_NUMBERS // (N_DRAWS * n_dims)
    shape = (n_sims, N_DRAWS, n_dims) if sims_first else (N_DRAWS, n_sims, n_dims)
    samples = torch.empty(shape, device="cuda", dtype=dtype)
    for part in samples.split(max(1, len(samples) // 16)):
        part.copy_(torch.randn(part.shape, device="cuda"))
    theta = torch.randn((n_sims, n_dims), device="cuda").to(dtype)
    return samples.swapaxes(0, 1) if sims_first else samples, theta


def eager(samples: torch.Tensor, theta: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
    far = torch.sqrt(((samples - centre) ** 2).sum(dim=-1))
    return (far < torch.sqrt(((theta - centre) ** 2).sum(dim=-1))).sum(dim=0)


def row(n_dims: int, dtype: torch.dtype, sims_first: bool, n_centres: int, limit: float) -> str:
    samples, theta = study(n_dims, dtype, sims_first)
    n_sims, weight = len(theta), np.linspace(1.0, 2.0, n_dims)
    shape = (n_sims, n_centres, n_dims) if n_centres > 1 else (n_sims, n_dims)
    centres = np.random.default_rng(0).uniform(-2, 2, size=shape)
    around = torch.as_tensor(centres, device="cuda").reshape(n_sims, n_centres, n_dims)
    truth = theta.to(_torch._working(dtype))
    constants = prepare("l2", truth, theta.double()[:, None] - around, weight, np.inf)
    lost = torch.zeros(1, dtype=torch.int32, device="cuda")
    took = milliseconds(lambda: _triton.closer("l2", samples, constants, lost))
    share = samples.nbytes / limit / (took / 1e3)
    cells = [
        n_dims, str(dtype).removeprefix("torch."),
        "simulations first" if sims_first else "draws first", n_centres,
        f"{took:.2f}", f"{share:.0%}",
    ]  # fmt: skip
    if n_centres == 1:
        again = milliseconds(lambda: eager(samples, theta, around[:, 0].to(dtype)))
        call = min(
            timeit.repeat(
                lambda: _torch.closer(samples, theta, centres, weight), number=1, repeat=7
            )
        )
        cells += [f"{again / took:.1f}", f"{1e3 * call:.1f}"]
    else:
        cells += ["", ""]
    return "| " + " | ".join(map(str, cells)) + " |"


def counting(limit: float, quick: bool) -> Iterator[str]:
    yield "| parameters | precision | order | references | ms | of read | × eager | call, ms |"
    yield "|--:|---|---|--:|--:|--:|--:|--:|"
    for n_centres in (1, 10):
        for sims_first in (True, False):
            for n_dims in DIMS:
                yield row(n_dims, torch.float32, sims_first, n_centres, limit)
    for dtype in () if quick else OTHER_DTYPES:
        for n_dims in DIMS[1::2]:
            yield row(n_dims, dtype, n_dims != 100, 1, limit)


def whole() -> Iterator[str]:
    """Yield the times of `tarp` and `sbc`, references and all."""
    import tarpon

    yield ""
    yield "| draws × simulations × parameters, float32 | `tarp`, ms | `sbc`, ms |"
    yield "|---|--:|--:|"
    for n_dims in (2, 10, 100, 1000):
        samples, theta = study(n_dims, torch.float32, True)
        times = [
            min(timeit.repeat(partial(test, samples, theta, rng=0), number=1, repeat=5))
            for test in (tarpon.tarp, tarpon.sbc)
        ]
        shape = f"{N_DRAWS} × {len(theta)} × {n_dims}"
        yield f"| {shape} | {1e3 * times[0]:.1f} | {1e3 * times[1]:.1f} |"


def checking() -> Iterator[str]:
    yield ""
    yield "| `check` of simulations × draws × parameters | s |"
    yield "|---|--:|"
    for n_sims, n_draws, n_dims in ((500, 1000, 10), (500, 1000, 256)):
        samples = torch.randn((n_draws, n_sims, n_dims), device="cuda")
        theta = torch.randn((n_sims, n_dims), device="cuda")
        x = np.random.default_rng(0).standard_normal((n_sims, 1024), dtype=np.float32)
        yield f"| {n_sims} × {n_draws} × {n_dims} | {_seconds(samples, theta, x)} |"
    fields = _fields()
    gb = fields[0].nbytes / 1e9
    yield f"| fields, 200 × 100 × 256 × 256, {gb:.1f} GB | {_seconds(*fields, None)} |"


def _seconds(samples: torch.Tensor, theta: torch.Tensor, x: np.ndarray | None) -> str:
    """Return how long the best and the first of several checks take."""
    import tarpon

    times = []
    for _ in range(4):
        torch.cuda.synchronize()
        start = time.perf_counter()
        tarpon.check(samples, theta, x=x, rng=0)
        times.append(time.perf_counter() - start)
    return f"{min(times):.2f} (first {times[0]:.1f})"


def _fields() -> tuple[torch.Tensor, torch.Tensor]:
    """Return fields of white noise, with draws of their posterior that are 3 % too narrow."""
    theta, noise = torch.randn((2, 200, 256, 256), device="cuda")
    samples = torch.randn((100, *theta.shape), device="cuda")
    samples *= 0.97 * 0.5**0.5
    samples += (theta + noise) / 2
    return samples, theta


class Case(NamedTuple):
    """What tiles are tried on."""

    n_dims: int
    sims_first: bool
    n_centres: int
    dtype: torch.dtype = torch.float32


def candidates(case: Case) -> Iterator[tuple[str, Tile]]:
    """Yield kernels and tiles to try."""
    n_dims, sims_first, n_centres, _ = case
    power = triton.next_power_of_2(n_dims)
    shapes = ((1024, 2), (1024, 4), (2048, 2), (2048, 4), (4096, 4), (4096, 8), (8192, 8))
    if n_centres == 1 and power <= 128:
        for size, warps in shapes:
            most = size // power
            for draws in {min(most, 1024), min(most, 256)} if sims_first else (2, 4, 16):
                for n, stages in ((1, 1), (2, 1), (8, 3), (64, 3)):
                    n = min(n, triton.cdiv(N_DRAWS, draws))
                    if draws <= most and (sims_first or n > 2):
                        yield "single", Tile(draws, most // draws, power, n, warps, stages)
    elif n_centres == 1:
        for dims, draws, sims in product((64, 128, 256), (4, 8, 16, 32, 64), (1, 4)):
            for stages, warps in ((1, 4), (1, 8), (3, 4), (4, 4)):
                if 1024 <= dims * draws * sims <= 8192 and not (sims_first and sims > 1):
                    yield "single", Tile(draws, sims, dims, 1, warps, stages)
    if n_centres > 1 and n_dims <= 16:
        for warps, a, n, stages in product((1, 2, 4), (1, 2, 4), (8, 32), (1, 2)):
            tile = (32 * a * warps, 1, n_dims, n) if sims_first else (a, 32 * warps, n_dims, 8 * n)
            if not (sims_first and stages > 1):
                tile = (*tile[:3], min(n, triton.cdiv(N_DRAWS, tile[0]))) if sims_first else tile
                yield "short", Tile(*tile, warps, stages)
    if n_centres > 1 and n_dims >= 8:
        for draws, dims, n in product((32, 64, 128), (8, 16, 32, 64, 128), (1, 8, 32)):
            whole = dims == power
            if (whole or (dims < power and dims >= 32 and n == 1)) and draws * n < 2 * N_DRAWS:
                for warps, stages in ((4, 1), (4, 3), (8, 1), (2, 2)):
                    if warps * 32 <= 2 * draws:
                        yield "product", Tile(draws, 1, dims, n, warps, stages)


def launch(kernel: str, samples: torch.Tensor, constants: Constants, tile: Tile) -> torch.Tensor:
    arguments = (samples, constants, tile, torch.zeros(1, dtype=torch.int32, device="cuda"))
    if kernel == "product":
        return _triton.product(*arguments)
    return {"single": _triton.single, "short": _triton.short}[kernel]("l2", *arguments)


def compiled(job: tuple[Case, str, Tile]) -> bool:
    """Compile one kernel in a separate process, into the common cache on disk."""
    case, kernel, tile = job
    try:
        launch(kernel, *_blank(case), tile)
        torch.cuda.synchronize()
    except Exception:  # Too large for the device: not a candidate.
        return False
    return True


@cache
def _memory() -> torch.Tensor:
    return torch.empty(8 * N_NUMBERS, device="cuda", dtype=torch.uint8)


def _blank(case: Case) -> tuple[torch.Tensor, Constants]:
    """Return draws and constants to compile for, whatever is in them."""
    n_dims, sims_first, n_centres, dtype = case
    n_sims = N_NUMBERS // (N_DRAWS * n_dims)
    shape = (n_sims, N_DRAWS, n_dims) if sims_first else (N_DRAWS, n_sims, n_dims)
    samples = _memory().view(dtype)[: n_sims * N_DRAWS * n_dims].reshape(shape)
    working = _torch._working(dtype)
    zeros = [
        torch.zeros(s, device="cuda", dtype=working)
        for s in ((n_sims, n_dims), (n_sims, n_centres, n_dims), (3, n_dims))
    ]
    return samples.swapaxes(0, 1) if sims_first else samples, Constants(*zeros)


def tune(limit: float) -> Iterator[str]:
    """Compile all candidates on all processors, time them, and yield the best per case."""
    cases = [Case(d, first, c) for c, first, d in product((1, 10), (True, False), DIMS)]
    cases += [Case(d, d != 100, 1, t) for t, d in product(OTHER_DTYPES[:2], DIMS[1::2])]
    tiles = {case: sorted(set(candidates(case))) for case in cases}
    jobs = [(case, *choice) for case, choices in tiles.items() for choice in choices]
    begun = time.perf_counter()
    with get_context("spawn").Pool(min(12, os.cpu_count() or 1)) as pool:
        fine = dict(zip(jobs, pool.map(compiled, jobs, chunksize=2), strict=True))
    yield f"{len(jobs)} compiled in {time.perf_counter() - begun:.0f} s, {sum(fine.values())} fine"
    for case, choices in tiles.items():
        samples, theta = study(case.n_dims, case.dtype, case.sims_first)
        shape = (len(theta), case.n_centres, case.n_dims)
        away = torch.randn(shape, device="cuda", dtype=torch.float64)
        truth = theta.to(_torch._working(case.dtype))
        weight = np.linspace(1.0, 2.0, case.n_dims)
        constants = prepare("l2", truth, away, weight, np.inf)
        times = []
        for kernel, tile in choices:
            if fine[case, kernel, tile]:
                call = partial(launch, kernel, samples, constants, tile)
                times.append((milliseconds(call, 0.02), kernel, tuple(tile)))
        order = "sims" if case.sims_first else "draws"
        best = [
            f"{samples.nbytes / limit / took * 1e3:.0%} {kernel[0]}{tile}"
            for took, kernel, tile in sorted(times)[:6]
        ]
        head = f"{case.n_dims} {order} {case.n_centres} {case.dtype}: "
        yield head + "; ".join(best).replace(", ", ",")
        del samples, theta, constants, call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write gpu.md")
    parser.add_argument("--quick", action="store_true", help="count in single precision only")
    parser.add_argument("--tune", action="store_true", help="try many tiles")
    options = parser.parse_args()
    torch.manual_seed(0)
    limit = read_limit()
    if options.tune:
        printed(tune(limit))
        return
    lines = [
        "# Counting on a GPU",
        "",
        f"Written by `python benchmarks/gpu.py --write` on one {torch.cuda.get_device_name()}, "
        f"torch {torch.__version__}, triton {triton.__version__}. Read limit "
        f"{limit / 1e9:.0f} GB/s; {N_NUMBERS:.0e} numbers, {N_DRAWS} draws per simulation, "
        "ties and NaN counted, parameters with scales of their own. The call also copies the "
        "references to the GPU and the counts back. `tarp` draws the references on the CPU first, "
        "so that it has the same ones everywhere.",
        "",
    ]
    parts = [counting(limit, options.quick), *([] if options.quick else [whole(), checking()])]
    lines = printed(chain(lines, *parts))
    if options.write:
        write_page(PAGE, lines)


if __name__ == "__main__":
    main()
