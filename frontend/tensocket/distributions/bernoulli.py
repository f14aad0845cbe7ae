"""Zeros and ones."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .exp_family import ExponentialFamily
from .utils import (
    batch_shape_of,
    bernoulli_entropy,
    broadcast_all,
    check_probs_or_logits,
    given_parameter,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)


class Bernoulli(ExponentialFamily):
    """1 with probability ``probs``, else 0.

    Args:
        probs: Probability of 1.
        logits: Its log-odds; one of both is given.
        validate_args: Whether parameters and values are checked.

    Raises:
        ArgumentError: Both or none are given.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        check_probs_or_logits("Bernoulli", probs, logits)
        given = probs if logits is None else logits
        (value,) = broadcast_all(given)
        setattr(self, "probs" if logits is None else "logits", value)
        super().__init__(batch_shape_of((given,), value), validate_args=validate_args)

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
        """The mean, ``probs``."""
        return self.probs

    @property
    def mode(self) -> Any:
        """The more probable value; NaN where both are equally probable."""
        mode = (self.probs >= 0.5).to(self.probs.dtype)
        return torch.where(self.probs == 0.5, math.nan, mode)

    @property
    def variance(self) -> Any:
        """``p (1 - p)``."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw zeros and ones."""
        with torch.no_grad():
            return torch.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        """Return the log-probability of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -torch.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Any:
        """Return ``-p log p - (1 - p) log(1 - p)``."""
        return bernoulli_entropy(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Any:
        """Return 0 and 1."""
        like = given_parameter(self)
        values = torch.arange(2, dtype=like.dtype, device=like.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (torch.logit(self.probs),)

    def _log_normalizer(self, x: Any) -> Any:
        return torch.nn.functional.softplus(x)
