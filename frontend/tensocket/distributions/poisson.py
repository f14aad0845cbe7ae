"""Counts of independent events."""

from __future__ import annotations

from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .exp_family import ExponentialFamily
from .utils import batch_shape_of, broadcast_all


class Poisson(ExponentialFamily):
    """rate**k exp(-rate) / k!.

    Args:
        rate: Mean.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(batch_shape_of((rate,), self.rate), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """``rate``."""
        return self.rate

    @property
    def mode(self) -> Any:
        """floor(rate)."""
        return self.rate.floor()

    @property
    def variance(self) -> Any:
        """``rate``."""
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw counts."""
        with torch.no_grad():
            return torch.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        """Return the log-probability of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return torch.xlogy(value, rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (torch.log(self.rate),)

    def _log_normalizer(self, x: Any) -> Any:
        return torch.exp(x)
