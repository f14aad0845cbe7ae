"""Cholesky factors of random correlation matrices."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tensocket as torch

from ..errors import ArgumentError
from . import constraints
from .beta import Beta
from .distribution import Distribution
from .utils import broadcast_all, standard_normal


class LKJCholesky(Distribution):
    """Cholesky factors of correlations with density det(matrix)**(concentration - 1).

    Samples are made by the onion method (D. Lewandowski, D. Kurowicka, H. Joe, 2009).

    Args:
        dim: Number of rows.
        concentration: 1 makes all correlation matrices equally probable, more those near the identity.
        validate_args: Whether parameters and values are checked.

    Raises:
        ArgumentError: There are fewer than two rows.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _kept = ("dim",)

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ArgumentError("LKJCholesky", f"dim={dim}", "a correlation matrix has at least two rows", "pass 2")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        self._make_beta()
        super().__init__(self.concentration.size(), (dim, dim), validate_args)

    def _make_beta(self) -> None:
        like = self.concentration
        row = torch.arange(self.dim - 1, dtype=like.dtype, device=like.device)
        offset = torch.cat([row.new_zeros((1,)), row])
        first = (0.5 * offset + 0.5).expand((*like.shape, self.dim))
        self._beta = Beta(first, (like + 0.5 * (self.dim - 2)).unsqueeze(-1) - 0.5 * offset)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the same distributions, repeated to a larger batch shape."""
        new = super().expand(batch_shape, _instance)
        new._make_beta()
        return new

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw rows in random directions with beta-distributed lengths."""
        with torch.no_grad():
            like = self.concentration
            lengths = self._beta.sample(sample_shape).unsqueeze(-1)
            directions = standard_normal(self._extended_shape(sample_shape), like).tril(-1)
            norms = directions.square().sum(-1, keepdim=True).sqrt()
            rows = lengths.sqrt() * torch.where(norms > 0, directions / norms.clamp(min=1e-30), 0.0)
            rest = (1 - rows.square().sum(-1)).clamp(min=torch.finfo(like.dtype).tiny)
            return rows + rest.sqrt().diag_embed()

    def log_prob(self, value: Any) -> Any:
        """Return the log-density of the factor."""
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        rows = torch.arange(2, self.dim + 1, device=value.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - rows
        unnormalised = (order * diagonal.log()).sum(-1)
        count = self.dim - 1
        alpha = self.concentration + 0.5 * count
        norm = (0.5 * count * math.log(math.pi) + torch.mvlgamma(alpha - 0.5, count) - torch.lgamma(alpha) * count)
        return unnormalised - norm
