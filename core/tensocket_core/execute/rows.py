"""Row operators (softmax and the like): reductions over one dimension and a value for every element of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import UndefinedDtype
from tensocket_plugins.contract.kernels import Kernel
from tensocket_plugins.contract.native import LAST, NativeForm
from tensocket_plugins.ir.nodes import Program
from tensocket_plugins.ir.schedule import Strategy, pick_strategy

from .. import tensors
from ..device import DeviceEntry
from ..dispatch.keys import AUTOGRAD, DIM0, DTYPE_MASK, DTYPE_OF, dtype_bit
from ..dispatch.operator import Operator, check_dtype
from . import direct, native
from .geometry import coalesce, element_strides, normalize_axis
from .kept import kept
from .math import ExprMath, TensorMath
from .pointwise import kind_letter
from .private import private
from .programs import compiled, index_dtype, launch
from .reduction import accumulation_dtype
from .row_nests import row_nest

#: Elements of rows that one thread computes before others have started.
_FEW: Final = 1 << 15


class TensorRow:
    """Row formulas over public operators; values are functions of an ignored position."""

    def __init__(self, dim: int, m: TensorMath) -> None:
        self.m = m
        self._dim = dim

    def amax(self, value: Callable[[Any], Any]) -> Any:
        """Largest value of every row."""
        return value(None).amax(self._dim, True)

    def sum(self, value: Callable[[Any], Any]) -> Any:
        """Sum of every row."""
        return value(None).sum(self._dim, True)

    def keep(self, value: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Values that are needed more than once."""
        kept = value(None)
        return lambda position: kept

    def mean(self, value: Callable[[Any], Any]) -> Any:
        """Mean of every row."""
        return value(None).mean(self._dim, True)


