"""Matrix decompositions and linear systems by the LAPACK of the backend's own library.

NumPy's LAPACK runs its many small matrix products on threads that wait for each other: it takes 15 to 24 ms on two
threads for the singular values and vectors of a 256 x 256 matrix. The private library has one thread and kernels that
fit the processor: 4.4 ms.

LAPACK reads a row-major array as its transpose, and A^T = conj(V) S U^T: LAPACK's left vectors are our right ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from tensocket_plugins.kit import host_linalg

from .batches import BatchCaller, PerMatrix
from .blas import Library
from .small_lapack import SmallLapack
from .small_routines import is_small
from .small_solvers import SmallSolvers

if TYPE_CHECKING:
    from ..code.compiler import Compiler

Array = NDArray[Any]

_LETTERS: Final = {"f": "s", "d": "d", "F": "c", "D": "z"}
_REAL: Final = {"f": np.float32, "d": np.float64, "F": np.float32, "D": np.float64}
#: The fewest rows and columns of a matrix for this module; NumPy's loop over batches of smaller ones is faster.
_SMALLEST: Final = 24
#: The most rows that are transposed one by one.
_FEW_ROWS: Final = 8
#: Elements from which ``qr`` and ``svd`` take matrices with fewer rows or columns, too: 13105 x 5 takes 0.33 ms, by
#: NumPy 1.6 ms; 200 x 5 takes 49 us, by NumPy 26.
_LONG: Final = 1 << 12
#: The most columns that LAPACK works on at once.
_COLUMNS: Final = 64


class Lapack:
    """LAPACK's routines over batches; the divide-and-conquer ones if they exist.

    A method returns NotImplemented to leave the call to NumPy.

    Args:
        library: A library with 64-bit integers.
        repeats: Calls routines for all matrices of a batch.
    """

    def __init__(self, library: Library, repeats: BatchCaller) -> None:
        self._library = library
        self._repeats = repeats
        self._small = SmallLapack(library.address, repeats)
        solvers = self._solvers = SmallSolvers(library.address, repeats)
        self.pinv = self._small.pinv
        self.cholesky_ex, self.geqrf, self.reflected = self._small.cholesky_ex, self._small.geqrf, self._small.reflected
        self.solve_ex, self.minimised = solvers.solve_ex, solvers.minimised
        self.full_rank = solvers.full_rank
        self.lu_unpack, self.lu_exchange = solvers.lu_unpack, solvers.lu_exchange
        self.lu_triangles = solvers.lu_triangles
        self.all_finite, self.copied = solvers.all_finite, solvers.copied
        #: ``run(count, *arguments)`` by the routine's name; None for routines that the library lacks.
        self._found: dict[str, Callable[..., None] | None] = {}

    def svd(self, matrix: Array, full: bool) -> Any:
        """Return U, singular values and Vh of [..., m, n]; NotImplemented to leave the call to NumPy.

        Raises:
            numpy.linalg.LinAlgError: The iteration does not converge.
        """
        return self._svd(matrix, "A" if full else "S")

    def svdvals(self, matrix: Array) -> Any:
        """Return the singular values; see ``svd``."""
        found = self._svd(matrix, "N")
        return found if found is NotImplemented else found[1]

    def eigh(self, matrix: Array, triangle: str) -> Any:
        """Return eigenvalues and eigenvectors of Hermitian [..., n, n]; NotImplemented to leave the call to NumPy.

        Raises:
            numpy.linalg.LinAlgError: The iteration does not converge.
        """
        return self._eigh(matrix, triangle, "V")

    def eigvalsh(self, matrix: Array, triangle: str) -> Any:
        """Return the eigenvalues; see ``eigh``."""
        found = self._eigh(matrix, triangle, "N")
        return found if found is NotImplemented else found[0]

    def cholesky(self, matrix: Array) -> Any:
        """Return the lower L with L @ L^H == A of Hermitian [..., n, n]; NotImplemented to leave the call to NumPy.

        Raises:
            numpy.linalg.LinAlgError: A matrix is not positive definite.
        """
        if is_small(matrix) and matrix.shape[0] < _SMALLEST:
            return self._small.cholesky(matrix)
        potrf = self._routine("potrf", matrix)
        if potrf is None:
            return NotImplemented
        n, made, count = matrix.shape[-1], np.tril(matrix), math.prod(matrix.shape[:-2])
        info = np.zeros(count, np.int64)
        potrf(count, b"U", n, PerMatrix(made), n, PerMatrix(info))
        _check(info, "Matrix is not positive definite")
        return made

    def inv(self, matrix: Array) -> Any:
        """Return the inverses of [..., n, n]; NotImplemented to leave the call to NumPy.

        Raises:
            numpy.linalg.LinAlgError: A matrix is singular.
        """
        if matrix.shape[-1] < _SMALLEST:
            return self._solvers.inv(matrix)
        getrf, getri = self._routine("getrf", matrix), self._routine("getri", matrix)
        if getrf is None or getri is None:
            return NotImplemented
        n, made, count = matrix.shape[-1], np.array(matrix, order="C", copy=True), math.prod(matrix.shape[:-2])
        pivots, info = np.empty((count, n), np.int64), np.zeros(count, np.int64)
        getrf(count, n, n, PerMatrix(made), n, PerMatrix(pivots), PerMatrix(info))
        _check(info, "Singular matrix")
        work = np.empty(n * _COLUMNS, matrix.dtype)
        getri(count, n, PerMatrix(made), n, PerMatrix(pivots), work, work.size, PerMatrix(info))
        return made

    def solve(self, matrix: Array, right: Array) -> Any:
        """Return X with A @ X == B of [..., n, n] and [..., n, k]; NotImplemented to leave the call to NumPy.

        Raises:
            numpy.linalg.LinAlgError: A matrix is singular.
        """
        if matrix.shape[-1] < _SMALLEST:
            return self._solvers.solve(matrix, right)
        getrf, getrs = self._routine("getrf", matrix), self._routine("getrs", matrix)
        if getrf is None or getrs is None or right.ndim < 2 or right.dtype != matrix.dtype or not right.size:
            return NotImplemented
        lead = np.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
        n, k = right.shape[-2:]
        count = math.prod(lead)
        a = np.array(np.broadcast_to(matrix, (*lead, n, n)), order="C", copy=True)
        # Columns become rows, because LAPACK is column-major.
        made = np.array(np.broadcast_to(right, (*lead, n, k)).swapaxes(-1, -2), order="C", copy=True)
        pivots, info = np.empty((count, n), np.int64), np.zeros(count, np.int64)
        getrf(count, n, n, PerMatrix(a), n, PerMatrix(pivots), PerMatrix(info))
        _check(info, "Singular matrix")
        getrs(count, b"T", n, k, PerMatrix(a), n, PerMatrix(pivots), PerMatrix(made), n, PerMatrix(info))
        return np.ascontiguousarray(made.swapaxes(-1, -2))

    def solve_triangular(self, matrix: Array, right: Array, upper: bool, unit: bool) -> Any:
        """Return X with A @ X == B of triangular [..., n, n] and [..., n, k]; NotImplemented if BLAS has no routine."""
        if (made := self._solvers.solve_triangular(matrix, right, upper, unit)) is not NotImplemented:
            return made
        solve = self._routine("trsv" if right.shape[-1] == 1 else "trsm", matrix, 0)
        if solve is None or right.dtype != matrix.dtype:
            return NotImplemented
        lead = np.broadcast_shapes(matrix.shape[:-2], right.shape[:-2]) if matrix.ndim > 2 or right.ndim > 2 else ()
        n, k = right.shape[-2:]
        wide = np.broadcast_to(right, (*lead, n, k)) if lead else right
        made = np.array(wide, order="C", copy=True)
        if not made.size:
            return made
        turned = matrix.strides[-2] == matrix.itemsize != matrix.strides[-1]
        a = matrix.swapaxes(-1, -2) if turned else matrix
        same = math.prod(a.shape[:-2]) == 1
        a = np.ascontiguousarray(a if same else np.broadcast_to(a, (*lead, n, n)))
        count, factor = math.prod(lead), a if same else PerMatrix(a)
        triangle, diagonal = b"U" if upper == turned else b"L", b"U" if unit else b"N"
        if k == 1:
            solve(count, triangle, b"N" if turned else b"T", diagonal, n, factor, n, PerMatrix(made), 1)
            return made
        # BLAS reads the row-major equation as X^T A^T = B^T, with A^T on the right.
        solve(count, b"R", triangle, b"T" if turned else b"N", diagonal, k, n, np.ones(1, matrix.dtype), factor, n,
              PerMatrix(made), k)
        return made

    def lu(self, matrix: Array) -> Any:
        """Return L and U of [..., m, n] in one matrix, the row exchanges, and the first zero of U's diagonal.

        Rows and positions count from 1; the position 0 means that the diagonal has no zero.
        """
        if is_small(matrix) and (made := self._small.lu(matrix)) is not NotImplemented:
            return made
        getrf = self._routine("getrf", matrix, 1)
        if getrf is None:
            return NotImplemented
        *lead, m, n = matrix.shape
        count = math.prod(lead)
        made = np.array(matrix.swapaxes(-1, -2), order="C", copy=True)
        pivots, info = np.empty((*lead, min(m, n)), np.int64), np.zeros(lead, np.int64)
        getrf(count, m, n, PerMatrix(made), m, PerMatrix(pivots), PerMatrix(info))
        return _transposed(made), pivots.astype(np.int32), info.astype(np.int32)

    def ldl(self, matrix: Array) -> Any:
        """Return L and D of a small symmetric [n, n] in one triangle; see ``SmallLapack.ldl``."""
        return self._small.ldl(matrix) if is_small(matrix) else NotImplemented

    def least_squares(self, matrix: Array, right: Array) -> Any:
        """Return the X for which A @ X is closest to B, for [m, n] of full rank, and 0 or where U has a zero.

        Of several, X has the least norm. NotImplemented for batches, and for other dtypes.
        """
        gels = self._routine("gels", matrix, 1)
        if gels is None or matrix.ndim > 2 or right.dtype != matrix.dtype or not right.size:
            return NotImplemented
        (m, n), k = matrix.shape, right.shape[1]
        if m >= 4 * n and (found := self._least_squares_of_long(matrix, right)) is not NotImplemented:
            return found
        long, short = max(m, n), min(m, n)
        a, made = np.array(matrix.T, order="C", copy=True), np.zeros((k, long), matrix.dtype)
        made[:, :m] = right.T
        work, info = np.empty(short + max(short, k) * _COLUMNS, matrix.dtype), np.zeros(1, np.int64)
        gels(1, b"N", m, n, k, a, m, made, long, work, work.size, info)
        return np.ascontiguousarray(made[:, :n].T), int(info[0])

    def _least_squares_of_long(self, matrix: Array, right: Array) -> Any:
        """Return the same for a real matrix with more rows than columns, without LAPACK's passes to scale all elements.

        NotImplemented if the results overflow.
        """
        geqrf, ormqr, trtrs = (self._routine(name, matrix, 1) for name in ("geqrf", "ormqr", "trtrs"))
        if geqrf is None or ormqr is None or trtrs is None or matrix.dtype.kind != "f":
            return NotImplemented
        (m, n), k = matrix.shape, right.shape[1]
        a, made = np.array(matrix.T, order="C", copy=True), np.array(right.T, order="C", copy=True)
        tau, work, info = np.empty(n, a.dtype), np.empty(max(n, k) * _COLUMNS, a.dtype), np.zeros(1, np.int64)
        geqrf(1, m, n, a, m, tau, work, work.size, info)
        ormqr(1, b"L", b"T", m, k, n, a, m, tau, made, m, work, work.size, info)
        trtrs(1, b"U", b"N", b"N", n, k, a, m, made, m, info)
        solution = np.ascontiguousarray(made[:, :n])
        return (solution.T, int(info[0])) if np.isfinite(solution).all() else NotImplemented

    def qr(self, matrix: Array, mode: str) -> Any:
        """Return Q and R of [..., m, n], ``reduced`` or ``complete``; NotImplemented to leave the call to NumPy.

        For ``r``, Q is None.
        """
        if mode != "r" and is_small(matrix) and min(matrix.shape) < _SMALLEST:
            return self._small.qr(matrix, mode)
        least = _SMALLEST if matrix.shape[-2] * matrix.shape[-1] < _LONG else 1
        geqrf = self._routine("geqrf", matrix, least)
        orgqr = self._routine("ungqr" if matrix.dtype.kind == "c" else "orgqr", matrix, least)
        if geqrf is None or orgqr is None:
            return NotImplemented
        *lead, m, n = matrix.shape
        k, count = min(m, n), math.prod(lead)
        wide = m if mode == "complete" else k
        a = np.array(matrix.swapaxes(-1, -2), order="C", copy=True)
        tau, work = np.empty((count, k), matrix.dtype), np.empty(max(n, wide) * _COLUMNS, matrix.dtype)
        info = np.zeros(count, np.int64)
        geqrf(count, m, n, PerMatrix(a), m, PerMatrix(tau), work, work.size, PerMatrix(info))
        r = np.ascontiguousarray(np.triu(a.swapaxes(-1, -2)[..., :wide, :]))
        if mode == "r":
            return None, r
        if wide == n:
            q = a
        else:
            q = np.zeros((*lead, wide, m), matrix.dtype)
            q[..., :k, :] = a[..., :k, :]
        orgqr(count, m, wide, k, PerMatrix(q), m, PerMatrix(tau), work, work.size, PerMatrix(info))
        return _transposed(q), r

    def _routine(self, name: str, matrix: Array, least: int = _SMALLEST) -> Callable[..., None] | None:
        """Return ``run(count, *arguments)`` for matrices of at least ``least`` rows and columns; None without one."""
        letter = _LETTERS.get(matrix.dtype.char)
        if letter is None or min(matrix.shape[-2:]) < least or not matrix.dtype.isnative:
            return None
        name = letter + name
        if name not in self._found:
            address = self._library.address(name)
            self._found[name] = partial(self._repeats.run, address) if address else None
        return self._found[name]

    def _svd(self, matrix: Array, job: str) -> Any:
        if is_small(matrix) and min(matrix.shape) < _SMALLEST:
            return self._small.svd(matrix, job)
        host_linalg.check_finite(matrix)
        if job != "A" and (found := self._svd_of_long(matrix, job)) is not NotImplemented:
            return found
        gesdd = self._routine("gesdd", matrix)
        if gesdd is None:
            return NotImplemented
        *lead, m, n = matrix.shape
        k, count, dtype, real = min(m, n), math.prod(lead), matrix.dtype, _REAL[matrix.dtype.char]
        s = np.empty((*lead, k), real)
        u = np.empty((*lead, m, m if job == "A" else k) if job != "N" else (*lead, 0, 0), dtype)
        vh = np.empty((*lead, n if job == "A" else k, n) if job != "N" else (*lead, 0, 0), dtype)
        integers, info = np.empty(8 * k, np.int64), np.zeros(count, np.int64)
        rest = (np.empty(max(5 * k * k + 5 * k, 2 * max(m, n) * k + 2 * k * k + k), real),) if dtype.kind == "c" else ()
        wide, a = m if job == "A" else k, np.array(matrix, order="C", copy=True)

        def run(times: int, work: Array, size: int) -> None:
            # A row-major U is the transpose of the right vectors of A^T, and so on.
            gesdd(times, job.encode(), n, m, PerMatrix(a), n, PerMatrix(s), PerMatrix(vh), n, PerMatrix(u), max(1,
                    wide), work, size,
                  *rest, integers, PerMatrix(info))

        requested = np.empty(1, dtype)
        run(min(count, 1), requested, -1)
        if count:
            size = int(requested[0].real)
            run(count, np.empty(size, dtype), size)
        _check(info, "SVD did not converge")
        return u, s, vh

    def _svd_of_long(self, matrix: Array, job: str) -> Any:
        """Return the results of ``_svd`` by those of the triangular factor, for one matrix with many more rows.

        LAPACK does so, too, but also passes twice over all elements to scale them.
        """
        m, n = matrix.shape[-2:]
        real = matrix.dtype.char in "fd"
        if matrix.ndim > 2 or matrix.size < _LONG or m < 4 * n or not n or not (real or n >= _SMALLEST):
            return NotImplemented
        factors = self.qr(matrix, "reduced" if job == "S" else "r")
        if factors is NotImplemented or not np.isfinite(factors[1]).all():  # lengths of columns may overflow
            return NotImplemented
        q, r = factors
        found = self._svd(r, job)
        if found is NotImplemented or job == "N":
            return found
        u, s, vh = found
        return host_linalg.matmul(q, u), s, vh

    def _eigh(self, matrix: Array, triangle: str, job: str) -> Any:
        if is_small(matrix) and matrix.shape[0] < _SMALLEST:
            return self._small.eigh(matrix, triangle.upper(), job)
        hermitian = matrix.dtype.kind == "c"
        routine = self._routine("heevd" if hermitian else "syevd", matrix)
        if routine is None:
            return NotImplemented
        *lead, n, _ = matrix.shape
        count, dtype, real = math.prod(lead), matrix.dtype, _REAL[matrix.dtype.char]
        values, info = np.empty((*lead, n), real), np.zeros(count, np.int64)
        a, letter = np.array(matrix, order="C", copy=True), b"U" if triangle.upper() == "L" else b"L"

        def run(times: int, work: Array, reals: Array, integers: Array, sizes: tuple[int, int, int]) -> None:
            middle = (reals, sizes[1]) if hermitian else ()
            routine(times, job.encode(), letter, n, PerMatrix(a), n, PerMatrix(values), work, sizes[0], *middle,
                    integers,
                    sizes[2], PerMatrix(info))

        work, reals, integers = np.empty(1, dtype), np.empty(1, real), np.empty(1, np.int64)
        run(min(count, 1), work, reals, integers, (-1, -1, -1))
        if count:
            sizes = int(work[0].real), int(reals[0]) if hermitian else 0, int(integers[0])
            run(count, np.empty(sizes[0], dtype), np.empty(sizes[1], real), np.empty(sizes[2], np.int64), sizes)
        _check(info, "Eigenvalues did not converge")
        return values, np.conjugate(a.swapaxes(-1, -2), order="C") if job == "V" else a[..., :0, :0]


def _transposed(x: Array) -> Array:
    """Return contiguous transposes; few long rows one by one, in a third of NumPy's time."""
    if x.ndim > 2 or len(x) > _FEW_ROWS or x.size < _LONG:
        return np.ascontiguousarray(x.swapaxes(-1, -2))
    made = np.empty(x.shape[::-1], x.dtype)
    for k, row in enumerate(x):
        made[:, k] = row
    return made


def _check(info: Array, message: str) -> None:
    """Raise LinAlgError if a routine failed for a matrix."""
    if info.any():
        raise np.linalg.LinAlgError(message)


def install_lapack(find: Callable[[], Library | None], find_compiler: Callable[[], Compiler]) -> None:
    """Install the private library for host operators; the first of them that runs loads it.

    Args:
        find: Returns the best library; one that is not private changes nothing.
        find_compiler: Returns the compiler of the loops over batches.
    """
    made: list[Lapack | None] = []

    def call(name: str) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            if not made:
                library = find()
                private = None if library is None or not library.private else library
                made.append(None if private is None else Lapack(private, BatchCaller(find_compiler)))
            if made[0] is None:
                return NotImplemented
            method = getattr(made[0], name)
            host_linalg.install(name, method)
            return method(*args)

        return run

    for name in host_linalg.DECOMPOSITIONS:
        host_linalg.install(name, call(name))
