"""The generalised Pareto distribution: excesses over thresholds."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .distribution import Distribution
from .utils import batch_shape_of, broadcast_all


class GeneralizedPareto(Distribution):
    """(1 + k z)**(-1 / k - 1) / scale with z = (x - loc) / scale; exp(-z) / scale for k = 0.

    Args:
        loc: The smallest value.
        scale: The scale.
        concentration: The shape k.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(batch_shape_of((loc, scale, concentration), self.loc), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """Numbers from ``loc`` up; for negative k, up to ``loc - scale / k``."""
        k = self.concentration
        upper = torch.where(k < 0, self.loc - self.scale / torch.where(k < 0, k, -1.0), math.inf)
        return constraints.interval(self.loc, upper)

    def _logarithm(self, z: Any) -> Any:
        """Return ``log(1 + k z) / k``, which is z for k = 0."""
        k = self.concentration
        near = k.abs() < torch.finfo(k.dtype).eps
        safe = torch.where(near, 1.0, k)
        return torch.where(near, z, torch.log1p(safe * z) / safe)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw by ``icdf`` of uniform numbers."""
        return self.icdf(torch.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Any) -> Any:
        """Return the log-density of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -self.scale.log() - (1 + self.concentration) * self._logarithm(z)

    def log_survival_function(self, value: Any) -> Any:
        """Return the logarithm of the probability of larger values."""
        if self._validate_args:
            self._validate_sample(value)
        return -self._logarithm((value - self.loc) / self.scale)

    def log_cdf(self, value: Any) -> Any:
        """Return the logarithm of ``cdf``."""
        return torch.log1p(-self.log_survival_function(value).exp())

    def cdf(self, value: Any) -> Any:
        """Return ``1 - (1 + k z)**(-1 / k)``."""
        return -torch.expm1(self.log_survival_function(value))

    def icdf(self, value: Any) -> Any:
        """Return ``loc + scale ((1 - p)**(-k) - 1) / k``."""
        k, left = self.concentration, -torch.log1p(-value)
        near = k.abs() < torch.finfo(k.dtype).eps
        safe = torch.where(near, 1.0, k)
        return self.loc + self.scale * torch.where(near, left, torch.expm1(safe * left) / safe)

    @property
    def mean(self) -> Any:
        """``loc + scale / (1 - k)``; infinite for k >= 1."""
        k = self.concentration
        return torch.where(k < 1, self.loc + self.scale / (1 - k), math.inf)

    @property
    def variance(self) -> Any:
        """``scale**2 / ((1 - k)**2 (1 - 2 k))``; infinite for k >= 1 / 2."""
        k = self.concentration
        return torch.where(k < 0.5, self.scale.pow(2) / ((1 - k).pow(2) * (1 - 2 * k)), math.inf)

    def entropy(self) -> Any:
        """Return ``log scale + k + 1``."""
        return self.scale.log() + self.concentration + 1

    @property
    def mode(self) -> Any:
        """``loc``."""
        return self.loc
