"""LAPACK's factorisations of batches, as functions of NumPy arrays for the records of host operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.errors import ArgumentError
from tensocket_plugins.kit import host_linalg

from ..optional import require

Array = np.ndarray[Any, Any]
#: Rows up to which a list is permuted faster than an array.
_FEW: Final = 64
#: Shape and dtype of one result for one matrix.
Output = tuple[tuple[int, ...], Any]


def over_batch(run: Callable[..., Any], outputs: Sequence[Output], *arrays: tuple[Array, int]) -> tuple[Array, ...]:
    """Call ``run`` on every element of a batch.

    Args:
        run: Takes one element of every array and returns one array (or number) for each output.
        outputs: Shapes and dtypes for one element. An empty element is skipped: its results are 0.
        arrays: Arrays with the number of their last dimensions that belong to an element; the others broadcast.
    """
    if all(x.ndim == rank and x.size for x, rank in arrays):
        single = [np.empty(shape, dtype) for shape, dtype in outputs]
        for target, value in zip(single, run(*[x for x, _ in arrays]), strict=True):
            target[...] = value
        return tuple(single)
    lead = np.broadcast_shapes(*(x.shape[:x.ndim - rank] for x, rank in arrays))
    count = math.prod(lead)
    flat = [np.broadcast_to(x, (*lead, *x.shape[x.ndim - rank:])).reshape((count, *x.shape[x.ndim - rank:]))
            for x, rank in arrays]
    made = [np.zeros((count, *shape), dtype) for shape, dtype in outputs]
    for k in range(0 if any(0 in x.shape for x in flat) else count):
        for target, value in zip(made, run(*[x[k] for x in flat]), strict=True):
            target[k] = value
    return tuple(x.reshape((*lead, *shape)) for x, (shape, _) in zip(made, outputs, strict=True))


def routines(names: tuple[str, ...], like: Array) -> Any:
    """Return LAPACK's routines for a dtype; the first call imports SciPy."""
    return _routines(names, like.dtype)


@cache
def _routines(names: tuple[str, ...], dtype: np.dtype[Any]) -> Any:
    return require("scipy.linalg", f"LAPACK's {names[0]}").get_lapack_funcs(names, dtype=dtype)


def cholesky(matrix: Array) -> tuple[Array, ...]:
    """Return the lower triangle, and 0 or the order of the leading minor that is not positive definite."""
    return host_linalg.computed("cholesky_ex", _cholesky, matrix)  # type: ignore[no-any-return]


def _cholesky(matrix: Array) -> tuple[Array, ...]:
    (potrf,) = routines(("potrf",), matrix)
    shape = matrix.shape[-2:]
    return over_batch(lambda a: potrf(a, lower=1, clean=1), [(shape, matrix.dtype), ((), np.int32)], (matrix, 2))


def solve_triangular(matrix: Array, right: Array, upper: bool, unit: bool) -> Array:
    """Return the matrix X with A @ X == B for a triangular A; SciPy solves one system at a time."""
    (trsm,) = require("scipy.linalg", "linalg.solve_triangular").get_blas_funcs(("trsm",), dtype=matrix.dtype)
    outputs = [(right.shape[-2:], np.result_type(matrix, right))]
    return over_batch(lambda a, b: (trsm(1, a, b, lower=not upper, diag=unit),), outputs, (matrix, 2), (right, 2))[0]


def _unpivoted(a: Array) -> tuple[Array, int]:
    """Return L and U in one matrix, without row exchanges, stored by columns."""
    a, info = a.copy(), 0
    for k in range(min(a.shape)):
        if a[k, k] == 0:
            info = info or k + 1
            continue
        a[k + 1:, k] /= a[k, k]
        a[k + 1:, k + 1:] -= np.outer(a[k + 1:, k], a[k, k + 1:])
    return a, info


