"""Radix sort on processors: digit by digit, the least significant first (H. H. Seward, 1954).

Rows are divided into parts that depend only on sizes. A pass counts the digits of every part, turns the counts into
positions, and moves the keys there, part by part in order, so that equal digits keep their order.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from tensocket_core.device import DeviceState
from tensocket_core.launch.programs import launch
from tensocket_plugins.contract.dtypes import DType, int32, int64
from tensocket_plugins.contract.launch_recorder import is_recording
from tensocket_plugins.ir.build.nest import ProgramBuilder, parallel
from tensocket_plugins.ir.nodes import (
    Assign,
    Declare,
    Expr,
    Kernel,
    Let,
    Load,
    Local,
    Program,
    Stmt,
    Store,
    Temporary,
    Var,
    call,
    cast,
    const,
    loop,
)

#: Bits of a digit, and the number of its values.
BITS: Final = 8
DIGITS: Final = 1 << BITS
#: Keys of a part, if rows are few.
PART: Final = 1 << 14
#: Number of rows from which they are not divided into parts.
ENOUGH: Final = 16


class _Pass:
    """Builder of the kernels of one pass.

    Buffers are the sorted keys and the keys; sizes are rows, keys per row, parts per row and keys per part; numbers are
    the shift of a digit, and the mask that is combined with it by exclusive or.
    """

    def __init__(self, index: DType) -> None:
        self.index = index
        self.nest = ProgramBuilder("sort_digit", index)
        self.nest.buffer("out0", int64, writable=True)
        self.nest.buffer("in0", int64)
        self.rows, self.length, self.parts, self.size = self.nest.sizes("n", 4)
        self.shift, self.flip = (self.nest.number(name, int64) for name in ("shift", "flip"))
        self.part, self.row, self.first, self.end, self.j, self.d = (
            Var(stem, index) for stem in ("part", "row", "first", "end", "j", "d"))

    def program(self) -> Program:
        """Return the program: count digits, compute positions, move keys."""
        whole = self.nest.program(())
        kernels = tuple(Kernel(name, tuple(body), (Local("places", int32, DIGITS),)) for name, body in (
            ("sort_count", self._count()), ("sort_place", self._place()), ("sort_move", self._move())))
        counts = Temporary("counts", int32, self.rows * self.parts * DIGITS)
        return Program(whole.name, whole.params, kernels, (counts,))

    def _over_parts(self, body: list[Stmt]) -> tuple[Stmt, ...]:
        """Run ``body`` for every part, with its row, its first key and the end of its keys, counted over all rows."""
        begin = (self.part % self.parts) * self.size
        return parallel([self.part], [self.rows * self.parts], [
            Let(self.row, (self.part // self.parts) * self.length), Let(self.first, self.row + begin),
            Let(self.end, call("min", self.first + self.size, self.row + self.length)), *body])

    def _digit(self, key: Expr) -> Expr:
        return cast(((key >> self.shift) & (DIGITS - 1)) ^ self.flip, self.index)

    def _count(self) -> tuple[Stmt, ...]:
        digit = Var("digit", self.index)
        one = Load("places", digit, int32) + 1
        return self._over_parts([
            loop(self.d, DIGITS, [Store("places", self.d, const(0, int32))]),
            loop(self.j, self.end, [Let(digit, self._digit(Load("in0", self.j, int64))), Store("places", digit, one)],
                 start=self.first),
            loop(self.d, DIGITS, [Store("counts", self.part * DIGITS + self.d, Load("places", self.d, int32))]),
        ])

    def _place(self) -> tuple[Stmt, ...]:
        """Turn counts into positions of each part's first key of a digit: lower digits first, then earlier parts."""
        row, k, at, total = Var("row", self.index), Var("k", self.index), Var("at", self.index), Var("total", int32)
        count = Var("count", int32)
        return parallel([row], [self.rows], [
            Declare(total, const(0, int32)),
            loop(self.d, DIGITS, [loop(k, self.parts, [
                Let(at, (row * self.parts + k) * DIGITS + self.d), Let(count, Load("counts", at, int32)),
                Store("counts", at, total), Assign(total, total + count)])])])

    def _move(self) -> tuple[Stmt, ...]:
        digit, key, place = Var("digit", self.index), Var("key", int64), Var("place", int32)
        return self._over_parts([
            loop(self.d, DIGITS, [Store("places", self.d, Load("counts", self.part * DIGITS + self.d, int32))]),
            loop(self.j, self.end, [
                Let(key, Load("in0", self.j, int64)), Let(digit, self._digit(key)),
                Let(place, Load("places", digit, int32)), Store("places", digit, place + 1),
                Store("out0", self.row + cast(place, self.index), key)], start=self.first),
        ])


def differing_bits(array: Any, dtype: DType) -> tuple[int, bool]:
    """Return how many of the lowest bits of elements' orders can differ, and whether the highest of these is a sign.

    For integers on the host, it reads the smallest and largest value: all values share the upper bits that both share.
    Launches that are recorded depend on no values.
    """
    bits = 8 * dtype.itemsize
    if dtype.kind in ("int", "uint") and type(array) is np.ndarray and array.size and not is_recording():
        shared = int(array.min()) ^ int(array.max())
        return (bits, True) if shared < 0 or shared >> 31 else (max(shared.bit_length(), 1), False)
    return (max(bits, 32), True) if dtype.kind != "bool" else (bits, False)


def sort_keys(state: DeviceState, keys: Any, rows: int, bits: int, signed: bool, index: DType) -> Any:
    """Sort rows of keys; return the given array or a new one. The given array is overwritten.

    Args:
        state: The device.
        keys: int64; they are sorted by their upper halves.
        rows: Number of rows.
        bits: How many of the lowest bits of the upper halves differ.
        signed: Whether the highest of these bits is a sign.
        index: Integer type of index arithmetic.
    """
    length = keys.size // rows
    parts = 1 if rows >= ENOUGH else -(-length // PART)
    other = state.runtime.empty((keys.size,), int64, state.stream)
    for shift in range(0, bits, BITS):
        flip = DIGITS >> 1 if signed and shift + BITS >= bits else 0
        launch(state, ("sort_digit", index), partial(_program, index), None, [other, keys],
               [rows, length, parts, -(-length // parts), 32 + shift, flip])
        keys, other = other, keys
    return keys


def _program(index: DType) -> Program:
    return _Pass(index).program()
