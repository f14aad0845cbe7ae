"""The inverse of gamma numbers."""

from __future__ import annotations

from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .gamma import Gamma
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform


class InverseGamma(TransformedDistribution):
    """1 / x with x a gamma number.

    Args:
        concentration: The shape a.
        rate: The rate of x.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    @property
    def concentration(self) -> Any:
        """The shape."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Any:
        """The rate."""
        return self.base_dist.rate

    @property
    def mean(self) -> Any:
        """``rate / (a - 1)``; infinite for a up to 1."""
        return torch.where(self.concentration > 1, self.rate / (self.concentration - 1), torch.inf)

    @property
    def mode(self) -> Any:
        """``rate / (a + 1)``."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        """rate**2 / ((a - 1)**2 (a - 2)); infinite for a up to 2."""
        a = self.concentration
        return torch.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), torch.inf)

    def entropy(self) -> Any:
        """Return ``a + log rate + log Gamma(a) - (1 + a) psi(a)``."""
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
