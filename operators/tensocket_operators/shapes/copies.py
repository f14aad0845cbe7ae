"""Copies: clones, conversions, tensors embedded in zeros, and joined tensors."""

from __future__ import annotations

from typing import Any, Final

from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.operator import check_dtype
from tensocket_core.formats import contiguous_format, preserve_format
from tensocket_core.geometry import memory_of, normalize_axis
from tensocket_core.keys import DIM0, DTYPE_MASK, DTYPE_OF, dtype_bit
from tensocket_core.launch.copies import converted, copy_elements, to_device
from tensocket_core.launch.entries import build_join
from tensocket_core.promotion import result_type
from tensocket_core.strides import empty_strided_array, format_strides, public_strides, suggested_format
from tensocket_core.tensor import Tensor, wrap
from tensocket_plugins.contract.arrays import contiguous_strides
from tensocket_plugins.contract.errors import ShapeError
from tensocket_plugins.contract.launch_recorder import RECORDERS, is_recording

from ..indexing import small_moves as direct_moves
from ..kinds.view import Custom
from .views import sliced

_new = object.__new__


def _clone(state: Any, input: Any, memory_format: Any = None) -> Any:
    source, dtype = input._array, input.dtype
    if memory_format is None or memory_format is preserve_format:
        out = converted(state, source, dtype, dtype)
    else:
        strides = format_strides("clone", source.shape, memory_format)
        out = empty_strided_array(state, source.shape, dtype, strides)
        copy_elements(state, out, dtype, source, dtype)
    return wrap(out, state.key | dtype_bit(dtype))


def separate(result: Any, input: Any) -> Any:
    """Return ``result``, or a copy if it shares memory with ``input``; for operators that must return new tensors."""
    return result.clone() if memory_of(result._array) is memory_of(input._array) else result


def _small_copy(x: Any, memory_format: Any) -> Any:
    """Return a copy of a small contiguous array in the same order of dimensions, or a row-major copy of a small array.

    Return None if the general closure must make the copy.
    """
    if x.size > _SMALL:
        return None
    if memory_format is contiguous_format:
        return x.copy()
    flags = x.flags
    if memory_format is not None and memory_format is not preserve_format:
        return None
    return x.copy() if flags.c_contiguous else x.copy("F") if flags.f_contiguous and 1 not in x.shape else None


def _clone_host_path(key: int, state: Any, next_path: Any) -> Any:
    key, limit = key & ~DIM0, _DENSE

    def direct_clone(a: Any, memory_format: Any = None) -> Any:
        x = a._array
        if RECORDERS and is_recording():  # a kernel copies
            return next_path(a, memory_format)
        if memory_format is None and x.size <= limit and x.flags.c_contiguous:
            r = x.copy()
        else:
            r = _small_copy(x, memory_format)
            if r is None:
                return next_path(a, memory_format)
        t = _new(Tensor)
        t._array = r
        t._key = key if r.shape else key | DIM0
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return direct_clone


def _to(state: Any, input: Any, target: Any, dtype: Any) -> Any:
    array, source = input._array, input.dtype
    check_dtype("to", target, dtype)
    if source is not dtype:
        array = converted(state, array, source, dtype)
    if target is not state:
        array = to_device(array, dtype, state, target)
    return wrap(array, target.key | dtype_bit(dtype))


def _embed(state: Any, input: Any, shape: tuple[int, ...], index: Any) -> Any:
    zeros = input.new_zeros(shape)
    copy_elements(state, sliced(zeros._array, index), input.dtype, input._array, input.dtype)
    return zeros


def _cat(state: Any, items: Any, dim: int) -> Any:
    dtype = result_type(items)
    # A tensor of shape [0] is skipped, as PyTorch does for historical reasons.
    parts = [t for t in items if tuple(t.shape) != (0,)]
    if not parts:
        return items[0].new_empty((0,), dtype=dtype)
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
    shape = (*first[:axis], total, *first[axis + 1:])
    found = {suggested_format(t._array.shape, public_strides(t._array)) for t in parts} if rank > 3 else ()
    strides = format_strides("cat", shape, *found) if len(found) == 1 else contiguous_strides(shape)
    out = empty_strided_array(state, shape, dtype, strides)
    large = out.size >= _MANY and strides == contiguous_strides(shape)
    kernel = state.runtime.kernels.find("cat", dtype.name, direct=False) if large else None
    if kernel is not None and all(t.dtype is dtype for t in parts):
        kernel.run([out], [t._array for t in parts], (axis,), state.stream)
        return wrap(out, state.key | dtype_bit(dtype))
    start = 0
    for t in parts:
        stop = start + t._array.shape[axis]
        copy_elements(state, out[(slice(None),) * axis + (slice(start, stop), ...)], dtype, t._array, t.dtype)
        start = stop
    return wrap(out, state.key | dtype_bit(dtype))


#: Number of elements from which a registered kernel joins arrays.
_MANY: Final = 1 << 16
#: Largest number of elements of an array without gaps that NumPy clones; of others, and of a first tensor with which
#: NumPy joins the others.
_DENSE: Final = 1 << 17
_SMALL: Final = 4096


def _cat_host_path(key: int, state: Any, next_path: Any) -> Any:
    dtype, runtime = DTYPE_OF.get(key & DTYPE_MASK), state.runtime
    if key & DIM0 or dtype is None:
        return None
    return direct_moves.join(key, _SMALL, lambda shape: runtime.empty(shape, dtype, state.stream), next_path)


def _cat_entry(key: int, state: Any, next_path: Any) -> Any:
    dtype = None if key & DIM0 else DTYPE_OF.get(key & DTYPE_MASK)
    return None if dtype is None else build_join(cat, key, state, dtype, next_path)


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
    _clone_host_path,
    moves=True,
    derivative=Derivative(input=lambda grad: grad),
)
convert: Final = Custom(
    "convert(Tensor input, any target, dtype dtype) -> Tensor",
    "A copy of another dtype or on another device.",
    _to,
    moves=True,
    function=False,
    method=False,
    derivative=Derivative(input=lambda grad: grad),
)
embed_index: Final = Custom(
    "embed_index(Tensor input, int[] shape, any index) -> Tensor",
    "Zeros of a shape, with input at a basic index.",
    _embed,
    moves=True,
    function=False,
    derivative=Derivative(input=lambda grad, index: grad.basic_index(index)),
)
cat: Final = Custom(
    "cat(Tensor[] tensors, int dim=0) -> Tensor",
    "Tensors joined along a dimension.",
    _cat,
    _cat_host_path,
    _cat_entry,
    moves=True,
    method=False,
    aliases=("concat", "concatenate"),
    derivative=Derivative(_cat_gradient),
)
