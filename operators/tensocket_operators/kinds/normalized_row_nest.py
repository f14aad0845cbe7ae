"""Nests over rows of several dimensions, with operands that broadcast and with results of one value per row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tensocket_plugins.contract.dtypes import DType, int64
from tensocket_plugins.ir.build.elements import load
from tensocket_plugins.ir.build.math import ExprMath
from tensocket_plugins.ir.build.nest import ProgramBuilder, dot, linear, parallel
from tensocket_plugins.ir.element_types import arithmetic_dtype
from tensocket_plugins.ir.nodes import Combine, Expr, Let, Program, Reduce, Stmt, Store, Var, call, cast, const

#: A stride in a nest: 0 or 1 if it is known, None if it is an argument of the program.
Fixed = Literal[0, 1] | None


@dataclass(frozen=True, slots=True)
class OperandLayout:
    """The layout of an array along a nest's dimensions.

    Attributes:
        dtype: The element type as stored.
        across: The stride of the last outer dimension.
        along: The stride of the row's last dimension.
        single: Whether there is one element per row: all strides along it are 0.
    """

    dtype: DType
    across: Fixed
    along: Fixed
    single: bool = False


class RowMath:
    """Row formulas as kernel IR: values are functions of a position, which is a tuple with an index per dimension."""

    def __init__(self, nest: ProgramBuilder, m: Any, sizes: Sequence[Expr], accumulator: DType) -> None:
        self.m = m
        self._nest = nest
        self._sizes = tuple(sizes)
        self._accumulator = accumulator
        self.statements: list[Stmt] = []

    def count(self) -> Expr:
        """Return the number of elements of a row, in the dtype of computations."""
        return self._count(self.m.dtype)

    def _count(self, dtype: DType) -> Expr:
        total = self._sizes[0]
        for size in self._sizes[1:]:
            total = total * size
        return cast(total, dtype)

    def _reduce(self, value: Callable[[Any], Sequence[Expr]], identity: float, combine: Callable[[Any, Any], Any],
                dtype: DType) -> list[Var]:
        """Fold several values of every element at once."""
        k = len(self.statements)
        position = tuple([Var(f"r{k}_{d}", self._nest.index) for d in range(len(self._sizes))])
        values = value(position)
        elements, lefts, rights, results = (
            tuple([Var(f"{name}{k}_{i}", dtype) for i in range(len(values))])
            for name in ("element", "left", "right", "acc"))
        self.statements.append(Reduce(
            results=results, loops=tuple(zip(position, self._sizes, strict=True)),
            body=tuple(map(Let, elements, values)), values=elements,
            identity=tuple([const(identity, dtype) for _ in values]),
            combine=Combine(lefts, rights, tuple(map(combine, lefts, rights)))))
        return list(results)

    def at(self, position: Any) -> Expr:
        """Return a position's number in the row, int64."""
        return cast(linear(position, self._sizes), int64)

    def once(self, value: Expr) -> Expr:
        """Return a variable for a value of the row, so that it is computed once."""
        known = Var(f"once{len(self.statements)}", value.dtype)
        self.statements.append(Let(known, value))
        return known

    def amax(self, value: Callable[[Any], Any]) -> Expr:
        """Return the largest value of the row."""
        return self._reduce(lambda j: [value(j)], float("-inf"), self.m.maximum, self.m.dtype)[0]

    def sums(self, *values: Callable[[Any], Any]) -> list[Expr]:
        """Return the sums of the row in one pass, accumulated in the dtype that the device's profile names."""
        wide = self._accumulator
        sums = self._reduce(lambda j: [cast(value(j), wide) for value in values], 0.0, lambda a, b: a + b, wide)
        return [self.once(cast(total, self.m.dtype)) for total in sums]

    def means(self, *values: Callable[[Any], Any]) -> list[Expr]:
        """Return the means of the row in one pass, accumulated like ``sums``."""
        wide = self._accumulator
        sums = self._reduce(lambda j: [cast(value(j), wide) for value in values], 0.0, lambda a, b: a + b, wide)
        return [self.once(cast(total / self._count(wide), self.m.dtype)) for total in sums]

    def moments(self, value: Callable[[Any], Any]) -> tuple[Expr, Expr]:
        """Return the mean and the variance of the row.

        Wide accumulators sum the distances to the row's first element and their squares in one pass: the part that
        cancels is at most the number of elements times the variance. Other accumulators take two passes.
        """
        wide = self._accumulator
        if wide.itemsize <= self.m.dtype.itemsize:
            (mean,) = self.means(value)
            (var,) = self.means(lambda j: (value(j) - mean) * (value(j) - mean))
            return mean, var
        first = cast(value(tuple([const(0, self._nest.index) for _ in self._sizes])), wide)

        def distances(j: Any) -> list[Expr]:
            distance = cast(value(j), wide) - first
            return [distance, distance * distance]

        total, squares = self._reduce(distances, 0.0, lambda a, b: a + b, wide)
        mean = self.once(total / self._count(wide))
        var = call("max", squares / self._count(wide) - mean * mean, const(0, wide))
        return self.once(cast(first + mean, self.m.dtype)), self.once(cast(var, self.m.dtype))


