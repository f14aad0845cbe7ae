"""Covariances, integrals of sampled functions, and renormalised slices."""

from __future__ import annotations

import warnings
from typing import Any

from tensocket_core import functions
from tensocket_core.geometry import normalize_axis
from tensocket_core.keys import AUTOGRAD
from tensocket_plugins.contract.dtypes import bool_, int64
from tensocket_plugins.contract.errors import ArgumentError, DimensionError, DtypeError, ShapeError

from ..kinds.composite import composite
from ..unrolled.recomputed import Recomputed
from .value_checks import promoted_for_arithmetic

# ------------------------------------------------------------------------------------------------------- covariances


def _check_weights(name: str, weights: Any, count: int, *, whole: bool) -> None:
    """Refuse weights that are not valid.

    Raises:
        ArgumentError: A weight is negative.
        DtypeError: Frequencies are not integers, or importances are not floats.
        ShapeError: There is not one weight per observation.
    """
    if whole != (weights.dtype.category == 1) or weights.dtype.is_complex:
        raise DtypeError("cov", f"{name} of dtype {weights.dtype.name}",
                         "fweights are integers and aweights are floats", "convert them")
    if weights.ndim > 1 or weights.numel() != count:
        raise ShapeError("cov", f"{name} of shape {list(weights.shape)} for {count} observations",
                         "there is a weight for every observation", "pass a vector of that size")
    if count and weights.detach().amin().item() < 0:
        raise ArgumentError("cov", f"negative {name}", "weights are not negative", "pass weights from 0 on")


def _freedom(count: Any, weights: Any, aweights: Any, total: Any, correction: int) -> Any:
    """Return the divisor of the sum of products, at least 0."""
    if weights is not None and aweights is not None and correction:
        norm = total - correction * (weights * aweights).sum() / total
    else:
        norm = total - correction
    lacking = norm.detach().item() <= 0 if hasattr(norm, "_key") else norm <= 0
    if lacking:
        warnings.warn("[cov] no degrees of freedom — there are more observations than the correction — pass more "
                      "observations, or correction=0", UserWarning, stacklevel=4)
    return norm.clamp(min=0) if hasattr(norm, "_key") else max(norm, 0)


@composite("cov(Tensor input, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor")
def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """Return the covariances of variables (rows), each observed several times (columns).

    Args:
        input: [variables, observations], or the observations of one variable.
        correction: Number that is subtracted from the number of observations.
        fweights: How often each observation was made.
        aweights: How much each observation counts.

    Returns:
        [variables, variables], or a number for one variable.

    Raises:
        ShapeError: The input has more than two dimensions.
        DtypeError: The input is boolean.
        ArgumentError: Weights are negative, or sum to zero.
    """
    if input.ndim > 2:
        raise ShapeError("cov", f"a tensor of shape {list(input.shape)}", "variables are rows of a matrix",
                         "pass a matrix")
    if input.dtype is bool_:
        raise DtypeError("cov", "dtype bool", "observations are numbers", "convert with .to(dtype)")
    rows = input.reshape((1, -1)) if input.ndim < 2 else input
    count = rows.shape[1]
    for name, weights in (("fweights", fweights), ("aweights", aweights)):
        if weights is not None:
            _check_weights(name, weights, count, whole=name == "fweights")
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    total = count if weights is None else weights.sum()
    if weights is not None and total.detach().item() == 0:
        raise ArgumentError("cov", "weights that sum to zero", "the sum of weights is what sums are divided by",
                            "pass a positive weight")
    mean = (rows if weights is None else rows * weights).sum(1) / total
    norm = _freedom(count, weights, aweights, total, correction)
    centred = rows - mean.unsqueeze(1)
    right = (centred if weights is None else centred * weights).mT
    return (centred.mm((right.conj() if right.dtype.is_complex else right).to(centred.dtype)) / norm).squeeze()


@composite("corrcoef(Tensor input) -> Tensor")
def corrcoef(input: Any) -> Any:
    """Return the correlation coefficients, covariances divided by both standard deviations, from -1 to 1.

    Raises:
        ShapeError: The input has more than two dimensions.
    """
    if input.ndim > 2:
        raise ShapeError("corrcoef", f"a tensor of shape {list(input.shape)}", "variables are rows of a matrix",
                         "pass a matrix")
    result = cov(input)
    if result.ndim == 0:
        return result / result
    diagonal = result.diagonal()
    deviation = (diagonal.real if diagonal.dtype.is_complex else diagonal).sqrt()
    result = result / deviation.unsqueeze(1) / deviation
    if result.dtype.is_complex:
        return functions.complex(result.real.clamp(-1, 1), result.imag.clamp(-1, 1))
    return result.clamp(-1, 1)


# ------------------------------------------------------------------------------------- integrals by the trapezoid rule


