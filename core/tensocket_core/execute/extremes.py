"""The smallest and the largest of all elements in one pass."""

from __future__ import annotations

from typing import Any

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.nodes import Combine, Load, Program, Reduce, Store, Var, call, const
from tensocket_plugins.ir.schedule import pick_strategy

from ..device import DeviceEntry
from .geometry import contiguous
from .nests import Nest
from .programs import index_dtype, launch


def extremes_nest(dtype: DType, index: DType) -> Program:
    """``out0 = [min(in0), max(in0)]`` of an integer dtype; the size is that of the input."""
    nest = Nest("extremes", index)
    nest.buffer("out0", dtype, writable=True)
    nest.buffer("in0", dtype)
    (size,), j = nest.sizes("n", 1), Var("j", index)
    low, high, low_left, high_left, low_right, high_right = (
        Var(stem, dtype) for stem in ("low", "high", "low_left", "high_left", "low_right", "high_right"))
    element, bits = Load("in0", j, dtype), 8 * dtype.itemsize
    least, most = (0, (1 << bits) - 1) if dtype.kind == "uint" else (-(1 << bits - 1), (1 << bits - 1) - 1)
    reduce = Reduce(
        results=(low, high), loops=((j, size),), body=(), values=(element, element),
        identity=(const(most, dtype), const(least, dtype)),
        combine=Combine((low_left, high_left), (low_right, high_right),
                        (call("min", low_left, low_right), call("max", high_left, high_right))))
    return nest.program([reduce, *(Store("out0", const(k, index), value) for k, value in enumerate((low, high)))])


def both_extremes(entry: DeviceEntry, array: Any, dtype: DType) -> tuple[int, int] | None:
    """The smallest and the largest element of integers in host memory; None where no kernel finds both."""
    target = entry.runtime.target
    if target is None or not entry.runtime.profile.host_resident or not contiguous(array) or not array.size:
        return None
    index = index_dtype(entry, [array.size])
    found = entry.runtime.empty((2,), dtype, entry.stream)
    launch(entry, ("extremes", dtype, index), lambda: extremes_nest(dtype, index),
           pick_strategy(1, array.size, target), [found, array], [array.size])
    entry.stream.synchronize()
    return int(found[0]), int(found[1])
