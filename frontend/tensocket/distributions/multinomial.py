"""Counts of categories."""

from __future__ import annotations

from typing import Any, ClassVar

import tensocket as torch

from ..errors import NoClosedForm
from . import constraints
from .binomial import Binomial
from .categorical import Categorical
from .distribution import Distribution
from .utils import broadcast_all


class Multinomial(Distribution):
    """Counts of each of K categories in ``total_count`` trials.

    Args:
        total_count: Number of trials.
        probs: Probabilities; normalised.
        logits: Unnormalised log-probabilities; one of both is given.
        validate_args: Whether parameters and values are checked.

    Raises:
        ArgumentError: Both or none are given, or the number is not an int.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _parts = ("_categorical",)
    _kept = ("total_count",)

    def __init__(self, total_count: int = 1, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        if not isinstance(total_count, int):
            raise NoClosedForm("Multinomial", f"total_count of type {type(total_count).__name__}",
                               "the number of trials is one int for all", "make one distribution for each number")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:],
                         validate_args=validate_args)

    def __repr__(self) -> str:
        return "Multinomial()"

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Return the constraint: counts whose sum is the number of trials."""
        return constraints.multinomial(self.total_count)

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
        """``n p``."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        """``n p (1 - p)``."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw counts."""
        drawn = self._categorical.sample((self.total_count, *torch.Size(sample_shape)))
        return torch.nn.functional.one_hot(drawn, self._event_shape[0]).sum(0).to(self.probs.dtype)

    def log_prob(self, value: Any) -> Any:
        """Return the log-probability of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = torch.where((value == 0) & (logits == -torch.inf), 0.0, logits)
        choices = torch.lgamma(value.sum(-1) + 1) - torch.lgamma(value + 1).sum(-1)
        return choices + (logits * value).sum(-1)

    def entropy(self) -> Any:
        """Return ``n H - log n!`` plus the sum over categories of the mean of ``log k!``."""
        n = torch.tensor(self.total_count)
        counts = Binomial(self.total_count, self.probs).enumerate_support(expand=False)[1:]
        weights = torch.exp(Binomial(self.total_count, self.probs).log_prob(counts))
        return (self.total_count * self._categorical.entropy() - torch.lgamma(n + 1.0)
                + (weights * torch.lgamma(counts + 1)).sum(0).sum(-1))
