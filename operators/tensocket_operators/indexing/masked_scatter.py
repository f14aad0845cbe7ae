"""Writes and additions at positions, and selection by masks."""

from __future__ import annotations

from typing import Any, Final

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.geometry import broadcast_shapes, normalize_axis
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import DimensionError, DtypeError, ShapeError

from ..deterministic import alert_not_deterministic
from ..kinds.composite import composite
from ..kinds.inplace import check_separate
from ..kinds.pointwise import Pointwise
from ..reductions.value_checks import value_range
from .advanced_indexing import index_tensors
from .gather_scatter import check_long, checked_index, rows_index, scatter_valid
from .gradients import at_least_1d, filled_value_gradient
from .small_selections import argwhere_path, masked_scatter_path, masked_select_path


def vector_index(operator: str, input: Any, dim: int, index: Any, source: Any = None) -> tuple[int, Any, Any]:
    """Return the axis, the checked positions and a source along them.

    Raises:
        ShapeError: The index is not a vector, or the source's shape is not the input's with the index's size.
        DtypeError: Source and input differ in dtype.
    """
    axis = normalize_axis(operator, dim, input.ndim)
    if index.ndim > 1:
        raise DimensionError(operator, f"index {list(index.shape)}", "the index is a vector", "flatten it")
    shape = tuple(input.shape)
    places = checked_index(operator, index, shape[axis] if shape else 1).reshape(-1)
    if source is None:
        return axis, places, None
    if source.dtype is not input.dtype:
        raise DtypeError(operator, f"source of {source.dtype.name} for input of {input.dtype.name}",
                         "source and input have one dtype", "convert source with .to(dtype)")
    if operator == "index_copy" and len(shape) < 2:  # only index_copy takes numbers for vectors
        source = source.reshape(-1 if shape or places.numel() != 1 else ())
    wanted = (*shape[:axis], places.numel(), *shape[axis + 1:]) if shape else (places.numel(),)
    if not shape and (operator != "index_copy" or places.numel() == 1):
        wanted = ()
    if tuple(source.shape) != wanted:
        same = source.ndim == len(shape) and all(
            a == b for k, (a, b) in enumerate(zip(source.shape, shape, strict=True)) if k != axis)
        kind = DimensionError if operator == "index_copy" and (same or source.ndim != len(shape)) else ShapeError
        raise kind(operator, f"source {list(source.shape)}, input {list(shape)}, {places.numel()} positions",
                   "source has the input's shape, with a place for every position along dim", "reshape source")
    return axis, places, source


def _along(input: Any, axis: int, places: Any, source: Any, add: bool) -> Any:
    if input.ndim == 0:
        return _along(input.reshape(1), 0, places, source.reshape(-1), add).reshape(())
    return call(scatter_valid, input, axis, rows_index(places, tuple(source.shape), axis), source, add)


def _selected(grad: Any, dim: int, index: Any, shape: tuple[int, ...]) -> Any:
    """Return the gradient of a source along positions."""
    return grad.index_select(dim, index).reshape(shape)


def _source_gradient(grad: Any, dim: int, index: Any, shape: tuple[int, ...], alpha: Any) -> Any:
    selected = _selected(grad, dim, index, shape)
    return selected if alpha == 1 else selected * alpha


#: The product of a tensor and a number, always by a kernel, so that replays contain it.
times_number: Final = Pointwise(
    "times_number(Tensor input, Operand by) -> Tensor", "input * by.", lambda m, x, by: x * by, kinds="bifc",
    launched=True, method=False, function=False, derivative=Derivative(input=lambda grad, by: grad * by))


@composite("index_add(Tensor input, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
           replayable=True, derivative=Derivative(
               input=lambda grad: grad,
               source=lambda grad, dim, index, source_shape, alpha: _source_gradient(
                   grad, dim, index, source_shape, alpha)))
def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """Return a copy of the tensor with ``alpha * source`` added at positions of a dimension."""
    axis, places, source = vector_index("index_add", input, dim, index, source)
    if input.dtype.kind in ("int", "uint"):
        alpha = int(alpha)
    return _along(input, axis, places, source if alpha == 1 else call(times_number, source, alpha), True)


@composite("index_copy(Tensor input, int dim, Tensor index, Tensor source) -> Tensor", replayable=True,
           derivative=Derivative(
               input=lambda grad, dim, index: grad.index_fill(dim, index, 0),
               source=lambda grad, dim, index, source_shape: _selected(grad, dim, index, source_shape)))
def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """Return a copy of the tensor with ``source`` at positions of a dimension."""
    check_long("index_copy", index)
    axis, places, source = vector_index("index_copy", input, dim, index, source)
    return _along(input, axis, places, source, False)