def row_program(name: str, formula: Callable[..., tuple[Any, ...]], operands: Sequence[OperandLayout | None],
               results: Sequence[OperandLayout], accumulator: DType, ranks: tuple[int, int], index: DType,
               numbers: Sequence[DType]) -> Program:
    """Build the program that computes ``results = formula(row, *operands, *numbers)`` for every row.

    Args:
        name: Kernel name.
        formula: Takes a ``RowMath``, one function of the position per operand (None if it is missing) and numbers;
            returns a function of the position for every result that has the rows' shape, a value for every other.
        operands: The inputs; the first one has the rows' shape.
        results: The outputs; those with ``single`` are contiguous and have one value per row, from a reduction.
        accumulator: Element type of sums.
        ranks: Numbers of outer dimensions and of a row's dimensions.
        index: Integer type of index arithmetic.
        numbers: Dtypes of the numbers that the formula takes.
    """
    nest = ProgramBuilder(name, index)
    for k, result in enumerate(results):
        nest.buffer(f"out{k}", result.dtype, writable=True)
    for k, operand in enumerate(operands):
        if operand is not None:
            nest.buffer(f"in{k}", operand.dtype)
    sizes, lengths = nest.sizes("n", ranks[0]), nest.sizes("m", ranks[1])
    outer, inner = nest.variables("i", ranks[0]), tuple(nest.variables("j", ranks[1]))

    def address(array: str, lying: OperandLayout) -> Callable[[Any], Expr]:
        steps: list[Expr] = [*nest.strides(array, sum(ranks))]
        if lying.across is not None and outer:
            steps[ranks[0] - 1] = const(lying.across, index)
        if lying.along is not None:
            steps[-1] = const(lying.along, index)
        if lying.single:
            return lambda position: dot(outer, steps[:ranks[0]]) if outer else const(0, index)
        return lambda position: dot([*outer, *position], steps)

    targets = [linear(outer, sizes) if outer else const(0, index) for _ in results]
    places = [None if result.single else address(f"out{k}", result) for k, result in enumerate(results)]
    lets: list[Stmt] = []
    work = arithmetic_dtype(next(x.dtype for x in operands if x is not None))
    values = [None if x is None else _values(f"in{k}", x, address(f"in{k}", x), work, lets)
              for k, x in enumerate(operands)]
    row = RowMath(nest, ExprMath(work), lengths, accumulator)
    made = formula(row, *values, *[nest.number(f"x{k}", dtype) for k, dtype in enumerate(numbers)])
    reduces = bool(row.statements)
    stores: list[Stmt] = []
    for k, (value, result, place) in enumerate(zip(made, results, places, strict=True)):
        if place is not None:
            stores.append(Store(f"out{k}", place(inner), cast(value(inner), result.dtype)))
            if reduces:
                stores[-1:] = parallel(inner, lengths, stores[-1:])
        else:
            stores.append(Store(f"out{k}", targets[k], cast(value, result.dtype)))
    if not reduces:
        axes = [*zip(outer, sizes, strict=True), *zip(inner, lengths, strict=True)]
        if outer and any(x is not None and x.across == 1 for x in operands):  # neighbours belong to other rows
            axes.append(axes.pop(ranks[0] - 1))
        return nest.program(parallel([var for var, _ in axes], [size for _, size in axes], [*lets, *stores]))
    return nest.program(parallel(outer, sizes, [*lets, *row.statements, *stores]))


def _values(array: str, lying: OperandLayout, address: Callable[[Any], Expr], work: DType,
            lets: list[Stmt]) -> Callable[[Any], Expr]:
    """Return an operand as a function of the position; an operand with one value per row is read once."""
    if not lying.single:
        return lambda position: _computed(load(array, address(position), lying.dtype), work)
    value = _computed(load(array, address(()), lying.dtype), work)
    known = Var(f"{array}_value", value.dtype)
    lets.append(Let(known, value))
    return lambda position: known


def _computed(value: Expr, work: DType) -> Expr:
    """Return an element in the dtype of computations; integers keep their dtype."""
    return cast(value, work) if value.dtype.kind == "float" else value
