# ruff: noqa: N999
"""Student's t-distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .chi2 import Chi2
from .distribution import Distribution
from .utils import batch_shape_of, broadcast_all, standard_normal


class StudentT(Distribution):
    """loc + scale x sqrt(df / z) with x normal and z chi-squared.

    Args:
        df: Degrees of freedom.
        loc: The centre.
        scale: The width.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _parts = ("_chi2",)

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df, validate_args=False)
        super().__init__(batch_shape_of((df, loc, scale), self.df), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """``loc``; NaN for df up to 1."""
        return torch.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Any:
        """``loc``."""
        return self.loc

    @property
    def variance(self) -> Any:
        """scale**2 df / (df - 2); infinite for df up to 2, NaN for df up to 1."""
        finite = self.scale.pow(2) * self.df / (self.df - 2)
        return torch.where(self.df > 2, finite, torch.where(self.df > 1, math.inf, math.nan).to(finite.dtype))

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw by the distribution's definition."""
        drawn = standard_normal(self._extended_shape(sample_shape), self.df)
        return self.loc + self.scale * drawn * torch.rsqrt(self._chi2.rsample(sample_shape) / self.df)

    def log_prob(self, value: Any) -> Any:
        """Return the log-density of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        y = (value - self.loc) / self.scale
        norm = (self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + torch.lgamma(0.5 * self.df)
                - torch.lgamma(0.5 * (self.df + 1.0)))
        return -0.5 * (self.df + 1.0) * torch.log1p(y**2.0 / self.df) - norm

    def entropy(self) -> Any:
        """Return ``log scale + (df + 1) / 2 (psi((df + 1) / 2) - psi(df / 2)) + log(sqrt(df) B(df / 2, 1 / 2))``."""
        beta = torch.lgamma(0.5 * self.df) + math.lgamma(0.5) - torch.lgamma(0.5 * (self.df + 1))
        slope = torch.digamma(0.5 * (self.df + 1)) - torch.digamma(0.5 * self.df)
        return self.scale.log() + 0.5 * (self.df + 1) * slope + 0.5 * self.df.log() + beta
