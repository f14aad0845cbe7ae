"""Products with sums (``addmv``, ``baddbmm`` ...), products of many matrices, and products of all pairs of elements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tensocket_core import functions
from tensocket_core.dispatch.call import call, tensor_key
from tensocket_core.geometry import broadcast_shapes
from tensocket_core.keys import AUTOGRAD
from tensocket_core.launch.numbers import check_range, plain_number
from tensocket_plugins.contract.dtypes import bool_
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError
from tensocket_plugins.ir.element_types import arithmetic_dtype

from ..kinds.composite import composite
from .matmul import product, sum_host_path

# ------------------------------------------------------------------------------------------------ sums of products


def blended(operator: str, input: Any, result: Any, beta: Any, alpha: Any) -> Any:
    """Return ``beta * input + alpha * result``; with beta 0, the input is ignored, even NaN.

    Factors for integers are truncated to integers.

    Raises:
        DtypeError: The two dtypes differ.
        ArgumentError: The dtype cannot hold a factor.
        ShapeError: The input does not broadcast to the result's shape.
    """
    if input.dtype is not result.dtype:
        raise DtypeError(operator, f"an input of dtype {input.dtype.name} and a product of dtype {result.dtype.name}",
                         "all operands have one dtype", "convert them with .to(dtype)")
    beta, alpha = plain_number(beta), plain_number(alpha)
    if result.dtype.category < 2 and any(isinstance(x, (float, complex)) for x in (beta, alpha)):
        beta, alpha = int(beta), int(alpha)
    for factor in (beta, alpha):
        if factor != 1 and factor != 0:
            check_range(operator, factor, arithmetic_dtype(result.dtype))
    shape, given = tuple(result._array.shape), tuple(input._array.shape)
    if given != shape[len(shape) - len(given):] and broadcast_shapes(operator, [shape, given]) != shape:
        raise ShapeError(operator, f"an input of shape {list(given)} for a product of shape {list(shape)}",
                         "the input broadcasts to the product's shape", "reshape the input")
    scaled = result if alpha == 1 else result * alpha
    if beta == 0:
        if not input._key & AUTOGRAD:
            return scaled
        return scaled + input.masked_fill(input.new_ones((), dtype=bool_), 0)
    return (input if beta == 1 else input * beta) + scaled


def check_ranks(operator: str, first: Any, ranks: tuple[int, int], second: Any) -> None:
    """Refuse operands with other numbers of dimensions.

    Raises:
        ShapeError: An operand has another number.
    """
    if (first.ndim, second.ndim) != ranks:
        raise ShapeError(operator, f"shapes {list(first.shape)} and {list(second.shape)}",
                         f"the factors have {ranks[0]} and {ranks[1]} dimensions", "use matmul and add")


@composite("addmm(Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
           host_path=sum_host_path)
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """Return beta * input + alpha * (mat1 @ mat2)."""
    return blended("addmm", input, mat1.mm(mat2), beta, alpha)


@composite("addmv(Tensor input, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor")
def addmv(input: Any, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """Return beta * input + alpha * (mat @ vec)."""
    check_ranks("addmv", mat, (2, 1), vec)
    return blended("addmv", input, mat.mv(vec), beta, alpha)


@composite("baddbmm(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor")
def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """Return beta * input + alpha * bmm(batch1, batch2)."""
    return blended("baddbmm", input, batch1.bmm(batch2), beta, alpha)


@composite("addbmm(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor")
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """Return beta * input + alpha * (sum of the matrix products), computed as one product of concatenated matrices."""
    check_ranks("addbmm", batch1, (3, 3), batch2)
    count, rows, inner = batch1.shape
    if tuple(batch2.shape[:2]) != (count, inner):
        raise ShapeError("addbmm", f"shapes {list(batch1.shape)} and {list(batch2.shape)}",
                         "both have the same number of matrices, which can be multiplied", "transpose one of them")
    wide = batch1.movedim(0, 1).reshape((rows, count * inner))
    return blended("addbmm", input, wide.mm(batch2.reshape((count * inner, batch2.shape[2]))), beta, alpha)


@composite("addmm_(Tensor! input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
           function=False)
def addmm_(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Apply ``addmm`` in place."""
    return input.copy_(functions.addmm(input, mat1, mat2, beta=beta, alpha=alpha))


