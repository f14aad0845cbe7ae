"""Probabilities that become one-hot vectors at low temperatures."""

from __future__ import annotations

from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .categorical import Categorical
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform
from .utils import clamp_probs


class ExpRelaxedCategorical(Distribution):
    """Logarithms of ``RelaxedOneHotCategorical`` (C. Maddison et al., 2017; E. Jang et al., 2017).

    Args:
        temperature: At low temperatures, values are close to one-hot vectors.
        probs: Probabilities; normalised.
        logits: Unnormalised log-probabilities; one of both is given.
        validate_args: Whether parameters and values are checked.

    Raises:
        ArgumentError: Both or none are given, or a scalar.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True
    _parts = ("_categorical",)
    _kept = ("temperature",)

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:],
                         validate_args=validate_args)

    @property
    def param_shape(self) -> Any:
        """Shape of the parameter."""
        return self._categorical.param_shape

    @property
    def logits(self) -> Any:
        """Log-probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Any:
        """Probabilities."""
        return self._categorical.probs

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw the log-softmax of (log-probabilities plus Gumbel noise) divided by the temperature."""
        like = self._categorical._param
        u = clamp_probs(torch.rand(self._extended_shape(sample_shape), dtype=like.dtype, device=like.device))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Any) -> Any:
        """Return the log-density of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        count = self._event_shape[0]
        logits, value = torch.broadcast_tensors(self.logits, value)
        temperature = torch.as_tensor(self.temperature, dtype=value.dtype, device=value.device)
        scale = torch.lgamma(torch.full_like(temperature, float(count))) + temperature.log() * (count - 1)
        score = logits - value * temperature
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Softmax of log-probabilities with Gumbel noise.

    Args:
        temperature: At low temperatures, values are close to one-hot vectors.
        probs: Probabilities; normalised.
        logits: Unnormalised log-probabilities; one of both is given.
        validate_args: Whether parameters and values are checked.

    Raises:
        ArgumentError: Both or none are given, or a scalar.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        """Log-probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        """Probabilities."""
        return self.base_dist.probs
