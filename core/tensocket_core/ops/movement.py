"""Views and rearrangements: records over handles, and what is composed of them."""

from __future__ import annotations

import math
import operator
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.arrays import contiguous_strides, view_strides
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    DimensionError,
    IndexOutOfRange,
    ShapeError,
    TensocketError,
)

from .. import tensors as tensors_module
from ..autograd.derivative import Derivative
from ..autograd.rebase import added_up, extent
from ..dispatch.call import call
from ..dispatch.composite import composite
from ..dispatch.keys import DIM0, DTYPE_MASK, dtype_bit
from ..dispatch.operator import check_dtype
from ..execute import direct
from ..execute.copying import converted, copy_elements, to_device
from ..execute.geometry import as_strided as strided_view
from ..execute.geometry import (
    element_strides,
    expanded_strides,
    memory_nbytes,
    memory_offset,
    normalize_axis,
    normalize_shape,
)
from ..execute.layout import empty_strided_array, format_strides, in_format
from ..execute.retype import retyped
from ..execute.views import Custom, View
from ..formats import check_format, contiguous_format, preserve_format
from ..promotion import result_type


def sizes(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sizes given one by one or as one sequence."""
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    try:
        return tuple(map(operator.index, shape))
    except TypeError:
        raise ArgumentTypeError("shape", f"{shape!r}", "sizes and dims are integers", "pass integers") from None


# ----------------------------------------------------------------------------------------------------------- views


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
    """NumPy's rules are PyTorch's for one list of sizes, but for other negative sizes than -1."""
    if array.flags.c_contiguous:
        try:
            result = array.reshape(shape)
        except (TypeError, ValueError):
            return _view(array, shape)
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
    """One element repeated, as in gradients of sums: NumPy makes such an array at once."""
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
    if dim is None or isinstance(dim, int):
        chosen: Any = range(rank) if dim is None else (normalize_axis("squeeze", dim, rank),)
    else:
        chosen = [normalize_axis("squeeze", d, rank) for d in dim]
        if len(set(chosen)) < len(chosen):
            raise ShapeError("squeeze", f"dims {list(dim)}", "a dim appears at most once", "remove the repetition")
    return array[(*(0 if k in chosen and n == 1 else slice(None) for k, n in enumerate(array.shape)), ...)]


def _basic_index(array: Any, index: tuple[Any, ...]) -> Any:
    shape = array.shape
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
    """``view``, which takes sizes, or a dtype instead."""

    def recording(self, below: Any, key: int) -> Any:
        """Elements of another dtype have no gradient."""
        closure = super().recording(below, key)

        def record_view(input: Any, shape: Any) -> Any:
            return self.otherwise(input, shape) if _is_dtype(shape) else closure(input, shape)

        return record_view

    def otherwise(self, input: Any, argument: Any) -> Any:
        """The same memory as elements of another dtype."""
        return call(view_dtype, input, argument[0]) if _is_dtype(argument) else super().otherwise(input, argument)


def _is_dtype(shape: Any) -> bool:
    return type(shape) is tuple and len(shape) == 1 and isinstance(shape[0], DType)


class _Reinterpretation(View):
    """A view of another dtype."""

    def build(self, key: int, entry: Any) -> Any:
        """The closure sets the result's dtype, which its key does not tell."""

        def reinterpret(input: Any, dtype: DType) -> Any:
            alias = input.detach()
            alias._array = retyped(input._array, input.dtype, dtype)
            alias._key = entry.key | dtype_bit(dtype) | (0 if alias._array.shape else DIM0)
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
basic_index: Final = View(
    "basic_index(Tensor input, any index) -> Tensor~",
    "Indexing by a tuple of ints, slices, None and Ellipsis.",
    _basic_index,
    function=False,
    derivative=Derivative(input=lambda grad, input_shape, index: grad.embed_index(input_shape, index)),
)
#: ``base`` is the shape and the strides of the input, for the gradient.
strided: Final = View(
    "as_strided(Tensor input, int[] size, int[] stride, int storage_offset, any base) -> Tensor~",
    "A view with any geometry.",
    lambda array, size, stride, offset, base: strided_view(array, size, stride, offset),
    method=False,
    function=False,
    derivative=Derivative(
        input=lambda grad, stride, storage_offset, base: added_up(grad, stride, storage_offset, base)
    ),
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


# ----------------------------------------------------------------------------------------------------------- copies


def _clone(entry: Any, input: Any, memory_format: Any = None) -> Any:
    source, dtype = input._array, input.dtype
    if memory_format is None or memory_format is preserve_format:
        out = converted(entry, source, dtype, dtype)
    else:
        strides = format_strides("clone", source.shape, memory_format)
        out = empty_strided_array(entry, source.shape, dtype, strides)
        copy_elements(entry, out, dtype, source, dtype)
    return tensors_module.wrap(out, entry.key | dtype_bit(dtype))


def _to(entry: Any, input: Any, target: Any, dtype: Any) -> Any:
    array, source = input._array, input.dtype
    check_dtype("to", target, dtype)
    if source is not dtype:
        array = converted(entry, array, source, dtype)
    if target is not entry:
        array = to_device(array, dtype, entry, target)
    return tensors_module.wrap(array, target.key | dtype_bit(dtype))


def _embed(entry: Any, input: Any, shape: tuple[int, ...], index: Any) -> Any:
    zeros = input.new_zeros(shape)
    copy_elements(entry, _basic_index(zeros._array, index), input.dtype, input._array, input.dtype)
    return zeros


def _cat(entry: Any, items: Any, dim: int) -> Any:
    dtype = result_type(items)
    # A tensor of shape [0] is skipped, as PyTorch does for historical reasons.
    parts = [t for t in items if tuple(t.shape) != (0,)] or list(items[:1])
    rank = parts[0].ndim
    axis = normalize_axis("cat", dim, rank)
    if rank == 0:
        raise ShapeError("cat", "zero-dimensional tensors", "only tensors with dimensions are joined", "use stack")
    first = parts[0]._array.shape
    for t in parts[1:]:
        if t.ndim != rank or any(
            a != b for k, (a, b) in enumerate(zip(first, t._array.shape, strict=True)) if k != axis
        ):
            raise ShapeError(
                "cat",
                f"shapes {list(first)} and {list(t.shape)}",
                f"all sizes but that of dim {axis} are equal",
                "reshape the tensors, or choose another dim",
            )
    total = sum(t._array.shape[axis] for t in parts)
    out = entry.runtime.empty((*first[:axis], total, *first[axis + 1:]), dtype, entry.stream)
    start = 0
    for t in parts:
        stop = start + t._array.shape[axis]
        copy_elements(entry, out[(slice(None),) * axis + (slice(start, stop), ...)], dtype, t._array, t.dtype)
        start = stop
    return tensors_module.wrap(out, entry.key | dtype_bit(dtype))


#: Elements of the first tensor up to which NumPy joins arrays.
_SMALL: Final = 4096


def _cat_direct(key: int, entry: Any, general: Any) -> Any:
    bits = key & DTYPE_MASK
    return None if key & DIM0 or bits & (bits - 1) else direct.join(key, _SMALL, general)


def _cat_gradient(grad: Any, tensors: Any, dim: int) -> tuple[Any, ...]:
    results: list[Any] = []
    start = 0
    for t in tensors:
        if tuple(t.shape) == (0,) and grad.ndim != 1:
            results.append(None)
            continue
        size = t.shape[normalize_axis("cat", dim, t.ndim)]
        results.append(grad.narrow(dim, start, size))
        start += size
    return tuple(results)


clone: Final = Custom(
    "clone(Tensor input, *, any memory_format=None) -> Tensor",
    "A copy with elements in the same order in memory, or as a memory format says.",
    _clone,
    derivative=Derivative(input=lambda grad: grad),
)
convert: Final = Custom(
    "convert(Tensor input, any target, dtype dtype) -> Tensor",
    "A copy of another dtype or on another device.",
    _to,
    function=False,
    method=False,
    derivative=Derivative(input=lambda grad: grad),
)
embed_index: Final = Custom(
    "embed_index(Tensor input, int[] shape, any index) -> Tensor",
    "Zeros of a shape, with input at a basic index.",
    _embed,
    function=False,
    derivative=Derivative(input=lambda grad, index: grad.basic_index(index)),
)
cat: Final = Custom(
    "cat(Tensor[] tensors, int dim=0) -> Tensor",
    "Tensors joined along a dimension.",
    _cat,
    _cat_direct,
    method=False,
    aliases=("concat", "concatenate"),
    derivative=Derivative(_cat_gradient),
)


# ------------------------------------------------------------------------------------------------------- composites


@composite("reshape(Tensor input, int... shape) -> Tensor")
def reshape(input: Any, *shape: Any) -> Any:
    """The same elements as another shape; a view where possible, else a copy. -1 is inferred."""
    wanted = normalize_shape("reshape", sizes(shape), input._array.size)
    try:
        return input.view(wanted)
    except ShapeError:
        copied = input.clone(memory_format=contiguous_format).view(wanted)
        copied._base = None  # nobody else has the copy
        return copied


@composite("as_strided(Tensor input, int[] size, int[] stride, int? storage_offset=None) -> Tensor~")
def as_strided(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """A view with any geometry; the offset counts from the start of the storage, by default the tensor's own."""
    shape, strides, first = checked_geometry("as_strided", input, size, stride, storage_offset)
    base = (input._array.shape, element_strides(input._array))
    return call(strided, input, shape, strides, first - memory_offset(input._array), base)


def checked_geometry(operator: str, input: Any, size: Any, stride: Any, storage_offset: Any) -> tuple[Any, ...]:
    """A geometry within a tensor's storage: shape, strides, offset from the storage's start.

    Raises:
        ShapeError: It is none, or it reaches beyond the storage.
    """
    shape, strides = sizes((size,)), sizes((stride,))
    offset = memory_offset(input._array) if storage_offset is None else sizes((storage_offset,))[0]
    held = memory_nbytes(input._array) // input.dtype.itemsize
    valid = len(shape) == len(strides) and offset >= 0 and all(n >= 0 for n in (*shape, *strides))
    if not valid or (0 not in shape and offset + extent(shape, strides) > held):
        raise ShapeError(
            operator,
            f"size {list(shape)}, stride {list(strides)}, offset {offset} on {held} elements",
            "a view stays within the tensor's memory",
            "choose a smaller size, stride or offset",
        )
    return shape, strides, offset


@composite("contiguous(Tensor input, *, any memory_format=None) -> Tensor", function=False)
def contiguous(input: Any, *, memory_format: Any = None) -> Any:
    """This tensor if its elements lie in a memory format (row-major by default), else a copy for which that holds."""
    format = check_format("contiguous", memory_format) or contiguous_format
    if format is preserve_format:
        raise ArgumentError("contiguous", "preserve_format", "a format says how elements lie in memory",
                            "use clone() to keep the order of dimensions")
    return input if in_format(input._array, format) else input.clone(memory_format=format)


@composite("flatten(Tensor input, int start_dim=0, int end_dim=-1) -> Tensor")
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Dimensions from ``start_dim`` to ``end_dim`` merged into one."""
    rank = input.ndim
    first, last = normalize_axis("flatten", start_dim, rank), normalize_axis("flatten", end_dim, rank)
    if first > last:
        raise ShapeError(
            "flatten",
            f"start_dim {start_dim}, end_dim {end_dim}",
            "start_dim does not come after end_dim",
            "exchange them",
        )
    if first == last and input.ndim:
        return input
    shape = tuple(input.shape)
    return input.reshape((*shape[:first], math.prod(shape[first:last + 1]), *shape[last + 1:]))


def _own_axis(name: str, input: Any, dim: int, error: type[TensocketError] = ShapeError) -> int:
    """A non-negative axis of a tensor that has one.

    Raises:
        DimensionError: The axis is out of range.
        ShapeError: The tensor is zero-dimensional; ``error`` instead.
    """
    if input.ndim == 0:
        raise error(
            name, "a 0-dimensional tensor", "the tensor has at least one dimension", "use it as it is, or unsqueeze it"
        )
    return normalize_axis(name, dim, input.ndim)


@composite("select(Tensor input, int dim, int index) -> Tensor")
def select(input: Any, dim: int, index: int) -> Any:
    """One position of a dimension; a view without that dimension."""
    axis = _own_axis("select", input, dim, DimensionError)
    return input.basic_index((slice(None),) * axis + (operator.index(index),))


@composite("narrow(Tensor input, int dim, int start, int length) -> Tensor")
def narrow(input: Any, dim: int, start: int, length: int) -> Any:
    """``length`` positions of a dimension from ``start`` on; a view."""
    axis = _own_axis("narrow", input, dim)
    size = input._array.shape[axis]
    first = start + size if start < 0 else start
    if length < 0 or not 0 <= first <= size or first + length > size:
        raise IndexOutOfRange("narrow", f"start {start}, length {length} of a dimension of size {size}",
                              "the range lies within the dimension", "choose a smaller start or length")
    return input.basic_index((slice(None),) * axis + (slice(first, first + length),))


@composite("split(Tensor input, any split_size_or_sections, int dim=0) -> any")
def split(input: Any, split_size_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Views of consecutive parts, of one size (the last may be smaller) or of the listed sizes."""
    size = input._array.shape[_own_axis("split", input, dim)]
    if isinstance(split_size_or_sections, int):
        step = split_size_or_sections
        if step <= 0 and size:
            raise ArgumentError("split", f"split size {step}", "a split size is positive", "pass a positive size")
        parts = [min(step, size - start) for start in range(0, size, step)] if size else [0]
    else:
        parts = list(split_size_or_sections)
        if sum(parts) != size or any(n < 0 for n in parts):
            raise ShapeError(
                "split",
                f"sections {parts} of a dimension of size {size}",
                "sections add up to the size",
                "change the sections",
            )
    starts = [sum(parts[:k]) for k in range(len(parts))]
    return tuple(input.narrow(dim, start, length) for start, length in zip(starts, parts, strict=True))


@composite("chunk(Tensor input, int chunks, int dim=0) -> any")
def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """Views of at most ``chunks`` consecutive parts of equal size (the last may be smaller)."""
    if chunks <= 0:
        raise ArgumentError("chunk", f"chunks={chunks}", "there is at least one chunk", "pass a positive number")
    size = input._array.shape[_own_axis("chunk", input, dim)]
    if size == 0:
        return (input.narrow(dim, 0, 0),) * chunks
    return tuple(input.split(-(-size // chunks), dim))


@composite("unbind(Tensor input, int dim=0) -> any")
def unbind(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """Views of every position of a dimension."""
    axis = _own_axis("unbind", input, dim, DimensionError)
    return tuple(input.select(axis, k) for k in range(input._array.shape[axis]))
