"""Products and decompositions of matrices on the host: NumPy's, or those of the library of a host-resident backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..contract.launch_recorder import RECORDERS, forbid_replay

Array = NDArray[Any]

#: Names of the functions, besides ``matmul``, that a backend may install.
DECOMPOSITIONS: Final = ("svd", "svdvals", "eigh", "eigvalsh", "cholesky", "inv", "solve", "qr",
                         "solve_triangular", "lu", "ldl", "least_squares", "cholesky_ex", "solve_ex",
                         "lu_unpack", "lu_exchange", "lu_triangles", "all_finite", "copied", "geqrf", "reflected",
                         "minimised", "full_rank", "pinv")
#: Number of multiplications up to which NumPy's call is the cheapest and uses one thread.
_FEW: Final = 1 << 18
#: Elements up to which NumPy's inner product uses one thread.
_FEW_ELEMENTS: Final = 1024
#: NumPy's loops over matrices by name, if this NumPy has them; and the dtypes that ``numpy.linalg`` computes in.
_LOOPS: Final[Any] = getattr(np.linalg, "_umath_linalg", None)
_WIDE: Final = {"f": np.dtype(np.float64), "F": np.dtype(np.complex128)}
_NARROW: Final = {"d": np.dtype(np.float32), "D": np.dtype(np.complex64)}
_INSTALLED: Final[dict[str, Callable[..., Any]]] = {}


class NotFinite(np.linalg.LinAlgError):
    """A matrix with an element that is infinite or NaN."""

    MESSAGE: Final = "an element is not finite"


def install(name: str, function: Callable[..., Any]) -> None:
    """Replace a function of this module by a backend's, with the same arguments, results and errors.

    Args:
        name: ``matmul``, or one of ``DECOMPOSITIONS``.
        function: The implementation; it returns NotImplemented for cases that NumPy serves as well.
    """
    _INSTALLED[name] = function


def computed(name: str, default: Callable[..., Any], *args: Any) -> Any:
    """Return what a backend's function computes, else ``default(*args)``.

    Recordings of launches have no default, except for arguments without elements.
    """
    own = _INSTALLED.get(name)
    result = NotImplemented if own is None else own(*args)
    if result is not NotImplemented:
        return result
    if RECORDERS and any(type(x) is np.ndarray and x.size for x in args):
        forbid_replay()
    return default(*args)


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
    if RECORDERS and matrix.size:
        forbid_replay()
    if matrix.size <= _FEW_ELEMENTS:
        flat = matrix.ravel("K")
        total = flat.dot(flat)  # finite only if all elements are, and a third of the time of a sum
    else:
        total = np.add.reduce(matrix, None)
    if total - total != 0 and not np.isfinite(matrix).all():
        raise NotFinite(NotFinite.MESSAGE)


def _single(name: str, default: Callable[..., Any], *args: Array) -> Any:
    """Call NumPy's loop over matrices itself for one matrix: two thirds of the time of ``default`` are its checks.

    Both compute in double precision and round the results. A loop fills the results of a failure with NaN; the default
    then decides whether it raises.
    """
    loop = getattr(_LOOPS, name, None)
    matrix = args[0]
    if loop is None or matrix.ndim != 2:
        return default()
    wide = _WIDE.get(matrix.dtype.char)
    made = loop(*args) if wide is None else loop(*[x.astype(wide) for x in args])
    several = type(made) is tuple
    first = made[0] if several else made
    if first.size and (number := first.item(0)) != number:
        return default()
    if wide is None:
        return made
    return tuple([_rounded(x, matrix.dtype) for x in made]) if several else _rounded(made, matrix.dtype)


def _rounded(wide: Array, dtype: np.dtype[Any]) -> Array:
    """Return a result in the matrix's precision; real parts of complex results stay real."""
    return wide.astype(dtype if dtype.kind == wide.dtype.kind else _NARROW[wide.dtype.char])


def svd(matrix: Array, full: bool) -> tuple[Array, Array, Array]:
    """Return U, singular values and Vh of [..., m, n].

    Raises:
        numpy.linalg.LinAlgError: The iteration does not converge, or an element is not finite.
    """
    u, s, vh = computed("svd", _svd, matrix, full)
    return u, s, vh


def _svd(matrix: Array, full: bool) -> Any:
    check_finite(matrix)
    return _single("svd_f" if full else "svd_s", lambda: np.linalg.svd(matrix, full), matrix)


def _svdvals(matrix: Array) -> Any:
    check_finite(matrix)
    return _single("svd", lambda: np.linalg.svd(matrix, compute_uv=False), matrix)


def _eigh(matrix: Array, triangle: Any) -> Any:
    return _single("eigh_up" if triangle == "U" else "eigh_lo", lambda: np.linalg.eigh(matrix, triangle), matrix)


def _eigvalsh(matrix: Array, triangle: Any) -> Any:
    return _single("eigvalsh_up" if triangle == "U" else "eigvalsh_lo", lambda: np.linalg.eigvalsh(matrix, triangle),
                   matrix)


def _solve(matrix: Array, right: Array) -> Any:
    def default() -> Any:
        return np.linalg.solve(matrix, right)

    return default() if right.dtype != matrix.dtype else _single("solve", default, matrix, right)


