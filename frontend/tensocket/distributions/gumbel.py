"""The Gumbel distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .uniform import Uniform
from .utils import batch_shape_of, broadcast_all, euler_constant


class Gumbel(TransformedDistribution):
    """exp(-(z + exp(-z))) / scale with z = (x - loc) / scale: the distribution of largest values.

    Args:
        loc: The most probable value.
        scale: The width.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = torch.finfo(self.loc.dtype)
        low, high = limits.tiny, 1 - limits.eps
        if batch_shape_of((loc, scale), self.loc) == torch.Size() and not self.loc.dim():
            base = Uniform(low, high, validate_args=validate_args)
        else:
            base = Uniform(torch.full_like(self.loc, low), torch.full_like(self.loc, high),
                           validate_args=validate_args)
        transforms = [ExpTransform().inv, AffineTransform(loc=0, scale=-torch.ones_like(self.scale)),
                      ExpTransform().inv, AffineTransform(loc=loc, scale=-self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        """Return the log-density of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    @property
    def mean(self) -> Any:
        """``loc + scale c`` with Euler's constant c."""
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Any:
        """``loc``."""
        return self.loc

    @property
    def stddev(self) -> Any:
        """``pi scale / sqrt 6``."""
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Any:
        """pi**2 scale**2 / 6."""
        return self.stddev.pow(2)

    def entropy(self) -> Any:
        """Return ``log scale + 1`` plus Euler's constant."""
        return self.scale.log() + (1 + euler_constant)
