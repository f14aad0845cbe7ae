"""The normal distribution of vectors whose covariance is a diagonal plus a low-rank matrix."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tensocket as torch

from ..errors import ArgumentError
from . import constraints
from .distribution import Distribution
from .multivariate_normal import batch_mahalanobis, batch_mv
from .utils import lazy_property, standard_normal


def capacitance_tril(factor: Any, diagonal: Any) -> Any:
    """Return the Cholesky factor of I + W^T D^-1 W."""
    rank = factor.size(-1)
    scaled = factor.mT / diagonal.unsqueeze(-2)
    return torch.linalg.cholesky(torch.matmul(scaled, factor) + torch.eye(rank, dtype=factor.dtype,
                                                                            device=factor.device))


def lowrank_log_det(factor: Any, diagonal: Any, capacitance: Any) -> Any:
    """Return ``log det(W W^T + D)`` by the matrix determinant lemma."""
    return 2 * capacitance.diagonal(dim1=-2, dim2=-1).log().sum(-1) + diagonal.log().sum(-1)


def lowrank_mahalanobis(factor: Any, diagonal: Any, x: Any, capacitance: Any) -> Any:
    """Return ``x^T (W W^T + D)^-1 x`` by the Woodbury identity."""
    scaled = batch_mv(factor.mT / diagonal.unsqueeze(-2), x)
    return (x.pow(2) / diagonal).sum(-1) - batch_mahalanobis(capacitance, scaled)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors with the covariance W W^T + D.

    Args:
        loc: Mean, [..., n].
        cov_factor: W, [..., n, rank].
        cov_diag: The diagonal of D, [..., n].
        validate_args: Whether parameters and values are checked.

    Raises:
        ArgumentError: The shapes do not fit.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1)}
    support = constraints.real_vector
    has_rsample = True
    _kept = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None) -> None:
        shapes = [tuple(x.shape) for x in (loc, cov_factor, cov_diag)]
        if loc.dim() < 1 or cov_factor.dim() < 2 or shapes[1][-2] != shapes[0][-1] or shapes[2][-1:] != shapes[0][-1:]:
            raise ArgumentError("LowRankMultivariateNormal", f"shapes {', '.join(map(str, shapes))}",
                                "loc is [..., n], cov_factor [..., n, rank] and cov_diag [..., n]",
                                "pass fitting shapes")
        batch_shape = torch.broadcast_shapes(shapes[0][:-1], shapes[1][:-2], shapes[2][:-1])
        self.loc = loc.expand((*batch_shape, shapes[0][-1]))
        self.cov_factor = cov_factor.expand((*batch_shape, *shapes[1][-2:]))
        self.cov_diag = cov_diag.expand((*batch_shape, shapes[2][-1]))
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._capacitance_tril = capacitance_tril(cov_factor, cov_diag)

    @property
    def mean(self) -> Any:
        """``loc``."""
        return self.loc

    @property
    def mode(self) -> Any:
        """``loc``."""
        return self.loc

    @lazy_property
    def variance(self) -> Any:
        """Diagonal of the covariance."""
        return (self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag).expand(
            (*self._batch_shape, *self._event_shape))

    @lazy_property
    def covariance_matrix(self) -> Any:
        """W W^T + D."""
        factor = self._unbroadcasted_cov_factor
        matrix = torch.matmul(factor, factor.mT) + torch.diag_embed(self._unbroadcasted_cov_diag)
        return matrix.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    @lazy_property
    def scale_tril(self) -> Any:
        """Cholesky factor of the covariance."""
        return torch.linalg.cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self) -> Any:
        """Inverse of the covariance, by the Woodbury identity."""
        diagonal = self._unbroadcasted_cov_diag
        scaled = self._unbroadcasted_cov_factor.mT / diagonal.unsqueeze(-2)
        solved = torch.cholesky_solve(scaled, self._capacitance_tril)
        matrix = torch.diag_embed(diagonal.reciprocal()) - torch.matmul(scaled.mT, solved)
        return matrix.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw ``loc + W u + sqrt(D) v`` with standard normal vectors u and v."""
        shape = self._extended_shape(sample_shape)
        columns = standard_normal((*shape[:-1], self.cov_factor.size(-1)), self.loc)
        return (self.loc + batch_mv(self._unbroadcasted_cov_factor, columns)
                + self._unbroadcasted_cov_diag.sqrt() * standard_normal(shape, self.loc))

    def _log_det(self) -> Any:
        return lowrank_log_det(self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril)

    def log_prob(self, value: Any) -> Any:
        """Return the log-density of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        distance = lowrank_mahalanobis(self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, value - self.loc,
                                       self._capacitance_tril)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + distance)

    def entropy(self) -> Any:
        """Return ``(n (1 + log(2 pi)) + log det C) / 2`` for the covariance C."""
        constant = self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (0.5 * (constant + self._log_det())).expand(self._batch_shape)
