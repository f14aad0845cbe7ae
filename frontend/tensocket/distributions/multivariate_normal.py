"""The normal distribution of vectors."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tensocket as torch

from ..errors import ArgumentError
from . import constraints
from .distribution import Distribution
from .utils import lazy_property, standard_normal


def batch_mahalanobis(factor: Any, x: Any) -> Any:
    """Return ``x^T (L L^T)^-1 x`` for lower triangular L; batches broadcast."""
    solved = torch.linalg.solve_triangular(*_broadcast(factor, x.unsqueeze(-1)), upper=False)
    return solved.squeeze(-1).square().sum(-1)


def _broadcast(matrix: Any, columns: Any) -> tuple[Any, Any]:
    batch = torch.broadcast_shapes(tuple(matrix.shape[:-2]), tuple(columns.shape[:-2]))
    return matrix.expand((*batch, *matrix.shape[-2:])), columns.expand((*batch, *columns.shape[-2:]))


def batch_mv(matrix: Any, vector: Any) -> Any:
    """Multiply matrices by vectors; batches broadcast."""
    return torch.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)


def precision_to_scale_tril(precision: Any) -> Any:
    """Return the Cholesky factor of a matrix's inverse, by that of the matrix with reversed rows and columns."""
    reversed_factor = torch.linalg.cholesky(precision.flip((-2, -1)))
    inverse = reversed_factor.flip((-2, -1)).mT
    identity = torch.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return torch.linalg.solve_triangular(*_broadcast(inverse, identity), upper=False)


def inverse_of(factor: Any) -> Any:
    """Return ``(L L^T)^-1`` for lower triangular L."""
    return torch.cholesky_inverse(factor)


class MultivariateNormal(Distribution):
    """Normal vectors with a covariance, which is given by one of three matrices.

    Args:
        loc: Mean, [..., n].
        covariance_matrix: Positive definite, [..., n, n].
        precision_matrix: Its inverse.
        scale_tril: Its Cholesky factor.
        validate_args: Whether parameters and values are checked.

    Raises:
        ArgumentError: Not exactly one matrix is given, or ``loc`` is a scalar.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky}
    support = constraints.real_vector
    has_rsample = True
    _kept = ("_unbroadcasted_scale_tril",)

    def __init__(self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
                 validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ArgumentError("MultivariateNormal", "a scalar loc", "loc is at least one-dimensional",
                                "pass a vector")
        matrices = {"covariance_matrix": covariance_matrix, "scale_tril": scale_tril,
                    "precision_matrix": precision_matrix}
        given = {name: matrix for name, matrix in matrices.items() if matrix is not None}
        if len(given) != 1:
            raise ArgumentError("MultivariateNormal", f"{len(given)} matrices",
                                "exactly one of the three matrices is given",
                                "pass one of them")
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ArgumentError("MultivariateNormal", f"{name} of {matrix.dim()} dimensions",
                                "the matrix is at least two-dimensional",
                                "pass a matrix")
        batch_shape = torch.broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        setattr(self, name, matrix.expand((*batch_shape, *matrix.shape[-2:])))
        self.loc = loc.expand((*batch_shape, loc.shape[-1]))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        if scale_tril is not None:
            self._unbroadcasted_scale_tril = scale_tril
        elif covariance_matrix is not None:
            self._unbroadcasted_scale_tril = torch.linalg.cholesky(covariance_matrix)
        else:
            self._unbroadcasted_scale_tril = precision_to_scale_tril(precision_matrix)

    def _square(self) -> tuple[Any, ...]:
        return (*self._batch_shape, *self._event_shape, *self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        """Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand(self._square())

    @lazy_property
    def covariance_matrix(self) -> Any:
        """Covariance matrix."""
        factor = self._unbroadcasted_scale_tril
        return torch.matmul(factor, factor.mT).expand(self._square())

    @lazy_property
    def precision_matrix(self) -> Any:
        """Inverse of the covariance."""
        return inverse_of(self._unbroadcasted_scale_tril).expand(self._square())

    @property
    def mean(self) -> Any:
        """``loc``."""
        return self.loc

    @property
    def mode(self) -> Any:
        """``loc``."""
        return self.loc

    @property
    def variance(self) -> Any:
        """The diagonal of the covariance."""
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand((*self._batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw ``loc + L z`` with normal vectors z."""
        drawn = standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + batch_mv(self._unbroadcasted_scale_tril, drawn)

    def _half_log_det(self) -> Any:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Any) -> Any:
        """Return the log-density of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        distance = batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_det()

    def entropy(self) -> Any:
        """Return ``n (1 + log(2 pi)) / 2 + log det L``."""
        constant = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (constant + self._half_log_det()).expand(self._batch_shape)
