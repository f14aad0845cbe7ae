"""Advanced indexing: positions of nonzero elements, masks, and several index tensors at once."""

from __future__ import annotations

import math
import warnings
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.dispatch import lazy
from tensocket_core.dispatch.blame import blame
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.dispatch.versions import bump, check_writable
from tensocket_core.geometry import broadcast_shapes, owner_of
from tensocket_core.keys import LAZY, dtype_bit
from tensocket_core.meta import missing_data
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import (
    DeviceMismatch,
    DimensionError,
    DtypeError,
    IndexDtypeError,
    IndexOutOfRange,
    ShapeError,
)
from tensocket_plugins.kit.host_memory import call_pooled

from ..kinds.composite import composite
from ..kinds.inplace import check_separate
from ..kinds.pointwise import Pointwise
from ..kinds.private import own, part_from_base
from . import kernel
from .gather_scatter import check_reach, checked_index, gather_valid, rows_index, scatter_valid
from .small_selections import coordinates, nonzero_path


@composite("nonzero(Tensor input, *, bool as_tuple=False) -> any", host_path=nonzero_path)
def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """Return the positions of nonzero elements, one row each, in row-major order; their number depends on the data."""
    if as_tuple and input.ndim == 0:
        input = input.reshape(1)
    if not input._device_state.holds_data:
        raise missing_data("nonzero", f"a meta tensor of shape {list(input.shape)}")
    if input._device_state.runtime.profile.host_resident:
        state = input._device_state
        result = wrap(call_pooled("nonzero", coordinates, input._values()), state.key | dtype_bit(dtypes.int64))
    else:
        result = _coordinates(_true_positions((input.detach() != 0).reshape(-1)), tuple(input.shape))
    return tuple(result.select(1, k) for k in range(result.shape[1])) if as_tuple else result


def _true_positions(mask: Any) -> Any:
    """Return the positions of true elements of a vector in order; a running count gives the place of each."""
    size, count = mask.numel(), _running_count(mask)
    total = int(count.select(0, size - 1).item()) if size else 0
    # Elements that are not true all go to one spare place at the end.
    target = functions.where(mask, count - 1, total)
    positions = mask.new_zeros(total + 1, dtype=dtypes.int64)
    return call(scatter_valid, positions, 0, target, mask.new_arange(0, size, 1), False).narrow(0, 0, total)


def _running_count(mask: Any) -> Any:
    """Return the number of true elements up to each one; without a code generator, in passes that double the range."""
    count = mask.to(dtypes.int64)
    if mask._device_state.runtime.target is not None:
        return functions.cumsum(count, 0)
    size, step = mask.numel(), 1
    while step < size:
        count = functions.cat(
            [count.narrow(0, 0, step), count.narrow(0, step, size - step) + count.narrow(0, 0, size - step)]
        )
        step *= 2
    return count


def _coordinates(position: Any, shape: tuple[int, ...]) -> Any:
    """Return row-major positions as one row of indices each."""
    if not shape:
        return position.new_zeros(position.shape[0], 0)
    columns = []
    for size in reversed(shape):
        columns.append(position % max(size, 1))
        position = position.floor_divide(max(size, 1))
    return functions.stack(columns[::-1], 1)


def _index_on_device(input: Any, index: Any) -> Any:
    """Return an index tensor on the input's device; only index tensors on the host are moved.

    Raises:
        DeviceMismatch: The index tensor is on another device.
    """
    if index._device_state is not input._device_state and not index._device_state.runtime.profile.host_resident:
        raise DeviceMismatch(
            "index",
            f"an index on {index.device} for a tensor on {input.device}",
            "index tensors are on the tensor's device or on the host",
            "move it with .to(device) first",
        )
    return index.to(input.device)


#: The position in two flattened dimensions, of which the second one has a size.
combined_position: Final = Pointwise(
    "combined_position(Tensor input, Operand size, Tensor other) -> Tensor", "input * size + other, for positions.",
    lambda m, position, size, other: position * size + other, kinds="i", launched=True, method=False, function=False)


