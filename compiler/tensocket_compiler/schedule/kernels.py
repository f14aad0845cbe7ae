"""Kernels of groups: one nest over the domain, built from the formulas of the operations' records.

A value is a function of the position in the row; a row value does not depend on it. Values of the group's own
operations are expressions, all others are loads. Reductions of rows come first, in order; all stores follow, so that
an operation may overwrite what the group reads at the same place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from tensocket_operators.kinds.inplace import InPlace
from tensocket_operators.kinds.pointwise import Pointwise
from tensocket_operators.kinds.reduction import Reduction, accumulation_dtype
from tensocket_plugins.contract.dtypes import DType, bool_
from tensocket_plugins.ir.build.elements import load
from tensocket_plugins.ir.build.math import Computed, ExprMath
from tensocket_plugins.ir.build.nest import parallel
from tensocket_plugins.ir.digest import program_digest
from tensocket_plugins.ir.element_types import arithmetic_dtype
from tensocket_plugins.ir.nodes import Combine, Expr, Let, Program, Reduce, Stmt, Store, Var, call, cast, const, select
from tensocket_plugins.ir.strategies import Strategy, pick_strategy

from ..capture.numbers import SymFloat
from ..capture.recorder import Operation
from ..memory.regions import Region
from .accesses import Accesses
from .dependencies import Dependencies
from .forms import Form, extras_of, form_of
from .groups import Group
from .row_formulas import NormalizedRow, SoftmaxRow

#: Integers up to this one are floats of all dtypes in which kernels compute.
_EXACT: Final = 1 << 24
#: Floats that kernels contain.
_CONSTANTS: Final = frozenset({0.0, 0.5, 1.0, 2.0})
#: A value at a position in the row; None stands for row values.
Value = Callable[[Expr | None], Expr]


@dataclass(frozen=True)
class FusedKernel:
    """The kernel of a group.

    Attributes:
        program: The nest.
        strategy: How it is scheduled.
        regions: Its buffers, results first.
        written: The number of results.
        scalars: Sizes and strides.
        numbers: Numbers that operations take, its last scalars; some are symbolic.
    """

    program: Program
    strategy: Strategy
    regions: tuple[Region, ...]
    written: int
    scalars: tuple[int, ...]
    numbers: tuple[SymFloat | float, ...]

    @cached_property
    def key(self) -> tuple[str, str]:
        """The key of the program in a device's table."""
        return "graph", program_digest(self.program)


