"""Forms: how an operation can be a part of a kernel, by the kind of its record."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from typing import Any, Final, Literal

from tensocket_core.geometry import Shape, broadcast_shapes
from tensocket_operators.kinds.inplace import InPlace
from tensocket_operators.kinds.normalized_row import RowOperator
from tensocket_operators.kinds.pointwise import Pointwise
from tensocket_operators.kinds.reduction import Reduction
from tensocket_operators.kinds.row import SoftmaxLike
from tensocket_plugins.contract.dtypes import DType, bool_
from tensocket_plugins.ir.build.math import Computed, ExprMath
from tensocket_plugins.ir.element_types import arithmetic_dtype
from tensocket_plugins.ir.nodes import Var

from ..capture.numbers import SymFloat
from ..capture.recorder import FILLS, Operation
from ..memory.regions import Region

#: Longest row that one thread reduces inside of a kernel.
_LONGEST: Final = 1 << 14
#: Copies of a tensor's elements, converted or in another order of memory.
COPIES: Final = frozenset({"convert", "clone", "copy_", "contiguous_copy"})


@dataclass(frozen=True, slots=True)
class Form:
    """A form.

    Attributes:
        kind: How its value is computed.
        domain: Sizes of the elements that it goes over.
        reduces: ``row`` if its results are values of rows, ``both`` if it has values of rows and of elements, None if
            each element depends on elements at the same place only.
        gathers: The region that it reads at other places.
    """

    kind: Literal["pointwise", "copy", "fill", "fold", "softmax", "row", "gather", "scatter"]
    domain: Shape
    reduces: Literal["row", "both"] | None = None
    gathers: Region | None = None


def form_of(operation: Operation) -> Form | None:
    """Return the form of an operation; None for one that runs as a call."""
    every = [*operation.reads, *operation.results]
    if operation.device.runtime.target is None or any(0 in x.shape for x in every) or any(
            _is_complex(x.dtype) for x in every):
        return None
    if any(x.buffer.device is not operation.device for x in every):
        return None  # it copies between devices, or takes a number of the host
    if operation.operator.schema.is_mutable and (
            any(x.overlaps_partially(y) for x in operation.reads for y in operation.writes)
            or not all(x.distinct for x in operation.writes)):
        return None  # an eager call copies what it would read after it has written it
    record = operation.operator
    if isinstance(record, InPlace):
        record = record.origin
    if isinstance(record, Pointwise):
        return _pointwise(operation, record)
    if operation.name in COPIES:
        return _copy(operation)
    if len(operation.results) == 1 and operation.results[0].buffer.fill is not None and operation.name in FILLS:
        return Form("fill", operation.results[0].shape)
    if isinstance(record, Reduction):
        return _fold(operation, record)
    if isinstance(record, SoftmaxLike):
        rank = len(operation.reads[0].shape)
        alone = rank and operation.args[-1] in (-1, rank - 1) and len(operation.args) == record.count + 1
        return _rows(operation, "softmax", "both") if alone else None
    if isinstance(record, RowOperator):
        if tuple(operation.args[-1]) != (-1,):
            return None
        return _rows(operation, "row", "row" if set(record.results) == {"row"} else "both")
    if operation.name == "gather_valid":
        return _gather(operation)
    return _scatter(operation) if operation.name == "scatter_valid" else None


def _is_complex(dtype: DType) -> bool:
    return dtype.is_complex or dtype.name.startswith("float8")


def _pointwise(operation: Operation, record: Pointwise) -> Form | None:
    compute = operation.compute
    if compute is None or _is_complex(compute) or (record.guard is not None and compute.category < 2):
        return None
    if not _is_expression(record, compute, tuple([type(x) in (int, float) or type(x) is SymFloat
                                                  for x in extras_of(operation, record)])):
        return None
    return Form("pointwise", _shape(operation))


def extras_of(operation: Operation, record: Pointwise) -> list[Any]:
    """Return the arguments of a pointwise operation after the operands, with defaults."""
    given = list(operation.args)
    for parameter in record.schema.parameters[len(given):]:
        given.append(operation.keywords.get(parameter.name, ast.literal_eval(parameter.default or "None")))
    return given[record.count:]


@functools.cache
def _is_expression(record: Pointwise, compute: DType, numbers: tuple[bool, ...]) -> bool:
    """Whether the formula is an expression, without statements such as loops; extras that are not numbers decide it."""
    if not all(numbers):
        return True
    work = arithmetic_dtype(compute)
    m = ExprMath(work, compute)
    values = [Var(f"x{k}", bool_ if record.condition and k == 0 else work) for k in range(record.count)]
    return not isinstance(m.finished(record.formula(m, *values, *[Var(f"y{k}", work) for k in range(len(numbers))])),
                          Computed)


def _shape(operation: Operation) -> Shape:
    if operation.operator.schema.is_mutable:
        return operation.writes[0].shape
    return broadcast_shapes(operation.name, [x.shape for x in operation.reads])


def _copy(operation: Operation) -> Form | None:
    source = operation.args[1] if operation.name == "copy_" else operation.args[0]
    if not isinstance(source, Region) or (operation.name == "convert" and operation.args[1] not in (
            None, operation.device)):
        return None
    return Form("copy", operation.results[0].shape)


def _fold(operation: Operation, record: Reduction) -> Form | None:
    source = operation.reads[0]
    dim = operation.args[1] if len(operation.args) > 1 else None
    rank = len(source.shape)
    if not rank:
        return None
    last = dim in (-1, rank - 1) or (isinstance(dim, (list, tuple)) and [d % rank for d in dim] == [rank - 1])
    if record.numbers or record.fold.relative or record.fold.positions or not (
            last or (dim in (None, []) and rank == 1)):
        return None
    if len(operation.results) != 1 or source.shape[-1] > _LONGEST or operation.compute is None:
        return None
    return Form("fold", source.shape, "row")


def _rows(operation: Operation, kind: Literal["softmax", "row"], reduces: Literal["row", "both"]) -> Form | None:
    first = operation.reads[0]
    return Form(kind, first.shape, reduces) if first.shape and first.shape[-1] <= _LONGEST else None


def _gather(operation: Operation) -> Form | None:
    source, axis, index = operation.args
    rank = len(source.shape)
    if not rank or len(index.shape) != rank:
        return None
    if axis == rank - 1 and index.shape[-1] == 1:
        return Form("gather", index.shape, None, source) if index.shape[:-1] == source.shape[:-1] else None
    return Form("gather", index.shape, None, source) if all(
        n == m for d, (n, m) in enumerate(zip(index.shape, source.shape, strict=True)) if d != axis) else None


def _scatter(operation: Operation) -> Form | None:
    zeros, axis, index, source, _ = operation.args
    rank = len(zeros.shape)
    if zeros.buffer.everywhere != 0 or axis != rank - 1 or rank < 2 or index.shape != source.shape or (
            index.shape != (*zeros.shape[:-1], 1)):
        return None
    return Form("scatter", zeros.shape, "both")
