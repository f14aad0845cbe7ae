"""The position of a row's element of a certain rank on processors, without sorting the row.

Short rows count, for each element, the elements before it in stable order. Long rows find the element's key digit by
digit, as radix sort would: a pass counts the digits of the keys that begin like it, and the counts tell the next digit.
The last pass finds the key's occurrence that stable order puts at the rank.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

from tensocket_core.device import DeviceState
from tensocket_core.geometry import coalesce, contiguous, element_strides
from tensocket_core.launch.programs import index_dtype, launch
from tensocket_plugins.contract.dtypes import DType, int32, int64
from tensocket_plugins.ir.build.elements import load
from tensocket_plugins.ir.build.nest import ProgramBuilder, dot, parallel, split
from tensocket_plugins.ir.build.short_rows import ShortRows, suits_short_rows
from tensocket_plugins.ir.nodes import (
    Assign,
    Declare,
    Expr,
    If,
    Let,
    Load,
    Local,
    Program,
    Stmt,
    Store,
    Var,
    call,
    cast,
    const,
    loop,
    select,
)
from tensocket_plugins.ir.schedule.nest import product

from .bitonic_kernel import ordinal

#: Length of a row up to which counting is faster than looking for digits.
SHORT: Final = 32
#: Bits of a digit.
BITS: Final = 8
DIGITS: Final = 1 << BITS

#: The rank, counted from 0: ``kth``: as given. ``median``: the lower middle; if an element is NaN, that of the first
#: NaN. ``nanmedian``: the lower middle of the elements that are not NaN.
Rule = Literal["kth", "median", "nanmedian"]


class _Select:
    """Builder of the program.

    Buffers are the positions and the elements. Sizes are those of the outer dimensions, elements per row, and the rank.
    Strides are those of the elements: outer ones, then the one along the row.
    """

    def __init__(self, dtype: DType, rank: int, rule: Rule, short: bool, unit: bool, index: DType) -> None:
        self.dtype, self.rule, self.short, self.index = dtype, rule, short, index
        self.nest = nest = ProgramBuilder("select_place", index)
        nest.buffer("out0", int64, writable=True)
        nest.buffer("in0", dtype)
        self.sizes, (self.length, self.given) = nest.sizes("n", rank), nest.sizes("m", 2)
        strides: list[Expr] = [*nest.strides("in0", rank + 1)]
        self.strides = [*strides[:-1], const(1, index)] if unit else strides
        self.number, self.i, self.j, self.base, self.begin = (
            Var(stem, index) for stem in ("number", "i", "j", "base", "begin"))
        self.wanted, self.found, self.count, self.before = (
            Var(stem, index) for stem in ("wanted", "found", "count", "before"))
        self.word = ordinal(load("in0", self.base, dtype)).dtype

    def program(self) -> Program:
        """Return the finished program: an iteration processes a row."""
        names = [Var(f"i{k}", self.index) for k in range(len(self.sizes))]
        start = dot(names, self.strides[:-1]) if names else const(0, self.index)
        body: list[Stmt] = [
            *[Let(var, value) for var, value in zip(names, split(self.number, self.sizes), strict=True)],
            Let(self.base, start), *self._rank(), Declare(self.found, const(0, self.index)),
            *(self._by_counting() if self.short else self._by_digits()),
            Store("out0", self.number, cast(self.found, int64)),
        ]
        local = Local("keys", self.word, SHORT) if self.short else Local("counts", self.index, DIGITS)
        return self.nest.program(parallel([self.number], [product(self.sizes, self.index)], body), (local,))

    def _element(self, position: Expr) -> Expr:
        element: Expr = load("in0", self.base + position * self.strides[-1], self.dtype)
        return element

    def _key(self, position: Expr) -> Expr:
        return ordinal(self._element(position))

    def _rank(self) -> list[Stmt]:
        """Compute the rank that is wanted."""
        middle, numbers = (self.length - 1) // 2, Var("numbers", self.index)
        if self.rule == "kth":
            return [Let(self.wanted, self.given)]
        if self.dtype.kind != "float":
            return [Let(self.wanted, middle)]
        element = self._element(self.j)
        counted: list[Stmt] = [
            Declare(numbers, const(0, self.index)),
            loop(self.j, self.length, [Assign(numbers, numbers + cast(call("eq", element, element), self.index))])]
        if self.rule == "median":
            return [*counted, Let(self.wanted, select(numbers < self.length, numbers, middle))]
        return [*counted, Let(self.wanted, call("max", numbers - 1, const(0, self.index)) // 2)]

    def _by_counting(self) -> list[Stmt]:
        """Find the element with as many elements before it as the rank says."""
        key, other = Var("key", self.word), Load("keys", self.j, self.word)

        def counted(start: Expr, stop: Expr, condition: Expr) -> Stmt:
            return loop(self.j, stop, [Assign(self.count, self.count + cast(condition, self.index))], start=start)

        return [
            loop(self.i, self.length, [Store("keys", self.i, self._key(self.i))]),
            loop(self.i, self.length, [
                Let(key, Load("keys", self.i, self.word)), Declare(self.count, const(0, self.index)),
                counted(const(0, self.index), self.i, other <= key), counted(self.i, self.length, other < key),
                If(call("eq", self.count, self.wanted), (Assign(self.found, self.i),))]),
        ]

    def _by_digits(self) -> list[Stmt]:
        """Find the key's digits, the highest first, then the key."""
        step, shift = Var("step", self.index), Var("shift", self.word)
        key, mask, digit = Var("key", self.word), Var("mask", self.word), Var("digit", self.index)
        sign = const(-(1 << 8 * self.word.itemsize - 1), self.word)
        one, zero = const(1, self.index), const(0, self.index)
        flipped = self._key(self.j) ^ sign  # its bits, without a sign, have the order of the keys
        part = Var("part", self.word)
        passes = 8 * self.word.itemsize // BITS
        count = [
            Let(part, flipped),
            If(call("eq", (part ^ key) & mask, const(0, self.word)), (
                Let(digit, cast((part >> shift) & (DIGITS - 1), self.index)),
                Store("counts", digit, Load("counts", digit, self.index) + 1)))]
        choose = [
            Let(self.begin, self.before), Let(self.count, Load("counts", self.i, self.index)),
            If((self.begin <= self.wanted) & (self.wanted < self.begin + self.count), (
                Assign(key, key | (cast(self.i, self.word) << shift)), Assign(self.found, self.begin))),
            Assign(self.before, self.begin + self.count)]
        occurrence = Var("occurrence", self.index)
        return [
            Declare(key, const(0, self.word)), Declare(mask, const(0, self.word)), Declare(self.before, zero),
            loop(step, passes, [
                Let(shift, cast((passes - 1 - step) * BITS, self.word)),
                loop(self.i, DIGITS, [Store("counts", self.i, zero)]),
                loop(self.j, self.length, count),
                Assign(self.before, self.found),  # as many keys are less than all that begin with these digits
                loop(self.i, DIGITS, choose),
                Assign(mask, mask | (const(DIGITS - 1, self.word) << shift))]),
            Declare(occurrence, self.wanted - self.found), Assign(self.found, zero),
            loop(self.j, self.length, [If(call("eq", flipped, key), (
                If(call("eq", occurrence, zero), (Assign(self.found, self.j),)),
                Assign(occurrence, occurrence - one)))]),
        ]


