"""Random positive definite matrices."""

from __future__ import annotations

import math
from typing import Any

import tensocket as torch

from ..errors import ArgumentError
from . import constraints
from .chi2 import Chi2
from .exp_family import ExponentialFamily
from .multivariate_normal import inverse_of, precision_to_scale_tril
from .utils import lazy_property, standard_normal


def _multidigamma(x: Any, p: int) -> Any:
    """Return the derivative of the logarithm of the multivariate gamma function."""
    return (x.unsqueeze(-1) - torch.arange(p, dtype=x.dtype, device=x.device) / 2).digamma().sum(-1)


class Wishart(ExponentialFamily):
    """Sums of ``df`` outer products of normal vectors, whose covariance is given by one of three matrices.

    Args:
        df: Degrees of freedom, more than p - 1.
        covariance_matrix: Covariance of the vectors, [..., p, p].
        precision_matrix: Its inverse.
        scale_tril: Its Cholesky factor.
        validate_args: Whether parameters and values are checked.

    Raises:
        ArgumentError: Not exactly one matrix is given, or there are too few degrees of freedom.
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _kept = ("_unbroadcasted_scale_tril",)
    _parts = ()

    @property
    def arg_constraints(self) -> Any:
        """Domains of the parameters."""
        return {"covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
                "scale_tril": constraints.lower_cholesky, "df": constraints.greater_than(self._event_shape[-1] - 1)}

    def __init__(self, df: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
                 validate_args: bool | None = None) -> None:
        matrices = {"covariance_matrix": covariance_matrix, "scale_tril": scale_tril,
                    "precision_matrix": precision_matrix}
        given = {name: matrix for name, matrix in matrices.items() if matrix is not None}
        if len(given) != 1:
            raise ArgumentError("Wishart", f"{len(given)} matrices",
                                "exactly one of the three matrices is given",
                                "pass one of them")
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ArgumentError("Wishart", f"{name} of {matrix.dim()} dimensions",
                                "the matrix is at least two-dimensional",
                                "pass a matrix")
        df = torch.as_tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch_shape = torch.broadcast_shapes(tuple(df.shape), tuple(matrix.shape[:-2]))
        self._event_shape = torch.Size(matrix.shape[-2:])
        self.df = df.expand(batch_shape)
        if (df <= self._event_shape[-1] - 1).any():
            raise ArgumentError("Wishart", f"df {df.detach()} for {self._event_shape[-1]} rows",
                                "there are more degrees of freedom than rows less one", "pass a larger df")
        setattr(self, name, matrix.expand((*batch_shape, *matrix.shape[-2:])))
        super().__init__(batch_shape, self._event_shape, validate_args=validate_args)
        if scale_tril is not None:
            self._unbroadcasted_scale_tril = scale_tril
        elif covariance_matrix is not None:
            self._unbroadcasted_scale_tril = torch.linalg.cholesky(covariance_matrix)
        else:
            self._unbroadcasted_scale_tril = precision_to_scale_tril(precision_matrix)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the same distributions, repeated to a larger batch shape."""
        new = self._get_checked_instance(Wishart, _instance)
        new._event_shape = self._event_shape
        return super().expand(batch_shape, new)

    def _matrix_shape(self) -> tuple[Any, ...]:
        return (*self._batch_shape, *self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        """Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand(self._matrix_shape())

    @lazy_property
    def covariance_matrix(self) -> Any:
        """Covariance matrix."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(self._matrix_shape())

    @lazy_property
    def precision_matrix(self) -> Any:
        """Inverse of the covariance."""
        return inverse_of(self._unbroadcasted_scale_tril).expand(self._matrix_shape())

    @property
    def mean(self) -> Any:
        """``df`` times the covariance."""
        return self.df.view((*self._batch_shape, 1, 1)) * self.covariance_matrix

    @property
    def mode(self) -> Any:
        """(df - p - 1) times the covariance; NaN where that is not positive."""
        factor = self.df - self._event_shape[-1] - 1
        return torch.where(factor <= 0, math.nan, factor).view((*self._batch_shape, 1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        """``df (V_ij**2 + V_ii V_jj)``."""
        matrix = self.covariance_matrix
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df.view((*self._batch_shape, 1, 1)) * (matrix.pow(2) + outer)

    def rsample(self, sample_shape: Any = (), max_try_correction: Any = None) -> Any:
        """Draw ``L A A^T L^T`` with Bartlett's A: roots of chi-squared numbers, and normal numbers below the diagonal.

        If rounding makes a product singular, it is drawn again.

        Args:
            sample_shape: Shape of the samples.
            max_try_correction: Largest number of redraws; 10 if not given.
        """
        sample = self._bartlett(sample_shape)
        for _ in range(10 if max_try_correction is None else max_try_correction):
            definite = torch.linalg.cholesky_ex(sample.detach()).info == 0
            if definite.all():
                break
            sample = torch.where(definite[..., None, None], sample, self._bartlett(sample_shape))
        return sample

    def _bartlett(self, sample_shape: Any) -> Any:
        p, shape = self._event_shape[-1], self._extended_shape(sample_shape)
        degrees = self.df.unsqueeze(-1) - torch.arange(p, dtype=self.df.dtype, device=self.df.device)
        diagonal = Chi2(degrees, validate_args=False).rsample(sample_shape)
        roots = diagonal.clamp(min=torch.finfo(diagonal.dtype).eps).sqrt()
        bartlett = standard_normal(shape, self.df).tril(-1) + roots.diag_embed()
        factor = torch.matmul(self._unbroadcasted_scale_tril, bartlett)
        product = factor @ factor.mT
        return (product + product.mT) / 2

    def _half_log_det(self) -> Any:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Any) -> Any:
        """Return the log-density of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        nu, p = self.df, self._event_shape[-1]
        factor = self._unbroadcasted_scale_tril
        batch = torch.broadcast_shapes(tuple(value.shape[:-2]), tuple(factor.shape[:-2]))
        solved = torch.cholesky_solve(value.expand((*batch, p, p)), factor.expand((*batch, p, p)))
        trace = solved.diagonal(dim1=-2, dim2=-1).sum(-1)
        norm = nu * p * math.log(2) / 2 + nu * self._half_log_det() + torch.mvlgamma(nu / 2, p)
        return (nu - p - 1) / 2 * torch.linalg.slogdet(value).logabsdet - trace / 2 - norm

    def entropy(self) -> Any:
        """Return ``-E log p``, where ``E log det = psi_p(df / 2) + p log 2 + log det V``."""
        nu, p = self.df, self._event_shape[-1]
        log_det = 2 * self._half_log_det()
        return ((p + 1) / 2 * (log_det + p * math.log(2)) + torch.mvlgamma(nu / 2, p)
                - (nu - p - 1) / 2 * _multidigamma(nu / 2, p) + nu * p / 2)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        return half * (p * math.log(2) - torch.linalg.slogdet(-2 * x).logabsdet) + torch.mvlgamma(half, p)
