"""Failures before a success."""

from __future__ import annotations

from typing import Any, ClassVar

import tensocket as torch

from ..errors import ArgumentError
from . import constraints
from .distribution import Distribution
from .utils import (
    batch_shape_of,
    bernoulli_entropy,
    broadcast_all,
    check_probs_or_logits,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    uniform,
)


class Geometric(Distribution):
    """(1 - p)**k p: the number of failures before the first success.

    Args:
        probs: Probability of a success.
        logits: Its log-odds; one of both is given.
        validate_args: Whether parameters and values are checked.

    Raises:
        ArgumentError: Both or none are given, or a probability is 0.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        check_probs_or_logits("Geometric", probs, logits)
        given = probs if logits is None else logits
        (value,) = broadcast_all(given)
        setattr(self, "probs" if logits is None else "logits", value)
        super().__init__(batch_shape_of((given,), value), validate_args=validate_args)
        if self._validate_args and logits is None and not (value > 0).all():
            raise ArgumentError("Geometric", f"probs {value.detach()}", "a success has a positive probability",
                                "pass positive probabilities")

    @lazy_property
    def logits(self) -> Any:
        """Log-odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """Probabilities."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def mean(self) -> Any:
        """1 / p - 1."""
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Any:
        """0."""
        return torch.zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        """(1 / p - 1) / p."""
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw ``floor(log u / log(1 - p))`` with uniform u."""
        with torch.no_grad():
            # Half precision has too few digits to resolve the quantiles.
            probs = self.probs.float() if self.probs.itemsize < 4 else self.probs
            u = uniform(self._extended_shape(sample_shape), probs)
            return (u.log() / (-probs).log1p()).floor().to(self.probs.dtype)

    def log_prob(self, value: Any) -> Any:
        """Return the log-probability of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        failures = torch.where((probs == 1) & (value == 0), 0.0, probs)
        return value * (-failures).log1p() + self.probs.log()

    def entropy(self) -> Any:
        """Return the entropy of one trial, divided by p."""
        return bernoulli_entropy(self.logits, self.probs) / self.probs
