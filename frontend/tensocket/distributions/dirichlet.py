"""Random probabilities."""

from __future__ import annotations

from typing import Any, ClassVar

import tensocket as torch

from ..errors import ArgumentError
from . import constraints
from .exp_family import ExponentialFamily
from .pathwise import dirichlet_backward, standard_dirichlet

#: PyTorch's name of the gradient.
_Dirichlet_backward = dirichlet_backward


class Dirichlet(ExponentialFamily):
    """Vectors of K probabilities: gamma numbers, divided by their sum.

    Args:
        concentration: K numbers along the last dimension.
        validate_args: Whether parameters and values are checked.

    Raises:
        ArgumentError: It is a scalar.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ArgumentError("Dirichlet", "a scalar concentration", "the parameter is at least one-dimensional",
                                "pass one number per category")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw random probabilities, with gradients."""
        return standard_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        """Return the log-density of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return torch.xlogy(a - 1.0, value).sum(-1) + torch.lgamma(a.sum(-1)) - torch.lgamma(a).sum(-1)

    @property
    def mean(self) -> Any:
        """The concentrations, divided by their sum."""
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Any:
        """The shares of the concentrations' excess over 1; if all are below 1, one at the largest concentration."""
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        below = (self.concentration < 1).all(dim=-1, keepdim=True)
        corner = torch.nn.functional.one_hot(self.concentration.argmax(-1), self.concentration.shape[-1])
        return torch.where(below, corner.to(mode.dtype), mode)

    @property
    def variance(self) -> Any:
        """``a (A - a) / (A**2 (A + 1))``, where A is the sum."""
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self) -> Any:
        """Return ``log B(a) + (A - K) psi(A)`` minus the sum of ``(a - 1) psi(a)``."""
        a, count = self.concentration, self.concentration.size(-1)
        total = a.sum(-1)
        return (torch.lgamma(a).sum(-1) - torch.lgamma(total) - (count - total) * torch.digamma(total)
                - ((a - 1.0) * torch.digamma(a)).sum(-1))

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Any) -> Any:
        return x.lgamma().sum(-1) - torch.lgamma(x.sum(-1))
