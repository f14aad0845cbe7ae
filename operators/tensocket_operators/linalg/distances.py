"""Distances and similarities of vectors, and their losses."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tensocket_core import functions
from tensocket_core.dispatch.blame import blame
from tensocket_core.dispatch.call import call
from tensocket_core.geometry import is_integer
from tensocket_core.launch.fill import from_values
from tensocket_plugins.contract.dtypes import int64
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError

from ..kinds.composite import composite
from ..nn.losses.losses import reduced
from ..reductions.reductions import length
from ..reductions.value_checks import promoted_for_arithmetic
from ..unrolled.recomputed import Recomputed

_MATRIX_PRODUCT: Final = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist",
                          "donot_use_mm_for_euclid_dist")
#: Rows above which Euclidean distances go through a matrix product by default.
_MANY_ROWS: Final = 25
#: Added to squared lengths so that the cosine of a zero vector is zero.
_COSINE_EPS: Final = 1e-12


def lengths(x: Any, p: float, dim: Any, keepdim: bool = False) -> Any:
    """Return the p-norm along dimensions; its gradient is 0 at norm 0, and at zeros if ``p`` is below 1."""
    if p == 2 and x.dtype.is_floating_point:
        return call(length, x, int(dim) if is_integer(dim) else dim, keepdim)  # an int has a plan
    dtype, size = promoted_for_arithmetic(x.abs())
    if p == 0:
        return size.masked_fill(x != 0, 1).sum(dim, keepdim).to(dtype)  # keeps a gradient of zeros
    if p == 1:
        return size.sum(dim, keepdim).to(dtype)
    if math.isinf(p):
        return _extreme(size, p, dim, keepdim).to(dtype)
    zeros = size == 0
    if p == 2:
        powers = size * size
    else:
        powers = size.masked_fill(zeros, 1).pow(p).masked_fill(zeros, 0) if 0 < p < 1 else size.pow(p)
    total = powers.sum(dim, keepdim)
    nothing = total == 0
    safe = total.masked_fill(nothing, 1)
    return (safe.sqrt() if p == 2 else safe.pow(1 / p)).masked_fill(nothing, 0).to(dtype)


def _extreme(size: Any, p: float, dim: Any, keepdim: bool) -> Any:
    dims = (dim,) if is_integer(dim) else dim
    if any(size.shape[d] == 0 for d in dims):
        return size.sum(dim, keepdim)
    return size.amax(dim, keepdim) if p > 0 else size.amin(dim, keepdim)


def _floats(operator: str, *tensors: Any) -> None:
    for x in tensors:
        if not x.dtype.is_floating_point:
            raise DtypeError(operator, f"dtype {x.dtype.name}", f"{operator} is defined for floats",
                             "convert with .float() first")


def _exponent(operator: str, p: float) -> None:
    if p < 0:
        raise ArgumentError(operator, f"p={p}", "the exponent of a norm is not negative", "pass a number from 0 to inf")


@composite("normalize(Tensor input, float p=2.0, any dim=1, float eps=1e-12) -> Tensor", method=False,
           namespace="nn.functional", hands_by_name=True)
def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Any:
    """Return input / max(‖input‖, eps), with p-norms along ``dim`` (one dimension or several)."""
    with blame("normalize"):
        dtype, input = promoted_for_arithmetic(input)
        return (input / lengths(input, p, dim, True).clamp_min(eps)).to(dtype)


@composite("cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor", method=False,
           recomputed=Recomputed(saved=("x1", "x2")))
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """Return x1 · x2 / (max(‖x1‖, eps) * max(‖x2‖, eps)) along ``dim``, with broadcasting.

    Raises:
        DtypeError: No operand has a floating-point dtype.
    """
    if not (x1.dtype.is_floating_point or x2.dtype.is_floating_point):
        _floats("cosine_similarity", x1)
    with blame("cosine_similarity"):
        dtype, x1, x2 = promoted_for_arithmetic(x1, x2)
        work = x1.dtype if x1.dtype is x2.dtype else dtype
        x1, x2 = functions.broadcast_tensors(x1.to(work), x2.to(work))
        return (_unit(x1, dim, eps) * _unit(x2, dim, eps)).sum(dim).to(dtype)


def _unit(x: Any, dim: int, eps: float) -> Any:
    """Return vectors of length one; short ones are divided by ``eps``, with the gradient of the true length."""
    size = lengths(x, 2, dim, True)
    given = size.detach()
    return x / functions.where(given < eps, size + (eps - given), size)


@composite("pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool keepdim=False) -> Tensor",
           method=False)
def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """Return the p-norms of x1 - x2 + eps along the last dimension."""
    with blame("pairwise_distance"):
        return lengths(x1 - x2 + eps, p, -1, keepdim)


@composite("dist(Tensor input, Tensor other, Scalar p=2) -> Tensor")
def dist(input: Any, other: Any, p: float = 2) -> Any:
    """Return the p-norm of all elements of input - other.

    Raises:
        DtypeError: The difference is neither floating-point nor complex.
    """
    with blame("dist"):
        difference = input - other
        if not difference.is_complex():
            _floats("dist", difference)
        return lengths(difference.reshape(-1), p, 0)


@composite("pdist(Tensor input, float p=2.0) -> Tensor", method=False, recomputed=Recomputed(saved=("input",)))
def pdist(input: Any, p: float = 2.0) -> Any:
    """Return the p-norms of the differences of all pairs of rows i < j of a matrix, in row-major order of the pairs.

    Raises:
        ShapeError: The input is not a matrix.
        DtypeError: The input does not have a floating-point dtype.
        ArgumentError: The exponent is negative.
    """
    if input.ndim != 2:
        raise ShapeError("pdist", f"input {list(input.shape)}", "the input is a matrix", "pass [N, D]")
    _floats("pdist", input)
    _exponent("pdist", p)
    dtype, input = promoted_for_arithmetic(input)
    if input.shape[0] < 2:  # there are no pairs
        return lengths(input.narrow(0, 0, 0), p, 1).to(dtype)
    first, second = [from_values(np.ascontiguousarray(k), int64, input._device_state)
                     for k in np.triu_indices(input.shape[0], 1)]
    return lengths(input.index_select(0, first) - input.index_select(0, second), p, 1).to(dtype)


@composite("cdist(Tensor x1, Tensor x2, float p=2.0, any compute_mode=None) -> Tensor", method=False,
           hands_by_name=True)
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: Any = None) -> Any:
    """Return the p-norms of the differences of all pairs of rows: [..., P, D] and [..., R, D] give [..., P, R].

    Args:
        x1: Rows; leading dimensions are batch dimensions and broadcast.
        x2: Rows.
        p: Exponent, 0 to inf.
        compute_mode: ``use_mm_for_euclid_dist_if_necessary`` (through a matrix product if an operand has more than 25
            rows; the default), ``use_mm_for_euclid_dist`` or ``donot_use_mm_for_euclid_dist``.

    Raises:
        ShapeError: An operand has fewer than two dimensions, or the numbers of columns differ.
        DtypeError: An operand does not have a floating-point dtype.
        ArgumentError: The exponent is negative, or the mode is unknown.
    """
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError("cdist", f"x1 {list(x1.shape)} and x2 {list(x2.shape)}",
                         "both are matrices with the same number of columns", "check the last dimension")
    _floats("cdist", x1, x2)
    _exponent("cdist", p)
    dtype, x1, x2 = promoted_for_arithmetic(x1, x2)
    if p == 2 and _through_product(x1, x2, compute_mode):
        return _euclidean(x1, x2).to(dtype)
    with blame("cdist"):
        return lengths(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1).to(dtype)


def _through_product(x1: Any, x2: Any, mode: Any) -> bool:
    if mode is None or mode in (0, 1, 2):
        mode = _MATRIX_PRODUCT[mode or 0]
    if mode not in _MATRIX_PRODUCT:
        raise ArgumentError("cdist", f"compute_mode={mode!r}", "the mode is one of three",
                            f"pass one of {', '.join(_MATRIX_PRODUCT)}")
    many = x1.shape[-2] > _MANY_ROWS or x2.shape[-2] > _MANY_ROWS
    return bool(mode == _MATRIX_PRODUCT[1] or (mode == _MATRIX_PRODUCT[0] and many))


def _euclidean(x1: Any, x2: Any) -> Any:
    """Return distances from squared lengths and inner products; squares that rounding makes negative count as 0."""
    squares = (x1 * x1).sum(-1, True) + (x2 * x2).sum(-1).unsqueeze(-2) - 2 * x1.matmul(x2.transpose(-2, -1))
    nothing = squares <= 0
    return squares.masked_fill(nothing, 1).sqrt().masked_fill(nothing, 0)


@composite("bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor", method=False)
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """Sum input1[..., i] * weight[k, i, j] * input2[..., j] over i and j, and add bias[k].

    Raises:
        ShapeError: The shapes do not fit each other.
    """
    lead = tuple(input1.shape[:-1])
    fits = weight.ndim == 3 and input1.ndim >= 1 and tuple(input2.shape[:-1]) == lead and (
        (input1.shape[-1], input2.shape[-1]) == tuple(weight.shape[1:]))
    if not fits or (bias is not None and tuple(bias.shape) != (weight.shape[0],)):
        shapes = f"{list(input1.shape)}, {list(input2.shape)}, weight {list(weight.shape)}"
        raise ShapeError("bilinear", shapes + ("" if bias is None else f", bias {list(bias.shape)}"),
                         "inputs [..., I] and [..., J] go with a weight [K, I, J] and a bias [K]",
                         "check the layer's sizes")
    k, i, j = weight.shape
    with blame("bilinear"):
        rows = input1.reshape(-1, i) if i else input1.reshape(math.prod(lead), 0)
        left = rows.matmul(weight.permute(1, 0, 2).reshape(i, k * j)).reshape(rows.shape[0], k, j)
        result = left.matmul(input2.reshape(rows.shape[0], j, 1)).reshape((*lead, k))
    return result if bias is None else result + bias


# ---------------------------------------------------------------------------------------------------- losses


@composite(
    "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, any reduction='mean') -> "
    "Tensor",
    method=False, recomputed=Recomputed(saved=("input1", "input2"), constant=("target",)))
def cosine_embedding_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: Any = "mean") -> Any:
    """Return 1 - cos where the target is 1, max(0, cos - margin) where it is -1; cos is that of the inputs' angle.

    Args:
        input1: Vectors, [N, D] or [D].
        input2: Vectors, [N, D] or [D].
        target: 1 or -1 for each pair, [N] or [].
        margin: Cosine up to which dissimilar pairs cost nothing.
        reduction: ``none``, ``mean`` or ``sum``.

    Raises:
        ShapeError: The numbers of dimensions do not fit each other.
    """
    if target.ndim > 1 or not input1.ndim == input2.ndim == target.ndim + 1:
        raise ShapeError("cosine_embedding_loss",
                         f"inputs {list(input1.shape)} and {list(input2.shape)}, target {list(target.shape)}",
                         "inputs have one dimension more than the target, which has at most one", "reshape them")
    with blame("cosine_embedding_loss"):
        product = (input1 * input2).sum(-1)
        squares = ((input1 * input1).sum(-1) + _COSINE_EPS) * ((input2 * input2).sum(-1) + _COSINE_EPS)
        cosine = product / squares.sqrt()
        like = (1 - cosine).masked_fill(target != 1, 0)
        unlike = (cosine - margin).clamp_min(0).masked_fill(target != -1, 0)
    return reduced(like + unlike, reduction, "cosine_embedding_loss")


@composite(
    "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2.0, "
    "float eps=1e-06, bool swap=False, any reduction='mean') -> Tensor",
    method=False,
)
def triplet_margin_loss(anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2.0,
                        eps: float = 1e-6, swap: bool = False, reduction: Any = "mean") -> Any:
    """Return max(0, d(anchor, positive) - d(anchor, negative) + margin) with the pairwise distance d.

    Args:
        anchor: Vectors along the last dimension.
        positive: Vectors that should be near the anchor.
        negative: Vectors that should be far from the anchor.
        margin: The distance by which the negative should be farther; positive.
        p: Exponent of the distance.
        eps: Added to differences.
        swap: Whether the distance from positive to negative replaces the larger one from the anchor.
        reduction: ``none``, ``mean`` or ``sum``.

    Raises:
        ArgumentError: The margin is not positive.
        ShapeError: The operands have different numbers of dimensions.
    """
    with blame("triplet_margin_loss"):
        return triplet_margin_with_distance_loss(
            anchor, positive, negative, distance_function=lambda a, b: pairwise_distance(a, b, p, eps), margin=margin,
            swap=swap, reduction=reduction)


@composite(
    "triplet_margin_with_distance_loss(Tensor anchor, Tensor positive, Tensor negative, *, any distance_function=None, "
    "float margin=1.0, bool swap=False, any reduction='mean') -> Tensor",
    method=False, namespace="nn.functional", hands_by_name=True,
)
def triplet_margin_with_distance_loss(anchor: Any, positive: Any, negative: Any, *, distance_function: Any = None,
                                      margin: float = 1.0, swap: bool = False, reduction: Any = "mean") -> Any:
    """Return the triplet loss with any distance.

    Args:
        anchor: Vectors.
        positive: Vectors that should be near the anchor.
        negative: Vectors that should be far from the anchor.
        distance_function: ``distance(x, y)`` of two tensors; pairwise_distance by default.
        margin: The distance by which the negative should be farther; positive.
        swap: Whether the distance from positive to negative replaces the larger one from the anchor.
        reduction: ``none``, ``mean`` or ``sum``.

    Raises:
        ArgumentError: The margin is not positive.
        ShapeError: The operands have different numbers of dimensions.
    """
    operator, distance = "triplet_margin_with_distance_loss", distance_function or pairwise_distance
    if not margin > 0:
        raise ArgumentError(operator, f"margin={margin}", "the margin is positive", "pass a number above 0")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise ShapeError(operator, f"anchor {list(anchor.shape)}, positive {list(positive.shape)}, negative "
                         f"{list(negative.shape)}", "all three have the same number of dimensions", "reshape them")
    with blame(operator):
        near, far = distance(anchor, positive), distance(anchor, negative)
        far = far.minimum(distance(positive, negative)) if swap else far
        terms = (near - far + margin).clamp_min(0)
    return reduced(terms, reduction, operator)
