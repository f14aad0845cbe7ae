"""Kernels of gather and scatter along a dimension: reading and writing at positions that a tensor holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.geometry import as_strided, coalesce, contiguous, element_strides
from tensocket_core.launch.kernel_handles import kernel_handle, moved_handle
from tensocket_core.launch.primitives import primitive
from tensocket_core.launch.programs import index_dtype, launch
from tensocket_plugins.contract.arrays import DeviceArray
from tensocket_plugins.contract.dtypes import DType, int64, uint64
from tensocket_plugins.contract.launch_recorder import is_recording
from tensocket_plugins.ir.build.elements import load, moves, storage_dtype, stores
from tensocket_plugins.ir.build.math import ExprMath
from tensocket_plugins.ir.build.nest import ProgramBuilder, dot, parallel
from tensocket_plugins.ir.complex import Complex
from tensocket_plugins.ir.element_types import MOVED_AS, arithmetic_dtype
from tensocket_plugins.ir.nodes import Atomic, Expr, Let, Load, Program, Stmt, Var, call, cast, const, loop
from tensocket_plugins.ir.strategies import Strategy

from ..deterministic import SETTING, alert_not_deterministic
from ..kinds.programs import Programs

#: Columns that a thread writes at a time, of rows that share an index.
_STRIP: Final = 256
#: Functions that combine the values at one position, by name.
_COMBINE: Final[dict[str, Callable[..., Any]]] = {
    "sum": lambda m, x, y: x + y, "prod": lambda m, x, y: x * y,
    "amax": lambda m, x, y: m.maximum(x, y), "amin": lambda m, x, y: m.minimum(x, y)}
_RUNS: Final = Programs("gather and scatter of runs", cpu=True, simt=False)
#: The element type as which devices copy runs that consist of such words.
_WORD: Final = uint64
#: Smallest number of elements with a shared index that a loop of its own copies.
_MIN_RUN: Final = 8


def _walk(nest: ProgramBuilder, rank: int, axis: int, unit: bool = False) -> tuple[list[Var], list[Var], Expr,
                                                                                   list[Expr]]:
    """Return the loops over the index tensor: variables, sizes, the loaded index, and the indexed position."""
    sizes, variables = nest.sizes("n", rank), nest.variables("i", rank)
    position = _position(nest, dot(variables, _strides(nest, "index", rank, unit)))
    return variables, sizes, position, [position if k == axis else v for k, v in enumerate(variables)]


def _position(nest: ProgramBuilder, place: Expr) -> Expr:
    """Return the index at a place, clamped to the size of the dimension, which becomes the next size parameter.

    Indices are valid when a kernel starts, but other threads may change them while it runs.
    """
    (bound,) = nest.sizes("bound", 1)
    index = cast(Load("index", place, int64), nest.index)
    return call("min", call("max", index, const(0, nest.index)), bound - 1)


def _strides(nest: ProgramBuilder, array: str, rank: int, unit: bool) -> list[Expr]:
    """Return the strides of an array; with ``unit``, the last one is 1."""
    strides: list[Expr] = [*nest.strides(array, rank)]
    return [*strides[:-1], const(1, nest.index)] if unit else strides


def gather_nest(dtype: DType, rank: int, axis: int, index: DType, unit: bool = False) -> Program:
    """Return the nest ``out0[i...] = in0[i... with index[i...] at axis]``; with ``unit``, all last strides are 1."""
    nest = ProgramBuilder("gather", index)
    nest.buffer("out0", MOVED_AS.get(dtype, dtype), writable=True)
    nest.buffer("in0", MOVED_AS.get(dtype, dtype))
    nest.buffer("index", int64)
    variables, sizes, _, moved = _walk(nest, rank, axis, unit)
    source = dot(moved, _strides(nest, "in0", rank, unit))
    target = dot(variables, _strides(nest, "out0", rank, unit))
    return nest.program(parallel(variables, sizes, moves("out0", target, "in0", source, dtype)))


def rows_nest(dtype: DType, ranks: tuple[int, int], unit: bool, index: DType) -> Program:
    """Return the nest ``out0[i..., j...] = in0[i... with index[i...] added, j...]``, which copies runs.

    The sizes are those of i and j, and of the input's axis. The strides are those of the index over i, then of the
    input over i, j and its axis, then of the result over i and j.

    Args:
        dtype: Element type.
        ranks: Number of dimensions over which the index varies, and over which it is constant.
        unit: Whether the last strides of input and result are 1.
        index: Integer type of index arithmetic.
    """
    nest, (count, inner) = ProgramBuilder("gather_rows", index), ranks
    nest.buffer("out0", MOVED_AS.get(dtype, dtype), writable=True)
    nest.buffer("in0", MOVED_AS.get(dtype, dtype))
    nest.buffer("index", int64)
    sizes, rows = nest.sizes("n", count + inner), nest.variables("i", count)
    columns = nest.variables("j", inner)
    position = _position(nest, dot(rows, nest.strides("index", count)))
    source = nest.strides("in0", count + inner + 1)
    target: list[Expr] = [*nest.strides("out0", count + inner)]
    steps: list[Expr] = [*source[:-1]]
    if unit:
        steps[-1] = target[-1] = const(1, index)
    start, to = Var("start", index), Var("to", index)
    body = [
        Let(start, dot(rows, steps[:count]) + position * source[-1]), Let(to, dot(rows, target[:count])),
        *parallel(columns, sizes[count:], moves(
            "out0", to + dot(columns, target[count:]), "in0", start + dot(columns, steps[count:]), dtype))]
    return nest.program(parallel(rows, sizes[:count], body))


def scatter_nest(dtype: DType, rank: int, axis: int, index: DType, *, add: bool, unit: bool = False) -> Program:
    """Return the nest ``out0[i... with index[i...] at axis] = (or +=) in0[i...]``.

    With ``unit``, all last strides are 1. Then a CPU writes elements of the last dimension one by one, because it
    writes vectors of elements to separate places more slowly.
    """
    nest = ProgramBuilder("scatter_add" if add else "scatter", index)
    held = dtype if add else MOVED_AS.get(dtype, dtype)
    nest.buffer("out0", held, writable=True)
    nest.buffer("in0", held)
    nest.buffer("index", int64)
    variables, sizes, _, moved = _walk(nest, rank, axis, unit)
    target = dot(moved, _strides(nest, "out0", rank, unit))
    source = dot(variables, _strides(nest, "in0", rank, unit))
    body = _additions(target, source, dtype) if add else moves("out0", target, "in0", source, dtype)
    if unit and rank > 1:
        return nest.program(parallel(variables[:-1], sizes[:-1], [loop(variables[-1], sizes[-1], body)]))
    return nest.program(parallel(variables, sizes, body))


def _additions(target: Expr, source: Expr, dtype: DType) -> list[Stmt]:
    """Return atomic additions of an element; real and imaginary parts are added separately."""
    value = load("in0", source, dtype)
    if isinstance(value, Complex):
        return [Atomic("add", "out0", target * 2, value.re), Atomic("add", "out0", target * 2 + 1, value.im)]
    return [Atomic("add", "out0", target, value)]


def ordered_scatter_nest(dtype: DType, rank: int, axis: int, index: DType, mode: str = "sum") -> Program:
    """Return a ``scatter_nest`` that combines in the order of the index tensor: one iteration covers the whole axis.

    Iterations write to disjoint positions, so the nest needs no atomics and rounds the same way every time. For
    dimensions after the axis, an iteration covers a strip of neighbours at each of its positions.
    """
    nest = ProgramBuilder(f"scatter_{mode}_ordered", index)
    nest.buffer("out0", storage_dtype(dtype), writable=True)
    nest.buffer("in0", storage_dtype(dtype))
    nest.buffer("index", int64)
    variables, sizes, _, moved = _walk(nest, rank, axis)
    target = dot(moved, nest.strides("out0", rank))
    total = _COMBINE[mode](ExprMath(arithmetic_dtype(dtype)), load("out0", target, dtype),
                           load("in0", dot(variables, nest.strides("in0", rank)), dtype))
    body = stores("out0", target, total, dtype)
    others = [k for k in range(rank) if k != axis]
    outer: list[Var] = [variables[k] for k in others]
    extents: list[Expr] = [sizes[k] for k in others]
    if others and others[-1] > axis:
        strip, first, end = (Var(stem, index) for stem in ("strip", "first", "end"))
        body = [loop(variables[-1], end, body, start=first)]
        outer[-1], extents[-1] = strip, (sizes[-1] + (_STRIP - 1)) // _STRIP
        inside = [Let(first, strip * _STRIP), Let(end, call("min", first + _STRIP, sizes[-1])),
                  loop(variables[axis], sizes[axis], body)]
    else:
        inside = [loop(variables[axis], sizes[axis], body)]
    return nest.program(parallel(outer or [Var("once", index)], extents or [const(1, index)], inside))


def scatter_rows_nest(dtype: DType, rank: int, add: bool, index: DType) -> Program:
    """Return the nest ``out0[i... with index[i...] in place of the axis, j] = (or +=) in0[i..., j]``, for CPUs.

    Threads share the columns j and process the indices in order, so the result does not depend on the number of
    threads. The sizes are those of i and j, and of the result's axis. The strides are those over i of the index, the
    input and the result, where the axis has 0, and the result's along the axis; all have stride 1 over j.
    """
    nest = ProgramBuilder("scatter_rows", index)
    held = storage_dtype(dtype) if add else MOVED_AS.get(dtype, dtype)
    nest.buffer("out0", held, writable=True)
    nest.buffer("in0", held)
    nest.buffer("index", int64)
    (*sizes, width), rows = nest.sizes("n", rank + 1), nest.variables("i", rank)
    position = _position(nest, dot(rows, nest.strides("index", rank)))
    source = dot(rows, nest.strides("in0", rank))
    *target, along = nest.strides("out0", rank + 1)
    strip, first, end, j, start, to = (Var(stem, index) for stem in ("strip", "first", "end", "j", "start", "to"))
    if add:
        moved = stores("out0", to + j, load("out0", to + j, dtype) + load("in0", start + j, dtype), dtype)
    else:
        moved = moves("out0", to + j, "in0", start + j, dtype)
    body: tuple[Stmt, ...] = (Let(start, source), Let(to, dot(rows, target) + position * along),
                              loop(j, end, moved, start=first))
    for row, size in zip(reversed(rows), reversed(sizes), strict=True):
        body = (loop(row, size, body),)
    return nest.program(parallel([strip], [(width + (_STRIP - 1)) // _STRIP], [
        Let(first, strip * _STRIP), Let(end, call("min", first + _STRIP, width)), *body]))


def _scatter_rows(state: DeviceState, out: Any, index: Any, source: Any, axis: int, dtype: DType, add: bool,
                  width: DType) -> bool:
    """Scatter runs of elements that share an index; return whether the kernel applies."""
    inner = _count_shared_dims(index, axis)
    if not _RUNS.of(state) or not inner:
        return False
    shape, steps = index.shape, [element_strides(x) for x in (index, source, out)]
    rows, shared = range(len(shape) - inner), range(len(shape) - inner, len(shape))
    sizes, inside = coalesce(tuple(shape[k] for k in shared), [tuple(s[k] for k in shared) for s in steps[1:]])
    if len(sizes) > 1 or inside != [(1,), (1,)]:
        return False
    handle = kernel_handle if add else moved_handle
    launch(state, ("scatter_rows", dtype, len(rows), add, width),
           lambda: scatter_rows_nest(dtype, len(rows), add, width), None,
           [handle(out, dtype), handle(source, dtype), index],
           [*(shape[k] for k in rows), *sizes, out.shape[axis], *(steps[0][k] for k in rows),
            *(steps[1][k] for k in rows), *(0 if k == axis else steps[2][k] for k in rows), steps[2][axis]])
    return True


def _arguments(bound: int, index: Any, *arrays: Any) -> list[int]:
    """Return the sizes of the index tensor and of the indexed dimension, then the strides as the nests declare them."""
    return [*index.shape, bound, *(s for x in (index, *arrays) for s in element_strides(x))]


def gather_arrays(state: DeviceState, out: Any, source: Any, index: Any, axis: int, dtype: DType) -> None:
    """Fill ``out`` (of the index's shape) from ``source`` along ``axis``; indices are valid."""
    if state.runtime.target is None:
        primitive("gather", state, "gather", dtype)([out], [source, index], (axis,), state.stream)
        return
    rank = len(index.shape)
    reach = (s * n for s, n in zip(element_strides(source), source.shape, strict=True))
    width = index_dtype(state, [n * _words(dtype) for n in (source.size, out.size, *reach)])
    inner = _count_shared_dims(index, axis)
    processor = _RUNS.of(state)
    if processor and inner:
        _gather_rows(state, out, source, index, axis, inner, dtype, width)
        return
    if inner and not is_recording():  # recorded launches name arrays by their own dtypes
        (out, source, index), dtype = _in_words(out, source, index, dtype)
    if inner and _fills_groups(state, index.shape, inner):
        _launch_rows(state, out, source, index, axis, inner, dtype, width, Strategy.GROUP)
        return
    unit = processor and all(element_strides(x)[-1:] == (1,) for x in (index, source, out))
    launch(state, ("gather", dtype, rank, axis, width, unit),
           lambda: gather_nest(dtype, rank, axis, width, unit), Strategy.SERIAL,
           [moved_handle(out, dtype), moved_handle(source, dtype), index],
           _arguments(source.shape[axis], index, source, out))


def _count_shared_dims(index: Any, axis: int) -> int:
    """Return the number of last dimensions that share their indices; 0 if they have too few elements for a loop."""
    count, together = 0, 1
    for k, step in reversed(list(enumerate(element_strides(index)))):
        if k == axis or step:
            break
        count += 1
        together *= index.shape[k]
    return count if together >= _MIN_RUN else 0


def _in_words(out: Any, source: Any, index: Any, dtype: DType) -> tuple[tuple[Any, Any, Any], DType]:
    """Return the arrays and the dtype of a gather of runs with 64 bits as one element, if the runs consist of such."""
    count = _WORD.itemsize // dtype.itemsize
    places = [n for x in (out, source) for n in (x.offset, *x.strides[:-1])]
    if count < 2 or out.strides[-1] != 1 or source.strides[-1] != 1 or any(
            n % count for n in (index.shape[-1], *places)):
        return (out, source, index), dtype
    into, rows = (DeviceArray(x.storage, _WORD, (*x.shape[:-1], x.shape[-1] // count),
                              (*[step // count for step in x.strides[:-1]], 1), x.offset // count)
                  for x in (out, source))
    shape = *index.shape[:-1], index.shape[-1] // count
    return (into, rows, DeviceArray(index.storage, index.dtype, shape, index.strides, index.offset)), _WORD


def _fills_groups(state: DeviceState, shape: tuple[int, ...], inner: int) -> bool:
    """Whether a group of lanes should copy each run: they read its index once, and several elements at a time."""
    target = state.runtime.target
    assert target is not None
    return not target.sequential and math.prod(shape[len(shape) - inner:]) >= target.group_size and (
        math.prod(shape[:len(shape) - inner]) >= target.parallelism)


def _gather_rows(state: DeviceState, out: Any, source: Any, index: Any, axis: int, inner: int, dtype: DType,
                 width: DType) -> None:
    """Gather runs of elements that share an index, in the last ``inner`` dimensions."""
    registered = state.runtime.kernels.find("gather", dtype.name, direct=False)
    if registered is not None and axis == 0 and inner == len(index.shape) - 1 and (
            index.shape[1:] == source.shape[1:] and contiguous(source)):
        registered.run([out], [source, index], (axis,), state.stream)
        return
    _launch_rows(state, out, source, index, axis, inner, dtype, width)


def table_rows(state: DeviceState, table: Any, positions: Any, dtype: DType) -> Any:
    """Return the rows of a matrix at valid positions, a contiguous int64 array, by one generated CPU kernel."""
    count, columns = positions.size, table.shape[1]
    out = state.runtime.empty((*positions.shape, columns), dtype, state.stream)
    index = as_strided(positions, (count, columns), (1, 0), 0)
    width = index_dtype(state, [table.size * _words(dtype), out.size * _words(dtype)])
    _launch_rows(state, out.reshape((count, columns)), table, index, 0, 1, dtype, width)
    return out


def _launch_rows(state: DeviceState, out: Any, source: Any, index: Any, axis: int, inner: int, dtype: DType,
                 width: DType, strategy: Strategy | None = None) -> None:
    """Gather runs by a generated kernel; see ``_gather_rows``. Without a strategy, the nest is a program for CPUs."""
    shape, places = index.shape, element_strides(index)
    steps = [element_strides(source), element_strides(out)]
    rows, shared = range(len(shape) - inner), range(len(shape) - inner, len(shape))
    sizes, (read, written) = coalesce(tuple(shape[k] for k in shared), [tuple(s[k] for k in shared) for s in steps])
    unit = read[-1] == written[-1] == 1
    moved = [0 if k == axis else steps[0][k] for k in rows]
    ranks = (len(rows), len(sizes))
    launch(state, ("gather_rows", dtype, ranks, unit, width), lambda: rows_nest(dtype, ranks, unit, width), strategy,
           [moved_handle(out, dtype), moved_handle(source, dtype), index],
           [*(shape[k] for k in rows), *sizes, source.shape[axis], *(places[k] for k in rows), *moved, *read,
            steps[0][axis], *(steps[1][k] for k in rows), *written])


def _words(dtype: DType) -> int:
    """Return the largest number of buffer positions that an element takes."""
    return 2 if dtype.kind == "complex" else 1


def scatter_arrays(
    state: DeviceState, out: Any, index: Any, source: Any, axis: int, dtype: DType, *, add: bool
) -> None:
    """Write ``source`` (read in the index's shape) into ``out`` along ``axis``; indices are valid."""
    name = "scatter_add" if add else "scatter"
    ordered = add and dtype.category > 1 and SETTING.required
    if state.runtime.target is None:
        if ordered and "deterministic" not in state.runtime.profile.features:
            alert_not_deterministic(name, state.device)
        cut = source[tuple(slice(0, n) for n in index.shape)]
        primitive(name, state, name, dtype)([out], [out, index, cut], (axis,), state.stream)
        return
    rank, handle = len(index.shape), kernel_handle if add else moved_handle
    width = index_dtype(state, [n * _words(dtype) for n in (source.size, out.size, index.size)])
    if _scatter_rows(state, out, index, source, axis, dtype, add, width):
        return
    processor = _RUNS.of(state)
    # Ordered additions of integers take less time than atomic ones, even if one thread adds them all.
    ordered = ordered or (add and processor and dtype.kind in ("int", "uint"))
    unit = processor and all(element_strides(x)[-1:] == (1,) for x in (index, out, source))
    launch(
        state,
        (name, dtype, rank, axis, width, unit, ordered),
        lambda: ordered_scatter_nest(dtype, rank, axis, width) if ordered
        else scatter_nest(dtype, rank, axis, width, add=add, unit=unit),
        Strategy.SERIAL,
        [handle(out, dtype), handle(source, dtype), index],
        _arguments(out.shape[axis], index, out, source),
    )


def combine_arrays(state: DeviceState, out: Any, index: Any, source: Any, axis: int, dtype: DType, mode: str) -> None:
    """Combine ``source`` (read in the index's shape) with ``out`` along ``axis``; indices are valid.

    Args:
        state: A device with a code generator.
        out: Changed in place.
        index: Positions.
        source: Values.
        axis: The dimension.
        dtype: Of both; not complex.
        mode: ``sum``, ``prod``, ``amax`` or ``amin``.
    """
    rank = len(index.shape)
    width = index_dtype(state, [source.size, out.size, index.size])
    launch(state, ("scatter_ordered", mode, dtype, rank, axis, width),
           lambda: ordered_scatter_nest(dtype, rank, axis, width, mode), Strategy.SERIAL,
           [kernel_handle(out, dtype), kernel_handle(source, dtype), index],
           _arguments(out.shape[axis], index, out, source))
