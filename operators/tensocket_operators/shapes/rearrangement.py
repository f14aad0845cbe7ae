"""Composites of views: stacking, repeating, reversing, broadcasting."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tensocket_core import functions
from tensocket_core.dispatch.call import call, tensor_key
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.geometry import broadcast_shapes, is_integer, normalize_axes, normalize_axis
from tensocket_core.keys import AUTOGRAD, DTYPE_MASK, DTYPE_OF, dtype_bit
from tensocket_core.launch.copies import copy_elements
from tensocket_core.launch.entries import build_join
from tensocket_core.strides import empty_preserved
from tensocket_core.tensor import wrap
from tensocket_plugins.contract.errors import ArgumentTypeError, ShapeError
from tensocket_plugins.contract.launch_recorder import is_recording

from ..indexing import small_moves as direct_moves
from ..indexing.gather_scatter import gather_valid, rows_index
from ..kinds.composite import composite
from ..kinds.view import Custom
from . import flip_kernel_cpu
from .arrangements import repeated_whole
from .views import sizes

#: Largest size at which NumPy stacks (elements of the first array) and repeats (elements of the result).
_SMALL: Final = 1 << 16
#: Elements up to which NumPy reverses an array in the time that a launch takes (``flip`` of 20 x 100).
_FEW: Final = 1 << 11


def _direct(make: Any) -> Any:
    """Return a closure over small host arrays of one dtype without gradients, made by ``make``."""

    def direct_closure(key: int, state: Any, next_path: Any) -> Any:
        bits = key & DTYPE_MASK
        if key & AUTOGRAD or not bits or bits & (bits - 1):
            return None
        dtype, runtime = DTYPE_OF[bits], state.runtime
        return make(key, _SMALL, lambda shape: runtime.empty(shape, dtype, state.stream), next_path)

    return direct_closure


def _stack_host_path(key: int, state: Any, next_path: Any) -> Any:
    slower = _direct(direct_moves.stacked)(key, state, next_path)
    return slower and (
        build_join(COMPOSITES["stack"], key, state, DTYPE_OF[key & DTYPE_MASK], slower, new_dim=True) or slower)


@composite("stack(Tensor[] tensors, int dim=0) -> Tensor", method=False, host_path=_stack_host_path)
def stack(tensors: Any, dim: int = 0) -> Any:
    """Join tensors of one shape along a new dimension."""
    for x in tensors:
        tensor_key("stack", x)
    shapes = {tuple(x.shape) for x in tensors}
    if len(shapes) != 1:
        raise ShapeError(
            "stack",
            " and ".join(str(list(s)) for s in sorted(shapes)) or "no tensors",
            "all tensors have one shape",
            "reshape them, or use cat",
        )
    return functions.cat([x.unsqueeze(dim) for x in tensors], normalize_axis("stack", dim, tensors[0].ndim + 1))


def _reverse(state: Any, input: Any, dims: tuple[int, ...]) -> Any:
    """Copy a view with negative strides in host memory where no kernel reverses; gather on other devices."""
    source, dtype = input._array, input.dtype
    if type(source) is not np.ndarray:
        for axis in dims:
            places = input.new_arange(source.shape[axis] - 1, -1, -1)
            input = call(gather_valid, input, axis, rows_index(places, tuple(source.shape), axis))
        return input
    out = empty_preserved(state, source, dtype)
    by_numpy = source.size < _FEW and not is_recording()
    if by_numpy or not flip_kernel_cpu.reverse_array(state, out, source, dims, dtype):
        copy_elements(state, out, dtype, np.flip(source, dims), dtype)
    return wrap(out, state.key | dtype_bit(dtype))


reverse: Final[Custom] = Custom(
    "reverse(Tensor input, int[] dims) -> Tensor", "Elements in reverse order along dimensions, at least one.",
    _reverse, method=False, function=False, replayable=True,
    derivative=Derivative(input=lambda grad, dims: call(reverse, grad, dims)))


@composite("flip(Tensor input, int... dims) -> Tensor", replayable=True)
def flip(input: Any, *dims: Any) -> Any:
    """Return a copy with the elements in reverse order along dimensions.

    Raises:
        ArgumentTypeError: No dimensions are given, not even an empty list.
    """
    if not dims:
        raise ArgumentTypeError("flip", "no dims", "the dims to reverse are given", "pass one or several")
    wanted = sizes(dims)
    axes = normalize_axes("flip", wanted, input.ndim) if wanted else ()
    return call(reverse, input, tuple(axes)) if axes and input.ndim else input.clone()


@composite("repeat(Tensor input, int... repeats) -> Tensor", replayable=True, function=False)
def repeat(input: Any, *repeats: Any) -> Any:
    """Return copies of the tensor along every dimension; more repeats than dimensions add leading dimensions."""
    counts = sizes(repeats)
    lead = len(counts) - input.ndim
    if lead < 0 or any(n < 0 for n in counts):
        raise ShapeError("repeat", f"repeats {list(counts)} for {input.ndim} dimensions",
                         "there is a repeat for every dimension, not negative", "add leading ones")
    shape = (1,) * lead + tuple(input.shape)
    return call(repeated_whole, input.reshape(shape) if lead else input, counts)


@composite("movedim(Tensor input, int[] source, int[] destination) -> Tensor~", aliases=("moveaxis",))
def movedim(input: Any, source: Any, destination: Any) -> Any:
    """Move one dimension (or several) to other positions; the others keep their order."""
    given, wanted = ((d,) if is_integer(d) else tuple(d) for d in (source, destination))
    first = [normalize_axis("movedim", d, input.ndim) for d in given]
    last = [normalize_axis("movedim", d, input.ndim) for d in wanted]
    if len(first) != len(last) or len(set(first)) < len(first) or len(set(last)) < len(last):
        raise ShapeError("movedim", f"source {source}, destination {destination}",
                         "as many distinct dims move as there are places", "list every dim once")
    if input.ndim == 0:
        return input.alias()
    order = [k for k in range(input.ndim) if k not in first]
    for place, dim in sorted(zip(last, first, strict=True)):
        order.insert(place, dim)
    return input.permute(order)


@composite("broadcast_to(Tensor input, int[] size) -> Tensor~")
def broadcast_to(input: Any, size: Any) -> Any:
    """Return the tensor expanded to a shape."""
    return input.expand(size)


@composite("expand_as(Tensor input, Tensor other) -> Tensor~", function=False)
def expand_as(input: Any, other: Any) -> Any:
    """Return the tensor expanded to another tensor's shape."""
    return input.expand(tuple(other.shape))


@composite("view_as(Tensor input, Tensor other) -> Tensor~", function=False)
def view_as(input: Any, other: Any) -> Any:
    """Return a view of the tensor in another tensor's shape."""
    return input.view(tuple(other.shape))


@composite("broadcast_tensors(Tensor[] tensors) -> any~", method=False)
def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """Return the tensors expanded to their common shape."""
    shape = broadcast_shapes("broadcast_tensors", [x._array.shape for x in tensors])
    return tuple(x if x._array.shape == shape else x.expand(shape) for x in tensors)
