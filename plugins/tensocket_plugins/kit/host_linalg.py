"""Products and decompositions of matrices on the host: NumPy's, or those of the library of the host's backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

#: Names of the functions that a backend may bring besides ``matmul``.
DECOMPOSITIONS: Final = ("svd", "svdvals", "eigh", "eigvalsh", "cholesky", "inv", "solve", "qr",
                         "solve_triangular", "lu")
#: Multiplications up to which NumPy's call is the cheapest and uses one thread.
_FEW: Final = 1 << 18
_INSTALLED: Final[dict[str, Callable[..., Any]]] = {}


class NotFinite(np.linalg.LinAlgError):
    """An element of a matrix is infinite or NaN."""


def install(name: str, function: Callable[..., Any]) -> None:
    """Use a function of a backend for one of this module, with its arguments, results and errors.

    Args:
        name: ``matmul``, or one of ``DECOMPOSITIONS``.
        function: The implementation; it returns NotImplemented where NumPy does as well.
    """
    _INSTALLED[name] = function


def _computed(name: str, default: Callable[..., Any], *args: Any) -> Any:
    own = _INSTALLED.get(name)
    result = NotImplemented if own is None else own(*args)
    return default(*args) if result is NotImplemented else result


def matmul(x: Array, y: Array) -> Array:
    """Product of two matrices of one floating-point dtype.

    Raises:
        ValueError: They do not fit.
    """
    own = _INSTALLED.get("matmul")
    product: Array = x.dot(y) if own is None or x.size * y.shape[1] <= _FEW else own(x, y)
    return product


def check_finite(matrix: Array) -> None:
    """Refuse infinities and NaN, with some of which LAPACK's iteration for singular values never ends.

    Raises:
        NotFinite: There is one.
    """
    if not np.isfinite(matrix).all():
        raise NotFinite("an element is not finite")


def svd(matrix: Array, full: bool) -> tuple[Array, Array, Array]:
    """U, singular values and Vh of [..., m, n].

    Raises:
        numpy.linalg.LinAlgError: The iteration does not converge, or an element is not finite.
    """
    check_finite(matrix)
    u, s, vh = _computed("svd", np.linalg.svd, matrix, full)
    return u, s, vh


def svdvals(matrix: Array) -> Array:
    """Singular values of [..., m, n], largest first; errors as for ``svd``."""
    check_finite(matrix)
    values: Array = _computed("svdvals", lambda x: np.linalg.svd(x, compute_uv=False), matrix)
    return values


def eigh(matrix: Array, triangle: str) -> tuple[Array, Array]:
    """Eigenvalues, smallest first, and eigenvectors of Hermitian [..., n, n], of which one triangle is read: L or U.

    Raises:
        numpy.linalg.LinAlgError: The iteration does not converge.
    """
    values, vectors = _computed("eigh", np.linalg.eigh, matrix, triangle)
    return values, vectors


def eigvalsh(matrix: Array, triangle: str) -> Array:
    """Eigenvalues as of ``eigh``."""
    values: Array = _computed("eigvalsh", np.linalg.eigvalsh, matrix, triangle)
    return values


def cholesky(matrix: Array) -> Array:
    """Return the lower L with L @ L^H == A of Hermitian [..., n, n], of which the lower triangle is read.

    Raises:
        numpy.linalg.LinAlgError: A matrix is not positive definite.
    """
    factor: Array = _computed("cholesky", np.linalg.cholesky, matrix)
    return factor


def inv(matrix: Array) -> Array:
    """Inverses of [..., n, n].

    Raises:
        numpy.linalg.LinAlgError: A matrix is singular.
    """
    result: Array = _computed("inv", np.linalg.inv, matrix)
    return result


def solve(matrix: Array, right: Array) -> Array:
    """X with A @ X == B of [..., n, n] and [..., n, k], whose leading dimensions broadcast; errors as for ``inv``."""
    result: Array = _computed("solve", np.linalg.solve, matrix, right)
    return result


def qr(matrix: Array, mode: str) -> tuple[Array, Array]:
    """Orthonormal Q and upper triangular R of [..., m, n]: ``reduced``, or with a square Q ``complete``."""
    q, r = _computed("qr", np.linalg.qr, matrix, mode)
    return q, r


def solve_triangular(matrix: Array, right: Array, upper: bool, unit: bool, default: Callable[..., Any]) -> Array:
    """X with A @ X == B of triangular [..., n, n] and [..., n, k]; a 0 on a diagonal divides.

    Args:
        matrix: A, of which one triangle is read.
        right: B; leading dimensions broadcast.
        upper: Whether this is the upper triangle.
        unit: Whether the diagonal is taken for ones.
        default: The same function of the first four, where no backend brings one: NumPy has none.
    """
    result: Array = _computed("solve_triangular", default, matrix, right, upper, unit)
    return result


def lu(matrix: Array, default: Callable[..., Any]) -> tuple[Array, Array, Array]:
    """L and U of [..., m, n] in one matrix, the row that each was exchanged with (from 1), and U's first zero, or 0.

    Args:
        matrix: The matrix to factorise, with exchanges of rows.
        default: The same function, where no backend brings one: NumPy has none.
    """
    factors, swaps, info = _computed("lu", default, matrix)
    return factors, swaps, info
