"""The Laplace distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .distribution import Distribution
from .utils import batch_shape_of, broadcast_all


class Laplace(Distribution):
    """exp(-|x - loc| / scale) / (2 scale).

    Args:
        loc: Mean.
        scale: Mean distance from it.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(batch_shape_of((loc, scale), self.loc), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """``loc``."""
        return self.loc

    @property
    def mode(self) -> Any:
        """``loc``."""
        return self.loc

    @property
    def variance(self) -> Any:
        """2 scale**2."""
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Any:
        """``sqrt(2) scale``."""
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw exponential numbers with random signs."""
        shape = self._extended_shape(sample_shape)
        limits = torch.finfo(self.loc.dtype)
        drawn = torch.rand(shape, dtype=self.loc.dtype, device=self.loc.device) * 2 - 1
        drawn = drawn.clamp(min=limits.eps - 1)
        return self.loc - self.scale * drawn.sign() * torch.log1p(-drawn.abs().clamp(min=limits.tiny))

    def log_prob(self, value: Any) -> Any:
        """Return the log-density of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        return -torch.log(2 * self.scale) - torch.abs(value - self.loc) / self.scale

    def cdf(self, value: Any) -> Any:
        """Return ``exp(-d) / 2`` below ``loc`` and ``1 - exp(-d) / 2`` above it, at a distance of d scales."""
        if self._validate_args:
            self._validate_sample(value)
        offset = value - self.loc
        return 0.5 - 0.5 * offset.sign() * torch.expm1(-offset.abs() / self.scale)

    def icdf(self, value: Any) -> Any:
        """Return the inverse of ``cdf``."""
        term = value - 0.5
        return self.loc - self.scale * term.sign() * torch.log1p(-2 * term.abs())

    def entropy(self) -> Any:
        """Return ``1 + log(2 scale)``."""
        return 1 + torch.log(2 * self.scale)
