"""Distinct elements and slices, and membership."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tensocket_core import functions
from tensocket_core.device import DeviceState
from tensocket_core.dispatch.call import call
from tensocket_core.geometry import normalize_axis
from tensocket_core.keys import AUTOGRAD, DTYPE_MASK, DTYPE_OF, dtype_bit
from tensocket_core.launch.entries import served
from tensocket_core.promotion import promote_types, result_type
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentTypeError, DimensionError, ShapeError

from ..array_paths import array_path
from ..differentiation.delayed import without_derivative
from ..indexing.gather_scatter import gather_valid, scatter_valid
from ..kinds.composite import composite
from ..kinds.host_library import same_shape
from ..kinds.multi_kernel import SequenceOperator
from ..kinds.pointwise import kind_letter
from ..scans.scans import running_sum
from .sorting import order, places

#: Number of elements from which a sequence of kernels is faster than NumPy.
_MANY: Final = 8192

# ---------------------------------------------------------------------------------------------------- on the host


def _slices(x: Any, dim: int | None) -> Any:
    """Return the values to compare as rows: elements, or whole slices along a dimension."""
    if dim is None:
        return x.reshape(-1, 1)
    size = x.shape[dim]
    return np.moveaxis(x, dim, 0).reshape(size, x.size // size if size else 1)


def _runs(rows: Any) -> Any:
    """Whether each row differs from the row before; NaN differs from everything."""
    if rows.shape[1] == 1:
        starts = np.empty(len(rows), bool)
        starts[:1] = True
        np.not_equal(rows[1:, 0], rows[:-1, 0], starts[1:])
        return starts
    return np.concatenate([np.ones(min(len(rows), 1), bool), (rows[1:] != rows[:-1]).any(1)])


def _chosen(x: Any, dim: int | None, first: Any) -> Any:
    return x.reshape(-1)[first] if dim is None else np.take(x, first, dim)


def _unique(x: Any, dim: int | None, consecutive: bool) -> tuple[Any, Any, Any, Any]:
    """Return distinct elements in order, first positions, the group of every element, and the groups' sizes."""
    rows = _slices(x, dim)
    if consecutive:
        order = np.arange(len(rows))
    elif rows.shape[1] == 1 and rows.dtype.kind != "c":
        order = rows[:, 0].argsort(kind="stable")
    else:
        order = np.lexsort(rows.T[::-1])
    starts = _runs(rows.take(order, 0))
    first = order[starts]
    inverse = np.empty(len(rows), np.int64)
    inverse[order] = np.cumsum(starts) - 1
    counts = np.diff(np.append(np.flatnonzero(starts), len(rows)))
    shaped = inverse.reshape(x.shape) if dim is None else inverse
    return _chosen(x, dim, first), first.astype(np.int64), shaped, counts.astype(np.int64)


# --------------------------------------------------------------------------------------------------- on a device


