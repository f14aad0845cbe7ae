"""Linear algebra: decompositions, norms and products. ``linalg_NAME`` is ``tensocket.linalg.NAME``."""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.results import named_result
from tensocket_core.geometry import normalize_axes, normalize_axis
from tensocket_core.promotion import promote_types
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError

from ..array_paths import array_path
from ..indexing.selection import crossed, positions
from ..kinds.composite import composite
from ..reductions.reductions import length
from ..reductions.value_checks import promoted_for_arithmetic
from . import decompositions as parts
from . import matrix_paths as paths
from .decompositions import LINALG, adjoint, check_matrix, unpacked
from .inverses import inv

#: Results with PyTorch's names.
QRResult: Final = named_result("linalg_qr", ("Q", "R"))
SVDResult: Final = named_result("linalg_svd", ("U", "S", "Vh"))
EighResult: Final = named_result("linalg_eigh", ("eigenvalues", "eigenvectors"))
EigResult: Final = named_result("linalg_eig", ("eigenvalues", "eigenvectors"))

# ---------------------------------------------------------------------------------------------------- decompositions


@composite("linalg_cholesky(Tensor A, *, bool upper=False) -> Tensor",
           host_path=array_path(paths.cholesky, label="linalg.cholesky"), replayable=True, **LINALG)
def cholesky(A: Any, *, upper: bool = False) -> Any:
    """Return lower triangular L with L @ L.mH == A (upper: its adjoint) for positive definite Hermitian A.

    Raises:
        LinAlgError: A matrix is not positive definite.
    """
    check_matrix("cholesky", A, square=True)
    lower = call(parts.cholesky, A)
    return adjoint(lower) if upper else lower


@composite("linalg_qr(Tensor A, str mode='reduced') -> any",
           host_path=array_path(paths.qr, QRResult, label="linalg.qr"), replayable=True, **LINALG)
def qr(A: Any, mode: str = "reduced") -> Any:
    """Return orthonormal Q and upper triangular R with Q @ R == A.

    Args:
        A: Matrices, [..., m, n].
        mode: ``reduced``: Q is [m, min(m, n)]. ``complete``: [m, m]. ``r``: Q is empty.

    Raises:
        ArgumentError: The mode is unknown.
    """
    check_matrix("qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise ArgumentError("linalg.qr", f"mode={mode!r}", "the mode is 'reduced', 'complete' or 'r'",
                            "pass one of these")
    q, r = call(parts.qr, A, mode)
    return QRResult(A.new_empty((0,)) if mode == "r" else q, r)


def _check_driver(driver: str | None) -> None:
    if driver is not None:
        raise ArgumentError("linalg.svd", f"driver={driver!r}", "the driver is a choice of CUDA's library alone",
                            "leave it out")


@composite("linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> any",
           host_path=array_path(paths.svd, SVDResult, label="linalg.svd"), replayable=True, **LINALG)
def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """Return U, S and Vh with A == U @ diag(S) @ Vh; singular values are in descending order.

    Args:
        A: Matrices, [..., m, n].
        full_matrices: Whether U is [m, m] and Vh [n, n]; else they are [m, k] and [k, n] for k = min(m, n).
        driver: None; other drivers are routines of CUDA's library.

    Raises:
        ArgumentError: A driver is given.
    """
    check_matrix("svd", A)
    _check_driver(driver)
    return SVDResult(*call(parts.svd, A, full_matrices))


@composite("linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor",
           host_path=array_path(paths.svdvals, label="linalg.svdvals"), replayable=True, **LINALG)
def svdvals(A: Any, *, driver: str | None = None) -> Any:
    """Return singular values in descending order; ``driver`` is that of ``svd``."""
    check_matrix("svdvals", A)
    _check_driver(driver)
    return call(parts.singular_values, A)


def _triangle(name: str, A: Any, UPLO: str) -> str:
    check_matrix(name, A, square=True)
    if UPLO.upper() not in ("L", "U"):
        raise ArgumentError(f"linalg.{name}", f"UPLO={UPLO!r}", "the triangle is 'L' or 'U'", "pass one of both")
    return UPLO.upper()


@composite("linalg_eigh(Tensor A, str UPLO='L') -> any",
           host_path=array_path(paths.eigh, EighResult, label="linalg.eigh"), replayable=True, **LINALG)
