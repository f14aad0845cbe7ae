"""Selection, search, order, sets."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensocket_operators as core
from tensocket_core.dispatch.call import call
from tensocket_operators.sorting.unique import groups
from tensocket_plugins.contract.errors import ArgumentError

from .promotion import common, is_array, together


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """Return the slices at positions along an axis; an array with one axis needs no ``axis``."""
    along = (0 if axis is None else axis) % x.ndim
    flat = core.index_select(x, along, _from_start(indices, x.shape[along]).reshape(-1))
    return flat.reshape((*x.shape[:along], *indices.shape, *x.shape[along + 1:]))


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    """Return the elements at positions along an axis, one position for each element of the result."""
    return core.take_along_dim(x, _from_start(indices, x.shape[axis]), axis)


def _from_start(indices: Any, size: int) -> Any:
    """Convert negative positions, which count from the end."""
    wide = indices.to(core.int64)
    return core.where(wide < 0, wide + size, wide)


def _position(operator: Any, x: Any, axis: int | None, keepdims: bool) -> Any:
    if axis is not None:
        return operator(x, axis, keepdims)
    found = operator(x.reshape(-1), 0)
    return found.reshape((1,) * x.ndim) if keepdims else found


def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """Return the position of the largest element along an axis, or of all elements in row-major order."""
    return _position(core.argmax, x, axis, keepdims)


def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """Return the position of the smallest element along an axis, or of all elements in row-major order."""
    return _position(core.argmin, x, axis, keepdims)


def count_nonzero(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the number of elements that are not zero."""
    hit = (x != 0).to(core.int64)
    return hit if axis == () else core.sum(hit, axis, keepdims)


def nonzero(x: Any, /) -> tuple[Any, ...]:
    """Return the positions of the elements that are not zero, one array for every axis.

    Raises:
        ArgumentError: The array has no axes.
    """
    if x.ndim == 0:
        raise ArgumentError("nonzero", "a 0-dimensional array", "positions are those along axes", "reshape it to (1,)")
    return tuple(core.nonzero(x, as_tuple=True))


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Any:
    """Return the positions at which inserting elements of x2 keeps x1 sorted."""
    edges, values = together(x1, x2)
    return core.searchsorted(edges, values, side=side, sorter=None if sorter is None else sorter.to(core.int64))


def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """Return x1 where the condition holds, else x2."""
    if not is_array(x1) and not is_array(x2):
        dtype = common(core.full((), x1, device=condition.device), x2)
        x1, x2 = (core.full((), x, dtype=dtype, device=condition.device) for x in (x1, x2))
    return core.where(condition, *together(x1, x2))


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """Return the positions of the elements in sorted order along an axis."""
    return core.argsort(x, axis, descending, stable=stable)


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """Return the elements in sorted order along an axis."""
    return core.sort(x, axis, descending, stable=stable).values


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Any:
    """Return whether each element of x1 occurs (or does not) in x2."""
    return core.isin(*together(x1, x2), invert=invert)


class UniqueAll(NamedTuple):
    """The result of ``unique_all``."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """The result of ``unique_counts``."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """The result of ``unique_inverse``."""

    values: Any
    inverse_indices: Any


def unique_all(x: Any, /) -> UniqueAll:
    """Return distinct elements, their first positions, each element's position among them, and their counts."""
    return UniqueAll(*call(groups, x.detach(), None, False))


def unique_counts(x: Any, /) -> UniqueCounts:
    """Return distinct elements and their counts."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Any, /) -> UniqueInverse:
    """Return distinct elements and each element's position among them."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Any, /) -> Any:
    """Return distinct elements."""
    return unique_all(x).values
