"""The uniform distribution."""

from __future__ import annotations

from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .distribution import Distribution
from .utils import batch_shape_of, broadcast_all


class Uniform(Distribution):
    """1 / (high - low) on [low, high).

    Args:
        low: The lower end.
        high: The upper end, which is greater.
        validate_args: Whether parameters and values are checked.

    Raises:
        ArgumentError: An upper end is not greater.
    """

    has_rsample = True
    _expanded: ClassVar[dict[str, int]] = {"low": 0, "high": 0}

    @property
    def arg_constraints(self) -> Any:
        """Domains of both ends."""
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(batch_shape_of((low, high), self.low), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """Return the interval."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Any:
        """The middle."""
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Any:
        """NaN: all values are equally probable."""
        return torch.nan * self.high

    @property
    def stddev(self) -> Any:
        """(high - low) / sqrt 12."""
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Any:
        """(high - low)**2 / 12."""
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw ``low + (high - low) z`` with uniform numbers z."""
        drawn = torch.rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        """Return the log-density of ``value``; -inf outside of the interval."""
        if self._validate_args:
            self._validate_sample(value)
        inside = (self.low <= value) & (self.high > value)
        return torch.log(inside.to(self.low.dtype)) - torch.log(self.high - self.low)

    def cdf(self, value: Any) -> Any:
        """Return the fraction of the interval that is below ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Any) -> Any:
        """Return ``low + p (high - low)``."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        """Return ``log(high - low)``."""
        return torch.log(self.high - self.low)
