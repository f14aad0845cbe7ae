"""Indexing by tensors: gathering, scattering, and several index tensors at once."""

from __future__ import annotations

import math
import warnings
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceMismatch,
    DimensionError,
    DtypeError,
    IndexDtypeError,
    IndexOutOfRange,
    ShapeError,
)

from .. import tensors
from .._generated import functions
from ..autograd.derivative import Derivative
from ..creation import from_values
from ..dispatch.blame import blame
from ..dispatch.call import call
from ..dispatch.composite import composite
from ..dispatch.keys import dtype_bit
from ..execute.copying import converted
from ..execute.geometry import broadcast_shapes, normalize_axis
from ..execute.indexing import gather_arrays, scatter_arrays
from ..execute.inplace import bump, check_writable
from ..execute.views import Custom
from ..meta import missing_data
from .choices import extremes


def checked_index(operator: str, index: Any, size: int, *, negative: bool = False) -> Any:
    """``index`` as int64, checked against a size; with ``negative``, negative indices count from the end.

    Raises:
        DtypeError: The index is not of integers.
        IndexOutOfRange: An index is outside of the dimension.
    """
    if index.dtype.kind not in ("int", "uint"):
        raise DtypeError(
            operator, f"an index of dtype {index.dtype.name}", "indices are integers", "convert it with .long()"
        )
    index = index.detach().to(dtypes.int64)
    if index.numel() == 0 or not index._entry.holds_data:
        return index
    low, high = extremes(index)
    if low < (-size if negative else 0) or high >= size:
        raise IndexOutOfRange(
            operator,
            f"index {low if high < size else high} of a dimension of size {size}",
            f"an index lies between {-size if negative else 0} and {size - 1}",
            "check the index tensor",
        )
    return functions.where(index < 0, index + size, index) if low < 0 else index


def _gather(entry: Any, input: Any, axis: int, index: Any) -> Any:
    out = entry.runtime.empty(index._array.shape, input.dtype, entry.stream)
    if 0 not in index._array.shape:
        gather_arrays(entry, out, input._array, index._array, axis, input.dtype)
    return tensors.wrap(out, entry.key | dtype_bit(input.dtype))


def _scatter(entry: Any, input: Any, axis: int, index: Any, src: Any, add: bool) -> Any:
    # Memory is added to atomically, which no device does for elements narrower than 32 bits.
    dtype = input.dtype
    work = dtype if not add or dtype.itemsize >= 4 else dtypes.float32 if dtype.kind == "float" else dtypes.int32
    out = converted(entry, input._array, dtype, work)
    if 0 not in index._array.shape:
        values = src._array if work is dtype else converted(entry, src._array, dtype, work)
        scatter_arrays(entry, out, index._array, values, axis, work, add=add)
    return tensors.wrap(out if work is dtype else converted(entry, out, work, dtype), entry.key | dtype_bit(dtype))


def _cut(value: Any, shape: tuple[int, ...]) -> Any:
    """The leading corner of a tensor."""
    return value if tuple(value.shape) == shape else value.basic_index(tuple(slice(0, n) for n in shape))


# Both take valid int64 indices of the input's rank; the public forms check.
gather_valid: Final[Custom] = Custom(
    "gather_valid(Tensor input, int axis, Tensor index) -> Tensor",
    "Elements of input at positions along an axis.",
    _gather,
    method=False,
    function=False,
    derivative=Derivative(
        input=lambda grad, input_shape, axis, index: call(
            scatter_valid, grad.new_zeros(input_shape), axis, index, grad, True
        )
    ),
)
scatter_valid: Final[Custom] = Custom(
    "scatter_valid(Tensor input, int axis, Tensor index, Tensor src, bool add) -> Tensor",
    "A copy of input with src written (or added) at positions along an axis.",
    _scatter,
    method=False,
    function=False,
    derivative=Derivative(
        input=lambda grad, axis, index, add: (
            grad if add else call(scatter_valid, grad, axis, index, grad.new_zeros(tuple(index.shape)), False)
        ),
        src=lambda grad, axis, index, src_shape: _padded(call(gather_valid, grad, axis, index), src_shape),
    ),
)


