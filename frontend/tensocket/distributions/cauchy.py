"""The Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .distribution import Distribution
from .utils import batch_shape_of, broadcast_all


class Cauchy(Distribution):
    """1 / (pi scale (1 + ((x - loc) / scale)**2)).

    Args:
        loc: Median.
        scale: Half of the width at half of the height.
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
        """NaN: the integral diverges."""
        return torch.full(self._extended_shape(), math.nan, dtype=self.loc.dtype, device=self.loc.device)

    @property
    def mode(self) -> Any:
        """``loc``."""
        return self.loc

    @property
    def variance(self) -> Any:
        """Infinite."""
        return torch.full(self._extended_shape(), math.inf, dtype=self.loc.dtype, device=self.loc.device)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw ``loc + scale z`` with Cauchy numbers z."""
        drawn = self.loc.detach().new_empty(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + drawn * self.scale

    def log_prob(self, value: Any) -> Any:
        """Return the log-density of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - ((value - self.loc) / self.scale).pow(2).log1p()

    def cdf(self, value: Any) -> Any:
        """Return ``atan((x - loc) / scale) / pi + 1 / 2``."""
        if self._validate_args:
            self._validate_sample(value)
        return torch.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        """Return ``loc + scale tan(pi (p - 1 / 2))``."""
        return torch.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Any:
        """Return ``log(4 pi scale)``."""
        return math.log(4 * math.pi) + self.scale.log()