class Row(Operator):
    """An operator ``name(Tensor input, ..., float x, ..., int dim)`` on floats with a result of the input's shape.

    Attributes:
        formula: ``formula(row, *operands, *numbers) -> function of the position``; see ``row_nests.row_nest``.
        count: How many operands there are.
        functions: The namespace of public functions, for decomposition.
        label: What errors call it.
    """

    kind = "row"

    def __init__(self, schema: str, doc: str, formula: Callable[..., Any], functions: Callable[[], Any],
                 **record: Any) -> None:
        super().__init__(schema, doc, **record)
        self.formula = formula
        self.label = self.name.removesuffix("_rows")
        self.functions = functions
        self.count = len(self.schema.tensors)

    def build(self, key: int, entry: DeviceEntry) -> Callable[..., Any]:
        """The general closure; with a code generator, it does nothing but launch one kernel."""
        return kept(entry, self.schema.tensors, len(self.schema.names), private(
            self.name, partial(self.run, entry)))

    def direct(self, key: int, entry: DeviceEntry, general: Callable[..., Any]) -> Callable[..., Any] | None:
        """A shortcut for ``name(input, dim, *, dtype)`` on a host-resident device; recorded calls have none."""
        bits = key & DTYPE_MASK
        if key & (AUTOGRAD | DIM0) or bits & (bits - 1):
            return None
        dtype = DTYPE_OF[bits]
        kernel = entry.runtime.kernels.find(self.name, dtype.name, direct=True)
        if kernel is None or not native.served(dtype):
            return None if kernel is None else direct.row(kernel, _along_last(kernel), key, general)

        accumulator = accumulation_dtype(entry, dtype)

        def build() -> tuple[Program, NativeForm]:
            nest = row_nest(self.name, self.formula, ExprMath, [dtype], dtype, accumulator, 1, True, dtypes.int64)
            scalars = ("rows", "columns", "columns", 1, "columns", 1)
            return nest, NativeForm((dtype,), dtype, "same", scalars, limit=_FEW)

        along = _along_last(kernel)
        last = native.native_kernel(self, entry, (dtype,), along, build, partial(
            _compiled, entry, along, (self.name, dtype, accumulator, 1, True, False, dtypes.int64), build))
        return native.native_closure(self, entry, (dtype,), key, kernel, lambda: _on_last(*build()),
                                     lambda kernel: direct.row(kernel, last, key, general))

    def run(self, entry: DeviceEntry, *args: Any) -> Any:
        """Check, run, wrap. The last argument is the dimension."""
        inputs, numbers, dim = list(args[:self.count]), args[self.count:-1], args[-1]
        dtype, shape = inputs[0].dtype, inputs[0]._array.shape
        if kind_letter(dtype) != "f":
            raise UndefinedDtype(self.label, f"dtype {dtype.name}",
                                 f"{self.label} is defined for floating-point dtypes",
                                 "pass dtype=, or convert with .to(dtype)")
        axis = normalize_axis(self.label, dim, len(shape))
        check_dtype(self.label, entry, dtype)
        runtime = entry.runtime
        key = entry.key | dtype_bit(dtype)
        arrays = [x._array for x in inputs]
        if runtime.profile.host_resident and runtime.target is None and shape:
            kernel = runtime.kernels.find(self.name, dtype.name, direct=True)
            if kernel is not None and (kernel.limit is None or arrays[0].size <= kernel.limit):
                return tensors.wrap(direct.quietly(kernel)(*arrays, *numbers, axis), key)
        if 0 in shape:  # rows without elements have no largest one, which formulas ask for
            return tensors.wrap(runtime.empty(shape, dtype, entry.stream), key)
        if runtime.target is None or not shape:
            return self._decomposed(inputs, numbers, axis)
        out = runtime.empty(shape, dtype, entry.stream)
        self._generated(entry, [out, *arrays], numbers, axis, dtype)
        return tensors.wrap(out, key)

    def _decomposed(self, inputs: list[Any], numbers: tuple[float, ...], axis: int) -> Any:
        row = TensorRow(axis if inputs[0].ndim else 0, TensorMath(inputs[0].dtype, self.functions()))
        inputs = [x.detach() for x in inputs]
        return self.formula(row, *[partial(_same, x) for x in inputs], *numbers)(None)

    def _generated(self, entry: DeviceEntry, arrays: list[Any], numbers: tuple[float, ...], axis: int,
                   dtype: Any) -> None:
        shape = arrays[0].shape
        strides = [element_strides(x) for x in arrays]
        others = [k for k in range(len(shape)) if k != axis]
        sizes, steps = coalesce(tuple(shape[k] for k in others), [tuple(s[k] for k in others) for s in strides])
        rank, along = len(sizes), [s[axis] for s in strides]
        unit = all(s == 1 for s in along) or shape[axis] == 1
        # Rows that stand side by side: their first elements are neighbours.
        beside = not unit and rank > 0 and all(step[-1] == 1 for step in steps)
        reach = [sum((n - 1) * abs(s) for n, s in zip(shape, step, strict=True)) for step in strides]
        index = index_dtype(entry, (arrays[0].size, *reach))
        accumulator = accumulation_dtype(entry, dtype)
        assert entry.runtime.target is not None
        strategy = pick_strategy(math.prod(sizes), shape[axis], entry.runtime.target)
        launch(
            entry,
            (self.name, dtype, accumulator, rank, unit, beside, index),
            lambda: row_nest(
                self.name, self.formula, ExprMath, [dtype] * (len(arrays) - 1), dtype, accumulator, rank, unit, index,
                len(numbers), beside
            ),
            strategy,
            arrays,
            [*sizes, shape[axis], *(s for step, last in zip(steps, along, strict=True) for s in (*step, last)),
             *map(float, numbers)],
        )


def _along_last(kernel: Kernel) -> Kernel:
    """``kernel(x)`` along the last dimension."""
    run = kernel.run
    return Kernel(lambda x: run(x, x.ndim - 1), True, kernel.limit)


def _compiled(entry: DeviceEntry, kernel: Kernel, key: Hashable, build: native.Build) -> Kernel:
    """``kernel(x)`` as a generated kernel for contiguous arrays, where the device makes one: it costs less than NumPy's
    five passes, also for a dozen elements.
    """
    if entry.runtime.target is None:
        return kernel
    program, form = build()
    run = compiled(entry, key, lambda: program, Strategy.SMALL)
    if run is None:  # NumPy serves as well
        return kernel
    otherwise, empty, dtype = kernel.run, np.empty, form.result.numpy
    stream = entry.runtime.default_stream

    def along(x: Any) -> Any:
        shape = x.shape
        if not shape or not x.flags.c_contiguous:
            return otherwise(x)
        columns = shape[-1]
        out = empty(shape, dtype)
        run((out, x), (x.size // columns, columns, columns, 1, columns, 1), stream)
        return out

    return Kernel(along, True, kernel.limit)


def _on_last(program: Program, form: NativeForm) -> tuple[Program, NativeForm]:
    """The form for calls with the last dimension and no dtype."""
    return program, replace(form, rest=(LAST, None))


def _same(value: Any, position: Any) -> Any:
    return value