@composite("addmv_(Tensor! input, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor", function=False)
def addmv_(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Apply ``addmv`` in place."""
    return input.copy_(functions.addmv(input, mat, vec, beta=beta, alpha=alpha))


@composite("baddbmm_(Tensor! input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
           function=False)
def baddbmm_(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Apply ``baddbmm`` in place."""
    return input.copy_(functions.baddbmm(input, batch1, batch2, beta=beta, alpha=alpha))


@composite("addbmm_(Tensor! input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
           function=False)
def addbmm_(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Apply ``addbmm`` in place."""
    return input.copy_(functions.addbmm(input, batch1, batch2, beta=beta, alpha=alpha))


# ---------------------------------------------------------------------------------------------- pairs of elements


@composite("inner(Tensor input, Tensor other) -> Tensor")
def inner(input: Any, other: Any) -> Any:
    """Return sums of products over the last dimensions of both; 0-dimensional operands are multiplied.

    Raises:
        ShapeError: The last dimensions have different sizes.
    """
    if not input.ndim or not other.ndim:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise ShapeError("inner", f"shapes {list(input.shape)} and {list(other.shape)}",
                         "the last sizes of both are equal", "transpose one of them")
    if input.ndim == 1 == other.ndim:
        return input.dot(other)
    return functions.tensordot(input, other, ([-1], [-1]))


@composite("kron(Tensor input, Tensor other) -> Tensor")
def kron(input: Any, other: Any) -> Any:
    """Return the Kronecker product: every element of the first operand is replaced by its product with the second."""
    rank = max(input.ndim, other.ndim)
    first = (1,) * (rank - input.ndim) + tuple(input.shape)
    second = (1,) * (rank - other.ndim) + tuple(other.shape)
    left = input.reshape(tuple(n for size in first for n in (size, 1)))
    right = other.reshape(tuple(n for size in second for n in (1, size)))
    return (left * right).reshape(tuple(a * b for a, b in zip(first, second, strict=True)))


# ------------------------------------------------------------------------------------------------ chains of matrices


def _splits(sizes: Sequence[int]) -> list[list[int]]:
    """Return the cheapest split points for products of consecutive matrices; matrix k is [sizes[k], sizes[k + 1]].

    This is the dynamic programme of T. H. Cormen et al., "Introduction to Algorithms", section 15.2.
    """
    count = len(sizes) - 1
    cost = [[0] * count for _ in range(count)]
    best = [[0] * count for _ in range(count)]
    for length in range(1, count):
        for first in range(count - length):
            last = first + length
            cost[first][last], best[first][last] = min(
                (cost[first][k] + cost[k + 1][last] + sizes[first] * sizes[k + 1] * sizes[last + 1], k)
                for k in range(first, last))
    return best


def _chained(matrices: Sequence[Any]) -> Any:
    best = _splits([matrices[0].shape[0], *(x.shape[1] for x in matrices)])

    def run(first: int, last: int) -> Any:
        if first == last:
            return matrices[first]
        split = best[first][last]
        return call(product, run(first, split), run(split + 1, last))

    return run(0, len(matrices) - 1)


@composite("linalg_multi_dot(Tensor[] tensors) -> Tensor", method=False, namespace="linalg")
def multi_dot(tensors: Any) -> Any:
    """Multiply several matrices in the order with the least work; the first and the last may be vectors.

    Raises:
        ArgumentError: There are fewer than two tensors.
        ShapeError: The tensors are not matrices that can be multiplied.
    """
    if len(tensors) < 2:
        raise ArgumentError("linalg.multi_dot", f"{len(tensors)} tensors", "a product has at least two factors",
                            "pass more tensors")
    first, last = tensors[0].ndim == 1, tensors[-1].ndim == 1
    matrices = list(tensors)
    matrices[0] = matrices[0].unsqueeze(0) if first else matrices[0]
    matrices[-1] = matrices[-1].unsqueeze(1) if last else matrices[-1]
    _check_chain("linalg.multi_dot", tensors, matrices)
    result = _chained(matrices)
    result = result.squeeze(0) if first else result
    return result.squeeze(-1) if last else result


def _check_chain(operator: str, tensors: Sequence[Any], matrices: Sequence[Any]) -> None:
    fits = all(x.ndim == 2 for x in matrices) and all(
        x.shape[1] == y.shape[0] for x, y in pairwise(matrices))
    if not fits:
        raise ShapeError(operator, f"shapes {[list(x.shape) for x in tensors]}",
                         "factors are matrices with as many columns as the next has rows", "check their order")


@composite("chain_matmul(any matrices) -> Tensor", method=False)
def chain_matmul(*matrices: Any) -> Any:
    """Multiply matrices in the order with the least work."""
    given = tuple(matrices[0]) if len(matrices) == 1 and isinstance(matrices[0], (tuple, list)) else matrices
    if not given:
        raise ArgumentError("chain_matmul", "no matrices", "a product has at least one factor", "pass matrices")
    for x in given:
        tensor_key("chain_matmul", x)
    _check_chain("chain_matmul", given, given)
    return _chained(given) if len(given) > 1 else given[0].clone()


# --------------------------------------------------------------------------------------------------- powers of vectors


def _powers(x: Any, count: int) -> Any:
    """Return 1, x, x ** 2 ... along a new last dimension, by running products."""
    shape = (*x.shape, count)
    ones = x.new_ones((*x.shape, 1)).cumprod(-1)
    return functions.cat([ones, x.unsqueeze(-1).expand((*shape[:-1], count - 1)).cumprod(-1)], -1)


@composite("linalg_vander(Tensor x, *, int? N=None) -> Tensor", method=False, namespace="linalg")
def linalg_vander(x: Any, *, N: int | None = None) -> Any:
    """Return powers 0 to N - 1 of every element along a new last dimension; N defaults to the size of the last one.

    Raises:
        ArgumentError: N is less than 2.
        ShapeError: x has no dimensions.
    """
    if N is not None and N <= 1:
        raise ArgumentError("linalg.vander", f"N={N}", "N is greater than 1", "pass a larger N")
    if N is None:
        if not x.ndim:
            raise ShapeError("linalg.vander", "a 0-dimensional tensor", "a number has no size for N", "pass N")
        N = x.shape[-1]
    return _powers(x if x.ndim else x.reshape((1,)), N)


@composite("vander(Tensor x, int? N=None, bool increasing=False) -> Tensor", method=False)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Return rows of powers of a vector's elements, by default from the highest to 0.

    Raises:
        ArgumentError: N is negative.
        ShapeError: x is not a vector.
    """
    if x.ndim != 1:
        raise ShapeError("vander", f"a tensor of shape {list(x.shape)}", "x is a vector", "flatten it")
    count = x.shape[0] if N is None else N
    if count < 0:
        raise ArgumentError("vander", f"N={N}", "N is not negative", "pass 0 or more")
    powers = _powers(x, count) if count else x.new_empty((x.shape[0], 0)).cumprod(-1)
    return powers if increasing else powers.flip(1)
