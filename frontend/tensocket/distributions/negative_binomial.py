"""Successes before failures."""

from __future__ import annotations

from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .distribution import Distribution
from .gamma import Gamma
from .utils import (
    broadcast_all,
    check_probs_or_logits,
    given_parameter,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)


class NegativeBinomial(Distribution):
    """Gamma(n + k) / (Gamma(n) k!) (1 - p)**n p**k: successes before ``total_count`` failures.

    Args:
        total_count: Number of failures, which need not be whole.
        probs: Probability of a success, in [0, 1).
        logits: Its log-odds; one of both is given.
        validate_args: Whether parameters and values are checked.

    Raises:
        ArgumentError: Both or none are given.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"total_count": constraints.greater_than_eq(0),
                       "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        check_probs_or_logits("NegativeBinomial", probs, logits)
        self.total_count, value = broadcast_all(total_count, probs if logits is None else logits)
        self.total_count = self.total_count.to(value.dtype)
        setattr(self, "probs" if logits is None else "logits", value)
        super().__init__(value.size(), validate_args=validate_args)

    @lazy_property
    def logits(self) -> Any:
        """Log-odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """Probabilities."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Any:
        """Shape of the parameter."""
        return given_parameter(self).size()

    @property
    def mean(self) -> Any:
        """``n p / (1 - p)``."""
        return self.total_count * torch.exp(self.logits)

    @property
    def mode(self) -> Any:
        """floor((n - 1) p / (1 - p)), at least 0."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Any:
        """``n p / (1 - p)**2``."""
        return self.mean / torch.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Any:
        return Gamma(concentration=self.total_count, rate=torch.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw Poisson numbers whose rates are gamma numbers."""
        with torch.no_grad():
            return torch.poisson(self._gamma.sample(sample_shape=sample_shape))

    def log_prob(self, value: Any) -> Any:
        """Return the log-probability of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        logsigmoid = torch.nn.functional.logsigmoid
        weight = self.total_count * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        norm = -torch.lgamma(self.total_count + value) + torch.lgamma(1.0 + value) + torch.lgamma(self.total_count)
        return weight - torch.where(self.total_count + value == 0.0, 0.0, norm)
