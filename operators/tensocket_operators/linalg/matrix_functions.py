"""Functions of matrices, and PyTorch's older names of linear algebra: ``norm``, ``qr``, ``svd``, ``pinverse`` ..."""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.autograd.conjugate import wirtinger
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.results import named_result
from tensocket_core.geometry import normalize_axes
from tensocket_plugins.contract.errors import ArgumentError, ShapeError

from ..array_paths import array_path
from ..indexing.selection import positions
from ..kinds.composite import composite
from ..kinds.view import Custom
from . import decompositions as parts
from . import matrix_paths as paths
from .decompositions import LINALG, adjoint, check_matrix
from .inverses import pinv, pinv_path, slogdet
from .linalg import cholesky, matrix_norm, matrix_power, vector_norm
from .linalg import qr as linalg_qr

#: Results with PyTorch's names.
QRResult: Final = named_result("qr", ("Q", "R"))
SVDResult: Final = named_result("svd", ("U", "S", "V"))
SlogdetOfResult: Final = named_result("slogdet", ("sign", "logabsdet"))

# --------------------------------------------------------------------------------------------------- exponentials

#: Largest 1-norms for which the Taylor polynomial of degree 18 has the precision of float32 and float64; table 2 of
#: P. Bader, S. Blanes, F. Casas, "Computing the matrix exponential with an optimized Taylor polynomial" (2019).
_BOUNDS: Final = {True: 1.09, False: 3.01}
_DEGREE: Final = 18
#: Terms that one power of the matrix multiplies in the scheme of M. S. Paterson and L. J. Stockmeyer (1973).
_BLOCK: Final = 4


