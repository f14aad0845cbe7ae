"""Order: sorting, the largest elements, search in sorted sequences, distinct elements, membership."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, ShapeError

from ..dispatch.call import call
from ..dispatch.composite import composite
from ..execute.geometry import normalize_axis
from ..execute.host import HostOperator, same_shape
from .scan import picked


def _order(x: Any, dim: int, descending: bool) -> Any:
    """Positions in stable order; NaN is the largest element."""
    if not x.ndim:
        return np.zeros((), np.int64)
    if not descending:
        return np.argsort(x, dim, kind="stable").astype(np.int64, copy=False)
    backwards = np.argsort(np.flip(x, dim), dim, kind="stable")
    return np.flip(x.shape[dim] - 1 - backwards, dim).astype(np.int64)


order: Final[HostOperator] = HostOperator(
    "argsort(Tensor input, int dim, bool descending) -> Tensor", "Positions in stable order.", _order, kinds="bif",
    shape=same_shape, result="int64", label="sort", method=False, function=False)

#: What ``sort`` and ``topk`` return, under PyTorch's names.
SortResult: Final = namedtuple("sort", ("values", "indices"))  # type: ignore[name-match]
TopkResult: Final = namedtuple("topk", ("values", "indices"))  # type: ignore[name-match]


@composite("argsort(Tensor input, int dim=-1, bool descending=False, *, bool stable=False) -> Tensor")
def argsort(input: Any, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Any:
    """Positions of the elements in order along a dimension; always stable, NaN counts as the largest."""
    return call(order, input.detach(), normalize_axis("argsort", dim, input.ndim), descending)


@composite("sort(Tensor input, int dim=-1, bool descending=False, *, bool stable=False) -> any")
def sort(input: Any, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Any:
    """Elements in order along a dimension, and where they were; always stable, NaN counts as the largest."""
    return SortResult(*picked(order, input, normalize_axis("sort", dim, input.ndim), descending))


@composite("topk(Tensor input, int k, int dim=-1, bool largest=True, bool sorted=True) -> any")
def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The k largest (or smallest) elements along a dimension, in order, and where they were.

    Raises:
        ArgumentError: The dimension has fewer elements than k.
    """
    axis = normalize_axis("topk", dim, input.ndim)
    size = input.shape[axis] if input.ndim else 1
    if not 0 <= k <= size:
        raise ArgumentError("topk", f"k={k} of {size} elements", "k lies between 0 and the dimension's size",
                            "pass a smaller k")
    indices = call(order, input.detach(), axis, largest)
    if input.ndim == 0:
        return TopkResult(input.clone(), indices)
    indices = indices.narrow(axis, 0, k)
    return TopkResult(input.gather(axis, indices), indices.contiguous())


# ----------------------------------------------------------------------------------------------------------- search


def _search(edges: Any, values: Any, right: bool, sorter: Any) -> Any:
    side: Any = "right" if right else "left"
    if sorter is not None:
        edges = np.take_along_axis(edges, sorter, -1)
    if edges.ndim == 1:
        return np.asarray(np.searchsorted(edges, values, side), np.int64)
    rows = edges.reshape(-1, edges.shape[-1])
    wanted = values.reshape(len(rows), values.shape[-1])
    found = [np.searchsorted(row, value, side) for row, value in zip(rows, wanted, strict=True)]
    return np.array(found, np.int64).reshape(values.shape)


places: Final[HostOperator] = HostOperator(
    "searchsorted(Tensor edges, Tensor values, bool right, Tensor? sorter) -> Tensor",
    "Positions at which values keep a sequence sorted.", _search,
    shape=lambda edges, values, right, sorter: values, result="int64", kinds="bif", method=False, function=False)


@composite("searchsorted(Tensor sorted_sequence, Operand input, *, bool out_int32=False, bool right=False, "
           "str? side=None, Tensor? sorter=None) -> Tensor", method=False)
