"""The extension ``linalg``."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import tensocket_operators as core
from tensocket_operators import functions as f

from .manipulation import broadcast_shapes
from .promotion import together
from .statistics import sum as total


def matmul(x1: Any, x2: Any, /) -> Any:
    """Return the matrix product."""
    return core.matmul(*together(x1, x2))


def matrix_transpose(x: Any, /) -> Any:
    """Return the array with the last two axes transposed."""
    return x.mT


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """Return the sum of products over axes of both arrays."""
    left, right = together(x1, x2)
    return core.tensordot(left, right, axes)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return inner products along an axis; the first operand is conjugated."""
    left, right = (x.movedim(axis, -1) for x in together(x1, x2))
    if left.shape[-1] != right.shape[-1]:
        raise core.errors.ShapeError("vecdot", f"shapes {list(x1.shape)} and {list(x2.shape)}, axis {axis}",
                                     "the vectors have equal sizes", "choose another axis")
    return (core.conj(left) * right).sum(-1, dtype=left.dtype)


def cholesky(x: Any, /, *, upper: bool = False) -> Any:
    """Return the lower (or upper) triangular factors of positive definite matrices."""
    return f.linalg_cholesky(x, upper=upper)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the cross product along an axis of size 3."""
    return f.linalg_cross(*together(x1, x2), dim=axis)


def det(x: Any, /) -> Any:
    """Return determinants."""
    return f.linalg_det(x)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """Return the diagonals of matrices."""
    return core.diagonal(x, offset, -2, -1)


def eig(x: Any, /) -> Any:
    """Return eigenvalues and eigenvectors."""
    return f.linalg_eig(x)


def eigh(x: Any, /) -> Any:
    """Return eigenvalues and eigenvectors of Hermitian matrices."""
    return f.linalg_eigh(x)


def eigvals(x: Any, /) -> Any:
    """Return eigenvalues."""
    return f.linalg_eigvals(x)


def eigvalsh(x: Any, /) -> Any:
    """Return eigenvalues of Hermitian matrices."""
    return f.linalg_eigvalsh(x)


def inv(x: Any, /) -> Any:
    """Return inverses."""
    return f.linalg_inv(x)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Return norms of matrices."""
    return f.linalg_matrix_norm(x, ord, (-2, -1), keepdims)


def matrix_power(x: Any, n: int, /) -> Any:
    """Return powers of square matrices."""
    return f.linalg_matrix_power(x, n)


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
    """Return the number of singular values above rtol times the largest."""
    return f.linalg_matrix_rank(x, rtol=rtol)


def outer(x1: Any, x2: Any, /) -> Any:
    """Return the products of all pairs of elements of two vectors."""
    return core.outer(*together(x1, x2))


def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """Return pseudoinverses."""
    return f.linalg_pinv(x, rtol=rtol)


def qr(x: Any, /, *, mode: str = "reduced") -> Any:
    """Return orthonormal Q and upper triangular R."""
    return f.linalg_qr(x, mode)


class SignLogDet(NamedTuple):
    """The result of ``slogdet``."""

    sign: Any
    logabsdet: Any


def slogdet(x: Any, /) -> SignLogDet:
    """Return sign and logarithm of the absolute value of determinants."""
    return SignLogDet(*f.linalg_slogdet(x))


def solve(x1: Any, x2: Any, /) -> Any:
    """Return X with x1 @ X == x2; an x2 with one axis is a vector, otherwise matrices."""
    left, right = together(x1, x2)
    if right.ndim == 1:
        return f.linalg_solve(left, right)
    lead = broadcast_shapes(left.shape[:-2], right.shape[:-2])
    # With the common leading sizes, a batch of matrices is never mistaken for one of vectors.
    return f.linalg_solve(left.expand((*lead, *left.shape[-2:])), right.expand((*lead, *right.shape[-2:])))


def svd(x: Any, /, *, full_matrices: bool = True) -> Any:
    """Return U, S and Vh with x == U @ diag(S) @ Vh."""
    return f.linalg_svd(x, full_matrices)


def svdvals(x: Any, /) -> Any:
    """Return singular values."""
    return f.linalg_svdvals(x)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Return the sums of the diagonals of matrices."""
    return total(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """Return norms of vectors along axes, or of all elements."""
    if axis == ():
        size = core.abs(x)
        return (size != 0).to(size.dtype) if ord == 0 else size
    if x.numel() == 0 and math.isinf(ord) and ord > 0:
        return core.sum(core.abs(x), axis, keepdims)
    return f.linalg_vector_norm(x, ord, axis, keepdims)
