"""Nests of scans, which combine each element of a row with all elements before it.

A row is divided into blocks, and one iteration processes a block. With more than one block, a first nest combines every
block to a total, a second one scans the totals, and a last one scans each block from the total before it (G. E.
Blelloch, Prefix sums and their applications, 1990).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.build.elements import load, stores
from tensocket_plugins.ir.build.math import ExprMath
from tensocket_plugins.ir.build.nest import ProgramBuilder, dot, linear, parallel
from tensocket_plugins.ir.complex import Complex, choose, convert
from tensocket_plugins.ir.element_types import arithmetic_dtype
from tensocket_plugins.ir.nodes import Assign, Declare, Expr, Let, Program, Stmt, Var, call, const, loop, select

from .scan import Scan


@dataclass(frozen=True)
class ScanForm:
    """Everything that the text of a scan's nest depends on.

    Attributes:
        source: Stored element type of the row's elements; None if the rows are totals of blocks.
        accumulator: Element type of the combined values.
        result: Stored element type of the result; None if values are stored as they are.
        rank: Number of outer dimensions, which enumerate the rows.
        running: Whether every running value is stored, instead of each block's last one.
        carried: Whether a block starts from the total before it.
        index: Integer type of index arithmetic.
        unit: Whether the last stride of every strided array is 1.
    """

    source: DType | None
    accumulator: DType
    result: DType | None
    rank: int
    running: bool
    carried: bool
    index: DType
    unit: bool = False


def scan_nest(name: str, scan: Scan, form: ScanForm) -> Program:
    """Scan the blocks of rows. Buffers are results, inputs and carried totals; scalars are sizes, then strides.

    Sizes are those of the outer dimensions, then blocks per row, elements per block and per row. Strided arrays have a
    stride for every outer dimension and one along the row. Totals are row-major.
    """
    return ScanNest(name, scan, form).program()


class ScanNest:
    """Builder of one nest."""

    def __init__(self, name: str, scan: Scan, form: ScanForm) -> None:
        self.scan, self.form = scan, form
        self.m = ExprMath(form.accumulator)
        self.types = scan.types(form.accumulator, form.index)
        self.nest = ProgramBuilder(name, form.index)
        self.outs = self._declare("out", True, [form.result] if form.result else self.types)
        self.ins = self._declare("in", False, [form.source] if form.source else self.types)
        self.carries = self._declare("carry", False, self.types) if form.carried else []
        self.sizes = self.nest.sizes("n", form.rank)
        self.blocks, self.length, self.count = self.nest.sizes("m", 3)
        self.outer: list[Expr] = [*self.nest.variables("i", form.rank)]
        self.block: Expr = Var("block", form.index)
        strided = (*(self.outs if form.result else ()), *(self.ins if form.source else ()))
        self.strides = {array: self._strides(array) for array in strided}

    def _declare(self, stem: str, writable: bool, dtypes: Sequence[DType]) -> list[str]:
        return [self.nest.buffer(f"{stem}{k}", dtype, writable=writable) for k, dtype in enumerate(dtypes)]

    def _strides(self, array: str) -> list[Expr]:
        strides: list[Expr] = [*self.nest.strides(array, self.form.rank + 1)]
        return [*strides[:-1], const(1, self.form.index)] if self.form.unit else strides

    def program(self) -> Program:
        """Return the finished nest."""
        index, one = self.form.index, const(1, self.form.index)
        first, end, j = Var("first", index), Var("end", index), Var("j", index)
        values = self._named("acc", self._start(first))
        body: list[Stmt] = [
            Let(first, self.block * self.length),
            Let(end, call("min", first + self.length, self.count)),
            *[Declare(var, value) for var, value in values[0]],
            *(self._write(first, values[1]) if self.form.running else []),
            loop(j, end, self._step(j, values), start=first + one),
            *([] if self.form.running else self._write(self.block, values[1])),
        ]
        variables = [Var("block", index), *self.nest.variables("i", self.form.rank)]
        return self.nest.program(parallel(variables, [self.blocks, *self.sizes], body))

    def _start(self, first: Expr) -> tuple[Any, ...]:
        """Return the first element of a block, combined with the carry."""
        element = self._element(first)
        return self._unless_first(element, self.scan.combine(self.m, self._carry(), element)) if (
            self.form.carried) else element

    def _carry(self) -> tuple[Any, ...]:
        """Return the total before a block, which is its carry."""
        before = call("max", self.block - 1, const(0, self.form.index))
        return tuple(load(array, self._total(before, self.blocks), dtype)
                     for array, dtype in zip(self.carries, self.types, strict=True))

    def _unless_first(self, own: tuple[Any, ...], more: tuple[Any, ...]) -> tuple[Any, ...]:
        """Select ``own`` in the first block of a row, and ``more``, which includes the carry, in later ones."""
        first = call("eq", self.block, const(0, self.form.index))
        return tuple(_select(first, one, other) for one, other in zip(own, more, strict=True))

    def _step(self, j: Var, values: tuple[list[tuple[Var, Expr]], tuple[Any, ...]]) -> list[Stmt]:
        """Combine one more element; compute all new values before the first assignment."""
        combined = self.scan.combine(self.m, values[1], self._element(j))
        named, _ = self._named("next", combined)
        assigns = [Assign(var, new) for (var, _), (new, _) in zip(values[0], named, strict=True)]
        return [*[Let(var, value) for var, value in named], *assigns,
                *(self._write(j, values[1]) if self.form.running else [])]

    def _named(self, stem: str, values: Sequence[Any]) -> tuple[list[tuple[Var, Expr]], tuple[Any, ...]]:
        """Return variables with the values to assign to them, and the values as these variables."""
        pairs: list[tuple[Var, Expr]] = []
        names: list[Any] = []
        for k, (value, dtype) in enumerate(zip(values, self.types, strict=True)):
            value = convert(value, dtype)
            if isinstance(value, Complex):
                both = [Var(f"{stem}{k}_{part}", value.re.dtype) for part in ("re", "im")]
                pairs += zip(both, (value.re, value.im), strict=True)
                names.append(Complex(*both))
            else:
                pairs.append((Var(f"{stem}{k}", dtype), value))
                names.append(pairs[-1][0])
        return pairs, tuple(names)

    def _address(self, array: str, position: Expr) -> Expr:
        return dot([*self.outer, position], self.strides[array])

    def _total(self, position: Expr, per_row: Expr) -> Expr:
        if not self.outer:
            return position
        return linear(self.outer, self.sizes) * per_row + position

    def _element(self, position: Expr) -> tuple[Any, ...]:
        """Return the contribution of an element; totals are contributions already."""
        if self.form.source is None:
            return tuple(load(array, self._total(position, self.count), dtype)
                         for array, dtype in zip(self.ins, self.types, strict=True))
        value = convert(load("in0", self._address("in0", position), self.form.source), self.form.accumulator)
        return self.scan.element(self.m, value, position)

    def _write(self, position: Expr, values: tuple[Any, ...]) -> list[Stmt]:
        if self.form.result is None:
            per_row = self.count if self.form.running else self.blocks
            at = self._total(position, per_row)
            return [s for array, value, dtype in zip(self.outs, values, self.types, strict=True)
                    for s in stores(array, at, value, dtype)]
        result = convert(self.scan.finish(self.m, values), arithmetic_dtype(self.form.result))
        return stores("out0", self._address("out0", position), result, self.form.result)


def _select(condition: Expr, yes: Any, no: Any) -> Any:
    if isinstance(yes, Complex) or isinstance(no, Complex):
        return choose(condition, yes, no)
    return select(condition, yes, no)
