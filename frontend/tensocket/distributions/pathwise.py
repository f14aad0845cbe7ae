"""Gamma numbers, and their gradients with respect to the shape parameter."""

from __future__ import annotations

from typing import Any

import tensocket as torch
from tensocket.autograd import Function

from .utils import standard_normal, uniform

#: Shape parameters from which gradients come from the expansion for large ones.
_LARGE = 200.0
#: Terms of the series after which those up to ``_LARGE`` do not count.
_TERMS = 1200


def _proposed(shape: Any) -> tuple[Any, Any]:
    """A number for each shape parameter from 1 on, and whether it is accepted (G. Marsaglia, W. Tsang, "A simple
    method for generating gamma variables", 2000), as at least 95 of 100 are.
    """
    d = shape - 1 / 3
    x = standard_normal(shape.shape, shape)
    v = (1 + x / (9 * d).sqrt()) ** 3
    bound = 0.5 * x * x + d * (1 - v + v.clamp(min=torch.finfo(shape.dtype).tiny).log())
    return d * v, (v > 0) & (uniform(shape.shape, shape).log() < bound)


def _drawn(concentration: Any) -> Any:
    """Standard gamma numbers by rejection; shapes below 1 are those above times a power of a uniform number."""
    small = concentration < 1
    shape = torch.where(small, concentration + 1, concentration).reshape(-1)
    result, accepted = _proposed(shape)
    left = (~accepted).nonzero().squeeze(1)
    while left.numel():
        again, accepted = _proposed(shape[left])
        result[left] = again
        left = left[~accepted]
    result = result.reshape(concentration.shape)
    if small.any():
        power = uniform(concentration.shape, concentration).log() / concentration
        result = result * torch.where(small, power, 0.0).exp()
    return result.clamp(min=torch.finfo(concentration.dtype).tiny)


def gamma_gradient(concentration: Any, sample: Any) -> Any:
    """dz/da of a standard gamma number z with shape a: minus dF/da by the density.

    The distribution function is z**a exp(-z) / Gamma(a) times the sum of t_n = z**n / (a (a + 1) ... (a + n)), so that
    the derivative is -z ((log z - psi(a)) sum t_n - sum t_n s_n) with s_n = 1 / a + ... + 1 / (a + n), without loss of
    digits where samples are. Large shapes take the expansion of Cornish and Fisher in the normal quantile.
    """
    work = torch.float64 if sample.dtype is not torch.float64 else sample.dtype
    a, z = concentration.detach().to(work), sample.detach().to(work)
    large = a > _LARGE
    result = _by_series(torch.where(large, 1.0, a), torch.where(large, 1.0, z))
    if large.any():
        result = torch.where(large, _by_expansion(a.clamp(min=_LARGE), torch.where(large, z, _LARGE)), result)
    return result.to(sample.dtype)


def _by_series(a: Any, z: Any) -> Any:
    term = 1 / a
    harmonic = term
    total, weighted = term, term * harmonic
    for n in range(1, _TERMS):
        term = term * (z / (a + n))
        harmonic = harmonic + 1 / (a + n)
        total = total + term
        weighted = weighted + term * harmonic
        if n % 16 == 0 and not (term > 1e-17 * total).any():
            break
    return -z * ((z.log() - a.digamma()) * total - weighted)


def _by_expansion(a: Any, z: Any) -> Any:
    root = a.sqrt()
    x = (z - a) / root
    for _ in range(8):
        value = a + root * x + (x * x - 1) / 3 + (x**3 - 7 * x) / (36 * root) - (3 * x**4 + 7 * x * x - 16) / (810 * a)
        slope = root + 2 * x / 3 + (3 * x * x - 7) / (36 * root) - (12 * x**3 + 14 * x) / (810 * a)
        x = x - (value - z) / slope
    return 1 + x / (2 * root) - (x**3 - 7 * x) / (72 * a * root) + (3 * x**4 + 7 * x * x - 16) / (810 * a * a)


class _StandardGamma(Function):
    @staticmethod
    def forward(ctx: Any, concentration: Any) -> Any:
        """Draw."""
        sample = _drawn(concentration)
        ctx.save_for_backward(concentration, sample)
        return sample

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Implicit reparameterisation (M. Figurnov, S. Mohamed, A. Mnih, 2018)."""
        return grad * gamma_gradient(*ctx.saved_tensors)


def standard_gamma(concentration: Any) -> Any:
    """Gamma numbers with these shapes and rate 1, with gradients."""
    return _StandardGamma.apply(concentration)
