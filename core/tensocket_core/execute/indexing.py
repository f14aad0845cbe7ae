"""Reading and writing at positions held in a tensor: gather and scatter along a dimension."""

from __future__ import annotations

from typing import Any

from tensocket_plugins.contract.dtypes import DType, int64
from tensocket_plugins.ir.complex import Complex
from tensocket_plugins.ir.nodes import Atomic, Expr, Load, Program, Stmt, Var, cast, const, loop
from tensocket_plugins.ir.schedule import Strategy

from ..deterministic import SETTING, alert_not_deterministic
from ..device import DeviceEntry
from .elements import MOVED_AS, kernel_handle, load, moved_handle, moves, storage_dtype, stores
from .geometry import element_strides
from .nests import Nest, dot, parallel
from .primitive import primitive
from .programs import index_dtype, launch


def _walk(nest: Nest, rank: int, axis: int) -> tuple[list[Var], list[Var], Expr, list[Expr]]:
    """Loops over the index tensor: variables, sizes, the loaded index, the position with it in place of ``axis``."""
    sizes, variables = nest.sizes("n", rank), nest.variables("i", rank)
    position = cast(Load("index", dot(variables, nest.strides("index", rank)), int64), nest.index)
    return variables, sizes, position, [position if k == axis else v for k, v in enumerate(variables)]


def gather_nest(dtype: DType, rank: int, axis: int, index: DType) -> Program:
    """``out0[i...] = in0[i... with index[i...] at axis]``."""
    nest = Nest("gather", index)
    nest.buffer("out0", MOVED_AS.get(dtype, dtype), writable=True)
    nest.buffer("in0", MOVED_AS.get(dtype, dtype))
    nest.buffer("index", int64)
    variables, sizes, _, moved = _walk(nest, rank, axis)
    source = dot(moved, nest.strides("in0", rank))
    target = dot(variables, nest.strides("out0", rank))
    return nest.program(parallel(variables, sizes, moves("out0", target, "in0", source, dtype)))


def scatter_nest(dtype: DType, rank: int, axis: int, index: DType, *, add: bool) -> Program:
    """``out0[i... with index[i...] at axis] = (or +=) in0[i...]``."""
    nest = Nest("scatter_add" if add else "scatter", index)
    held = dtype if add else MOVED_AS.get(dtype, dtype)
    nest.buffer("out0", held, writable=True)
    nest.buffer("in0", held)
    nest.buffer("index", int64)
    variables, sizes, _, moved = _walk(nest, rank, axis)
    target = dot(moved, nest.strides("out0", rank))
    source = dot(variables, nest.strides("in0", rank))
    body = _additions(target, source, dtype) if add else moves("out0", target, "in0", source, dtype)
    return nest.program(parallel(variables, sizes, body))


def _additions(target: Expr, source: Expr, dtype: DType) -> list[Stmt]:
    """Atomic additions of an element; the parts of a complex one are added each by itself."""
    value = load("in0", source, dtype)
    if isinstance(value, Complex):
        return [Atomic("add", "out0", target * 2, value.re), Atomic("add", "out0", target * 2 + 1, value.im)]
    return [Atomic("add", "out0", target, value)]


def ordered_scatter_nest(dtype: DType, rank: int, axis: int, index: DType) -> Program:
    """``scatter_nest`` that adds in the order of the index tensor: one iteration walks along the whole axis.

    Positions that are written differ between iterations, so it needs no atomics and rounds the same way every time.
    """
    nest = Nest("scatter_add_ordered", index)
    nest.buffer("out0", storage_dtype(dtype), writable=True)
    nest.buffer("in0", storage_dtype(dtype))
    nest.buffer("index", int64)
    variables, sizes, _, moved = _walk(nest, rank, axis)
    target = dot(moved, nest.strides("out0", rank))
    total = load("out0", target, dtype) + load("in0", dot(variables, nest.strides("in0", rank)), dtype)
    along = loop(variables[axis], sizes[axis], stores("out0", target, total, dtype))
    others = [k for k in range(rank) if k != axis]
    outer = [variables[k] for k in others] or [Var("once", index)]
    return nest.program(parallel(outer, [sizes[k] for k in others] or [const(1, index)], [along]))


def _arguments(index: Any, *arrays: Any) -> list[int]:
    """Sizes of the index tensor, then strides in the order in which the nests declare them."""
    return [*index.shape, *(s for x in (index, *arrays) for s in element_strides(x))]


def gather_arrays(entry: DeviceEntry, out: Any, source: Any, index: Any, axis: int, dtype: DType) -> None:
    """Fill ``out`` (of the index's shape) from ``source`` along ``axis``; indices are valid."""
    if entry.runtime.target is None:
        primitive("gather", entry, "gather", dtype)([out], [source, index], (axis,), entry.stream)
        return
    rank = len(index.shape)
    reach = (s * n for s, n in zip(element_strides(source), source.shape, strict=True))
    width = index_dtype(entry, [n * _words(dtype) for n in (source.size, out.size, *reach)])
    launch(entry, ("gather", dtype, rank, axis, width), lambda: gather_nest(dtype, rank, axis, width), Strategy.SERIAL,
           [moved_handle(out, dtype), moved_handle(source, dtype), index], _arguments(index, source, out))


def _words(dtype: DType) -> int:
    """Positions of a buffer that an element takes, at most."""
    return 2 if dtype.kind == "complex" else 1


def scatter_arrays(
    entry: DeviceEntry, out: Any, index: Any, source: Any, axis: int, dtype: DType, *, add: bool
) -> None:
    """Write ``source`` (read in the index's shape) into ``out`` along ``axis``; indices are valid."""
    name = "scatter_add" if add else "scatter"
    ordered = add and dtype.category > 1 and SETTING.required
    if entry.runtime.target is None:
        if ordered and "deterministic" not in entry.runtime.profile.features:
            alert_not_deterministic(name, entry.device)
        cut = source[tuple(slice(0, n) for n in index.shape)]
        primitive(name, entry, name, dtype)([out], [out, index, cut], (axis,), entry.stream)
        return
    rank, handle = len(index.shape), kernel_handle if add else moved_handle
    width = index_dtype(entry, [n * _words(dtype) for n in (source.size, out.size, index.size)])
    launch(
        entry,
        (name, dtype, rank, axis, width, ordered),
        lambda: ordered_scatter_nest(dtype, rank, axis, width) if ordered
        else scatter_nest(dtype, rank, axis, width, add=add),
        Strategy.SERIAL,
        [handle(out, dtype), handle(source, dtype), index],
        _arguments(index, out, source),
    )
