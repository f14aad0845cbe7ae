"""Solutions of linear equations: from factors, by least squares, and with tensors as matrices."""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.autograd.conjugate import wirtinger
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative, no_derivative
from tensocket_core.dispatch.results import named_result
from tensocket_core.geometry import broadcast_shapes
from tensocket_core.limits import finfo
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, LinAlgError, ShapeError

from ..array_paths import array_path
from ..indexing.selection import positions
from ..kinds.composite import composite
from ..kinds.host_library import HostOperator
from ..reductions.value_checks import any_true
from ..unrolled.checks import run_check
from . import lapack
from . import matrix_paths as paths
from .decompositions import LINALG, MATRIX, adjoint, check_matrix, guarded
from .factorizations import check_info, lu_exchange, lu_triangles, triangular
from .inverses import _solution_gradients, pinv

#: Results with PyTorch's names.
InverseResult: Final = named_result("linalg_inv_ex", ("inverse", "info"))
SolveResult: Final = named_result("linalg_solve_ex", ("result", "info"))
LstsqResult: Final = named_result(
    "linalg_lstsq", ("solution", "residuals", "rank", "singular_values"))
TriangularResult: Final = named_result("triangular_solve", ("solution", "cloned_coefficient"))
_DRIVERS: Final = ("gels", "gelsy", "gelsd", "gelss")