def _taylor(matrix: Any) -> Any:
    """Return the Taylor polynomial of exp: blocks of a few terms, put together by Horner's rule in a power of the
    matrix.
    """
    places = positions(matrix, matrix.shape[-1])
    powers = [(places.unsqueeze(1) == places).to(matrix.dtype), matrix]
    while len(powers) <= _BLOCK:
        powers.append(powers[-1] @ matrix)
    result = None
    for first in range(_DEGREE // _BLOCK * _BLOCK, -1, -_BLOCK):
        terms = [powers[k - first] * (1 / math.factorial(k))
                 for k in range(first, min(first + _BLOCK, _DEGREE + 1))]
        block = sum(terms[1:], terms[0])
        result = block if result is None else result @ powers[_BLOCK] + block
    return result


def _exponential(entry: Any, matrix: Any) -> Any:
    """exp(A) == exp(A / 2 ** s) ** (2 ** s), with an s for every matrix of the batch; NaN where A is not finite."""
    if not matrix.numel() or not entry.holds_data:
        return matrix.new_empty(tuple(matrix.shape))
    sizes = matrix.abs().sum(-2).amax(-1)
    finite = sizes < math.inf
    sizes = functions.where(finite, sizes, 0)
    wide = matrix.dtype.itemsize // (2 if matrix.dtype.is_complex else 1) > 4
    halvings = (sizes / _BOUNDS[wide]).clamp(min=1).log2().ceil().unsqueeze(-1).unsqueeze(-1)
    finite = finite.unsqueeze(-1).unsqueeze(-1)
    result = _taylor(functions.where(finite, matrix, 0) * halvings.neg().exp2())
    for done in range(int(halvings.amax().item())):
        result = functions.where(halvings > done, result @ result, result)
    return functions.where(finite, result, math.nan)


def _exponential_gradient(grad: Any, matrix: Any) -> Any:
    """Return the upper right block of exp([[A, G], [0, A]]): R. Mathias, "A chain rule for matrix functions" (1996)."""
    turned, size = adjoint(matrix), matrix.shape[-1]
    above = functions.cat([turned, grad], -1)
    below = functions.cat([turned.new_zeros(tuple(turned.shape)), turned], -1)
    return call(exponential, functions.cat([above, below], -2)).narrow(-2, 0, size).narrow(-1, size, size)


exponential: Final = Custom(
    "matrix_exp(Tensor A) -> Tensor", "exp(A) of square matrices.", _exponential, method=False, function=False,
    derivative=wirtinger(Derivative(A=lambda grad, A: _exponential_gradient(grad, A))))


@composite("linalg_matrix_exp(Tensor A) -> Tensor", **LINALG)
def linalg_matrix_exp(A: Any) -> Any:
    """1 + A + A @ A / 2 + A @ A @ A / 6 + ...

    Raises:
        DtypeError: The matrix is made of integers.
    """
    check_matrix("matrix_exp", A, square=True)
    parts.check_floating("linalg.matrix_exp", A)
    return call(exponential, A)


@composite("matrix_exp(Tensor input) -> Tensor")
def matrix_exp(input: Any) -> Any:
    """``linalg.matrix_exp``."""
    return linalg_matrix_exp(input)


# ------------------------------------------------------------------------------------------------------- numbers


@composite("linalg_cond(Tensor A, any p=None) -> Tensor",
           host_path=array_path(paths.cond, label="linalg.cond"), **LINALG)
def cond(A: Any, p: Any = None) -> Any:
    """Condition numbers: norm(A, p) * norm(inv(A), p); inf for singular matrices.

    Args:
        A: Matrices; square ones for other orders than None, 2 and -2.
        p: The order of a matrix norm; None is 2.

    Raises:
        ArgumentError: The norm is unknown.
    """
    check_matrix("cond", A)
    if p in (None, 2, -2):
        values = call(parts.singular_values, A)
        if not values.shape[-1]:
            return values.sum(-1)
        top, low = values.narrow(-1, 0, 1).squeeze(-1), values.narrow(-1, values.shape[-1] - 1, 1).squeeze(-1)
        return low / top if p == -2 else top / low
    check_matrix("cond", A, square=True)
    if p not in ("fro", "nuc", 1, -1, math.inf, -math.inf):
        raise ArgumentError("linalg.cond", f"p={p!r}", "the order is 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2",
                            "pass one of these")
    inverted, info = functions.linalg_inv_ex(A)
    singular = info != 0  # what has no inverse has no norm of one, either
    inverted = inverted.masked_fill(singular.unsqueeze(-1).unsqueeze(-1), 0)
    result = matrix_norm(A, p) * matrix_norm(inverted, p)
    return result.masked_fill(singular, math.inf)


@composite("logdet(Tensor input) -> Tensor",
           host_path=array_path(paths.logdet, label="logdet"))
def logdet(input: Any) -> Any:
    """Logarithm of determinants; NaN for negative ones."""
    sign, size = slogdet(input)
    if input.dtype.is_complex:
        return size + sign.log()
    return size.masked_fill(sign == -1, math.nan)


@composite("slogdet(Tensor input) -> any",
           host_path=array_path(paths.slogdet, SlogdetOfResult, label="slogdet"))
def slogdet_of(input: Any) -> Any:
    """``linalg.slogdet``."""
    return SlogdetOfResult(*slogdet(input))


@composite("matrix_power(Tensor input, int n) -> Tensor")
def matrix_power_of(input: Any, n: int) -> Any:
    """``linalg.matrix_power``."""
    return matrix_power(input, n)


@composite("pinverse(Tensor input, Scalar rcond=1e-15) -> Tensor",
           host_path=array_path(lambda matrix, rcond=1e-15: pinv_path(matrix, rtol=rcond)), replayable=True)
def pinverse(input: Any, rcond: float = 1e-15) -> Any:
    """``linalg.pinv`` with the relative tolerance ``rcond``."""
    return pinv(input, rtol=rcond)


# ------------------------------------------------------------------------------------------------ older forms


@composite("cholesky(Tensor input, bool upper=False) -> Tensor",
           host_path=array_path(paths.cholesky, label="cholesky"), replayable=True)
def cholesky_of(input: Any, upper: bool = False) -> Any:
    """``linalg.cholesky``."""
    return cholesky(input, upper=upper)


@composite("qr(Tensor input, bool some=True) -> any",
           host_path=array_path(paths.qr_of, QRResult, label="qr"), replayable=True)
def qr(input: Any, some: bool = True) -> Any:
    """``linalg.qr``, reduced or (``some=False``) complete."""
    return QRResult(*linalg_qr(input, "reduced" if some else "complete"))


@composite("svd(Tensor input, bool some=True, bool compute_uv=True) -> any",
           host_path=array_path(paths.svd_of, SVDResult, label="svd"), replayable=True)
def svd(input: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """U, S and V with input == U @ diag(S) @ V.mH; without ``compute_uv``, U and V are zeros."""
    check_matrix("svd", input)
    if compute_uv:
        u, s, vh = call(parts.svd, input, not some)
        return SVDResult(u, s, adjoint(vh))
    rows, columns = input.shape[-2:]
    lead = tuple(input.shape[:-2])
    zeros = input.detach().new_zeros
    return SVDResult(zeros((*lead, rows, rows)), call(parts.singular_values, input), zeros((*lead, columns, columns)))


@composite("norm(Tensor input, any p='fro', any dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
           hands_by_name=True)
def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Norms of vectors: (sum |x| ** p) ** (1 / p) over dimensions, by default all; 'nuc' is that of matrices.

    Raises:
        ArgumentError: The norm is unknown.
    """
    if p == "nuc":
        pair = (-2, -1) if dim is None else tuple(normalize_axes("norm", dim, input.ndim))
        if len(pair) != 2 or input.ndim < 2 or (dim is None and input.ndim != 2):
            raise ShapeError("norm", f"p='nuc' for a tensor of shape {list(input.shape)}, dim={dim}",
                             "the nuclear norm is one of matrices", "pass two dims")
        return matrix_norm(input, "nuc", pair, keepdim, dtype=dtype)
    if isinstance(p, str) and p != "fro":
        raise ArgumentError("norm", f"p={p!r}", "the order is a number, 'fro' or 'nuc'", "pass one of these")
    return vector_norm(input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)
