"""LAPACK's solutions of linear equations for one small matrix; see ``small_lapack``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .batches import constant
from .small_routines import COLUMNS, LETTERS, SmallRoutines, is_refused, is_small, number, passed
from .workspaces import Workspace

Array = NDArray[Any]


def _fit(matrix: Array, right: Array) -> bool:
    """Whether both sides of equations are small and of one dtype."""
    return is_small(matrix) and is_small(right) and right.dtype == matrix.dtype


class SmallSolvers(SmallRoutines):
    """Solutions of equations with a single matrix that ``is_small``."""

    def solve_triangular(self, matrix: Array, right: Array, upper: bool, unit: bool) -> Any:
        """Return what ``Lapack.solve_triangular`` returns."""
        if not _fit(matrix, right):
            return NotImplemented
        char, (n, k) = matrix.dtype.char, right.shape
        turned = matrix.strides[0] == matrix.itemsize != matrix.strides[1]
        key = "triangular", char, n, k, upper, unit, turned

        def make() -> Workspace | None:
            a, b, name = np.zeros((n, n), char), np.zeros((n, k), char), LETTERS[char]
            triangle, diagonal = b"U" if upper == turned else b"L", b"U" if unit else b"N"
            # BLAS reads the row-major equation as X^T A^T = B^T, with A^T on the right.
            return self._workspace((a, b), (
                name + "trsv", triangle, b"N" if turned else b"T", diagonal, n, a, n, b, 1) if k == 1 else (
                name + "trsm", b"R", triangle, b"T" if turned else b"N", diagonal, k, n, constant(1, char), a, n, b, k))

        space = self._spaces.take(key, make)
        if space is None:
            return NotImplemented
        a, b = space.arrays
        self._move(a, matrix.T if turned else matrix)
        self._move(b, right)
        space.steps[0]()
        made = self._moved((n, k), char, b)
        self._spaces.give_back(key, space)
        return made

    def solve(self, matrix: Array, right: Array) -> Any:
        """Return X with A @ X == B, computed in double precision; NotImplemented for a singular matrix."""
        found = self._solved(matrix, right, "d") if _fit(matrix, right) else NotImplemented
        return found if found is NotImplemented else found[0]

    def solve_ex(self, matrix: Array, right: Array) -> Any:
        """Return X with A @ X == B, and 0, in the matrix's precision; NotImplemented for a singular matrix."""
        return self._solved(matrix, right, matrix.dtype.char) if _fit(matrix, right) else NotImplemented

    def inv(self, matrix: Array) -> Any:
        """Return the inverse, computed in double precision; NotImplemented for a singular matrix."""
        if not is_small(matrix):
            return NotImplemented
        found = self._solved(matrix, constant(np.eye(len(matrix)), "d"), "d")
        return found if found is NotImplemented else found[0]

    def _solved(self, matrix: Array, right: Array, char: str) -> Any:
        n, k = right.shape
        key = "solve", char, n, k

        def make() -> Workspace | None:
            a, b, pivots, info = np.zeros((n, n), char), np.zeros((k, n), char), np.zeros(n, np.int64), number()
            return self._workspace((a, b, info), (LETTERS[char] + "gesv", n, k, a, n, pivots, b, n, info))

        space = self._spaces.take(key, make)
        if space is None:
            return NotImplemented
        a, b, info = space.arrays
        self._move(a, matrix.T)
        self._move(b, right.T)
        space.steps[0]()
        made, report = self._moved((n, k), matrix.dtype, b.T), self._moved((), np.int32, info)
        succeeded = passed(info)
        self._spaces.give_back(key, space)
        return (made, report) if not is_refused(succeeded) else NotImplemented

    def lu_unpack(self, factors: Array, swaps: Array) -> Any:
        """Return P, L and U with A == P @ L @ U from the results of ``lu``; NotImplemented for impossible swaps."""
        if not is_small(factors) or swaps.dtype != np.int32 or not swaps.flags.aligned:
            return NotImplemented
        char, (m, n) = factors.dtype.char, factors.shape
        k = min(m, n)
        key = "lu_unpack", char, m, k

        def make() -> Workspace | None:
            p, pivots, odd = np.zeros((m, m), char), np.zeros(k, np.int64), number()
            identity = constant(np.eye(m), char)
            return self._workspace((p, identity, pivots, odd), (LETTERS[char] + "laswp", m, p, m, 1, k, pivots, 1))

        space = self._spaces.take(key, make)
        if space is None:
            return NotImplemented
        p, identity, pivots, odd = space.arrays
        self._move(pivots, swaps, 1, m, status=odd)
        self._move(p, identity)
        space.steps[0]()  # it exchanges rows of the transpose
        made = self._moved((m, m), char, p), *self._triangles(factors)
        valid = passed(odd)
        self._spaces.give_back(key, space)
        return NotImplemented if is_refused(valid) else made

    def lu_triangles(self, factors: Array) -> Any:
        """Return L and U."""
        return self._triangles(factors) if is_small(factors) and self._move.work() else NotImplemented

    def _triangles(self, factors: Array) -> tuple[Array, Array]:
        char, (m, n) = factors.dtype.char, factors.shape
        k = min(m, n)
        return (self._moved((m, k), char, factors[:, :k], -m, -1, unit=True),
                self._moved((k, n), char, factors[:k], 0))

    def lu_exchange(self, right: Array, swaps: Array, back: bool) -> Any:
        """Return P.T @ B, or P @ B, for the row exchanges of ``lu``; NotImplemented for impossible ones."""
        k = len(swaps) if swaps.ndim == 1 else 0
        if not is_small(right) or not 0 < k <= len(right) or swaps.dtype != np.int32 or not swaps.flags.aligned:
            return NotImplemented
        char, (m, n) = right.dtype.char, right.shape
        key = "lu_exchange", char, m, n, k, back

        def make() -> Workspace | None:
            b, pivots, odd = np.zeros((n, m), char), np.zeros(k, np.int64), number()
            call = LETTERS[char] + "laswp", n, b, m, 1, k, pivots, -1 if back else 1
            return self._workspace((b, pivots, odd), call)

        space = self._spaces.take(key, make)
        if space is None:
            return NotImplemented
        b, pivots, odd = space.arrays
        self._move(pivots, swaps, 1, m, status=odd)
        self._move(b, right.T)
        space.steps[0]()
        made, valid = self._moved((m, n), char, b.T), passed(odd)
        self._spaces.give_back(key, space)
        return NotImplemented if is_refused(valid) else made

    def all_finite(self, matrix: Array) -> Any:
        """Return whether no element is infinite or NaN."""
        if not is_small(matrix) or not self._move.work():
            return NotImplemented
        odd = number()
        self._move(np.empty_like(matrix), matrix, status=odd)
        return not is_refused(passed(odd))

    def copied(self, matrix: Array) -> Any:
        """Return a copy."""
        if not is_small(matrix) or not self._move.work():
            return NotImplemented
        return self._moved(matrix.shape, matrix.dtype, matrix)

    def full_rank(self, matrix: Array, right: Array) -> Any:
        """Return the X of least norm for which A @ X is closest to B for A of full rank (``gels``).

        NotImplemented for infinities and NaN, and for a factor with a zero on its diagonal.
        """
        if not _fit(matrix, right):
            return NotImplemented
        char, (m, n), k = matrix.dtype.char, matrix.shape, right.shape[1]
        key = "full_rank", char, m, n, k

        def make() -> Workspace | None:
            long, short, info = max(m, n), min(m, n), number()
            a, b = np.zeros((n, m), char), np.zeros((k, long), char)
            work = np.empty(short + max(short, k) * COLUMNS, char)
            call = LETTERS[char] + "gels", b"N", m, n, k, a, m, b, long, work, work.size, info
            return self._workspace((a, b, constant(np.zeros((k, long - m)), char), info, number()), call)

        space = self._spaces.take(key, make)
        if space is None:
            return NotImplemented
        a, b, missing, info, odd = space.arrays
        self._move(a, matrix.T, status=odd)
        self._move(b[:, :m], right.T)
        if missing.size:
            self._move(b[:, m:], missing)
        space.steps[0]()
        made, valid = self._moved((n, k), char, b[:, :n].T), passed(odd) and passed(info)
        self._spaces.give_back(key, space)
        return NotImplemented if is_refused(valid) else made

    def minimised(self, matrix: Array, right: Array, cut: float) -> Any:
        """Return the X of least norm for which A @ X is closest to B, and the rank, by the driver ``gelsy``."""
        if not _fit(matrix, right):
            return NotImplemented
        char, (m, n), k = matrix.dtype.char, matrix.shape, right.shape[1]
        key = "minimised", char, m, n, k, cut

        def make() -> Workspace | None:
            long, small, rank = max(m, n), min(m, n), number()
            a, b, pivots = np.zeros((n, m), char), np.zeros((k, long), char), np.zeros(n, np.int64)
            zeros = constant(np.zeros((k, long - m)), char), constant(np.zeros(n), np.int64)
            work = np.empty(max(small + 2 * n + COLUMNS * (n + 1), 2 * small + COLUMNS * k), char)
            call = (LETTERS[char] + "gelsy", m, n, k, a, m, b, long, pivots, constant(cut, char), rank, work, work.size,
                    number())
            return self._workspace((a, b, pivots, rank, *zeros), call)

        space = self._spaces.take(key, make)
        if space is None:
            return NotImplemented
        a, b, pivots, rank, missing, free = space.arrays
        self._move(a, matrix.T)
        self._move(b[:, :m], right.T)
        if missing.size:
            self._move(b[:, m:], missing)
        self._move(pivots, free)
        space.steps[0]()
        made = self._moved((n, k), char, b[:, :n].T), self._moved((), np.int64, rank)
        self._spaces.give_back(key, space)
        return made