def _check_fill(input: Any, dim: int, index: Any, is_complex: bool, value: Any) -> int:
    """Return the axis of ``index_fill``.

    Raises:
        ShapeError: The index is not a vector.
        DimensionError: The index is of neither int64 nor int32.
        DtypeError: The value is complex, but the tensor is not.
    """
    axis = normalize_axis("index_fill", dim, input.ndim)
    if index.ndim > 1:
        raise ShapeError("index_fill", f"index {list(index.shape)}", "the index is a vector", "flatten it")
    if index.dtype is not dtypes.int64 and index.dtype is not dtypes.int32:
        raise DimensionError("index_fill", f"an index of dtype {index.dtype.name}", "positions are int64",
                             "convert it with .long()")
    if is_complex and input.dtype.kind != "complex":
        raise DtypeError("index_fill", f"the value {value} for {input.dtype.name}",
                         "a complex number has no real form", "pass its real part")
    return axis


@composite("index_fill_number(Tensor input, int dim, Tensor index, Scalar value) -> Tensor", method=False,
           function=False, replayable=True,
           derivative=Derivative(input=lambda grad, dim, index: grad.index_fill(dim, index, 0)))
def index_fill_number(input: Any, dim: int, index: Any, value: Any) -> Any:
    """Apply ``index_fill`` to a number."""
    axis, shape = _check_fill(input, dim, index, isinstance(value, complex), value), tuple(input.shape)
    places = checked_index("index_fill", index.reshape(-1), shape[axis] if shape else 1, negative=True)
    wide = rows_index(places, shape or (1,), axis)
    source = input.new_full((), value).expand(tuple(wide.shape))
    return call(scatter_valid, at_least_1d(input), axis, wide, source, False).reshape(shape)


@composite("index_fill_tensor(Tensor input, int dim, Tensor index, Tensor value) -> Tensor", method=False,
           function=False, replayable=True,
           derivative=Derivative(input=lambda grad, dim, index: grad.index_fill(dim, index, 0),
                                 value=filled_value_gradient))
def index_fill_tensor(input: Any, dim: int, index: Any, value: Any) -> Any:
    """Apply ``index_fill`` to a 0-dimensional tensor of the tensor's dtype, whose gradient counts a position once."""
    axis, shape = _check_fill(input, dim, index, False, value), tuple(input.shape)
    places = checked_index("index_fill", index.reshape(-1), shape[axis] if shape else 1, negative=True)
    marks = places.new_zeros(shape[axis] if shape else 1, dtype=dtypes.bool_)
    marks = call(scatter_valid, marks, 0, places, marks.new_ones(places.shape), False)
    return functions.where(marks.reshape((-1, *(1,) * (len(shape) - axis - 1)) if shape else ()), value, input)


@composite("index_fill(Tensor input, int dim, Tensor index, Operand value) -> Tensor")
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """Return a copy of the tensor with one value at positions of a dimension; negative ones count from the end."""
    if not hasattr(value, "_key"):
        return call(COMPOSITES["index_fill_number"], input, dim, index, value)
    if value.ndim:
        raise ShapeError("index_fill", f"a value of shape {list(value.shape)}",
                         "the value is a number or a 0-dimensional tensor", "use index_copy for tensors")
    _check_fill(input, dim, index, value.dtype.kind == "complex", f"of dtype {value.dtype.name}")
    return call(COMPOSITES["index_fill_tensor"], input, dim, index, value.to(input.dtype))


@composite("put(Tensor input, Tensor index, Tensor source, bool accumulate=False) -> Tensor")
def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """Return a copy of the tensor with elements of ``source`` at positions of the flattened tensor."""
    if source.dtype is not input.dtype:
        raise DtypeError("put", f"source of {source.dtype.name} for input of {input.dtype.name}",
                         "source and input have one dtype", "convert source with .to(dtype)")
    check_long("put", index)
    if source.numel() != index.numel():
        raise DimensionError("put", f"{source.numel()} elements for {index.numel()} positions",
                             "there is an element for every position", "reshape source")
    if not accumulate:
        alert_not_deterministic("put_", input.device)
    return call(COMPOSITES["put_elements"], input, index, source, accumulate)


@composite("put_elements(Tensor input, Tensor index, Tensor source, bool accumulate) -> Tensor", method=False,
           function=False, replayable=True,
           derivative=Derivative(
               input=lambda grad, index, source_shape, accumulate: grad if accumulate else call(
                   COMPOSITES["put_elements"], grad, index, grad.new_zeros(source_shape), False),
               source=lambda grad, index, source_shape: grad.take(index).reshape(source_shape)))
def put_elements(input: Any, index: Any, source: Any, accumulate: bool) -> Any:
    """Apply ``put`` to arguments of checked shapes and dtypes."""
    places = checked_index("put", index, input.numel(), negative=True).reshape(-1)
    flat = input.contiguous().view(-1)
    return call(scatter_valid, flat, 0, places, source.reshape(-1), accumulate).view(tuple(input.shape))


# ---------------------------------------------------------------------------------------------------------- masks