def _columns(input: Any, dim: int | None) -> Any:
    """Return the rows of ``_slices``; complex numbers are compared by real, then by imaginary parts."""
    rows = input.reshape(-1, 1)
    if dim is not None:
        size = input.shape[dim]
        rows = input.movedim(dim, 0).reshape(size, input.numel() // size if size else 1)
    if input.dtype.is_complex:
        rows = functions.view_as_real(rows.contiguous()).reshape(rows.shape[0], 2 * rows.shape[1])
    return rows


def _changes(rows: Any) -> Any:
    """Return 1 where an element differs from that of the row before, as int64; the first row has zeros."""
    count = rows.shape[0]
    later, earlier = rows.narrow(0, min(count, 1), max(count - 1, 0)), rows.narrow(0, 0, max(count - 1, 0))
    first = rows.new_zeros((min(count, 1), *rows.shape[1:]), dtype=dtypes.int64)
    return functions.cat([first, (later != earlier).to(dtypes.int64)], 0)


def _ranks(rows: Any) -> Any:
    """Return every element's rank in its column; equal elements have equal ranks."""
    sorting = call(order, rows, 0, False, -1)
    ranks = call(running_sum, _changes(call(gather_valid, rows, 0, sorting)), 0)
    return call(scatter_valid, ranks.new_zeros(tuple(ranks.shape)), 0, sorting, ranks, False)


def _keys(rows: Any) -> Any:
    """Return one number per row, in the rows' lexicographic order, by repeatedly pairing ranks of adjacent columns."""
    count = rows.shape[0]
    while rows.shape[1] > 1:
        ranks = _ranks(rows)
        if ranks.shape[1] % 2:
            ranks = functions.cat([ranks, ranks.new_zeros((count, 1))], 1)
        pairs = ranks.reshape(count, ranks.shape[1] // 2, 2)
        rows = pairs.select(2, 0) * count + pairs.select(2, 1)
    return rows.reshape(-1)


def _written(target: Any, index: Any, source: Any) -> Any:
    return call(scatter_valid, target, 0, index, source, False)


def _groups(input: Any, dim: int | None, consecutive: bool) -> tuple[Any, Any, Any, Any]:
    """Return the results of ``_unique``."""
    rows = _columns(input, dim)
    count = rows.shape[0]
    place = rows.new_arange(0, count, 1)
    if consecutive:
        sorting, changed = place, _changes(rows).amax(1)
    else:
        keys = _keys(rows)
        sorting = call(order, keys, 0, False, -1)
        changed = _changes(call(gather_valid, keys, 0, sorting))
    group = call(running_sum, changed, 0)
    total = int(group.select(0, count - 1).item()) + 1 if count else 0
    # Whether a group begins; other positions of groups go to a spare slot after the last group.
    begins = (changed != 0) | (place == 0)
    starts = _written(place.new_full((total + 1,), count), functions.where(begins, group, total), place).narrow(
        0, 0, total)
    first = call(gather_valid, sorting, 0, starts)
    inverse = _written(group.new_zeros((count,)), sorting, group)
    ends = functions.cat([starts.narrow(0, min(total, 1), max(total - 1, 0)), starts.new_full((min(total, 1),), count)])
    along = (input.reshape(-1), 0) if dim is None else (input, dim)
    shaped = inverse.reshape(tuple(input.shape)) if dim is None else inverse
    return along[0].index_select(along[1], first), first, shaped, ends - starts


groups: Final[SequenceOperator] = SequenceOperator(
    "unique(Tensor input, int? dim, bool consecutive) -> any",
    "Distinct elements, first positions, groups, counts.", _unique, _groups, shape=None, method=False, function=False,
    many=_MANY)


def _asked(operator: str, input: Any, found: tuple[Any, ...], inverse: bool, counts: bool) -> Any:
    values = without_derivative(operator, found[0], input)
    results = (values, *([found[2]] if inverse else []), *([found[3]] if counts else []))
    return results if len(results) > 1 else results[0]


def _axis(operator: str, input: Any, dim: int | None) -> int | None:
    """Return the normalised dimension of the slices.

    Raises:
        ShapeError: Slices have no elements.
        DimensionError: The tensor has no dimensions.
    """
    if dim is None:
        return None
    axis = normalize_axis(operator, dim, input.ndim)
    if input.ndim == 0:
        raise DimensionError(operator, f"dim {dim} of a 0-dimensional tensor", "slices lie along a dim of the tensor",
                             "leave out dim")
    if 0 in input.shape[:axis] or 0 in input.shape[axis + 1:]:
        raise ShapeError(operator, f"a tensor of shape {list(input.shape)}, dim {dim}",
                         "slices that are compared have elements", "choose another dim")
    return axis


def _sorted_groups(x: Any, inverse: bool, counts: bool) -> list[Any]:
    """Return the wanted results of ``_unique`` for a nonempty vector: elements, groups, counts."""
    order = x.argsort(kind="stable") if inverse else None
    values = x.take(order) if inverse else x.copy()
    if order is None:
        values.sort(kind="stable")
    starts = np.empty(x.size, bool)
    starts[0] = True
    np.not_equal(values[1:], values[:-1], starts[1:])
    results = [values[starts]]
    if inverse:
        group = np.empty(x.size, np.int64)
        group[order] = np.add.accumulate(starts, dtype=np.int64) - 1
        results.append(group)
    if counts:
        ends = starts.nonzero()[0]
        count = np.empty(ends.size, np.int64)
        np.subtract(ends[1:], ends[:-1], count[:-1])
        count[-1] = x.size - ends[-1]
        results.append(count)
    return results


def _unique_host_path(key: int, state: DeviceState, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return a closure for the distinct elements of a small tensor."""
    bits = key & DTYPE_MASK
    dtype = DTYPE_OF.get(bits)
    if dtype is None or not served(dtype) or not state.holds_data or key & AUTOGRAD:
        return None
    own, integers = state.key | bits, state.key | dtype_bit(dtypes.int64)

    def direct_unique(input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
                      dim: int | None = None) -> Any:
        x = input._array
        if dim is not None or not 0 < x.size < _MANY:
            return next_path(input, sorted, return_inverse, return_counts, dim)
        found = _sorted_groups(x.reshape(-1), return_inverse, return_counts)
        values = wrap(found[0], own)
        if len(found) == 1:
            return values
        if return_inverse:
            found[1] = found[1].reshape(x.shape)
        return values, *[wrap(part, integers) for part in found[1:]]

    return direct_unique


@composite("unique(Tensor input, bool sorted=True, bool return_inverse=False, bool return_counts=False, "
           "int? dim=None) -> any", host_path=_unique_host_path)
def unique(input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
           dim: int | None = None) -> Any:
    """Return the distinct elements in order, or the distinct slices along a dimension; each NaN is distinct.

    Returns:
        The elements; with ``return_inverse`` the group of every element; with ``return_counts`` the groups' sizes.
    """
    found = call(groups, input.detach(), _axis("unique", input, dim), False)
    return _asked("unique", input, found, return_inverse, return_counts)


def _runs_of_few(input: Any, return_inverse: bool = False, return_counts: bool = False, dim: Any = None) -> Any:
    """Return the first element of every run of an array; NotImplemented if more is asked for."""
    if return_inverse or return_counts or dim is not None or not input.size:
        return NotImplemented
    flat = input.reshape(-1)
    first = np.ones(flat.size, np.bool_)
    np.not_equal(flat[1:], flat[:-1], first[1:])
    return flat[first]


@composite("unique_consecutive(Tensor input, bool return_inverse=False, bool return_counts=False, "
           "int? dim=None) -> any",
           host_path=array_path(_runs_of_few, zero_dim=True))
def unique_consecutive(input: Any, return_inverse: bool = False, return_counts: bool = False,
                       dim: int | None = None) -> Any:
    """Return the first of every run of equal elements, or equal slices along a dimension; results as in ``unique``."""
    found = call(groups, input.detach(), _axis("unique_consecutive", input, dim), True)
    return _asked("unique_consecutive", input, found, return_inverse, return_counts)


# ------------------------------------------------------------------------------------------------------ membership


def _among(elements: Any, tests: Any) -> Any:
    """Search in the sorted test elements, and compare with the elements found."""
    wanted, known = elements, tests.reshape(-1)
    size = known.shape[0]
    if size == 0 or wanted.numel() == 0:
        return wanted.new_zeros(tuple(wanted.shape), dtype=dtypes.bool_)
    known = call(gather_valid, known, 0, call(order, known, 0, False, -1))
    flat = wanted.reshape(-1)
    found = call(places, known, flat, False, None).clamp_max(size - 1)
    return (call(gather_valid, known, 0, found) == flat).reshape(tuple(wanted.shape))



def _occurs(x: Any, y: Any) -> Any:
    if x.size * y.size > _PAIRS:
        return np.isin(x, y)
    return np.logical_or.reduce(x.reshape((-1, 1)) == y.reshape(-1), 1).reshape(x.shape)


#: Most pairs of elements that NumPy compares in less time than it sorts them.
_PAIRS: Final = 1 << 12

membership: Final[SequenceOperator] = SequenceOperator(
    "isin(Tensor elements, Tensor test_elements) -> Tensor", "Whether elements occur among others.",
    _occurs, _among, shape=same_shape, result="bool", kinds="bif", method=False, function=False)


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
    common = result_type((elements, test_elements))
    numbers = [x for x in (elements, test_elements) if not hasattr(x, "_key")]
    if numbers and common.category == 1:
        common = dtypes.int64  # it holds numbers that the tensor's dtype lacks
    pair = [x.detach() if hasattr(x, "_key") else tensor.new_tensor(x, dtype=common)
            for x in (elements, test_elements)]
    common = promote_types(pair[0].dtype, pair[1].dtype)
    wanted, tests = [x.to(common) for x in pair]
    if wanted.numel() * tests.numel() <= _PAIRS and kind_letter(common) in "bif":
        found = (wanted.unsqueeze(-1) == tests.reshape(-1)).any(-1)
    else:
        found = call(membership, wanted, tests)
    return found.logical_not() if invert else found