def eigh(A: Any, UPLO: str = "L") -> Any:
    """Return eigenvalues, ascending, and orthonormal eigenvectors of Hermitian matrices; only one triangle is read."""
    return EighResult(*call(parts.eigh, A, _triangle("eigh", A, UPLO)))


@composite("linalg_eigvalsh(Tensor A, str UPLO='L') -> Tensor",
           host_path=array_path(paths.eigvalsh, label="linalg.eigvalsh"), replayable=True, **LINALG)
def eigvalsh(A: Any, UPLO: str = "L") -> Any:
    """Return the eigenvalues of Hermitian matrices, ascending."""
    return call(parts.eigvalsh, A, _triangle("eigvalsh", A, UPLO))


@composite("linalg_eig(Tensor A) -> any",
           host_path=array_path(paths.eig, EigResult, label="linalg.eig"), **LINALG)
def eig(A: Any) -> Any:
    """Return the eigenvalues and eigenvectors of square matrices, complex."""
    check_matrix("eig", A, square=True)
    return EigResult(*unpacked(call(parts.eig, A), parts.eigh_shapes(A.shape[-1])))


@composite("linalg_eigvals(Tensor A) -> Tensor",
           host_path=array_path(paths.eigvals, label="linalg.eigvals"), **LINALG)
def eigvals(A: Any) -> Any:
    """Return the eigenvalues of square matrices, complex."""
    check_matrix("eigvals", A, square=True)
    return call(parts.eigvals, A)


# ------------------------------------------------------------------------------------------------- norms and products


@composite("linalg_vector_norm(Tensor x, Scalar ord=2, any dim=None, bool keepdim=False, *, dtype? dtype=None) "
           "-> Tensor", **LINALG)
