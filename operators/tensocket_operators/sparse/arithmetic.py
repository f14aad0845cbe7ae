"""Elementwise operators, sums, softmax and changes of shape of sparse tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.formats import sparse_coo
from tensocket_core.geometry import broadcast_shapes, normalize_axes, normalize_axis
from tensocket_plugins.contract.dtypes import int64
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, ShapeError

from . import gradients
from .compressed_shapes import sum_compressed
from .factories import without_values
from .layouts import as_coo, coalesced, dense_of, flat_positions, in_layout_of, summed_rows, values_at
from .recording import differentiable
from .shapes import broadcast_sparse
from .tensor import RULES, SparseTensor, detached, is_sparse, like, sparse_rule, wrap_sparse

#: Elementwise functions with f(0) = 0, which keep the positions.
OF_VALUES: Final = (
    "abs", "absolute", "angle", "arcsin", "arcsinh", "arctan", "arctanh", "asin", "asinh", "atan", "atanh", "ceil",
    "erf", "erfinv", "expm1", "floor", "frac", "isinf", "isnan", "isneginf", "isposinf",
    "log1p", "nan_to_num", "relu", "round", "sgn", "sign", "signbit", "sin",
    "sinh", "sqrt", "square", "tan", "tanh", "trunc",
)
#: Linear functions, which need not coalesce first.
LINEAR: Final = ("conj", "resolve_conj", "resolve_neg", "conj_physical", "deg2rad", "neg",
                 "negative", "positive", "rad2deg")
#: Conversions, which keep the positions and need not coalesce first.
_CONVERSIONS: Final = ("to", "cpu", "float", "double", "half", "bfloat16", "int", "long", "short", "bool", "contiguous",
                       "type")


def _mapped(name: str) -> Callable[..., Any]:
    def rule(input: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_sparse(input):
            return getattr(functions, name)(input, *args, **kwargs)
        source = input if name in LINEAR else coalesced(input)
        return like(source, getattr(functions, name)(source.stored, *args, **kwargs))

    return rule


def _moved(name: str) -> Callable[..., Any]:
    def rule(input: Any, *args: Any, **kwargs: Any) -> Any:
        stored = getattr(input.stored, name)(*args, **kwargs)
        place, copied = input.positions, {"copy": True} if kwargs.get("copy") else {}
        place = tuple(x.to(stored.device, **copied) for x in place) if isinstance(place, tuple) else (
            place.to(stored.device, **copied))
        return wrap_sparse(place, stored, input.shape, input._kind, input.coalesced)

    return rule


RULES.update({name: _mapped(name) for name in (*OF_VALUES, *LINEAR)})
RULES.update({name: differentiable(gradients.converted, reads_values=False)(_moved(name)) for name in _CONVERSIONS})
RULES.update({name: differentiable(gradients.negated, reads_values=False)(RULES[name]) for name in ("neg", "negative")})
# The values of sparse tensors are never lazy conjugates or negatives.
RULES.update({name: lambda input: False for name in ("is_conj", "is_neg")})


@sparse_rule("clone")
@differentiable(gradients.same, reads_values=False)
def _clone(input: Any, memory_format: Any = None) -> Any:
    return like(input, input.stored.clone())


@sparse_rule("detach")
def _detach(input: Any) -> Any:
    return detached(input)


# ------------------------------------------------------------------------------------------------ two operands


def _same_shape(operator: str, input: Any, other: Any) -> None:
    if tuple(input.shape) != tuple(other.shape):
        raise ShapeError(operator, f"shapes {list(input.shape)} and {list(other.shape)}",
                         "sparse operands have one shape", "expand one of them")


@sparse_rule("add")
@differentiable(gradients.of_add, reads_values=False)
def _add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    if not (is_sparse(input) and is_sparse(other)):
        dense = [dense_of(x) if is_sparse(x) else x for x in (input, other)]
        if not all(hasattr(x, "_key") for x in dense):
            raise ArgumentError("add", "a sparse tensor and a number", "sums with numbers have no zeros",
                                "convert it with to_dense() first")
        return functions.add(*dense, alpha=alpha)
    _same_shape("add", input, other)
    first, second = _same_split(as_coo(input), as_coo(other))
    if first.sparse_dim() != second.sparse_dim():
        raise ShapeError("add", f"{first.sparse_dim()} and {second.sparse_dim()} sparse dimensions",
                         "sparse operands have as many sparse dimensions", "convert one of them")
    scaled = second.stored if alpha == 1 else second.stored * alpha
    both = wrap_sparse(functions.cat([first.positions, second.positions], 1),
                       functions.cat([first.stored, scaled]), first.shape, sparse_coo)
    return in_layout_of(coalesced(both), input)


def _same_split(first: SparseTensor, second: SparseTensor) -> tuple[SparseTensor, SparseTensor]:
    """Return both operands; one without values gets as many sparse dimensions as the other."""
    shape, counts = tuple(first.shape), (first.sparse_dim(), second.sparse_dim())
    if counts[0] != counts[1] and not second._nnz():
        second = without_values(shape, counts[0], sparse_coo, second.dtype, second.device)
    elif counts[0] != counts[1] and not first._nnz():
        first = without_values(shape, counts[1], sparse_coo, first.dtype, first.device)
    return first, second


@sparse_rule("sub", "subtract")
@differentiable(gradients.of_sub, reads_values=False)
def _sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    return _add(input, other, alpha=-alpha)


def _is_number(value: Any) -> bool:
    return not hasattr(value, "_key") or (not is_sparse(value) and value.ndim == 0)


@sparse_rule("mul", "multiply")
@differentiable(gradients.of_mul)
def _mul(input: Any, other: Any) -> Any:
    if _is_number(input) or _is_number(other):
        source, number = (input, other) if is_sparse(input) else (other, input)
        return like(source, source.stored * number)
    shape = broadcast_shapes("mul", [tuple(input.shape), tuple(other.shape)])
    model = input if is_sparse(input) else other
    if is_sparse(input) and is_sparse(other):
        first, second = (coalesced(broadcast_sparse(x, shape)) for x in (input, other))
        if first.sparse_dim() == second.sparse_dim():
            return in_layout_of(_common(first, second), model)
        source, plain = first, dense_of(second)
    else:
        source, plain = (input, other) if is_sparse(input) else (other, input)
        source = broadcast_sparse(source, shape)
    return in_layout_of(like(source, source.stored * values_at(plain.expand(shape), source.positions)), model)


def _common(first: SparseTensor, second: SparseTensor) -> SparseTensor:
    """Return the products at positions that both operands store, which it finds by binary search."""
    sizes = first.shape[:first.sparse_dim()]
    numbers, others = flat_positions(first.positions, sizes), flat_positions(second.positions, sizes)
    if not others.shape[0]:
        return wrap_sparse(first.positions[:, :0], first.stored[:0] * second.stored[:0], first.shape, sparse_coo, True)
    places = functions.searchsorted(others, numbers).clamp(max=others.shape[0] - 1)
    kept = (others.index_select(0, places) == numbers).nonzero().squeeze(1)
    values = first.stored.index_select(0, kept) * second.stored.index_select(0, places.index_select(0, kept))
    return wrap_sparse(first.positions.index_select(1, kept), values, first.shape, sparse_coo, True)


@sparse_rule("div", "divide", "true_divide")
@differentiable(gradients.of_div)
def _div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    if not is_sparse(input) or not _is_number(other) or is_sparse(other):
        raise ArgumentError("div", "a divisor with dimensions", "sparse tensors are divided by numbers",
                            "convert them with to_dense() first")
    source = coalesced(input) if rounding_mode else input
    return like(source, functions.div(source.stored, other, rounding_mode=rounding_mode))


@sparse_rule("pow")
def _pow(input: Any, exponent: Any) -> Any:
    if not is_sparse(input) or not _is_number(exponent) or not exponent > 0:
        raise ArgumentError("pow", f"the exponent {exponent}", "powers of zeros are 0 for positive exponents",
                            "convert it with to_dense() first")
    source = coalesced(input)
    return like(source, source.stored ** exponent)


@sparse_rule("floor_divide")
def _floor_divide(input: Any, other: Any) -> Any:
    return _div(input, other, rounding_mode="floor")


# ------------------------------------------------------------------------------------------------ sums and softmax


@sparse_rule("any")
def _any(input: Any) -> Any:
    return coalesced(input).stored.any()


@sparse_rule("is_nonzero", "__bool__")
def _is_nonzero(input: Any) -> bool:
    if input.numel() != 1:
        raise ArgumentError("is_nonzero", f"a sparse tensor of {input.numel()} elements", "the truth of one element is "
                            "defined", "use any()")
    return bool(input.to_dense().reshape(()).item())


@sparse_rule("item")
def _item(input: Any) -> Any:
    return input.to_dense().item()


@sparse_rule("norm")
def _norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if p == "fro" and dtype is not None:
        raise ArgumentError("norm", f"dtype={dtype!r} for p='fro'", "dtype argument is not supported in frobenius norm",
                            "convert the tensor first")
    if p not in ("fro", None, 2, 2.0):
        raise ArgumentError("norm", f"p={p!r}", "norms of sparse tensors are those of Frobenius",
                            "convert it with to_dense() first")
    if keepdim or not (dim is None or sorted(normalize_axes("norm", dim, input.ndim)) == list(range(input.ndim))):
        raise ArgumentError("norm", f"dim={dim!r}, keepdim={keepdim}", "norms of sparse tensors are those of all "
                            "elements", "convert it with to_dense() first")
    return functions.norm(coalesced(input).stored, dtype=dtype)


@sparse_rule("numpy", "__array__")
def _numpy(input: Any, *args: Any, **options: Any) -> Any:
    raise ArgumentTypeError("numpy", f"a tensor of layout {input._kind!r}", "arrays are dense",
                            "convert it with to_dense() first")


@sparse_rule("equal")
def _equal(input: Any, other: Any) -> bool:
    if not (is_sparse(input) and is_sparse(other)) or tuple(input.shape) != tuple(other.shape):
        return False
    return bool(functions.equal(input.to_dense(), other.to_dense()))





def sparse_sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return the sum over dimensions: of all as a dense scalar, else sparse if a sparse dimension is left.

    Args:
        input: A sparse tensor.
        dim: Dimensions to sum over; by default all.
        keepdim: Whether dimensions that are summed over stay, with size 1.
        dtype: Dtype to which the input is converted first.
    """
    stored = input.stored if dtype is None else input.stored.to(dtype)
    if dim is None:
        return stored.sum()
    gone = normalize_axes("sparse.sum", dim, input.ndim)
    source, count = as_coo(input), input.sparse_dim()
    dense = [k - count + 1 for k in gone if k >= count]
    stored = stored.sum(dense, keepdim) if dense else stored
    kept = [k for k in range(count) if k not in gone]
    if not kept:
        total = stored.sum(0)
        return total.reshape((*(1 for _ in range(count)), *total.shape)) if keepdim else total
    shape = tuple(input.shape[k] for k in range(input.ndim) if k not in gone)
    rows = functions.stack([source.positions.select(0, k) for k in kept])
    whole = len(kept) == count
    made = wrap_sparse(rows, stored, shape, sparse_coo, whole and source.coalesced)
    result: Any = made if whole else coalesced(made)
    for axis in sorted(gone) if keepdim else ():
        result = result.unsqueeze(axis)
    return result


