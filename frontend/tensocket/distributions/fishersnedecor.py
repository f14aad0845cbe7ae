"""Ratios of chi-squared numbers."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .distribution import Distribution
from .gamma import Gamma
from .utils import batch_shape_of, broadcast_all


class FisherSnedecor(Distribution):
    """(x / df1) / (y / df2) with x and y chi-squared.

    Args:
        df1: Degrees of freedom of x.
        df2: Degrees of freedom of y.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _parts = ("_gamma1", "_gamma2")

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1, validate_args=False)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2, validate_args=False)
        super().__init__(batch_shape_of((df1, df2), self.df1), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """df2 / (df2 - 2); NaN for df2 up to 2."""
        return torch.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Any:
        """(df1 - 2) / df1 df2 / (df2 + 2); NaN for df1 up to 2."""
        return torch.where(self.df1 > 2, (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2), math.nan)

    @property
    def variance(self) -> Any:
        """2 df2**2 (df1 + df2 - 2) / (df1 (df2 - 2)**2 (df2 - 4)); NaN for df2 up to 4."""
        low = self.df2 - 2
        value = 2 * self.df2.pow(2) * (self.df1 + low) / (self.df1 * low.pow(2) * (self.df2 - 4))
        return torch.where(self.df2 > 4, value, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw by the distribution's definition."""
        tiny = torch.finfo(self.df2.dtype).tiny
        first, second = self._gamma1.rsample(sample_shape), self._gamma2.rsample(sample_shape)
        return (first / second.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Any) -> Any:
        """Return the log-density of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        return ((a + b).lgamma() - a.lgamma() - b.lgamma() + a * ratio.log() + (a - 1) * value.log()
                - (a + b) * torch.log1p(ratio * value))
