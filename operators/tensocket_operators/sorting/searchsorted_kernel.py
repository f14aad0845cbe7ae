"""Binary search as a generated kernel."""

from __future__ import annotations

from functools import partial
from typing import Any

from tensocket_core.device import DeviceState
from tensocket_core.launch.programs import index_dtype, launch
from tensocket_plugins.contract.dtypes import DType, int64
from tensocket_plugins.ir.build.elements import load
from tensocket_plugins.ir.build.nest import ProgramBuilder, parallel
from tensocket_plugins.ir.nodes import (
    Assign,
    Declare,
    Expr,
    If,
    Let,
    Program,
    Stmt,
    Store,
    Var,
    call,
    cast,
    const,
    loop,
    select,
)
from tensocket_plugins.ir.strategies import Strategy


def _less(x: Expr, y: Expr) -> Expr:
    """Whether x comes before y; NaN comes last."""
    if x.dtype.kind != "float":
        return x < y
    return (x < y) | (call("eq", x, x) & call("ne", y, y))


def search_nest(dtype: DType, right: bool, index: DType) -> Program:
    """Find where to insert values into sorted rows: before equal elements, or after them with ``right``.

    Buffers are the row-major ``out0`` and values ``in0``, and the rows ``edges``; sizes are rows, values per row,
    elements per row, and steps of the search.
    """
    nest = ProgramBuilder("searchsorted", index)
    nest.buffer("out0", int64, writable=True)
    nest.buffer("in0", dtype)
    nest.buffer("edges", dtype)
    rows, count, length, steps = nest.sizes("n", 4)
    row, column, step = Var("i0", index), Var("i1", index), Var("step", index)
    low, high, middle, at = (Var(name, index) for name in ("low", "high", "middle", "at"))
    found = load("in0", at, dtype)
    value = Var("value", found.dtype)
    edge = load("edges", row * length + middle, dtype)
    behind = Var("behind", _less(edge, value).dtype)
    halve: list[Stmt] = [
        Let(middle, low + ((high - low) >> 1)),
        Let(behind, ~_less(value, edge) if right else _less(edge, value)),
        Assign(low, select(behind, middle + 1, low)),
        Assign(high, select(behind, high, middle)),
    ]
    body: list[Stmt] = [
        Let(at, row * count + column), Let(value, found), Declare(low, const(0, index)), Declare(high, length),
        loop(step, steps, [If(low < high, tuple(halve))]),
        Store("out0", at, cast(low, int64)),
    ]
    return nest.program(parallel([row, column], [rows, count], body))


def search_rows(state: DeviceState, edges: Any, values: Any, dtype: DType, right: bool) -> Any:
    """Search ``values`` [rows, count] in sorted ``edges`` [rows, length], all contiguous; return int64 positions."""
    out = state.runtime.empty(values.shape, int64, state.stream)
    if out.size:
        index = index_dtype(state, (out.size, edges.size))
        length = edges.shape[1]
        launch(state, ("searchsorted", dtype, right, index), partial(search_nest, dtype, right, index),
               Strategy.SERIAL, [out, values, edges], [*values.shape, length, length.bit_length()])
    return out
