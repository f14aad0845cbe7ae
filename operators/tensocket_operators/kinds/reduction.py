"""Reductions: a fold over some dimensions, and every path that runs it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.operator import check_dtype, missing_primitive
from tensocket_core.geometry import Shape, coalesce, contiguous, contiguous_strides, element_strides, normalize_axes
from tensocket_core.keys import DTYPE_MASK, DTYPE_OF, dtype_bit
from tensocket_core.launch import entries, host_kernels
from tensocket_core.launch.entries import EntrySpec
from tensocket_core.launch.kernel_handles import kernel_handle
from tensocket_core.launch.path import LadderOperator, Signature
from tensocket_core.launch.plan import PLANS, STATIC, TENSOR, Plan, Result, planned
from tensocket_core.launch.primitives import tracked
from tensocket_core.launch.programs import index_dtype, program
from tensocket_core.launch.stream_use import note_use
from tensocket_core.promotion import FLOAT8, number_dtype
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes, plans
from tensocket_plugins.contract.backend import Executable
from tensocket_plugins.contract.dtypes import DType, as_dtype
from tensocket_plugins.contract.errors import ArgumentTypeError, DimensionError, DtypeError, ShapeError, UndefinedDtype
from tensocket_plugins.contract.kernels import Kernel
from tensocket_plugins.contract.launch_recorder import may_round_freely, wants_kernels
from tensocket_plugins.ir.build.fold import Fold
from tensocket_plugins.ir.element_types import COMPONENT, arithmetic_dtype
from tensocket_plugins.ir.strategies import Strategy, pick_strategy
from tensocket_plugins.kit.bounded import BoundedCache

from . import host_paths
from .private import private

if TYPE_CHECKING:
    from tensocket_plugins.contract.plans import EntryPlan


#: Elements that one thread reduces before other threads have started: over all dimensions, and along rows.
_FEW: Final = 1 << 18
_FEW_IN_ROWS: Final = 1 << 16
#: The shortest of many rows that an entry folds faster than a kernel that folds short rows in any order.
_SHORTEST: Final = 6


def accumulation_dtype(state: DeviceState, dtype: DType) -> DType:
    """Return the element type in which a device adds up values of ``dtype``."""
    work = arithmetic_dtype(dtype)
    part = COMPONENT.get(work, work)
    wider = state.runtime.profile.accumulation.get(part.name)
    if wider is None:
        return work
    return dtypes.dtype_from_name(wider) if part is work else dtypes.complex128


class Reduction(LadderOperator):
    """An operator that folds dimensions; schema ``name(Tensor input, int[]? dim=None, bool keepdim=False, ...)``.

    Attributes:
        fold: The mathematics.
        compute: ``same``: the input's dtype. ``sum``: int64 for integers and bools. ``float``: floats only. ``bool``:
            converted to bool first.
        result: Dtype of the result: ``same`` as computed, ``bool`` or ``int64``.
        wide: Whether accumulators have the wider dtype that the device's profile names.
        empty: Whether the fold of no elements has a value.
        complex: Whether it folds complex numbers.
        decompose: ``(input, dim, keepdim) -> tensor`` over public operators, for backends without a kernel for it.
        bools: The reduction that replaces it with ``dtype=bool``; without one, ``dtype=bool`` is refused.
        keywords: NumPy's spelling of arguments, as in ``Pointwise``.
        numbers: Number of numbers, the schema's last parameters, that ``finish`` and ``decompose`` take.
    """

    kind = "reduction"

    def __init__(self, schema: str, doc: str, fold: Fold, *, compute: Literal["same", "sum", "float", "bool"] = "same",
                 result: Literal["same", "bool", "int64"] = "same", wide: bool = False, empty: bool = True,
                 complex: bool = False, decompose: Callable[..., Any] | None = None, bools: str = "",
                 **record: Any) -> None:
        super().__init__(schema, doc, **record)
        self.fold = fold
        self.compute = compute
        self.result = result
        self.wide = wide
        self.empty = empty
        self.complex = complex
        self.decompose = decompose
        self.bools = bools
        self.keywords = {"axis": ("None", "dim = axis")}
        self.numbers = sum(p.type == "float" for p in self.schema.parameters)
        #: Plans by device, computed dtype, geometry and axes.
        self._calls: BoundedCache[tuple[Any, ...], Plan] = BoundedCache(PLANS)

    def signature(self, key: int, state: DeviceState) -> Signature:
        """Return dtypes and host kernel, if the key settles them."""
        if self.numbers:
            return Signature(key, state)
        dtype = DTYPE_OF[key & DTYPE_MASK]
        try:
            compute = self._compute_dtype(dtype)
        except DtypeError:  # calls are valid only with dtype=
            return Signature(key, state)
        kernel = None
        if state.runtime.profile.host_resident and (compute is dtype or self.compute == "bool") and (
                dtype is not dtypes.uint8):
            kernel = state.runtime.kernels.find(self.name, compute.name, direct=True)
        return Signature(key, state, dtype, compute, self._stored_dtype(compute), False, kernel)

    def compose(self, call: Signature) -> Callable[..., Any]:
        """Return the closure that converts, normalises the dimensions, runs and wraps."""
        if self.numbers:
            return private(self.name, lambda input, dim, keepdim, *numbers: self.run(
                call.state, input, dim, keepdim, numbers=numbers))
        return private(self.name, partial(self.run, call.state))

    def host_closure(self, call: Signature, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return the closure over the host kernel; inside it, an entry folds the last dimension, if there is one."""
        kernel, state = call.kernel, call.state
        if kernel is None or call.compute is None or call.zero_dim:
            return None
        everything = state.runtime.kernels.find(f"{self.name}_all", call.compute.name, direct=True)
        positional = len(self.schema.names) == 3
        if not self._has_entry(call):
            return host_paths.reduction(kernel, everything, None, call.result_key, positional, next_path)
        along = Kernel(lambda x: kernel.run(x, (x.ndim - 1,), False), True, kernel.limit)
        last = entries.array_entry(self, state, (call.dtype,), along,
                                   partial(self._entry_plan, state, call.compute, ()), lambda: along)
        return host_paths.reduction(kernel, everything, None if last.run is along.run else last, call.result_key,
                                    positional, next_path, 2 if self.empty else _SHORTEST)

    def rounds_alike(self, call: Signature, args: Sequence[Any] = ()) -> bool:
        """Whether the order of the fold does not matter, or only generated kernels compute it."""
        whole = call.compute is not None and call.compute.category < 2
        exact = whole or call.zero_dim or self.compute == "bool" or not self.empty
        return exact or super().rounds_alike(call, args) or self._takes_entry(call, args)

    def _takes_entry(self, call: Signature, args: Sequence[Any]) -> bool:
        """Whether entries serve a call, whose program folds elements in the order of the launched one (``_launch``)."""
        if not args or call.compute is None or call.zero_dim or call.kernel is None or not self._has_entry(call):
            return False
        dim, keepdim, given = (tuple(args[1:]) + (None, False, None)[len(args) - 1:])
        array = args[0]._array
        if given is not None or type(keepdim) is not bool or not array.flags.c_contiguous or array.size > _FEW_IN_ROWS:
            return False
        if not array.size:
            return self.compute == "sum"  # the identity
        if dim is None:
            return not keepdim
        axis, most = dim if type(dim) is int else host_paths.only_axis(dim, array.ndim), call.kernel.limit
        # As in ``host_paths``; the order of one element is that of the entry.
        plain = (axis is dim and not keepdim) or most is None or array.size <= most or array.shape[-1] == 1
        return plain and axis in (-1, array.ndim - 1)

    def entry(self, call: Signature) -> EntrySpec | None:
        """Return an entry for calls over all dimensions."""
        if call.kernel is None or call.compute is None or not self._has_entry(call):
            return None
        rest = (None, False, None)[:len(self.schema.names) - 1]
        return EntrySpec((call.dtype, call.zero_dim), call.result_key,
                         partial(self._entry_plan, call.state, call.compute, rest))

    def _has_entry(self, call: Signature) -> bool:
        assert call.compute is not None
        assert call.result is not None
        return entries.served(call.compute, call.result) and call.compute is call.dtype and self.result == "same"

    def _entry_plan(self, state: DeviceState, dtype: DType, trailing: tuple[Any, ...]) -> EntryPlan:
        """Return the plan for a dense operand: over all dimensions if arguments follow, else over the last one."""
        from tensocket_plugins.ir.build.math import ExprMath
        from tensocket_plugins.ir.build.nest import reduction_nest

        accumulator = self.accumulator(state, dtype)
        ranks = (0, 1) if trailing else (1, 1)
        nest = reduction_nest(self.name, self.fold, ExprMath, dtype, accumulator, [dtype], ranks, (False, True),
                              dtypes.int64)
        size = "size" if trailing else "columns"
        count: str | int = f"float_{size}" if accumulator.kind == "float" else 1
        scalars: tuple[str | int, ...] = ("size", 1, count) if trailing else ("rows", "columns", "columns", 1, count)
        limit = _FEW if trailing else _FEW_IN_ROWS
        shape: Literal["scalar", "rows"] = "scalar" if trailing else "rows"
        return plans.EntryPlan(nest, (dtype,), dtype, shape, scalars, limit=limit, trailing=trailing)

    def replays(self, call: Signature) -> bool:
        """Whether generated kernels serve small arrays of the key, not NumPy, which may add in another order."""
        return call.kernel is None or call.zero_dim

    def planned_path(self, call: Signature, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return the closure for calls over all dimensions or one, if they run exactly one generated kernel."""
        if not self._is_one_kernel(call):
            return None
        return planned(call.state, (TENSOR, STATIC, STATIC, STATIC), partial(self._plan_of_call, call), next_path)

    def _plan_of_call(self, call: Signature, args: tuple[Any, ...], arrays: list[Any]) -> Plan | None:
        dim, keepdim, given = (args[1:] + (None, False, None)[len(args) - 1:])
        (x,), dtype, state = arrays, call.dtype, call.state
        assert dtype is not None
        held: Any = dtype.numpy if state.runtime.profile.host_resident else dtype
        least = 0 if call.kernel is None or call.zero_dim else call.kernel.limit or 0
        if given is not None or x.dtype is not held or not (dim is None or type(dim) is int) or (
                type(keepdim) is not bool or x.size <= least or wants_kernels()):
            return None
        axes = normalize_axes(self.name, dim, len(x.shape))
        return self._plan(state, x, axes, keepdim, dtype, dtype)

    def _is_one_kernel(self, call: Signature) -> bool:
        """Whether one generated kernel serves all arrays of the key's dtype that have elements."""
        state, dtype = call.state, call.dtype
        if dtype is None or state.runtime.target is None or dtype.kind in ("complex", "bool") or (
                dtype is dtypes.uint8 or dtype.name not in state.runtime.profile.dtypes):
            return False
        if call.kernel is not None and call.kernel.limit is None and not call.zero_dim:
            return False
        return call.compute is dtype and not self._must_decompose(state, dtype)

    def run(self, state: DeviceState, input: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None,
            numbers: tuple[float, ...] = ()) -> Any:
        """Convert, normalise the dimensions, run, wrap."""
        if self.result == "bool" and isinstance(dim, (tuple, list)) and not dim:
            # As in PyTorch, any and all reduce no dimension for an empty ``dim``; other reductions reduce all.
            return input.detach() != 0 if input.dtype is not dtypes.uint8 else (input.detach() != 0).to(dtypes.uint8)
        if dtype is dtypes.bool_ and self.bools:
            return getattr(input.detach().to(dtype), self.bools)(dim, keepdim)
        compute = self._compute_dtype(input.dtype) if dtype is None else self._given_dtype(dtype)
        check_dtype(self.name, state, compute)
        axes = normalize_axes(self.name, dim, input.ndim)
        if not self.empty and any(input._array.shape[k] == 0 for k in axes):
            # PyTorch's classes: amax over all dimensions is a RuntimeError, along an empty dim an IndexError.
            kind = (
                ShapeError
                if self.result == "same" and len(axes) == input.ndim and not isinstance(dim, int)
                else DimensionError
            )
            raise kind(
                self.name,
                f"shape {list(input.shape)}, dim {dim}",
                "no elements have no largest, smallest or positional value",
                "pass a tensor with elements along the reduced dims",
            )
        source = input.dtype
        if source is not compute and not self._converts(state, source, input._array, compute):
            input = input.detach().to(compute)
        stored = self._stored_dtype(compute)
        array = self._array(state, input, axes, keepdim, compute, stored, numbers, dim is None)
        result = wrap(array, state.key | dtype_bit(stored))
        # As in PyTorch, any and all of uint8 return uint8.
        return result.to(source) if self.result == "bool" and source is dtypes.uint8 else result

    def _converts(self, state: DeviceState, source: DType, array: Any, compute: DType) -> bool:
        """Whether the generated kernel converts elements as it reads them; it does not widen floats for ``dtype=``."""
        runtime = state.runtime
        if runtime.target is None or compute.kind == "complex" or not (
                source.category < 2 or (compute is dtypes.bool_ and source.kind == "float" and source not in FLOAT8)):
            return False
        host_kernel = runtime.kernels.find(self.name, compute.name, direct=True)
        few = runtime.profile.host_resident and host_kernel is not None and not wants_kernels() and (
            host_kernel.limit is None or array.size <= host_kernel.limit) and bool(array.shape)
        return not few and source.name in runtime.profile.dtypes and not self._must_decompose(state, compute)

    def compute_dtype(self, dtype: DType, given: DType | None = None) -> DType:
        """Return the dtype that elements of ``dtype`` are converted to; ``given`` is the argument ``dtype``."""
        return self._compute_dtype(dtype) if given is None else self._given_dtype(given)

    def _stored_dtype(self, compute: DType) -> DType:
        return {"same": compute, "bool": dtypes.bool_, "int64": dtypes.int64}[self.result]

    def _given_dtype(self, given: Any) -> DType:
        dtype = as_dtype(given)
        if dtype is None:
            raise ArgumentTypeError(
                self.name, f"dtype {given!r}", "dtype is a tensocket dtype", "pass for example tensocket.float32"
            )
        if dtype is dtypes.bool_:
            raise DtypeError(self.name, "dtype bool", f"{self.name} is defined for numbers", "use any or all")
        return self._compute_dtype(dtype) if self.compute == "float" or dtype.category >= 2 else dtype

    def _compute_dtype(self, dtype: DType) -> DType:
        if self.compute == "bool":
            return dtypes.bool_
        if dtype in FLOAT8 or dtype is dtypes.complex32 or (dtype.kind == "complex" and not self.complex):
            raise UndefinedDtype(self.name, f"dtype {dtype.name}", f"{self.name} is not defined for it",
                                 "convert with .to(dtype) first")
        if self.compute == "sum" and dtype.category < 2:
            return dtypes.int64
        if self.compute == "float" and dtype.category < 2:
            raise DtypeError(self.name, f"dtype {dtype.name}", f"{self.name} is defined for floating-point dtypes",
                             f"pass dtype={number_dtype(2)!r} or convert with .to(dtype)")
        return dtype

    def _array(self, state: DeviceState, input: Any, axes: Shape, keepdim: bool, compute: DType, stored: DType,
               numbers: tuple[float, ...], whole: bool) -> Any:
        array = input._array
        runtime = state.runtime
        if runtime.profile.host_resident and array.ndim and not (runtime.target is not None and wants_kernels()):
            kernel = runtime.kernels.find(self.name, compute.name, direct=True)
            if kernel is not None and (kernel.limit is None or array.size <= kernel.limit):
                return host_kernels.quietly(kernel)(array, axes, keepdim)
        outer, shape = _result_shapes(array.shape, axes, keepdim)
        if self._must_decompose(state, compute):
            return self._decomposed(state, input, axes, compute, numbers).reshape(shape)._array
        out = runtime.empty(outer, stored, state.stream)
        if 0 not in outer:
            if runtime.target is None:
                kernel = runtime.kernels.find(self.name, compute.name, direct=False)
                assert kernel is not None
                tracked(kernel)([out], [array], (axes,), state.stream)
            else:
                self._launch(state, array, axes, keepdim, compute, out, input.dtype, numbers, whole)
        return out.reshape(shape)

    def accumulator(self, state: DeviceState, compute: DType) -> DType:
        """Return the dtype that a device accumulates in."""
        return accumulation_dtype(state, compute) if self.wide else arithmetic_dtype(compute)

    def _must_decompose(self, state: DeviceState, compute: DType) -> bool:
        """Whether the device has no kernel for the reduction, or none that is accurate enough."""
        if state.runtime.target is None:
            return state.runtime.kernels.find(self.name, compute.name, direct=False) is None
        return self.fold.relative and self.accumulator(state, compute).itemsize <= compute.itemsize

    def _decomposed(self, state: DeviceState, input: Any, axes: Shape, compute: DType,
                    numbers: tuple[float, ...]) -> Any:
        """Run the decomposition; for narrow floats in float32, so that only the result is rounded."""
        if self.decompose is None:
            raise missing_primitive(self.name, state, compute, self.name)
        work = arithmetic_dtype(compute)
        result = self.decompose(input if work is compute else input.detach().to(work), axes, False, *numbers)
        return result.to(self._stored_dtype(compute))

    def _launch(self, state: DeviceState, array: Any, axes: Shape, keepdim: bool, compute: DType, out: Any,
                source: DType, numbers: tuple[float, ...], whole: bool) -> None:
        if source is compute and self._stands_for_entry(state, array, axes, compute, whole):
            run, scalars = self._launch_of_entry(state, array, whole, compute)
            run((out.reshape(-1), array), scalars, state.stream)
            return
        place = state.key, compute, source, array.shape, array.strides, axes, bool(keepdim)
        plan = self._calls.get(place)
        if plan is None:
            plan = self._calls[place] = self._plan(state, array, axes, keepdim, compute, source)
        buffers, stream = (kernel_handle(out, plan.results[0].dtype), kernel_handle(array, source)), state.stream
        note_use(buffers, stream)
        plan.kernel(buffers, [*plan.scalars, *numbers], stream)

    def _stands_for_entry(self, state: DeviceState, array: Any, axes: Shape, compute: DType, whole: bool) -> bool:
        """Whether a recorded launch takes the place of an entry, so that it must have its bits."""
        return (wants_kernels() and not may_round_freely() and 0 < array.size <= _FEW_IN_ROWS
                and state.runtime.kernels.find(self.name, compute.name, direct=True) is not None
                and self.result == "same" and entries.served(compute) and array.flags.c_contiguous
                and (whole or (axes == (array.ndim - 1,) and array.shape[-1] > 1)))

    def _launch_of_entry(self, state: DeviceState, array: Any, whole: bool, dtype: DType) -> tuple[Executable, Any]:
        """Return the program of the entry over all dimensions, or over the last one, and its scalars."""
        rest = (None, False, None)[:len(self.schema.names) - 1] if whole else ()
        run = program(state, (self.name, "entry", dtype, whole), lambda: self._entry_plan(state, dtype, rest).program,
                      Strategy.GROUP if whole else Strategy.SMALL)
        columns = array.size if whole else array.shape[-1]
        count = float(columns) if self.accumulator(state, dtype).kind == "float" else 1
        return run, (columns, 1, count) if whole else (array.size // columns, columns, columns, 1, count)

    def _plan(self, state: DeviceState, array: Any, axes: Shape, keepdim: bool, compute: DType,
              source: DType) -> Plan:
        """Return the plan for arrays of ``source`` with this shape and these strides."""
        from tensocket_plugins.ir.build.math import ExprMath
        from tensocket_plugins.ir.build.nest import reduction_nest

        found = self._plan_of_short_rows(state, array, axes, keepdim, compute, source)
        if found is not None:
            return found
        strides = element_strides(array)
        if not self.fold.positions:  # any order will do: memory is read as it is laid out, repeated elements outermost
            axes = tuple(sorted(axes, key=lambda k: -abs(strides[k]) if strides[k] else -math.inf))
        outer_axes = [k for k in range(len(strides)) if k not in axes]
        outer_shape = tuple(array.shape[k] for k in outer_axes)
        # The output is contiguous over the outer dimensions in their order, so they coalesce with the output's strides.
        outer, (outer_steps, _) = coalesce(outer_shape, [tuple(strides[k] for k in outer_axes),
                                                         contiguous_strides(outer_shape)])
        if not outer_axes or math.prod(outer_shape) == 1:
            outer, outer_steps = (), ()
        inner, (inner_steps,) = coalesce(tuple(array.shape[k] for k in axes), [tuple(strides[k] for k in axes)])
        if outer and inner == (1,):
            inner_steps = outer[-1:]  # one row above the next one, so that vectors hold elements of several outputs
        unit = (bool(outer_steps) and outer_steps[-1] == 1, inner_steps[-1] == 1)
        reach = sum((n - 1) * abs(s) for n, s in zip((*outer, *inner), (*outer_steps, *inner_steps), strict=True))
        words = 2 if compute.kind == "complex" else 1
        index = index_dtype(state, (words * array.size, words * reach))
        accumulator, stored = self.accumulator(state, compute), self._stored_dtype(compute)
        ranks = (len(outer), len(inner))
        length = math.prod(inner)
        assert state.runtime.target is not None
        packed = compute.kind != "complex" and unit[0] and ranks == (1, 1) and inner_steps == outer and not (
            self.fold.relative or self.fold.positions)  # their programs distinguish the rows of one wide row
        strategy = pick_strategy(math.prod(outer), length, state.runtime.target, packed=packed,
                                 columns=outer[-1] if unit == (True, False) else 0)
        # Only means divide by the count, and they compute in floats; a narrow integer could not hold the count.
        count = float(length) if accumulator.category >= 2 else accumulator.kind == "bool" or 1
        run = program(
            state,
            (self.name, source, compute, accumulator, stored, ranks, unit, index, packed),
            lambda: reduction_nest(self.name, self.fold, ExprMath, source, accumulator, [stored], ranks, unit, index,
                                   packed, self.numbers),
            strategy,
        )
        scalars = [*outer, *inner, *outer_steps, *inner_steps, count]
        shape, view = _result_shapes(array.shape, axes, keepdim)
        result = Result(shape, stored, state.key | dtype_bit(stored), None, None if view == shape else view)
        return Plan(run, tuple(scalars), (result,))

    def _plan_of_short_rows(self, state: DeviceState, array: Any, axes: Shape, keepdim: bool, compute: DType,
                            source: DType) -> Plan | None:
        """Return the plan for a short dimension of many contiguous arrays, if the order of the fold does not matter."""
        if self.empty or compute is not source or compute.kind == "complex" or compute.itemsize < 4 or (
                len(axes) != 1 or not contiguous(array)):
            return None
        from tensocket_plugins.ir.build.math import ExprMath
        from tensocket_plugins.ir.build.short_rows import short_rows_nest, suits_short_rows

        (axis,) = axes
        parts = math.prod(array.shape[:axis]), array.shape[axis], math.prod(array.shape[axis + 1:])
        if parts[1] == 1 or not suits_short_rows(state.runtime.target, *parts):
            return None
        accumulator, stored = self.accumulator(state, compute), self._stored_dtype(compute)
        run = program(state, (self.name, "short rows", source, accumulator, stored),
                      lambda: short_rows_nest(self.name, self.fold, ExprMath, source, accumulator, stored), None)
        shape, view = _result_shapes(array.shape, axes, keepdim)
        result = Result(shape, stored, state.key | dtype_bit(stored), None, None if view == shape else view)
        return Plan(run, parts, (result,))


def _result_shapes(shape: Shape, axes: Shape, keepdim: bool) -> tuple[Shape, Shape]:
    """Return the shape of a result without the dimensions ``axes``, and the shape that is returned."""
    outer = tuple(n for k, n in enumerate(shape) if k not in axes)
    return outer, tuple(1 if k in axes else n for k, n in enumerate(shape)) if keepdim else outer