def searchsorted(sorted_sequence: Any, input: Any, *, out_int32: bool = False, right: bool = False,
                 side: str | None = None, sorter: Any = None) -> Any:
    """Positions at which ``input`` keeps the last dimension of ``sorted_sequence`` sorted; right: behind equals.

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
    found = call(places, sorted_sequence.detach(), values.detach(), right or side == "right", sorter)
    return found.to(dtypes.int32) if out_int32 else found


@composite("bucketize(Operand input, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
           method=False)
def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """The interval between boundaries that each element lies in."""
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


# ----------------------------------------------------------------------------------------------- distinct elements


def _slices(x: Any, dim: int | None) -> Any:
    """What is compared: elements, or whole slices along a dimension as rows."""
    return x.reshape(-1, 1) if dim is None else np.moveaxis(x, dim, 0).reshape(x.shape[dim], -1)


def _runs(rows: Any) -> Any:
    """Where rows differ from the row before; NaN differs from everything."""
    return np.concatenate([np.ones(min(len(rows), 1), bool), (rows[1:] != rows[:-1]).any(1)])


def _chosen(x: Any, dim: int | None, first: Any) -> Any:
    return x.reshape(-1)[first] if dim is None else np.take(x, first, dim)


def _unique(x: Any, dim: int | None, consecutive: bool) -> tuple[Any, Any, Any, Any]:
    """Distinct elements in order, first positions, the group of every element, and the groups' sizes."""
    rows = _slices(x, dim)
    order = np.arange(len(rows)) if consecutive else np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(len(rows))
    starts = _runs(rows[order])
    first = order[starts]
    inverse = np.empty(len(rows), np.int64)
    inverse[order] = np.cumsum(starts) - 1
    counts = np.diff(np.append(np.flatnonzero(starts), len(rows)))
    shaped = inverse.reshape(x.shape) if dim is None else inverse
    return _chosen(x, dim, first), first.astype(np.int64), shaped, counts.astype(np.int64)


groups: Final[HostOperator] = HostOperator(
    "unique(Tensor input, int? dim, bool consecutive) -> any",
    "Distinct elements, first positions, groups, counts.", _unique, shape=None, method=False, function=False)


def _asked(found: tuple[Any, ...], inverse: bool, counts: bool) -> Any:
    results = (found[0], *([found[2]] if inverse else []), *([found[3]] if counts else []))
    return results if len(results) > 1 else results[0]


@composite("unique(Tensor input, bool sorted=True, bool return_inverse=False, bool return_counts=False, "
           "int? dim=None) -> any")
def unique(input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
           dim: int | None = None) -> Any:
    """Distinct elements in order, or distinct slices along a dimension; each NaN is distinct.

    Returns:
        The elements; with ``return_inverse`` the group of every element; with ``return_counts`` the groups' sizes.
    """
    axis = None if dim is None else normalize_axis("unique", dim, input.ndim)
    return _asked(call(groups, input.detach(), axis, False), return_inverse, return_counts)


@composite("unique_consecutive(Tensor input, bool return_inverse=False, bool return_counts=False, "
           "int? dim=None) -> any")
def unique_consecutive(input: Any, return_inverse: bool = False, return_counts: bool = False,
                       dim: int | None = None) -> Any:
    """The first of every run of equal elements, or of equal slices along a dimension; results as of ``unique``."""
    axis = None if dim is None else normalize_axis("unique_consecutive", dim, input.ndim)
    return _asked(call(groups, input.detach(), axis, True), return_inverse, return_counts)


membership: Final[HostOperator] = HostOperator(
    "isin(Tensor elements, Tensor test_elements) -> Tensor", "Whether elements occur among others.",
    lambda x, y: np.isin(x, y), shape=same_shape, result="bool", method=False, function=False)


@composite("isin(Operand elements, Operand test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
           method=False)
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:
    """Whether each element occurs (or, inverted, does not occur) among ``test_elements``.

    Raises:
        ArgumentTypeError: Both are numbers.
    """
    tensor = next((x for x in (elements, test_elements) if hasattr(x, "_key")), None)
    if tensor is None:
        raise ArgumentTypeError("isin", "two numbers", "one of both is a tensor", "compare numbers with ==")
    pair = [x.detach() if hasattr(x, "_key") else tensor.new_tensor(x) for x in (elements, test_elements)]
    found = call(membership, *pair)
    return found.logical_not() if invert else found
