"""Functions of nested tensors of layout jagged that make new components: reductions, normalisation and products."""

from __future__ import annotations

import math
from typing import Any

import tensocket_operators as core
from tensocket_core.geometry import normalize_axis
from tensocket_operators import Tensor, functions
from tensocket_plugins.contract.errors import ShapeError, UnsupportedOperator

from .jagged import not_along, sizes_of
from .padding import cut, joined, padded
from .rules import nested_in, rule
from .sizes import NestedInt
from .tensors import Nested, NestedTensor, components, nested, plain

#: Padding values for reductions over the ragged dimension.
_NEUTRAL = {"sum": 0, "mean": 0, "prod": 1, "amax": -math.inf, "amin": math.inf, "any": 0, "all": 1}


def _reduction(name: str) -> None:
    @rule(NestedTensor, name)
    def reduce(input: Any, dim: Any = None, keepdim: bool = False, **keywords: Any) -> Any:
        return _reduced(name, input, dim, keepdim, keywords)


for _name in ("sum", "mean", "prod", "amax", "amin", "any", "all", "logsumexp"):
    _reduction(_name)


def _extremes(name: str) -> None:
    function = getattr(functions, name)

    @rule(NestedTensor, name)
    def find(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, Tensor):
            return getattr(functions, f"{name}imum")(input, dim)
        if dim is None:
            return function(plain(input if input._structure.lengths is None else joined(components(input), input)))
        axis = normalize_axis(name, dim, input.ndim)
        if axis in (0, input._structure.axis):
            raise not_along(name, axis)
        found = function(plain(input), axis - 1, keepdim)
        moved = input._structure.axis - (not keepdim and axis < input._structure.axis)
        structure = input._structure.moved(moved, input.ndim - (not keepdim))
        if isinstance(found, Tensor):
            return nested(found, structure)
        return type(found)(*[nested(x, structure) for x in found])


for _name in ("max", "min", "argmax", "argmin"):
    _extremes(_name)


def _spread(name: str) -> None:
    @rule(NestedTensor, name)
    def reduce(input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
               correction: float | None = None) -> Any:
        free = (0 if unbiased is False else 1) if correction is None else correction
        return _reduced(name, input, dim, keepdim, {"correction": free})


for _name in ("var", "std"):
    _spread(_name)


def _reduced(name: str, input: Any, dim: Any, keepdim: bool, keywords: dict[str, Any]) -> Any:
    """Return a reduction over dimensions, or over all of them.

    Raises:
        ShapeError: It includes the batch but not the ragged dimension, or that and others without the batch.
    """
    function = getattr(functions, name)
    structure = input._structure
    without_gaps = input if structure.lengths is None else joined(components(input), input)
    if dim is None or dim in ((), []):
        return function(plain(without_gaps), **keywords)
    axes = sorted({normalize_axis(name, k, input.ndim) for k in ([dim] if isinstance(dim, int) else dim)})
    axis = structure.axis
    if (0 in axes) != (axis in axes) and axes != [axis]:
        raise ShapeError(name, f"dimensions {axes}", f"{name}(): applying over the ragged dimension, but not the batch "
                         "dimension is not supported for NestedTensor", "reduce over both, or over the ragged one only")
    if axes == [axis]:
        return _reduced_ragged(name, function, input, keepdim, keywords)
    inner = [k - 1 for k in axes if k]
    values = function(plain(without_gaps), inner if len(inner) > 1 or name in ("sum", "mean", "amax", "amin", "var",
                                                                              "std", "logsumexp") else inner[0],
                      keepdim=keepdim, **keywords)
    if 0 in axes:
        return values.unsqueeze(0) if keepdim else values
    moved = axis if keepdim else axis - len([k for k in axes if k < axis])
    return nested(values, without_gaps._structure.moved(moved, values.dim() + 1))


def _reduced_ragged(name: str, function: Any, input: Any, keepdim: bool, keywords: dict[str, Any]) -> Any:
    """Return a reduction of each component along the ragged dimension, as a dense tensor."""
    axis = input._structure.axis
    if name not in _NEUTRAL:
        parts = [function(x, axis - 1, keepdim=keepdim, **keywords) for x in components(input)]
        return core.stack(parts)
    if not input.dtype.is_floating_point and name in ("amax", "amin"):
        parts = [function(x, axis - 1, keepdim=keepdim, **keywords) for x in components(input)]
        return core.stack(parts)
    dense = padded(input, _NEUTRAL[name])
    if name != "mean":
        return function(dense, axis, keepdim=keepdim, **keywords)
    total = dense.sum(axis, keepdim=keepdim, **keywords)
    counts = core.tensor(input._structure.bounds()[1], dtype=total.dtype, device=total.device)
    return total / counts.view(-1, *[1] * (total.dim() - 1))


