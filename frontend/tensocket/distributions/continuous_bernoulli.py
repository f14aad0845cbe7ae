"""Numbers between 0 and 1 with the density of a Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .exp_family import ExponentialFamily
from .utils import (
    batch_shape_of,
    broadcast_all,
    check_probs_or_logits,
    clamp_probs,
    given_parameter,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)


class ContinuousBernoulli(ExponentialFamily):
    """C(p) p**x (1 - p)**(1 - x) on [0, 1] (G. Loaiza-Ganem, J. Cunningham, 2019).

    Args:
        probs: p.
        logits: Its log-odds; one of both is given.
        lims: Between these two values of p, the formulas are replaced by their expansions around 1 / 2.
        validate_args: Whether parameters and values are checked.

    Raises:
        ArgumentError: Both or none are given.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _kept = ("_lims",)

    def __init__(self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501),
                 validate_args: bool | None = None) -> None:
        check_probs_or_logits("ContinuousBernoulli", probs, logits)
        given = probs if logits is None else logits
        (value,) = broadcast_all(given)
        self._lims = lims
        if logits is None and (self._validate_args if validate_args is None else validate_args):
            self._check("probs", constraints.unit_interval, value)  # a clamped value always passes
        setattr(self, "probs" if logits is None else "logits", clamp_probs(value) if logits is None else value)
        super().__init__(batch_shape_of((given,), value), validate_args=validate_args)

    @lazy_property
    def logits(self) -> Any:
        """Log-odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """Parameter p."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    @property
    def param_shape(self) -> Any:
        """Shape of the parameter."""
        return given_parameter(self).size()

    def _outside_unstable_region(self) -> Any:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Any:
        return torch.where(self._outside_unstable_region(), self.probs, self._lims[0])

    def _cont_bern_log_norm(self) -> Any:
        """Return ``log C(p)``."""
        p = self._cut_probs()
        exact = (torch.log1p(-p) - p.log()).abs().log() - torch.log1p(-2 * p.clamp(max=0.5)).where(
            p <= 0.5, torch.log(2 * p.clamp(min=0.5) - 1))
        x = (self.probs - 0.5).pow(2)
        return torch.where(self._outside_unstable_region(), exact, math.log(2.0) + (4 / 3 + 104 / 45 * x) * x)

    @property
    def mean(self) -> Any:
        """``p / (2 p - 1) + 1 / (2 atanh(1 - 2 p))``."""
        p = self._cut_probs()
        exact = p / (2 * p - 1) + 1 / (torch.log1p(-p) - p.log())
        x = self.probs - 0.5
        return torch.where(self._outside_unstable_region(), exact, 0.5 + (1 / 3 + 16 / 45 * x.pow(2)) * x)

    @property
    def stddev(self) -> Any:
        """The square root of the variance."""
        return self.variance.sqrt()

    @property
    def variance(self) -> Any:
        """``p (p - 1) / (1 - 2 p)**2 + 1 / (2 atanh(1 - 2 p))**2``."""
        p = self._cut_probs()
        exact = p * (p - 1) / (1 - 2 * p).pow(2) + 1 / (torch.log1p(-p) - p.log()).pow(2)
        x = (self.probs - 0.5).pow(2)
        return torch.where(self._outside_unstable_region(), exact, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw by ``icdf`` of uniform numbers."""
        drawn = torch.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
        return self.icdf(drawn)

    def log_prob(self, value: Any) -> Any:
        """Return the log-density of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        density = -torch.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return density + self._cont_bern_log_norm()

    def cdf(self, value: Any) -> Any:
        """Return ``(p**x (1 - p)**(1 - x) + p - 1) / (2 p - 1)``."""
        if self._validate_args:
            self._validate_sample(value)
        p = self._cut_probs()
        exact = (p.pow(value) * (1 - p).pow(1 - value) + p - 1) / (2 * p - 1)
        inside = torch.where(self._outside_unstable_region(), exact, value)
        return torch.where(value <= 0, 0.0, torch.where(value >= 1, 1.0, inside))

    def icdf(self, value: Any) -> Any:
        """Return the inverse of ``cdf``."""
        p = self._cut_probs()
        exact = ((-p + value * (2 * p - 1)).log1p() - (-p).log1p()) / (p.log() - (-p).log1p())
        return torch.where(self._outside_unstable_region(), exact, value)

    def entropy(self) -> Any:
        """Return ``-mean log(p / (1 - p)) - log(1 - p) - log C(p)``."""
        rest = torch.log1p(-self.probs)
        return self.mean * (rest - self.probs.log()) - self._cont_bern_log_norm() - rest

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Any) -> Any:
        """Return ``log((exp(x) - 1) / x)``."""
        near = (x - 0.0).abs() <= max(abs(math.log(p / (1 - p))) for p in self._lims)
        safe = torch.where(near, 1.0, x)
        exact = (safe.exp() - 1).abs().log() - safe.abs().log()
        return torch.where(near, 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0, exact)
