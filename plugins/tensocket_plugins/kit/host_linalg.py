"""Products and decompositions of matrices on the host: NumPy's, or those of the library of a host-resident backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

#: Names of the functions, besides ``matmul``, that a backend may install.
DECOMPOSITIONS: Final = ("svd", "svdvals", "eigh", "eigvalsh", "cholesky", "inv", "solve", "qr",
                         "solve_triangular", "lu")
#: Number of multiplications up to which NumPy's call is the cheapest and uses one thread.
_FEW: Final = 1 << 18
_INSTALLED: Final[dict[str, Callable[..., Any]]] = {}


class NotFinite(np.linalg.LinAlgError):
    """A matrix with an element that is infinite or NaN."""


def install(name: str, function: Callable[..., Any]) -> None:
    """Replace a function of this module by a backend's, with the same arguments, results and errors.

    Args:
        name: ``matmul``, or one of ``DECOMPOSITIONS``.
        function: The implementation; it returns NotImplemented for cases that NumPy serves as well.
    """
    _INSTALLED[name] = function


def _computed(name: str, default: Callable[..., Any], *args: Any) -> Any:
    own = _INSTALLED.get(name)
    result = NotImplemented if own is None else own(*args)
    return default(*args) if result is NotImplemented else result


def matmul(x: Array, y: Array) -> Array:
    """Return the product of two matrices of one floating-point dtype.

    Raises:
        ValueError: Their shapes do not match.
    """
    own = _INSTALLED.get("matmul")
    product: Array = x.dot(y) if own is None or x.size * y.shape[1] <= _FEW else own(x, y)
    return product


def check_finite(matrix: Array) -> None:
    """Raise for infinities and NaN; with some of them, LAPACK's iteration for singular values never ends.

    Raises:
        NotFinite: An element is infinite or NaN.
    """
    if not np.isfinite(matrix).all():
        raise NotFinite("an element is not finite")


def svd(matrix: Array, full: bool) -> tuple[Array, Array, Array]:
    """Return U, singular values and Vh of [..., m, n].

    Raises:
        numpy.linalg.LinAlgError: The iteration does not converge, or an element is not finite.
    """
    check_finite(matrix)
    u, s, vh = _computed("svd", np.linalg.svd, matrix, full)
    return u, s, vh


def svdvals(matrix: Array) -> Array:
    """Return the singular values of [..., m, n], largest first; errors as for ``svd``."""
    check_finite(matrix)
    values: Array = _computed("svdvals", lambda x: np.linalg.svd(x, compute_uv=False), matrix)
    return values


def eigh(matrix: Array, triangle: str) -> tuple[Array, Array]:
    """Return eigenvalues, smallest first, and eigenvectors of Hermitian [..., n, n]; it reads one triangle: L or U.

    Raises:
        numpy.linalg.LinAlgError: The iteration does not converge.
    """
    values, vectors = _computed("eigh", np.linalg.eigh, matrix, triangle)
    return values, vectors


def eigvalsh(matrix: Array, triangle: str) -> Array:
    """Return the same eigenvalues as ``eigh``."""
    values: Array = _computed("eigvalsh", np.linalg.eigvalsh, matrix, triangle)
    return values


def cholesky(matrix: Array) -> Array:
    """Return the lower L with L @ L^H == A of Hermitian [..., n, n]; it reads the lower triangle.

    Raises:
        numpy.linalg.LinAlgError: A matrix is not positive definite.
    """
    factor: Array = _computed("cholesky", np.linalg.cholesky, matrix)
    return factor


def inv(matrix: Array) -> Array:
    """Return the inverses of [..., n, n].

    Raises:
        numpy.linalg.LinAlgError: A matrix is singular.
    """
    result: Array = _computed("inv", np.linalg.inv, matrix)
    return result


def solve(matrix: Array, right: Array) -> Array:
    """Return X with A @ X == B of [..., n, n] and [..., n, k]; leading dimensions broadcast; errors as for ``inv``."""
    result: Array = _computed("solve", np.linalg.solve, matrix, right)
    return result


def qr(matrix: Array, mode: str) -> tuple[Array, Array]:
    """Return orthonormal Q and upper triangular R of [..., m, n]: ``reduced``, or ``complete`` with a square Q."""
    q, r = _computed("qr", np.linalg.qr, matrix, mode)
    return q, r


def solve_triangular(matrix: Array, right: Array, upper: bool, unit: bool, default: Callable[..., Any]) -> Array:
    """Return X with A @ X == B of triangular [..., n, n] and [..., n, k]; a 0 on a diagonal divides.

    Args:
        matrix: A, of which only one triangle is read.
        right: B; leading dimensions broadcast.
        upper: Whether that is the upper triangle.
        unit: Whether to take the diagonal as ones.
        default: Function of the first four arguments for use without a backend's: NumPy has none.
    """
    result: Array = _computed("solve_triangular", default, matrix, right, upper, unit)
    return result


def lu(matrix: Array, default: Callable[..., Any]) -> tuple[Array, Array, Array]:
    """Return L and U of [..., m, n] in one matrix, the row exchanged with each (from 1), and U's first zero, or 0.

    Args:
        matrix: The matrix to factorise, with row exchanges.
        default: Function of the same arguments for use without a backend's: NumPy has none.
    """
    factors, swaps, info = _computed("lu", default, matrix)
    return factors, swaps, info
