"""Inverses of matrices, solutions of linear equations, and determinants."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tensocket_core import functions
from tensocket_core.autograd.conjugate import wirtinger
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.results import named_result
from tensocket_core.geometry import broadcast_shapes
from tensocket_core.limits import finfo
from tensocket_plugins.contract.errors import DtypeError, ShapeError
from tensocket_plugins.kit import host_linalg

from ..array_paths import array_path
from ..indexing.selection import positions
from ..kinds.composite import composite
from ..kinds.host_library import HostOperator, same_shape
from ..reductions.value_checks import any_true
from . import decompositions as parts
from . import lapack
from . import matrix_paths as paths
from .decompositions import LINALG, MATRIX, adjoint, check_matrix, guarded, packed

#: Result with PyTorch's names.
SlogdetResult: Final = named_result("linalg_slogdet", ("sign", "logabsdet"))


def _solution_shape(matrix: tuple[int, ...], right: tuple[int, ...], *rest: Any) -> tuple[int, ...]:
    return (*broadcast_shapes("linalg.solve", [matrix[:-2], right[:-2]]), *right[-2:])


inverse: Final[HostOperator] = HostOperator(
    "inv(Tensor A) -> Tensor", "The matrix with A @ result == identity.", guarded("inv", host_linalg.inv),
    label="linalg.inv",
    shape=same_shape,
    derivative=wirtinger(Derivative(A=lambda grad, result: -(adjoint(result) @ grad @ adjoint(result)))), **MATRIX)
solution: Final[HostOperator] = HostOperator(
    "solve(Tensor A, Tensor B) -> Tensor", "The matrix X with A @ X == B.", guarded("solve", host_linalg.solve),
    label="linalg.solve",
    shape=_solution_shape, derivative=wirtinger(Derivative(
        lambda grad, A, result, wanted: _solution_gradients(call(solution, adjoint(A), grad), result, wanted))),
    **MATRIX)


def _solution_gradients(back: Any, result: Any, wanted: tuple[bool, ...]) -> tuple[Any, Any]:
    """Return the gradients of both sides of A @ X == B from that of B."""
    return -(back @ adjoint(result)) if wanted[0] else None, back


def _triangular(matrix: Any, right: Any, upper: bool, unit: bool) -> Any:
    return host_linalg.solve_triangular(matrix, right, upper, unit, lapack.solve_triangular)


def _triangular_gradients(grad: Any, matrix: Any, result: Any, upper: bool, unit: bool, wanted: tuple[bool, ...]
                          ) -> tuple[Any, Any]:
    back = call(triangular, adjoint(matrix), grad, not upper, unit)
    if not wanted[0]:
        return None, back
    full = -(back @ adjoint(result))
    return full.triu(int(unit)) if upper else full.tril(-int(unit)), back


triangular: Final[HostOperator] = HostOperator(
    "solve_triangular(Tensor A, Tensor B, bool upper, bool unitriangular) -> Tensor",
    "The matrix X with A @ X == B for a triangular A.", guarded("solve_triangular", _triangular),
    label="linalg.solve_triangular",
    shape=_solution_shape, derivative=wirtinger(Derivative(
        lambda grad, A, result, upper, unitriangular, wanted: _triangular_gradients(
            grad, A, result, upper, unitriangular, wanted))), **MATRIX)


@composite("linalg_inv(Tensor A) -> Tensor",
           host_path=array_path(paths.inv, label="linalg.inv"), replayable=True, **LINALG)
def inv(A: Any) -> Any:
    """Return the inverses of square matrices.

    Raises:
        LinAlgError: A matrix is singular.
    """
    check_matrix("inv", A, square=True)
    return call(inverse, A)


@composite("inverse(Tensor input) -> Tensor",
           host_path=array_path(paths.inv, label="inverse"), replayable=True)
def inverse_of(input: Any) -> Any:
    """Return the inverses of square matrices: ``linalg.inv``."""
    return inv(input)


@composite("linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor",
           host_path=array_path(paths.solve, label="linalg.solve"), replayable=True, **LINALG)
def solve(A: Any, B: Any, *, left: bool = True) -> Any:
    """Solve A @ X == B; with ``left=False``, X @ A == B. B is a vector if it has A's shape without the last size.

    Raises:
        LinAlgError: A matrix is singular.
        ShapeError: The shapes do not fit each other.
    """
    check_matrix("solve", A, square=True)
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
    right = B.unsqueeze(-1) if vector else B if left else B.mT
    if right.ndim < 2 or right.shape[-2] != A.shape[-1]:
        raise ShapeError("linalg.solve", f"shapes {list(A.shape)} and {list(B.shape)}",
                         "B has as many rows as A", "transpose B, or pass left=False")
    broadcast_shapes("linalg.solve", [tuple(x.shape[:-2]) for x in (A, right)])
    result = call(solution, A if left else A.mT, right)
    return result.squeeze(-1) if vector else result if left else result.mT


@composite("linalg_solve_triangular(Tensor A, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) "
           "-> Tensor",
           host_path=array_path(paths.solve_triangular, label="linalg.solve_triangular"), replayable=True, **LINALG)
def solve_triangular(A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """Return X with A @ X == B (or X @ A == B) for triangular A; only one triangle is read."""
    check_matrix("solve_triangular", A, square=True)
    if left:
        return call(triangular, A, B, upper, unitriangular)
    return call(triangular, A.mT, B.mT, not upper, unitriangular).mT


def _pinv(matrix: Any, absolute: Any, relative: Any, hermitian: bool) -> Any:
    return host_linalg.computed("pinv", _pinv_by_numpy, matrix, absolute, relative, hermitian)


def _pinv_by_numpy(matrix: Any, absolute: Any, relative: Any, hermitian: bool) -> Any:
    if hermitian:
        host_linalg.check_finite(matrix)
        values, u = host_linalg.eigh(matrix, "L")
        left, right = u, np.swapaxes(u, -1, -2).conj()
    else:
        u, values, vh = host_linalg.svd(matrix, False)
        left, right = np.swapaxes(vh, -1, -2).conj(), np.swapaxes(u, -1, -2).conj()
    sizes = np.abs(values)
    top = np.maximum.reduce(sizes, -1, keepdims=True, initial=0).astype(np.float64)
    if type(absolute) is type(relative) is float:
        used = sizes > np.maximum(absolute, relative * top)
    else:
        used = sizes > np.maximum(np.asarray(absolute)[..., None], np.asarray(relative)[..., None] * top)
    inverted = np.divide(1, values, np.zeros_like(values), where=used)
    scaled = left * inverted[..., None, :]  # the smaller factor
    return host_linalg.matmul(scaled, right) if matrix.ndim == 2 else scaled @ right


def _pinv_gradient(grad: Any, matrix: Any, inverse: Any) -> Any:
    """Return the gradient of the pseudoinverse at constant rank (G. Golub and V. Pereyra, 1973)."""
    back, up = adjoint(inverse), adjoint(grad)
    through = up @ inverse
    along = inverse @ up
    return (-(adjoint(inverse @ through)) + (through @ back - (matrix @ inverse) @ (through @ back))
            + ((back @ along) - (back @ along) @ (inverse @ matrix)))


pseudoinverse: Final[HostOperator] = HostOperator(
    "pinv(Tensor A, any atol, any rtol, bool hermitian) -> Tensor", "The Moore-Penrose pseudoinverse.",
    guarded("pinv", _pinv), label="linalg.pinv",
    shape=lambda x, *rest: (*x[:-2], x[-1], x[-2]),
    derivative=wirtinger(Derivative(A=lambda grad, A, result: _pinv_gradient(grad, A, result))), **MATRIX)


def _cuts(operator: str, A: Any, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """Return the absolute and relative tolerance below which singular values count as 0, as NumPy values.

    Raises:
        DtypeError: A tolerance is complex.
    """
    for name, x in (("atol", atol), ("rtol", rtol)):
        if getattr(x, "is_complex", bool)():
            raise DtypeError(operator, f"{name} of dtype {x.dtype.name}", "a tolerance is a real number",
                             "pass its absolute value")
    given = [x._values() if hasattr(x, "_key") else x for x in (atol, rtol)]
    if given[1] is None:
        eps = finfo(A.dtype).eps
        given[1] = 0.0 if given[0] is not None else max(A.shape[-2:]) * float(eps)
    return (0.0 if given[0] is None else given[0]), given[1]


def pinv_path(matrix: Any, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Any:
    """Return the pseudoinverse of one matrix with numbers as tolerances; see ``matrix_paths``."""
    if matrix.ndim != 2 or not matrix.size or (hermitian and matrix.shape[0] != matrix.shape[1]):
        return NotImplemented
    cuts = paths.tolerances(matrix, atol, rcond if rtol is None else rtol)
    return NotImplemented if cuts is None else _pinv(matrix, *cuts, hermitian)


@composite("linalg_pinv(Tensor A, any rcond=None, bool hermitian=False, *, any atol=None, any rtol=None) -> Tensor",
           host_path=array_path(pinv_path, label="linalg.pinv"), replayable=True, **LINALG)
def pinv(A: Any, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Any:
    """Return pseudoinverses; singular values up to max(atol, rtol * largest) count as 0; ``rcond`` is ``rtol``."""
    check_matrix("pinv", A, square=hermitian)
    rtol = rcond if rtol is None else rtol
    return call(pseudoinverse, A, *_cuts("linalg.pinv", A, atol, rtol), hermitian)


@composite("linalg_matrix_rank(Tensor A, any tol=None, bool hermitian=False, *, any atol=None, any rtol=None) "
           "-> Tensor",
           host_path=array_path(paths.matrix_rank, label="linalg.matrix_rank"), **LINALG)
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Any:
    """Return the number of singular values above max(atol, rtol * largest); ``tol`` is ``atol``."""
    check_matrix("matrix_rank", A, square=hermitian)
    atol = tol if atol is None else atol
    s = call(parts.eigvalsh, A.detach(), "L").abs() if hermitian else call(parts.singular_values, A.detach())
    if 0 in A.shape[-2:]:
        return (s > 0).sum(-1)
    absolute, relative = (s.new_tensor(x) for x in _cuts("linalg.matrix_rank", A, atol, rtol))
    cut = absolute.maximum(relative * s.amax(-1))
    return (s > cut.unsqueeze(-1)).sum(-1)


def _condition(matrix: Any, inverted: Any) -> Any:
    """Return the largest element of a matrix times that of its inverse, for each matrix."""
    return matrix.detach().abs().amax((-2, -1)) * inverted.detach().abs().amax((-2, -1))


def _det_gradient(grad: Any, matrix: Any, result: Any) -> Any:
    """Return det(A) * inv(A).mH, or for nearly singular matrices the cofactors, computed from singular vectors.

    Differentiated again, the first form would lose all digits to the inverse of a nearly singular matrix.
    """
    if not matrix.numel():
        return matrix * 0
    inverted = None if any_true(result == 0) else call(inverse, matrix)
    most = float(np.finfo(matrix.dtype.numpy).eps) ** -0.5
    if inverted is not None and not any_true(_condition(matrix, inverted) > most):
        scale = grad * (result.conj() if result.dtype.is_complex else result)
        return scale.unsqueeze(-1).unsqueeze(-1) * adjoint(inverted)
    u, s, vh = call(parts.svd, matrix, True)
    size = s.shape[-1]
    places = positions(s, size)
    others = s.unsqueeze(-2).expand((*s.shape, size)).masked_fill(places.unsqueeze(1) == places, 1).prod(-1)
    turn = call(determinant, u) * call(determinant, vh)
    scale = grad * (turn.conj() if turn.dtype.is_complex else turn)
    return scale.unsqueeze(-1).unsqueeze(-1) * ((u * others.unsqueeze(-2)) @ vh)


determinant: Final[HostOperator] = HostOperator(
    "det(Tensor A) -> Tensor", "Determinants.", guarded("det", host_linalg.det), label="linalg.det",
    shape=lambda x: x[:-2],
    derivative=wirtinger(Derivative(A=lambda grad, A, result: _det_gradient(grad, A, result))), **MATRIX)


def _slogdet_gradient(grad: Any, matrix: Any, result: Any) -> Any:
    """Return the gradient: of the logarithm, grad * inv(A).mH; a complex sign rotates with the imaginary part.

    The gradient of a singular matrix is NaN and does not affect the other matrices of a batch.
    """
    scale = grad.select(-1, 1)
    if grad.dtype.is_complex:
        scale = scale.real - (grad.select(-1, 0).conj() * result.select(-1, 0)).imag * 1j
    return scale.unsqueeze(-1).unsqueeze(-1) * adjoint(functions.linalg_inv_ex(matrix)[0])


def _slogdet(matrix: Any) -> Any:
    return packed([x[..., None] for x in host_linalg.slogdet(matrix)], matrix.ndim - 2)


signed_logarithm: Final[HostOperator] = HostOperator(
    "slogdet(Tensor A) -> Tensor", "Sign and logarithm of the determinant, packed.", guarded("slogdet", _slogdet),
    label="linalg.slogdet",
    shape=lambda x: (*x[:-2], 2),
    derivative=wirtinger(Derivative(A=lambda grad, A, result: _slogdet_gradient(grad, A, result))), **MATRIX)


@composite("linalg_det(Tensor A) -> Tensor",
           host_path=array_path(paths.det, label="linalg.det"), **LINALG)
def det(A: Any) -> Any:
    """Return the determinants of square matrices."""
    check_matrix("det", A, square=True)
    return call(determinant, A)


@composite("det(Tensor input) -> Tensor",
           host_path=array_path(paths.det, label="det"))
def det_of(input: Any) -> Any:
    """Return the determinants of square matrices: ``linalg.det``."""
    return det(input)


@composite("linalg_slogdet(Tensor A) -> any",
           host_path=array_path(paths.slogdet, SlogdetResult, label="linalg.slogdet"), **LINALG)
def slogdet(A: Any) -> Any:
    """Return the sign (or direction) and the logarithm of the absolute value of determinants."""
    check_matrix("slogdet", A, square=True)
    both = call(signed_logarithm, A)
    size = both.select(-1, 1)
    return SlogdetResult(both.select(-1, 0), size.real if size.dtype.is_complex else size)