class _Selection:
    """Index tensors over some dimensions of a tensor, as positions in its flattened indexed dimensions."""

    def __init__(self, input: Any, indices: tuple[Any, ...]) -> None:
        used = [k for k, index in enumerate(indices) if index is not None]
        if not used:
            raise IndexOutOfRange("index", "no index tensor", "there is at least one", "copy_ writes all elements")
        shapes = [indices[k]._array.shape for k in used]
        try:
            self.shape = broadcast_shapes("index", shapes)
        except ShapeError as error:
            raise IndexOutOfRange(
                "index", error.given, "index tensors broadcast to one shape", "reshape the indices"
            ) from None
        rest = [k for k in range(input.ndim) if k not in used]
        self.order = (*used, *rest)
        self.sizes = tuple(input._array.shape[k] for k in used)
        self.rest = tuple(input._array.shape[k] for k in rest)
        adjacent = used == list(range(used[0], used[-1] + 1))
        #: Position of the broadcast index dimensions in the result: that of adjacent ones, else the front.
        self.place = used[0] if adjacent else 0
        self.position = self._linear(input, [indices[k] for k in used])

    def _linear(self, input: Any, chosen: list[Any]) -> Any:
        position: Any = None
        for index, size in zip(chosen, self.sizes, strict=True):
            if index.dtype.kind not in ("int", "uint"):
                raise IndexDtypeError("index", f"an index tensor of dtype {index.dtype.name}",
                                      "tensors that index are of integers or bools", "convert it with .long()")
            valid = _index_on_device(input, checked_index("index", index, size, negative=True))
            position = valid if position is None else call(combined_position, position, size, valid)
        return position.expand(self.shape).reshape(-1)

    def rows(self, input: Any) -> Any:
        """Return the tensor as [indexed positions, everything else]."""
        return input.permute(self.order).reshape((math.prod(self.sizes), math.prod(self.rest)))

    def unrows(self, rows: Any) -> Any:
        """Return the tensor from its rows: the inverse of ``rows``."""
        inverse = [0] * len(self.order)
        for k, dim in enumerate(self.order):
            inverse[dim] = k
        return rows.reshape((*self.sizes, *self.rest)).permute(inverse)

    def _axes(self) -> tuple[int, ...]:
        """Return the permutation from [index dims, rest] to the result's order."""
        count = len(self.shape)
        rest = tuple(range(count, count + len(self.rest)))
        return (*rest[:self.place], *range(count), *rest[self.place:])

    def result(self, rows: Any) -> Any:
        """Return selected rows in the shape of the result."""
        axes, front = self._axes(), (*self.shape, *self.rest)
        if sorted(moved := [k for k in axes if front[k] != 1]) == moved:
            # Only dimensions of size 1 move: a reshape gives them the strides of a new tensor.
            return rows.reshape(tuple(front[k] for k in axes))
        return rows.reshape(front).permute(axes)

    def values(self, value: Any) -> Any:
        """Return a value to write, as selected rows."""
        axes = self._axes()
        front = (*self.shape, *self.rest)
        wide = trimmed(value, len(axes)).expand(tuple(front[k] for k in axes))
        inverse = [0] * len(axes)
        for k, axis in enumerate(axes):
            inverse[axis] = k
        return wide.permute(inverse).reshape((self.position.numel(), math.prod(self.rest)))


def trimmed(value: Any, rank: int) -> Any:
    """Return a value without the leading dimensions of size 1 that exceed ``rank``."""
    lead = value.ndim - rank
    return value.reshape(tuple(value.shape[lead:])) if lead > 0 and all(n == 1 for n in value.shape[:lead]) else value


def _expanded(input: Any, indices: Any) -> tuple[Any, ...]:
    """Return one index tensor or None per dimension; positions replace bool masks."""
    result: list[Any] = []
    for index in indices:
        if index is not None and index.dtype in _MASKS:
            span = tuple(input._array.shape[len(result):len(result) + index.ndim])
            if tuple(index.shape) != span:
                raise IndexOutOfRange(
                    "index",
                    f"a mask of shape {list(index.shape)} for dimensions of sizes {list(span)}",
                    "a mask has the shape of the dimensions that it indexes",
                    "check the mask's shape",
                )
            if index.dtype is dtypes.uint8:
                warnings.warn("[index] a mask of dtype uint8 — masks are of bools, uint8 masks are deprecated — "
                              "convert it with .bool()", UserWarning, stacklevel=2)
            result.extend(index.nonzero(as_tuple=True))
        else:
            result.append(index)
    if len(result) > input.ndim:
        raise DimensionError("index", f"{len(result)} indices for a {input.ndim}-dimensional tensor",
                             "there is at most one index per dimension", "remove indices")
    return (*result, *(None,) * (input.ndim - len(result)))