@sparse_rule("sum")
@differentiable(gradients.of_sum, reads_values=False)
def _sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if dtype is None and input.dtype.kind in ("bool", "int", "uint"):
        dtype = int64
    if input._kind is not sparse_coo:
        return sum_compressed(input, dim, keepdim, dtype)
    return sparse_sum(input, dim, keepdim, dtype=dtype)


def _softmax(name: str, input: Any, dim: int, dtype: Any) -> Any:
    """Apply a softmax over the stored elements along a dimension; the others stay unstored, like minus infinity."""
    source = coalesced(as_coo(input))
    axis, count = normalize_axis(name, dim, input.ndim), source.sparse_dim()
    stored = source.stored if dtype is None else source.stored.to(dtype)
    logarithm = name.endswith("log_softmax")
    if axis >= count:
        result = getattr(functions, "log_softmax" if logarithm else "softmax")(stored, axis - count + 1)
        return like(source, result)
    others = [k for k in range(count) if k != axis]
    sizes = [input.shape[k] for k in others]
    rows = functions.stack([source.positions.select(0, k) for k in others]) if others else source.positions[:0]
    group = flat_positions(rows, sizes) if others else source.positions.select(0, 0) * 0
    distinct, places = functions.unique(group, return_inverse=True)
    total = distinct.shape[0]
    fixed = stored.detach()
    top = fixed.new_full((total, *stored.shape[1:]), -math.inf).index_reduce(0, places, fixed, "amax")
    shifted = stored - top.index_select(0, places)
    sums = summed_rows(total, places, shifted.exp()).index_select(0, places)
    result = shifted - sums.log() if logarithm else shifted.exp() / sums
    return in_layout_of(like(source, result), input)


@sparse_rule("softmax")
def softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """Apply ``softmax`` over the stored elements along a dimension."""
    return _softmax("sparse.softmax", input, dim, dtype)


@sparse_rule("log_softmax")
def log_softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """Apply ``log_softmax`` over the stored elements along a dimension."""
    return _softmax("sparse.log_softmax", input, dim, dtype)


__all__ = ["LINEAR", "OF_VALUES", "log_softmax", "softmax", "sparse_sum"]