def _padded(grad: Any, shape: tuple[int, ...]) -> Any:
    return grad if tuple(grad.shape) == shape else grad.embed_index(shape, tuple(slice(0, n) for n in grad.shape))


def same_rank(operator: str, input: Any, index: Any, axis: int, *others: Any) -> None:
    """Check shapes of an index tensor and of what it is applied to.

    Raises:
        ShapeError: The ranks differ, or the index is larger than one of the others.
    """
    fits = input.ndim == index.ndim and all(
        n <= x._array.shape[k] for x in (input, *others) for k, n in enumerate(index._array.shape)
        if x.ndim == index.ndim and (x is not input or k != axis))
    if not fits or any(x.ndim != index.ndim for x in others):
        raise ShapeError(
            operator,
            f"input {list(input.shape)}, index {list(index.shape)}, dim {axis}",
            "index has as many dimensions as input, and is nowhere larger except along dim",
            "reshape the index",
        )


@composite("gather(Tensor input, int dim, Tensor index) -> Tensor")
def gather(input: Any, dim: int, index: Any) -> Any:
    """out[i, j] = input[index[i, j], j] for dim=0, and likewise for other dims and ranks."""
    axis = normalize_axis("gather", dim, input.ndim)
    if input.ndim == 0:
        return input.reshape(1).gather(0, index.reshape(-1)).reshape(tuple(index.shape))
    same_rank("gather", input, index, axis)
    return call(gather_valid, input, axis, checked_index("gather", index, input._array.shape[axis]))


def _scattered(operator: str, input: Any, dim: int, index: Any, src: Any, add: bool) -> Any:
    axis = normalize_axis(operator, dim, input.ndim)
    if not hasattr(src, "_key"):
        src = input.new_full(tuple(index.shape), src)
    if input.ndim == 0:
        return _scattered(operator, input.reshape(1), 0, index.reshape(-1), src.reshape(-1), add).reshape(())
    same_rank(operator, input, index, axis, src)
    if src.dtype is not input.dtype:
        raise DtypeError(
            operator,
            f"src of {src.dtype.name} for input of {input.dtype.name}",
            "src and input have one dtype",
            "convert src with .to(dtype)",
        )
    valid = checked_index(operator, index, input._array.shape[axis])
    return call(scatter_valid, input, axis, valid, _cut(src, tuple(index.shape)), add)


@composite("scatter(Tensor input, int dim, Tensor index, Operand? src=None, *, Operand? value=None, str? reduce=None)"
           " -> Tensor")
