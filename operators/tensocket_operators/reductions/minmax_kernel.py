"""The smallest and the largest of all elements in one pass."""

from __future__ import annotations

import math
from typing import Any

from tensocket_core.device import DeviceState
from tensocket_core.geometry import contiguous
from tensocket_core.launch.programs import index_dtype, launch
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.build.elements import load
from tensocket_plugins.ir.build.nest import ProgramBuilder
from tensocket_plugins.ir.element_types import arithmetic_dtype
from tensocket_plugins.ir.nodes import Combine, Program, Reduce, Store, Var, call, const
from tensocket_plugins.ir.strategies import pick_strategy


def smallest_value(dtype: DType) -> float | int | bool:
    """Return the identity of a maximum."""
    if dtype.kind == "float":
        return -math.inf
    return False if dtype.kind == "bool" else -(1 << (8 * dtype.itemsize - 1)) if dtype.kind == "int" else 0


def largest_value(dtype: DType) -> float | int | bool:
    """Return the identity of a minimum."""
    if dtype.kind == "float":
        return math.inf
    return True if dtype.kind == "bool" else (1 << (8 * dtype.itemsize - (dtype.kind == "int"))) - 1


def extremes_nest(dtype: DType, index: DType) -> Program:
    """Write ``out0 = [min(in0), max(in0)]`` in the arithmetic dtype, NaN if an element is; the size is the input's."""
    work = arithmetic_dtype(dtype)
    nest = ProgramBuilder("extremes", index)
    nest.buffer("out0", work, writable=True)
    nest.buffer("in0", dtype)
    (size,), j = nest.sizes("n", 1), Var("j", index)
    low, high, low_left, high_left, low_right, high_right = (
        Var(stem, work) for stem in ("low", "high", "low_left", "high_left", "low_right", "high_right"))
    element = load("in0", j, dtype)
    reduce = Reduce(
        results=(low, high), loops=((j, size),), body=(), values=(element, element),
        identity=(const(largest_value(work), work), const(smallest_value(work), work)),
        combine=Combine((low_left, high_left), (low_right, high_right),
                        (call("min", low_left, low_right), call("max", high_left, high_right))))
    return nest.program([reduce, *(Store("out0", const(k, index), value) for k, value in enumerate((low, high)))])


def both_extremes(state: DeviceState, array: Any, dtype: DType) -> tuple[Any, Any] | None:
    """Return the smallest and the largest element of an array in host memory, or None if no kernel finds both."""
    target = state.runtime.target
    if target is None or not state.runtime.profile.host_resident or not contiguous(array) or not array.size:
        return None
    index = index_dtype(state, [array.size])
    found = state.runtime.empty((2,), arithmetic_dtype(dtype), state.stream)
    launch(state, ("extremes", dtype, index), lambda: extremes_nest(dtype, index),
           pick_strategy(1, array.size, target), [found, array], [array.size])
    state.stream.synchronize()
    return found[0].item(), found[1].item()
