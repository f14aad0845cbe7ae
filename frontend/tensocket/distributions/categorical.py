"""Categories."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tensocket as torch

from ..errors import ArgumentError
from . import constraints
from .distribution import Distribution
from .utils import check_probs_or_logits, given_parameter, lazy_property, logits_to_probs, probs_to_logits


class Categorical(Distribution):
    """Categories 0 to K - 1; the last dimension of the parameter is K.

    Args:
        probs: Probabilities; normalised.
        logits: Unnormalised log-probabilities; one of both is given.
        validate_args: Whether parameters and values are checked.

    Raises:
        ArgumentError: Both or none are given, or a scalar.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _kept = ("_num_events",)

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        check_probs_or_logits(type(self).__name__, probs, logits)
        given = probs if logits is None else logits
        if given.dim() < 1:
            raise ArgumentError(type(self).__name__, "a scalar parameter", "the parameter is at least one-dimensional",
                                "pass one number per category")
        if logits is None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(-1, keepdim=True)
        self._num_events = given.size(-1)
        super().__init__(given.size()[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """Integers from 0 to K - 1."""
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Any:
        """Log-probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Any:
        """Probabilities."""
        return logits_to_probs(self.logits)

    @property
    def _param(self) -> Any:
        return given_parameter(self)

    @property
    def param_shape(self) -> Any:
        """Shape of the parameter."""
        return self._param.size()

    @property
    def mean(self) -> Any:
        """Return NaN: categories are not numbers."""
        return self._nan()

    @property
    def mode(self) -> Any:
        """The most probable category."""
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Any:
        """Return NaN: categories are not numbers."""
        return self._nan()

    def _nan(self) -> Any:
        return torch.full(self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw categories."""
        shape = torch.Size(sample_shape)
        rows = self.probs.detach().reshape((-1, self._num_events))
        drawn = torch.multinomial(rows, shape.numel(), True).mT
        return drawn.reshape(self._extended_shape(shape))

    def log_prob(self, value: Any) -> Any:
        """Return the log-probability of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        shape = torch.broadcast_shapes(tuple(value.shape), tuple(self._batch_shape))
        index = value.long().expand(shape).unsqueeze(-1)
        return self.logits.expand((*shape, self._num_events)).gather(-1, index).squeeze(-1)

    def entropy(self) -> Any:
        """Return the sum of -p log p."""
        logits = self.logits.clamp(min=torch.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        """Return all categories."""
        values = torch.arange(self._num_events, dtype=torch.long, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values
