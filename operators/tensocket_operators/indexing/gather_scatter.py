"""Indexing by one tensor along a dimension: gather, scatter, select."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.device import DeviceState
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.modes import ACTIVE
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.geometry import normalize_axis
from tensocket_core.keys import AUTOGRAD, DIM0, WRAPPER, dtype_bit
from tensocket_core.launch.copies import converted
from tensocket_core.launch.pointwise_plan import run_generated
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    DimensionError,
    DtypeError,
    IndexOutOfRange,
    ShapeError,
)
from tensocket_plugins.contract.launch_recorder import RECORDERS, is_recording, note_range
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS
from tensocket_plugins.ir.element_types import arithmetic_dtype

from ..deterministic import SETTING
from ..kinds.composite import composite
from ..kinds.pointwise import Pointwise
from ..kinds.view import Custom
from ..reductions.value_checks import checked_range
from ..unrolled.checks import declared, run_check
from . import kernel
from . import small_moves as direct_moves
from .gradients import at_least_1d, corner_gradient, padded, without_places

#: Positions that count from the end become positions from the start.
wrapped_index: Final = Pointwise(
    "wrapped_index(Tensor input, Operand size) -> Tensor", "Indices, plus size where they are negative.",
    lambda m, index, size: m.where(index < 0, index + size, index), kinds="i", launched=True, method=False,
    function=False)


def checked_index(operator: str, index: Any, size: int, *, negative: bool = False) -> Any:
    """Return ``index`` as int64, checked against a size; with ``negative``, negative indices count from the end.

    Raises:
        DtypeError: The index does not have an integer dtype.
        IndexOutOfRange: An index is outside the dimension.
    """
    if index.dtype.kind not in ("int", "uint"):
        raise DtypeError(
            operator, f"an index of dtype {index.dtype.name}", "indices are integers", "convert it with .long()"
        )
    index = index.detach().to(dtypes.int64)
    if index.numel() == 0 or not index._device_state.holds_data:
        return index
    if not negative:
        run_check(_check_index, operator, index, size)
        return index
    low = _checked_least(operator, index, -size, size)
    if low < 0 or is_recording():  # replays accept both signs
        note_range(index._array, -size, size)
        return call(wrapped_index, index, size)
    note_range(index._array, 0, size)
    return index


@declared
def _check_index(operator: str, index: Any, size: int) -> None:
    _checked_least(operator, index, 0, size)
    note_range(index._array, 0, size)


def _checked_least(operator: str, index: Any, first: int, size: int) -> int:
    """Return the smallest index, after a check that all of them lie between ``first`` and a size."""
    low, high = checked_range(index)
    check_extremes(operator, low, high, first, size)
    return int(low)


def check_extremes(operator: str, low: int, high: int, first: int, size: int) -> None:
    """Check the smallest and the largest of some indices.

    Raises:
        IndexOutOfRange: They do not lie between ``first`` and a size.
    """
    if low < first or high >= size:
        raise IndexOutOfRange(operator, f"index {low if high < size else high} of a dimension of size {size}",
                              f"an index lies between {first} and {size - 1}", "check the index tensor")


def check_long(operator: str, index: Any) -> None:
    """Check that positions are int64.

    Raises:
        DtypeError: The positions have another dtype.
    """
    if index.dtype is not dtypes.int64:
        raise DtypeError(operator, f"an index of dtype {index.dtype.name}", "positions are int64",
                         "convert it with .long()")


def check_reach(operator: str, axis: int, index: Any, indexed: tuple[int, ...], *others: Any) -> None:
    """Repeat the checks that kernels rely on: another thread may have replaced a tensor since the indices were checked.

    Raises:
        ShapeError: The index exceeds a tensor: one of shape ``indexed``, or another one, also along the axis.
    """
    sizes = index._array.shape
    for number, shape in enumerate((indexed, *[x._array.shape for x in others])):
        if shape != sizes and (len(shape) != len(sizes) or 0 in shape or any(
                n > size for k, (n, size) in enumerate(zip(sizes, shape, strict=True))
                if k != axis or number)):
            raise ShapeError(operator, f"index {list(sizes)} for a tensor of shape {list(shape)}",
                             "the index is nowhere larger except along dim",
                             "let no other thread exchange their data meanwhile")


def _gather(state: Any, input: Any, axis: int, index: Any) -> Any:
    out = state.runtime.empty(index._array.shape, input.dtype, state.stream)
    if 0 not in index._array.shape:
        check_reach("gather", axis, index, input._array.shape)
        kernel.gather_arrays(state, out, input._array, index._array, axis, input.dtype)
    return wrap(out, state.key | dtype_bit(input.dtype))


def _added_as(dtype: Any) -> Any:
    """Return the dtype of atomic additions, which no device supports for less than 32 bits."""
    return arithmetic_dtype(dtype) if dtype.category > 1 or dtype.itemsize >= 4 else dtypes.int32


def _scatter(state: Any, input: Any, axis: int, index: Any, src: Any, add: bool) -> Any:
    dtype = input.dtype
    work = _added_as(dtype) if add else dtype
    out = converted(state, input._array, dtype, work)
    if 0 not in index._array.shape:
        check_reach("scatter", axis, index, input._array.shape, src)
        values = src._array if src.dtype is work else converted(state, src._array, src.dtype, work)
        kernel.scatter_arrays(state, out, index._array, values, axis, work, add=add)
    return wrap(out if work is dtype else converted(state, out, work, dtype), state.key | dtype_bit(dtype))


def _cut(value: Any, shape: tuple[int, ...]) -> Any:
    """Return the leading corner of a tensor."""
    return value if tuple(value.shape) == shape else value.basic_index(tuple(slice(0, n) for n in shape))


# Both take valid int64 indices of the input's rank; the public operators check them.
gather_valid: Final[Custom] = Custom(
    "gather_valid(Tensor input, int axis, Tensor index) -> Tensor",
    "Elements of input at positions along an axis.",
    _gather,
    moves=True,
    method=False,
    function=False,
    derivative=Derivative(
        input=lambda grad, input_shape, axis, index: scatter_add_to_zeros(grad, axis, index, input_shape)
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
        src=lambda grad, axis, index, src_shape: padded(call(gather_valid, grad, axis, index), src_shape),
    ),
)


def _sum_at(state: Any, grad: Any, index: Any, axis: int, shape: tuple[int, ...], ordered: bool) -> Any:
    check_reach("scatter_add", axis, index, shape, grad)
    dtype = grad.dtype
    note_range(index._array, 0, shape[axis], checked=False)
    work = _added_as(dtype)
    out = state.runtime.empty(shape, work, state.stream)
    run_generated(state, ("zeros",), lambda zero: zero, [(0.0, work)], shape, [(out, work)])
    values = grad._array if work is dtype else converted(state, grad._array, dtype, work)
    kernel.scatter_arrays(state, out, index._array, values, axis, work, add=True)
    return wrap(out if work is dtype else converted(state, out, work, dtype), state.key | dtype_bit(dtype))


#: ``ordered`` is the process's setting of determinism, which selects the kernel.
sum_at: Final = Custom(
    "sum_at(Tensor grad, Tensor index, int axis, int[] shape, bool ordered) -> Tensor",
    "Zeros with grad added at positions along an axis, of which there are at least two.",
    _sum_at,
    method=False,
    function=False,
    replayable=True,
)


def scatter_add_to_zeros(grad: Any, axis: int, index: Any, shape: tuple[int, ...]) -> Any:
    """Return zeros with ``grad`` added at valid positions along an axis; the index has the rank of ``shape``."""
    state = grad._device_state
    if (ACTIVE or (grad._key | index._key) & (AUTOGRAD | WRAPPER) or state.runtime.target is None or shape[axis] < 2
            or not grad._array.size or 0 in shape or grad.dtype.kind == "complex" or grad.ndim != len(shape)):
        return call(scatter_valid, grad.new_zeros(()).expand(shape), axis, index, grad, True)
    return call(sum_at, grad, index, axis, tuple(shape), SETTING.required)


def same_rank(operator: str, input: Any, index: Any, axis: int, *others: Any) -> None:
    """Check the shapes of an index tensor and of the tensors that it indexes.

    Raises:
        ShapeError: The ranks differ, or the index is larger than another tensor.
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