def _batch(matrix: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    return broadcast_shapes("linalg.solve", [matrix[:-2], right[:-2]])


# --------------------------------------------------------------------------------------- with a report of failures

inverse_ex: Final[HostOperator] = HostOperator(
    "inv_ex(Tensor A) -> (Tensor, Tensor)", "Inverses, and what failed.", lapack.inverse, label="linalg.inv_ex",
    shape=lambda x: [x, x[:-2]], result=("same", "int32"), derivative=wirtinger(Derivative(
        A=lambda grads, result0: -(adjoint(result0) @ grads[0] @ adjoint(result0)))), **MATRIX)
solve_with_info: Final[HostOperator] = HostOperator(
    "solve_ex(Tensor A, Tensor B) -> (Tensor, Tensor)", "Solutions, and what failed.", lapack.solve,
    label="linalg.solve_ex", shape=lambda a, b: [(*_batch(a, b), *b[-2:]), _batch(a, b)], result=("same", "int32"),
    derivative=wirtinger(Derivative(
        lambda grads, A, result0, wanted: _solution_gradients(
            call(solve_with_info, adjoint(A), grads[0])[0], result0, wanted))), **MATRIX)


@composite("linalg_inv_ex(Tensor A, *, bool check_errors=False) -> any",
           host_path=array_path(paths.inv_ex, InverseResult, label="linalg.inv_ex"), **LINALG)
def inv_ex(A: Any, *, check_errors: bool = False) -> Any:
    """Return ``linalg.inv`` without raising: info is 0, or the first zero on U's diagonal, with an inverse of NaN.

    Raises:
        LinAlgError: With ``check_errors``, a matrix is singular.
    """
    check_matrix("inv_ex", A, square=True)
    result, info = call(inverse_ex, A)
    if check_errors:
        run_check(check_info, "linalg.inv_ex", info, "U has a zero on its diagonal")
    return InverseResult(result, info)


@composite("linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> any",
           host_path=array_path(paths.solve_ex, SolveResult, label="linalg.solve_ex"), replayable=True, **LINALG)
def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    """Return ``linalg.solve`` without raising: info is 0, or the first zero on U's diagonal, with a solution of NaN.

    Raises:
        LinAlgError: With ``check_errors``, a matrix is singular.
        ShapeError: The shapes do not fit each other.
    """
    check_matrix("solve_ex", A, square=True)
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
    right = B.unsqueeze(-1) if vector else B if left else B.mT
    if right.ndim < 2 or right.shape[-2] != A.shape[-1]:
        raise ShapeError("linalg.solve_ex", f"shapes {list(A.shape)} and {list(B.shape)}",
                         "B has as many rows as A", "transpose B, or pass left=False")
    result, info = call(solve_with_info, A if left else A.mT, right)
    if check_errors:
        run_check(check_info, "linalg.solve_ex", info, "U has a zero on its diagonal")
    result = result.squeeze(-1) if vector else result if left else result.mT
    return SolveResult(result, info)


# ----------------------------------------------------------------------------------------------------- from factors


def _factor_gradient(core: Any, factor: Any, upper: bool) -> Any:
    """Return the gradient of the factor, as if it were not triangular, from that of the matrix."""
    both = core + adjoint(core)
    return -(factor @ both) if upper else -(both @ factor)


@composite("cholesky_solve(Tensor input, Tensor input2, bool upper=False) -> Tensor", derivative=wirtinger(Derivative(
    input=lambda grad, input2, upper: functions.cholesky_solve(grad, input2, upper),
    input2=lambda grad, input2, upper, result: _factor_gradient(
        functions.cholesky_solve(grad, input2, upper) @ adjoint(result), input2, upper))),
           host_path=array_path(paths.cholesky_solve, label="cholesky_solve"), replayable=True)
def cholesky_solve(input: Any, input2: Any, upper: bool = False) -> Any:
    """Return X with A @ X == input for A with the Cholesky factor input2."""
    check_matrix("cholesky_solve", input2, square=True)
    check_matrix("cholesky_solve", input)
    first = triangular(adjoint(input2) if upper else input2, input, upper=False)
    return triangular(input2 if upper else adjoint(input2), first, upper=True)


@composite("cholesky_inverse(Tensor input, bool upper=False) -> Tensor", derivative=wirtinger(Derivative(
    input=lambda grad, input, upper, result: _factor_gradient(result @ grad @ result, input, upper))),
           host_path=array_path(paths.cholesky_inverse, label="cholesky_inverse"), replayable=True)
def cholesky_inverse(input: Any, upper: bool = False) -> Any:
    """Return the inverses of the matrices with Cholesky factors ``input``."""
    check_matrix("cholesky_inverse", input, square=True)
    diagonal = input.detach().diagonal(0, -2, -1)
    if diagonal._device_state.holds_data and any_true(diagonal == 0):
        raise LinAlgError("cholesky_inverse", "a factor with a zero on its diagonal", "such a matrix has no inverse",
                          "pass the result of cholesky")
    places = positions(input, input.shape[-1])
    ones = (places.unsqueeze(1) == places).to(input.dtype).expand(tuple(input.shape))
    return cholesky_solve(ones, input, upper)


def _lu_solve_gradients(grad: Any, factors: Any, swaps: Any, result: Any, left: bool, turned: bool,
                        wanted: tuple[bool, ...]) -> tuple[Any, ...]:
    """Return the gradients of the factors, of nothing, and of the right-hand side, for A == P @ L @ U."""
    back = lu_solve(factors, swaps, grad, left=left, adjoint=not turned)
    if not wanted[0]:
        return None, None, back
    # The gradient of A is -(first @ adjoint(second)).
    first, second = (back, result) if left else (adjoint(result), adjoint(back))
    first, second = (second, first) if turned else (first, second)
    rows = call(lu_exchange, first, swaps, False)
    lower, upper = call(lu_triangles, factors)
    total = (rows @ adjoint(upper @ second)).tril(-1) + ((adjoint(lower) @ rows) @ adjoint(second)).triu()
    return -total, None, back


@composite("linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
           derivative=wirtinger(Derivative(lambda grad, LU, pivots, result, left, adjoint, wanted: _lu_solve_gradients(
               grad, LU, pivots, result, left, adjoint, wanted))),
           host_path=array_path(paths.lu_solve, accepts=paths.WITH_PIVOTS, label="linalg.lu_solve"), replayable=True,
           **LINALG)
def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """Solve A @ X == B with the results of ``linalg.lu_factor``; ``adjoint``: A.mH @ X == B; not ``left``: X @ A == B.

    Raises:
        ShapeError: The shapes do not fit each other.
    """
    check_matrix("lu_solve", LU, square=True)
    if B.ndim < 2 or B.shape[-2 if left else -1] != LU.shape[-1] or tuple(pivots.shape) != tuple(LU.shape[:-1]):
        raise ShapeError("linalg.lu_solve", f"factors {list(LU.shape)}, pivots {list(pivots.shape)}, B {list(B.shape)}",
                         "B has as many rows (from the right: columns) as the factors", "transpose B")
    if not left:
        return _adjoint_of(lu_solve(LU, pivots, _adjoint_of(B), adjoint=not adjoint))
    if adjoint:
        first = triangular(_adjoint_of(LU), B, upper=False)
        return call(lu_exchange, triangular(_adjoint_of(LU), first, upper=True, unit=True), pivots, True)
    first = triangular(LU, call(lu_exchange, B, pivots, False), upper=False, unit=True)
    return triangular(LU, first, upper=True)


def _adjoint_of(matrix: Any) -> Any:
    return adjoint(matrix)


@composite("lu_solve(Tensor input, Tensor LU_data, Tensor LU_pivots) -> Tensor",
           host_path=array_path(paths.lu_solve_of, accepts=paths.WITH_PIVOTS, label="lu_solve"), replayable=True)
def lu_solve_of(input: Any, LU_data: Any, LU_pivots: Any) -> Any:
    """Run ``linalg.lu_solve`` with the right-hand side first."""
    return functions.linalg_lu_solve(LU_data, LU_pivots, input)


@composite("triangular_solve(Tensor input, Tensor A, bool upper=True, bool transpose=False, "
           "bool unitriangular=False) -> any",
           host_path=array_path(paths.triangular_solve, TriangularResult, label="triangular_solve"), replayable=True)
def triangular_solve(input: Any, A: Any, upper: bool = True, transpose: bool = False,
                     unitriangular: bool = False) -> Any:
    """Return X with A @ X == input (``transpose``: A.mT @ X == input) for triangular A, and a copy of A."""
    check_matrix("triangular_solve", A, square=True)
    check_matrix("triangular_solve", input)
    used, side = (A.mT, not upper) if transpose else (A, upper)
    lead = broadcast_shapes("triangular_solve", [tuple(A.shape[:-2]), tuple(input.shape[:-2])])
    copy = A.expand((*lead, *A.shape[-2:])).clone()
    return TriangularResult(triangular(used, input, upper=side, unit=unitriangular), copy)


def _ldl_gradient(grad: Any, factors: Any, swaps: Any, hermitian: bool) -> Any:
    """Solve with the same factors: A (or its conjugate) is its own adjoint."""
    if not hermitian and grad.dtype.is_complex:
        return call(ldl_solution, factors, swaps, grad.conj(), False).conj()
    return call(ldl_solution, factors, swaps, grad, hermitian)


ldl_solution: Final[HostOperator] = HostOperator(
    "ldl_solve(Tensor LD, Tensor pivots, Tensor B, bool hermitian) -> Tensor", "Solutions from factors of LDL.",
    lapack.ldl_solve, label="linalg.ldl_solve", shape=lambda a, p, b, hermitian: (*_batch(a, b), *b[-2:]),
    derivative=wirtinger(Derivative(
        LD=no_derivative("linalg.ldl_solve", "LD"),
        B=lambda grad, LD, pivots, hermitian: _ldl_gradient(grad, LD, pivots, hermitian))), **MATRIX)


@composite("linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor", **LINALG)
def ldl_solve(LD: Any, pivots: Any, B: Any, *, hermitian: bool = False) -> Any:
    """Return X with A @ X == B from the results of ``linalg.ldl_factor``."""
    check_matrix("ldl_solve", LD, square=True)
    check_matrix("ldl_solve", B)
    if tuple(pivots.shape) != tuple(LD.shape[:-1]) or B.shape[-2] != LD.shape[-1]:
        raise ShapeError("linalg.ldl_solve", f"shapes {list(LD.shape)}, {list(pivots.shape)}, {list(B.shape)}",
                         "B has as many rows as the factors, and there is a pivot for each", "transpose B")
    return call(ldl_solution, LD, pivots, B, hermitian)


# ---------------------------------------------------------------------------------------------------- least squares


def _least_squares_gradient(grad: Any, matrix: Any, right: Any) -> tuple[Any, Any]:
    """Return the gradients of matrix and right-hand side; the solution is pinv(A) @ B."""
    inverse = pinv(matrix)
    back = adjoint(inverse) @ grad
    found, up = inverse @ right, adjoint(inverse)
    outside = right - matrix @ found
    first = -(back @ adjoint(found))
    missing = grad - adjoint(matrix) @ back
    second = up @ inverse  # (A A^H)^+
    third = inverse @ up  # (A^H A)^+
    total = first + outside @ adjoint(third @ grad) + (second @ right) @ adjoint(missing)
    return total, back


least_squares: Final[HostOperator] = HostOperator(
    "lstsq(Tensor A, Tensor B, float cut, str driver) -> (Tensor, Tensor, Tensor)",
    "Solution of least norm, rank, singular values.", guarded("lstsq", lapack.least_squares), label="linalg.lstsq",
    shape=lambda a, b, cut, driver: [(*_batch(a, b), a[-1], b[-1]), _batch(a, b), (*_batch(a, b), min(a[-2:]))],
    result=("same", "int64", "real"), derivative=wirtinger(Derivative(
        lambda grads, A, B: _least_squares_gradient(grads[0], A, B))), **MATRIX)


@composite("linalg_lstsq(Tensor A, Tensor B, Scalar? rcond=None, *, str? driver=None) -> any",
           host_path=array_path(paths.lstsq, LstsqResult, label="linalg.lstsq"), replayable=True, **LINALG)
def lstsq(A: Any, B: Any, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """Return the X that minimises the norm of A @ X - B; of several, the one with the smallest norm.

    Args:
        A: [..., m, n].
        B: [..., m, k], or [..., m].
        rcond: Singular values up to ``rcond`` times the largest count as 0; by default the dtype's precision times the
            larger size.
        driver: LAPACK's driver: 'gels' for matrices of full rank, 'gelsy' (default), 'gelsd' or 'gelss'.

    Returns:
        solution; residuals (squared norms; empty for 'gelsy', for m <= n, and without full rank); rank (empty for
        'gels'); singular_values (empty for 'gels' and 'gelsy'), without a gradient.

    Raises:
        ArgumentError: The driver is unknown.
        ShapeError: The shapes do not fit each other.
        LinAlgError: For all drivers but 'gelsy', an element of A is not finite; for 'gels', A does not have full rank.
    """
    check_matrix("lstsq", A)
    driver = "gelsy" if driver is None else driver
    if driver not in _DRIVERS:
        raise ArgumentError("linalg.lstsq", f"driver={driver!r}", "the driver is 'gels', 'gelsy', 'gelsd' or 'gelss'",
                            "pass one of these")
    vector = B.ndim == A.ndim - 1
    right = B.unsqueeze(-1) if vector else B
    rows, columns = A.shape[-2:]
    if right.ndim != A.ndim or right.shape[-2] != rows:
        raise ShapeError("linalg.lstsq", f"shapes {list(A.shape)} and {list(B.shape)}", "B has as many rows as A",
                         "transpose B")
    if B.dtype is not A.dtype:
        raise DtypeError("linalg.lstsq", f"dtypes {A.dtype.name} and {B.dtype.name}", "A and B have the same dtype",
                         "convert B with .to(A.dtype)")
    cut = finfo(A.dtype).eps * max(rows, columns) if rcond is None else rcond
    found, rank, values = call(least_squares, A, right, cut, driver)
    none = A.detach().new_empty((0,)).abs()
    residuals = A.reshape(-1).narrow(0, 0, 0).abs()  # part of the graph, like nonempty residuals
    if rows > columns and driver != "gelsy" and (driver == "gels" or bool((rank == columns).all())):
        error = A @ found - right
        residuals = (error * (error.conj() if error.dtype.is_complex else error)).sum(-2)
        residuals = residuals.real if residuals.dtype.is_complex else residuals
        residuals = residuals.squeeze(-1) if vector else residuals
    return LstsqResult(found.squeeze(-1) if vector else found, residuals,
                       rank.new_empty((0,)) if driver == "gels" else rank,
                       values.detach() if driver in ("gelsd", "gelss") else none)


# -------------------------------------------------------------------------------------------- tensors as matrices


@composite("linalg_tensorinv(Tensor A, int ind=2) -> Tensor", **LINALG)
def tensorinv(A: Any, ind: int = 2) -> Any:
    """Return the inverse for ``tensordot`` over ``ind`` dimensions; A maps its last dimensions to its first ``ind``.

    Raises:
        ArgumentError: ``ind`` is not positive.
        ShapeError: The matrix is not square.
    """
    if ind <= 0:
        raise ArgumentError("linalg.tensorinv", f"ind={ind}", "ind is positive", "pass 1 or more")
    first, last = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    size = math.prod(last)
    if math.prod(first) != size:
        raise ShapeError("linalg.tensorinv", f"a tensor of shape {list(A.shape)}, ind={ind}",
                         "both groups of dimensions have as many elements", "choose another ind")
    return functions.linalg_inv(A.reshape((size, size))).reshape((*last, *first))


@composite("linalg_tensorsolve(Tensor A, Tensor B, any dims=None) -> Tensor", **LINALG)
def tensorsolve(A: Any, B: Any, dims: Any = None) -> Any:
    """Return X with tensordot(A, X, X.ndim) == B; ``dims`` of A are moved to its end first.

    Raises:
        ShapeError: A is not a square matrix, or does not fit B.
    """
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    last = tuple(A.shape[B.ndim:])
    size = math.prod(last)
    if math.prod(A.shape[:B.ndim]) != size or B.numel() != size:
        raise ShapeError("linalg.tensorsolve", f"shapes {list(A.shape)} and {list(B.shape)}",
                         "A is a square matrix with B's elements as rows", "pass dims")
    return functions.linalg_solve(A.reshape((size, size)), B.reshape((size,))).reshape(last)
