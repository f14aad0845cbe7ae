"""Kernels of groups: one nest over the domain, built from the formulas of the operations' records.

A value is a function of the position in the row; a row value does not depend on it. Values of the group's own
operations are expressions, all others are loads. Reductions of rows come first, in order; all stores follow, so that
an operation may overwrite what the group reads at the same place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tensocket_core.geometry import Shape, coalesce
from tensocket_core.launch.programs import index_dtype
from tensocket_core.strides import memory_order
from tensocket_operators.kinds.inplace import InPlace
from tensocket_operators.kinds.pointwise import Pointwise
from tensocket_operators.kinds.reduction import Reduction, accumulation_dtype
from tensocket_plugins.contract.dtypes import DType, bool_
from tensocket_plugins.ir.build.elements import load
from tensocket_plugins.ir.build.math import Computed, ExprMath, arithmetic_dtype
from tensocket_plugins.ir.build.nest import ProgramBuilder, dot, parallel
from tensocket_plugins.ir.nodes import Combine, Expr, Let, Program, Reduce, Stmt, Store, Var, call, cast, const, select
from tensocket_plugins.ir.schedule import Strategy, pick_strategy

from ..capture.numbers import SymFloat
from ..capture.recorder import Operation
from ..memory.regions import Region
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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class _Access:
    """An array of the kernel: its name, and its strides along the domain."""

    name: str
    region: Region
    strides: Shape


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
        self._access: dict[tuple[Any, ...], _Access] = {}
        self._collect()

    # ------------------------------------------------------------------------------------------------ geometry

    def _collect(self) -> None:
        """Find all arrays, and the fewest dimensions that visit them."""
        for region in self._stored:
            self._note(region, region.shape, writes=True)
        for operation in self.group.operations:
            form = self._forms[operation]
            if form.kind == "fill":
                continue  # an operand only gives the dtype and the device
            for region, source in zip(operation.reads, self._dependencies[operation].sources, strict=True):
                inside = source is not None and source.operation in self._inside
                if inside or region.buffer.everywhere is not None:
                    continue
                self._note(region, form.domain, axis=operation.args[1] if form.gathers is region else None)
        outer, last = self.group.outer, self.group.last
        reduces = any(form.reduces for form in self._forms.values())
        self.by_rows = last is not None and bool(self.group.rows or reduces)
        self.sizes: Shape = ()
        accesses = list(self._access.values())
        steps = [x.strides for x in accesses]
        if self.by_rows:
            rank = len(outer)
            across: Sequence[Shape] = [() for _ in steps]
            if outer:
                self.sizes, across = coalesce(outer, [s[:rank] for s in steps])
            self._along = [s[rank] for s in steps]
            self._across = list(across)
        else:
            shape = self.group.shape
            order = memory_order(shape, [steps[0]]) if steps and len(shape) > 1 else list(range(len(shape)))
            self.sizes, found = coalesce(tuple([shape[k] for k in order]),
                                         [tuple([s[k] for k in order]) for s in steps])
            self._across = list(found)
        reach = [sum((n - 1) * abs(s) for n, s in zip(self.group.shape, x.strides, strict=True)) for x in accesses]
        gathered = [x.region.span[1] // x.region.dtype.itemsize for x in accesses]
        self.nest = ProgramBuilder(self._title(), index_dtype(self._state, [*self.group.shape, *reach, *gathered]))
        self._index = self.nest.index

    def _note(self, region: Region, domain: Shape, *, writes: bool = False, axis: int | None = None) -> None:
        strides = self.group.strides(region if axis is None else _without(region, axis), domain)
        key = self._key(region, domain, axis)
        if key in self._access:
            return
        assert strides is not None, "operands of fused operations broadcast to the domain"
        number = sum(x.name.startswith("out" if writes else "in") for x in self._access.values())
        self._access[key] = _Access(f"{'out' if writes else 'in'}{number}", region, strides)

    def _key(self, region: Region, domain: Shape, axis: int | None = None) -> tuple[Any, ...]:
        """Return the name of an access: memory, and strides along the domain."""
        strides = self.group.strides(region if axis is None else _without(region, axis), domain)
        return region.buffer.number, region.offset, region.dtype.name, strides, axis

    def _title(self) -> str:
        names = dict.fromkeys(operation.name.rstrip("_") for operation in self.group.operations)
        return "_".join(names)[:48]

    def _address(self, number: int, j: Expr | None) -> Expr:
        """Return the position of an array's element in the current iteration."""
        strides = self._strides[number]
        if not self.by_rows:
            return dot(self._variables, strides)
        terms = [*self._variables] if j is None else [*self._variables, j]
        return dot(terms, strides[:len(terms)]) if terms else const(0, self._index)

    def _declare(self) -> None:
        """Declare buffers, sizes and strides; strides of 0 and 1 along the last dimension are known."""
        accesses = list(self._access.values())
        for access in accesses:
            self.nest.buffer(access.name, access.region.dtype, writable=access.name.startswith("out"))
        sizes: list[Var] = self.nest.sizes("n", len(self.sizes))
        self._sizes, self._variables = sizes, self.nest.variables("i", len(self.sizes))
        self._length: Any = self.nest.sizes("m", 1)[0] if self.by_rows else None
        self._strides: list[list[Expr]] = []
        self.scalars: list[int] = [*self.sizes, *([self.group.last] if self.by_rows else [])]  # type: ignore[list-item]
        for number, access in enumerate(accesses):
            steps = [*self._across[number], *([self._along[number]] if self.by_rows else [])]
            given: list[Expr] = [*self.nest.strides(access.name, len(steps))]
            self.scalars += steps
            if steps and steps[-1] in (0, 1):
                given[-1] = const(steps[-1], self._index)
            self._strides.append(given)
        self._places = {key: number for number, key in enumerate(self._access)}

    # ------------------------------------------------------------------------------------------------ values

    def value(self, region: Region, operation: Operation) -> Value:
        """Return the value of an operand of an operation."""
        source = self._source(region, operation)
        if source is not None:
            return self._values[source]
        if region.buffer.everywhere is not None:
            number = const(region.buffer.everywhere, arithmetic_dtype(region.dtype))
            return lambda j: number
        number_of = self._places[self._key(region, self._forms[operation].domain)]
        access = list(self._access.values())[number_of]
        if self.by_rows and self._along[number_of] == 0:
            once = self._once(load(access.name, self._address(number_of, None), region.dtype))
            return lambda j: once
        return lambda j: load(access.name, self._address(number_of, j), region.dtype)

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
        region = operation.results[0]
        number = self._places.get(self._key(region, region.shape))
        accesses = list(self._access.values())
        if number is None or region not in self._stored or any(
                x.region.buffer is region.buffer for k, x in enumerate(accesses) if k != number):
            return None
        return accesses[number].name, lambda j: self._address(number, j)

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
        number = self._places[self._key(source, self._forms[operation].domain, axis)]
        access, step = list(self._access.values())[number], self._step(source.strides[axis])

        def element(j: Expr | None) -> Expr:
            place = self._address(number, j) + cast(at(j), self._index) * step
            found: Expr = load(access.name, place, source.dtype)
            return found

        self._keep(operation, 0, element, per_row)

    def _step(self, stride: int) -> Expr:
        """Return the stride along which indices move, a scalar of the kernel unless it is 0 or 1."""
        if stride in (0, 1):
            return const(stride, self._index)
        (step,) = self.nest.strides(f"step{len(self.scalars)}", 1)
        self.scalars.append(stride)
        return step

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
        self._declare()
        for operation in self.group.operations:
            self._add(operation)
        # The last value of each place in memory, which may have several regions.
        made = {self._key(region, region.shape): (operation, number) for operation in self.group.operations
                for number, region in enumerate(operation.results)}
        j = Var("j", self._index)
        rows: list[Stmt] = []
        lets: list[Stmt] = []
        stores: list[Stmt] = []
        for key in dict.fromkeys(self._key(region, region.shape) for region in self._stored):
            number, (operation, result) = self._places[key], made[key]
            region = operation.results[result]
            access = list(self._access.values())[number]
            single = self.by_rows and (operation in self.group.rows or operation.results[result].shape[-1:] == (1,))
            value = self._values[operation, result](None if single or not self.by_rows else j)
            named = Var(f"v{number}", region.dtype)
            (rows if single else lets).append(Let(named, cast(value, region.dtype)))
            target = self._address(number, None if single or not self.by_rows else j)
            (rows if single else stores).append(Store(access.name, target, named))
        body: list[Stmt] = [*self.statements]
        if self.by_rows:
            inner = parallel([j], [self._length], [*lets, *stores]) if stores else ()
            body += [*inner, *rows]
        else:
            body += [*lets, *stores]
        program = self.nest.program(parallel(self._variables, self._sizes, body))
        regions = tuple([access.region for access in self._access.values()])
        return FusedKernel(program, self._strategy(), regions, len(self._stored), tuple(self.scalars),
                           tuple([x for x, _ in self._numbers.values()]))

    def _strategy(self) -> Strategy:
        if not self.by_rows or not any(isinstance(s, Reduce) for s in self.statements):
            return Strategy.SERIAL
        rows = 1
        for size in self.sizes:
            rows *= size
        assert self.group.last is not None
        return pick_strategy(rows, self.group.last, self._state.runtime.target, self.group.last)


def _without(region: Region, axis: int) -> Region:
    """Return a region along whose axis nothing moves, because indices replace it."""
    sizes, strides = list(region.shape), list(region.strides)
    sizes[axis], strides[axis] = 1, 0
    return Region(region.buffer, region.offset, tuple(sizes), tuple(strides), region.dtype)


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
