"""Row operators over several dimensions with broadcast operands and several results: normalisations and their sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.operator import check_dtype
from tensocket_core.geometry import Shape, coalesce, contiguous, element_strides, expanded_strides
from tensocket_core.keys import dtype_bit
from tensocket_core.launch.path import LadderOperator, Signature
from tensocket_core.launch.plan import STATIC, TENSOR, Plan, Result, planned
from tensocket_core.launch.programs import index_dtype, program
from tensocket_core.strides import preserved_strides, public_strides, reach
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.arrays import contiguous_strides
from tensocket_plugins.contract.dtypes import DType, int64
from tensocket_plugins.contract.errors import UndefinedDtype
from tensocket_plugins.ir.element_types import arithmetic_dtype
from tensocket_plugins.ir.strategies import pick_strategy

from . import normalized_row_nest
from .pointwise import kind_letter
from .private import own, private
from .reduction import accumulation_dtype
from .row import TensorMath

if TYPE_CHECKING:
    from .normalized_row_nest import Fixed, OperandLayout

#: Conversions of numbers, by their type in a schema.
_NUMBERS: Final[dict[str, type[float] | type[int]]] = {"float": float, "int": int}


class TensorRows:
    """Row formulas over public operators; values are functions of an ignored position."""

    def __init__(self, first: Any, dims: Shape, m: TensorMath) -> None:
        self.m = m
        self._first = first
        self._shape = tuple(first.shape)
        self._dims = dims
        self._count: int = math.prod([self._shape[d] for d in dims])

    def amax(self, value: Callable[[Any], Any]) -> Any:
        """Return the largest value of every row."""
        return value(None).amax(self._dims, True)

    def once(self, value: Any) -> Any:
        """Return a value of every row."""
        return value

    def count(self) -> int:
        """Return the number of elements of a row."""
        return self._count

    def at(self, position: None) -> Any:
        """Return the positions in a row as int64 numbers."""
        lengths = [self._shape[d] if d in self._dims else 1 for d in range(-len(self._shape), 0)]
        return self._first.new_arange(0, self._count, 1).to(dtypes.int64).reshape(lengths)

    def sums(self, *values: Callable[[Any], Any]) -> list[Any]:
        """Return the sums of every row."""
        return [value(None).sum(self._dims, True) for value in values]

    def means(self, *values: Callable[[Any], Any]) -> list[Any]:
        """Return the means of every row."""
        return [value(None).mean(self._dims, True) for value in values]

    def moments(self, value: Callable[[Any], Any]) -> tuple[Any, Any]:
        """Return the mean and the variance of every row."""
        mean = value(None).mean(self._dims, True)
        return mean, (value(None) - mean).square().mean(self._dims, True)


class RowOperator(LadderOperator):
    """An operator ``name(Tensor input, Tensor? ..., float x, int k, ..., int[] dims) -> (Tensor, ...)`` on floats.

    Rows run along ``dims``, which are negative numbers in ascending order. All operands broadcast to the shape of the
    first one, and kernels compute in its arithmetic dtype. Numbers are floats of that dtype, or int64.

    Attributes:
        formula: ``formula(row, *operands, *numbers) -> results``; see ``normalized_row_nest.row_program``.
        results: ``full`` for a result with shape and dtype of the first operand, ``row`` for one with one value per
            row (size 1 along ``dims``) in the arithmetic dtype.
        count: Number of operands.
        functions: The namespace of public functions, for decomposition.
        label: Name of the operator in errors.
    """

    kind = "row"

    def __init__(self, schema: str, doc: str, formula: Callable[..., tuple[Any, ...]],
                 results: Sequence[Literal["full", "row"]], functions: Callable[[], Any], label: str = "",
                 **record: Any) -> None:
        super().__init__(schema, doc, **record)
        self.formula = formula
        self.results = tuple(results)
        self.functions = functions
        self.count = len(self.schema.tensors)
        self.label = label or self.name
        self._numbers = {k: _NUMBERS[p.type] for k, p in enumerate(self.schema.parameters) if p.type in _NUMBERS}
        #: Numbers of programs by everything that their texts depend on; numbers are quicker to look up.
        self._texts: dict[Any, int] = {}

    def compose(self, call: Signature) -> Callable[..., Any]:
        """Return the general closure, which computes over public operators."""
        return private(self.name, partial(self.run, call.state))

    def replays(self, call: Signature) -> bool:
        """Return True: a call is one launch."""
        return True

    def planned_path(self, call: Signature, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return the closure over plans."""
        if call.state.runtime.target is None:
            return None
        roles = [TENSOR if p.is_tensor else _NUMBERS.get(p.type, STATIC) for p in self.schema.parameters]
        return planned(call.state, roles, partial(self._plan_of_call, call.state), next_path)

    def _plan_of_call(self, state: DeviceState, args: tuple[Any, ...], arrays: list[Any]) -> Plan | None:
        dims = tuple(args[-1])
        given: list[Any] = [None if x is None else own(self.label, x) for x in args[:self.count]]
        held = [x._array for x in given if x is not None]
        if kind_letter(given[0].dtype) != "f" or not dims or 0 in arrays[0].shape or any(
                x is not y for x, y in zip(held, arrays, strict=True)):  # another thread exchanged one
            return None
        check_dtype(self.label, state, given[0].dtype)
        return self._plan(state, given, dims)

    def run(self, state: DeviceState, *args: Any) -> Any:
        """Check, then compute over public operators: for rows without elements, and without a code generator."""
        operands, dims = args[:self.count], tuple(args[-1])
        numbers = [convert(args[k]) for k, convert in self._numbers.items()]
        dtype = operands[0].dtype
        if kind_letter(dtype) != "f":
            raise UndefinedDtype(self.label, f"dtype {dtype.name}",
                                 f"{self.label} is defined for floating-point dtypes", "convert with .to(dtype)")
        check_dtype(self.label, state, dtype)
        found = self._decomposed(operands, numbers, dims, dtype, arithmetic_dtype(dtype))
        return found if len(found) > 1 else found[0]

    def _decomposed(self, operands: Sequence[Any], numbers: Sequence[float | int], dims: Shape, dtype: DType,
                    work: DType) -> tuple[Any, ...]:
        row = TensorRows(operands[0], dims, TensorMath(work, self.functions()))
        given = [None if x is None else partial(_same, x.detach().to(work) if x.dtype.kind == "float" else x.detach())
                 for x in operands]
        made = self.formula(row, *given, *numbers)
        return tuple([value(None).to(dtype) if result == "full" else value
                      for value, result in zip(made, self.results, strict=True)])

    def _plan(self, state: DeviceState, operands: Sequence[Any], dims: Shape) -> Plan:
        """Return the plan for operands with these layouts."""
        first = operands[0]._array
        shape, dtype = first.shape, operands[0].dtype
        work, rank = arithmetic_dtype(dtype), len(shape)
        axes = [d % rank for d in dims]
        others = [d for d in range(rank) if d not in axes]
        strides = contiguous_strides(shape) if contiguous(first) else preserved_strides(shape, public_strides(first))
        single = tuple([1 if d in axes else n for d, n in enumerate(shape)])
        fulls = sum(result == "full" for result in self.results)
        steps = [strides] * fulls + [expanded_strides(x._array.shape, element_strides(x._array), shape)
                                     for x in operands if x is not None]
        (sizes, across), (lengths, along) = (
            coalesce(tuple([shape[d] for d in part]), [tuple([s[d] for d in part]) for s in steps])
            if part else ((), [() for _ in steps]) for part in (others, axes))
        # Programs for adjacent rows know the strides from one row to the next, others the strides along the row.
        beside = _beside(sizes, across, along)
        kinds = [dtype] * fulls + [x.dtype for x in operands if x is not None]
        one = math.prod(lengths) == 1
        lying = [_lying(kind, a, b, beside, k >= fulls and (one or not any(b)))
                 for k, (kind, a, b) in enumerate(zip(kinds, across, along, strict=True))]
        made, given = iter(lying[:fulls]), iter(lying[fulls:])
        results = tuple([next(made) if result == "full" else normalized_row_nest.OperandLayout(work, None, None, True)
                         for result in self.results])
        placed = tuple([None if x is None else next(given) for x in operands])
        ranks = (len(sizes), len(lengths))
        index = index_dtype(state, (first.size, *[reach(shape, tuple(map(abs, s))) for s in steps]))
        assert state.runtime.target is not None
        strategy = pick_strategy(math.prod(sizes), math.prod(lengths), state.runtime.target, lengths[-1])
        layout = None if strides == contiguous_strides(shape) else strides
        accumulator = accumulation_dtype(state, dtype)
        text = (results, placed, accumulator, ranks, index)
        kernel = program(
            state, (self.name, self._texts.setdefault(text, len(self._texts))),
            lambda: normalized_row_nest.row_program(self.name, self.formula, placed, results, accumulator, ranks, index,
                                [int64 if convert is int else work for convert in self._numbers.values()]),
            strategy)
        scalars = *sizes, *lengths, *[n for a, b in zip(across, along, strict=True) for n in (*a, *b)]
        return Plan(kernel, scalars, tuple([
            Result(shape if result == "full" else single, lies.dtype, state.key | dtype_bit(lies.dtype),
                   layout if result == "full" else None)
            for result, lies in zip(self.results, results, strict=True)]))


def _beside(sizes: Shape, across: Sequence[Shape], along: Sequence[Shape]) -> bool:
    """Whether rows are adjacent: unit strides lead from one row to the next, and not along a row."""
    return bool(sizes) and any(a[-1] == 1 for a in across) and all(
        b[-1] != 1 or a[-1] == 0 for a, b in zip(across, along, strict=True))


def _fixed(stride: int) -> Fixed:
    return 0 if stride == 0 else 1 if stride == 1 else None


def _lying(dtype: DType, across: Shape, along: Shape, beside: bool, single: bool) -> OperandLayout:
    return normalized_row_nest.OperandLayout(dtype, _fixed(across[-1]) if beside and across else None,
                 None if beside or single else _fixed(along[-1]), single)


def _same(value: Any, position: Any) -> Any:
    return value
