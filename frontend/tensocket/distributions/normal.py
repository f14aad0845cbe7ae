"""The normal distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .exp_family import ExponentialFamily
from .utils import batch_shape_of, broadcast_all, standard_normal


class Normal(ExponentialFamily):
    """exp(-((x - loc) / scale)**2 / 2) / (scale sqrt(2 pi)).

    Args:
        loc: Mean.
        scale: Standard deviation.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _mean_carrier_measure = 0

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
    def stddev(self) -> Any:
        """``scale``."""
        return self.scale

    @property
    def variance(self) -> Any:
        """scale**2."""
        return self.scale.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw ``loc + scale z`` with normal numbers z."""
        return self.loc + self.scale * standard_normal(self._extended_shape(sample_shape), self.loc)

    def log_prob(self, value: Any) -> Any:
        """Return the log-density of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        return -((value - self.loc) / self.scale).pow(2) / 2 - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Any) -> Any:
        """Return ``(1 + erf((x - loc) / (scale sqrt 2))) / 2``."""
        if self._validate_args:
            self._validate_sample(value)
        return 0.5 * (1 + torch.erf((value - self.loc) / (self.scale * math.sqrt(2))))

    def icdf(self, value: Any) -> Any:
        """Return ``loc + scale sqrt(2) erfinv(2 p - 1)``."""
        return self.loc + self.scale * torch.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Any:
        """Return ``(1 + log(2 pi)) / 2 + log scale``."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + torch.log(self.scale)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return -0.25 * x.pow(2) / y + 0.5 * torch.log(-math.pi / y)
