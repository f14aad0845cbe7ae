"""The Weibull distribution."""

from __future__ import annotations

from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .utils import broadcast_all, euler_constant


class Weibull(TransformedDistribution):
    """scale x**(1 / k) with x exponential.

    Args:
        scale: The scale.
        concentration: The shape k.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(torch.ones_like(self.scale), validate_args=validate_args)
        transforms = [PowerTransform(exponent=self.concentration_reciprocal), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    _expanded: ClassVar[dict[str, int]] = {"concentration_reciprocal": 0}

    @property
    def mean(self) -> Any:
        """``scale Gamma(1 + 1 / k)``."""
        return self.scale * torch.exp(torch.lgamma(1 + self.concentration_reciprocal))

    @property
    def mode(self) -> Any:
        """``scale ((k - 1) / k)**(1 / k)``; 0 for k up to 1."""
        ratio = ((self.concentration - 1) / self.concentration).clamp(min=0)
        return torch.where(self.concentration > 1, self.scale * ratio**self.concentration_reciprocal, 0.0)

    @property
    def variance(self) -> Any:
        """scale**2 (Gamma(1 + 2 / k) - Gamma(1 + 1 / k)**2)."""
        return self.scale.pow(2) * (torch.exp(torch.lgamma(1 + 2 * self.concentration_reciprocal))
                                    - torch.exp(2 * torch.lgamma(1 + self.concentration_reciprocal)))

    def entropy(self) -> Any:
        """Return Euler's constant times ``(1 - 1 / k)``, plus ``log(scale / k) + 1``."""
        return (euler_constant * (1 - self.concentration_reciprocal)
                + torch.log(self.scale * self.concentration_reciprocal) + 1)
