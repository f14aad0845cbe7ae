"""Matrix decompositions and their derivatives.

A decomposition with several results is one record, whose result holds all of them in one array (``packed``), so that
one node of the graph has one gradient; the public functions unpack it. The formulas of the derivatives are those of
S. F. Walter and L. Lehmann ("Algorithmic differentiation of linear algebra functions", 2010) and M. Giles ("An extended
collection of matrix derivative results", 2008), for real matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tensocket_core import functions
from tensocket_core.autograd.conjugate import wirtinger
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_plugins.contract.errors import AutogradError, DtypeError, LinAlgError, ShapeError
from tensocket_plugins.kit import host_linalg

from ..indexing.selection import positions
from ..kinds.host_library import HostOperator, same_shape
from ..reductions.value_checks import any_true

#: Derivatives by a phase up to which a loss counts as independent of the phase.
_PHASES: Final = 1e-2
Shapes = Sequence[tuple[int, ...]]
#: Record options of composites in the namespace of linear algebra.
LINALG: Final[dict[str, Any]] = {"method": False, "namespace": "linalg"}
MATRIX: Final[dict[str, Any]] = {"kinds": "fc", "halves": False, "method": False, "function": False,
                                "replayable": True}


def guarded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` with NumPy's errors raised as the library's own."""

    def run(*args: Any) -> Any:
        try:
            return function(*args)
        except host_linalg.NotFinite as error:
            raise LinAlgError(f"linalg.{name}", str(error), "infinities and NaN have no such decomposition or inverse",
                              "replace them, as torch.nan_to_num() does") from None
        except np.linalg.LinAlgError as error:
            raise LinAlgError(f"linalg.{name}", str(error).lower(), "the matrix has no such decomposition or inverse",
                              "check its rank and definiteness") from None

    return run


def check_matrix(name: str, matrix: Any, *, square: bool = False) -> None:
    """Refuse a tensor that is not a (square) matrix.

    Raises:
        ShapeError: It has fewer than two dimensions, or two different last sizes.
    """
    if matrix.ndim < 2 or (square and matrix.shape[-1] != matrix.shape[-2]):
        raise ShapeError(f"linalg.{name}", f"a tensor of shape {list(matrix.shape)}",
                         "matrices are square" if square else "matrices have at least 2 dimensions",
                         "pass a matrix, or a batch of them")


def check_floating(operator: str, matrix: Any) -> None:
    """Refuse an integer matrix.

    Raises:
        DtypeError: The dtype is an integer one.
    """
    if matrix.dtype.category < 2:
        raise DtypeError(operator, f"dtype {matrix.dtype.name}", "elements are floats or complex numbers",
                         "convert with .to(dtype)")


def adjoint(matrix: Any) -> Any:
    """Return the conjugate transpose."""
    return matrix.mT.conj() if matrix.dtype.is_complex else matrix.mT


def diagonal_matrix(values: Any) -> Any:
    """Return square matrices with the last dimension on their diagonals."""
    places = positions(values, values.shape[-1])
    return values.unsqueeze(-1).expand((*values.shape, values.shape[-1])).masked_fill(places.unsqueeze(1) != places, 0)


# --------------------------------------------------------------------------------------------------- several results


def packed(parts: Sequence[Any], lead: int) -> Any:
    """Join arrays with equal leading sizes to one, with the other dimensions flattened, in their widest dtype."""
    batch = parts[0].shape[:lead]
    return np.concatenate([np.asarray(p).reshape((*batch, math.prod(p.shape[lead:]))) for p in parts], -1)


def unpacked(value: Any, shapes: Shapes) -> tuple[Any, ...]:
    """Return the parts of a packed tensor."""
    lead = tuple(value.shape[:-1])
    parts, start = [], 0
    for shape in shapes:
        size = math.prod(shape)
        parts.append(value.narrow(-1, start, size).reshape((*lead, *shape)))
        start += size
    return tuple(parts)


def _packed_shape(matrix: tuple[int, ...], parts: Shapes) -> tuple[int, ...]:
    return (*matrix[:-2], sum(map(math.prod, parts)))


def _with_lead(matrix: tuple[int, ...], parts: Shapes) -> list[tuple[int, ...]]:
    """Return the shapes of results for a batch."""
    return [(*matrix[:-2], *part) for part in parts]


