"""Invertible functions with ``log |det dy/dx|``, the logarithm of their change of volume."""

from __future__ import annotations

import math
from typing import Any

import tensocket as torch
from tensocket.nn import functional

from ..errors import ArgumentError
from . import constraints
from .transform_base import Transform
from .transform_base import _InverseTransform as _InverseTransform
from .transform_combinations import (
    CatTransform,
    ComposeTransform,
    IndependentTransform,
    StackTransform,
    identity_transform,
)
from .utils import tril_matrix_to_vec, vec_to_tril_matrix


class ReshapeTransform(Transform):
    """A reshape of the last dimensions.

    Args:
        in_shape: Shape of events before.
        out_shape: Shape of events after, with as many elements.
        cache_size: 1 keeps the last pair of values.

    Raises:
        ArgumentError: The shapes have different numbers of elements.
    """

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape = torch.Size(in_shape)
        self.out_shape = torch.Size(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ArgumentError("ReshapeTransform", f"shapes {tuple(in_shape)} and {tuple(out_shape)}",
                                "both shapes have as many elements", "pass fitting shapes")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        """Tensors of the first shape."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Tensors of the second shape."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the same transform with a cache."""
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Any) -> Any:
        return x.reshape((*x.shape[:x.dim() - len(self.in_shape)], *self.out_shape))

    def _inverse(self, y: Any) -> Any:
        return y.reshape((*y.shape[:y.dim() - len(self.out_shape)], *self.in_shape))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return zeros."""
        return x.new_zeros(x.shape[:x.dim() - len(self.in_shape)])

    def _changed(self, shape: Any, before: Any, after: Any) -> Any:
        cut = len(shape) - len(before)
        if cut < 0 or tuple(shape[cut:]) != tuple(before):
            raise ArgumentError("ReshapeTransform", f"a shape {tuple(shape)}",
                                f"the last dimensions have the shape {tuple(before)}", "pass fitting values")
        return torch.Size((*shape[:cut], *after))

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape of the result."""
        return self._changed(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape of the argument."""
        return self._changed(shape, self.out_shape, self.in_shape)


class _Plain(Transform):
    """A transform without parameters: all objects of the class are equal."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    __hash__ = Transform.__hash__


class ExpTransform(_Plain):
    """y = exp(x)."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return ``x``."""
        return x


class PowerTransform(Transform):
    """y = x ** exponent.

    Args:
        exponent: A number, or a tensor.
        cache_size: 1 keeps the last pair of values.
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.exponent = exponent if isinstance(exponent, torch.Tensor) else torch.tensor(float(exponent))

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the same transform with a cache."""
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size=cache_size)

    @property
    def sign(self) -> Any:
        """1 if the transform increases, -1 if it decreases."""
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all().item())

    __hash__ = Transform.__hash__

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return ``log |exponent y / x|``."""
        return (self.exponent * y / x).abs().log()

    def _shape(self, shape: Any) -> Any:
        return torch.broadcast_shapes(shape, tuple(self.exponent.shape))

    forward_shape = inverse_shape = _shape


class SigmoidTransform(_Plain):
    """y = 1 / (1 + exp(-x))."""

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        limits = torch.finfo(x.dtype)
        return torch.sigmoid(x).clamp(min=limits.tiny, max=1 - limits.eps)

    def _inverse(self, y: Any) -> Any:
        limits = torch.finfo(y.dtype)
        y = y.clamp(min=limits.tiny, max=1 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return ``log y + log(1 - y)``."""
        return -functional.softplus(-x) - functional.softplus(x)


class SoftplusTransform(_Plain):
    """y = log(1 + exp(x))."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return functional.softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return the logarithm of the sigmoid of x."""
        return -functional.softplus(-x)


