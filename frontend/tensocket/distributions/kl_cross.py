"""Divergences of distributions of different families: minus the entropy of p, minus the mean of log q under p.

For each family q, the mean of log q needs a few moments of p: its mean, its variance, and the mean of its logarithm or
of an exponential. Where p has values outside of the support of q, the divergence is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import tensocket as torch

from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .continuous_bernoulli import ContinuousBernoulli
from .exponential import Exponential
from .gamma import Gamma
from .gumbel import Gumbel
from .kl import register_kl
from .laplace import Laplace
from .normal import Normal
from .pareto import Pareto
from .poisson import Poisson
from .uniform import Uniform
from .utils import euler_constant

Moment = Callable[[Any], Any]


def _xlogx(x: Any) -> Any:
    return torch.xlogy(x, x)


def _uniform_log(low: Any, high: Any) -> Any:
    """Return the mean of the logarithm of a uniform number."""
    return (_xlogx(high) - _xlogx(low)) / (high - low) - 1


#: Means of log x.
_LOG: Final[dict[type, Moment]] = {
    Beta: lambda p: torch.digamma(p.concentration1) - torch.digamma(p.concentration1 + p.concentration0),
    Exponential: lambda p: -euler_constant - p.rate.log(),
    Gamma: lambda p: torch.digamma(p.concentration) - p.rate.log(),
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Uniform: lambda p: _uniform_log(p.low, p.high),
}
#: Means of exp(-x t).
_EXPONENTIAL: Final[dict[type, Callable[[Any, Any], Any]]] = {
    Exponential: lambda p, t: p.rate / (p.rate + t),
    Gamma: lambda p, t: (1 + t / p.rate).pow(-p.concentration),
    Normal: lambda p, t: torch.exp(-p.loc * t + 0.5 * (p.scale * t).pow(2)),
    Uniform: lambda p, t: (torch.exp(-p.low * t) - torch.exp(-p.high * t)) / (t * (p.high - p.low)),
}


def _under_exponential(p: Any, q: Any) -> Any:
    return q.rate.log() - q.rate * p.mean


def _under_normal(p: Any, q: Any) -> Any:
    variance = q.scale.pow(2)
    return -0.5 * (2 * math.pi * variance).log() - (p.variance + (p.mean - q.loc).pow(2)) / (2 * variance)


def _under_gamma(p: Any, q: Any) -> Any:
    log = _LOG[_kind(p)](p)
    return q.concentration * q.rate.log() - torch.lgamma(q.concentration) + (q.concentration - 1) * log - (
        q.rate * p.mean)


def _under_uniform(p: Any, q: Any) -> Any:
    return -(q.high - q.low).log()


def _under_continuous_bernoulli(p: Any, q: Any) -> Any:
    return p.mean * q.logits + torch.log1p(-q.probs) + q._cont_bern_log_norm()


def _under_gumbel(p: Any, q: Any) -> Any:
    exponential = torch.exp(q.loc / q.scale) * _EXPONENTIAL[_kind(p)](p, q.scale.reciprocal())
    return -q.scale.log() - (p.mean - q.loc) / q.scale - exponential


def _under_beta(p: Any, q: Any) -> Any:
    a, b = q.concentration1, q.concentration0
    log, rest = _uniform_log(p.low, p.high), _uniform_log(1 - p.high, 1 - p.low)
    norm = torch.lgamma(a + b) - torch.lgamma(a) - torch.lgamma(b)
    return norm + (a - 1) * log + (b - 1) * rest


def _under_pareto(p: Any, q: Any) -> Any:
    return q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _LOG[_kind(p)](p)


def _under_laplace(p: Any, q: Any) -> Any:
    """Return ``E |x - m|`` of a normal: ``s sqrt(2 / pi) exp(-d**2 / 2) + s d erf(d / sqrt 2)``, d = (mean - m) / s."""
    distance = p.loc - q.loc
    d = distance / p.scale
    mean = p.scale * math.sqrt(2 / math.pi) * torch.exp(-0.5 * d * d) + distance * torch.erf(d / math.sqrt(2))
    return -(2 * q.scale).log() - mean / q.scale


def _kind(p: Any) -> type:
    return next(kind for kind in type(p).__mro__ if kind in _LOG or kind in _EXPONENTIAL)


def _never(p: Any, q: Any) -> Any:
    """Return False: p has no values outside of the support of q."""
    return None


def _uniform_outside_unit(p: Any, q: Any) -> Any:
    return (p.low < 0) | (p.high > 1)


def _uniform_below_zero(p: Any, q: Any) -> Any:
    return p.low < 0


def _beyond_uniform(p: Any, q: Any) -> Any:
    return (q.low > 0) | (q.high < 1)


def _uniform_below_pareto(p: Any, q: Any) -> Any:
    return p.low < q.scale


#: For each pair: the mean of log q, and the mask of p's that have values outside of the support of q.
_MEANS: Final[dict[tuple[type, type], tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]]] = {
    **{(p, Normal): (_under_normal, _never)
       for p in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform)},
    **{(p, Exponential): (_under_exponential, _never) for p in (Beta, ContinuousBernoulli, Gamma, Pareto)},
    **{(p, Gamma): (_under_gamma, _never) for p in (Beta, Exponential, Pareto)},
    **{(p, Gumbel): (_under_gumbel, _never) for p in (Exponential, Gamma, Normal, Uniform)},
    **{(p, Uniform): (_under_uniform, _beyond_uniform) for p in (Beta, ContinuousBernoulli)},
    (Beta, ContinuousBernoulli): (_under_continuous_bernoulli, _never),
    (Uniform, ContinuousBernoulli): (_under_continuous_bernoulli, _uniform_outside_unit),
    (Uniform, Beta): (_under_beta, _uniform_outside_unit),
    (Uniform, Exponential): (_under_exponential, _uniform_below_zero),
    (Uniform, Gamma): (_under_gamma, _uniform_below_zero),
    (Uniform, Pareto): (_under_pareto, _uniform_below_pareto),
    (Normal, Laplace): (_under_laplace, _never),
}
#: Pairs whose p always has values outside of the support of q.
_INFINITE: Final[dict[type, tuple[type, ...]]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def _from_means(mean: Callable[[Any, Any], Any], outside: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def divergence(p: Any, q: Any) -> Any:
        beyond, result = outside(p, q), -p.entropy() - mean(p, q)
        return result if beyond is None else torch.where(beyond, torch.inf, result)

    return divergence


def _infinite(p: Any, q: Any) -> Any:
    shape = torch.broadcast_shapes(tuple(p.batch_shape), tuple(q.batch_shape))
    return torch.full(shape, torch.inf, dtype=p.mean.dtype, device=p.mean.device)


for (_p, _q), (_mean, _outside) in _MEANS.items():
    register_kl(_p, _q)(_from_means(_mean, _outside))
for _p, _others in _INFINITE.items():
    for _q in _others:
        register_kl(_p, _q)(_infinite)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Any:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)