def _mask(operator: str, mask: Any) -> Any:
    if mask.dtype is not dtypes.bool_:
        raise DtypeError(operator, f"a mask of dtype {mask.dtype.name}", "a mask is of bools", "compare first")
    return mask


@composite("masked_select(Tensor input, Tensor mask) -> Tensor", host_path=masked_select_path)
def masked_select(input: Any, mask: Any) -> Any:
    """Return the elements where a mask is true, as a vector; tensor and mask broadcast together."""
    shape = broadcast_shapes("masked_select", [input._array.shape, _mask("masked_select", mask)._array.shape])
    if not shape:
        return input.reshape(1).masked_select(mask)
    return index_tensors(input.expand(shape), (mask.expand(shape),))


@composite("masked_scatter(Tensor input, Tensor mask, Tensor source) -> Tensor", host_path=masked_scatter_path)
def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """Return a copy of the tensor with elements of ``source``, in order, where a mask is true.

    Raises:
        ShapeError: ``source`` has fewer elements than the mask selects.
        DtypeError: ``source`` has another dtype, or the mask is not of bools.
    """
    if mask.dtype is not dtypes.bool_:
        raise DtypeError("masked_scatter", f"a mask of dtype {mask.dtype.name}", "a mask is of bools",
                         "convert it with .bool()")
    if source.dtype is not input.dtype:
        raise DtypeError("masked_scatter", f"source of {source.dtype.name} for input of {input.dtype.name}",
                         "source and input have one dtype", "convert source with .to(dtype)")
    if mask._level:
        return _masked_scatter_of_examples(input, mask, source)
    shape = broadcast_shapes("masked_scatter", [input._array.shape, _mask("masked_scatter", mask)._array.shape])
    # Without data, the mask selects nothing, which gives the same shapes and the same graph.
    places = (mask.expand(shape).reshape(-1).nonzero().reshape(-1) if mask._device_state.holds_data
              else mask.new_empty((0,), dtype=dtypes.int64))
    if places.numel() > source.numel():
        raise ShapeError("masked_scatter", f"{source.numel()} elements for {places.numel()} places",
                         "source has an element for every place of the mask", "pass a larger source")
    flat = input.expand(shape).reshape(-1)
    return call(scatter_valid, flat, 0, places, source.reshape(-1).narrow(0, 0, places.numel()), False).view(shape)


def _masked_scatter_of_examples(input: Any, mask: Any, source: Any) -> Any:
    """Apply ``masked_scatter`` with shapes that do not depend on the mask: every position looks up its own element."""
    mask, input = functions.broadcast_tensors(mask, input)
    rank = mask.reshape(-1).cumsum(0) - 1
    most = value_range(rank)[1] + 1 if rank.numel() else 0
    if most > source.numel():
        raise ShapeError("masked_scatter", f"{source.numel()} elements for {most} places",
                         "source has an element for every place of the mask", "pass a larger source")
    if not source.numel():
        return input.clone()
    chosen = source.reshape(-1).index_select(0, rank.clamp(0))
    return functions.where(mask, chosen.reshape(tuple(input.shape)), input)


@composite("argwhere(Tensor input) -> Tensor", host_path=argwhere_path)
def argwhere(input: Any) -> Any:
    """Return the positions of nonzero elements, one row each."""
    return input.nonzero()


# -------------------------------------------------------------------------------------------------------- in place


@composite("index_add_(Tensor! input, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
           function=False)
def index_add_(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """Apply ``index_add`` in place."""
    check_separate("index_add_", input, index, source)
    return input.copy_(input.index_add(dim, index, source, alpha=alpha))


@composite("index_copy_(Tensor! input, int dim, Tensor index, Tensor source) -> Tensor", function=False)
def index_copy_(input: Any, dim: int, index: Any, source: Any) -> Any:
    """Apply ``index_copy`` in place."""
    check_separate("index_copy_", input, index, source)
    return input.copy_(input.index_copy(dim, index, source))


@composite("index_fill_(Tensor! input, int dim, Tensor index, Operand value) -> Tensor", function=False)
def index_fill_(input: Any, dim: int, index: Any, value: Any) -> Any:
    """Apply ``index_fill`` in place."""
    check_separate("index_fill_", input, index)
    return input.copy_(input.index_fill(dim, index, value))


@composite("put_(Tensor! input, Tensor index, Tensor source, bool accumulate=False) -> Tensor", function=False)
def put_(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """Apply ``put`` in place."""
    check_separate("put_", input, index, source)
    return input.copy_(input.put(index, source, accumulate))


@composite("masked_scatter_(Tensor! input, Tensor mask, Tensor source) -> Tensor", function=False)
def masked_scatter_(input: Any, mask: Any, source: Any) -> Any:
    """Apply ``masked_scatter`` in place; the mask broadcasts to the tensor."""
    check_separate("masked_scatter_", input, mask, source)
    return input.copy_(input.masked_scatter(mask, source))