def _softmax(name: str) -> None:
    function = getattr(functions, name)

    @rule(NestedTensor, name)
    def normalise(input: Any, dim: int, dtype: Any = None) -> Any:
        axis = normalize_axis(name, dim, input.ndim)
        if axis == 0:
            raise UnsupportedOperator(name, "dim=0", f"{name}(): not supported when reducing across the batch "
                                      "dimension for NestedTensor", "pass another dimension")
        if axis != input._structure.axis:
            return nested(function(plain(input), axis - 1, dtype=dtype), input._structure)
        return cut(function(padded(input, -math.inf), axis, dtype=dtype), input._structure)


for _name in ("softmax", "log_softmax"):
    _softmax(_name)


def _normalised(name: str, input: Any, normalized_shape: Any) -> list[int]:
    sizes = list(normalized_shape) if isinstance(normalized_shape, (tuple, list)) else [normalized_shape]
    if len(sizes) > input.ndim - 1 - input._structure.axis or any(isinstance(n, NestedInt) for n in sizes):
        raise UnsupportedOperator(name, f"normalized_shape {sizes}", f"{name}(): normalizing over ragged dim not "
                                  "supported for nested tensors", "normalise dimensions behind the ragged one")
    return sizes


@rule(NestedTensor, "layer_norm")
def layer_norm(input: Any, normalized_shape: Any, *args: Any, **keywords: Any) -> Any:
    """Normalise over dimensions after the ragged one."""
    sizes = _normalised("layer_norm", input, normalized_shape)
    return nested(core.layer_norm(plain(input), sizes, *args, **keywords), input._structure)


@rule(NestedTensor, "rms_norm")
def rms_norm(input: Any, normalized_shape: Any, *args: Any, **keywords: Any) -> Any:
    """Divide by the root of the mean square over dimensions after the ragged one."""
    sizes = _normalised("rms_norm", input, normalized_shape)
    return nested(core.rms_norm(plain(input), sizes, *args, **keywords), input._structure)


@rule(NestedTensor, "linear")
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """Return ``x @ weight.T + bias`` of all rows in one product.

    Raises:
        UnsupportedOperator: A parameter is nested, or the ragged dimension is the last one.
    """
    if not isinstance(input, Nested) or isinstance(weight, Nested) or isinstance(bias, Nested):
        raise UnsupportedOperator("linear", "nested parameters", "linear does not support nested parameters",
                                  "pass dense ones")
    if input._structure.axis == input.ndim - 1:
        raise not_along("linear", input.ndim - 1)
    return nested(functions.linear(plain(input), weight, bias), input._structure)


@rule(NestedTensor, "matmul", "__matmul__", "__rmatmul__", "bmm")
def matmul(input: Any, other: Any) -> Any:
    """Multiply matrices component by component; a dense matrix broadcasts to all components.

    If the product sums over the ragged dimension, the result is dense.

    Raises:
        ShapeError: The tensors do not fit.
    """
    axis = next(nested_in((input, other)))._structure.axis
    if isinstance(input, Nested) and not isinstance(other, Nested) and other.dim() <= 2 and axis < input.ndim - 1:
        return nested(plain(input) @ other, input._structure.moved(axis, input.ndim - (other.dim() == 1)))
    first, second = (components(x) if isinstance(x, Nested) else list(x.unbind(0)) for x in (input, other))
    if len(first) != len(second) or input.dim() != other.dim():
        raise ShapeError("matmul", f"tensors of shapes {sizes_of(input)} and {sizes_of(other)}",
                         "matmul(): not supported between inputs of these shapes", "pass batches of one size")
    parts = [a @ b for a, b in zip(first, second, strict=True)]
    shapes = {tuple(x.shape) for x in parts}
    kept = isinstance(input, Nested) and input._structure.axis < input.ndim - 1
    if kept or (isinstance(other, Nested) and other._structure.axis == other.ndim - 1):
        return _rejoined(parts, input if kept else other)
    return core.stack(parts) if len(shapes) == 1 else joined(parts)


def _rejoined(parts: list[Any], example: Any) -> Any:
    """Join products to a tensor that is ragged like one of the factors; two ragged dimensions need layout strided."""
    axis = example._structure.axis
    others = {(*x.shape[:axis - 1], *x.shape[axis:]) for x in parts}
    return joined(parts, example) if len(others) == 1 else joined(parts)


@rule(NestedTensor, "masked_select")
def masked_select(input: Any, mask: Any) -> Any:
    """Return the elements for which ``mask`` is true, in one dimension."""
    return plain(input).masked_select(plain(mask))


@rule(NestedTensor, "is_same_size")
def is_same_size(input: Any, other: Any) -> bool:
    """Whether two nested tensors have the same ragged structure and sizes."""
    return bool(input.is_same_size(other))
