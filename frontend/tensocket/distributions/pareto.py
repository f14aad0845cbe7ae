"""The Pareto distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .utils import broadcast_all


class Pareto(TransformedDistribution):
    """alpha scale**alpha / x**(alpha + 1) from ``scale`` on.

    Args:
        scale: The smallest value.
        alpha: The exponent.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(loc=0, scale=self.scale)],
                         validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """Numbers from the smallest value up."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Any:
        """``alpha scale / (alpha - 1)``; infinite for alpha up to 1."""
        return torch.where(self.alpha > 1, self.alpha * self.scale / (self.alpha - 1), math.inf)

    @property
    def mode(self) -> Any:
        """``scale``."""
        return self.scale

    @property
    def variance(self) -> Any:
        """scale**2 alpha / ((alpha - 1)**2 (alpha - 2)); infinite for alpha up to 2."""
        a = self.alpha
        return torch.where(a > 2, self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2)), math.inf)

    def entropy(self) -> Any:
        """Return ``log(scale / alpha) + 1 + 1 / alpha``."""
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())
