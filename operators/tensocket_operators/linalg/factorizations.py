"""Factorisations that report how they failed: Cholesky, LU and LDL; and products of reflectors.

Derivatives of LU follow from those of its square block and the equations of the rows or columns outside it; those of
reflectors H_i = 1 - tau_i v_i v_i^H follow from the form of their product as one matrix.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tensocket_core import functions
from tensocket_core.autograd.conjugate import wirtinger
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.results import named_result
from tensocket_core.geometry import broadcast_shapes
from tensocket_plugins.contract.dtypes import int32
from tensocket_plugins.contract.errors import DtypeError, LinAlgError, ShapeError

from ..array_paths import array_path
from ..differentiation.delayed import without_derivative
from ..indexing.selection import positions
from ..kinds.composite import composite
from ..kinds.host_library import HostOperator
from ..reductions.value_checks import any_true, value_range
from ..unrolled.checks import declared, run_check
from . import lapack
from . import matrix_paths as paths
from .decompositions import LINALG, MATRIX, adjoint, check_matrix, diagonal_matrix
from .decompositions import _cholesky_gradient as cholesky_gradient

#: Results with PyTorch's names.
CholeskyResult: Final = named_result("linalg_cholesky_ex", ("L", "info"))
LUFactorResult: Final = named_result("linalg_lu_factor", ("LU", "pivots"))
LUFactorExResult: Final = named_result("linalg_lu_factor_ex", ("LU", "pivots", "info"))
LUResult: Final = named_result("linalg_lu", ("P", "L", "U"))
UnpackResult: Final = named_result("lu_unpack", ("P", "L", "U"))
LDLResult: Final = named_result("linalg_ldl_factor", ("LD", "pivots"))
LDLExResult: Final = named_result("linalg_ldl_factor_ex", ("LD", "pivots", "info"))
QRFactors: Final = named_result("geqrf", ("a", "tau"))


@declared
def check_info(operator: str, info: Any, what: str) -> None:
    """Refuse a batch with a failed factorisation.

    Raises:
        LinAlgError: An element of ``info`` is not 0.
    """
    if not info.numel() or not info._device_state.holds_data:
        return
    if any_true(info != 0):
        worst = value_range(info.abs())[1]
        raise LinAlgError(operator, f"a matrix whose {what} at position {worst}",
                          "a factorisation exists for every matrix of the batch",
                          "look at info of the form with _ex, or change the matrix")


def triangular(matrix: Any, right: Any, *, upper: bool, left: bool = True, unit: bool = False) -> Any:
    """Call ``linalg.solve_triangular`` with short arguments."""
    return functions.linalg_solve_triangular(matrix, right, upper=upper, left=left, unitriangular=unit)


# ------------------------------------------------------------------------------------------------------- Cholesky

cholesky_ex: Final[HostOperator] = HostOperator(
    "cholesky_ex(Tensor A) -> (Tensor, Tensor)", "Lower triangles, and what failed.", lapack.cholesky,
    label="linalg.cholesky", shape=lambda x: [x, x[:-2]], result=("same", "int32"),
    derivative=wirtinger(Derivative(A=lambda grads, result0: cholesky_gradient(grads[0], result0))), **MATRIX)


@composite("linalg_cholesky_ex(Tensor A, *, bool upper=False, bool check_errors=False) -> any",
           host_path=array_path(paths.cholesky_ex, CholeskyResult, label="linalg.cholesky_ex"),
           replayable=True, **LINALG)
def linalg_cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    """Return ``linalg.cholesky`` without raising: info is 0, or the order of the minor that is not positive definite.

    Raises:
        LinAlgError: With ``check_errors``, a matrix is not positive definite.
    """
    check_matrix("cholesky_ex", A, square=True)
    lower, info = call(cholesky_ex, A)
    if check_errors:
        run_check(check_info, "linalg.cholesky_ex", info, "leading minor is not positive definite")
    return CholeskyResult(adjoint(lower) if upper else lower, info)


# ------------------------------------------------------------------------------------------------------------ LU


def _permuted(swaps: Any, rows: int, dtype: Any) -> Any:
    """Return P with A == P @ L @ U."""
    places = positions(swaps, rows)
    return call(lu_exchange, (places.unsqueeze(1) == places).to(dtype), swaps, True)


def _lu_gradient(grad: Any, factors: Any, swaps: Any) -> Any:
    rows, columns = factors.shape[-2:]
    inner = min(rows, columns)
    square, given = (x.narrow(-2, 0, inner).narrow(-1, 0, inner) for x in (factors, grad))
    lower, upper = square, square.triu()
    unit = lower.tril(-1) + _eye(lower, inner, inner)
    below, above = adjoint(unit) @ given.tril(-1), given.triu() @ adjoint(upper)
    extra = None
    if columns > inner:
        rest = factors.narrow(-1, inner, columns - inner)
        grad_rest = grad.narrow(-1, inner, columns - inner)
        below = below - grad_rest @ adjoint(rest)
        extra = triangular(adjoint(unit), grad_rest, upper=True, unit=True)
    elif rows > inner:
        rest = factors.narrow(-2, inner, rows - inner)
        grad_rest = grad.narrow(-2, inner, rows - inner)
        above = above - adjoint(rest) @ grad_rest
        extra = triangular(adjoint(upper), grad_rest, upper=False, left=False)
    middle = triangular(adjoint(unit), below.tril(-1) + above.triu(), upper=True, unit=True)
    total = triangular(adjoint(upper), middle, upper=False, left=False)
    if extra is not None:
        total = functions.cat([total, extra], -1 if columns > inner else -2)
    return call(lu_exchange, total, swaps, True)


lu_factors: Final[HostOperator] = HostOperator(
    "lu_factor(Tensor A, bool pivot) -> (Tensor, Tensor, Tensor)", "L and U in one matrix, exchanges, what failed.",
    lapack.lu, label="linalg.lu_factor", shape=lambda x, pivot: [x, (*x[:-2], min(x[-2:])), x[:-2]],
    result=("same", "int32", "int32"), derivative=wirtinger(Derivative(
        A=lambda grads, result0, result1: _lu_gradient(grads[0], result0, result1))), **MATRIX)
lu_exchange: Final[HostOperator] = HostOperator(
    "lu_exchange(Tensor right, Tensor pivots, bool back) -> Tensor", "Rows in the order of the factors, or back.",
    lapack.exchanged, label="linalg.lu",
    shape=lambda x, pivots, back: (*broadcast_shapes("linalg.lu", [x[:-2], pivots[:-1]]), *x[-2:]),
    derivative=wirtinger(Derivative(right=lambda grad, pivots, back: call(lu_exchange, grad, pivots, not back))),
    **MATRIX)


@composite("linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> any",
           host_path=array_path(paths.lu_factor_ex, LUFactorExResult, label="linalg.lu_factor_ex"),
           replayable=True, **LINALG)
def linalg_lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """Return ``linalg.lu_factor`` without raising: info is 0, or the position of the first zero on U's diagonal.

    Raises:
        LinAlgError: With ``check_errors``, a matrix is singular.
    """
    check_matrix("lu_factor_ex", A)
    result = call(lu_factors, A, pivot)
    if check_errors:
        run_check(check_info, "linalg.lu_factor_ex", result[2], "U has a zero on its diagonal")
    return LUFactorExResult(*result)


@composite("linalg_lu_factor(Tensor A, *, bool pivot=True) -> any",
           host_path=array_path(paths.lu_factor, LUFactorResult, label="linalg.lu_factor"),
           replayable=True, **LINALG)
def linalg_lu_factor(A: Any, *, pivot: bool = True) -> Any:
    """Return L (without its diagonal of ones) and U in one matrix, and each row's exchange partner, from 1.

    Raises:
        LinAlgError: A matrix is singular.
    """
    check_matrix("lu_factor", A)
    factors, swaps, info = call(lu_factors, A, pivot)
    run_check(check_info, "linalg.lu_factor", info, "U has a zero on its diagonal")
    return LUFactorResult(factors, swaps)


def _triangles_gradient(grads: tuple[Any, Any], lower: Any, upper: Any) -> Any:
    rows, columns = lower.shape[-2], upper.shape[-1]
    parts = [None if grads[0] is None else _widened(grads[0].tril(-1), -1, columns),
             None if grads[1] is None else _widened(grads[1].triu(), -2, rows)]
    given = [part for part in parts if part is not None]
    return given[0] if len(given) == 1 else given[0] + given[1]


def _widened(part: Any, axis: int, size: int) -> Any:
    """Return a matrix with zeros behind its rows or columns."""
    missing = list(part.shape)
    missing[axis] = size - missing[axis]
    return functions.cat([part, part.new_zeros(missing)], axis) if missing[axis] else part


lu_triangles: Final[HostOperator] = HostOperator(
    "lu_triangles(Tensor LU) -> (Tensor, Tensor)", "L and U of their form in one matrix.", lapack.triangles,
    label="linalg.lu", shape=lambda x: [(*x[:-1], min(x[-2:])), (*x[:-2], min(x[-2:]), x[-1])], result=("same", "same"),
    derivative=wirtinger(Derivative(LU=lambda grads, result0, result1: _triangles_gradient(grads, result0, result1))),
    **MATRIX)


@composite("linalg_lu(Tensor A, *, bool pivot=True) -> any",
           host_path=array_path(paths.lu_parts, LUResult, label="linalg.lu"),
           replayable=True, **LINALG)
def linalg_lu(A: Any, *, pivot: bool = True) -> Any:
    """Return P, L and U with A == P @ L @ U; without pivoting, P is empty.

    Args:
        A: [..., m, n].
        pivot: Whether rows are exchanged. P is [m, m], L [m, k] and U [k, n] for k = min(m, n).
    """
    check_matrix("lu", A)
    factors, swaps, _ = call(lu_factors, A, pivot)
    permuted = _permuted(swaps, A.shape[-2], A.dtype) if pivot else A.new_empty((0,))
    return LUResult(permuted, *call(lu_triangles, factors))


@composite("lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> any",
           method=False,
           host_path=array_path(paths.lu_unpack, UnpackResult, accepts=paths.WITH_PIVOTS, label="lu_unpack"),
           replayable=True)
def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """Return P, L and U from the results of ``linalg.lu_factor``; parts that are not requested are empty."""
    check_matrix("lu_unpack", LU_data)
    if unpack_pivots and LU_pivots.dtype is not int32:
        raise DtypeError("lu_unpack", f"pivots of dtype {LU_pivots.dtype.name}", "pivots have torch.int32 dtype",
                         "pass those of lu_factor")
    if unpack_pivots and tuple(LU_pivots.shape) != (*LU_data.shape[:-2], min(LU_data.shape[-2:])):
        raise ShapeError("lu_unpack", f"factors {list(LU_data.shape)}, pivots {list(LU_pivots.shape)}",
                         "there is a pivot for every row that may be exchanged", "pass the results of lu_factor")
    none = LU_data.detach().new_empty((0,))
    lower, upper = call(lu_triangles, LU_data) if unpack_data else (none, none)
    return UnpackResult(_permuted(LU_pivots, LU_data.shape[-2], LU_data.dtype) if unpack_pivots else none, lower, upper)


@composite("lu(Tensor A, bool pivot=True, bool get_infos=False) -> any",
           host_path=array_path(paths.lu, label="lu"),
           replayable=True)
def lu(A: Any, pivot: bool = True, get_infos: bool = False) -> Any:
    """Return ``linalg.lu_factor``, or with ``get_infos`` ``linalg.lu_factor_ex``, as a tuple."""
    check_matrix("lu", A)
    factors, swaps, info = call(lu_factors, A, pivot)
    return (factors, swaps, info) if get_infos else (factors, swaps)


# ------------------------------------------------------------------------------------------------------------ LDL

ldl_factors: Final[HostOperator] = HostOperator(
    "ldl_factor(Tensor A, bool hermitian) -> (Tensor, Tensor, Tensor)", "L and D in one triangle, exchanges, failures.",
    lapack.ldl, label="linalg.ldl_factor", shape=lambda x, hermitian: [x, x[:-1], x[:-2]],
    result=("same", "int32", "int32"), **MATRIX)


@composite("linalg_ldl_factor_ex(Tensor A, *, bool hermitian=False, bool check_errors=False) -> any",
           host_path=array_path(paths.ldl_factor_ex, LDLExResult, label="linalg.ldl_factor_ex"),
           replayable=True, **LINALG)
def linalg_ldl_factor_ex(A: Any, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """Factor symmetric (or Hermitian) matrices for ``linalg.ldl_solve``; info is 0, or the position of a zero block.

    Raises:
        LinAlgError: With ``check_errors``, a matrix is singular.
    """
    check_matrix("ldl_factor_ex", A, square=True)
    result = call(ldl_factors, A.detach(), hermitian)
    if check_errors:
        run_check(check_info, "linalg.ldl_factor_ex", result[2], "D has a zero block")
    return LDLExResult(without_derivative("linalg_ldl_factor_ex", result[0], A), *result[1:])


@composite("linalg_ldl_factor(Tensor A, *, bool hermitian=False) -> any",
           host_path=array_path(paths.ldl_factor, LDLResult, label="linalg.ldl_factor"),
           replayable=True, **LINALG)
def linalg_ldl_factor(A: Any, *, hermitian: bool = False) -> Any:
    """Factor symmetric (or Hermitian) matrices for ``linalg.ldl_solve``, reading only the lower triangle.

    Raises:
        LinAlgError: A matrix is singular.
    """
    check_matrix("ldl_factor", A, square=True)
    factors, swaps, info = call(ldl_factors, A.detach(), hermitian)
    run_check(check_info, "linalg.ldl_factor", info, "D has a zero block")
    return LDLResult(without_derivative("linalg_ldl_factor", factors, A), swaps)


# ------------------------------------------------------------------------------------------------------ reflectors


def _reflected_gradient(grad: Any, matrix: Any, factors: Any, right: Any, turned: bool) -> tuple[Any, Any, Any]:
    """Return the gradients of reflectors, their factors and the matrix.

    The product is 1 - V T V^H (``turned``: 1 - V T^H V^H) with the vectors as columns of V, and an upper triangular T
    with T = (1 + D S)^-1 D, where D is the diagonal matrix of factors, and S the part of V^H V above its diagonal.
    """
    count = factors.shape[-1]
    below = matrix.narrow(-1, 0, count).tril(-1)
    v = below + _eye(matrix, matrix.shape[-2], count)
    strict = (adjoint(v) @ v).triu(1)
    scales, scaled = diagonal_matrix(factors), factors.unsqueeze(-1) * strict
    t = triangular(scaled, scales, upper=True, unit=True)
    inner, through = adjoint(v) @ right, adjoint(v) @ grad
    used = adjoint(t) if turned else t
    grad_inner = -(adjoint(used) @ through)
    grad_v = right @ adjoint(grad_inner) - grad @ adjoint(used @ inner)
    grad_t = -(inner @ adjoint(through)) if turned else -(through @ adjoint(inner))
    grad_scales = triangular(adjoint(scaled), grad_t, upper=False, unit=True)
    grad_scaled = -(grad_scales @ adjoint(t))
    conjugate = factors.conj() if factors.dtype.is_complex else factors
    grad_strict = (conjugate.unsqueeze(-1) * grad_scaled).triu(1)
    grad_v = grad_v + v @ (grad_strict + adjoint(grad_strict))
    strict = strict.conj() if strict.dtype.is_complex else strict
    grad_factors = grad_scales.diagonal(0, -2, -1) + (grad_scaled * strict).sum(-1)
    grad_v = grad_v.tril(-1)
    if matrix.shape[-1] > count:
        grad_v = functions.cat([grad_v, grad_v.new_zeros((*grad_v.shape[:-1], matrix.shape[-1] - count))], -1)
    return grad_v, grad_factors, grad + v @ grad_inner


def _reflected_gradients(grad: Any, matrix: Any, factors: Any, right: Any, turned: bool, wanted: tuple[bool, ...]
                         ) -> tuple[Any, ...]:
    if not any(wanted[:2]):
        return None, None, call(reflected, matrix, factors, grad, not turned)
    return _reflected_gradient(grad, matrix, factors, right, turned)


def _eye(like: Any, rows: int, columns: int) -> Any:
    return (positions(like, rows).unsqueeze(1) == positions(like, columns)).to(like.dtype)


def _reflected_shape(matrix: tuple[int, ...], factors: tuple[int, ...], right: tuple[int, ...],
                     turned: bool) -> tuple[int, ...]:
    return (*broadcast_shapes("ormqr", [matrix[:-2], right[:-2]]), *right[-2:])


reflected: Final[HostOperator] = HostOperator(
    "ormqr(Tensor input, Tensor tau, Tensor other, bool transpose) -> Tensor",
    "A product of reflectors, or its adjoint, times a matrix.", lapack.reflected, label="ormqr",
    shape=_reflected_shape, derivative=wirtinger(Derivative(
        lambda grad, input, tau, other, transpose, wanted: _reflected_gradients(
            grad, input, tau, other, transpose, wanted))), **MATRIX)


def _check_reflectors(operator: str, vectors: Any, factors: Any) -> None:
    if vectors.ndim < 2 or vectors.shape[-2] < factors.shape[-1] or vectors.shape[-1] < factors.shape[-1] or (
            tuple(vectors.shape[:-2]) != tuple(factors.shape[:-1])):
        raise ShapeError(operator, f"reflectors {list(vectors.shape)}, factors {list(factors.shape)}",
                         "there are at most as many factors as rows and columns", "pass the results of geqrf")


@composite("linalg_householder_product(Tensor input, Tensor tau) -> Tensor",
           host_path=array_path(paths.householder_product, label="linalg.householder_product"),
           replayable=True, **LINALG)
def householder_product(input: Any, tau: Any) -> Any:
    """Return the first columns of a product of reflectors in the form of ``geqrf``.

    Args:
        input: [..., m, n] with m >= n; column k holds v_k, which starts with a one, below the diagonal.
        tau: Factors: reflector k is 1 - tau_k v_k v_k^H; [..., k] with k <= n.

    Raises:
        ShapeError: The sizes do not satisfy this.
    """
    check_matrix("householder_product", input)
    _check_reflectors("linalg.householder_product", input, tau)
    rows, columns = input.shape[-2:]
    if rows < columns:
        raise ShapeError("linalg.householder_product", f"a tensor of shape {list(input.shape)}",
                         "there are at least as many rows as columns", "transpose it")
    ones = _eye(input, rows, columns)
    return call(reflected, input, tau, ones.expand((*input.shape[:-2], rows, columns)), False)


@composite("orgqr(Tensor input, Tensor input2) -> Tensor",
           host_path=array_path(paths.householder_product, label="orgqr"),
           replayable=True)
def orgqr(input: Any, input2: Any) -> Any:
    """Return ``linalg.householder_product``."""
    return householder_product(input, input2)


@composite("ormqr(Tensor input, Tensor tau, Tensor other, bool left=True, bool transpose=False) -> Tensor",
           host_path=array_path(paths.ormqr, label="ormqr"),
           replayable=True)
def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    """Multiply a matrix by a product of reflectors (``transpose``: its adjoint), from the left or from the right."""
    check_matrix("ormqr", input)
    check_matrix("ormqr", other)
    _check_reflectors("ormqr", input, tau)
    if other.shape[-2 if left else -1] != input.shape[-2]:
        raise ShapeError("ormqr", f"reflectors {list(input.shape)}, other {list(other.shape)}",
                         "other has as many rows (from the right: columns) as the reflectors", "transpose it")
    if left:
        return call(reflected, input, tau, other, transpose)
    return adjoint(call(reflected, input, tau, adjoint(other), not transpose))


def _transposed_qr(matrix: Any) -> tuple[Any, Any]:
    factors, scales = lapack.qr_by_columns(matrix) if matrix.ndim == 2 and matrix.size else lapack.qr(matrix)
    return np.swapaxes(factors, -1, -2), scales


geqrf_parts: Final[HostOperator] = HostOperator(
    "geqrf(Tensor input) -> (Tensor, Tensor)", "R and reflectors in one matrix, transposed, and their factors.",
    _transposed_qr, label="geqrf", shape=lambda x: [(*x[:-2], x[-1], x[-2]), (*x[:-2], min(x[-2:]))],
    result=("same", "same"), **MATRIX)


@composite("geqrf(Tensor input) -> any",
           host_path=array_path(paths.geqrf, QRFactors, label="geqrf"),
           replayable=True)
def geqrf(input: Any) -> Any:
    """Return R on and above the diagonal, reflectors below it, and their factors: ``linalg.qr`` with factored Q.

    The matrix is stored by columns, as in LAPACK.
    """
    check_matrix("geqrf", input)
    turned, scales = call(geqrf_parts, input.detach())
    return QRFactors(*[without_derivative("geqrf", part, input) for part in (turned.mT, scales)])