def _areas(operator: str, y: Any, x: Any, dx: Any, dim: int) -> tuple[Any, int]:
    """Return twice the areas between neighbouring samples, not yet multiplied by a scalar spacing, and the axis.

    Raises:
        DimensionError: y has no dimensions.
        DtypeError: Values are boolean.
        ShapeError: There is not one x per sample.
    """
    if y.dtype is bool_:
        raise DtypeError(operator, "y of dtype bool", "samples are numbers", "convert with .to(dtype)")
    if y.ndim == 0:
        raise DimensionError(operator, "a 0-dimensional tensor", "samples lie along a dimension", "unsqueeze it")
    axis = normalize_axis(operator, dim, y.ndim)
    count = y.shape[axis]
    steps = max(count - 1, 0)
    y = y.to(int64) if y.dtype.kind in ("int", "uint") else y
    pairs = y.narrow(axis, min(1, count), steps) + y.narrow(axis, 0, steps)
    if x is None:
        return pairs, axis
    if x.ndim == 1 and x.shape[0] != count:
        raise ShapeError(operator, f"{x.shape[0]} values of x for {count} samples",
                         "there is one x for every sample", "pass as many")
    if x.ndim == 1:
        x = x.reshape(tuple(-1 if k == axis else 1 for k in range(y.ndim)))
    elif x.ndim < y.ndim:
        x = x.reshape((1,) * (y.ndim - x.ndim) + tuple(x.shape))
    places = normalize_axis(operator, dim, x.ndim)
    size = max(x.shape[places] - 1, 0)
    return pairs * (x.narrow(places, min(1, x.shape[places]), size) - x.narrow(places, 0, size)), axis


def _check_spacing(operator: str, x: Any, dx: Any) -> None:
    if x is not None and dx is not None:
        raise ArgumentError(operator, f"x and dx={dx}", "the spacing is that of x, or dx", "pass one of both")


@composite("trapezoid(Tensor y, Tensor? x=None, *, Scalar? dx=None, int dim=-1) -> Tensor", method=False,
           aliases=("trapz",), recomputed=Recomputed(copied=("y", "x")))
def trapezoid(y: Any, x: Any = None, *, dx: float | None = None, dim: int = -1) -> Any:
    """Integrate sampled values by the trapezoid rule; the samples are at ``x``, or ``dx`` (by default 1) apart."""
    _check_spacing("trapezoid", x, dx)
    areas, axis = _areas("trapezoid", y, x, dx, dim)
    total = areas.sum(axis) / 2.0
    return total if dx is None or dx == 1 else total * dx


@composite("cumulative_trapezoid(Tensor y, Tensor? x=None, *, Scalar? dx=None, int dim=-1) -> Tensor", method=False,
           recomputed=Recomputed(copied=("y", "x")))
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: float | None = None, dim: int = -1) -> Any:
    """Return the running integral of sampled values by the trapezoid rule, with one element less than samples."""
    _check_spacing("cumulative_trapezoid", x, dx)
    areas, axis = _areas("cumulative_trapezoid", y, x, dx, dim)
    total = areas.cumsum(axis) / 2.0
    return total if dx is None or dx == 1 else total * dx


# ------------------------------------------------------------------------------------------------------ bounded slices


@composite("renorm(Tensor input, Scalar p, int dim, Scalar maxnorm) -> Tensor", recomputed=Recomputed(saved=("input",)))
def renorm(input: Any, p: float, dim: int, maxnorm: float) -> Any:
    """Scale down the slices along a dimension whose p-norm is greater than maxnorm to that norm.

    Raises:
        ArgumentError: p is not positive, or maxnorm is negative.
        ShapeError: The input has fewer than two dimensions.
    """
    if input.ndim < 2:
        raise ShapeError("renorm", f"a tensor of shape {list(input.shape)}", "slices have at least one dimension",
                         "unsqueeze it")
    if p <= 0 or maxnorm < 0:
        raise ArgumentError("renorm", f"p={p}, maxnorm={maxnorm}", "p is positive and maxnorm not negative",
                            "pass such numbers")
    axis = normalize_axis("renorm", dim, input.ndim)
    others = tuple(k for k in range(input.ndim) if k != axis)
    dtype, input = promoted_for_arithmetic(input)
    size = functions.linalg_vector_norm(input, p, others, True)
    # The small number avoids a division by 0.
    return (input * functions.where(size > maxnorm, maxnorm / (size + 1e-7), 1.0).to(input.dtype)).to(dtype)


@composite("renorm_(Tensor! input, Scalar p, int dim, Scalar maxnorm) -> Tensor", function=False)
def renorm_(input: Any, p: float, dim: int, maxnorm: float) -> Any:
    """Apply ``renorm`` in place."""
    before = input.clone() if input._key & AUTOGRAD else input
    return input.copy_(functions.renorm(before, p, dim, maxnorm))
