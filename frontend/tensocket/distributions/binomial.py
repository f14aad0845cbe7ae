"""Counts of successes."""

from __future__ import annotations

from typing import Any, ClassVar

import tensocket as torch

from ..errors import NoClosedForm
from . import constraints
from .distribution import Distribution
from .utils import (
    broadcast_all,
    check_probs_or_logits,
    given_parameter,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)


class Binomial(Distribution):
    """Successes among ``total_count`` trials.

    Args:
        total_count: Number of trials.
        probs: Probability of a success.
        logits: Its log-odds; one of both is given.
        validate_args: Whether parameters and values are checked.

    Raises:
        ArgumentError: Both or none are given.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval, "logits": constraints.real}
    has_enumerate_support = True

    def __init__(self, total_count: Any = 1, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        check_probs_or_logits("Binomial", probs, logits)
        name = "probs" if logits is None else "logits"
        self.total_count, value = broadcast_all(total_count, probs if logits is None else logits)
        self.total_count = self.total_count.to(value.dtype)
        setattr(self, name, value)
        super().__init__(value.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """Integers from 0 to the number of trials."""
        return constraints.integer_interval(0, self.total_count)

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
        """``n p``."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        """floor((n + 1) p), at most n."""
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self) -> Any:
        """``n p (1 - p)``."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw counts."""
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            return torch.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        """Return the log-probability of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        choices = torch.lgamma(n + 1) - torch.lgamma(value + 1) - torch.lgamma(n - value + 1)
        return choices + value * self.logits - n * torch.nn.functional.softplus(self.logits)

    def entropy(self) -> Any:
        """Return the sum over all counts.

        Raises:
            NoClosedForm: The numbers of trials differ.
        """
        self._largest("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def _largest(self, what: str) -> int:
        largest = int(self.total_count.max().item())
        if not (self.total_count == largest).all():
            raise NoClosedForm("Binomial", f"{what} of different numbers of trials",
                               "all distributions of the batch have one number of trials", "take them one by one")
        return largest

    def enumerate_support(self, expand: bool = True) -> Any:
        """Return all counts.

        Raises:
            NoClosedForm: The numbers of trials differ.
        """
        count = 1 + self._largest("enumerate_support")
        values = torch.arange(count, dtype=self.total_count.dtype, device=self.total_count.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values