def _qr(matrix: Array, mode: Any) -> Any:
    """Return the results of ``numpy.linalg.qr``, by its two steps for one matrix that has elements."""
    if _LOOPS is None or matrix.ndim != 2 or not matrix.size:
        return np.linalg.qr(matrix, mode)
    rows, columns = matrix.shape
    wide = matrix.astype(_WIDE.get(matrix.dtype.char, matrix.dtype))
    factors = _LOOPS.qr_r_raw(wide)
    inner = rows if mode == "complete" and rows > columns else min(rows, columns)
    q = (_LOOPS.qr_reduced if inner <= columns else _LOOPS.qr_complete)(wide, factors)
    return q.astype(matrix.dtype), np.triu(wide[:inner]).astype(matrix.dtype)


def svdvals(matrix: Array) -> Array:
    """Return the singular values of [..., m, n], largest first; errors as for ``svd``."""
    values: Array = computed("svdvals", _svdvals, matrix)
    return values


def eigh(matrix: Array, triangle: str) -> tuple[Array, Array]:
    """Return eigenvalues, smallest first, and eigenvectors of Hermitian [..., n, n]; it reads one triangle: L or U.

    Raises:
        numpy.linalg.LinAlgError: The iteration does not converge.
    """
    values, vectors = computed("eigh", _eigh, matrix, triangle)
    return values, vectors


def eigvalsh(matrix: Array, triangle: str) -> Array:
    """Return the same eigenvalues as ``eigh``."""
    values: Array = computed("eigvalsh", _eigvalsh, matrix, triangle)
    return values


def cholesky(matrix: Array) -> Array:
    """Return the lower L with L @ L^H == A of Hermitian [..., n, n]; it reads the lower triangle.

    Raises:
        numpy.linalg.LinAlgError: A matrix is not positive definite.
    """
    factor: Array = computed("cholesky", lambda x: _single("cholesky_lo", lambda: np.linalg.cholesky(x), x), matrix)
    return factor


def inv(matrix: Array) -> Array:
    """Return the inverses of [..., n, n].

    Raises:
        numpy.linalg.LinAlgError: A matrix is singular.
    """
    result: Array = computed("inv", lambda x: _single("inv", lambda: np.linalg.inv(x), x), matrix)
    return result


def solve(matrix: Array, right: Array) -> Array:
    """Return X with A @ X == B of [..., n, n] and [..., n, k]; leading dimensions broadcast; errors as for ``inv``."""
    result: Array = computed("solve", _solve, matrix, right)
    return result


def eig(matrix: Array) -> tuple[Array, Array]:
    """Return the eigenvalues and eigenvectors of [..., n, n], always complex.

    Raises:
        numpy.linalg.LinAlgError: The iteration does not converge, or an element is not finite.
    """
    def default() -> tuple[Array, Array]:
        values, vectors = np.linalg.eig(matrix)
        return _complex(values), _complex(vectors)

    values, vectors = _single("eig", default, matrix)
    return values, vectors


def eigvals(matrix: Array) -> Array:
    """Return the same eigenvalues as ``eig``."""
    values: Array = _single("eigvals", lambda: _complex(np.linalg.eigvals(matrix)), matrix)
    return values


def _complex(values: Array) -> Array:
    return values.astype(np.complex64 if values.dtype.char in "fF" else np.complex128)


def det(matrix: Array) -> Array:
    """Return the determinants of [..., n, n]."""
    return np.asarray(_single("det", lambda: np.linalg.det(matrix), matrix))


def slogdet(matrix: Array) -> tuple[Array, Array]:
    """Return sign and logarithm of the absolute value of the determinants of [..., n, n]."""
    sign, logarithm = _single("slogdet", lambda: np.linalg.slogdet(matrix), matrix)
    return np.asarray(sign), np.asarray(logarithm)


def qr(matrix: Array, mode: str) -> tuple[Array, Array]:
    """Return orthonormal Q and upper triangular R of [..., m, n]: ``reduced``, or ``complete`` with a square Q."""
    q, r = computed("qr", _qr, matrix, mode)
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
    result: Array = computed("solve_triangular", default, matrix, right, upper, unit)
    return result


def lu(matrix: Array, default: Callable[..., Any]) -> tuple[Array, Array, Array]:
    """Return L and U of [..., m, n] in one matrix, the row exchanged with each (from 1), and U's first zero, or 0.

    Args:
        matrix: The matrix to factorise, with row exchanges.
        default: Function of the same arguments for use without a backend's: NumPy has none.
    """
    factors, swaps, info = computed("lu", default, matrix)
    return factors, swaps, info


def ldl(matrix: Array, default: Callable[..., Any]) -> tuple[Array, Array, Array]:
    """Return L and the block-diagonal D of symmetric [..., n, n] in one lower triangle, and as ``lu``, for LDL.

    Args:
        matrix: The matrix, of which only the lower triangle is read.
        default: Function of the same arguments for use without a backend's: NumPy has none.
    """
    factors, swaps, info = computed("ldl", default, matrix)
    return factors, swaps, info


def least_squares(matrix: Array, right: Array, default: Callable[..., Any]) -> tuple[Array, int]:
    """Return the X of least norm for which A @ X is closest to B, and 0, or where the triangular factor has a zero.

    Args:
        matrix: A, [m, n] of full rank.
        right: B, [m, k].
        default: Function of the same arguments for use without a backend's: NumPy has none.
    """
    solution, info = computed("least_squares", default, matrix, right)
    return solution, info
