"""Unscheduled programs for row operators: values that need a whole row, such as its largest element or its sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.build.elements import load
from tensocket_plugins.ir.build.nest import ProgramBuilder, dot, parallel
from tensocket_plugins.ir.element_types import arithmetic_dtype
from tensocket_plugins.ir.nodes import Combine, Expr, Let, Load, Program, Reduce, Stmt, Store, Var, cast, const


class RowMath:
    """Row formulas as kernel IR: values are functions of the position in the row."""

    def __init__(self, nest: ProgramBuilder, m: Any, size: Expr, accumulator: DType, target: Callable[[Any], Expr],
                 result: DType) -> None:
        self.m = m
        self._target = target
        self._result = result
        self._nest = nest
        self._size = size
        self._accumulator = accumulator
        self.statements: list[Stmt] = []

    def _reduce(self, value: Callable[[Any], Any], identity: float, combine: Callable[[Any, Any], Any],
                dtype: DType) -> Expr:
        k = len(self.statements)
        j, element = Var(f"r{k}", self._nest.index), Var(f"e{k}", dtype)
        left, right, result = (Var(f"{side}{k}", dtype) for side in ("left", "right", "acc"))
        self.statements.append(Reduce(
            results=(result,), loops=((j, self._size),), body=(Let(element, cast(value(j), dtype)),), values=(element,),
            identity=(const(identity, dtype),), combine=Combine((left,), (right,), (combine(left, right),))))
        return cast(result, self.m.dtype)

    def amax(self, value: Callable[[Any], Any]) -> Expr:
        """Return the largest value of the row."""
        return self._reduce(value, float("-inf"), self.m.maximum, self.m.dtype)

    def sum(self, value: Callable[[Any], Any]) -> Expr:
        """Return the sum of the row, accumulated in the dtype that the device's profile names."""
        return self._reduce(value, 0.0, lambda a, b: a + b, self._accumulator)

    def keep(self, value: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return values for repeated use: stored in the result's row if it holds them unrounded, else recomputed."""
        if self._result is not self.m.dtype:
            return value
        j = Var(f"k{len(self.statements)}", self._nest.index)
        self.statements += parallel([j], [self._size], [Store("out0", self._target(j), value(j))])
        return lambda position: Load("out0", self._target(position), self._result)

    def mean(self, value: Callable[[Any], Any]) -> Expr:
        """Return the mean of the row, accumulated like ``sum``."""
        return self.sum(value) / cast(self._size, self.m.dtype)


def row_nest(
    name: str,
    formula: Callable[..., Callable[[Any], Any]],
    math: Callable[[DType], Any],
    operands: Sequence[DType],
    result: DType,
    accumulator: DType,
    rank: int,
    along: Sequence[int | None],
    index: DType,
    numbers: int = 0,
    beside: Sequence[int | None] = (),
) -> Program:
    """Build the program that computes ``result[..., j] = formula(row, *operands, *numbers)(j)`` for every row.

    Args:
        name: Kernel name.
        formula: Takes a ``RowMath`` and one function of the position per operand.
        math: Makes the namespace for a dtype.
        operands: Stored element types of the inputs, which have one shape.
        result: Stored element type of the output.
        accumulator: Element type of sums.
        rank: Number of outer dimensions.
        along: For the result and each operand, the stride along the row if the program may depend on it, or None.
        index: Integer type of index arithmetic.
        numbers: Number of numbers that the formula takes, in arithmetic dtypes.
        beside: The same for strides along the last outer dimension; by default, the program depends on none.
    """
    nest = ProgramBuilder(name, index)
    nest.buffer("out0", result, writable=True)
    for k, dtype in enumerate(operands):
        nest.buffer(f"in{k}", dtype)
    sizes, (length,) = nest.sizes("n", rank), nest.sizes("m", 1)
    outer, j = nest.variables("i", rank), Var("j", index)

    def address(array: str, number: int) -> Callable[[Any], Expr]:
        strides: list[Expr] = [*nest.strides(array, rank + 1)]
        for place, known in ((-1, along), (-2, beside)):
            step = known[number] if known else None
            if step is not None:
                strides[place] = const(step, index)  # the argument stays, so that all variants have one signature
        return lambda position: dot([*outer, position], strides)

    target = address("out0", 0)
    loads = [_loader(nest, f"in{k}", address(f"in{k}", k + 1), dtype) for k, dtype in enumerate(operands)]
    row = RowMath(nest, math(arithmetic_dtype(result)), length, accumulator, target, result)
    value = formula(row, *loads, *[nest.number(f"x{k}", result) for k in range(numbers)])(j)
    store = parallel([j], [length], [Store("out0", target(j), cast(value, result))])
    return nest.program(parallel(outer, sizes, [*row.statements, *store]))


def _loader(nest: ProgramBuilder, array: str, address: Callable[[Any], Expr], dtype: DType) -> Callable[[Any], Expr]:
    return lambda position: load(array, address(position), dtype)
