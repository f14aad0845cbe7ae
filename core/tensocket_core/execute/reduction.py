"""Reductions: a fold over some dimensions, and every way to run it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType, as_dtype
from tensocket_plugins.contract.errors import ArgumentTypeError, DimensionError, DtypeError, ShapeError, UndefinedDtype
from tensocket_plugins.contract.kernels import Kernel
from tensocket_plugins.contract.native import NativeForm
from tensocket_plugins.ir.complex import COMPONENT
from tensocket_plugins.ir.nodes import Program
from tensocket_plugins.ir.schedule import pick_strategy

from .. import tensors
from ..device import DeviceEntry
from ..dispatch.keys import DIM0, DTYPE_MASK, DTYPE_OF, dtype_bit
from ..dispatch.operator import Operator, check_dtype, missing_primitive
from ..promotion import FLOAT8, number_dtype
from . import direct, native
from .elements import kernel_handle
from .geometry import Shape, coalesce, contiguous_strides, element_strides, normalize_axes
from .math import ExprMath, arithmetic_dtype
from .nests import Fold, reduction_nest
from .primitive import tracked
from .private import private
from .programs import index_dtype, program
from .usage import note_use

#: Elements that one thread reduces before others have started: all together, and in rows.
_FEW: Final = 1 << 18
_FEW_IN_ROWS: Final = 1 << 16
#: Geometries that are kept for an operator.
_KEPT: Final = 256


def accumulation_dtype(entry: DeviceEntry, dtype: DType) -> DType:
    """The element type in which a device adds up values of ``dtype``."""
    work = arithmetic_dtype(dtype)
    part = COMPONENT.get(work, work)
    wider = entry.runtime.profile.accumulation.get(part.name)
    if wider is None:
        return work
    return dtypes.dtype_from_name(wider) if part is work else dtypes.complex128


class Reduction(Operator):
    """An operator that folds dimensions; schema ``name(Tensor input, int[]? dim=None, bool keepdim=False, ...)``.

    Attributes:
        fold: The mathematics.
        compute: ``same``: the input's dtype. ``sum``: int64 for integers and bools. ``float``: floats only. ``bool``:
            converted to bool first.
        result: Dtype of the result: ``same`` as computed, ``bool`` or ``int64``.
        wide: Whether accumulators are as wide as the device's profile says.
        empty: Whether folding no elements has a value.
        complex: Whether complex numbers can be folded.
        decompose: ``(input, dim, keepdim) -> tensor`` over public operators, for backends that have no kernel for it.
        bools: The reduction that stands in for it with ``dtype=bool``; without one, that is refused.
        keywords: NumPy's spelling of arguments, as in ``Pointwise``.
        numbers: How many numbers, the schema's last parameters, ``finish`` and ``decompose`` take.
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
        #: What is launched, by device, computed dtype, geometry and axes; also by a call's ``dim`` that is None or one
        #: number, which implies the dtype: () there where more is to be done than a launch.
        self._calls: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def build(self, key: int, entry: DeviceEntry) -> Callable[..., Any]:
        """A direct closure where the key settles everything, else the general one."""
        general = private(self.name, partial(self.run, entry))
        if self.numbers:
            return private(self.name, lambda input, dim, keepdim, *numbers: self.run(
                entry, input, dim, keepdim, numbers=numbers))
        bits = key & DTYPE_MASK
        if key & DIM0 or not entry.runtime.profile.host_resident:
            return general
        dtype = DTYPE_OF[bits]
        try:
            compute = self._compute_dtype(dtype)
        except DtypeError:  # unless a call says dtype=
            return general
        kernel = entry.runtime.kernels.find(self.name, compute.name, direct=True)
        stored = self._stored_dtype(compute)
        if kernel is None or (compute is not dtype and self.compute != "bool") or dtype is dtypes.uint8:
            return general
        count = len(self.schema.names)
        everything = entry.runtime.kernels.find(f"{self.name}_all", compute.name, direct=True)
        key = entry.key | dtype_bit(stored)
        last = None
        if not native.served(compute, stored) or compute is not dtype or self.result != "same":
            return direct.reduction(kernel, everything, last, key, count == 3, general)
        along = Kernel(lambda x: kernel.run(x, (x.ndim - 1,), False), True, kernel.limit)
        made = native.native_kernel(self, entry, (dtype,), along, partial(self._native_form, entry, dtype, ()),
                                    lambda: along)

        def make(kernel: Kernel) -> Callable[..., Any]:
            return direct.reduction(kernel, everything, None if made is along else made, key, count == 3, general)

        form = partial(self._native_form, entry, dtype, (None, False, None)[:count - 1])
        return native.native_closure(self, entry, (dtype,), key, kernel, form, make)

    def _native_form(self, entry: DeviceEntry, dtype: DType, rest: tuple[Any, ...]) -> tuple[Program, NativeForm]:
        """The operator on a dense operand as a program: over all dimensions where arguments follow, else the last."""
        accumulator = self._accumulator(entry, dtype)
        ranks = (0, 1) if rest else (1, 1)
        nest = reduction_nest(self.name, self.fold, ExprMath, dtype, accumulator, [dtype], ranks, (False, True),
                              dtypes.int64)
        size = "size" if rest else "columns"
        count: str | int = f"float_{size}" if accumulator.kind == "float" else 1
        scalars: tuple[str | int, ...] = ("size", 1, count) if rest else ("rows", "columns", "columns", 1, count)
        limit = _FEW if rest else _FEW_IN_ROWS
        return nest, NativeForm((dtype,), dtype, "scalar" if rest else "rows", scalars, limit=limit, rest=rest)

    def run(self, entry: DeviceEntry, input: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None,
            numbers: tuple[float, ...] = ()) -> Any:
        """As an earlier call over all dimensions or one of an array like this one, or in general."""
        if dtype is not None or not (dim is None or type(dim) is int) or type(keepdim) is not bool:
            return self._run(entry, input, dim, keepdim, dtype, numbers)
        array = input._array
        place = entry.key, input.dtype, array.shape, array.strides, dim, keepdim
        call = self._calls.get(place)
        if call is None:
            call = self._keep(place, self._call(entry, input, dim, keepdim))
        if not call:
            return self._run(entry, input, dim, keepdim, None, numbers)
        kernel, scalars, stored, outer, shape = call
        stream = entry.stream
        out = entry.runtime.empty(outer, stored, stream)
        note_use((out, array), stream)
        kernel((out, array), [*scalars, *numbers] if numbers else scalars, stream)
        return tensors.wrap(out if outer == shape else out.reshape(shape), entry.key | dtype_bit(stored))

    def _keep(self, place: tuple[Any, ...], call: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(self._calls) >= _KEPT:
            self._calls.clear()
        self._calls[place] = call
        return call

    def _call(self, entry: DeviceEntry, input: Any, dim: int | None, keepdim: bool) -> tuple[Any, ...]:
        """As ``_plan``; () where the general way does more than to run a generated kernel."""
        dtype, array, runtime = input.dtype, input._array, entry.runtime
        if runtime.target is None or dtype.kind in ("complex", "bool") or dtype is dtypes.uint8 or not array.size:
            return ()
        direct_kernel = runtime.kernels.find(self.name, dtype.name, direct=True)
        if runtime.profile.host_resident and direct_kernel is not None and (
                direct_kernel.limit is None or array.size <= direct_kernel.limit):
            return ()
        if self._compute_dtype(dtype) is not dtype or self._must_decompose(entry, dtype):
            return ()
        check_dtype(self.name, entry, dtype)
        axes = normalize_axes(self.name, dim, len(array.shape))
        return self._plan(entry, array, axes, keepdim, dtype, dtype)

    def _run(self, entry: DeviceEntry, input: Any, dim: Any, keepdim: bool, dtype: Any,
             numbers: tuple[float, ...]) -> Any:
        """Convert, normalise the dimensions, run, wrap."""
        if self.result == "bool" and isinstance(dim, (tuple, list)) and not dim:
            # PyTorch's exception: any and all reduce no dimension here, where other reductions take all.
            return input.detach() != 0 if input.dtype is not dtypes.uint8 else (input.detach() != 0).to(dtypes.uint8)
        axes = normalize_axes(self.name, dim, input.ndim)
        if dtype is dtypes.bool_ and self.bools:
            return getattr(input.detach().to(dtype), self.bools)(axes, keepdim)
        compute = self._compute_dtype(input.dtype) if dtype is None else self._given_dtype(dtype)
        check_dtype(self.name, entry, compute)
        if not self.empty and any(input._array.shape[k] == 0 for k in axes):
            # PyTorch's classes: amax of everything is a RuntimeError, along an empty dim an IndexError.
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
        if source is not compute and not self._converts(entry, source, input._array, compute):
            input = input.detach().to(compute)
        stored = self._stored_dtype(compute)
        array = self._array(entry, input, axes, keepdim, compute, stored, numbers)
        result = tensors.wrap(array, entry.key | dtype_bit(stored))
        # PyTorch's exception: what any and all say of uint8 is uint8.
        return result.to(source) if self.result == "bool" and source is dtypes.uint8 else result

    def _converts(self, entry: DeviceEntry, source: DType, array: Any, compute: DType) -> bool:
        """Whether the generated kernel serves, and converts what it reads; sums of wider floats would not be wider."""
        runtime = entry.runtime
        if runtime.target is None or compute.kind == "complex" or not (
                source.category < 2 or (compute is dtypes.bool_ and source.kind == "float" and source not in FLOAT8)):
            return False
        direct_kernel = runtime.kernels.find(self.name, compute.name, direct=True)
        few = runtime.profile.host_resident and direct_kernel is not None and (
            direct_kernel.limit is None or array.size <= direct_kernel.limit)
        return not few and source.name in runtime.profile.dtypes and not self._must_decompose(entry, compute)

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

    def _array(self, entry: DeviceEntry, input: Any, axes: Shape, keepdim: bool, compute: DType, stored: DType,
               numbers: tuple[float, ...]) -> Any:
        array = input._array
        runtime = entry.runtime
        if runtime.profile.host_resident and array.ndim:
            kernel = runtime.kernels.find(self.name, compute.name, direct=True)
            if kernel is not None and (kernel.limit is None or array.size <= kernel.limit):
                return direct.quietly(kernel)(array, axes, keepdim)
        outer, shape = _result_shapes(array.shape, axes, keepdim)
        if self._must_decompose(entry, compute):
            return self._decomposed(entry, input, axes, compute, numbers).reshape(shape)._array
        out = runtime.empty(outer, stored, entry.stream)
        if 0 not in outer:
            if runtime.target is None:
                kernel = runtime.kernels.find(self.name, compute.name, direct=False)
                assert kernel is not None
                tracked(kernel)([out], [array], (axes,), entry.stream)
            else:
                self._launch(entry, array, axes, keepdim, compute, out, input.dtype, numbers)
        return out.reshape(shape)

    def _accumulator(self, entry: DeviceEntry, compute: DType) -> DType:
        return accumulation_dtype(entry, compute) if self.wide else arithmetic_dtype(compute)

    def _must_decompose(self, entry: DeviceEntry, compute: DType) -> bool:
        """Whether the device has no kernel for it, or none that is accurate enough."""
        if entry.runtime.target is None:
            return entry.runtime.kernels.find(self.name, compute.name, direct=False) is None
        return self.fold.relative and self._accumulator(entry, compute).itemsize <= compute.itemsize

    def _decomposed(self, entry: DeviceEntry, input: Any, axes: Shape, compute: DType,
                    numbers: tuple[float, ...]) -> Any:
        """The decomposition; of narrow floats in float32, so that only the result is rounded."""
        if self.decompose is None:
            raise missing_primitive(self.name, entry, compute, self.name)
        work = arithmetic_dtype(compute)
        result = self.decompose(input if work is compute else input.detach().to(work), axes, False, *numbers)
        return result.to(self._stored_dtype(compute))

    def _launch(self, entry: DeviceEntry, array: Any, axes: Shape, keepdim: bool, compute: DType, out: Any,
                source: DType, numbers: tuple[float, ...]) -> None:
        place = entry.key, compute, source, array.shape, array.strides, axes, bool(keepdim)
        call = self._calls.get(place) or self._keep(place, self._plan(entry, array, axes, keepdim, compute, source))
        buffers, stream = (kernel_handle(out, call[2]), kernel_handle(array, source)), entry.stream
        note_use(buffers, stream)
        call[0](buffers, [*call[1], *numbers], stream)

    def _plan(self, entry: DeviceEntry, array: Any, axes: Shape, keepdim: bool, compute: DType,
              source: DType) -> tuple[Any, ...]:
        """What is launched for arrays of ``source`` of this shape and these strides.

        That is a kernel, its scalars, the result's dtype, and its shape as it is computed and as it is returned.
        """
        strides = element_strides(array)
        outer_axes = [k for k in range(len(strides)) if k not in axes]
        outer_shape = tuple(array.shape[k] for k in outer_axes)
        # The output is contiguous over the outer dimensions in their order, so these merge with the output's strides.
        outer, (outer_steps, _) = coalesce(outer_shape, [tuple(strides[k] for k in outer_axes),
                                                         contiguous_strides(outer_shape)])
        if not outer_axes or math.prod(outer_shape) == 1:
            outer, outer_steps = (), ()
        inner, (inner_steps,) = coalesce(tuple(array.shape[k] for k in axes), [tuple(strides[k] for k in axes)])
        unit = (bool(outer_steps) and outer_steps[-1] == 1, inner_steps[-1] == 1)
        reach = sum((n - 1) * abs(s) for n, s in zip((*outer, *inner), (*outer_steps, *inner_steps), strict=True))
        words = 2 if compute.kind == "complex" else 1
        index = index_dtype(entry, (words * array.size, words * reach))
        accumulator, stored = self._accumulator(entry, compute), self._stored_dtype(compute)
        ranks = (len(outer), len(inner))
        length = math.prod(inner)
        assert entry.runtime.target is not None
        packed = compute.kind != "complex" and unit[0] and ranks == (1, 1) and inner_steps == outer and not (
            self.fold.relative or self.fold.positions)  # which tell rows of one wide row apart
        strategy = pick_strategy(math.prod(outer), length, entry.runtime.target, packed=packed)
        # Only means divide by the count, and they are of floats; a narrow integer could not hold it.
        count = float(length) if accumulator.category >= 2 else accumulator.kind == "bool" or 1
        run = program(
            entry,
            (self.name, source, compute, accumulator, stored, ranks, unit, index, packed),
            lambda: reduction_nest(self.name, self.fold, ExprMath, source, accumulator, [stored], ranks, unit, index,
                                   packed, self.numbers),
            strategy,
        )
        scalars = [*outer, *inner, *outer_steps, *inner_steps, count]
        return run, scalars, stored, *_result_shapes(array.shape, axes, keepdim)


def _result_shapes(shape: Shape, axes: Shape, keepdim: bool) -> tuple[Shape, Shape]:
    """Shapes of a result without the dimensions ``axes``, and as it is returned."""
    outer = tuple(n for k, n in enumerate(shape) if k not in axes)
    return outer, tuple(1 if k in axes else n for k, n in enumerate(shape)) if keepdim else outer
