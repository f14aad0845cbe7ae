"""Unscheduled programs for the operator families: loop nests with their loads and stores.

Parameters have the same order everywhere: result buffers, operand buffers, sizes, strides (results, then operands; one
per dimension of each strided array), numbers. Generic nests never contain sizes: these are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Literal

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.complex import Complex, convert
from tensocket_plugins.ir.element_types import COMPONENT, arithmetic_dtype
from tensocket_plugins.ir.nodes import (
    Buffer,
    Combine,
    Const,
    Expr,
    Kernel,
    Let,
    Local,
    LoopKind,
    Param,
    Program,
    Reduce,
    Scalar,
    Stmt,
    Store,
    Var,
    cast,
    const,
    loop,
)

from .elements import load, storage_dtype, stores
from .fold import Fold
from .math import Computed


@dataclass(frozen=True, slots=True)
class Operand:
    """The access of a nest to one argument.

    Attributes:
        kind: ``flat``: element i of a contiguous array in iteration i. ``strided``: an array with a stride argument per
            dimension. ``number``: a scalar argument.
        dtype: The element type as stored.
        along: A dimension of stride 1, if the nest may assume one.
        still: Whether the nest may assume that the last dimension has stride 0.
    """

    kind: Literal["flat", "strided", "number"]
    dtype: DType
    along: int | None = None
    still: bool = False


def linear(indices: Sequence[Expr], sizes: Sequence[Expr]) -> Expr:
    """Return the row-major position of an index tuple."""
    position = indices[0]
    for index, size in zip(indices[1:], sizes[1:], strict=True):
        position = position * size + index
    return position


def dot(indices: Sequence[Expr], strides: Sequence[Expr]) -> Expr:
    """Return the sum of index times stride; strides that are known to be 0 take no part."""
    terms = [index * stride for index, stride in zip(indices, strides, strict=True)
             if not (isinstance(stride, Const) and stride.value == 0)]
    return reduce(add, terms) if terms else const(0, indices[0].dtype)


def split(number: Expr, sizes: Sequence[Expr]) -> list[Expr]:
    """Return the index tuple of a row-major position."""
    indices: list[Expr] = []
    for size in reversed(sizes[1:]):
        indices.insert(0, number % size)
        number = number // size
    return [number, *indices] if sizes else []


class ProgramBuilder:
    """Builder that collects a program's parameters while a nest is written."""

    def __init__(self, name: str, index: DType) -> None:
        self.name = name
        self.index = index
        self._buffers: list[Param] = []
        self._sizes: list[Param] = []
        self._strides: list[Param] = []
        self._numbers: list[Param] = []

    def buffer(self, name: str, dtype: DType, *, writable: bool = False) -> str:
        """Declare an array parameter."""
        self._buffers.append(Buffer(name, storage_dtype(dtype), writable))
        return name

    def sizes(self, prefix: str, rank: int) -> list[Var]:
        """Declare ``rank`` size parameters."""
        self._sizes += [Scalar(f"{prefix}{d}", self.index) for d in range(rank)]
        return [Var(f"{prefix}{d}", self.index) for d in range(rank)]

    def strides(self, array: str, rank: int, prefix: str = "s") -> list[Var]:
        """Declare ``rank`` stride parameters of an array."""
        names = [f"{array}_{prefix}{d}" for d in range(rank)]
        self._strides += [Scalar(name, self.index) for name in names]
        return [Var(name, self.index) for name in names]

    def number(self, name: str, dtype: DType) -> Any:
        """Declare a number parameter of the arithmetic dtype; a complex one is two parameters."""
        dtype = arithmetic_dtype(dtype)
        if dtype in COMPONENT:
            return Complex(*[self.number(f"{name}_{part}", COMPONENT[dtype]) for part in ("re", "im")])
        self._numbers.append(Scalar(name, dtype))
        return Var(name, dtype)

    def variables(self, prefix: str, rank: int) -> list[Var]:
        """Return ``rank`` loop variables."""
        return [Var(f"{prefix}{d}", self.index) for d in range(rank)]

    def program(self, body: Sequence[Stmt], locals: tuple[Local, ...] = ()) -> Program:
        """Return the finished program."""
        params = (*self._buffers, *self._sizes, *self._strides, *self._numbers)
        return Program(self.name, params, (Kernel(self.name, tuple(body), locals),))