def lu(matrix: Array, pivot: bool) -> tuple[Array, ...]:
    """Return L and U in one matrix, each row's exchange partner (from 1), and the first zero of U's diagonal."""
    rows, columns = matrix.shape[-2:]
    inner = min(rows, columns)
    outputs = [((rows, columns), matrix.dtype), ((inner,), np.int32), ((), np.int32)]

    def unpivoted(a: Array) -> tuple[Any, Any, Any]:
        factors, info = _unpivoted(a)
        return factors, np.arange(1, inner + 1), info

    def pivoted(matrices: Array) -> tuple[Array, ...]:
        (getrf,) = routines(("getrf",), matrices)

        def run(a: Array) -> tuple[Any, Any, Any]:
            factors, swaps, info = getrf(a)
            return factors, swaps + 1, info

        return over_batch(run, outputs, (matrices, 2))

    return host_linalg.lu(matrix, pivoted) if pivot else over_batch(unpivoted, outputs, (matrix, 2))


def _check_swaps(operator: str, swaps: Array, rows: int, *, blocks: bool) -> None:
    """Refuse row exchanges that no factorisation returns: LAPACK would read and write outside its arrays.

    Raises:
        ArgumentError: A number is not a row, or negative numbers (of ``blocks``) are not in pairs.
    """
    sizes = np.abs(swaps) if blocks else swaps
    if not swaps.size:
        return
    paired = not blocks or all(map(_in_pairs, swaps.reshape((-1, swaps.shape[-1])).tolist()))
    if sizes.min() < 1 or sizes.max() > rows or not paired:
        raise ArgumentError(operator, f"pivots {swaps.ravel()[:4].tolist()} ... for {rows} rows",
                            "pivots are exchanges of rows from 1, as the factorisation returns them",
                            "pass its result on")


def _in_pairs(swaps: list[int]) -> bool:
    """Whether negative numbers are in pairs, each for a block of two rows."""
    k = 0
    while k < len(swaps):
        if swaps[k] < 0 and (k + 1 == len(swaps) or swaps[k + 1] != swaps[k]):
            return False
        k += 2 if swaps[k] < 0 else 1
    return True


def permutation(swaps: Array, rows: int) -> Array:
    """Return the original matrix's row numbers in the order of the factors, computed from the row exchanges."""
    others = swaps.tolist() if swaps.ndim == 1 and swaps.size <= _FEW else []
    if others and min(others) > 0 and max(others) <= rows:
        single = list(range(rows))
        for k, other in enumerate(others):
            single[k], single[other - 1] = single[other - 1], single[k]
        return np.array(single, np.int64)
    _check_swaps("lu_unpack", swaps, rows, blocks=False)
    flat = swaps.reshape((math.prod(swaps.shape[:-1]), swaps.shape[-1]))
    order, each = np.tile(np.arange(rows), (flat.shape[0], 1)), np.arange(flat.shape[0])
    for k, partners in enumerate(flat.T - 1):
        order[each, k], order[each, partners] = order[each, partners], order[:, k].copy()
    return order.reshape((*swaps.shape[:-1], rows))


def triangles(factors: Array) -> tuple[Array, Array]:
    """Return L and U of LU's factors in one matrix."""
    return host_linalg.computed("lu_triangles", _triangles, factors)  # type: ignore[no-any-return]


def _triangles(factors: Array) -> tuple[Array, Array]:
    rows, columns = factors.shape[-2:]
    inner = min(rows, columns)
    lower = np.tril(factors[..., :inner], -1) + np.eye(rows, inner, dtype=factors.dtype)
    return lower, np.triu(factors[..., :inner, :])


def exchanged(right: Array, swaps: Array, back: bool) -> Array:
    """Return rows in the order of the factors of LU, P^T @ right, or back in that of the matrix, P @ right."""
    made: Array = host_linalg.computed("lu_exchange", _exchanged, right, swaps, back)
    return made


def _exchanged(right: Array, swaps: Array, back: bool) -> Array:
    order = permutation(swaps, right.shape[-2])
    if back:
        order = np.argsort(order, axis=-1, kind="stable")
    lead = np.broadcast_shapes(order.shape[:-1], right.shape[:-2])
    wide = np.broadcast_to(right, (*lead, *right.shape[-2:]))
    return np.take_along_axis(wide, np.broadcast_to(order, (*lead, order.shape[-1]))[..., None], -2)


