"""LAPACK's factorisations of one small matrix, with memory and arguments that stay from call to call.

Decompositions that NumPy computes in double precision and rounds are computed so here, too; the others have the
matrix's own precision, as those of large matrices have. Every method returns NotImplemented for matrices that are not
single, small and of real floats. In a recording of launches, copies and routines are launches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensocket_plugins.kit.host_linalg import NotFinite

from .batches import constant
from .small_routines import COLUMNS, LETTERS, SmallRoutines, check, is_small, number, passed
from .workspaces import Workspace

Array = NDArray[Any]


class SmallLapack(SmallRoutines):
    """Factorisations of a single matrix that ``is_small``."""

    def lu(self, matrix: Array) -> Any:
        """Return what ``Lapack.lu`` returns."""
        char, (m, n) = matrix.dtype.char, matrix.shape
        key = "lu", char, m, n

        def make() -> Workspace | None:
            a, pivots, info = np.zeros((n, m), char), np.zeros(min(m, n), np.int64), number()
            return self._workspace((a, pivots, info), (LETTERS[char] + "getrf", m, n, a, m, pivots, info))

        space = self._spaces.take(key, make)
        if space is None:
            return NotImplemented
        a, pivots, info = space.arrays
        self._move(a, matrix.T)
        space.steps[0]()
        made = (self._moved((m, n), char, a.T), self._moved(pivots.shape, np.int32, pivots),
                self._moved((), np.int32, info))
        self._spaces.give_back(key, space)
        return made

    def ldl(self, matrix: Array) -> Any:
        """Return L and D of a symmetric matrix in one triangle, the row exchanges, and the first zero block."""
        char, n = matrix.dtype.char, matrix.shape[0]
        key = "ldl", char, n

        def make() -> Workspace | None:
            a, pivots, info = np.zeros((n, n), char), np.zeros(n, np.int64), number()
            work = np.empty(n * COLUMNS, char)
            call = LETTERS[char] + "sytrf", b"L", n, a, n, pivots, work, work.size, info
            return self._workspace((a, pivots, info), call)

        space = self._spaces.take(key, make)
        if space is None:
            return NotImplemented
        a, pivots, info = space.arrays
        self._move(a, matrix.T)
        space.steps[0]()
        made = (self._moved((n, n), char, a.T, -n, 0), self._moved((n,), np.int32, pivots),
                self._moved((), np.int32, info))
        self._spaces.give_back(key, space)
        return made

    def cholesky(self, matrix: Array) -> Any:
        """Return what ``Lapack.cholesky`` returns."""
        n = matrix.shape[0]
        key = "cholesky", n

        def make() -> Workspace | None:
            a, info = np.zeros((n, n)), number()
            return self._workspace((a, info), ("dpotrf", b"U", n, a, n, info))

        space = self._spaces.take(key, make)
        if space is None:
            return NotImplemented
        a, info = space.arrays
        self._move(a, matrix)
        space.steps[0]()
        made, succeeded = self._moved((n, n), matrix.dtype, a, -n, 0), passed(info)
        self._spaces.give_back(key, space)
        check(succeeded, "Matrix is not positive definite")
        return made

    def cholesky_ex(self, matrix: Array) -> Any:
        """Return the lower triangle, and 0 or the order of the minor that is not positive definite."""
        if not is_small(matrix):
            return NotImplemented
        char, n = matrix.dtype.char, matrix.shape[0]
        key = "cholesky_ex", char, n

        def make() -> Workspace | None:
            a, info = np.zeros((n, n), char), number()
            return self._workspace((a, info), (LETTERS[char] + "potrf", b"L", n, a, n, info))

        space = self._spaces.take(key, make)
        if space is None:
            return NotImplemented
        a, info = space.arrays
        self._move(a, matrix.T)
        space.steps[0]()
        made = self._moved((n, n), char, a.T, -n, 0), self._moved((), np.int32, info)
        self._spaces.give_back(key, space)
        return made

    def qr(self, matrix: Array, mode: str) -> Any:
        """Return what ``Lapack.qr`` returns."""
        m, n = matrix.shape
        k = min(m, n)
        wide = m if mode == "complete" else k
        key = "qr", m, n, wide

        def make() -> Workspace | None:
            a, q, tau, info = np.zeros((n, m)), np.zeros((wide, m)), np.zeros(k), number()
            work = np.empty(max(n, wide) * COLUMNS)
            return self._workspace((a, q), ("dgeqrf", m, n, a, m, tau, work, work.size, info),
                                   ("dorgqr", m, wide, k, q, m, tau, work, work.size, info))

        space = self._spaces.take(key, make)
        if space is None:
            return NotImplemented
        a, q = space.arrays
        self._move(a, matrix.T)
        space.steps[0]()
        self._move(q[:k], a[:k])
        space.steps[1]()
        made = self._moved((m, wide), matrix.dtype, q.T), self._moved((wide, n), matrix.dtype, a.T[:wide], 0)
        self._spaces.give_back(key, space)
        return made

    def geqrf(self, matrix: Array) -> Any:
        """Return R and reflectors in one matrix, stored by columns, and the reflectors' factors."""
        if not is_small(matrix):
            return NotImplemented
        char, (m, n) = matrix.dtype.char, matrix.shape
        key = "geqrf", char, m, n

        def make() -> Workspace | None:
            a, tau = np.zeros((n, m), char), np.zeros(min(m, n), char)
            work = np.empty(n * COLUMNS, char)
            return self._workspace((a, tau), (LETTERS[char] + "geqrf", m, n, a, m, tau, work, work.size, number()))

        space = self._spaces.take(key, make)
        if space is None:
            return NotImplemented
        a, tau = space.arrays
        self._move(a, matrix.T)
        space.steps[0]()
        made = self._moved((n, m), char, a).T, self._moved(tau.shape, char, tau)
        self._spaces.give_back(key, space)
        return made

    def reflected(self, vectors: Array, factors: Array, right: Array, adjoint: bool) -> Any:
        """Return a product of reflectors, or its adjoint, times a matrix."""
        dtype = vectors.dtype
        if not (is_small(vectors) and is_small(right)) or factors.ndim != 1 or not factors.flags.aligned or (
                not dtype == factors.dtype == right.dtype):
            return NotImplemented
        char, k, (m, n) = dtype.char, len(factors), right.shape
        key = "reflected", char, k, m, n, adjoint

        def make() -> Workspace | None:
            a, tau, c = np.zeros((k, m), char), np.zeros(k, char), np.zeros((n, m), char)
            work = np.empty(n * COLUMNS, char)
            call = (LETTERS[char] + "ormqr", b"L", b"T" if adjoint else b"N", m, n, k, a, m, tau, c, m, work, work.size,
                    number())
            return self._workspace((a, tau, c), call)

        space = self._spaces.take(key, make)
        if space is None:
            return NotImplemented
        a, tau, c = space.arrays
        self._move(a, vectors.T[:k])
        self._move(tau, factors)
        self._move(c, right.T)
        space.steps[0]()
        made = self._moved((m, n), char, c.T)
        self._spaces.give_back(key, space)
        return made

    def svd(self, matrix: Array, job: str) -> Any:
        """Return U, singular values and Vh: whole ones (job ``A``), the first columns and rows (``S``), none (``N``).

        Raises:
            numpy.linalg.LinAlgError: The iteration does not converge, or an element is not finite.
        """
        m, n = matrix.shape
        key = "svd", m, n, job

        def make() -> Workspace | None:
            k = min(m, n)
            a, s, wide, high = np.zeros((n, m)), np.zeros(k), m if job == "A" else k, n if job == "A" else k
            u, vh = np.zeros((wide, m) if job != "N" else 0), np.zeros((n, high) if job != "N" else 0)
            integers, info = np.zeros(8 * k, np.int64), number()
            # The arrays are transposed, so that signs are those of the same matrix in a batch.
            call = "dgesdd", job.encode(), m, n, a, m, s, u, m, vh, high
            work = self._requested(lambda work, size: (*call, work, size, integers, info), "d")
            return None if work is None else self._workspace(
                (a, u, s, vh, info, number()), (*call, work, work.size, integers, info))

        space = self._spaces.take(key, make)
        if space is None:
            return NotImplemented
        a, u, s, vh, info, odd = space.arrays
        self._move(a, matrix.T, status=odd)  # with some infinities, the routine never ends
        space.steps[0]()
        dtype = matrix.dtype
        vectors = [x if job == "N" else self._moved(x.shape[::-1], dtype, x.T) for x in (u, vh)]
        values, finite, succeeded = self._moved(s.shape, dtype, s), passed(odd), passed(info)
        self._spaces.give_back(key, space)
        check(finite, NotFinite.MESSAGE, NotFinite)
        check(succeeded, "SVD did not converge")
        return vectors[0], values, vectors[1]

    def pinv(self, matrix: Array, absolute: Any, relative: Any, hermitian: bool) -> Any:
        """Return the pseudoinverse; see the operator's record for the arguments.

        Raises:
            numpy.linalg.LinAlgError: The iteration does not converge, or an element is not finite.
        """
        if not is_small(matrix) or not type(absolute) is type(relative) is float:
            return NotImplemented
        m, n = matrix.shape
        key = "pinv", m, n, hermitian

        def make() -> Workspace | None:
            k, info = min(m, n), number()
            a, s, c, odd = np.zeros((n, m)), np.zeros(k), np.zeros((n, m)), number()
            integers = np.zeros(3 + 8 * max(m, n), np.int64)
            work: Array | None
            u, vh = np.zeros((k, m)), np.zeros((n, k))
            one, none = constant(1, "d"), constant(0, "d")
            if hermitian:
                work = np.empty(1 + 6 * n + 2 * n * n)
                return self._workspace((a, s, c, odd, info, u), (
                    "dsyevd", b"V", b"L", n, a, n, s, work, work.size, integers, integers.size, info), (
                    "dgemm", b"N", b"T", n, n, n, one, u, n, a, n, none, c, n))
            call = "dgesdd", b"S", m, n, a, m, s, u, m, vh, k
            work = self._requested(lambda work, size: (*call, work, size, integers, info), "d")
            return None if work is None else self._workspace((a, s, c, odd, info, u), (
                *call, work, work.size, integers, info), ("dgemm", b"N", b"N", m, n, k, one, u, m, vh, k, none, c, m))

        space = self._spaces.take(key, make)
        if space is None:
            return NotImplemented
        a, s, c, odd, info, u = space.arrays
        self._move(a, matrix.T, status=odd)
        space.steps[0]()
        if hermitian:
            self._move(u, a)
        self._move.divide_rows(u, s, absolute, relative)
        space.steps[1]()
        made, finite, succeeded = self._moved((n, m), matrix.dtype, c), passed(odd), passed(info)
        self._spaces.give_back(key, space)
        check(finite, NotFinite.MESSAGE, NotFinite)
        check(succeeded, "SVD did not converge")
        return made

    def eigh(self, matrix: Array, triangle: str, job: str) -> Any:
        """Return eigenvalues and eigenvectors (job ``V``) or eigenvalues and no vectors (``N``).

        Raises:
            numpy.linalg.LinAlgError: The iteration does not converge.
        """
        n = matrix.shape[0]
        key = "eigh", n, triangle, job

        def make() -> Workspace | None:
            a, values, info = np.zeros((n, n)), np.zeros(n), number()
            # The sizes that LAPACK's documentation states.
            work = np.empty(1 + 6 * n + 2 * n * n if job == "V" else 2 * n + 1)
            integers = np.empty(3 + 5 * n, np.int64)
            return self._workspace((a, values, info), (
                "dsyevd", job.encode(), triangle.encode(), n, a, n, values, work, work.size, integers, integers.size,
                info))

        space = self._spaces.take(key, make)
        if space is None:
            return NotImplemented
        a, values, info = space.arrays
        self._move(a, matrix.T)
        space.steps[0]()
        made = (self._moved((n,), matrix.dtype, values),
                self._moved((n, n), matrix.dtype, a.T) if job == "V" else a[:0, :0])
        succeeded = passed(info)
        self._spaces.give_back(key, space)
        check(succeeded, "Eigenvalues did not converge")
        return made