def parallel(variables: Sequence[Var], sizes: Sequence[Expr], body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Return nested PARALLEL loops around ``body``, the first variable outermost."""
    statements = tuple(body)
    for variable, size in zip(reversed(variables), reversed(sizes), strict=True):
        statements = (loop(variable, size, statements, LoopKind.PARALLEL),)
    return statements


def pointwise_nest(name: str, formula: Callable[..., Any], operands: Sequence[Operand], results: Sequence[Operand],
                   rank: int, index: DType, *, position: bool = False) -> Program:
    """Return a program that computes ``results = formula(*operands)`` for every element.

    Args:
        name: Kernel name.
        formula: Function of one expression per operand, in arithmetic dtypes (with ``position``, the linear index comes
            first); returns one expression, or a tuple with one per result.
        operands: The inputs.
        results: The outputs; ``flat`` or ``strided``.
        rank: Number of dimensions of the nest; ``flat`` arrays need rank 1.
        index: Integer type of index arithmetic.
        position: Whether the formula takes the linear index.
    """
    nest = ProgramBuilder(name, index)
    for k, result in enumerate(results):
        nest.buffer(f"out{k}", result.dtype, writable=True)
    for k, operand in enumerate(operands):
        if operand.kind != "number":
            nest.buffer(f"in{k}", operand.dtype)
    sizes, variables = nest.sizes("n", rank), nest.variables("i", rank)

    def address(array: str, operand: Operand) -> Expr:
        if operand.kind == "flat":
            return variables[0]
        strides: list[Expr] = [*nest.strides(array, rank)]
        if operand.along is not None:
            strides[operand.along] = const(1, index)
        if operand.still:
            strides[-1] = const(0, index)
        return dot(variables, strides)

    targets = [address(f"out{k}", result) for k, result in enumerate(results)]
    values: list[Any] = [variables[0]] if position else []
    for k, operand in enumerate(operands):
        if operand.kind == "number":
            values.append(nest.number(f"x{k}", operand.dtype))
        else:
            values.append(load(f"in{k}", address(f"in{k}", operand), operand.dtype))
    outputs = formula(*values)
    lets: list[Stmt] = []
    if isinstance(outputs, Computed):
        lets, outputs = [*outputs.statements], outputs.value
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    body: list[Stmt] = []
    for k, (target, value, result) in enumerate(zip(targets, outputs, results, strict=True)):
        if result.dtype in COMPONENT:
            # An in-place kernel reads both parts before it writes one of them.
            named, value = _named(f"v{k}", convert(value, result.dtype))
            lets += named
        body += stores(f"out{k}", target, value, result.dtype)
    return nest.program(parallel(variables, sizes, [*lets, *body]))


def reduction_nest(name: str, fold: Fold, math: Callable[[DType], Any], source: DType, accumulator: DType,
                   results: Sequence[DType], ranks: tuple[int, int], unit: tuple[bool, bool], index: DType,
                   packed: bool = False, numbers: int = 0) -> Program:
    """Return a program that folds the inner dimensions of ``in0`` into contiguous results over the outer ones.

    Args:
        name: Kernel name.
        fold: The reduction's formulas.
        math: Makes the namespace for a dtype.
        source: Stored element type of the input.
        accumulator: Element type of the accumulators.
        results: Stored element types of the outputs.
        ranks: Numbers of outer and inner dimensions; at least one inner.
        unit: Whether the last outer and the last inner stride are 1.
        index: Integer type of index arithmetic.
        packed: Whether there is one dimension of each, and the inner stride is the outer size.
        numbers: How many further numbers the result depends on.
    """
    nest = ProgramBuilder(name, index)
    for k, dtype in enumerate(results):
        nest.buffer(f"out{k}", dtype, writable=True)
    nest.buffer("in0", source)
    outer_sizes, inner_sizes = nest.sizes("n", ranks[0]), nest.sizes("m", ranks[1])
    count = nest.number("count", COMPONENT.get(accumulator, accumulator))
    further = [nest.number(f"x{k}", accumulator) for k in range(numbers)]
    outer, inner = nest.variables("i", ranks[0]), nest.variables("j", ranks[1])
    one = const(1, index)
    outer_strides = unit_last(nest.strides("in0", ranks[0], "o"), unit[0], one)
    inner_strides = unit_last(nest.strides("in0", ranks[1], "i"), unit[1], one)
    inner_strides = [*outer_sizes] if packed else inner_strides
    address = dot([*outer, *inner], [*outer_strides, *inner_strides])
    m = math(accumulator)
    value = convert(load("in0", address, source), accumulator)
    if fold.relative:
        first = dot([*outer, *(const(0, index) for _ in inner)], [*outer_strides, *inner_strides])
        value = value - convert(load("in0", first, source), accumulator)
    lets, element = _named("x", value)
    identity = fold.identity(accumulator)
    types = [index if k in fold.positions else accumulator for k in range(len(identity))]
    start = [convert(const(v, COMPONENT.get(t, t)), t) for v, t in zip(identity, types, strict=True)]

    def accumulators(prefix: str) -> tuple[Any, ...]:
        return tuple(_named(f"{prefix}{k}", value)[1] for k, value in enumerate(start))

    left, right, accs = accumulators("left"), accumulators("right"), accumulators("acc")
    combine = Combine(_flat(left), _flat(right), _flat(fold.combine(m, left, right)))
    reduce = Reduce(
        results=_flat(accs), loops=tuple(zip(inner, inner_sizes, strict=True)), body=lets,
        values=_flat(fold.element(m, element, linear(inner, inner_sizes))), identity=_flat(start), combine=combine)
    outputs = fold.finish(m, accs, count, *further)
    target = linear(outer, outer_sizes) if outer else const(0, index)
    body = [s for k, (value, dtype) in enumerate(zip(outputs, results, strict=True))
            for s in stores(f"out{k}", target, convert(value, arithmetic_dtype(dtype)), dtype)]
    return nest.program(parallel(outer, outer_sizes, [reduce, *body]))


def _named(name: str, value: Any) -> tuple[tuple[Let, ...], Any]:
    """Return statements that name a value, and the names: one of each, or two for a complex value."""
    if not isinstance(value, Complex):
        return (Let(Var(name, value.dtype), value),), Var(name, value.dtype)
    re, im = Var(f"{name}_re", value.re.dtype), Var(f"{name}_im", value.im.dtype)
    return (Let(re, value.re), Let(im, value.im)), Complex(re, im)


def _flat(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return values with each complex one split into two."""
    return tuple(e for v in values for e in ((v.re, v.im) if isinstance(v, Complex) else (v,)))


def unit_last(strides: list[Var], unit: bool, one: Expr) -> list[Expr]:
    """Return the strides with the last one fixed at 1; its argument stays, so that all variants have one signature."""
    return [*strides[:-1], one] if unit and strides else list(strides)


def matmul_nest(dtype: DType, rank: int, index: DType) -> Program:
    """Return a program for ``out0[batch, i, j] = sum over k of in0[batch, i, k] * in1[batch, k, j]``.

    It accumulates in the arithmetic dtype.

    Args:
        dtype: Stored element type of all three arrays.
        rank: Number of batch dimensions.
        index: Integer type of index arithmetic.
    """
    nest = ProgramBuilder("matmul", index)
    nest.buffer("out0", dtype, writable=True)
    nest.buffer("in0", dtype)
    nest.buffer("in1", dtype)
    batch_sizes, (rows, columns), (depth,) = nest.sizes("n", rank), nest.sizes("m", 2), nest.sizes("k", 1)
    batch, i, j, k = nest.variables("b", rank), Var("i", index), Var("j", index), Var("k", index)
    a_strides, b_strides = nest.strides("in0", rank + 2), nest.strides("in1", rank + 2)
    work = arithmetic_dtype(dtype)
    left, right, total, term = (Var(name, work) for name in ("left", "right", "total", "term"))
    a = load("in0", dot([*batch, i, k], a_strides), dtype)
    b = load("in1", dot([*batch, k, j], b_strides), dtype)
    reduce = Reduce(results=(total,), loops=((k, depth),), body=(Let(term, a * b),), values=(term,),
                    identity=(const(0, work),), combine=Combine((left,), (right,), (left + right,)))
    store = Store("out0", linear([*batch, i, j], [*batch_sizes, rows, columns]), cast(total, dtype))
    return nest.program(parallel([*batch, i, j], [*batch_sizes, rows, columns], [reduce, store]))
