"""LAPACK's routines for one small matrix, with memory and arguments that stay from call to call.

Decompositions that NumPy computes in double precision and rounds are computed so here, too; the others have the
matrix's own precision, as those of large matrices have. Every method returns NotImplemented for matrices that are not
single, small and of real floats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .batches import Argument, BatchCaller
from .workspaces import Workspace, Workspaces

Array = NDArray[Any]

#: Elements up to which a matrix is small; above, the routine takes longer than its arguments.
_SMALL: Final = 1024
_LETTERS: Final = {"f": "s", "d": "d"}
#: The most columns that LAPACK works on at once.
_COLUMNS: Final = 64


def is_small(matrix: Array) -> bool:
    """Whether this module serves a matrix."""
    return matrix.ndim == 2 and 0 < matrix.size <= _SMALL and matrix.dtype.char in _LETTERS and matrix.dtype.isnative


class SmallLapack:
    """Routines for a single matrix that ``is_small``.

    Args:
        address: Returns the address of a routine by name; 0 if it is missing.
        caller: Prepares the calls.
    """

    def __init__(self, address: Callable[[str], int], caller: BatchCaller) -> None:
        self._address = address
        self._caller = caller
        self._spaces = Workspaces()

    def lu(self, matrix: Array) -> Any:
        """Return what ``Lapack.lu`` returns."""
        char, (m, n) = matrix.dtype.char, matrix.shape
        key = "lu", char, m, n

        def make() -> Workspace | None:
            a, pivots, info = np.zeros((n, m), char), np.zeros(min(m, n), np.int64), np.zeros((), np.int64)
            return self._workspace((a, pivots, info), (_LETTERS[char] + "getrf", m, n, a, m, pivots, info))

        space = self._spaces.take(key, make)
        if space is None:
            return NotImplemented
        a, pivots, info = space.arrays
        a[...] = matrix.T
        space.steps[0]()
        made = a.T.copy(), pivots.astype(np.int32), info.astype(np.int32)
        self._spaces.give_back(key, space)
        return made

    def ldl(self, matrix: Array) -> Any:
        """Return L and D of a symmetric matrix in one triangle, the row exchanges, and the first zero block."""
        char, n = matrix.dtype.char, matrix.shape[0]
        key = "ldl", char, n

        def make() -> Workspace | None:
            a, pivots, info = np.zeros((n, n), char), np.zeros(n, np.int64), np.zeros((), np.int64)
            work = np.empty(n * _COLUMNS, char)
            call = _LETTERS[char] + "sytrf", b"L", n, a, n, pivots, work, work.size, info
            return self._workspace((a, pivots, info, np.tri(n, dtype=bool)), call)

        space = self._spaces.take(key, make)
        if space is None:
            return NotImplemented
        a, pivots, info, below = space.arrays
        a[...] = matrix.T
        space.steps[0]()
        made = np.where(below, a.T, a.dtype.type(0)), pivots.astype(np.int32), info.astype(np.int32)
        self._spaces.give_back(key, space)
        return made

    def solve_triangular(self, matrix: Array, right: Array, upper: bool, unit: bool) -> Any:
        """Return what ``Lapack.solve_triangular`` returns."""
        char, (n, k) = matrix.dtype.char, right.shape
        turned = matrix.strides[0] == matrix.itemsize != matrix.strides[1]
        key = "triangular", char, n, k, upper, unit, turned

        def make() -> Workspace | None:
            a, b, name = np.zeros((n, n), char), np.zeros((n, k), char), _LETTERS[char]
            triangle, diagonal = b"U" if upper == turned else b"L", b"U" if unit else b"N"
            # BLAS reads the row-major equation as X^T A^T = B^T, with A^T on the right.
            return self._workspace((a, b), (
                name + "trsv", triangle, b"N" if turned else b"T", diagonal, n, a, n, b, 1) if k == 1 else (
                name + "trsm", b"R", triangle, b"T" if turned else b"N", diagonal, k, n, np.ones(1, char), a, n, b, k))

        space = self._spaces.take(key, make)
        if space is None:
            return NotImplemented
        a, b = space.arrays
        a[...] = matrix.T if turned else matrix
        b[...] = right
        space.steps[0]()
        made = b.copy()
        self._spaces.give_back(key, space)
        return made

    def cholesky(self, matrix: Array) -> Any:
        """Return what ``Lapack.cholesky`` returns."""
        n = matrix.shape[0]
        key = "cholesky", n

        def make() -> Workspace | None:
            a, info = np.zeros((n, n)), np.zeros((), np.int64)
            return self._workspace((a, info, np.tri(n, dtype=bool)), ("dpotrf", b"U", n, a, n, info))

        space = self._spaces.take(key, make)
        if space is None:
            return NotImplemented
        a, info, below = space.arrays
        a[...] = matrix
        space.steps[0]()
        made, failed = np.where(below, a, 0).astype(matrix.dtype), info.item()
        self._spaces.give_back(key, space)
        _check(failed, "Matrix is not positive definite")
        return made

    def qr(self, matrix: Array, mode: str) -> Any:
        """Return what ``Lapack.qr`` returns."""
        m, n = matrix.shape
        k = min(m, n)
        wide = m if mode == "complete" else k
        key = "qr", m, n, wide

        def make() -> Workspace | None:
            a, q, tau, info = np.zeros((n, m)), np.zeros((wide, m)), np.zeros(k), np.zeros((), np.int64)
            work, above = np.empty(max(n, wide) * _COLUMNS), ~np.tri(wide, n, -1, bool)
            return self._workspace((a, q, above), ("dgeqrf", m, n, a, m, tau, work, work.size, info),
                                   ("dorgqr", m, wide, k, q, m, tau, work, work.size, info))

        space = self._spaces.take(key, make)
        if space is None:
            return NotImplemented
        a, q, above = space.arrays
        a[...] = matrix.T
        space.steps[0]()
        q[:k] = a[:k]
        space.steps[1]()
        made = q.T.astype(matrix.dtype, "C"), np.where(above, a.T[:wide], 0).astype(matrix.dtype, "C")
        self._spaces.give_back(key, space)
        return made

    def svd(self, matrix: Array, job: str) -> Any:
        """Return U, singular values and Vh: whole ones (job ``A``), the first columns and rows (``S``), none (``N``).

        Raises:
            numpy.linalg.LinAlgError: The iteration does not converge.
        """
        m, n = matrix.shape
        key = "svd", m, n, job

        def make() -> Workspace | None:
            k = min(m, n)
            a, s, wide, high = np.zeros((n, m)), np.zeros(k), m if job == "A" else k, n if job == "A" else k
            u, vh = np.zeros((wide, m) if job != "N" else 0), np.zeros((n, high) if job != "N" else 0)
            integers, info = np.zeros(8 * k, np.int64), np.zeros((), np.int64)
            # The arrays are transposed, so that signs are those of the same matrix in a batch.
            call = "dgesdd", job.encode(), m, n, a, m, s, u, m, vh, high
            work = self._requested(lambda work, size: (*call, work, size, integers, info))
            return None if work is None else self._workspace(
                (a, u, s, vh, info), (*call, work, work.size, integers, info))

        space = self._spaces.take(key, make)
        if space is None:
            return NotImplemented
        a, u, s, vh, info = space.arrays
        a[...] = matrix.T
        space.steps[0]()
        dtype = matrix.dtype
        vectors = (u.T.astype(dtype, "C"), vh.T.astype(dtype, "C")) if job != "N" else (u, vh)
        values, failed = s.astype(dtype), info.item()
        self._spaces.give_back(key, space)
        _check(failed, "SVD did not converge")
        return vectors[0], values, vectors[1]

    def _requested(self, call: Callable[[Array, int], tuple[str | Argument, ...]]) -> Array | None:
        """Return the memory that a routine requests if it is called with a size of -1."""
        number = np.zeros(1)
        space = self._workspace((), call(number, -1))
        if space is None:
            return None
        space.steps[0]()
        return np.empty(int(number[0]))

    def _workspace(self, arrays: tuple[Array, ...], *calls: tuple[Any, ...]) -> Workspace | None:
        """Return a workspace with calls, each a routine's name and its arguments; None if one cannot be prepared."""
        steps = []
        for name, *args in calls:
            address = self._address(name)
            step = self._caller.prepare(address, *args) if address else None
            if step is None:
                return None
            steps.append(step)
        return Workspace(arrays, tuple(steps))


def _check(failed: int, message: str) -> None:
    """Raise LinAlgError if a routine failed."""
    if failed:
        raise np.linalg.LinAlgError(message)
