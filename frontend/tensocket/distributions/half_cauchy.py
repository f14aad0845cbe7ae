"""The absolute values of Cauchy numbers."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .cauchy import Cauchy
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform


class HalfCauchy(TransformedDistribution):
    """|x| with x a Cauchy number around 0.

    Args:
        scale: The scale of x.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Any:
        """The scale of x."""
        return self.base_dist.scale

    @property
    def mean(self) -> Any:
        """Infinite."""
        return torch.full(self._extended_shape(), math.inf, dtype=self.scale.dtype, device=self.scale.device)

    @property
    def mode(self) -> Any:
        """0."""
        return torch.zeros_like(self.scale)

    @property
    def variance(self) -> Any:
        """Infinite."""
        return self.base_dist.variance

    def log_prob(self, value: Any) -> Any:
        """Return the log-density of ``value``; -inf below 0."""
        if self._validate_args:
            self._validate_sample(value)
        value = torch.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        return torch.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Any) -> Any:
        """Return ``2 F(x) - 1``."""
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Any) -> Any:
        """Return the inverse of ``cdf``."""
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Any:
        """Return the entropy of x minus log 2."""
        return self.base_dist.entropy() - math.log(2)
