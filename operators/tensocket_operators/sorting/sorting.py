"""Sorting, the largest elements, and search in sorted sequences."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.results import named_result
from tensocket_core.geometry import normalize_axis
from tensocket_core.keys import DTYPE_MASK, DTYPE_OF, dtype_bit
from tensocket_core.promotion import promote_types
from tensocket_core.tensor import Tensor, wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentError, ShapeError
from tensocket_plugins.contract.launch_recorder import is_recording

from ..indexing.gather_scatter import checked_index, gather_valid
from ..kinds.composite import composite
from ..kinds.multi_kernel import SequenceOperator
from ..kinds.programs import Programs
from ..scans.scans import gather_found
from .bitonic_kernel import sorted_positions
from .searchsorted_kernel import search_rows
from .selection_kernel_cpu import Rule, selected_positions
from .topk_kernel_cpu import top_positions

_FIRST: Final = Programs("topk", cpu=True, simt=False)
_SELECTION: Final = Programs("select", cpu=True, simt=False)


def _order(x: Any, dim: int, descending: bool, count: int) -> Any:
    """Return the first ``count`` positions in stable order (-1 for all); NaN is the largest element."""
    if not x.ndim:
        return np.zeros((), np.int64)
    if not descending:
        found = np.argsort(x, dim, kind="stable").astype(np.int64, copy=False)
    else:
        backwards = np.argsort(np.flip(x, dim), dim, kind="stable")
        found = np.flip(x.shape[dim] - 1 - backwards, dim).astype(np.int64)
    return found if count < 0 else found[(slice(None),) * dim + (slice(count),)]


def _generated_order(input: Any, dim: int, descending: bool, count: int) -> Any:
    state, dtype = input._device_state, input.dtype
    if input.ndim and 0 < count <= input.shape[dim] and _FIRST.of(state) and input._array.size and not is_recording():
        array = top_positions(state, input._array, dtype, dim, count, descending)
        if array is not None:
            return wrap(array, state.key | dtype_bit(dtypes.int64)).movedim(-1, dim).contiguous()
    array = sorted_positions(state, input._array, dtype, dim, descending, count)
    return wrap(array, state.key | dtype_bit(dtypes.int64))


def _order_shape(input: Any, dim: int, descending: bool, count: int) -> Any:
    return input if count < 0 or not input else (*input[:dim], count, *input[dim + 1:])


#: Elements from which sorting digit by digit is faster than NumPy.
_MANY: Final = 2048

order: Final[SequenceOperator] = SequenceOperator(
    "argsort(Tensor input, int dim, bool descending, int count) -> Tensor",
    "Positions in stable order: the first ``count``, or all for -1.", _order, _generated_order, kinds="bif",
    shape=_order_shape, result="int64", label="sort", method=False, function=False,
    many=_MANY, replayable=True)


def _rank(numbers: Any, size: int, rule: Rule, rank: int) -> Any:
    """Return the rank that a rule selects in rows of ``size`` elements, of which ``numbers`` are not NaN."""
    if rule == "kth":
        return numbers * 0 + rank
    if rule == "nanmedian":
        return (numbers - (numbers > 0) * 1) // 2
    return numbers + (numbers == size) * ((size - 1) // 2 - size)


def _selected(x: Any, dim: int, rule: Rule, rank: int) -> Any:
    places = np.argsort(x, dim, kind="stable")
    wanted = _rank((x == x).sum(dim, keepdims=True), x.shape[dim], rule, rank)
    return np.take_along_axis(places, wanted, dim).astype(np.int64, copy=False)


def _generated_selection(input: Any, dim: int, rule: Rule, rank: int) -> Any:
    state = input._device_state
    if _SELECTION.of(state):
        array = selected_positions(state, input._array, input.dtype, dim, rule, rank)
        return wrap(array, state.key | dtype_bit(dtypes.int64))
    places = functions.argsort(input, dim)
    if rule == "kth" or not input.dtype.is_floating_point:
        return places.narrow(dim, _rank(input.shape[dim], input.shape[dim], rule, rank), 1).contiguous()
    numbers = (input == input).sum(dim, True)
    return call(gather_valid, places, dim, _rank(numbers, input.shape[dim], rule, rank))


#: See ``selection_kernel_cpu.Rule``; the input has at least one dimension, and ``dim`` has elements.
selection: Final[SequenceOperator] = SequenceOperator(
    "select_position(Tensor input, int dim, str rule, int rank) -> Tensor",
    "Positions of the elements of a rank in stable order, with size 1 along dim.", _selected, _generated_selection,
    kinds="bif", shape=lambda x, dim, rule, rank: (*x[:dim], 1, *x[dim + 1:]), result="int64", label="median",
    method=False, function=False, many=1, replayable=True)

#: Results of ``sort`` and ``topk``, under PyTorch's names.
SortResult: Final = named_result("sort", ("values", "indices"))
TopkResult: Final = named_result("topk", ("values", "indices"))


@composite("argsort(Tensor input, int dim=-1, bool descending=False, *, bool stable=False) -> Tensor")
def argsort(input: Any, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Any:
    """Return the positions of the sorted elements along a dimension; always stable, NaN counts as the largest."""
    return call(order, input.detach(), normalize_axis("argsort", dim, input.ndim), descending, -1)


@composite("sort(Tensor input, int dim=-1, bool descending=False, *, bool stable=False) -> any")
def sort(input: Any, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Any:
    """Sort along a dimension; return elements and their positions. Always stable, NaN counts as the largest."""
    return SortResult(*gather_found(order, input, normalize_axis("sort", dim, input.ndim), descending, -1))


@composite("topk(Tensor input, int k, int dim=-1, bool largest=True, bool sorted=True) -> any")
def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Return the k largest (or smallest) elements along a dimension, in order, and their positions.

    Raises:
        ArgumentError: The dimension has fewer elements than k.
    """
    axis = normalize_axis("topk", dim, input.ndim)
    size = input.shape[axis] if input.ndim else 1
    if not 0 <= k <= size:
        raise ArgumentError("topk", f"k={k} of {size} elements", "k lies between 0 and the dimension's size",
                            "pass a smaller k")
    indices = call(order, input.detach(), axis, largest, k)
    if input.ndim == 0:
        return TopkResult(input.clone(), indices)
    return TopkResult(call(gather_valid, input, axis, indices), indices)


