"""Linear algebra with PyTorch's names: ``linalg_NAME`` is ``tensocket.linalg.NAME``."""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.errors import ArgumentError, ShapeError

from ..autograd.conjugate import wirtinger
from ..autograd.derivative import Derivative
from ..dispatch.call import call
from ..dispatch.composite import composite
from ..execute.geometry import broadcast_shapes, normalize_axes
from ..execute.host import HostOperator, same_shape
from . import decompositions as parts
from .choices import true_somewhere
from .decompositions import MATRIX, adjoint, check_matrix, guarded, packed, unpacked
from .selection import crossed, positions

_LINALG: Final[dict[str, Any]] = {"method": False, "namespace": "linalg"}

#: Results with PyTorch's names.
QRResult: Final = namedtuple("linalg_qr", ("Q", "R"))  # type: ignore[name-match]
SVDResult: Final = namedtuple("linalg_svd", ("U", "S", "Vh"))  # type: ignore[name-match]
EighResult: Final = namedtuple("linalg_eigh", ("eigenvalues", "eigenvectors"))  # type: ignore[name-match]
EigResult: Final = namedtuple("linalg_eig", ("eigenvalues", "eigenvectors"))  # type: ignore[name-match]
SlogdetResult: Final = namedtuple("linalg_slogdet", ("sign", "logabsdet"))  # type: ignore[name-match]

# ------------------------------------------------------------------------------------------- inverses and equations

def _solution_shape(matrix: tuple[int, ...], right: tuple[int, ...], *rest: Any) -> tuple[int, ...]:
    return (*broadcast_shapes("linalg.solve", [matrix[:-2], right[:-2]]), *right[-2:])


inverse: Final[HostOperator] = HostOperator(
    "inv(Tensor A) -> Tensor", "The matrix with A @ result == identity.", guarded("inv", np.linalg.inv),
    label="linalg.inv",
    shape=same_shape,
    derivative=wirtinger(Derivative(A=lambda grad, result: -(adjoint(result) @ grad @ adjoint(result)))), **MATRIX)
solution: Final[HostOperator] = HostOperator(
    "solve(Tensor A, Tensor B) -> Tensor", "The matrix X with A @ X == B.", guarded("solve", np.linalg.solve),
    label="linalg.solve",
    shape=_solution_shape, derivative=wirtinger(Derivative(
        A=lambda grad, A, result: -(call(solution, adjoint(A), grad) @ adjoint(result)),
        B=lambda grad, A: call(solution, adjoint(A), grad))), **MATRIX)


def _triangular(matrix: Any, right: Any, upper: bool, unit: bool) -> Any:
    """SciPy solves one system at a time."""
    from scipy.linalg import solve_triangular

    lead = np.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    rows = np.broadcast_to(matrix, (*lead, *matrix.shape[-2:])).reshape(-1, *matrix.shape[-2:])
    sides = np.broadcast_to(right, (*lead, *right.shape[-2:])).reshape(-1, *right.shape[-2:])
    out = np.empty((*lead, *right.shape[-2:]), np.result_type(matrix, right))
    flat = out.reshape(sides.shape)
    for k in range(len(rows) if out.size else 0):
        flat[k] = solve_triangular(rows[k], sides[k], lower=not upper, unit_diagonal=unit, check_finite=False)
    return out


def _triangular_gradient(grad: Any, matrix: Any, result: Any, upper: bool, unit: bool) -> Any:
    full = -(call(triangular, adjoint(matrix), grad, not upper, unit) @ adjoint(result))
    return full.triu(int(unit)) if upper else full.tril(-int(unit))


triangular: Final[HostOperator] = HostOperator(
    "solve_triangular(Tensor A, Tensor B, bool upper, bool unitriangular) -> Tensor",
    "The matrix X with A @ X == B for a triangular A.", guarded("solve_triangular", _triangular),
    label="linalg.solve_triangular",
    shape=_solution_shape, derivative=wirtinger(Derivative(
        A=lambda grad, A, result, upper, unitriangular: _triangular_gradient(grad, A, result, upper, unitriangular),
        B=lambda grad, A, upper, unitriangular: call(triangular, adjoint(A), grad, not upper, unitriangular))),
    **MATRIX)


@composite("linalg_inv(Tensor A) -> Tensor", **_LINALG)
def inv(A: Any) -> Any:
    """Inverses of square matrices.

    Raises:
        LinAlgError: A matrix is singular.
    """
    check_matrix("inv", A, square=True)
    return call(inverse, A)


@composite("inverse(Tensor input) -> Tensor")
def inverse_of(input: Any) -> Any:
    """Inverses of square matrices: ``linalg.inv``."""
    return inv(input)