class KernelBuilder:
    """Builder of one group's kernel."""

    def __init__(self, group: Group, dependencies: dict[Operation, Dependencies], stored: Sequence[Region]) -> None:
        self.group, self._dependencies = group, dependencies
        self._forms: dict[Operation, Form] = {}
        for operation in group.operations:
            form = form_of(operation)
            assert form is not None, "only operations with a form are fused"
            self._forms[operation] = form
        self._stored = stored
        self._inside = set(group.operations)
        self._values: dict[tuple[Operation, int], Value] = {}
        self._state: Any = group.device
        self.statements: list[Stmt] = []
        self._numbers: dict[tuple[Any, ...], tuple[SymFloat | float, Expr]] = {}
        self._arrays = self._collect()
        self.nest = self._arrays.nest
        self._index, self._length = self.nest.index, self._arrays.length

    def _collect(self) -> Accesses:
        """Find and declare all arrays."""
        reduces = any(form.reduces for form in self._forms.values())
        self.by_rows = self.group.last is not None and bool(self.group.rows or reduces)
        arrays = Accesses(self.group, self.by_rows)
        for region in self._stored:
            arrays.note(region, region.shape, writes=True)
        for operation in self.group.operations:
            form = self._forms[operation]
            if form.kind == "fill":
                continue  # an operand only gives the dtype and the device
            for region, source in zip(operation.reads, self._dependencies[operation].sources, strict=True):
                inside = source is not None and source.operation in self._inside
                if inside or region.buffer.everywhere is not None:
                    continue
                arrays.note(region, form.domain, axis=operation.args[1] if form.gathers is region else None)
        arrays.declare(self._title())
        return arrays

    def _title(self) -> str:
        names = dict.fromkeys(operation.name.rstrip("_") for operation in self.group.operations)
        return "_".join(names)[:48]

    # ------------------------------------------------------------------------------------------------ values

    def value(self, region: Region, operation: Operation) -> Value:
        """Return the value of an operand of an operation."""
        source = self._source(region, operation)
        if source is not None:
            return self._values[source]
        if region.buffer.everywhere is not None:
            everywhere = const(region.buffer.everywhere, arithmetic_dtype(region.dtype))
            return lambda j: everywhere
        arrays = self._arrays
        number = arrays.number(region, self._forms[operation].domain)
        name = arrays[number].name
        if arrays.is_per_row(number):
            once = self._once(load(name, arrays.address(number, None), region.dtype))
            return lambda j: once
        return lambda j: load(name, arrays.address(number, j), region.dtype)

    def _source(self, region: Region, operation: Operation) -> tuple[Operation, int] | None:
        found = self._dependencies[operation].sources[operation.reads.index(region)]
        if found is None or found.operation not in self._inside:
            return None
        return found.operation, found.operation.results.index(found.region)

    def _once(self, value: Expr) -> Expr:
        """Return a variable for a value of the row."""
        known = Var(f"row{len(self.statements)}", value.dtype)
        self.statements.append(Let(known, value))
        return known

    def _keep(self, operation: Operation, number: int, value: Value, per_row: bool) -> None:
        """Store the value of a result under its name; values of rows are computed once."""
        dtype = operation.results[number].dtype
        if self.by_rows and per_row:
            once = self._once(_rounded(value(None), dtype))
            self._values[operation, number] = lambda j: once
            return
        known: dict[int, tuple[Expr | None, Expr]] = {}

        def element(j: Expr | None) -> Expr:
            if id(j) not in known:
                known[id(j)] = j, _rounded(value(j), dtype)
            return known[id(j)][1]

        self._values[operation, number] = element

    def number(self, x: Any, dtype: DType) -> Expr:
        """Return a number among the operands: a constant, or a scalar of the kernel.

        Floats are scalars unless they are common, because many follow from sizes or learning rates.
        """
        if type(x) is not SymFloat and (dtype.kind != "float" or (type(x) is not float and abs(x) > _EXACT)
                                        or not math.isfinite(x) or abs(x) in _CONSTANTS):
            return const(x, dtype)
        key = dtype, x.expression if type(x) is SymFloat else float(x)
        if key not in self._numbers:
            self._numbers[key] = x, self.nest.number(f"x{len(self._numbers)}", dtype)
        return self._numbers[key][1]

    # ------------------------------------------------------------------------------------------------ operations

    def _add(self, operation: Operation) -> None:
        form = self._forms[operation]
        getattr(self, f"_add_{form.kind}")(operation, operation in self.group.rows)

    def _add_pointwise(self, operation: Operation, per_row: bool) -> None:
        record = operation.operator
        record = record.origin if isinstance(record, InPlace) else record
        assert isinstance(record, Pointwise)
        assert operation.compute is not None
        compute, work = operation.compute, arithmetic_dtype(operation.compute)
        operands, extras = operation.args[:record.count], extras_of(operation, record)
        given = [(x, bool_ if record.condition and k == 0 else compute) for k, x in enumerate(operands)]
        values: list[Value] = []
        for position, (x, dtype) in enumerate(given):
            if isinstance(x, Region):
                narrow = dtype if x.shape or x.dtype is dtype or record.stored else arithmetic_dtype(dtype)
                values.append(_converted(self.value(x, operation), narrow))
            else:
                number = self.number(x if type(x) is SymFloat else record.converter(compute, position)(x), work)
                values.append(lambda j, number=number: number)  # type: ignore[misc]
        bound = [self.number(x, work) if type(x) in (int, float) or type(x) is SymFloat else x for x in extras]

        def element(j: Expr | None) -> Expr:
            m = ExprMath(work, compute)
            found = m.finished(record.formula(m, *[value(j) for value in values], *bound))
            if isinstance(found, Computed):
                raise NotImplementedError(f"{record.name} has statements of its own")
            return found if isinstance(found, Expr) else const(found, work)

        self._keep(operation, 0, element, per_row)

    def _add_copy(self, operation: Operation, per_row: bool) -> None:
        source = operation.args[1] if operation.name == "copy_" else operation.args[0]
        self._keep(operation, 0, self.value(source, operation), per_row)

    def _add_fill(self, operation: Operation, per_row: bool) -> None:
        region = operation.results[0]
        assert region.buffer.fill is not None
        number = const(region.buffer.fill, arithmetic_dtype(region.dtype))
        self._keep(operation, 0, lambda j: number, per_row)

    def _add_fold(self, operation: Operation, per_row: bool) -> None:
        record = operation.operator
        assert isinstance(record, Reduction)
        assert operation.compute is not None
        fold, accumulator = record.fold, record.accumulator(self._state, operation.compute)
        m, k = ExprMath(accumulator), len(self.statements)
        position, element = Var(f"r{k}", self._index), Var(f"e{k}", accumulator)
        value = cast(self.value(operation.reads[0], operation)(position), operation.compute)
        start = [const(x, accumulator) for x in fold.identity(accumulator)]
        left, right, accs = ([Var(f"{side}{k}_{i}", accumulator) for i in range(len(start))]
                             for side in ("left", "right", "acc"))
        self.statements.append(Reduce(
            results=tuple(accs), loops=((position, self._length),), body=(Let(element, cast(value, accumulator)),),
            values=tuple(fold.element(m, element, position)), identity=tuple(start),
            combine=Combine(tuple(left), tuple(right), tuple(fold.combine(m, tuple(left), tuple(right))))))
        count = cast(self._length, accumulator) if accumulator.category >= 2 else const(1, accumulator)
        (found,) = fold.finish(m, tuple(accs), count)
        self._keep(operation, 0, lambda j: found, True)

    def _add_softmax(self, operation: Operation, per_row: bool) -> None:
        record, dtype = operation.operator, operation.results[0].dtype
        m = ExprMath(arithmetic_dtype(dtype))
        row = SoftmaxRow(self, m, self._length, accumulation_dtype(self._state, dtype),
                         self._place_of(operation) if dtype is m.dtype else None)
        value = record.formula(row, *[self.value(x, operation) for x in operation.reads])
        self._keep(operation, 0, value, False)

    def _place_of(self, operation: Operation) -> tuple[str, Callable[[Expr], Expr]] | None:
        """Return the array of a result and its addresses, if the kernel uses this memory for nothing else."""
        region, arrays = operation.results[0], self._arrays
        number = arrays.find(arrays.key(region, region.shape))
        if number is None or region not in self._stored or any(
                x.buffer is region.buffer for k, x in enumerate(arrays.regions) if k != number):
            return None
        return arrays[number].name, lambda j: arrays.address(number, j)

    def _add_row(self, operation: Operation, per_row: bool) -> None:
        record = operation.operator
        dtype = operation.reads[0].dtype
        work = arithmetic_dtype(dtype)
        row = NormalizedRow(self, ExprMath(work), self._length, accumulation_dtype(self._state, dtype))
        operands = [None if x is None else _of_tuple(_converted_float(self.value(x, operation), work))
                    for x in operation.args[:record.count]]
        numbers = [const(float(x), work) for x, p in zip(operation.args, record.schema.parameters, strict=True)
                   if p.type == "float"]
        for number, (value, kind) in enumerate(zip(record.formula(row, *operands, *numbers), record.results,
                                                   strict=True)):
            if kind == "full":
                self._keep(operation, number, _of_position(value), False)
            else:
                self._keep(operation, number, _always(value), True)

    def _add_gather(self, operation: Operation, per_row: bool) -> None:
        source, axis, index = operation.args
        at = self.value(index, operation)
        inside = self._source(source, operation)
        if inside is not None:
            made = self._values[inside]
            self._keep(operation, 0, lambda j: made(cast(at(j), self._index)), per_row)
            return
        if source.buffer.everywhere is not None:
            self._keep(operation, 0, self.value(source, operation), per_row)
            return
        arrays = self._arrays
        number = arrays.number(source, self._forms[operation].domain, axis)
        name, step = arrays[number].name, arrays.step(source.strides[axis])

        def element(j: Expr | None) -> Expr:
            place = arrays.address(number, j) + cast(at(j), self._index) * step
            found: Expr = load(name, place, source.dtype)
            return found

        self._keep(operation, 0, element, per_row)

    def _add_scatter(self, operation: Operation, per_row: bool) -> None:
        _, _, index, source, _ = operation.args
        at, value = self.value(index, operation), self.value(source, operation)

        def element(j: Expr | None) -> Expr:
            given, place = value(j), const(0, self._index) if j is None else j  # rows of one element have one place
            return select(call("eq", cast(place, index.dtype), at(j)), given, const(0, given.dtype))

        self._keep(operation, 0, element, False)

    # ------------------------------------------------------------------------------------------------ the nest

    def build(self) -> FusedKernel:
        """Return the kernel."""
        arrays = self._arrays
        for operation in self.group.operations:
            self._add(operation)
        # The last value of each place in memory, which may have several regions.
        made = {arrays.key(region, region.shape): (operation, number) for operation in self.group.operations
                for number, region in enumerate(operation.results)}
        j = Var("j", self._index)
        rows: list[Stmt] = []
        lets: list[Stmt] = []
        stores: list[Stmt] = []
        for key in dict.fromkeys(arrays.key(region, region.shape) for region in self._stored):
            number, (operation, result) = arrays.find(key), made[key]
            assert number is not None, "stored regions were noted"
            region = operation.results[result]
            single = self.by_rows and (operation in self.group.rows or operation.results[result].shape[-1:] == (1,))
            value = self._values[operation, result](None if single or not self.by_rows else j)
            named = Var(f"v{number}", region.dtype)
            (rows if single else lets).append(Let(named, cast(value, region.dtype)))
            target = arrays.address(number, None if single or not self.by_rows else j)
            (rows if single else stores).append(Store(arrays[number].name, target, named))
        body: list[Stmt] = [*self.statements]
        if self.by_rows:
            inner = parallel([j], [self._length], [*lets, *stores]) if stores else ()
            body += [*inner, *rows]
        else:
            body += [*lets, *stores]
        program = self.nest.program(parallel(arrays.variables, arrays.bounds, body))
        return FusedKernel(program, self._strategy(), arrays.regions, len(self._stored), tuple(arrays.scalars),
                           tuple([x for x, _ in self._numbers.values()]))

    def _strategy(self) -> Strategy:
        if not self.by_rows or not any(isinstance(s, Reduce) for s in self.statements):
            return Strategy.SERIAL
        rows = 1
        for size in self._arrays.sizes:
            rows *= size
        assert self.group.last is not None
        return pick_strategy(rows, self.group.last, self._state.runtime.target, self.group.last)


def _rounded(value: Expr, dtype: DType) -> Expr:
    """Return a value as a read of the stored element would return it."""
    return cast(cast(value, dtype), arithmetic_dtype(dtype))


def _converted(value: Value, dtype: DType) -> Value:
    return lambda j: _rounded(value(j), dtype)


def _converted_float(value: Value, work: DType) -> Value:
    def element(j: Expr | None) -> Expr:
        found = value(j)
        return cast(found, work) if found.dtype.kind == "float" else found

    return element


def _of_tuple(value: Value) -> Callable[[Any], Expr]:
    return lambda position: value(position[0] if position else None)


def _of_position(value: Callable[[Any], Expr]) -> Value:
    return lambda j: value((j,))


def _always(value: Expr) -> Value:
    return lambda j: value
