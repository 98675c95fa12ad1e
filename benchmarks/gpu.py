"""Counting and `check` on a CUDA device, against its read limit and against torch itself.

    python benchmarks/gpu.py                    # prints as it goes, in about three minutes
    python benchmarks/gpu.py --write            # writes gpu.md beside this file
    python benchmarks/gpu.py --quick            # counting in single precision alone

Every number is measured in one run, on 10⁹ numbers: 4 GB in single precision. "Read" is the
highest speed at which a kernel, `torch.sum` or a copy gets through the same memory. "Eager" is
the reference form in torch, the norm of differences. Times are medians.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
import triton
import triton.language as tl

from tarpon.backends import _torch, _triton
from tarpon.backends._terms import prepare

N_NUMBERS, N_DRAWS = 10**9, 1000
DIMS = (1, 2, 4, 8, 16, 32, 64, 100, 256, 1000)
OTHER_DTYPES = (torch.float64, torch.float16, torch.bfloat16)


@triton.jit
def _read(numbers, out, n, SIZE: tl.constexpr):  # noqa: ANN001, ANN202
    at = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    total = tl.sum(tl.load(numbers + at, mask=at < n, other=0.0))
    if total == 12345.678:  # never, but the compiler must read to know
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
    """Return how many bytes a second can be read."""
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


def eager(samples: torch.Tensor, theta: torch.Tensor, center: torch.Tensor) -> torch.Tensor:
    far = torch.sqrt(((samples - center) ** 2).sum(dim=-1))
    return (far < torch.sqrt(((theta - center) ** 2).sum(dim=-1))).sum(dim=0)


def row(n_dims: int, dtype: torch.dtype, sims_first: bool, n_centers: int, limit: float) -> str:
    samples, theta = study(n_dims, dtype, sims_first)
    n_sims, weight = len(theta), np.ones(n_dims)
    shape = (n_sims, n_centers, n_dims) if n_centers > 1 else (n_sims, n_dims)
    centers = np.random.default_rng(0).uniform(-2, 2, size=shape)
    around = torch.as_tensor(centers, device="cuda").reshape(n_sims, n_centers, n_dims)
    truth = theta.to(_torch._working(dtype))
    constants = prepare("l2", truth, theta.double()[:, None] - around, weight, np.inf)
    took = milliseconds(lambda: _triton.closer("l2", samples, constants))
    share = samples.nbytes / limit / (took / 1e3)
    cells = [
        n_dims, str(dtype).removeprefix("torch."),
        "simulations first" if sims_first else "draws first", n_centers,
        f"{took:.2f}", f"{share:.0%}",
    ]  # fmt: skip
    if n_centers == 1:
        again = milliseconds(lambda: eager(samples, theta, around[:, 0].to(dtype)))
        start = time.perf_counter()
        _torch.closer(samples, theta, centers, weight)
        whole = 1e3 * (time.perf_counter() - start)
        cells += [f"{again / took:.1f}", f"{whole:.1f}"]
    else:
        cells += ["", ""]
    return "| " + " | ".join(map(str, cells)) + " |"


def counting(limit: float, quick: bool) -> Iterator[str]:
    yield "| parameters | precision | order | references | ms | of read | × eager | call, ms |"
    yield "|--:|---|---|--:|--:|--:|--:|--:|"
    for n_centers in (1, 10):
        for sims_first in (True, False):
            for n_dims in DIMS:
                yield row(n_dims, torch.float32, sims_first, n_centers, limit)
    for dtype in () if quick else OTHER_DTYPES:
        for n_dims in DIMS[1::2]:
            yield row(n_dims, dtype, n_dims != 100, 1, limit)


def checking() -> Iterator[str]:
    import tarpon

    yield ""
    yield "| `check` of simulations × draws × parameters | s |"
    yield "|---|--:|"
    for n_sims, n_draws, n_dims in ((500, 1000, 10), (500, 1000, 256)):
        samples = torch.randn((n_draws, n_sims, n_dims), device="cuda")
        theta = torch.randn((n_sims, n_dims), device="cuda")
        x = np.random.default_rng(0).standard_normal((n_sims, 1024), dtype=np.float32)
        times = []
        for _ in range(4):
            torch.cuda.synchronize()
            start = time.perf_counter()
            tarpon.check(samples, theta, x=x, rng=0)
            times.append(time.perf_counter() - start)
        yield f"| {n_sims} × {n_draws} × {n_dims} | {min(times):.2f} (first {times[0]:.1f}) |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write gpu.md")
    parser.add_argument("--quick", action="store_true", help="count in single precision alone")
    asked = parser.parse_args()
    torch.manual_seed(0)
    limit = read_limit()
    lines = [
        "# Counting on a GPU",
        "",
        f"Written by `python benchmarks/gpu.py --write` on one {torch.cuda.get_device_name()}, "
        f"torch {torch.__version__}, triton {triton.__version__}. Read limit "
        f"{limit / 1e9:.0f} GB/s; {N_NUMBERS:.0e} numbers, {N_DRAWS} draws a simulation, ties "
        "counted. The call also moves the references there and the counts back.",
        "",
    ]
    for line in lines:
        print(line)
    parts = (
        (counting(limit, asked.quick),) if asked.quick else (counting(limit, False), checking())
    )
    for part in parts:
        for line in part:
            print(line, flush=True)
            lines.append(line)
    if asked.write:
        Path(__file__).with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