def _or_zeros(grad: Any, result: Any) -> Any:
    """Return the gradient of a result, zeros if none arrived."""
    return result.new_zeros(tuple(result.shape)) if grad is None else grad


# ------------------------------------------------------------------------------------------------- Cholesky, QR


def _half_lower(matrix: Any) -> Any:
    """Return the lower triangle with a halved diagonal."""
    return (matrix.tril() + matrix.tril(-1)) * 0.5


def _cholesky_gradient(grad: Any, factor: Any) -> Any:
    upper = adjoint(factor)
    middle = _half_lower(upper @ grad)
    left = functions.linalg_solve_triangular(upper, middle, upper=True)
    full = functions.linalg_solve_triangular(factor, left, upper=False, left=False)
    return (full + adjoint(full)) * 0.5


cholesky: Final[HostOperator] = HostOperator(
    "cholesky(Tensor A) -> Tensor", "The lower triangular L with L @ L.mH == A.",
    guarded("cholesky", host_linalg.cholesky),
    label="linalg.cholesky",
    shape=same_shape,
    derivative=wirtinger(Derivative(A=lambda grad, result: _cholesky_gradient(grad, result))), **MATRIX)


def qr_shapes(rows: int, columns: int, mode: str) -> Shapes:
    """Return the sizes of both factors."""
    inner = rows if mode == "complete" else min(rows, columns)
    return ((rows, inner), (inner, columns))


def _qr(matrix: Any, mode: str) -> Any:
    # Some versions of numpy.linalg.qr fail on empty batches and on empty matrices.
    return host_linalg.qr(matrix, "complete" if mode == "complete" else "reduced")


def _qr_gradient(grads: tuple[Any, Any], q: Any, r: Any, mode: str) -> Any:
    rows, columns = q.shape[-2], r.shape[-1]
    if mode == "r":
        raise AutogradError("linalg.qr", "the gradient of mode='r'", "the derivative depends on Q, which is left out",
                            "use mode='reduced'")
    if mode == "complete" and rows > columns:
        raise AutogradError("linalg.qr", f"mode='complete' of {rows} x {columns} matrices",
                            "only the first columns of a complete Q are determined", "use mode='reduced'")
    grad_q, grad_r = _or_zeros(grads[0], q), _or_zeros(grads[1], r)
    if rows >= columns:
        return _tall_qr_gradient(q, r, grad_q, grad_r)
    square, rest = r.narrow(-1, 0, rows), q @ r.narrow(-1, rows, columns - rows)
    grad_rest = grad_r.narrow(-1, rows, columns - rows)
    first = _tall_qr_gradient(q, square, grad_q + rest @ adjoint(grad_rest), grad_r.narrow(-1, 0, rows))
    return functions.cat([first, q @ grad_rest], -1)


def _tall_qr_gradient(q: Any, r: Any, grad_q: Any, grad_r: Any) -> Any:
    middle = r @ adjoint(grad_r) - adjoint(grad_q) @ q
    strict = middle.tril(-1)
    middle = strict + adjoint(strict) + diagonal_matrix(_real(middle.diagonal(0, -2, -1)))
    return adjoint(functions.linalg_solve_triangular(r, adjoint(grad_q + q @ middle), upper=True))


qr: Final[HostOperator] = HostOperator(
    "qr(Tensor A, str mode) -> (Tensor, Tensor)", "Orthonormal Q and upper triangular R with Q @ R == A.",
    guarded("qr", _qr), label="linalg.qr",
    shape=lambda x, mode: _with_lead(x, qr_shapes(x[-2], x[-1], mode)), result=("same", "same"),
    derivative=wirtinger(Derivative(
        A=lambda grads, result0, result1, mode: _qr_gradient(grads, result0, result1, mode))), **MATRIX)

# ------------------------------------------------------------------------------------------------ singular values


def svd_shapes(rows: int, columns: int, full: bool) -> Shapes:
    """Return the sizes of U, S and Vh."""
    inner = min(rows, columns)
    return ((rows, rows if full else inner), (inner,), (columns if full else inner, columns))


def _real(value: Any) -> Any:
    return value.real if value.dtype.is_complex else value