# ----------------------------------------------------------------------------------------------------------- search


def _search(edges: Any, values: Any, right: bool, sorter: Any) -> Any:
    side: Any = "right" if right else "left"
    if sorter is not None:
        edges = np.take_along_axis(edges, sorter, -1)
    if edges.ndim == 1:
        return np.asarray(np.searchsorted(edges, values, side), np.int64)
    if not values.size:
        return np.zeros(values.shape, np.int64)
    rows = edges.reshape(-1, edges.shape[-1]) if edges.size else edges.reshape(math.prod(edges.shape[:-1]), 0)
    wanted = values.reshape(len(rows), values.shape[-1])
    found = [np.searchsorted(row, value, side) for row, value in zip(rows, wanted, strict=True)]
    return np.array(found, np.int64).reshape(values.shape)


def _generated_search(edges: Any, values: Any, right: bool, sorter: Any) -> Any:
    if sorter is not None:
        edges = call(gather_valid, edges, edges.ndim - 1, sorter)
    shape, state = tuple(values.shape), values._device_state
    length, rows = edges.shape[-1], math.prod(edges.shape[:-1])
    table = edges.reshape(rows, length).contiguous()
    wanted = values.reshape(rows, values.numel() // rows if rows else 0).contiguous()
    found = search_rows(state, table._array, wanted._array, edges.dtype, right)
    return wrap(found, state.key | dtype_bit(dtypes.int64)).reshape(shape)


#: Number of values from which a kernel searches faster than NumPy.
_WANTED: Final = 256

places: Final[SequenceOperator] = SequenceOperator(
    "searchsorted(Tensor edges, Tensor values, bool right, Tensor? sorter) -> Tensor",
    "Positions at which values keep a sequence sorted.", _search, _generated_search,
    shape=lambda edges, values, right, sorter: values, result="int64", kinds="bif", method=False, function=False,
    many=_WANTED, counted=1)


def _search_path(key: int, state: Any, next_path: Any) -> Any:
    """Return ``search(edges, values, side)`` for a vector of edges and few values of its dtype; None without NumPy."""
    dtype = DTYPE_OF.get(key & DTYPE_MASK)
    if dtype is None or not dtype.native or dtype.kind not in ("bool", "int", "uint", "float"):
        return None
    result = state.key | dtype_bit(dtypes.int64)

    def search(edges: Any, values: Any, right: bool) -> Any:
        x, y = edges._array, values._array
        if x.ndim != 1 or y.size >= _WANTED:
            return None
        return wrap(np.asarray(x.searchsorted(y, "right" if right else "left"), np.int64), result)

    return search


def _searchsorted_path(key: int, state: Any, next_path: Any) -> Any:
    search = _search_path(key, state, next_path)

    def host_searchsorted(sorted_sequence: Any, input: Any, *, out_int32: bool = False, right: bool = False,
                          side: str | None = None, sorter: Any = None) -> Any:
        if type(input) is Tensor and side is None and sorter is None and not out_int32:
            found = search(sorted_sequence, input, right)
            if found is not None:
                return found
        return next_path(sorted_sequence, input, out_int32=out_int32, right=right, side=side, sorter=sorter)

    return search and host_searchsorted


def _bucketize_path(key: int, state: Any, next_path: Any) -> Any:
    search = _search_path(key, state, next_path)

    def host_bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
        if type(input) is Tensor and not out_int32:
            found = search(boundaries, input, right)
            if found is not None:
                return found
        return next_path(input, boundaries, out_int32=out_int32, right=right)

    return search and host_bucketize


@composite("searchsorted(Tensor sorted_sequence, Operand input, *, bool out_int32=False, bool right=False, "
           "str? side=None, Tensor? sorter=None) -> Tensor", method=False, host_path=_searchsorted_path)
def searchsorted(sorted_sequence: Any, input: Any, *, out_int32: bool = False, right: bool = False,
                 side: str | None = None, sorter: Any = None) -> Any:
    """Return where to insert ``input`` into the sorted last dimension of ``sorted_sequence``; right: after equals.

    Raises:
        ArgumentError: ``side`` is unknown, or contradicts ``right``.
        ShapeError: Sequence and values have different leading sizes.
    """
    if side not in (None, "left", "right") or (side == "left" and right):
        raise ArgumentError("searchsorted", f"side={side!r}, right={right}", "the side is 'left' or 'right', "
                            "and right=True means 'right'", "pass side alone")
    number = not hasattr(input, "_key")
    values = sorted_sequence.new_tensor(input) if number else input
    lead = tuple(sorted_sequence.shape[:-1])
    if sorted_sequence.ndim != 1 and (sorted_sequence.ndim == 0 or tuple(values.shape[:-1]) != lead or not values.ndim):
        raise ShapeError("searchsorted", f"a sequence of shape {list(sorted_sequence.shape)} for values of shape "
                         f"{list(values.shape)}", "a sequence is a vector or has the values' leading sizes",
                         "expand the sequence")
    if sorter is not None and tuple(sorter.shape) != tuple(sorted_sequence.shape):
        raise ShapeError("searchsorted", f"a sorter of shape {list(sorter.shape)}",
                         "the sorter has the sequence's shape", "pass the sequence's argsort")
    if sorter is not None:
        sorter = checked_index("searchsorted", sorter, sorted_sequence.shape[-1])
    common = promote_types(sorted_sequence.dtype, values.dtype)
    found = call(places, sorted_sequence.detach().to(common), values.detach().to(common), right or side == "right",
                 sorter)
    return found.to(dtypes.int32) if out_int32 else found


@composite("bucketize(Operand input, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
           method=False, host_path=_bucketize_path)
def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """Return the index of the interval between boundaries that contains each element."""
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)
