"""Row operators such as softmax: reductions over one dimension, and a value for every element along it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.operator import check_dtype
from tensocket_core.geometry import coalesce, contiguous_strides, element_strides, normalize_axis
from tensocket_core.keys import AUTOGRAD, DIM0, DTYPE_MASK, DTYPE_OF, dtype_bit
from tensocket_core.launch import entries, host_kernels
from tensocket_core.launch.entries import ArrayEntry, EntrySpec
from tensocket_core.launch.path import LadderOperator, Signature
from tensocket_core.launch.plan import STATIC, TENSOR, Plan, Result, Role, planned
from tensocket_core.launch.programs import compiled, index_dtype, program
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes, plans
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import UndefinedDtype
from tensocket_plugins.contract.kernels import Kernel
from tensocket_plugins.ir.strategies import Strategy, pick_strategy

from . import host_paths
from . import row_nest as nest
from .pointwise import kind_letter
from .private import own, private
from .reduction import accumulation_dtype

if TYPE_CHECKING:
    from tensocket_plugins.contract.plans import EntryPlan


#: Most plans of an operator for a key, by layouts.
_PLANNED: Final = 256
#: Elements of rows that one thread computes before other threads have started.
_FEW: Final = 1 << 15


class TensorMath:
    """Row formulas as calls of public operators, for devices without a code generator."""

    def __init__(self, dtype: DType, functions: Any) -> None:
        self.dtype = dtype
        self._functions = functions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._functions, name)


class TensorRow:
    """Row formulas over public operators; values are functions of an ignored position."""

    def __init__(self, dim: int, m: TensorMath) -> None:
        self.m = m
        self._dim = dim

    def amax(self, value: Callable[[Any], Any]) -> Any:
        """Return the largest value of every row."""
        return value(None).amax(self._dim, True)

    def sum(self, value: Callable[[Any], Any]) -> Any:
        """Return the sum of every row."""
        return value(None).sum(self._dim, True)

    def keep(self, value: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a function of the position that computes ``value`` only once."""
        kept = value(None)
        return lambda position: kept

    def mean(self, value: Callable[[Any], Any]) -> Any:
        """Return the mean of every row."""
        return value(None).mean(self._dim, True)


