"""The Kumaraswamy distribution."""

from __future__ import annotations

from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant


def _moment(a: Any, b: Any, n: int) -> Any:
    """Return the n-th moment, ``b B(1 + n / a, b)``."""
    return torch.exp(torch.log(b) + torch.lgamma(1 + n / a) + torch.lgamma(b) - torch.lgamma(1 + n / a + b))


class Kumaraswamy(TransformedDistribution):
    """a b x**(a - 1) (1 - x**a)**(b - 1) on (0, 1).

    Args:
        concentration1: a.
        concentration0: b.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(torch.zeros_like(self.concentration0), torch.ones_like(self.concentration0),
                       validate_args=validate_args)
        transforms = [PowerTransform(exponent=self.concentration0.reciprocal()), AffineTransform(loc=1.0, scale=-1.0),
                      PowerTransform(exponent=self.concentration1.reciprocal())]
        super().__init__(base, transforms, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """The first moment."""
        return _moment(self.concentration1, self.concentration0, 1)

    @property
    def mode(self) -> Any:
        """((a - 1) / (a b - 1))**(1 / a); NaN where a or b is below 1."""
        a, b = self.concentration1, self.concentration0
        mode = ((a - 1) / (a * b - 1)).pow(a.reciprocal())
        return torch.where((a < 1) | (b < 1), torch.nan, mode)

    @property
    def variance(self) -> Any:
        """The second moment less the square of the first."""
        return _moment(self.concentration1, self.concentration0, 2) - self.mean.pow(2)

    def entropy(self) -> Any:
        """Return ``(1 - 1 / b) + (1 - 1 / a) H_b - log(a b)`` with the harmonic number H_b."""
        a, b = self.concentration1, self.concentration0
        harmonic = torch.digamma(b + 1) + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - torch.log(a) - torch.log(b)