def scatter(input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Any:
    """A copy of input with out[index[i, j], j] = src[i, j] for dim=0, and likewise for other dims and ranks.

    ``value`` is ``src`` as one number. With ``reduce``, ``add`` or ``multiply``, values are combined with input.
    """
    src = value if src is None else src
    if src is None:
        raise ArgumentTypeError("scatter", "neither src nor value", "what is written is given", "pass src or value")
    if reduce is None:
        return _scattered("scatter", input, dim, index, src, False)
    if reduce not in ("add", "multiply"):
        raise ArgumentError("scatter", f"reduce={reduce!r}", "reduce is 'add' or 'multiply'",
                            "use scatter_reduce for others")
    if not hasattr(src, "_key"):
        src = input.new_full(tuple(index.shape), src)
    return input.scatter_reduce(dim, index, src, "sum" if reduce == "add" else "prod")


@composite("scatter_add(Tensor input, int dim, Tensor index, Tensor src) -> Tensor")
def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """A copy of input with out[index[i, j], j] += src[i, j] for dim=0, and likewise for other dims and ranks."""
    return _scattered("scatter_add", input, dim, index, src, True)


def rows_index(index: Any, shape: tuple[int, ...], axis: int) -> Any:
    """A vector of positions as an index tensor for a whole shape."""
    lead = tuple(-1 if k == axis else 1 for k in range(len(shape)))
    return index.reshape(lead).expand(tuple(index.numel() if k == axis else n for k, n in enumerate(shape)))


@composite("index_select(Tensor input, int dim, Tensor index) -> Tensor")
def index_select(input: Any, dim: int, index: Any) -> Any:
    """Positions of a dimension, in the order of a vector of indices."""
    axis = normalize_axis("index_select", dim, input.ndim)
    if index.ndim > 1:
        raise DimensionError("index_select", f"index {list(index.shape)}", "the index is a vector", "flatten it")
    if input.ndim == 0:
        if index.numel() != 1:
            raise ShapeError("index_select", f"{index.numel()} positions of a 0-dimensional tensor",
                             "a 0-dimensional tensor has one position", "unsqueeze it first")
        return input.reshape(1).index_select(0, index).reshape(())
    valid = checked_index("index_select", index, input._array.shape[axis]).reshape(-1)
    return call(gather_valid, input, axis, rows_index(valid, tuple(input.shape), axis))


# -------------------------------------------------------------------------------------------------- several indices


@composite("nonzero(Tensor input, *, bool as_tuple=False) -> any")
def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """Positions of elements that are not zero, one row each, in row-major order; how many depends on the data."""
    if as_tuple and input.ndim == 0:
        input = input.reshape(1)
    if not input._entry.holds_data:
        raise missing_data("nonzero", f"a meta tensor of shape {list(input.shape)}")
    if input._entry.runtime.profile.host_resident:
        found = np.argwhere(input._values())
        result = from_values(found.astype(np.int64), dtypes.int64, input._entry)
    else:
        result = _coordinates(_true_positions((input.detach() != 0).reshape(-1)), tuple(input.shape))
    return tuple(result.select(1, k) for k in range(result.shape[1])) if as_tuple else result


def _true_positions(mask: Any) -> Any:
    """Positions of true elements of a vector, in order: every one is written where a running count says."""
    count = mask.to(dtypes.int64)
    size, step = mask.numel(), 1
    while step < size:
        count = functions.cat(
            [count.narrow(0, 0, step), count.narrow(0, step, size - step) + count.narrow(0, 0, size - step)]
        )
        step *= 2
    total = int(count.select(0, size - 1).item()) if size else 0
    # Elements that are not true all go to one spare place at the end.
    target = functions.where(mask, count - 1, total)
    positions = mask.new_zeros(total + 1, dtype=dtypes.int64)
    return call(scatter_valid, positions, 0, target, mask.new_arange(0, size, 1), False).narrow(0, 0, total)


def _coordinates(position: Any, shape: tuple[int, ...]) -> Any:
    """Row-major positions as one row of indices each."""
    if not shape:
        return position.new_zeros(position.shape[0], 0)
    columns = []
    for size in reversed(shape):
        columns.append(position % max(size, 1))
        position = position.floor_divide(max(size, 1))
    return functions.stack(columns[::-1], 1)


def _beside(input: Any, index: Any) -> Any:
    """An index tensor on the input's device; only those on the host are moved.

    Raises:
        DeviceMismatch: It is on another device.
    """
    if index._entry is not input._entry and not index._entry.runtime.profile.host_resident:
        raise DeviceMismatch(
            "index",
            f"an index on {index.device} for a tensor on {input.device}",
            "index tensors are on the tensor's device or on the host",
            "move it with .to(device) first",
        )
    return index.to(input.device)


class _Selection:
    """Index tensors over some dimensions of a tensor, as positions in its flattened indexed dimensions."""

    def __init__(self, input: Any, indices: tuple[Any, ...]) -> None:
        used = [k for k, index in enumerate(indices) if index is not None]
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
        #: Where the broadcast index dimensions stand in the result: in place of adjacent ones, else in front.
        self.place = used[0] if adjacent else 0
        self.position = self._linear(input, [indices[k] for k in used])

    def _linear(self, input: Any, chosen: list[Any]) -> Any:
        position: Any = None
        for index, size in zip(chosen, self.sizes, strict=True):
            if index.dtype.kind not in ("int", "uint"):
                raise IndexDtypeError("index", f"an index tensor of dtype {index.dtype.name}",
                                      "tensors that index are of integers or bools", "convert it with .long()")
            valid = _beside(input, checked_index("index", index, size, negative=True))
            position = valid if position is None else position * size + valid
        return position.expand(self.shape).reshape(-1)

    def rows(self, input: Any) -> Any:
        """The tensor as [indexed positions, everything else]."""
        return input.permute(self.order).reshape((math.prod(self.sizes), math.prod(self.rest)))

    def unrows(self, rows: Any) -> Any:
        """The inverse of ``rows``."""
        inverse = [0] * len(self.order)
        for k, dim in enumerate(self.order):
            inverse[dim] = k
        return rows.reshape((*self.sizes, *self.rest)).permute(inverse)

    def _axes(self) -> tuple[int, ...]:
        """Permutation from [index dims, rest] to the result's order."""
        count = len(self.shape)
        rest = tuple(range(count, count + len(self.rest)))
        return (*rest[:self.place], *range(count), *rest[self.place:])

    def result(self, rows: Any) -> Any:
        """Selected rows in the shape of the result."""
        return rows.reshape((*self.shape, *self.rest)).permute(self._axes())

    def values(self, value: Any) -> Any:
        """A value to write, as selected rows."""
        axes = self._axes()
        front = (*self.shape, *self.rest)
        wide = trimmed(value, len(axes)).expand(tuple(front[k] for k in axes))
        inverse = [0] * len(axes)
        for k, axis in enumerate(axes):
            inverse[axis] = k
        return wide.permute(inverse).reshape((self.position.numel(), math.prod(self.rest)))


def trimmed(value: Any, rank: int) -> Any:
    """A value without leading dimensions of size 1 that its place does not have."""
    lead = value.ndim - rank
    return value.reshape(tuple(value.shape[lead:])) if lead > 0 and all(n == 1 for n in value.shape[:lead]) else value


def _expanded(input: Any, indices: Any) -> tuple[Any, ...]:
    """Index tensors per dimension, bool masks replaced by positions, filled up with None."""
    result: list[Any] = []
    for index in indices:
        if index is not None and index.dtype in (dtypes.bool_, dtypes.uint8):
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


def index_tensors(input: Any, indices: Any) -> Any:
    """Elements at index tensors (None takes a whole dimension)."""
    selection = _Selection(input, _expanded(input, indices))
    rows = selection.rows(input)
    chosen = call(gather_valid, rows, 0, rows_index(selection.position, tuple(rows.shape), 0))
    result = selection.result(chosen).contiguous()
    result._base = None  # nobody else has what was gathered
    return result


@composite("index_put(Tensor input, any indices, Operand values, bool accumulate=False) -> Tensor")
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """A copy of input with values written (or added) at index tensors."""
    selection, value, position = _placed(input, indices, values)
    return selection.unrows(call(scatter_valid, selection.rows(input), 0, position, value, accumulate))


def _placed(input: Any, indices: Any, values: Any) -> tuple[_Selection, Any, Any]:
    """The selection of index tensors, values as its rows, and an index tensor of their shape."""
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
    """``index_put_`` without a copy of the tensor where its rows are views of it; nothing is recorded."""
    check_writable("index_put_", input)
    selection, value, position = _placed(input, indices, values)
    rows = selection.rows(input)
    if (rows if rows._base is None else rows._base) is not (input if input._base is None else input._base):
        input.copy_(selection.unrows(call(scatter_valid, rows, 0, position, value, False)))
        return
    if value.numel():
        scatter_arrays(input._entry, rows._array, position._array, value.detach()._array, 0, input.dtype, add=False)
    bump(input)


@composite("index_put_(Tensor input, any indices, Operand values, bool accumulate=False) -> Tensor", function=False)
def index_put_(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Write (or add) values at index tensors, in place."""
    return input.copy_(input.index_put(indices, values, accumulate))