@composite("linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor", **_LINALG)
def solve(A: Any, B: Any, *, left: bool = True) -> Any:
    """X with A @ X == B; with ``left=False``, X @ A == B. B is a vector where it has A's shape without its last size.

    Raises:
        LinAlgError: A matrix is singular.
        ShapeError: The shapes do not fit.
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
           "-> Tensor", **_LINALG)
def solve_triangular(A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """X with A @ X == B (or X @ A == B) for triangular A, of which one triangle is read."""
    check_matrix("solve_triangular", A, square=True)
    if left:
        return call(triangular, A, B, upper, unitriangular)
    return call(triangular, A.mT, B.mT, not upper, unitriangular).mT


def _pinv(matrix: Any, absolute: Any, relative: Any, hermitian: bool) -> Any:
    u, s, vh = np.linalg.svd(matrix, full_matrices=False, hermitian=hermitian)
    top = s.max(-1, keepdims=True, initial=0)
    cut = np.maximum(np.asarray(absolute)[..., None], np.asarray(relative)[..., None] * top)
    inverted = np.where(s > cut, 1 / np.where(s > cut, s, 1), 0).astype(s.dtype)
    return np.swapaxes(vh, -1, -2).conj() @ (inverted[..., None] * np.swapaxes(u, -1, -2).conj())


def _pinv_gradient(grad: Any, matrix: Any, inverse: Any) -> Any:
    """G. Golub and V. Pereyra, 1973: the change of the pseudoinverse while the rank stays."""
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


def _cuts(A: Any, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """Absolute and relative tolerance below which singular values count as 0, as NumPy values."""
    given = [x._values() if hasattr(x, "_key") else x for x in (atol, rtol)]
    if given[1] is None:
        eps = np.finfo(A.dtype.numpy).eps
        given[1] = 0.0 if given[0] is not None else max(A.shape[-2:]) * float(eps)
    return (0.0 if given[0] is None else given[0]), given[1]


@composite("linalg_pinv(Tensor A, *, any atol=None, any rtol=None, bool hermitian=False) -> Tensor", **_LINALG)
def pinv(A: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """Pseudoinverses; singular values up to max(atol, rtol * largest) count as 0."""
    check_matrix("pinv", A)
    return call(pseudoinverse, A, *_cuts(A, atol, rtol), hermitian)


@composite("linalg_matrix_rank(Tensor A, *, any atol=None, any rtol=None, bool hermitian=False) -> Tensor", **_LINALG)
def matrix_rank(A: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """Number of singular values above max(atol, rtol * largest)."""
    check_matrix("matrix_rank", A)
    s = call(parts.eigvalsh, A.detach(), "L").abs() if hermitian else call(parts.singular_values, A.detach())
    if 0 in A.shape[-2:]:
        return (s > 0).sum(-1)
    absolute, relative = (s.new_tensor(x) for x in _cuts(A, atol, rtol))
    cut = absolute.maximum(relative * s.amax(-1))
    return (s > cut.unsqueeze(-1)).sum(-1)


# ------------------------------------------------------------------------------------------------------ determinants


def _det_gradient(grad: Any, matrix: Any, result: Any) -> Any:
    """det(A) * inv(A).mH; of singular matrices the cofactors, made of singular vectors."""
    if not true_somewhere(result == 0):
        scale = grad * (result.conj() if result.dtype.is_complex else result)
        return scale.unsqueeze(-1).unsqueeze(-1) * adjoint(call(inverse, matrix))
    u, s, vh = parts.parts_of_svd(matrix, True)
    size = s.shape[-1]
    places = positions(s, size)
    others = s.unsqueeze(-2).expand((*s.shape, size)).masked_fill(places.unsqueeze(1) == places, 1).prod(-1)
    turn = call(determinant, u) * call(determinant, vh)
    scale = grad * (turn.conj() if turn.dtype.is_complex else turn)
    return scale.unsqueeze(-1).unsqueeze(-1) * ((u * others.unsqueeze(-2)) @ vh)


determinant: Final[HostOperator] = HostOperator(
    "det(Tensor A) -> Tensor", "Determinants.", guarded("det", np.linalg.det), label="linalg.det",
    shape=lambda x: x[:-2],
    derivative=wirtinger(Derivative(A=lambda grad, A, result: _det_gradient(grad, A, result))), **MATRIX)


def _slogdet_gradient(grad: Any, matrix: Any, result: Any) -> Any:
    """Of the logarithm, grad * inv(A).mH; the sign of complex matrices turns with the imaginary part."""
    scale = grad.select(-1, 1)
    if grad.dtype.is_complex:
        scale = scale.real - (grad.select(-1, 0).conj() * result.select(-1, 0)).imag * 1j
    return scale.unsqueeze(-1).unsqueeze(-1) * adjoint(call(inverse, matrix))


def _slogdet(matrix: Any) -> Any:
    return packed([x[..., None] for x in np.linalg.slogdet(matrix)], matrix.ndim - 2)


signed_logarithm: Final[HostOperator] = HostOperator(
    "slogdet(Tensor A) -> Tensor", "Sign and logarithm of the determinant, packed.", guarded("slogdet", _slogdet),
    label="linalg.slogdet",
    shape=lambda x: (*x[:-2], 2),
    derivative=wirtinger(Derivative(A=lambda grad, A, result: _slogdet_gradient(grad, A, result))), **MATRIX)


@composite("linalg_det(Tensor A) -> Tensor", **_LINALG)
def det(A: Any) -> Any:
    """Determinants of square matrices."""
    check_matrix("det", A, square=True)
    return call(determinant, A)


@composite("det(Tensor input) -> Tensor")
def det_of(input: Any) -> Any:
    """Determinants of square matrices: ``linalg.det``."""
    return det(input)


@composite("linalg_slogdet(Tensor A) -> any", **_LINALG)
def slogdet(A: Any) -> Any:
    """Sign (or direction) and logarithm of the absolute value of determinants."""
    check_matrix("slogdet", A, square=True)
    both = call(signed_logarithm, A)
    size = both.select(-1, 1)
    return SlogdetResult(both.select(-1, 0), size.real if size.dtype.is_complex else size)


# ---------------------------------------------------------------------------------------------------- decompositions


@composite("linalg_cholesky(Tensor A, *, bool upper=False) -> Tensor", **_LINALG)
def cholesky(A: Any, *, upper: bool = False) -> Any:
    """Lower triangular L with L @ L.mH == A (upper: its adjoint) for positive definite Hermitian A.

    Raises:
        LinAlgError: A matrix is not positive definite.
    """
    check_matrix("cholesky", A, square=True)
    lower = call(parts.cholesky, A)
    return adjoint(lower) if upper else lower


@composite("linalg_qr(Tensor A, str mode='reduced') -> any", **_LINALG)
def qr(A: Any, mode: str = "reduced") -> Any:
    """Orthonormal Q and upper triangular R with Q @ R == A.

    Args:
        A: Matrices, [..., m, n].
        mode: ``reduced``: Q is [m, min(m, n)]. ``complete``: [m, m]. ``r``: Q is empty.

    Raises:
        ArgumentError: The mode is another one.
    """
    check_matrix("qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise ArgumentError("linalg.qr", f"mode={mode!r}", "the mode is 'reduced', 'complete' or 'r'",
                            "pass one of these")
    rows, columns = A.shape[-2:]
    q, r = unpacked(call(parts.qr, A, mode), parts.qr_shapes(rows, columns, mode))
    return QRResult(A.new_empty((0,)) if mode == "r" else q, r)


@composite("linalg_svd(Tensor A, bool full_matrices=True) -> any", **_LINALG)
def svd(A: Any, full_matrices: bool = True) -> Any:
    """U, S and Vh with A == U @ diag(S) @ Vh; singular values are largest first.

    Args:
        A: Matrices, [..., m, n].
        full_matrices: U is [m, m] and Vh [n, n]; else [m, k] and [k, n] for k = min(m, n).
    """
    check_matrix("svd", A)
    return SVDResult(*parts.parts_of_svd(A, full_matrices))


@composite("linalg_svdvals(Tensor A) -> Tensor", **_LINALG)
def svdvals(A: Any) -> Any:
    """Singular values, largest first."""
    check_matrix("svdvals", A)
    return call(parts.singular_values, A)


def _triangle(name: str, A: Any, UPLO: str) -> str:
    check_matrix(name, A, square=True)
    if UPLO.upper() not in ("L", "U"):
        raise ArgumentError(f"linalg.{name}", f"UPLO={UPLO!r}", "the triangle is 'L' or 'U'", "pass one of both")
    return UPLO.upper()


@composite("linalg_eigh(Tensor A, str UPLO='L') -> any", **_LINALG)
def eigh(A: Any, UPLO: str = "L") -> Any:
    """Eigenvalues, ascending, and orthonormal eigenvectors of Hermitian matrices, of which one triangle is read."""
    return EighResult(*parts.parts_of_eigh(A, _triangle("eigh", A, UPLO)))


@composite("linalg_eigvalsh(Tensor A, str UPLO='L') -> Tensor", **_LINALG)
def eigvalsh(A: Any, UPLO: str = "L") -> Any:
    """Eigenvalues of Hermitian matrices, ascending."""
    return call(parts.eigvalsh, A, _triangle("eigvalsh", A, UPLO))


@composite("linalg_eig(Tensor A) -> any", **_LINALG)
def eig(A: Any) -> Any:
    """Eigenvalues and eigenvectors of square matrices, complex."""
    check_matrix("eig", A, square=True)
    return EigResult(*unpacked(call(parts.eig, A), parts.eigh_shapes(A.shape[-1])))


@composite("linalg_eigvals(Tensor A) -> Tensor", **_LINALG)
def eigvals(A: Any) -> Any:
    """Eigenvalues of square matrices, complex."""
    check_matrix("eigvals", A, square=True)
    return call(parts.eigvals, A)


# ------------------------------------------------------------------------------------------------- norms and products


@composite("linalg_vector_norm(Tensor x, Scalar ord=2, any dim=None, bool keepdim=False, *, dtype? dtype=None) "
           "-> Tensor", **_LINALG)
def vector_norm(x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """(sum |x| ** ord) ** (1 / ord); inf and -inf are the extremes, 0 counts what is not zero."""
    x = x if dtype is None else x.to(dtype)
    axes = normalize_axes("linalg.vector_norm", dim, x.ndim)
    if ord == 0:
        counted = (x != 0).sum(axes, keepdim)
        return counted.to(x.abs().dtype)
    size = x.abs()
    if math.isinf(ord):
        return size.amax(axes, keepdim) if ord > 0 else size.amin(axes, keepdim)
    if ord == 1:
        return size.sum(axes, keepdim)
    if ord == 2:
        return _length(size, axes, keepdim)
    return (size ** ord).sum(axes, keepdim) ** (1 / ord)


def _length(size: Any, axes: Any, keepdim: bool) -> Any:
    """Euclidean length; its gradient at 0 is 0."""
    squares = (size * size).sum(axes, keepdim)
    zero = squares == 0
    return squares.masked_fill(zero, 1).sqrt().masked_fill(zero, 0)


@composite("linalg_matrix_norm(Tensor A, any ord='fro', int[] dim=(-2, -1), bool keepdim=False, *, dtype? dtype=None) "
           "-> Tensor", **_LINALG)
def matrix_norm(A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Norms of matrices along two dimensions: 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2.

    Raises:
        ArgumentError: The order is another one.
    """
    check_matrix("matrix_norm", A)
    A = A if dtype is None else A.to(dtype)
    rows, columns = (d % A.ndim for d in dim)
    if ord == "fro":
        return _length(A.abs(), (rows, columns), keepdim)
    if ord in ("nuc", 2, -2):
        values = call(parts.singular_values, A.movedim((rows, columns), (-2, -1)))
        result = values.sum(-1) if ord == "nuc" else values.amax(-1) if ord == 2 else values.amin(-1)
    elif ord in (1, -1, math.inf, -math.inf):
        first, second = (rows, columns) if ord in (1, -1) else (columns, rows)
        sums = A.abs().sum(first, True)
        result = (sums.amax((second,), True) if ord > 0 else sums.amin((second,), True)).squeeze((rows, columns))
    else:
        raise ArgumentError("linalg.matrix_norm", f"ord={ord!r}",
                            "the order is 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2", "pass one of these")
    if keepdim:
        for axis in sorted((rows, columns)):
            result = result.unsqueeze(axis)
    return result


