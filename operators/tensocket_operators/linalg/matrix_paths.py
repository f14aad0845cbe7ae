"""Shortcuts of linear algebra for one real matrix in host memory: the functions that the records run, on arrays.

Each function computes what the composition of the same name computes; it returns NotImplemented for batches, for
arguments that the composition refuses, and for failures that it reports.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.launch_recorder import expect_zero, is_recording, note_constant
from tensocket_plugins.kit import host_linalg

from ..array_paths import REAL
from . import lapack

Array = np.ndarray[Any, Any]
#: Dtypes of real matrices and of the row exchanges beside them.
WITH_PIVOTS: Final = (*REAL, dtypes.int32)


def _of_matrices(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that declines a first operand that is not a matrix."""
    @wraps(run)
    def checked(matrix: Array, *args: Any, **named: Any) -> Any:
        return run(matrix, *args, **named) if matrix.ndim == 2 else NotImplemented

    return checked


def _of_squares(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that declines a first operand that is not a square matrix."""
    @wraps(run)
    def checked(matrix: Array, *args: Any, **named: Any) -> Any:
        shape = matrix.shape
        return run(matrix, *args, **named) if len(shape) == 2 and shape[0] == shape[1] else NotImplemented

    return checked


def _fails(info: Array) -> bool:
    """Whether a factorisation failed; a recording declares that it asked, and goes on."""
    if is_recording():
        expect_zero(info)
        return False
    return bool(info)


@lru_cache(64)
def _identity(rows: int, columns: int, dtype: np.dtype[Any]) -> Array:
    made = np.eye(rows, columns, dtype=dtype)
    made.flags.writeable = False
    return made


@_of_matrices
def svd(matrix: Array, full_matrices: bool = True, *, driver: Any = None) -> Any:
    """Return U, S and Vh."""
    if driver is not None:
        return NotImplemented
    return host_linalg.svd(matrix, full_matrices) if matrix.size else _svd_of_none(matrix, full_matrices)


def _svd_of_none(matrix: Array, full: bool) -> tuple[Array, Array, Array]:
    """Return U, S and Vh of a matrix without elements."""
    rows, columns = matrix.shape
    left, right = (rows, columns) if full else (0, 0)
    kind = matrix.dtype
    return np.eye(rows, left, dtype=kind), np.empty(0, kind), np.eye(right, columns, dtype=kind)


@_of_matrices
def svd_of(matrix: Array, some: bool = True, compute_uv: bool = True) -> Any:
    """Return U, S and V."""
    if not compute_uv:
        return NotImplemented
    u, s, vh = host_linalg.svd(matrix, not some) if matrix.size else _svd_of_none(matrix, not some)
    return u, s, vh.T


@_of_matrices
def svdvals(matrix: Array, *, driver: Any = None) -> Any:
    """Return the singular values."""
    return host_linalg.svdvals(matrix) if driver is None else NotImplemented


@_of_matrices
def cond(matrix: Array, p: Any = None) -> Any:
    """Return the ratio of the extreme singular values."""
    if p not in (None, 2, -2) or not matrix.size:
        return NotImplemented
    values = host_linalg.svdvals(matrix)
    top, low = values[0], values[-1]
    return np.asarray(low / top if p == -2 else top / low)


@_of_matrices
def matrix_rank(matrix: Array, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Any:
    """Return the number of singular values above the tolerances, if these are numbers."""
    absolute = tol if atol is None else atol
    cuts = tolerances(matrix, absolute, rtol)
    if cuts is None or not matrix.size or (hermitian and matrix.shape[0] != matrix.shape[1]):
        return NotImplemented
    values = np.abs(host_linalg.eigvalsh(matrix, "L")) if hermitian else host_linalg.svdvals(matrix)
    kind = values.dtype.type
    cut = np.maximum(kind(cuts[0]), kind(cuts[1]) * values.max())
    return np.asarray(np.count_nonzero(values > cut), np.int64)


def tolerances(matrix: Array, absolute: Any, relative: Any) -> tuple[float, float] | None:
    """Return both tolerances, if they are numbers or None."""
    if not all(x is None or type(x) is float for x in (absolute, relative)):
        return None
    if relative is None:
        relative = 0.0 if absolute is not None else max(matrix.shape) * float(np.finfo(matrix.dtype).eps)
    return absolute or 0.0, relative


@_of_squares
def eigh(matrix: Array, UPLO: str = "L") -> Any:
    """Return eigenvalues and eigenvectors."""
    return host_linalg.eigh(matrix, UPLO) if UPLO in ("L", "U") else NotImplemented


@_of_squares
def eigvalsh(matrix: Array, UPLO: str = "L") -> Any:
    """Return the eigenvalues."""
    return host_linalg.eigvalsh(matrix, UPLO) if UPLO in ("L", "U") else NotImplemented


@_of_squares
def eig(matrix: Array) -> Any:
    """Return complex eigenvalues and eigenvectors."""
    return host_linalg.eig(matrix)


@_of_squares
def eigvals(matrix: Array) -> Any:
    """Return the complex eigenvalues."""
    return host_linalg.eigvals(matrix)


@_of_matrices
def qr(matrix: Array, mode: str = "reduced") -> Any:
    """Return Q and R."""
    return host_linalg.qr(matrix, mode) if mode in ("reduced", "complete") else NotImplemented


@_of_matrices
def qr_of(matrix: Array, some: bool = True) -> Any:
    """Return Q and R."""
    return host_linalg.qr(matrix, "reduced" if some else "complete")


@_of_matrices
def geqrf(matrix: Array) -> Any:
    """Return R and reflectors in one matrix, stored by columns, and their factors."""
    return lapack.qr_by_columns(matrix) if matrix.size else NotImplemented


@_of_squares
def cholesky(matrix: Array, upper: bool = False) -> Any:
    """Return the triangular factor."""
    lower = host_linalg.cholesky(matrix)
    return lower.T if upper else lower


@_of_squares
def cholesky_ex(matrix: Array, *, upper: bool = False, check_errors: bool = False) -> Any:
    """Return the triangular factor, and what failed."""
    lower, info = lapack.cholesky(matrix)
    return NotImplemented if check_errors and _fails(info) else (lower.T if upper else lower, info)


@_of_squares
def inv(matrix: Array) -> Any:
    """Return the inverse."""
    return host_linalg.inv(matrix)


@_of_squares
def inv_ex(matrix: Array, *, check_errors: bool = False) -> Any:
    """Return the inverse, and what failed."""
    result, info = lapack.inverse(matrix)
    return NotImplemented if check_errors and _fails(info) else (result, info)


@_of_squares
def det(matrix: Array) -> Any:
    """Return the determinant."""
    return host_linalg.det(matrix)


@_of_squares
def slogdet(matrix: Array) -> Any:
    """Return the determinant's sign and logarithm."""
    return host_linalg.slogdet(matrix)


@_of_squares
def logdet(matrix: Array) -> Any:
    """Return the determinant's logarithm."""
    sign, logarithm = host_linalg.slogdet(matrix)
    return np.full((), np.nan, matrix.dtype) if sign == -1 else logarithm


def _column(matrix: Array, right: Array) -> Array | None:
    """Return the right-hand side of equations as a matrix; None if it does not fit."""
    if right.dtype != matrix.dtype or right.ndim not in (1, 2):
        return None
    return right[:, None] if right.ndim == 1 else right


@_of_squares
def solve(matrix: Array, right: Array, *, left: bool = True) -> Any:
    """Return X with A @ X == B."""
    columns = _column(matrix, right)
    if columns is None or not left or columns.shape[0] != matrix.shape[0]:
        return NotImplemented
    return host_linalg.solve(matrix, columns).reshape(right.shape)


@_of_squares
def solve_ex(matrix: Array, right: Array, *, left: bool = True, check_errors: bool = False) -> Any:
    """Return X with A @ X == B, and what failed."""
    columns = _column(matrix, right)
    if columns is None or not left or columns.shape[0] != matrix.shape[0]:
        return NotImplemented
    result, info = lapack.solve(matrix, columns)
    return NotImplemented if check_errors and _fails(info) else (result.reshape(right.shape), info)


def _triangular(matrix: Array, right: Array, upper: bool, unit: bool) -> Array:
    return np.ascontiguousarray(host_linalg.solve_triangular(matrix, right, upper, unit, lapack.solve_triangular))


def _fit(matrix: Array, right: Array) -> bool:
    return right.ndim == 2 and right.dtype == matrix.dtype and matrix.shape == 2 * right.shape[:1]


@_of_matrices
def solve_triangular(matrix: Array, right: Array, *, upper: bool, left: bool = True,
                     unitriangular: bool = False) -> Any:
    """Return X with A @ X == B for triangular A."""
    if not left or not _fit(matrix, right):
        return NotImplemented
    return _triangular(matrix, right, upper, unitriangular)


@_of_matrices
def triangular_solve(right: Array, matrix: Array, upper: bool = True, transpose: bool = False,
                     unitriangular: bool = False) -> Any:
    """Return X with A @ X == B for triangular A, and a copy of A."""
    if not _fit(matrix, right) or not matrix.flags.c_contiguous:
        return NotImplemented
    used, side = (matrix.T, not upper) if transpose else (matrix, upper)
    return _triangular(used, right, side, unitriangular), host_linalg.computed("copied", np.copy, matrix)


@_of_matrices
def cholesky_solve(right: Array, factor: Array, upper: bool = False) -> Any:
    """Return X with A @ X == B for A with a Cholesky factor."""
    if not _fit(factor, right):
        return NotImplemented
    first = _triangular(factor.T if upper else factor, right, False, False)
    return _triangular(factor if upper else factor.T, first, True, False)


@_of_squares
def cholesky_inverse(factor: Array, upper: bool = False) -> Any:
    """Return the inverse of the matrix with a Cholesky factor."""
    if not factor.size:
        return np.empty_like(factor)
    identity = _identity(*factor.shape, factor.dtype)
    note_constant(identity)
    made = cholesky_solve(identity, factor, upper)
    # A zero on the diagonal divides; the composition refuses it.
    return made if host_linalg.computed("all_finite", lambda x: bool(np.isfinite(x).all()), made) else NotImplemented


@_of_matrices
def lu_factor(matrix: Array, *, pivot: bool = True) -> Any:
    """Return L and U in one matrix, and the row exchanges."""
    factors, swaps, info = lapack.lu(matrix, pivot)
    return NotImplemented if _fails(info) else (factors, swaps)


@_of_matrices
def lu_factor_ex(matrix: Array, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """Return L and U in one matrix, the row exchanges, and what failed."""
    factors, swaps, info = lapack.lu(matrix, pivot)
    return NotImplemented if check_errors and _fails(info) else (factors, swaps, info)


@_of_matrices
def lu(matrix: Array, pivot: bool = True, get_infos: bool = False) -> Any:
    """Return L and U in one matrix, the row exchanges, and if wanted what failed."""
    found = lapack.lu(matrix, pivot)
    return found if get_infos else found[:2]


@lru_cache(64)
def _triangles(rows: int, columns: int) -> tuple[Array, Array, Array]:
    """Return the places below the diagonal of L, the rows' numbers as a column, and the places of U."""
    inner, places = min(rows, columns), np.arange(rows)[:, None]
    return places > np.arange(inner), places, places[:inner] <= np.arange(columns)


def _unpacked(factors: Array, swaps: Array) -> Any:
    """Return P, L and U."""
    return host_linalg.computed("lu_unpack", _unpacked_by_numpy, factors, swaps)


def _unpacked_by_numpy(factors: Array, swaps: Array) -> tuple[Array, Array, Array]:
    rows, columns = factors.shape
    below, places, upper = _triangles(rows, columns)
    zero = factors.dtype.type(0)
    inner = len(upper)
    lower = np.where(below, factors[:, :inner], zero)
    lower.flat[:inner * inner:inner + 1] = 1
    return ((places == lapack.permutation(swaps, rows)).astype(factors.dtype), lower,
            np.where(upper, factors[:inner], zero))


@_of_matrices
def lu_parts(matrix: Array, *, pivot: bool = True) -> Any:
    """Return P, L and U."""
    return _unpacked(*lapack.lu(matrix, True)[:2]) if pivot else NotImplemented


@_of_matrices
def lu_unpack(factors: Array, swaps: Array, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """Return P, L and U from factors and row exchanges."""
    fits = swaps.dtype == np.int32 and swaps.shape == (min(factors.shape),)
    return _unpacked(factors, swaps) if unpack_data and unpack_pivots and fits else NotImplemented


@_of_squares
def lu_solve(factors: Array, swaps: Array, right: Array, *, left: bool = True, adjoint: bool = False) -> Any:
    """Return X with A @ X == B from factors and row exchanges."""
    if not left or not _fit(factors, right) or swaps.shape != factors.shape[:1] or swaps.dtype != np.int32:
        return NotImplemented
    if adjoint:
        first = _triangular(factors.T, right, False, False)
        return lapack.exchanged(_triangular(factors.T, first, True, True), swaps, True)
    first = _triangular(factors, lapack.exchanged(right, swaps, False), False, True)
    return _triangular(factors, first, True, False)


def lu_solve_of(right: Array, factors: Array, swaps: Array) -> Any:
    """Return ``lu_solve`` with the right-hand side first."""
    return lu_solve(factors, swaps, right)


@_of_squares
def ldl_factor(matrix: Array, *, hermitian: bool = False) -> Any:
    """Return L and D in one triangle, and the row exchanges."""
    factors, swaps, info = lapack.ldl(matrix, hermitian)
    return NotImplemented if _fails(info) else (factors, swaps)


@_of_squares
def ldl_factor_ex(matrix: Array, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """Return L and D in one triangle, the row exchanges, and what failed."""
    factors, swaps, info = lapack.ldl(matrix, hermitian)
    return NotImplemented if check_errors and _fails(info) else (factors, swaps, info)


@_of_matrices
def householder_product(vectors: Array, factors: Array) -> Any:
    """Return the first columns of a product of reflectors."""
    rows, columns = vectors.shape
    if factors.ndim != 1 or factors.dtype != vectors.dtype or not 0 < len(factors) <= columns <= rows:
        return NotImplemented
    identity = _identity(rows, columns, vectors.dtype)
    note_constant(identity)
    return lapack.reflected(vectors, factors, identity, False)


@_of_matrices
def ormqr(vectors: Array, factors: Array, right: Array, left: bool = True, transpose: bool = False) -> Any:
    """Return a product of reflectors times a matrix."""
    rows, columns = vectors.shape
    if not left or factors.ndim != 1 or not 0 < len(factors) <= min(rows, columns) or right.ndim != 2 or (
            len(right) != rows or not right.size or {factors.dtype, right.dtype} != {vectors.dtype}):
        return NotImplemented
    return lapack.reflected(vectors, factors, right, transpose)


@_of_matrices
def lstsq(matrix: Array, right: Array, rcond: Any = None, *, driver: Any = None) -> Any:
    """Return the solution of least norm, no residuals, the rank, and no singular values."""
    rows, columns = matrix.shape
    given = driver or "gelsy"
    fits = right.ndim == 2 and right.dtype == matrix.dtype and len(right) == rows and matrix.size and right.size
    if not fits or not (given == "gelsy" or (given == "gels" and rows <= columns)):
        return NotImplemented
    cut = float(np.finfo(matrix.dtype).eps) * max(rows, columns) if rcond is None else rcond
    if given == "gels":
        found, rank = lapack.least_squares_of_full_rank(matrix, right), np.empty(0, np.int64)
    else:
        found, rank = lapack.minimised(matrix, right, cut)
    return np.ascontiguousarray(found), np.empty(0, matrix.dtype), np.asarray(rank, np.int64), np.empty(0, matrix.dtype)


@_of_squares
def matrix_power(matrix: Array, n: int) -> Any:
    """Return the identity for n = 0."""
    return np.eye(len(matrix), dtype=matrix.dtype) if n == 0 and matrix.flags.c_contiguous else NotImplemented
