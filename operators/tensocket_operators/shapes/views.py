"""Views: handles with another geometry over the same memory, one record each."""

from __future__ import annotations

import operator
from typing import Any, Final

import numpy as np

from tensocket_core.autograd.view_history import added_up, extent, overlaps
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.modes import ACTIVE
from tensocket_core.geometry import as_strided as strided_view
from tensocket_core.geometry import element_strides, expanded_strides, is_integer, normalize_axis, normalize_shape
from tensocket_core.keys import CONJ, DIM0, LAZY, dtype_bit
from tensocket_core.recording import OVERRIDDEN_KERNELS, RECORDING_SLOW_PATHS
from tensocket_plugins.contract.arrays import contiguous_strides, view_strides
from tensocket_plugins.contract.dtypes import DType, as_dtype
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    DimensionError,
    DtypeError,
    IndexOutOfRange,
    ShapeError,
)
from tensocket_plugins.contract.launch_recorder import RECORDERS

from ..kinds.view import View
from .reinterpret import retyped


def sizes(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return sizes that are given one by one or as one sequence."""
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    try:
        return tuple(map(operator.index, shape))
    except TypeError:
        raise ArgumentTypeError("shape", f"{shape!r}", "sizes and dims are integers", "pass integers") from None


def _view(array: Any, shape: tuple[Any, ...]) -> Any:
    wanted = normalize_shape("view", sizes(shape), array.size)
    old = element_strides(array)
    strides = contiguous_strides(wanted) if 0 in wanted else view_strides(array.shape, old, wanted)
    if strides is None:
        raise ShapeError("view", f"shape {list(wanted)} for shape {list(array.shape)} with strides {list(old)}",
                         "a view needs merged dimensions to be adjacent in memory",
                         "use .reshape(...), which copies where needed")
    return strided_view(array, wanted, strides, 0)


def _view_host(array: Any, shape: tuple[Any, ...]) -> Any:
    """Return NumPy's reshape where its rules are PyTorch's: for one list of sizes without negative ones but -1."""
    if array.flags.c_contiguous:
        try:
            result = array.reshape(shape)
        except (TypeError, ValueError):
            one = len(shape) == 1 and isinstance(shape[0], tuple)
            return _view_host(array, shape[0]) if one else _view(array, shape)
        if result.shape == shape or -1 in shape:
            return result
    return _view(array, shape)


def _transpose(array: Any, dim0: int, dim1: int) -> Any:
    rank = len(array.shape)
    first, second = normalize_axis("transpose", dim0, rank), normalize_axis("transpose", dim1, rank)
    if first == second:
        return array[...]
    axes = list(range(rank))
    axes[first], axes[second] = second, first
    return array.transpose(tuple(axes))


def _t(array: Any) -> Any:
    rank = len(array.shape)
    if rank == 2:
        return array.transpose((1, 0))
    if rank > 2:
        raise ShapeError("t", f"a {rank}-dimensional tensor", "t() takes at most 2 dimensions",
                         "use .mT or .transpose(...)")
    return array[...]


def _permute(array: Any, dims: tuple[Any, ...]) -> Any:
    rank = len(array.shape)
    axes = tuple(normalize_axis("permute", d, rank) for d in sizes(dims))
    if sorted(axes) != list(range(rank)):
        raise ShapeError(
            "permute",
            f"dims {list(axes)} of a {rank}-dimensional tensor",
            "every dim appears exactly once",
            "list all dims of the tensor",
        )
    return array.transpose(axes)


def _expand(array: Any, shape: tuple[Any, ...]) -> Any:
    wanted = sizes(shape)
    lead = len(wanted) - len(array.shape)
    if lead < 0 or any(n == -1 for n in wanted[:max(lead, 0)]):
        raise ShapeError(
            "expand",
            f"shape {list(wanted)} for shape {list(array.shape)}",
            "a new leading dimension has a size, and no dimension is dropped",
            "give the size of every new dimension",
        )
    full = tuple(array.shape[k - lead] if n == -1 else n for k, n in enumerate(wanted))
    if any(n < 0 for n in full) or any(n != full[k + lead] and n != 1 for k, n in enumerate(array.shape)):
        raise ShapeError(
            "expand",
            f"shape {list(full)} for shape {list(array.shape)}",
            "only dimensions of size 1 can be expanded, and to a size",
            "use .repeat(...) to copy",
        )
    strides = list(expanded_strides(array.shape, element_strides(array), full))
    for axis in range(lead - 1, -1, -1):
        if full[axis] == 1:
            strides[axis] = full[axis + 1] * strides[axis + 1] if axis + 1 < len(full) else 1
    return strided_view(array, full, tuple(strides), 0)


def _expand_host(array: Any, shape: tuple[Any, ...]) -> Any:
    """Expand one element with one NumPy call, as for gradients of sums; ``_expand`` serves other arrays."""
    wanted = shape[0] if len(shape) == 1 and type(shape[0]) is not int else shape
    if array.ndim or not isinstance(wanted, tuple) or (wanted and min(wanted) < 0):
        return _expand(array, shape)
    try:
        return np.ndarray(wanted, array.dtype, array, 0, (0,) * len(wanted))
    except (TypeError, ValueError):
        return _expand(array, shape)


def _unsqueeze(array: Any, dim: int) -> Any:
    shape = array.shape
    axis = normalize_axis("unsqueeze", dim, len(shape) + 1)
    wide = (*shape[:axis], 1, *shape[axis:])
    if type(array) is np.ndarray and array.flags.c_contiguous:
        return array.reshape(wide)
    strides = element_strides(array)
    step = shape[axis] * strides[axis] if axis < len(shape) else 1
    return strided_view(array, wide, (*strides[:axis], step, *strides[axis:]), 0)


def _squeeze(array: Any, dim: Any) -> Any:
    rank = len(array.shape)
    if dim is None or isinstance(dim, int) or is_integer(dim):
        chosen: Any = range(rank) if dim is None else (normalize_axis("squeeze", dim, rank),)
    else:
        chosen = [normalize_axis("squeeze", d, rank) for d in dim]
        if len(set(chosen)) < len(chosen):
            raise ShapeError("squeeze", f"dims {list(dim)}", "a dim appears at most once", "remove the repetition")
    return array[(*(0 if k in chosen and n == 1 else slice(None) for k, n in enumerate(array.shape)), ...)]


def sliced(array: Any, index: tuple[Any, ...]) -> Any:
    """Return a handle indexed by a tuple of ints, slices, None and Ellipsis.

    Raises:
        ArgumentError: A slice step is not positive.
        DimensionError: There are more indices than dimensions.
        IndexOutOfRange: An index lies outside its dimension.
    """
    shape = array.shape
    if len(index) == 1 and shape and type(index[0]) is int and -shape[0] <= index[0] < shape[0]:
        return array[index[0], ...]
    used = sum(item is not None and item is not Ellipsis for item in index)
    if used > len(shape):
        raise DimensionError(
            "index",
            f"{used} indices for a {len(shape)}-dimensional tensor",
            "there is at most one index per dimension",
            "remove indices",
        )
    at = index.index(Ellipsis) if Ellipsis in index else len(index)
    axis = 0
    for position, item in enumerate(index):
        if position == at:
            axis = len(shape) - sum(i is not None for i in index[position + 1:])
        elif type(item) is slice:
            if item.step is not None and item.step <= 0:
                raise ArgumentError(
                    "index", f"slice step {item.step}", "slice steps are positive", "use .flip(dim) to reverse"
                )
            axis += 1
        elif item is not None:
            size = shape[axis]
            if not -size <= item < size:
                raise IndexOutOfRange(
                    "index",
                    f"index {item} of dimension {axis} with size {size}",
                    f"an index lies between {-size} and {size - 1}",
                    "pass an index within the dimension",
                )
            axis += 1
    return array[index if at < len(index) else (*index, ...)]


class _ShapeView(View):
    """The record of ``view``, which takes sizes or a dtype."""

    #: Callers may pass the dtype as a keyword.
    keywords: Final = {"dtype": ("None", "size = (dtype,)")}

    def recording(self, below: Any, key: int) -> Any:
        """Record views in another shape; elements of another dtype have no gradient."""
        closure = super().recording(below, key)

        def record_view(input: Any, shape: Any) -> Any:
            return self.next_path(input, shape) if _is_dtype(shape) else closure(input, shape)

        return record_view

    def next_path(self, input: Any, argument: Any) -> Any:
        """Return the same memory as elements of another dtype."""
        if _is_dtype(argument):
            return call(view_dtype, input, as_dtype(argument[0]))
        return super().next_path(input, argument)


def _is_dtype(shape: Any) -> bool:
    return type(shape) is tuple and len(shape) == 1 and as_dtype(shape[0]) is not None


def _same_bits(input: Any, dtype: DType) -> Any:
    """Return a lazy view in its own dtype.

    Raises:
        DtypeError: The dtype is another one: the memory does not hold the elements.
    """
    if dtype is input.dtype:
        return input.alias()
    kind = "conjugate view tensors" if input._key & CONJ else "tensors with negative bit set"
    raise DtypeError("view", f"dtype {dtype.name} for a lazy view of {input.dtype.name}", "torch.Tensor.view is not "
                     f"supported for {kind} when converting to a different dtype", "resolve it first, which copies")


class _Reinterpretation(View):
    """The record of a view in another dtype."""

    def build(self, key: int, state: Any) -> Any:
        """Return a closure that sets the result's dtype, which the key does not determine."""

        def reinterpret(input: Any, dtype: DType) -> Any:
            if key & LAZY:
                return _same_bits(input, dtype)
            alias = input.detach()
            alias._array = retyped(input._array, input.dtype, dtype)
            alias._key = state.key | dtype_bit(dtype) | (0 if alias._array.shape else DIM0)
            alias._base = input if input._base is None else input._base
            return alias

        return reinterpret


view_dtype: Final = _Reinterpretation(
    "view_dtype(Tensor input, dtype dtype) -> Tensor~",
    "The same memory as elements of another dtype; a narrower or wider one changes the last dimension.",
    lambda array, dtype: array,
    function=False,
    method=False,
)
view: Final = _ShapeView(
    "view(Tensor input, int... size) -> Tensor~",
    "The same elements as another shape, without copying; -1 is inferred.",
    _view,
    _view_host,
    derivative=Derivative(input=lambda grad, input_shape: grad.reshape(input_shape)),
)
transpose: Final = View(
    "transpose(Tensor input, int dim0, int dim1) -> Tensor~",
    "Two dimensions exchanged.",
    _transpose,
    derivative=Derivative(input=lambda grad, dim0, dim1: grad.transpose(dim0, dim1)),
    aliases=("swapaxes", "swapdims"),
)
t: Final = View(
    "t(Tensor input) -> Tensor~",
    "A matrix transposed; vectors and numbers stay as they are.",
    _t,
    derivative=Derivative(input=lambda grad: grad.t()),
)
permute: Final = View("permute(Tensor input, int... dims) -> Tensor~", "Dimensions in another order.", _permute,
                      derivative=Derivative(input=lambda grad, dims: grad.permute(_inverse(sizes(dims)))))
expand: Final = View("expand(Tensor input, int... size) -> Tensor~",
                     "Dimensions of size 1 repeated without copying; -1 keeps a size.", _expand,
                     _expand_host,
                     derivative=Derivative(input=lambda grad: grad))
unsqueeze: Final = View("unsqueeze(Tensor input, int dim) -> Tensor~", "A new dimension of size 1.", _unsqueeze,
                        derivative=Derivative(input=lambda grad, input_shape: grad.reshape(input_shape)))
squeeze: Final = View("squeeze(Tensor input, any dim=None) -> Tensor~", "Without dimensions of size 1.", _squeeze,
                      derivative=Derivative(input=lambda grad, input_shape: grad.reshape(input_shape)))


#: Elements of a part up to which NumPy adds it; a kernel is divided among threads.
_FEW_ADDED: Final = 1 << 14


def _add_part(whole: Any, grad: Any, index: tuple[Any, ...]) -> None:
    """Add the gradient of a slice to that of the whole, a new tensor; few elements on the host by one NumPy call, if
    no one notes the operators called.
    """
    array, part = whole._array, grad._array
    observed = ACTIVE or RECORDERS or RECORDING_SLOW_PATHS or OVERRIDDEN_KERNELS
    if (type(array) is type(part) is np.ndarray and array.dtype == part.dtype and array.dtype.kind in "fc"
            and not observed and part.size <= _FEW_ADDED):
        target = sliced(array, index)
        np.add(target, part, target)
    else:
        whole.basic_index(index).add_(grad)


basic_index: Final = View(
    "basic_index(Tensor input, any index) -> Tensor~",
    "Indexing by a tuple of ints, slices, None and Ellipsis.",
    sliced,
    function=False,
    derivative=Derivative(input=lambda grad, input_shape, index: grad.embed_index(input_shape, index)).of_part(
        lambda whole, grad, input_shape, index: _add_part(whole, grad, index)),
)


def _added_up_array(grad: Any, strides: tuple[int, ...], offset: int, base: tuple[Any, Any]) -> Any:
    """Do the same as ``added_up`` on NumPy arrays, for views and bases whose elements share no position."""
    shape = grad.shape
    if overlaps(*base) or overlaps(shape, strides):
        return NotImplemented
    if (shape, strides, offset) == (*base, 0):
        return grad
    low, size = extent(shape, strides, offset, base)
    memory = np.zeros(size, grad.dtype)
    strided_view(memory, shape, strides, offset - low)[...] = grad
    return strided_view(memory, *base, -low)


#: ``base`` holds the shape and the strides of the input, for the gradient.
strided: Final = View(
    "as_strided(Tensor input, int[] size, int[] stride, int storage_offset, any base) -> Tensor~",
    "A view with any geometry.",
    lambda array, size, stride, offset, base: strided_view(array, size, stride, offset),
    method=False,
    function=False,
    derivative=Derivative(
        input=lambda grad, stride, storage_offset, base: added_up(grad, stride, storage_offset, base)
    ).on_arrays(input=_added_up_array),
)
alias: Final = View(
    "alias(Tensor input) -> Tensor~",
    "The same tensor as a new object.",
    lambda array: array[...],
    function=False,
    derivative=Derivative(input=lambda grad: grad),
)


def _inverse(dims: tuple[int, ...]) -> tuple[int, ...]:
    rank = len(dims)
    result = [0] * rank
    for position, dim in enumerate(dims):
        result[dim % rank] = position
    return tuple(result)
