"""Reductions along short dimensions of many small arrays, for processors: vector lanes are arrays.

Short rows fill no vector, so a tile holds adjacent arrays transposed, one to a lane.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

from ...contract.dtypes import DType, int64
from ..complex import convert
from ..element_types import arithmetic_dtype
from ..nodes import (
    Assign,
    Declare,
    Expr,
    If,
    Let,
    Load,
    Local,
    LoopKind,
    Program,
    Stmt,
    Store,
    Var,
    cast,
    const,
    loop,
)
from ..target import Target
from .elements import stores
from .fold import Fold
from .nest import ProgramBuilder, parallel

#: Arrays that a tile holds, and the most elements of each.
_LANES: Final = 16
_ELEMENTS: Final = 512
#: The fewest arrays, and the adjacent elements from which on they fill vectors.
_ARRAYS: Final = 2 * _LANES
_ADJACENT: Final = 16


def suits_short_rows(target: Target | None, arrays: int, length: int, inner: int, *, few: bool = False) -> bool:
    """Whether the nest suits the target and ``arrays`` contiguous arrays, [length, inner] each.

    With ``few``, it also suits arrays that are too few for vectors, because all else is slower still.
    """
    return target is not None and target.kind == "cpu" and (few or arrays >= _ARRAYS) and (
        inner < _ADJACENT and length * inner <= _ELEMENTS)


def short_rows_nest(name: str, fold: Fold, math: Callable[[DType], Any], source: DType, accumulator: DType,
                    result: DType) -> Program:
    """Return a program that folds the middle dimension of a contiguous array [arrays, length, inner].

    The fold has real accumulators, does not count elements, and its order does not matter. The sizes are the three.
    """
    return _Folds(name, fold, math, source, accumulator, result).program()


class ShortRows(ABC):
    """Writer of a nest that computes one result from each row of the middle dimension.

    Attributes:
        t: A position in the row, for a loop of ``folded``.
        length: The length of rows.

    Args:
        name: Name of the kernel.
        source: Element type of the array.
        accumulator: Element type of the tile, which holds the elements.
        result: Element type of the results.
    """

    def __init__(self, name: str, source: DType, accumulator: DType, result: DType) -> None:
        self.source, self.accumulator, self.result = source, accumulator, result
        self.nest = ProgramBuilder(f"{name}_short_rows", int64)
        self.nest.buffer("out0", result, writable=True)
        self.nest.buffer("in0", source)
        self.arrays, self.length, self.inner = self.nest.sizes("n", 3)
        self.start, self.lane, self.array, self.at, self.o, self.t = (
            Var(name, int64) for name in ("start", "lane", "array", "at", "o", "t"))

    @abstractmethod
    def folded(self, element: Callable[[Expr], Expr]) -> list[Stmt]:
        """Return statements that read a row; ``element(position)`` is an element of the row."""

    @abstractmethod
    def finished(self) -> Any:
        """Return the result, after ``folded``."""

    def program(self) -> Program:
        """Return the finished nest: an iteration takes as many arrays as a tile holds, the last ones one by one."""
        number = Var("number", int64)
        whole = (self.start + _LANES) <= self.arrays
        body: list[Stmt] = [
            Let(self.start, number * _LANES), If(whole, tuple(self._together())),
            If(~whole, (loop(self.array, self.arrays, [self._alone()], start=self.start),))]
        tiles = (Local("tile", self.accumulator, _LANES * _ELEMENTS), Local("results", self.result, _LANES * _ELEMENTS))
        return self.nest.program(parallel([number], [(self.arrays + (_LANES - 1)) // _LANES], body), tiles)

    def _together(self) -> list[Stmt]:
        array, to = self.start + self.lane, self.o * _LANES + self.lane
        size = self.length * self.inner

        def element(position: Expr) -> Expr:
            return Load("tile", (position * self.inner + self.o) * _LANES + self.lane, self.accumulator)

        return [
            loop(self.lane, _LANES, [loop(self.at, size, [
                Store("tile", self.at * _LANES + self.lane, self.read(array * size + self.at))])]),
            loop(self.o, self.inner, [loop(self.lane, _LANES, [
                *self.folded(element), *stores("results", to, self.finished(), self.result)], LoopKind.VECTOR)]),
            loop(self.lane, _LANES, [loop(self.o, self.inner, [
                Store("out0", array * self.inner + self.o, Load("results", to, self.result))])]),
        ]

    def _alone(self) -> Stmt:
        def element(position: Expr) -> Expr:
            return self.read((self.array * self.length + position) * self.inner + self.o)  # type: ignore[no-any-return]

        to = self.array * self.inner + self.o
        return loop(self.o, self.inner, [*self.folded(element), *stores("out0", to, self.finished(), self.result)])

    def read(self, at: Expr) -> Any:
        """Return an element of the array in the tile's element type."""
        return convert(cast(Load("in0", at, self.source), arithmetic_dtype(self.source)), self.accumulator)


class _Folds(ShortRows):
    """Writer of a fold's nest."""

    def __init__(self, name: str, fold: Fold, math: Callable[[DType], Any], source: DType, accumulator: DType,
                 result: DType) -> None:
        super().__init__(name, source, accumulator, result)
        self.fold, self.m = fold, math(accumulator)
        identity = fold.identity(accumulator)
        types = [int64 if k in fold.positions else accumulator for k in range(len(identity))]
        self.identity: list[Any] = [
            convert(const(value, kind), kind) for value, kind in zip(identity, types, strict=True)]
        self.accs = [Var(f"acc{k}", kind) for k, kind in enumerate(types)]
        self.next = [Var(f"next{k}", kind) for k, kind in enumerate(types)]

    def folded(self, element: Callable[[Expr], Expr]) -> list[Stmt]:
        """Combine the elements in their order."""
        x = Var("x", self.accumulator)
        values = self.fold.combine(self.m, tuple(self.accs), self.fold.element(self.m, x, self.t))
        combined = [Let(var, value) for var, value in zip(self.next, values, strict=True)]
        step: list[Stmt] = [Let(x, element(self.t)), *combined, *map(Assign, self.accs, self.next)]
        first = [Declare(acc, value) for acc, value in zip(self.accs, self.identity, strict=True)]
        return [*first, loop(self.t, self.length, step)]

    def finished(self) -> Any:
        """Return the fold's result."""
        count = const(1, self.accumulator)
        (value,) = self.fold.finish(self.m, tuple(self.accs), count)
        return convert(value, arithmetic_dtype(self.result))