def _flattened(input: Any, indices: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the same selection with flattened masks of several dimensions, whose positions are found faster."""
    result: list[Any] = []
    for index in indices:
        last = len(result) + (0 if index is None else index.ndim)
        if (index is not None and index.dtype is dtypes.bool_ and index.ndim > 1
                and tuple(index.shape) == tuple(input.shape[len(result):last])):
            input = input.flatten(len(result), last - 1)
            index = index.reshape(-1)
        result.append(index)
    return input, tuple(result)


def _by_position(indices: Any) -> tuple[Any, ...] | None:
    """Return the dimensions with an index tensor, as bits, and the tensors; None for masks and for too many tensors."""
    used, given = 0, []
    for k, x in enumerate(indices):
        if x is not None:
            if x.dtype in _MASKS:
                return None
            used |= 1 << k
            given.append(x)
    if not 0 < len(given) <= _INDICES:
        return None
    return used, *given, *(None,) * (_INDICES - len(given))


def _listed(used: int, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return index tensors by dimension: the inverse of ``_by_position``."""
    rest = iter(given)
    return tuple([next(rest) if used >> k & 1 else None for k in range(used.bit_length())])


_MASKS: Final = frozenset({dtypes.bool_, dtypes.uint8})
#: Most index tensors of the operators that take them one by one, so that their launches can be replayed.
_INDICES: Final = 4


@composite("index_by_position(Tensor input, int used, Tensor? first, Tensor? second, Tensor? third, Tensor? fourth)"
           " -> Tensor", method=False, function=False, replayable=True,
           derivative=Derivative(input=lambda grad, input_shape, used, first, second, third, fourth: call(
               COMPOSITES["index_gradient"], grad, input_shape, used, first, second, third, fourth)))
def index_by_position(input: Any, used: int, first: Any, second: Any, third: Any, fourth: Any) -> Any:
    """Return the elements at index tensors of the dimensions in use."""
    return _indexed(input, _listed(used, (first, second, third, fourth)))


def index_tensors(input: Any, indices: Any) -> Any:
    """Return the elements at index tensors (None selects a whole dimension)."""
    given = _by_position(indices)
    return _indexed(input, indices) if given is None else call(COMPOSITES["index_by_position"], input, *given)


def _indexed(input: Any, indices: Any) -> Any:
    input, indices = _flattened(input, indices)
    selection = _Selection(input, _expanded(input, indices))
    rows = selection.rows(input)
    chosen = call(gather_valid, rows, 0, rows_index(selection.position, tuple(rows.shape), 0))
    return part_from_base(selection.result(chosen).contiguous())


@composite("index_put(Tensor input, any indices, Operand values, bool accumulate=False) -> Tensor")
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Return a copy of input with values written (or added) at index tensors."""
    values = values if hasattr(values, "_key") else input.new_full((), values)
    if not values.ndim and values.dtype is not input.dtype:
        values = values.to(input.dtype)
    given = _by_position(indices)
    if given is None:
        return _put(input, indices, values, accumulate)
    return call(COMPOSITES["put_by_position"], input, values, accumulate, *given)


def _put(input: Any, indices: Any, values: Any, accumulate: bool) -> Any:
    selection, value, position = _prepare_put(input, indices, values)
    return selection.unrows(call(scatter_valid, selection.rows(input), 0, position, value, accumulate))


@composite("put_by_position(Tensor input, Tensor values, bool accumulate, int used, Tensor? first, Tensor? second, "
           "Tensor? third, Tensor? fourth) -> Tensor", method=False, function=False, replayable=True,
           derivative=Derivative(
               input=lambda grad, accumulate, used, first, second, third, fourth: grad if accumulate else call(
                   COMPOSITES["put_by_position"], grad, grad.new_zeros(()), False, used, first, second, third, fourth),
               values=lambda grad, used, first, second, third, fourth: call(
                   COMPOSITES["index_by_position"], grad, used, first, second, third, fourth)))
def put_by_position(input: Any, values: Any, accumulate: bool, used: int, first: Any, second: Any,
                    third: Any, fourth: Any) -> Any:
    """Apply ``index_put`` to index tensors of the dimensions in use."""
    return _put(input, _listed(used, (first, second, third, fourth)), values, accumulate)


def _prepare_put(input: Any, indices: Any, values: Any) -> tuple[_Selection, Any, Any]:
    """Return the selection of index tensors, the values as its rows, and an index tensor of their shape."""
    values = values if hasattr(values, "_key") else input.new_full((), values)
    if values.ndim == 0:
        values = values.to(input.dtype)
    with blame("index_put"):
        selection = _Selection(input, _expanded(input, indices))
        if values.dtype is not input.dtype:
            raise DtypeError("index_put", f"values of {values.dtype.name} for input of {input.dtype.name}",
                             "values and input have one dtype", "convert values with .to(dtype)")
        value = selection.values(values.to(input.device))
    return selection, value, rows_index(selection.position, tuple(value.shape), 0)


def write_indices(input: Any, indices: Any, values: Any) -> None:
    """Apply ``index_put_`` unrecorded, and without a copy of the tensor if its rows are views of it.

    Indices and values may be lazily conjugated or negated; the tensor must not be.
    """
    values, *indices = [lazy.resolved(x) if getattr(x, "_key", 0) & LAZY else x for x in (values, *indices)]
    check_writable("index_put_", input)
    check_separate("index_put_", input, *indices, values)
    selection, value, position = _prepare_put(input, indices, values)
    rows = selection.rows(input)
    if (rows if rows._base is None else rows._base) is not (input if input._base is None else input._base):
        input.copy_(selection.unrows(call(scatter_valid, rows, 0, position, value, False)))
        return
    rows, position, value = (own("index_put_", x) for x in (rows, position, value.detach()))
    if value.numel():
        check_reach("index_put_", 0, position, rows._array.shape, value)
        shared = owner_of(value._array) is owner_of(rows._array)  # written and read positions differ
        source = value.clone()._array if shared else value._array
        kernel.scatter_arrays(input._device_state, rows._array, position._array, source, 0, rows.dtype, add=False)
    bump(input)


@composite("index_put_(Tensor! input, any indices, Operand values, bool accumulate=False) -> Tensor", function=False)
def index_put_(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Write (or add) values at index tensors, in place."""
    check_separate("index_put_", input, *indices, values)
    return input.copy_(input.index_put(indices, values, accumulate))
