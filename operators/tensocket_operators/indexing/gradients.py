"""Gradients of operators that read and write at positions: one operator each, whose launches replay.

Positions are those of a forward pass, which has checked them.
"""

from __future__ import annotations

from typing import Any

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.geometry import normalize_axis
from tensocket_plugins.contract import dtypes

from ..kinds.composite import composite


def at_least_1d(value: Any) -> Any:
    """Return a tensor of at least one dimension: for positions, a number is a vector of one element."""
    return value if value.ndim else value.reshape(1)


def padded(grad: Any, shape: tuple[int, ...]) -> Any:
    """Return a tensor in the leading corner of zeros of a shape."""
    return grad if tuple(grad.shape) == shape else grad.embed_index(shape, tuple(slice(0, n) for n in grad.shape))


def without_places(grad: Any, dim: int, index: Any) -> Any:
    """Return a gradient with zeros at the positions of an index tensor of its rank."""
    return call(COMPOSITES["scatter_number"], grad, dim, index, 0)


def corner_gradient(grad: Any, dim: int, index: Any, src_shape: tuple[int, ...]) -> Any:
    """Return the gradient of a source of which the leading corner, of the index's shape, was written or added."""
    if not index.numel():
        return grad.new_zeros(src_shape)
    part = grad.gather(dim, index)
    return padded(at_least_1d(part), src_shape) if src_shape else part.reshape(())


@composite("gather_gradient(Tensor grad, int[] shape, int dim, Tensor index) -> Tensor", method=False, function=False,
           replayable=True)
def gather_gradient(grad: Any, shape: tuple[int, ...], dim: int, index: Any) -> Any:
    """Return zeros with ``grad`` added at positions of an index tensor along a dimension."""
    if not index.numel():
        return grad.new_zeros(shape)
    places = at_least_1d(index).to(dtypes.int64)
    return added_to_zeros(at_least_1d(grad), normalize_axis("gather", dim, len(shape)), places, shape)


@composite("index_select_gradient(Tensor grad, int[] shape, int dim, Tensor index) -> Tensor", method=False,
           function=False, replayable=True)
def index_select_gradient(grad: Any, shape: tuple[int, ...], dim: int, index: Any) -> Any:
    """Return zeros with slices of ``grad`` added at positions of a dimension."""
    axis, places = normalize_axis("index_select", dim, len(shape)), index.to(dtypes.int64).reshape(-1)
    grad = at_least_1d(grad)
    lead = (1,) * axis + (-1,) + (1,) * (grad.ndim - axis - 1)
    return added_to_zeros(grad, axis, places.reshape(lead).expand(tuple(grad.shape)), shape)


def added_to_zeros(grad: Any, axis: int, places: Any, shape: tuple[int, ...]) -> Any:
    """Return zeros of a shape with ``grad`` added; a shape without dimensions stands for one element."""
    from .gather_scatter import scatter_add_to_zeros  # whose records have these gradients

    return scatter_add_to_zeros(grad, axis, places, shape or (1,)).reshape(shape)


@composite("take_gradient(Tensor grad, int[] shape, Tensor index) -> Tensor", method=False, function=False,
           replayable=True)
def take_gradient(grad: Any, shape: tuple[int, ...], index: Any) -> Any:
    """Return zeros with ``grad`` added at row-major positions."""
    return grad.new_zeros(shape).put(index, grad, accumulate=True)


@composite("index_gradient(Tensor grad, int[] shape, int used, Tensor? first, Tensor? second, Tensor? third, "
           "Tensor? fourth) -> Tensor", method=False, function=False, replayable=True)
def index_gradient(grad: Any, shape: tuple[int, ...], used: int, first: Any, second: Any, third: Any,
                   fourth: Any) -> Any:
    """Return zeros with ``grad`` added at index tensors of the dimensions in use."""
    return call(COMPOSITES["put_by_position"], grad.new_zeros(shape), grad, True, used, first, second, third, fourth)


def filled_value_gradient(grad: Any, dim: int, index: Any) -> Any:
    """Return the gradient of the value of ``index_fill``: the sum over the positions, each counted once."""
    axis, wide = normalize_axis("index_fill", dim, grad.ndim), at_least_1d(grad)
    marks = grad.new_zeros(wide.shape[axis], dtype=dtypes.bool_).index_fill(0, index, True)
    return functions.where(marks.reshape((-1, *(1,) * (wide.ndim - axis - 1))), wide, 0).sum()
