"""What the Triton kernels need of a GPU, found by compiling them without one.

    python benchmarks/compiled.py                 # prints, in three minutes
    python benchmarks/compiled.py --write         # writes docs/benchmarks/compiled.md
    python benchmarks/compiled.py --quick         # each kernel with each kind of tile

Kernels are launched on empty tensors as on a GPU, so that tiles and specialisations are those of
a call, but each launch ends with the compiler. "Spilled" is what a thread keeps in local memory
for want of registers, in bytes. "Warps" is how many of the 64 that a multiprocessor holds can be
there at once, by registers and shared memory.
"""

import argparse
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from tables import printed, write_page
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime import driver

from tarpon.backends import _triton
from tarpon.backends._terms import Constants

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "compiled.md"
SHARED = {80: 164 * 1024, 90: 228 * 1024}  # bytes of a multiprocessor, by compute capability
REGISTERS, WARPS, PROGRAMS = 65536, 64, 32  # of a multiprocessor
N_DRAWS, N_SIMS = 1000, 64
HALF, DOUBLE = torch.float16, torch.float64
DIMS = (1, 2, 4, 8, 16, 32, 64, 100, 256, 1000)


class Case(NamedTuple):
    """What is counted: the kernel and its tile follow."""

    n_dims: int
    n_centres: int
    sims_first: bool
    term: str = "l2"
    dtype: torch.dtype = torch.float32


# Each kernel with each kind of tile, each distance and each precision.
QUICK = (
    *(Case(n_dims, 1, True) for n_dims in (1, 4, 32, 100, 256, 1000)),
    *(Case(n_dims, 1, False) for n_dims in (1, 4, 100)),
    *(Case(n_dims, 10, sims_first) for n_dims in (4, 16) for sims_first in (True, False)),
    *(Case(n_dims, 10, True) for n_dims in (32, 33, 64, 65, 100, 256, 1000)),
    Case(100, 1, False, dtype=torch.bfloat16),
    Case(100, 1, False, dtype=HALF),
    *(Case(n_dims, 1, True, dtype=DOUBLE) for n_dims in (2, 1000)),
    Case(8, 10, True, dtype=DOUBLE),
    *(Case(100, 1, True, term) for term in ("l1", "periodic")),
    *(Case(8, 8, True, term) for term in ("l1", "periodic")),
    *(Case(n_dims, 1, True, "smaller") for n_dims in (1, 1000)),
)