class SoftmaxLike(LadderOperator):
    """An operator ``name(Tensor input, ..., float x, ..., int dim)`` on floats with a result of the input's shape.

    Attributes:
        formula: ``formula(row, *operands, *numbers) -> function of the position``; see ``row_nest.row_nest``.
        count: Number of operands.
        functions: The namespace of public functions, for decomposition.
        label: Name of the operator in errors.
    """

    kind = "row"

    def __init__(self, schema: str, doc: str, formula: Callable[..., Any], functions: Callable[[], Any],
                 **record: Any) -> None:
        super().__init__(schema, doc, **record)
        self.formula = formula
        self.label = self.name.removesuffix("_rows")
        self.functions = functions
        self.count = len(self.schema.tensors)

    def compose(self, call: Signature) -> Callable[..., Any]:
        """Return the general closure, which runs a host kernel or the formula over public operators."""
        return private(self.name, partial(self.run, call.state))

    def replays(self, call: Signature) -> bool:
        """Return True: with a code generator, a call is one launch."""
        return True

    def public_host_path(self, key: int, state: DeviceState, next_path: Callable[..., Any]
                         ) -> Callable[..., Any] | None:
        """Return a shortcut for unrecorded calls of ``name(input, dim, *, dtype)`` on a host-resident device."""
        bits = key & DTYPE_MASK
        if key & (AUTOGRAD | DIM0) or bits & (bits - 1):
            return None
        dtype = DTYPE_OF[bits]
        kernel = state.runtime.kernels.find(self.name, dtype.name, direct=True)
        if kernel is None:
            return None
        along = _along_last(kernel)
        if not entries.served(dtype):
            return host_paths.row(kernel, ArrayEntry(along.run, along.limit), key, next_path)
        accumulator = accumulation_dtype(state, dtype)

        def build() -> EntryPlan:
            from tensocket_plugins.ir.build.math import ExprMath

            program = nest.row_nest(
                self.name, self.formula, ExprMath, [dtype], dtype, accumulator, 1, (1, 1), dtypes.int64)
            scalars = ("rows", "columns", "columns", 1, "columns", 1)
            return plans.EntryPlan(program, (dtype,), dtype, "same", scalars, limit=_FEW)

        last = entries.array_entry(self, state, (dtype,), along, build, partial(
            _compiled, state, along, (self.name, dtype, accumulator, 1, (1, 1), (), dtypes.int64), build))
        slower = host_paths.row(kernel, last, key, next_path)
        spec = EntrySpec((dtype,), key, lambda: replace(build(), trailing=(plans.LAST_DIM, None)))
        return entries.build_entry(self, key, state, spec, slower) or slower

    def planned_path(self, call: Signature, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return the closure over plans; its last argument is the dimension, preceded by the numbers."""
        if call.state.runtime.target is None:
            return None
        numbers = len(self.schema.names) - self.count - 1
        roles: list[Role] = [*[TENSOR] * self.count, *[float] * numbers, STATIC]
        return planned(call.state, roles, partial(self._plan_of_call, call.state), next_path)

    def _plan_of_call(self, state: DeviceState, args: tuple[Any, ...], arrays: list[Any]) -> Plan | None:
        given = [own(self.label, x) for x in args[:self.count]]
        shape = arrays[0].shape
        if kind_letter(given[0].dtype) != "f" or not shape or 0 in shape or any(
                x._array is not array for x, array in zip(given, arrays, strict=True)):
            return None
        return self._plan(state, given, args[-1], len(args) - self.count - 1)

    def run(self, state: DeviceState, *args: Any) -> Any:
        """Check, then run a host kernel or the formula over public operators. The last argument is the dimension."""
        inputs, numbers, dim = list(args[:self.count]), args[self.count:-1], args[-1]
        dtype, shape = inputs[0].dtype, inputs[0]._array.shape
        if kind_letter(dtype) != "f":
            raise UndefinedDtype(self.label, f"dtype {dtype.name}",
                                 f"{self.label} is defined for floating-point dtypes",
                                 "pass dtype=, or convert with .to(dtype)")
        axis = normalize_axis(self.label, dim, len(shape))
        check_dtype(self.label, state, dtype)
        runtime = state.runtime
        arrays = [x._array for x in inputs]
        if runtime.profile.host_resident and runtime.target is None and shape:
            kernel = runtime.kernels.find(self.name, dtype.name, direct=True)
            if kernel is not None and (kernel.limit is None or arrays[0].size <= kernel.limit):
                return wrap(host_kernels.quietly(kernel)(*arrays, *numbers, axis), state.key | dtype_bit(dtype))
        if 0 in shape:  # formulas need the largest element, which empty rows do not have
            return wrap(runtime.empty(shape, dtype, state.stream), state.key | dtype_bit(dtype))
        return self._decomposed(inputs, numbers, axis)

    def _decomposed(self, inputs: list[Any], numbers: tuple[float, ...], axis: int) -> Any:
        row = TensorRow(axis if inputs[0].ndim else 0, TensorMath(inputs[0].dtype, self.functions()))
        inputs = [x.detach() for x in inputs]
        return self.formula(row, *[partial(_same, x) for x in inputs], *numbers)(None)

    def _plan(self, state: DeviceState, operands: list[Any], dim: int, numbers: int) -> Plan:
        """Return the plan for operands with these layouts."""
        from tensocket_plugins.ir.build.math import ExprMath

        dtype, shape = operands[0].dtype, operands[0]._array.shape
        axis = normalize_axis(self.label, dim, len(shape))
        check_dtype(self.label, state, dtype)
        strides = [contiguous_strides(shape), *[element_strides(x._array) for x in operands]]
        others = [k for k in range(len(shape)) if k != axis]
        sizes, steps = coalesce(tuple(shape[k] for k in others), [tuple(s[k] for k in others) for s in strides])
        rank, along = len(sizes), [s[axis] for s in strides]
        # Repeated elements, as of the gradient of a sum, are as good as adjacent ones, which vectors need.
        rows = _known(along) if shape[axis] > 1 else (1,) * len(along)
        beside = _known([step[-1] for step in steps]) if None in rows and rank else ()
        reach = [sum((n - 1) * abs(s) for n, s in zip(shape, step, strict=True)) for step in strides]
        index = index_dtype(state, (math.prod(shape), *reach))
        accumulator = accumulation_dtype(state, dtype)
        assert state.runtime.target is not None
        kernel = program(
            state, (self.name, dtype, accumulator, rank, rows, beside, index),
            lambda: nest.row_nest(self.name, self.formula, ExprMath, [dtype] * len(operands), dtype, accumulator, rank,
                                  rows, index, numbers, beside),
            pick_strategy(math.prod(sizes), shape[axis], state.runtime.target))
        scalars = (*sizes, shape[axis], *(s for step, last in zip(steps, along, strict=True) for s in (*step, last)))
        return Plan(kernel, scalars, (Result(shape, dtype, state.key | dtype_bit(dtype)),))


def _known(strides: Sequence[int]) -> tuple[int | None, ...]:
    """Return the strides that kernels are made for, 0 and 1; None for others."""
    return tuple([step if step in (0, 1) else None for step in strides])


def _along_last(kernel: Kernel) -> Kernel:
    """Return a kernel ``kernel(x)`` along the last dimension."""
    run = kernel.run
    return Kernel(lambda x: run(x, x.ndim - 1), True, kernel.limit)


def _compiled(state: DeviceState, kernel: Kernel, key: Hashable, build: entries.Build) -> Kernel:
    """Return ``kernel(x)`` as a generated kernel for contiguous arrays, if the device compiles one: it costs less than
    NumPy's five passes, even for a dozen elements.
    """
    if state.runtime.target is None:
        return kernel
    plan = build()
    run = compiled(state, key, lambda: plan.program, Strategy.SMALL)
    if run is None:  # NumPy's kernel computes the same
        return kernel
    next_path, empty, dtype = kernel.run, np.empty, plan.result.numpy
    stream = state.runtime.default_stream

    def along(x: Any) -> Any:
        shape = x.shape
        if not shape or not x.flags.c_contiguous:
            return next_path(x)
        columns = shape[-1]
        out = empty(shape, dtype)
        run((out, x), (x.size // columns, columns, columns, 1, columns, 1), stream)
        return out

    return Kernel(along, True, kernel.limit)


def _same(value: Any, position: Any) -> Any:
    return value