def _check_phases(operator: str, phases: Any) -> None:
    """Check that a loss does not change when vectors of a decomposition rotate by their arbitrary phases.

    Args:
        operator: The operator's name.
        phases: Derivatives of the loss by these phases.

    Raises:
        AutogradError: The loss changes, so it has no derivative.
    """
    if phases._device_state.holds_data and any_true(phases.abs() > _PHASES):
        raise AutogradError(operator, "a loss that depends on the phases of its vectors",
                            "vectors are unique up to a factor of length 1, so that such a loss is ill-defined",
                            "use functions of them that do not, such as absolute values or projectors")


def _differences(values: Any) -> Any:
    """Return values[j] - values[i], and 1 on the diagonal."""
    gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
    places = positions(values, values.shape[-1])
    return gaps.masked_fill(places.unsqueeze(1) == places, 1)


def _svd_gradient(grads: tuple[Any, Any, Any], u: Any, s: Any, vh: Any) -> Any:
    rows, columns, inner = u.shape[-2], vh.shape[-1], s.shape[-1]
    grad_u, grad_s, grad_vh = map(_or_zeros, grads, (u, s, vh))
    u, grad_u = (x.narrow(-1, 0, inner) for x in (u, grad_u))
    vh, grad_vh = (x.narrow(-2, 0, inner) for x in (vh, grad_vh))
    gaps = _differences(s * s)
    wide = s.unsqueeze(-2)
    turned_u, turned_v = adjoint(u) @ grad_u, vh @ adjoint(grad_vh)
    core = (turned_u - adjoint(turned_u)) / gaps * wide
    core = core + s.unsqueeze(-1) * ((turned_v - adjoint(turned_v)) / gaps)
    if core.dtype.is_complex:
        _check_phases("linalg.svd", (turned_u + turned_v).diagonal(0, -2, -1).imag)
    core = _fixed_phases(core, turned_u, s) + diagonal_matrix(grad_s)
    total = u @ core @ vh
    if rows > inner:
        outside = grad_u - u @ turned_u
        total = total + (outside / wide) @ vh
    if columns > inner:
        outside = grad_vh - adjoint(turned_v) @ vh
        total = total + u @ (outside / s.unsqueeze(-1))
    return total


def _fixed_phases(core: Any, turned: Any, s: Any) -> Any:
    """Return ``core`` with the contribution of the phases, which only complex matrices have."""
    if not core.dtype.is_complex:
        return core
    places = positions(core, core.shape[-1])
    plain = core.masked_fill(places.unsqueeze(1) == places, 0)
    phase = turned.diagonal(0, -2, -1).imag / s
    return plain + diagonal_matrix(phase * 1j)


svd: Final[HostOperator] = HostOperator(
    "svd(Tensor A, bool full_matrices) -> (Tensor, Tensor, Tensor)", "U, S and Vh with A == U @ diag(S) @ Vh.",
    guarded("svd", host_linalg.svd), label="linalg.svd",
    shape=lambda x, full: _with_lead(x, svd_shapes(x[-2], x[-1], full)), result=("same", "real", "same"),
    derivative=wirtinger(Derivative(
        A=lambda grads, result0, result1, result2: _svd_gradient(grads, result0, result1, result2))), **MATRIX)


def _values_gradient(grad: Any, matrix: Any) -> Any:
    u, _, vh = call(svd, matrix, False)
    return (u * grad.unsqueeze(-2)) @ vh


singular_values: Final[HostOperator] = HostOperator(
    "svdvals(Tensor A) -> Tensor", "Singular values, largest first.",
    guarded("svdvals", host_linalg.svdvals), label="linalg.svdvals",
    shape=lambda x: (*x[:-2], min(x[-2:])), result="real",
    derivative=wirtinger(Derivative(A=lambda grad, A: _values_gradient(grad, A))), **MATRIX)

# --------------------------------------------------------------------------------------------------- eigenvalues


def eigh_shapes(size: int) -> Shapes:
    """Return the sizes of eigenvalues and eigenvectors."""
    return ((size,), (size, size))


