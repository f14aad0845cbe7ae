"""Numbers between 0 and 1 that become zeros and ones at low temperatures."""

from __future__ import annotations

from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import SigmoidTransform
from .utils import (
    batch_shape_of,
    broadcast_all,
    check_probs_or_logits,
    clamp_probs,
    given_parameter,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)


class LogitRelaxedBernoulli(Distribution):
    """Log-odds of ``RelaxedBernoulli`` (C. Maddison, A. Mnih, Y. Teh, 2017).

    Args:
        temperature: At low temperatures, values are close to zeros and ones.
        probs: Probability of 1.
        logits: Its log-odds; one of both is given.
        validate_args: Whether parameters and values are checked.

    Raises:
        ArgumentError: Both or none are given.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True
    _kept = ("temperature",)

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        self.temperature = temperature
        check_probs_or_logits("RelaxedBernoulli", probs, logits)
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

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw (log-odds plus logistic noise) divided by the temperature."""
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(torch.rand(shape, dtype=self._like.dtype, device=self._like.device))
        return (u.log() - (-u).log1p() + self.logits.expand(shape)) / self.temperature

    @property
    def _like(self) -> Any:
        return given_parameter(self)

    def log_prob(self, value: Any) -> Any:
        """Return the log-density of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value * self.temperature
        temperature = torch.as_tensor(self.temperature, dtype=value.dtype, device=value.device)
        return temperature.log() + difference - 2 * torch.nn.functional.softplus(difference)


class RelaxedBernoulli(TransformedDistribution):
    """Sigmoids of log-odds with logistic noise.

    Args:
        temperature: At low temperatures, values are close to zeros and ones.
        probs: Probability of 1.
        logits: Its log-odds; one of both is given.
        validate_args: Whether parameters and values are checked.

    Raises:
        ArgumentError: Both or none are given.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(),
                         validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        """Log-odds."""
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        """Probabilities."""
        return self.base_dist.probs
