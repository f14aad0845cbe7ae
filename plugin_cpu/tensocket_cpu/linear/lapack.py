"""Decompositions of matrices and systems of equations by the LAPACK of the backend's own library.

NumPy's runs its many small products of matrices on threads that wait for each other: the singular values and vectors of
256 x 256 numbers take it 15 to 24 ms on two threads. Ours has one thread and kernels that fit the processor: 4.4 ms.

Arrays by rows are their transposes to LAPACK, and A^T = conj(V) S U^T: what it calls left vectors, ours are right ones.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensocket_plugins.kit import host_linalg

from ..code.pointers import address_of
from .blas import Library

Array = NDArray[Any]

_LETTERS: Final = {"f": "s", "d": "d", "F": "c", "D": "z"}
_REAL: Final = {"f": np.float32, "d": np.float64, "F": np.float32, "D": np.float64}
#: Rows and columns from which a matrix is ours; NumPy's loop over batches of smaller ones is faster.
_SMALLEST: Final = 24
#: Columns that LAPACK works on at once, at most.
_COLUMNS: Final = 64


class Lapack:
    """LAPACK's divide-and-conquer routines.

    Args:
        library: A library with 64-bit integers.
    """

    def __init__(self, library: Library) -> None:
        self._library = library

    def svd(self, matrix: Array, full: bool) -> Any:
        """U, singular values and Vh of [..., m, n]; NotImplemented where NumPy serves.

        Raises:
            numpy.linalg.LinAlgError: The iteration does not converge.
        """
        return self._svd(matrix, "A" if full else "S")

    def svdvals(self, matrix: Array) -> Any:
        """Singular values; see ``svd``."""
        found = self._svd(matrix, "N")
        return found if found is NotImplemented else found[1]

    def eigh(self, matrix: Array, triangle: str) -> Any:
        """Eigenvalues and eigenvectors of Hermitian [..., n, n]; NotImplemented where NumPy serves.

        Raises:
            numpy.linalg.LinAlgError: The iteration does not converge.
        """
        return self._eigh(matrix, triangle, "V")

    def eigvalsh(self, matrix: Array, triangle: str) -> Any:
        """Eigenvalues; see ``eigh``."""
        found = self._eigh(matrix, triangle, "N")
        return found if found is NotImplemented else found[0]

    def cholesky(self, matrix: Array) -> Any:
        """The lower L with L @ L^H == A of Hermitian [..., n, n]; NotImplemented where NumPy serves.

        Raises:
            numpy.linalg.LinAlgError: A matrix is not positive definite.
        """
        potrf = self._routine("potrf", matrix)
        if potrf is None:
            return NotImplemented
        n, made, info = matrix.shape[-1], np.tril(matrix), ctypes.c_int64()
        for place in np.ndindex(*matrix.shape[:-2]):
            potrf(b"U", n, made[place], n, info)
            if info.value:
                raise np.linalg.LinAlgError("Matrix is not positive definite")
        return made

    def inv(self, matrix: Array) -> Any:
        """Inverses of [..., n, n]; NotImplemented where NumPy serves.

        Raises:
            numpy.linalg.LinAlgError: A matrix is singular.
        """
        getrf, getri = self._routine("getrf", matrix), self._routine("getri", matrix)
        if getrf is None or getri is None:
            return NotImplemented
        n, made, info = matrix.shape[-1], np.array(matrix, order="C", copy=True), ctypes.c_int64()
        pivots, work = np.empty(n, np.int64), np.empty(n * _COLUMNS, matrix.dtype)
        for place in np.ndindex(*matrix.shape[:-2]):
            getrf(n, n, made[place], n, pivots, info)
            if not info.value:
                getri(n, made[place], n, pivots, work, work.size, info)
            if info.value:
                raise np.linalg.LinAlgError("Singular matrix")
        return made

    def solve(self, matrix: Array, right: Array) -> Any:
        """X with A @ X == B of [..., n, n] and [..., n, k]; NotImplemented where NumPy serves.

        Raises:
            numpy.linalg.LinAlgError: A matrix is singular.
        """
        getrf, getrs = self._routine("getrf", matrix), self._routine("getrs", matrix)
        if getrf is None or getrs is None or right.ndim < 2 or right.dtype != matrix.dtype or not right.size:
            return NotImplemented
        lead = np.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
        n, k = right.shape[-2:]
        a = np.array(np.broadcast_to(matrix, (*lead, n, n)), order="C", copy=True)
        # Columns as rows, which is how LAPACK has them.
        made = np.array(np.broadcast_to(right, (*lead, n, k)).swapaxes(-1, -2), order="C", copy=True)
        pivots, info = np.empty(n, np.int64), ctypes.c_int64()
        for place in np.ndindex(*lead):
            getrf(n, n, a[place], n, pivots, info)
            if info.value:
                raise np.linalg.LinAlgError("Singular matrix")
            getrs(b"T", n, k, a[place], n, pivots, made[place], n, info)
        return np.ascontiguousarray(made.swapaxes(-1, -2))

    def qr(self, matrix: Array, mode: str) -> Any:
        """Q and R of [..., m, n], ``reduced`` or ``complete``; NotImplemented where NumPy serves."""
        geqrf = self._routine("geqrf", matrix)
        orgqr = self._routine("ungqr" if matrix.dtype.kind == "c" else "orgqr", matrix)
        if geqrf is None or orgqr is None:
            return NotImplemented
        *lead, m, n = matrix.shape
        k = min(m, n)
        wide = m if mode == "complete" else k
        a = np.array(matrix.swapaxes(-1, -2), order="C", copy=True)
        q = np.zeros((*lead, wide, m), matrix.dtype)
        tau, work = np.empty(k, matrix.dtype), np.empty(max(n, wide) * _COLUMNS, matrix.dtype)
        info = ctypes.c_int64()
        for place in np.ndindex(*lead):
            geqrf(m, n, a[place], m, tau, work, work.size, info)
            q[place][:k] = a[place][:k]
            orgqr(m, wide, k, q[place], m, tau, work, work.size, info)
        r = np.triu(a.swapaxes(-1, -2)[..., :wide, :])
        return np.ascontiguousarray(q.swapaxes(-1, -2)), np.ascontiguousarray(r)

    def _routine(self, name: str, matrix: Array) -> Callable[..., None] | None:
        letter = _LETTERS.get(matrix.dtype.char)
        if letter is None or min(matrix.shape[-2:]) < _SMALLEST or not matrix.dtype.isnative:
            return None
        address = self._library.address(letter + name)
        if not address:
            return None
        call = ctypes.CFUNCTYPE(None)(address)
        call.library = self._library.handle  # type: ignore[attr-defined]

        def run(*args: Any) -> None:
            lengths = [ctypes.c_size_t(1) for arg in args if isinstance(arg, bytes)]
            call(*[_passed(arg) for arg in args], *lengths)

        return run

    def _svd(self, matrix: Array, job: str) -> Any:
        gesdd = self._routine("gesdd", matrix)
        if gesdd is None:
            return NotImplemented
        *lead, m, n = matrix.shape
        k, dtype, real = min(m, n), matrix.dtype, _REAL[matrix.dtype.char]
        s = np.empty((*lead, k), real)
        u = np.empty((*lead, m, m if job == "A" else k) if job != "N" else (*lead, 0, 0), dtype)
        vh = np.empty((*lead, n if job == "A" else k, n) if job != "N" else (*lead, 0, 0), dtype)
        integers = np.empty(8 * k, np.int64)
        rest = (np.empty(max(5 * k * k + 5 * k, 2 * max(m, n) * k + 2 * k * k + k), real),) if dtype.kind == "c" else ()
        wide = m if job == "A" else k
        work, size, info = np.empty(1, dtype), -1, ctypes.c_int64()
        for place in np.ndindex(*lead):
            a = np.array(matrix[place], order="C", copy=True)
            while True:
                # U by rows is the transpose of the right vectors of the transpose, and so on.
                gesdd(job.encode(), n, m, a, n, s[place], vh[place], n, u[place], max(1, wide), work, size, *rest,
                      integers, info)
                if size != -1 or info.value:
                    break
                size = int(work[0].real)
                work = np.empty(size, dtype)
            if info.value:
                raise np.linalg.LinAlgError("SVD did not converge")
        return u, s, vh

    def _eigh(self, matrix: Array, triangle: str, job: str) -> Any:
        hermitian = matrix.dtype.kind == "c"
        routine = self._routine("heevd" if hermitian else "syevd", matrix)
        if routine is None:
            return NotImplemented
        *lead, n, _ = matrix.shape
        real = _REAL[matrix.dtype.char]
        values = np.empty((*lead, n), real)
        vectors = np.empty(matrix.shape if job == "V" else (*lead, 0, 0), matrix.dtype)
        work, reals, integers = np.empty(1, matrix.dtype), np.empty(1, real), np.empty(1, np.int64)
        sizes, info = [-1, -1, -1], ctypes.c_int64()
        for place in np.ndindex(*lead):
            a = np.array(matrix[place], order="C", copy=True)
            while True:
                middle = (reals, sizes[1]) if hermitian else ()
                routine(job.encode(), b"U" if triangle.upper() == "L" else b"L", n, a, n, values[place], work, sizes[0],
                        *middle, integers, sizes[2], info)
                if sizes[0] != -1 or info.value:
                    break
                sizes = [int(work[0].real), int(reals[0]) if hermitian else 0, int(integers[0])]
                work, reals = np.empty(sizes[0], matrix.dtype), np.empty(sizes[1], real)
                integers = np.empty(sizes[2], np.int64)
            if info.value:
                raise np.linalg.LinAlgError("Eigenvalues did not converge")
            if job == "V":
                np.conjugate(a.T, vectors[place])
        return values, vectors


def _passed(arg: Any) -> Any:
    """An argument as Fortran takes it: by address."""
    if isinstance(arg, np.ndarray):
        return ctypes.c_void_p(address_of(arg))
    if isinstance(arg, int):
        return ctypes.byref(ctypes.c_int64(arg))
    return ctypes.c_char_p(arg) if isinstance(arg, bytes) else ctypes.byref(arg)


def install_lapack(find: Callable[[], Library | None]) -> None:
    """Let host operators use the private library, which is loaded when the first of them runs.

    Args:
        find: The best library; one that is not private changes nothing.
    """
    made: list[Lapack | None] = []

    def call(name: str) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            if not made:
                library = find()
                made.append(Lapack(library) if library is not None and library.private else None)
            return NotImplemented if made[0] is None else getattr(made[0], name)(*args)

        return run

    for name in host_linalg.DECOMPOSITIONS:
        host_linalg.install(name, call(name))
