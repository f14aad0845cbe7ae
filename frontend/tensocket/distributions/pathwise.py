"""Gamma numbers, and their gradients with respect to the shape parameter."""

from __future__ import annotations

from typing import Any

import tensocket as torch
from tensocket.autograd import Function

from .utils import standard_normal, uniform

#: Shape parameters from here on get their gradients from the expansion for large shapes.
_LARGE = 200.0
#: Number of series terms after which the terms of shapes up to ``_LARGE`` are negligible.
_TERMS = 1200
#: Largest number of terms in the series of beta's distribution function.
_BETA_TERMS = 10_000


def _proposed(shape: Any) -> tuple[Any, Any]:
    """Return one proposal for each shape parameter of at least 1, and whether it is accepted (G. Marsaglia, W. Tsang,
    "A
    simple method for generating gamma variables", 2000), as at least 95 of 100 are.
    """
    d = shape - 1 / 3
    x = standard_normal(shape.shape, shape)
    v = (1 + x / (9 * d).sqrt()) ** 3
    bound = 0.5 * x * x + d * (1 - v + v.clamp(min=torch.finfo(shape.dtype).tiny).log())
    return d * v, (v > 0) & (uniform(shape.shape, shape).log() < bound)


def _drawn(concentration: Any) -> Any:
    """Draw standard gamma numbers by rejection; shapes below 1 use larger shapes and a power of a uniform number."""
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


def _log_drawn(concentration: Any) -> Any:
    """Draw logarithms of standard gamma numbers, which do not underflow as the numbers of small shapes do."""
    small = concentration < 1
    log = _drawn(torch.where(small, concentration + 1, concentration)).log()
    return log + torch.where(small, uniform(concentration.shape, concentration).log() / concentration, 0.0)


def gamma_gradient(concentration: Any, sample: Any) -> Any:
    """Return dz/da of a standard gamma number z with shape a: minus dF/da, divided by the density.

    The distribution function is z**a exp(-z) / Gamma(a) times the sum of t_n = z**n / (a (a + 1) ... (a + n)), so the
    derivative is -z ((log z - psi(a)) sum t_n - sum t_n s_n) with s_n = 1 / a + ... + 1 / (a + n). It loses no digits
    in the range of samples. Large shapes use the expansion of Cornish and Fisher in the normal quantile.
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


def dirichlet_gradient(sample: Any, concentration: Any, total: Any) -> Any:
    """Return -dF/da / f / (1 - x) of the marginals of probabilities x: beta numbers with a and b = total - a.

    Below the mean F is x**a (1 - x)**b / (a B(a, b)) times the sum of t_n = x**n (a + b) ... (a + b + n - 1) / ((a + 1)
    ... (a + n)); above it, 1 - F is the same with exchanged roles. All terms are positive.
    """
    x, a = sample.detach().to(torch.float64), concentration.detach().to(torch.float64)
    total = total.detach().to(torch.float64).contiguous()
    b = (total - a).clamp(min=torch.finfo(torch.float64).tiny)
    below = x * (total + 2) <= a + 1
    step, first = torch.where(below, x, 1 - x), torch.where(below, a, b)
    term = torch.ones_like(step)
    slope = torch.zeros_like(step)
    whole, weighted = term, slope
    least = 0.01 * torch.finfo(sample.dtype).eps
    for n in range(_BETA_TERMS):
        term = term * (step * (total + n) / (first + 1 + n))
        slope = slope + 1 / (total + n) - torch.where(below, 1 / (a + 1 + n), 0.0)
        whole, weighted = whole + term, weighted + term * slope
        if n % 16 == 15 and not (term > least * whole).any():
            break
    change = (x.log() - torch.where(below, a + 1, a).digamma() + total.digamma()) * whole + weighted
    return (torch.where(below, -x / a, x / b) * change).to(sample.dtype)


class _StandardGamma(Function):
    @staticmethod
    def forward(ctx: Any, concentration: Any) -> Any:
        """Draw standard gamma numbers."""
        sample = _drawn(concentration)
        ctx.save_for_backward(concentration, sample)
        return sample

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Return the gradient by implicit reparameterisation (M. Figurnov, S. Mohamed, A. Mnih, 2018)."""
        return grad * gamma_gradient(*ctx.saved_tensors)


class _StandardDirichlet(Function):
    @staticmethod
    def forward(ctx: Any, concentration: Any) -> Any:
        """Draw in float64: in float32, all numbers of small shapes can underflow together."""
        limits = torch.finfo(concentration.dtype)
        drawn = _log_drawn(concentration.to(torch.float64)).softmax(-1).to(concentration.dtype)
        sample = drawn.clamp(min=limits.tiny, max=1 - limits.eps / 2)
        ctx.save_for_backward(sample, concentration)
        return sample

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Return the gradient by the marginal distributions (M. Jankowiak, F. Obermeyer, 2018)."""
        sample, concentration = ctx.saved_tensors
        return dirichlet_backward(sample, concentration, grad)


def dirichlet_backward(sample: Any, concentration: Any, grad: Any) -> Any:
    """Return the gradient with respect to the concentrations that the samples were drawn with."""
    total = concentration.sum(-1, True).expand_as(concentration)
    return dirichlet_gradient(sample, concentration, total) * (grad - (sample * grad).sum(-1, True))


def standard_dirichlet(concentration: Any) -> Any:
    """Draw random probabilities along the last dimension, with gradients."""
    return _StandardDirichlet.apply(concentration)


def standard_gamma(concentration: Any) -> Any:
    """Draw gamma numbers with these shapes and rate 1, with gradients."""
    return _StandardGamma.apply(concentration)
