"""Categories as vectors of zeros with a single one."""

from __future__ import annotations

from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .categorical import Categorical
from .distribution import Distribution


class OneHotCategorical(Distribution):
    """Vectors of K numbers, of which one is 1.

    Args:
        probs: Probabilities; normalised.
        logits: Unnormalised log-probabilities; one of both is given.
        validate_args: Whether parameters and values are checked.

    Raises:
        ArgumentError: Both or none are given, or a scalar.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True
    _parts = ("_categorical",)

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:],
                         validate_args=validate_args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    def _param(self) -> Any:
        return self._categorical._param

    @property
    def probs(self) -> Any:
        """Probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        """Log-probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        """Shape of the parameter."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Any:
        """The mean, ``probs``."""
        return self.probs

    @property
    def mode(self) -> Any:
        """The most probable vector."""
        return self._one_hot(self.probs.argmax(-1))

    def _one_hot(self, categories: Any) -> Any:
        return torch.nn.functional.one_hot(categories, self._event_shape[0]).to(self._param.dtype)

    @property
    def variance(self) -> Any:
        """``p (1 - p)``."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw vectors."""
        return self._one_hot(self._categorical.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        """Return the log-probability of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Any:
        """Return the sum of -p log p."""
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        """Return all vectors."""
        count = self._event_shape[0]
        values = torch.eye(count, dtype=self._param.dtype, device=self._param.device)
        values = values.view((count,) + (1,) * len(self._batch_shape) + (count,))
        return values.expand((count, *self._batch_shape, count)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """``OneHotCategorical`` whose samples have the gradient of the probabilities (Y. Bengio et al., 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw vectors, plus the probabilities minus the probabilities without gradient."""
        samples, probs = self.sample(sample_shape), self.probs
        return samples + (probs - probs.detach())
