"""Arrays joined along a dimension, on processors: the result is written from its first element to its last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.nodes import Let, Program, Stmt, Var, loop

from ..device import DeviceEntry
from .elements import MOVED_AS, moved_handle, moves
from .geometry import contiguous
from .nests import Nest, parallel
from .programs import index_dtype, launch

#: Most arrays that one kernel joins, and the fewest elements that are worth one.
_PARTS: Final = 8
_FEWEST: Final = 1 << 16


def join_nest(count: int, dtype: DType, index: DType) -> Program:
    """``out0[i, ...] = [*in0[i], *in1[i], ...]``; sizes are the rows, a row of the result, and rows of the inputs."""
    nest = Nest("cat", index)
    nest.buffer("out0", MOVED_AS.get(dtype, dtype), writable=True)
    for k in range(count):
        nest.buffer(f"in{k}", MOVED_AS.get(dtype, dtype))
    rows, whole, *sizes = nest.sizes("n", count + 2)
    row, to = Var("row", index), Var("to0", index)
    body: list[Stmt] = [Let(to, row * whole)]
    for k, size in enumerate(sizes):
        j, start, after = Var(f"j{k}", index), Var(f"start{k}", index), Var(f"to{k + 1}", index)
        body += [Let(start, row * size), loop(j, size, moves("out0", to + j, f"in{k}", start + j, dtype)),
                 Let(after, to + size)]
        to = after
    return nest.program(parallel([row], [rows], body))


def join(entry: DeviceEntry, out: Any, parts: Sequence[Any], axis: int, dtype: DType) -> bool:
    """Join arrays of one dtype without gaps into a new one; whether this is a case for it."""
    target = entry.runtime.target
    if target is None or target.kind != "cpu" or not 1 < len(parts) <= _PARTS or out.size < _FEWEST:
        return False
    rows = math.prod(out.shape[:axis])
    if rows == 1 or not all(map(contiguous, parts)):
        return False
    index = index_dtype(entry, [2 * out.size])
    launch(entry, ("cat", len(parts), dtype, index), partial(join_nest, len(parts), dtype, index), None,
           [moved_handle(x, dtype) for x in (out, *parts)], [rows, *(x.size // rows for x in (out, *parts))])
    return True
