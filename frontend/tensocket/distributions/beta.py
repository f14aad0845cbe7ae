"""The beta distribution."""

from __future__ import annotations

from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .dirichlet import Dirichlet
from .exp_family import ExponentialFamily
from .utils import batch_shape_of, broadcast_all


class Beta(ExponentialFamily):
    """x**(a - 1) (1 - x)**(b - 1) / B(a, b).

    Args:
        concentration1: a.
        concentration0: b.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _parts = ("_dirichlet",)

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        a, b = broadcast_all(concentration1, concentration0)
        self._dirichlet = Dirichlet(torch.stack([a, b], -1), validate_args=validate_args)
        super().__init__(batch_shape_of((concentration1, concentration0), a), validate_args=validate_args)

    def __repr__(self) -> str:
        return "Beta()"

    @property
    def concentration1(self) -> Any:
        """The parameter ``a``."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Any:
        """The parameter ``b``."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Any:
        """``a / (a + b)``."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Any:
        """The mode of the Dirichlet distribution of two probabilities."""
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Any:
        """``a b / ((a + b)**2 (a + b + 1))``."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw the first of two Dirichlet-distributed probabilities."""
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Any) -> Any:
        """Return the log-density of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        return self._dirichlet.log_prob(torch.stack([value, 1.0 - value], -1))

    def entropy(self) -> Any:
        """Return the entropy of the Dirichlet distribution of two probabilities."""
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return torch.lgamma(x) + torch.lgamma(y) - torch.lgamma(x + y)