class Needs(NamedTuple):
    """What a compiled kernel needs: per thread, and shared memory per program."""

    kernel: str
    tile: str
    n_warps: int
    registers: int
    spilled: int
    shared: int

    def warps(self, capability: int) -> int:
        """Return how many warps a multiprocessor can hold."""
        a_warp = -(-self.registers * 32 // 256) * 256
        by_registers = REGISTERS // a_warp // self.n_warps
        by_shared = SHARED[capability] // (self.shared + 1024)
        return self.n_warps * min(PROGRAMS, WARPS // self.n_warps, by_registers, by_shared)


class Absent:
    """A device that is not there: kernels are compiled for it, and not launched."""

    def __init__(self, capability: int) -> None:
        self.capability, self.compiled = capability, []

    def get_current_device(self) -> int:
        return self.capability

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)

    def __enter__(self) -> "Absent":
        driver.set_active(self)
        knobs.runtime.jit_cache_hook = self.compile
        return self

    def __exit__(self, *error: object) -> None:
        knobs.runtime.jit_cache_hook = None

    def compile(self, *, fn: Any, compile: dict[str, Any], **more: Any) -> bool:
        """Compile a kernel that is about to be launched, and say that it was dealt with."""
        constants, (attributes,) = compile["constants"], compile["configs"]
        source = ASTSource(fn.jit_function, compile["signature"], constants, attributes)
        options = {name: compile[name] for name in ("num_warps", "enable_fp_fusion")}
        kernel = triton.compile(source, target=self.get_current_target(), options=options)
        named = {fn.jit_function.arg_names[at]: value for (at,), value in constants.items()}
        sides = [named.get(side) for side in ("DRAWS", "SIMS", "DIMS", "N")]
        tile = " × ".join(str(side) for side in sides if side is not None)
        used = resources(kernel.asm["cubin"])
        self.compiled.append(
            Needs(fn.name.removesuffix("_kernel"), tile, compile["num_warps"],
                  used["REG"], used["STACK"] + used["LOCAL"], kernel.metadata.shared)
        )  # fmt: skip
        return True


def resources(cubin: bytes) -> dict[str, int]:
    """Return what `cuobjdump`, which comes with Triton, says of a compiled kernel."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    pairs = (word.split(":") for word in said.split() if word.count(":") == 1)
    return {name: int(number) for name, number in pairs if number.isdigit()}


def launch(case: Case) -> None:
    """Launch the kernel of a case on tensors that are never read."""
    n_dims = case.n_dims
    shape = (N_SIMS, N_DRAWS, n_dims) if case.sims_first else (N_DRAWS, N_SIMS, n_dims)
    samples = torch.empty(shape, dtype=case.dtype)
    samples = samples.swapaxes(0, 1) if case.sims_first else samples
    working = DOUBLE if case.dtype == DOUBLE else torch.float32
    sizes = ((N_SIMS, n_dims), (N_SIMS, case.n_centres, n_dims), (3, n_dims))
    constants = Constants(*(torch.empty(size, dtype=working) for size in sizes))
    lost = torch.zeros(1, dtype=torch.int32)
    if case.term == "smaller":
        _triton.smaller(samples, constants.truth, lost)
    else:
        _triton.closer(case.term, samples, constants, lost)


def cases(quick: bool) -> Iterator[Case]:
    """Yield what to compile."""
    if quick:
        yield from QUICK
        return
    for n_centres, sims_first, n_dims in product((1, 10), (True, False), DIMS):
        yield Case(n_dims, n_centres, sims_first)
    for n_dims, sims_first in product((10, 16, 33, 65), (True, False)):
        yield Case(n_dims, 16, sims_first)  # as many references as are counted together
    for dtype, n_dims, n_centres in product((HALF, DOUBLE), (2, 8, 16, 100, 1000), (1, 10)):
        if dtype == HALF or n_centres == 1 or n_dims <= 16:  # others are counted one by one
            yield Case(n_dims, n_centres, True, dtype=dtype)
    for term, n_dims in product(("l1", "periodic"), (2, 100, 999, 1000)):
        yield Case(n_dims, 1, True, term)
    for term, n_dims in product(("l1", "periodic"), (4, 8, 16)):
        yield Case(n_dims, 8, True, term)
    for n_dims in (1, 100, 1000):
        yield Case(n_dims, 1, True, "smaller")


def needs(capability: int, case: Case) -> list[Needs]:
    """Return what the kernels of a case need."""
    with Absent(capability) as device:
        launch(case)
    return device.compiled


def rows(quick: bool, capabilities: tuple[int, ...]) -> Iterator[str]:
    yield (
        "| capability | kernel | parameters | references | order | distance | precision | tile | "
        "warps of it | registers | spilled | shared, bytes | warps of 64 |"
    )
    yield "|--:|---|--:|--:|---|---|---|---|--:|--:|--:|--:|--:|"
    for capability, case in product(capabilities, cases(quick)):
        for need in needs(capability, case):
            order = "simulations first" if case.sims_first else "draws first"
            cells = (
                f"{capability / 10}", need.kernel, case.n_dims, case.n_centres, order, case.term,
                str(case.dtype).removeprefix("torch."), need.tile, need.n_warps, need.registers,
                need.spilled, need.shared, need.warps(capability),
            )  # fmt: skip
            yield "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write compiled.md")
    parser.add_argument("--quick", action="store_true", help="each kind of tile once")
    parser.add_argument("--capability", type=int, choices=sorted(SHARED), help="80 or 90; both")
    options = parser.parse_args()
    capabilities = (options.capability,) if options.capability else tuple(SHARED)
    lines = [
        "# Registers of the kernels",
        "",
        f"Written by `python benchmarks/compiled.py --write`, which needs no GPU, with triton "
        f"{triton.__version__}. Tiles are draws × simulations × parameters × tiles in sequence, "
        "as far as a kernel has them. Spilled are bytes per thread that do not fit into "
        "registers. The last column is how many of the 64 warps of a multiprocessor can be there "
        "at once.",
        "",
    ]
    lines += printed(rows(options.quick, capabilities))
    if options.write:
        write_page(PAGE, lines)


if __name__ == "__main__":
    main()