class _ShortSelect(ShortRows):
    """Writer of a nest whose vector lanes are short rows: the counts of ``_by_counting`` for the rule ``kth``."""

    def __init__(self, dtype: DType) -> None:
        super().__init__("select_place", dtype, ordinal(load("in0", Var("at", int64), dtype)).dtype, int64)
        (self.wanted,) = self.nest.sizes("rank", 1)
        self.key, self.count = Var("key", self.accumulator), Var("count", int32)
        self.found, self.q = Var("found", int64), Var("q", int64)

    def read(self, at: Expr) -> Any:
        """Return the key of an element."""
        return ordinal(load("in0", at, self.source))

    def folded(self, element: Callable[[Expr], Expr]) -> list[Stmt]:
        """Count the elements before each one."""
        other = element(self.q)
        before = (other < self.key) | (call("eq", other, self.key) & (self.q < self.t))
        return [Declare(self.found, const(0, int64)), loop(self.t, self.length, [
            Let(self.key, element(self.t)), Declare(self.count, const(0, int32)),
            loop(self.q, self.length, [Assign(self.count, self.count + cast(before, int32))]),
            Assign(self.found, select(call("eq", self.count, cast(self.wanted, int32)), self.t, self.found))])]

    def finished(self) -> Any:
        """Return the position."""
        return self.found


def selected_positions(state: DeviceState, array: Any, dtype: DType, axis: int, rule: Rule, rank: int) -> Any:
    """Return the positions of the elements of a rank along ``axis``, in stable order with NaN last.

    Args:
        state: A processor.
        array: The input's handle; it has at least one dimension and is not empty.
        dtype: The input's element type.
        axis: The dimension along rows; its size in the result is 1.
        rule: Which rank.
        rank: The rank for ``kth``.
    """
    shape, strides = array.shape, element_strides(array)
    length = shape[axis]
    parts = math.prod(shape[:axis]), length, math.prod(shape[axis + 1:])
    if rule == "kth" and length <= SHORT and contiguous(array) and suits_short_rows(state.runtime.target, *parts):
        found = state.runtime.empty(tuple(1 if k == axis else n for k, n in enumerate(shape)), int64, state.stream)
        launch(state, ("select_short", dtype), lambda: _ShortSelect(dtype).program(), None, [found, array],
               [*parts, rank])
        return found
    others = [k for k in range(len(shape)) if k != axis]
    sizes, (outer,) = coalesce(tuple(shape[k] for k in others), [tuple(strides[k] for k in others)]) if others else (
        (), [()])
    reach = sum((n - 1) * abs(s) for n, s in zip(shape, strides, strict=True))
    index = index_dtype(state, (array.size, reach))
    out = state.runtime.empty(tuple(1 if k == axis else n for k, n in enumerate(shape)), int64, state.stream)
    if math.prod(out.shape):
        form = (dtype, len(sizes), rule, length <= SHORT, strides[axis] == 1, index)
        launch(state, ("select_place", *form), partial(_program, form), None, [out, array],
               [*sizes, length, rank, *outer, strides[axis]])
    return out


def _program(form: tuple[Any, ...]) -> Program:
    return _Select(*form).program()
