"""Stable sorting of rows on devices with a code generator: K. E. Batcher's bitonic network (1968) over 64-bit keys.

A key holds an element's order in its upper half and its position in its lower half, so that keys are distinct, equal
elements keep their order, and sorting moves single integers. Elements of 64 bits are sorted by their lower halves first
and then, stably, by their upper ones. Rows are padded to a power of two with the largest key. Processors sort the same
keys of long rows digit by digit instead (``radix_kernel_cpu``), without padding.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.geometry import coalesce, element_strides
from tensocket_core.launch.programs import index_dtype, launch
from tensocket_plugins.contract.dtypes import DType, int32, int64
from tensocket_plugins.contract.errors import ShapeError
from tensocket_plugins.ir.build.elements import load
from tensocket_plugins.ir.build.nest import ProgramBuilder, dot, linear, parallel
from tensocket_plugins.ir.nodes import Expr, Let, Load, Program, Stmt, Store, Var, call, cast, const, select
from tensocket_plugins.ir.schedule import Strategy

from ..kinds.programs import Programs
from .radix_kernel_cpu import differing_bits, sort_keys

#: Number of steps of the network that one iteration runs, on two to that power of keys.
STEPS: Final = 3
#: Length of a row up to which the network is faster than radix sort, also on processors.
SHORT: Final = 64
_DIGITS: Final = Programs("sort by digits", cpu=True, simt=False)
_PAD: Final = (1 << 63) - 1
_LOW: Final = (1 << 32) - 1
_SIGN: Final = -(1 << 63)


def ordinal(x: Expr) -> Expr:
    """Return a signed integer with the order of the elements: int32 for elements of at most 32 bits, else int64.

    Floats have the order of their bits once those of negative numbers are flipped; zeros are equal and NaN is the
    largest number.
    """
    dtype, word = x.dtype, int64 if x.dtype.itemsize == 8 else int32
    if dtype.kind == "float":
        bits = call("bitcast", select(call("eq", x, 0.0), 0.0, x), dtype=word)
        largest = (1 << 8 * word.itemsize - 1) - 1
        ordered = bits ^ ((bits >> (8 * word.itemsize - 1)) & largest)
        return select(call("ne", x, x), largest, ordered)
    if dtype.kind == "uint" and dtype.itemsize >= 4:
        return call("bitcast", x, dtype=word) ^ -(1 << (8 * word.itemsize - 1))
    return cast(x, word)


def pack_nest(dtype: DType, rank: int, descending: bool, half: int | None, index: DType) -> Program:
    """Write the padded keys of rows.

    Args:
        dtype: Stored element type of ``in0``, which is strided.
        rank: Number of outer dimensions, which enumerate the rows.
        descending: Whether the largest element comes first.
        half: 0 for the lower and 1 for the upper half of elements of 64 bits, the latter in the order of ``before``,
            keys of the same rows; None for narrower elements.
        index: Integer type of index arithmetic.
    """
    nest = ProgramBuilder("sort_keys", index)
    nest.buffer("out0", int64, writable=True)
    nest.buffer("in0", dtype)
    if half == 1:
        nest.buffer("before", int64)
    sizes, (length, padded) = nest.sizes("n", rank), nest.sizes("m", 2)
    outer, j = nest.variables("i", rank), Var("j", index)
    strides = nest.strides("in0", rank + 1)
    target, place = Var("target", index), Var("place", index)
    row = linear(outer, sizes) if outer else const(0, index)
    inside: Expr = call("min", j, length - 1)
    if half == 1:
        inside = cast(Load("before", row * padded + inside, int64) & _LOW, index)
    order = cast(ordinal(load("in0", dot([*outer, place], strides), dtype)), int64)
    order = call("not", order) if descending else order
    upper = order << 32 if half is None else (order << 32) ^ _SIGN if half == 0 else order & ~_LOW
    key = select(j < length, upper | cast(j, int64), _PAD)
    body: list[Stmt] = [Let(target, row * padded + j), Let(place, inside), Store("out0", target, key)]
    return nest.program(parallel([*outer, j], [*sizes, padded], body))


def network_nest(steps: int, first: bool, index: DType) -> Program:
    """Run ``steps`` steps of the network in place, on ``2 ** steps`` keys per iteration.

    Scalars are the number of iterations, the logarithm of the distance between an iteration's keys, and the bit of a
    key's position that selects descending order for its part of the row. With ``first``, the keys are adjacent, and the
    iteration runs all stages that stay among them.
    """
    nest = ProgramBuilder("sort_start" if first else "sort_steps", index)
    nest.buffer("keys", int64, writable=True)
    (count,) = nest.sizes("n", 1)
    gap, bit = (nest.number(name, index) for name in ("gap", "bit"))
    item, base, flip = Var("i0", index), Var("base", index), Var("flip", int64)
    one, size = const(1, index), 1 << steps
    body: list[Stmt] = [
        Let(base, ((item >> gap) << (gap + steps)) | (item & ((one << gap) - one))),
        # Keys that are sorted in descending order are complemented before and after.
        Let(flip, select(call("eq", base & bit, const(0, index)), const(0, int64), const(-1, int64))),
    ]
    places = [Var(f"p{k}", index) for k in range(size)]
    body += [Let(place, base + (const(k, index) << gap)) for k, place in enumerate(places)]
    values: list[Expr] = [Var(f"v{k}", int64) for k in range(size)]
    body += [Let(v, Load("keys", p, int64) ^ flip) for v, p in zip(values, places, strict=True) if isinstance(v, Var)]
    names = iter(range(1 << 16))
    for stage in range(1 if first else steps, steps + 1):
        for step in reversed(range(stage)):
            for low in (k for k in range(size) if not k >> step & 1):
                high = low | 1 << step
                body += _exchange(values, low, high, downwards=bool(low >> stage & 1), names=names)
    body += [Store("keys", p, v ^ flip) for v, p in zip(values, places, strict=True)]
    return nest.program(parallel([item], [count], body))


def _exchange(values: list[Expr], low: int, high: int, *, downwards: bool, names: Any) -> list[Stmt]:
    """Swap two values if they are out of order."""
    number = next(names)
    pair = [Var(f"min{number}", int64), Var(f"max{number}", int64)]
    lets: list[Stmt] = [Let(var, call(how, values[low], values[high]))
                        for var, how in zip(pair, ("min", "max"), strict=True)]
    values[low], values[high] = reversed(pair) if downwards else pair
    return lets


def positions_nest(rank: int, twice: bool, index: DType) -> Program:
    """Write the first positions in keys to a strided ``out0``; with ``twice``, those that ``before`` holds at them."""
    nest = ProgramBuilder("sort_positions", index)
    nest.buffer("out0", int64, writable=True)
    nest.buffer("keys", int64)
    if twice:
        nest.buffer("before", int64)
    sizes, (length, padded) = nest.sizes("n", rank), nest.sizes("m", 2)
    outer, j = nest.variables("i", rank), Var("j", index)
    strides = nest.strides("out0", rank + 1)
    row = linear(outer, sizes) * padded if outer else const(0, index)
    place = Load("keys", row + j, int64) & _LOW
    if twice:
        place = Load("before", row + cast(place, index), int64) & _LOW
    body = [Store("out0", dot([*outer, j], strides), place)]
    return nest.program(parallel([*outer, j], [*sizes, length], body))


class _Sort:
    """One call: the rows' layout, and its launches."""

    def __init__(self, state: DeviceState, out: Any, array: Any, axis: int, dtype: DType, descending: bool) -> None:
        self.state, self.out, self.array, self.dtype, self.descending = state, out, array, dtype, descending
        shape = array.shape
        self.length = shape[axis]
        self.digits = _DIGITS.of(state) and self.length > SHORT
        self.padded = self.length if self.digits else 1 << (self.length - 1).bit_length()
        others = [k for k in range(len(shape)) if k != axis]
        steps = [element_strides(x) for x in (out, array)]
        self.sizes, outer = coalesce(tuple(shape[k] for k in others), [tuple(s[k] for k in others) for s in steps])
        if not others:
            self.sizes, outer = (), [(), ()]
        self.steps = [(*outer[k], steps[k][axis]) for k in range(2)]
        self.wanted = out.shape[axis]
        self.total = math.prod(self.sizes) * self.padded
        reach = sum((n - 1) * abs(s) for n, s in zip(shape, steps[1], strict=True))
        self.index = index_dtype(state, (self.total, reach))
        self.rank = len(self.sizes)

    def run(self) -> None:
        """Sort, and write the positions."""
        geometry = [*self.sizes, self.length, self.padded]
        bits, signed = differing_bits(self.array, self.dtype) if self.digits else (8 * self.dtype.itemsize, True)
        halves: tuple[int | None, ...] = (None,) if self.dtype.itemsize < 8 else (0,) if bits <= 32 else (0, 1)
        keys: list[Any] = []
        for half in halves:
            made = self.state.runtime.empty((self.total,), int64, self.state.stream)
            form = (self.dtype, self.rank, self.descending, half, self.index)
            launch(self.state, ("sort_keys", *form), partial(pack_nest, *form), Strategy.SERIAL,
                   [made, self.array, *keys], [*geometry, *self.steps[1]])
            if self.digits:
                made = sort_keys(self.state, made, self.total // self.length, min(32, bits), signed, self.index)
            else:
                self.sort(made)
            keys.insert(0, made)
        last = (self.rank, len(keys) == 2, self.index)
        launch(self.state, ("sort_positions", *last), partial(positions_nest, *last), Strategy.SERIAL,
               [self.out, *keys], [*self.sizes, self.wanted, self.padded, *self.steps[0]])

    def sort(self, keys: Any) -> None:
        """Run all stages: stage s sorts parts of ``2 ** s`` keys, every other part in descending order."""
        stages = self.padded.bit_length() - 1
        start = min(stages, STEPS)
        if start:
            self.network(keys, start, 0, start, True)
        for stage in range(start + 1, stages + 1):
            gap = stage
            while gap:
                steps = gap % STEPS or STEPS
                gap -= steps
                self.network(keys, steps, gap, stage, False)

    def network(self, keys: Any, steps: int, gap: int, stage: int, first: bool) -> None:
        """Launch the network once."""
        form = (steps, first, self.index)
        # In the last stage the whole row is one part, which is sorted in ascending order.
        bit = (1 << stage) & (self.padded - 1)
        launch(self.state, ("sort_network", *form), partial(network_nest, *form), Strategy.SERIAL, [keys],
               [self.total >> steps, gap, bit])


def sorted_positions(state: DeviceState, array: Any, dtype: DType, axis: int, descending: bool, count: int = -1) -> Any:
    """Return a new array with the positions of the first ``count`` elements along ``axis`` (-1: all) in stable order.

    Raises:
        ShapeError: A row has more elements than a key can count.
    """
    shape = array.shape
    if shape and shape[axis] >= 1 << 31:
        raise ShapeError("sort", f"{shape[axis]} elements along dim {axis}", "a row has at most 2147483647 elements",
                         "sort parts of it")
    if not shape:
        return sorted_positions(state, array.reshape((1,)), dtype, 0, descending).reshape(())
    wanted = shape if count < 0 else (*shape[:axis], count, *shape[axis + 1:])
    out = state.runtime.empty(wanted, int64, state.stream)
    if 0 in shape or not count:
        return out
    _Sort(state, out, array, axis, dtype, descending).run()
    return out