def ldl(matrix: Array, hermitian: bool) -> tuple[Array, ...]:
    """Return L and the block-diagonal D in one lower triangle, the row exchanges, and the first zero block."""
    if hermitian and matrix.dtype.kind == "c":
        return _ldl(matrix, "hetrf")
    return host_linalg.ldl(matrix, lambda x: _ldl(x, "sytrf"))


def _ldl(matrix: Array, name: str) -> tuple[Array, ...]:
    (factor,) = routines((name,), matrix)
    size = matrix.shape[-1]

    def run(a: Array) -> tuple[Any, Any, Any]:
        factors, swaps, info = factor(np.tril(a), lower=1)
        return np.tril(factors), swaps, info

    return over_batch(run, [((size, size), matrix.dtype), ((size,), np.int32), ((), np.int32)], (matrix, 2))


def ldl_solve(factors: Array, swaps: Array, right: Array, hermitian: bool) -> Array:
    """Return solutions from the results of ``ldl``."""
    _check_swaps("linalg.ldl_solve", swaps, factors.shape[-1], blocks=True)
    solver = routines(("hetrs" if hermitian and factors.dtype.kind == "c" else "sytrs",), factors)[0]
    return over_batch(lambda a, p, b: solver(a, p, b, lower=1)[:1], [(right.shape[-2:], factors.dtype)],
                      (factors, 2), (swaps, 1), (right, 2))[0]


def inverse(matrix: Array) -> tuple[Array, ...]:
    """Return the inverse (NaN for a singular matrix), and the first zero of U's diagonal."""
    getrf, getri = routines(("getrf", "getri"), matrix)

    def run(a: Array) -> tuple[Any, Any]:
        factors, swaps, info = getrf(a)
        return (np.nan if info else getri(factors, swaps)[0]), info

    return over_batch(run, [(matrix.shape[-2:], matrix.dtype), ((), np.int32)], (matrix, 2))


def solve(matrix: Array, right: Array) -> tuple[Array, ...]:
    """Return the solution (NaN for a singular matrix), and the first zero of U's diagonal, for every matrix."""
    return host_linalg.computed("solve_ex", _solve, matrix, right)  # type: ignore[no-any-return]


def _solve(matrix: Array, right: Array) -> tuple[Array, ...]:
    getrf, getrs = routines(("getrf", "getrs"), matrix)

    def run(a: Array, b: Array) -> tuple[Any, Any]:
        factors, swaps, info = getrf(a)
        return (np.nan if info else getrs(factors, swaps, b)[0]), info

    return over_batch(run, [(right.shape[-2:], matrix.dtype), ((), np.int32)], (matrix, 2), (right, 2))


def qr_by_columns(matrix: Array) -> tuple[Array, Array]:
    """Return the same for one matrix, stored by columns."""
    return host_linalg.computed("geqrf", _qr_by_columns, matrix)  # type: ignore[no-any-return]


def _qr_by_columns(matrix: Array) -> tuple[Array, Array]:
    (geqrf,) = routines(("geqrf",), matrix)
    factors, scales = geqrf(matrix, lwork=_work_of_qr(matrix.dtype, matrix.shape))[:2]
    return factors, scales


@lru_cache(64)
def _work_of_qr(dtype: np.dtype[Any], shape: tuple[int, int]) -> int:
    (length,) = _routines(("geqrf_lwork",), dtype)
    return max(1, int(np.real(length(*shape)[0])))


def qr(matrix: Array) -> tuple[Array, ...]:
    """Return R above the diagonal with reflectors below it, and the reflectors' factors."""
    rows, columns = matrix.shape[-2:]
    return over_batch(qr_by_columns,
                      [((rows, columns), matrix.dtype), ((min(rows, columns),), matrix.dtype)], (matrix, 2))


def reflected(vectors: Array, factors: Array, right: Array, adjoint: bool) -> Array:
    """Return a product of reflectors, or its adjoint, times a matrix."""
    made: Array = host_linalg.computed("reflected", _reflected, vectors, factors, right, adjoint)
    return made


