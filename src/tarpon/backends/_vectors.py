"""Tiles of numbers that kernels hold in registers, which plain loops do not compile to.

A tile is `N_ROWS` rows of `N_COLUMNS` numbers. It adds, subtracts and multiplies like a number,
so that one formula serves both. Its rows are separate streams of memory, read at once, and
`row_signs` sums all rows together, in a third of the time of separate sums.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending
from numba.core import types
from numba.core.datamodel import models
from numba.core.registry import cpu_target
from numba.extending import overload, register_jitable, register_model

N_ROWS = N_COLUMNS = 8
_int32 = ir.IntType(32)
_FLOATS = {16: ir.HalfType(), 32: ir.FloatType(), 64: ir.DoubleType()}
_EXPONENTS = {32: 0x7F80_0000, 64: 0x7FF0_0000_0000_0000}  # of NaN and infinities, as bits
# Typed as compiled code calls it, without the arguments of the compiler.
intrinsic: Callable[[Callable[..., Any]], Callable[..., Any]] = extending.intrinsic


class Tile(types.Type):
    """The type of a tile whose numbers have a given precision."""

    def __init__(self, dtype: types.Float) -> None:
        self.dtype = dtype
        super().__init__(name=f"Tile({dtype})")


@register_model(Tile)
class _TileModel(models.PrimitiveModel):
    def __init__(self, manager: Any, tile: Tile) -> None:
        rows = ir.ArrayType(_row(tile.dtype), N_ROWS)
        super().__init__(manager, tile, rows)  # type: ignore[no-untyped-call]


def _row(dtype: types.Float) -> ir.VectorType:
    return ir.VectorType(_FLOATS[dtype.bitwidth], N_COLUMNS)


def _rows(builder: ir.IRBuilder, tile: ir.Value) -> list[ir.Value]:
    return [builder.extract_value(tile, r) for r in range(N_ROWS)]


def _tile(builder: ir.IRBuilder, rows: list[ir.Value]) -> ir.Value:
    tile = ir.Constant(ir.ArrayType(rows[0].type, N_ROWS), ir.Undefined)
    for r, row in enumerate(rows):
        tile = builder.insert_value(tile, row, r)
    return tile


def widens_halves() -> bool:
    """Return whether this processor can read half floats; otherwise they must be copied."""
    triple, _, features = cpu_target.target_context.codegen().magic_tuple()
    return not triple.startswith(("x86", "i")) or "+f16c" in features


@intrinsic
def number(_: Any, stored: Any) -> Any:
    """Return a number as it was stored: sixteen bits are a half float."""

    def build(_: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        if stored != types.uint16:
            return args[0]
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return (types.float32 if stored == types.uint16 else stored)(stored), build


@intrinsic
def lost(_: Any, x: Any) -> Any:
    """Return whether a number is NaN or infinite, which integers never are."""

    def build(_: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        if not isinstance(x, types.Float):
            return ir.Constant(ir.IntType(1), 0)
        return _lost(builder, args[0], ir.IntType(x.bitwidth), _EXPONENTS[x.bitwidth])

    return types.boolean(x), build


def _lost(builder: ir.IRBuilder, x: ir.Value, bits: ir.Type, exponent: Any) -> ir.Value:
    # By their bits: a compiler that may reorder sums takes any difference of equals for zero.
    mask = ir.Constant(bits, exponent)
    return builder.icmp_unsigned("==", builder.and_(builder.bitcast(x, bits), mask), mask)


@intrinsic
def load(_: Any, flat: Any, at: Any, apart: Any, n_rows: Any, like: Any) -> Any:
    """Return the tile of rows that start at `flat[at]` and then every `apart` numbers.

    Rows after the first `n_rows` repeat the last row. Numbers have the precision of `like`.
    """

    def build(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        array, at, apart, n_rows, _ = args
        rows, offset = [], at.type(0)
        for r in range(N_ROWS):
            if r:
                exists = builder.icmp_unsigned("<", n_rows.type(r), n_rows)
                offset = builder.select(exists, builder.mul(apart, apart.type(r)), offset)
            rows.append(_load_row(context, builder, flat, array, builder.add(at, offset), like))
        return _tile(builder, rows)

    return Tile(like)(flat, *[types.uint64] * 3, like), build


@intrinsic
def repeat(_: Any, flat: Any, at: Any) -> Any:
    """Return the tile in which every row is the one that starts at `flat[at]`."""

    def build(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        array, at = args
        row = _load_row(context, builder, flat, array, at, flat.dtype)
        return _tile(builder, [row] * N_ROWS)

    return Tile(flat.dtype)(flat, types.uint64), build


@intrinsic
def zeros(_: Any, like: Any) -> Any:
    """Return a tile of zeros in the precision of a number."""

    def build(_: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return _tile(builder, [ir.Constant(_row(like), None)] * N_ROWS)

    return Tile(like)(like), build


def _load_row(
    context: Any, builder: ir.IRBuilder, flat: Any, array: ir.Value, at: ir.Value, dtype: Any
) -> ir.Value:
    assert flat.layout == "C", "neighbours in a row must be neighbours in memory"
    first = builder.gep(context.make_array(flat)(context, builder, array).data, [at])
    pointer = builder.bitcast(first, _row(flat.dtype).as_pointer())
    row = builder.load(pointer, align=flat.dtype.bitwidth // 8)
    return row if _row(dtype) == row.type else builder.fpext(row, _row(dtype))


@intrinsic
def row_signs(_: Any, tile: Any, n_rows: Any) -> Any:
    """Return how many of the first `n_rows` rows sum to less than zero, zero, and no number.

    A row sums to no number if the sum is NaN or infinite.
    """

    def build(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        rows = _rows(builder, args[0])
        even, odd = (
            ir.Constant(ir.VectorType(_int32, N_COLUMNS), list(range(k, 2 * N_COLUMNS, 2)))
            for k in (0, 1)
        )
        while len(rows) > 1:  # Merge two rows into one, and add neighbours.
            rows = [
                builder.fadd(builder.shuffle_vector(a, b, even), builder.shuffle_vector(a, b, odd))
                for a, b in zip(rows[::2], rows[1::2], strict=True)
            ]
        beyond = builder.shl(_int32(-1), builder.trunc(args[1], _int32))
        zero, sums, size = ir.Constant(rows[0].type, None), rows[0], tile.dtype.bitwidth
        bits = ir.VectorType(ir.IntType(size), N_COLUMNS)
        counts = []
        for holds in (
            builder.fcmp_ordered("<", sums, zero),
            builder.fcmp_ordered("==", sums, zero),
            _lost(builder, sums, bits, [_EXPONENTS[size]] * N_COLUMNS),
        ):
            which = builder.zext(builder.bitcast(holds, ir.IntType(N_ROWS)), _int32)
            counts.append(builder.ctpop(builder.and_(which, builder.not_(beyond))))
        return context.make_tuple(builder, signature.return_type, counts)

    three_counts = types.Tuple((types.int32,) * 3)  # type: ignore[no-untyped-call]
    return three_counts(tile, types.uint64), build


# Arithmetic on tiles is arithmetic on each of their rows.


@register_jitable
def larger(a: Any, b: Any) -> Any:
    """Return the larger of two numbers, or of each two in two tiles; the second if one is NaN."""
    return a if a > b else b


def _of_one(function: Callable[..., Any], emit: Callable[..., ir.Value]) -> None:
    @intrinsic
    def result(_: Any, a: Any) -> Any:
        def build(_: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            return _tile(builder, [emit(builder, row) for row in _rows(builder, args[0])])

        return a(a), build

    overload(function)(lambda a: (lambda a: result(a)) if isinstance(a, Tile) else None)


def _of_two(function: Callable[..., Any], emit: Callable[..., ir.Value]) -> None:
    @intrinsic
    def result(_: Any, a: Any, b: Any) -> Any:
        def build(_: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            pairs = zip(*(_rows(builder, tile) for tile in args), strict=True)
            return _tile(builder, [emit(builder, *pair) for pair in pairs])

        return a(a, b), build

    overload(function)(
        lambda a, b: (lambda a, b: result(a, b)) if isinstance(a, Tile) and a == b else None
    )


def _named(name: str) -> Callable[..., ir.Value]:
    def emit(to: ir.IRBuilder, row: ir.Value) -> ir.Value:
        number = "f32" if row.type.element == ir.FloatType() else "f64"
        function = to.module.declare_intrinsic(
            f"llvm.{name}.v{N_COLUMNS}{number}", fnty=ir.FunctionType(row.type, [row.type])
        )
        return to.call(function, [row])

    return emit


_of_one(abs, _named("fabs"))
_of_one(np.rint, _named("rint"))
_of_one(operator.neg, ir.IRBuilder.fneg)
_of_two(operator.add, ir.IRBuilder.fadd)
_of_two(operator.sub, ir.IRBuilder.fsub)
_of_two(operator.mul, ir.IRBuilder.fmul)
_of_two(larger, lambda to, a, b: to.select(to.fcmp_ordered(">", a, b), a, b))