def _sparse_at(grad: Any, index: Any, axis: int, shape: tuple[int, ...]) -> Any:
    """Return ``grad`` at positions along an axis, as a sparse tensor of a shape that is not coalesced."""
    sizes = tuple(index.shape)
    rows = [
        (index if k == axis else index.new_arange(0, n, 1).reshape((-1, *(1,) * (len(sizes) - k - 1))).expand(sizes))
        .reshape(-1) for k, n in enumerate(sizes)
    ]
    positions = functions.stack(rows[:len(shape)]) if shape else index.new_empty((0, index.numel()))
    return grad.reshape(-1)._sparse_at(positions, shape)


def _sparsely_at(grad: Any, shape: tuple[int, ...], dim: int, index: Any) -> Any:
    places = at_least_1d(index).to(dtypes.int64)
    return _sparse_at(grad, places, normalize_axis("gather", dim, len(shape)), shape)


def _added_at(grad: Any, shape: tuple[int, ...], dim: int, index: Any) -> Any:
    return call(COMPOSITES["gather_gradient"], grad, shape, dim, index)


def _with_dense_index(key: int, state: DeviceState, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return a closure that copies a small index of other strides, such as an expanded one: replays take dense ones."""
    if key & AUTOGRAD or not state.runtime.profile.host_resident:
        return None

    def gather_at(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
        places = index._array
        if not places.flags.c_contiguous and places.size <= SMALL and not (RECORDERS or VALUE_OBSERVERS):
            index = wrap(places.copy(), index._key)
        return next_path(input, dim, index, sparse_grad=sparse_grad)

    return gather_at


@composite("gather(Tensor input, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", replayable=True,
           host_path=_with_dense_index,
           derivative=Derivative(input=lambda grad, input_shape, dim, index, sparse_grad: (
               _sparsely_at if sparse_grad else _added_at)(grad, input_shape, dim, index)))
def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    """Return out[i, j] = input[index[i, j], j] for dim=0, and likewise for other dims and ranks.

    With ``sparse_grad``, the gradient of input is a sparse tensor.
    """
    axis = normalize_axis("gather", dim, input.ndim)
    if 0 in index._array.shape:
        valid = index.detach().to(dtypes.int64)
    else:
        whole, places = at_least_1d(input), at_least_1d(index)
        same_rank("gather", whole, places, axis)
        valid = checked_index("gather", places, whole._array.shape[axis]).reshape(tuple(index.shape))
    if input.ndim == 0 or index.ndim == 0:
        return call(gather_valid, at_least_1d(input), axis, at_least_1d(valid)).reshape(tuple(index.shape))
    return call(gather_valid, input, axis, valid)


def empty_index_and_source(input: Any, index: Any, src: Any) -> tuple[Any, Any]:
    """Return an empty index and an empty source of the input's rank; empty ones may have any other shape."""
    none = (0,) * max(input.ndim, 1)
    return index.reshape(none).to(dtypes.int64), src.reshape(-1).narrow(0, 0, 0).reshape(none)


def same_dtype(operator: str, input: Any, src: Any) -> None:
    """Check that the source has the dtype of the input.

    Raises:
        DtypeError: The dtypes differ.
    """
    if src.dtype is not input.dtype:
        raise DtypeError(
            operator,
            f"src of {src.dtype.name} for input of {input.dtype.name}",
            "src and input have one dtype",
            "convert src with .to(dtype)",
        )


def _scattered(operator: str, input: Any, dim: int, index: Any, src: Any, add: bool) -> Any:
    axis = normalize_axis(operator, dim, input.ndim)
    same_dtype(operator, input, src)
    if 0 in index._array.shape:
        index, src = empty_index_and_source(input, index, src)
    if input.ndim == 0 or index.ndim == 0 or src.ndim == 0:
        made = _scattered(operator, at_least_1d(input), axis, at_least_1d(index), at_least_1d(src), add)
        return made.reshape(tuple(input.shape))
    same_rank(operator, input, index, axis, src)
    valid = checked_index(operator, index, input._array.shape[axis])
    return call(scatter_valid, input, axis, valid, _cut(src, tuple(index.shape)), add)


@composite("scatter_tensor(Tensor input, int dim, Tensor index, Tensor src) -> Tensor", method=False, function=False,
           replayable=True, derivative=Derivative(input=without_places, src=corner_gradient))
def scatter_tensor(input: Any, dim: int, index: Any, src: Any) -> Any:
    """Apply ``scatter`` to a tensor of values."""
    return _scattered("scatter", input, dim, index, src, False)


@composite("scatter_number(Tensor input, int dim, Tensor index, Scalar value) -> Tensor", method=False, function=False,
           replayable=True, derivative=Derivative(input=without_places))
def scatter_number(input: Any, dim: int, index: Any, value: Any) -> Any:
    """Apply ``scatter`` to one number."""
    return _scattered("scatter", input, dim, index, input.new_full(tuple(index.shape), value), False)


@composite("scatter(Tensor input, int dim, Tensor index, Operand? src=None, *, Operand? value=None, str? reduce=None)"
           " -> Tensor")
def scatter(input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Any:
    """Return a copy of input with out[index[i, j], j] = src[i, j] for dim=0, and likewise for other dims and ranks.

    ``value`` is ``src`` as one number. With ``reduce``, ``add`` or ``multiply``, values are combined with input.
    """
    src = value if src is None else src
    if src is None:
        raise ArgumentTypeError("scatter", "neither src nor value", "what is written is given", "pass src or value")
    if reduce is None:
        return call(COMPOSITES["scatter_tensor" if hasattr(src, "_key") else "scatter_number"], input, dim, index, src)
    if reduce not in ("add", "multiply"):
        raise ArgumentError("scatter", f"reduce={reduce!r}", "reduce is 'add' or 'multiply'",
                            "use scatter_reduce for others")
    if not hasattr(src, "_key"):
        src = input.new_full(tuple(index.shape), src)
    return input.scatter_reduce(dim, index, src, "sum" if reduce == "add" else "prod")


@composite("scatter_add(Tensor input, int dim, Tensor index, Tensor src) -> Tensor", replayable=True,
           derivative=Derivative(input=lambda grad: grad, src=corner_gradient))
def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """Return a copy of input with out[index[i, j], j] += src[i, j] for dim=0, and likewise for other dims and ranks."""
    return _scattered("scatter_add", input, dim, index, src, True)


def rows_index(index: Any, shape: tuple[int, ...], axis: int) -> Any:
    """Return a vector of positions as an index tensor for a whole shape."""
    lead = (1,) * axis + (-1,) + (1,) * (len(shape) - axis - 1)
    return index.reshape(lead).expand((*shape[:axis], index._array.size, *shape[axis + 1:]))


#: Largest number of elements of a result that NumPy gathers.
SMALL: Final = 1 << 18


def _index_select_host_path(key: int, state: Any, next_path: Any) -> Any:
    return None if key & (AUTOGRAD | DIM0) else direct_moves.rows_along(SMALL, state, next_path)


@composite("index_select(Tensor input, int dim, Tensor index) -> Tensor", host_path=_index_select_host_path,
           replayable=True, derivative=Derivative(input=lambda grad, input_shape, dim, index: call(
               COMPOSITES["index_select_gradient"], grad, input_shape, dim, index)))
def index_select(input: Any, dim: int, index: Any) -> Any:
    """Return positions of a dimension, in the order of a vector of indices."""
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
