"""The smallest and the largest of all elements in one pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensocket_core.device import DeviceState
from tensocket_core.geometry import contiguous
from tensocket_core.launch.programs import index_dtype, launch
from tensocket_core.launch.stream_use import copy_arrays
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.build.elements import load
from tensocket_plugins.ir.build.nest import ProgramBuilder
from tensocket_plugins.ir.element_types import arithmetic_dtype
from tensocket_plugins.ir.nodes import Combine, Program, Reduce, Store, Var, call, const, select
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


def extremes_nest(dtype: DType, index: DType, ignores: bool = False) -> Program:
    """Write ``out0 = [min(in0), max(in0)]`` in the arithmetic dtype, NaN if an element is.

    Scalars are the input's size and, with ``ignores``, a number whose occurrences count as 0.
    """
    work = arithmetic_dtype(dtype)
    nest = ProgramBuilder("extremes", index)
    nest.buffer("out0", work, writable=True)
    nest.buffer("in0", dtype)
    (size,), j = nest.sizes("n", 1), Var("j", index)
    low, high, low_left, high_left, low_right, high_right = (
        Var(stem, work) for stem in ("low", "high", "low_left", "high_left", "low_right", "high_right"))
    element = load("in0", j, dtype)
    if ignores:
        element = select(call("eq", element, nest.number("ignored", work)), const(0, work), element)
    reduce = Reduce(
        results=(low, high), loops=((j, size),), body=(), values=(element, element),
        identity=(const(largest_value(work), work), const(smallest_value(work), work)),
        combine=Combine((low_left, high_left), (low_right, high_right),
                        (call("min", low_left, low_right), call("max", high_left, high_right))))
    return nest.program([reduce, *(Store("out0", const(k, index), value) for k, value in enumerate((low, high)))])


def both_extremes(state: DeviceState, array: Any, dtype: DType, ignored: int | None = None) -> tuple[Any, Any] | None:
    """Return the smallest and the largest element of an array, or None if no kernel finds both.

    The device's kernel finds them together, so that their reader waits for it once.

    Args:
        state: The device.
        array: A handle.
        dtype: Its element type.
        ignored: An integer whose occurrences count as 0.
    """
    target = state.runtime.target
    if target is None or not contiguous(array) or not array.size:
        return None
    index, work = index_dtype(state, [array.size]), arithmetic_dtype(dtype)
    found, ignores = state.runtime.empty((2,), work, state.stream), ignored is not None
    launch(state, ("extremes", dtype, index, ignores), lambda: extremes_nest(dtype, index, ignores),
           pick_strategy(1, array.size, target), [found, array], [array.size, *([] if ignored is None else [ignored])])
    if state.runtime.profile.host_resident:
        state.stream.synchronize()
    else:
        found, device_found = np.empty(2, work.numpy), found
        copy_arrays(state, found, device_found)
    return found[0].item(), found[1].item()