class TanhTransform(_Plain):
    """y = tanh(x)."""

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return torch.atanh(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return ``log(1 - y ** 2)``, as ``2 (log 2 - x - softplus(-2 x))``."""
        return 2.0 * (math.log(2.0) - x - functional.softplus(-2.0 * x))


class AbsTransform(_Plain):
    """y = |x|; the inverse returns the positive value."""

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class AffineTransform(Transform):
    """y = loc + scale x.

    Args:
        loc: A number, or a tensor.
        scale: A number, or a tensor.
        event_dim: Dimensions of an event: 0, 1 for vectors, 2 for matrices.
        cache_size: 1 keeps the last pair of values.
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        """Dimensions of an event."""
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """Everything."""
        return constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        """Everything."""
        return constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the same transform with a cache."""
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AffineTransform) and _equal(self.loc, other.loc) and _equal(self.scale, other.scale)

    __hash__ = Transform.__hash__

    @property
    def sign(self) -> Any:
        """1 if the transform increases, -1 if it decreases."""
        if isinstance(self.scale, torch.Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return ``log |scale|``, summed over each event."""
        scale, shape = self.scale, tuple(x.shape)
        if isinstance(scale, torch.Tensor):
            result = scale.abs().log()
        else:
            result = torch.full_like(x, math.log(abs(scale)) if scale else -math.inf)
        if self.event_dim:
            result = result.expand(shape) if result.dim() < self.event_dim else result
            result = result.expand((*result.shape[:-self.event_dim], *shape[-self.event_dim:]))
            result = result.reshape((*result.shape[:-self.event_dim], -1)).sum(-1)
            shape = shape[:-self.event_dim]
        return result.expand(shape)

    def _shape(self, shape: Any) -> Any:
        return torch.broadcast_shapes(shape, tuple(getattr(self.loc, "shape", ())),
                                      tuple(getattr(self.scale, "shape", ())))

    forward_shape = inverse_shape = _shape


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b
    same: Any = torch.as_tensor(a == b)
    return bool(same.all().item())


class CorrCholeskyTransform(Transform):
    """A map from D (D - 1) / 2 numbers to the Cholesky factor of a D x D correlation matrix.

    Each number gives, by tanh, a partial correlation; stick-breaking of its signed squares gives a row (D. Lewandowski,
    D. Kurowicka, H. Joe, 2009).
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        x = torch.tanh(x)
        eps = torch.finfo(x.dtype).eps
        ratios = vec_to_tril_matrix(x.clamp(min=-1 + eps, max=1 - eps), diag=-1)
        rest = (1 - ratios.square()).sqrt().cumprod(-1)
        identity = torch.eye(ratios.shape[-1], dtype=ratios.dtype, device=ratios.device)
        return (ratios + identity) * functional.pad(rest[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        rest = 1 - (y * y).cumsum(-1)
        shifted = functional.pad(rest[..., :-1], [1, 0], value=1)
        ratios = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(shifted, diag=-1).sqrt()
        return (ratios.log1p() - (-ratios).log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return the sum of the terms of tanh and of the rows' remaining lengths."""
        rest = 1 - (y * y).cumsum(-1)
        lengths = 0.5 * tril_matrix_to_vec(rest, diag=-2).log().sum(-1)
        tanh = -2 * (x + functional.softplus(-2 * x) - math.log(2.0)).sum(-1)
        return lengths + tanh

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape (..., D, D) for (..., D (D - 1) / 2)."""
        count = shape[-1] if len(shape) else 0
        size = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != count or not count:
            raise ArgumentError("CorrCholeskyTransform", f"a shape {tuple(shape)}",
                                "the last dimension has D (D - 1) / 2 elements", "pass fitting values")
        return torch.Size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape (..., D (D - 1) / 2) for (..., D, D)."""
        _check_square("CorrCholeskyTransform", shape)
        return torch.Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


def _check_square(name: str, shape: Any) -> None:
    if len(shape) < 2 or shape[-2] != shape[-1]:
        raise ArgumentError(name, f"a shape {tuple(shape)}", "the last two dimensions are equal",
                            "pass square matrices")


class SoftmaxTransform(_Plain):
    """The softmax, from vectors to probabilities. It is not one-to-one: the inverse is the logarithm."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Any) -> Any:
        return x.softmax(-1)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def _vector(self, shape: Any) -> Any:
        if not len(shape):
            raise ArgumentError(type(self).__name__, "a scalar", "values have at least one dimension", "pass vectors")
        return shape

    forward_shape = inverse_shape = _vector


class StickBreakingTransform(_Plain):
    """Stick-breaking, from K - 1 numbers to K probabilities: each number takes a part of the remaining stick."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _offset(x: Any) -> Any:
        count = x.shape[-1]
        return torch.arange(count, 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x: Any) -> Any:
        taken = SigmoidTransform()._call(x - self._offset(x))
        left = (1 - taken).cumprod(-1)
        return functional.pad(taken, [0, 1], value=1) * functional.pad(left, [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        first = y[..., :-1]
        left = (1 - first.cumsum(-1)).clamp(min=torch.finfo(y.dtype).tiny)
        return first.log() - left.log() + self._offset(first)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return the sum of ``log(1 - part) + log y``."""
        x = x - self._offset(x)
        return (-x + functional.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def _more(self, shape: Any, by: int) -> Any:
        if not len(shape):
            raise ArgumentError("StickBreakingTransform", "a scalar", "values have at least one dimension",
                                "pass vectors")
        return torch.Size((*shape[:-1], shape[-1] + by))

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape with one more element."""
        return self._more(shape, 1)

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape with one element less."""
        return self._more(shape, -1)


class LowerCholeskyTransform(_Plain):
    """A map from matrices to lower triangular ones with a positive diagonal: the exponential of the diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Plain):
    """A map from matrices to positive definite ones: the product of a Cholesky factor and its transpose."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(torch.linalg.cholesky(y))


class CumulativeDistributionTransform(Transform):
    """y = F(x), the cumulative distribution function.

    Args:
        distribution: The distribution.
        cache_size: 1 keeps the last pair of values.
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        """The distribution's support."""
        return self.distribution.support

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return the logarithm of the density."""
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the same transform with a cache."""
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)


__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform",
    "identity_transform",
]  # fmt: skip