@composite("linalg_norm(Tensor A, any ord=None, any dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
           **_LINALG)
def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """A norm of vectors or matrices; without an order, the Euclidean length of all elements."""
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    pair = A.ndim == 2 if dim is None else not isinstance(dim, int) and len(dim) == 2
    if isinstance(ord, str) or pair:
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return vector_norm(A, ord, dim, keepdim, dtype=dtype)


@composite("linalg_matrix_power(Tensor A, int n) -> Tensor", **_LINALG)
def matrix_power(A: Any, n: int) -> Any:
    """A @ A @ ..., n times; negative powers are those of the inverse."""
    check_matrix("matrix_power", A, square=True)
    if n < 0:
        A, n = inv(A), -n
    result = None
    while n:
        if n & 1:
            result = A if result is None else result @ A
        n >>= 1
        A = A @ A if n else A
    if result is None:
        places = positions(A, A.shape[-1])
        return (places.unsqueeze(1) == places).to(A.dtype).expand(tuple(A.shape)).contiguous()
    return result


@composite("linalg_cross(Tensor input, Tensor other, *, int dim=-1) -> Tensor", **_LINALG)
def cross(input: Any, other: Any, *, dim: int = -1) -> Any:
    """Vector product along a dimension of size 3."""
    return crossed("linalg.cross", input, other, dim)


@composite("linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor", **_LINALG)
def vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """Inner products along a dimension; the first operand is conjugated."""
    return ((x.conj() if x.dtype.is_complex else x) * y).sum(dim)


@composite("linalg_diagonal(Tensor A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", **_LINALG)
def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Diagonals of matrices, as ``diagonal`` with the last two dimensions."""
    return A.diagonal(offset, dim1, dim2)