def _reflected(vectors: Array, factors: Array, right: Array, adjoint: bool) -> Array:
    kind = vectors.dtype.kind
    multiply = routines(("unmqr" if kind == "c" else "ormqr",), vectors)[0]
    turn = ("C" if kind == "c" else "T") if adjoint else "N"

    def run(a: Array, tau: Array, c: Array) -> tuple[Any]:
        return (multiply("L", turn, a[:, :tau.shape[0]], tau, c, max(1, 64 * c.shape[1]))[0],)

    if not factors.shape[-1]:
        lead = np.broadcast_shapes(vectors.shape[:-2], right.shape[:-2])
        return np.broadcast_to(right, (*lead, *right.shape[-2:]))
    return over_batch(run, [(right.shape[-2:], vectors.dtype)], (vectors, 2), (factors, 1), (right, 2))[0]


def least_squares(matrix: Array, right: Array, cut: float, driver: str) -> tuple[Array, ...]:
    """Return the solution of least norm, the rank, and singular values if the driver computes them.

    Args:
        matrix: [..., m, n].
        right: [..., m, k].
        cut: Singular values up to ``cut`` times the largest count as 0.
        driver: ``gels``: matrices have full rank. ``gelsy``: orthogonal factorisation. ``gelsd``, ``gelss``: singular
            values.

    Raises:
        numpy.linalg.LinAlgError: For all drivers but ``gelsy``, an element of ``matrix`` is not finite; for ``gels``,
            the triangular factor has a zero on its diagonal; the iteration for singular values does not converge.
    """
    if driver in ("gelsd", "gelss"):  # with infinities, they return arbitrary numbers or nothing
        host_linalg.check_finite(matrix)
    lstsq = require("scipy.linalg", "linalg.lstsq").lstsq
    rows, columns = matrix.shape[-2:]
    kind, inner = matrix.dtype, min(rows, columns)
    real = np.zeros((), kind).real.dtype

    def run(a: Array, b: Array) -> tuple[Any, Any, Any]:
        if driver == "gels":
            return least_squares_of_full_rank(a, b), inner, np.zeros(inner)
        if driver == "gelsy":
            return *minimised(a, b, cut), np.zeros(inner)
        x, _, rank, values = lstsq(a, b, cond=cut, lapack_driver=driver, check_finite=False)
        return x, rank, values

    return over_batch(run, [((columns, right.shape[-1]), kind), ((), np.int64), ((inner,), real)],
                      (matrix, 2), (right, 2))


def minimised(matrix: Array, right: Array, cut: float) -> tuple[Array, Any]:
    """Return the solution of least norm and the rank, by the driver ``gelsy``, for one matrix."""
    return host_linalg.computed("minimised", _minimised, matrix, right, cut)  # type: ignore[no-any-return]


def _minimised(matrix: Array, right: Array, cut: float) -> tuple[Array, Any]:
    lstsq = require("scipy.linalg", "linalg.lstsq").lstsq
    found, _, rank, _ = lstsq(matrix, right, cond=cut, lapack_driver="gelsy", check_finite=False)
    return found, rank


def least_squares_of_full_rank(a: Array, b: Array) -> Array:
    """Return the solution of least norm, by the driver ``gels``, for one matrix; errors as for ``least_squares``."""
    return host_linalg.computed("full_rank", _full_rank, a, b)  # type: ignore[no-any-return]


def _full_rank(a: Array, b: Array) -> Array:
    host_linalg.check_finite(a)
    solution, info = host_linalg.least_squares(a, b, _least_squares_of_full_rank)
    if info:
        raise np.linalg.LinAlgError(f"the least squares solution could not be computed because the input matrix does "
                                    f"not have full rank (error code: {info})")
    return solution


def _least_squares_of_full_rank(a: Array, b: Array) -> tuple[Array, int]:
    gels, length = routines(("gels", "gels_lwork"), a)
    rows, columns = a.shape
    padded = np.zeros((max(rows, columns), b.shape[1]), a.dtype)
    padded[:rows] = b
    room = max(1, int(np.real(length(rows, columns, b.shape[1])[0])))
    _, found, info = gels(a, padded, lwork=room)
    return found[:columns], info