def vector_norm(x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return (sum |x| ** ord) ** (1 / ord); inf and -inf give the extremes, 0 counts nonzero elements."""
    x = _with_dtype("linalg.vector_norm", x, dtype)
    axes = normalize_axes("linalg.vector_norm", dim, x.ndim)
    if ord == 0:
        # This keeps a gradient of zeros instead of none.
        return x.abs().masked_fill(x != 0, 1).sum(axes, keepdim)
    if ord == 2:
        return _length(x, axes, keepdim)
    size = x.abs()
    if (ord < 0 or math.isinf(ord)) and 0 in [size.shape[k] for k in axes or range(size.ndim)]:
        raise ShapeError("linalg.vector_norm", f"a tensor of shape {list(x.shape)}, ord={ord}, dim={dim}",
                         "no elements have no extreme value", "pass a tensor with elements along the dims")
    if math.isinf(ord):
        return size.amax(axes, keepdim) if ord > 0 else size.amin(axes, keepdim)
    if ord == 1:
        return size.sum(axes, keepdim)
    kept, size = promoted_for_arithmetic(size)
    return _root(_root(size, ord).sum(axes, keepdim), 1 / ord).to(kept)


def _length(x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    """Return Euclidean lengths; all dimensions, or a single one, have a plan for their layout."""
    dim = None if len(axes) == x.ndim else axes[0] if len(axes) == 1 else axes
    return call(length, x.abs() if x.dtype.is_complex else x, dim, keepdim)


def _with_dtype(operator: str, x: Any, dtype: Any) -> Any:
    """Return the operand in the dtype that the norm is computed in.

    Raises:
        DtypeError: A dtype is neither real nor complex, only one is complex, or the given one is narrower.
    """
    if x.dtype.category < 2:
        raise DtypeError(operator, f"dtype {x.dtype.name}", "elements are floats or complex numbers",
                         "convert with .to(dtype)")
    if dtype is None or dtype is x.dtype:
        return x
    if dtype.category < 2 or dtype.is_complex != x.dtype.is_complex:
        raise DtypeError(operator, f"dtype={dtype.name} for elements of dtype {x.dtype.name}",
                         "dtype is real for real elements, and complex for complex ones", "pass another dtype")
    if promote_types(x.dtype, dtype) is not dtype:
        raise DtypeError(operator, f"dtype={dtype.name} for elements of dtype {x.dtype.name}",
                         "elements convert to dtype without narrowing", "convert them with .to(dtype) first")
    return x.to(dtype)


def _root(size: Any, power: float) -> Any:
    """Return ``size ** power``; an infinite slope at 0 becomes gradient 0, for inverses also at inf."""
    if power >= 1:
        return size ** power
    zero = size == 0
    if power > 0:
        return (size.masked_fill(zero, 1) ** power).masked_fill(zero, 0)
    infinite = size == math.inf
    safe = size.masked_fill(zero | infinite, 1) ** power
    return safe.masked_fill(zero, math.inf).masked_fill(infinite, 0)


def _extreme(values: Any, axis: int, order: float) -> Any:
    """Reduce a dimension, and keep it, to its largest value (0 if empty), or for negative orders to its smallest."""
    if order < 0:
        return values.amin((axis,), True)
    return values.amax((axis,), True) if values.shape[axis] else values.sum((axis,), True)


@composite("linalg_matrix_norm(Tensor A, any ord='fro', int[] dim=(-2, -1), bool keepdim=False, *, dtype? dtype=None) "
           "-> Tensor", **LINALG)
def matrix_norm(A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return norms of matrices along two dimensions: 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2.

    Raises:
        ArgumentError: The order is unknown.
    """
    check_matrix("matrix_norm", A)
    A = _with_dtype("linalg.matrix_norm", A, dtype)
    if isinstance(dim, int) or len(dim) != 2:
        raise ArgumentError("linalg.matrix_norm", f"dim={dim}", "dim must be a 2-tuple", "pass two dims")
    normalize_axes("linalg.matrix_norm", dim, A.ndim)  # refuses equal dimensions, and sorts
    rows, columns = (normalize_axis("linalg.matrix_norm", d, A.ndim) for d in dim)
    if ord == "fro":
        return _length(A, (rows, columns), keepdim)
    if ord in ("nuc", 2, -2):
        values = call(parts.singular_values, A.movedim((rows, columns), (-2, -1)))
        result = values.sum(-1) if ord == "nuc" else _extreme(values, -1, ord).squeeze(-1)
    elif ord in (1, -1, math.inf, -math.inf):
        first, second = (rows, columns) if ord in (1, -1) else (columns, rows)
        result = _extreme(A.abs().sum(first, True), second, ord).squeeze((rows, columns))
    else:
        raise ArgumentError("linalg.matrix_norm", f"ord={ord!r}",
                            "the order is 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2", "pass one of these")
    if keepdim:
        for axis in sorted((rows, columns)):
            result = result.unsqueeze(axis)
    return result


@composite("linalg_norm(Tensor A, any ord=None, any dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
           **LINALG)
def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return a norm of vectors or matrices; without an order, the Euclidean length of all elements."""
    count = A.ndim if dim is None else 1 if isinstance(dim, int) else len(dim)
    if dim is not None and count not in (1, 2):
        raise ArgumentError("linalg.norm", f"dim={dim}", "a norm is over one dim or two", "pass them, or no dim")
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if count not in (1, 2) and not isinstance(ord, str):
        raise ArgumentError("linalg.norm", f"ord={ord!r}, dim={dim} of a tensor of shape {list(A.shape)}",
                            "an order is one of vectors or of matrices", "pass one dim or two")
    if isinstance(ord, str) or count == 2:
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return vector_norm(A, ord, dim, keepdim, dtype=dtype)


@composite("linalg_matrix_power(Tensor A, int n) -> Tensor",
           host_path=array_path(paths.matrix_power, label="linalg.matrix_power"), **LINALG)
def matrix_power(A: Any, n: int) -> Any:
    """Return A @ A @ ..., n times; negative powers are those of the inverse."""
    check_matrix("matrix_power", A, square=True)
    if n == 1:
        return A.clone()
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
        diagonal = places.unsqueeze(1) == places
        return A.masked_fill(diagonal, 1).masked_fill(~diagonal, 0)
    return result


@composite("linalg_cross(Tensor input, Tensor other, *, int dim=-1) -> Tensor", **LINALG)
def cross(input: Any, other: Any, *, dim: int = -1) -> Any:
    """Return vector products along a dimension of size 3."""
    return crossed("linalg.cross", input, other, dim)


@composite("linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor", **LINALG)
def vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """Return inner products along a dimension; the first operand is conjugated."""
    return ((x.conj() if x.dtype.is_complex else x) * y).sum(dim)


@composite("linalg_diagonal(Tensor A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor~", **LINALG)
def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Return the diagonals of matrices: ``diagonal`` of the last two dimensions."""
    return A.diagonal(offset, dim1, dim2)