def _eigh_gradient(grads: tuple[Any, Any], values: Any, vectors: Any) -> Any:
    size = values.shape[-1]
    grad_values, grad_vectors = _or_zeros(grads[0], values), _or_zeros(grads[1], vectors)
    turned = adjoint(vectors) @ grad_vectors
    if turned.dtype.is_complex:
        _check_phases("linalg.eigh", turned.diagonal(0, -2, -1).imag)
    turned = (turned - adjoint(turned)) * 0.5  # the Hermitian one of all gradients with the same effect
    places = positions(turned, size)
    core = (turned / _differences(values)).masked_fill(places.unsqueeze(1) == places, 0)
    return vectors @ (core + diagonal_matrix(grad_values)) @ adjoint(vectors)


eigh: Final[HostOperator] = HostOperator(
    "eigh(Tensor A, str UPLO) -> (Tensor, Tensor)", "Eigenvalues, ascending, and eigenvectors of Hermitian matrices.",
    guarded("eigh", host_linalg.eigh), label="linalg.eigh",
    shape=lambda x, triangle: _with_lead(x, eigh_shapes(x[-1])), result=("real", "same"),
    derivative=wirtinger(Derivative(
        A=lambda grads, result0, result1: _eigh_gradient(grads, result0, result1))), **MATRIX)


def _eigvalsh_gradient(grad: Any, matrix: Any, triangle: str) -> Any:
    vectors = call(eigh, matrix, triangle)[1]
    return (vectors * grad.unsqueeze(-2)) @ adjoint(vectors)


eigvalsh: Final[HostOperator] = HostOperator(
    "eigvalsh(Tensor A, str UPLO) -> Tensor", "Eigenvalues of Hermitian matrices, ascending.",
    guarded("eigvalsh", host_linalg.eigvalsh), label="linalg.eigvalsh",
    shape=lambda x, triangle: x[:-1], result="real",
    derivative=wirtinger(Derivative(A=lambda grad, A, UPLO: _eigvalsh_gradient(grad, A, UPLO))), **MATRIX)


def _eig(matrix: Any) -> Any:
    return packed(host_linalg.eig(matrix), matrix.ndim - 2)


def _eig_gradient(grad: Any, matrix: Any, result: Any) -> Any:
    size = matrix.shape[-1]
    (values, vectors), (grad_values, grad_vectors) = (unpacked(x, eigh_shapes(size)) for x in (result, grad))
    return _through_vectors(values, vectors, grad_values, grad_vectors, matrix)


def _through_vectors(values: Any, vectors: Any, grad_values: Any, grad_vectors: Any, matrix: Any) -> Any:
    turned = adjoint(vectors) @ grad_vectors
    _check_phases("linalg.eig", turned.diagonal(0, -2, -1).imag)
    lengths = turned.diagonal(0, -2, -1).real
    core = turned - (adjoint(vectors) @ vectors) * lengths.unsqueeze(-2)
    places = positions(core, core.shape[-1])
    core = (core / _differences(values).conj()).masked_fill(places.unsqueeze(1) == places, 0)
    total = functions.linalg_solve(adjoint(vectors), (core + diagonal_matrix(grad_values)) @ adjoint(vectors))
    return total if matrix.dtype.is_complex else total.real


eig: Final[HostOperator] = HostOperator(
    "eig(Tensor A) -> Tensor", "Eigenvalues and eigenvectors of length 1, packed.", guarded("eig", _eig),
    label="linalg.eig",
    shape=lambda x: _packed_shape(x, eigh_shapes(x[-1])), result="complex",
    derivative=wirtinger(Derivative(A=lambda grad, A, result: _eig_gradient(grad, A, result))), **MATRIX)
eigvals: Final[HostOperator] = HostOperator(
    "eigvals(Tensor A) -> Tensor", "Eigenvalues.", guarded("eigvals", host_linalg.eigvals),
    label="linalg.eigvals",
    shape=lambda x: x[:-1], result="complex",
    derivative=wirtinger(Derivative(A=lambda grad, A: _eigvals_gradient(grad, A))), **MATRIX)


def _eigvals_gradient(grad: Any, matrix: Any) -> Any:
    vectors = unpacked(call(eig, matrix), eigh_shapes(matrix.shape[-1]))[1]
    total = functions.linalg_solve(adjoint(vectors), diagonal_matrix(grad) @ adjoint(vectors))
    return total if matrix.dtype.is_complex else total.real
