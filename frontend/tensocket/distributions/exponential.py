"""The exponential distribution."""

from __future__ import annotations

from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .exp_family import ExponentialFamily
from .utils import batch_shape_of, broadcast_all


class Exponential(ExponentialFamily):
    """rate exp(-rate x).

    Args:
        rate: One over the mean.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(batch_shape_of((rate,), self.rate), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """1 / rate."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Any:
        """0."""
        return torch.zeros_like(self.rate)

    @property
    def stddev(self) -> Any:
        """1 / rate."""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Any:
        """1 / rate**2."""
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw standard exponential numbers, divided by the rate."""
        return self.rate.detach().new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value: Any) -> Any:
        """Return the log-density of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Any) -> Any:
        """Return ``1 - exp(-rate x)``."""
        if self._validate_args:
            self._validate_sample(value)
        return -torch.expm1(-self.rate * value)

    def icdf(self, value: Any) -> Any:
        """Return ``-log(1 - p) / rate``."""
        return -torch.log1p(-value) / self.rate

    def entropy(self) -> Any:
        """Return ``1 - log rate``."""
        return 1.0 - torch.log(self.rate)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: Any) -> Any:
        return -torch.log(-x)
