"""Products of sparse matrices with sparse and dense ones."""

from __future__ import annotations

from typing import Any

from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError

from .._generated import functions
from ..formats import sparse_coo, sparse_csr
from ..tensors import Tensor
from . import gradients
from .recording import differentiable
from .tensor import (
    SparseTensor,
    as_coo,
    as_csr,
    coalesced,
    coo_positions,
    in_layout,
    is_sparse,
    like,
    sparse_rule,
    summed_rows,
    wrap_sparse,
)


def _check(operator: str, left: Any, right: Any, ranks: tuple[int, ...]) -> None:
    if left.ndim != 2 or right.ndim not in ranks or left.shape[1] != right.shape[0]:
        raise ShapeError(operator, f"shapes {list(left.shape)} and {list(right.shape)}",
                         "a matrix has as many columns as what it is multiplied with has rows", "transpose one of them")
    if left.dtype is not right.dtype:
        raise DtypeError(operator, f"{left.dtype.name} and {right.dtype.name}", "both operands have one dtype",
                         "convert one of them with .to(dtype)")
    for x in (left, right):
        if is_sparse(x) and x.sparse_dim() != 2:
            raise ShapeError(operator, f"{x.sparse_dim()} sparse dimensions", "both dimensions of a matrix are sparse",
                             "convert it with to_sparse(2)")


def _sparse_dense(left: Any, right: Any, reduce: str = "sum") -> Any:
    """Rows of the dense operand, scaled and added up (or reduced otherwise)."""
    rows, columns = coo_positions(left)
    scale = left.stored.unsqueeze(1) if right.ndim == 2 else left.stored
    products = scale * right.index_select(0, columns)
    if reduce == "sum":
        return summed_rows(left.shape[0], rows, products)
    nothing = products.new_zeros((left.shape[0], *products.shape[1:]))
    return nothing.index_reduce(0, rows, products, reduce, include_self=False)


def _sparse_sparse(left: Any, right: Any) -> SparseTensor:
    """Every value of the left one times the row of the right one that its column names."""
    first, second = as_coo(left), as_csr(right)
    starts, columns = second.positions
    inner = first.positions.select(0, 1)
    begins = starts.index_select(0, inner)
    counts = starts.index_select(0, inner + 1) - begins
    places = functions.repeat_interleave(counts.new_arange(0, counts.shape[0], 1), counts)
    before = counts.cumsum(0) - counts
    offsets = places.new_arange(0, places.shape[0], 1) - before.index_select(0, places)
    partner = begins.index_select(0, places) + offsets
    values = first.stored.index_select(0, places) * second.stored.index_select(0, partner)
    rows = first.positions.select(0, 0).index_select(0, places)
    pairs = functions.stack([rows, columns.index_select(0, partner).to(rows.dtype)])
    made = wrap_sparse(pairs, values, (left.shape[0], right.shape[1]), sparse_coo)
    return in_layout(coalesced(made), left._kind)


@sparse_rule("matmul", "mm", "mv", "dot")
def _mm(input: Any, mat2: Any) -> Any:
    return mm(input, mat2) if is_sparse(input) and is_sparse(mat2) else _product(input, mat2)


def mm(input: Any, mat2: Any, reduce: str = "sum") -> Any:
    """Product of matrices, of which one at least is sparse; sparse if both are.

    Args:
        input: [m, n], sparse or dense.
        mat2: [n, k] (dense: or [n]), sparse or dense.
        reduce: Of sparse times dense, what products become: ``sum``, ``mean``, ``amax`` or ``amin`` of the stored ones.

    Raises:
        ArgumentError: There is no such reduction.
        ShapeError: The sizes do not fit.
    """
    _check("sparse.mm", input, mat2, (1, 2))
    if reduce not in ("sum", "mean", "amax", "amin"):
        raise ArgumentError("sparse.mm", f"reduce={reduce!r}",
                            "products are reduced by 'sum', 'mean', 'amax' or 'amin'", "pass one of these")
    if reduce != "sum":
        if not is_sparse(input) or is_sparse(mat2):
            raise ArgumentError("sparse.mm", f"reduce={reduce!r} for layouts {input.layout!r} and {mat2.layout!r}",
                                "other reductions are those of sparse times dense", "pass reduce='sum'")
        return _sparse_dense(input, mat2, reduce)
    if is_sparse(input):
        return _sparse_sparse(input, mat2) if is_sparse(mat2) else _sparse_dense(input, mat2)
    return _sparse_dense(as_coo(mat2).t(), input.mT).mT


@differentiable(gradients.of_product)
def _product(input: Any, mat2: Any) -> Any:
    return mm(input, mat2)


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """Beta * input + alpha * (mat1 @ mat2)."""
    result = mm(mat1, mat2) if is_sparse(mat1) or is_sparse(mat2) else mat1.mm(mat2)
    return result * alpha + input * beta


@sparse_rule("addmm", "saddmm")
def _addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    plain = not (is_sparse(input) or (is_sparse(mat1) and is_sparse(mat2)))
    return (_affine if plain else addmm)(input, mat1, mat2, beta=beta, alpha=alpha)


@differentiable(gradients.of_affine)
def _affine(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    return addmm(input, mat1, mat2, beta=beta, alpha=alpha)


@sparse_rule("addmv")
@differentiable(gradients.of_affine)
def _addmv(input: Any, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    return addmm(input, mat, vec, beta=beta, alpha=alpha)


@sparse_rule("sspaddmm")
def sspaddmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """Beta * input + alpha * (mat1 @ mat2), sparse: the product has a row's elements wherever ``mat1`` has one."""
    product = _sparse_rows(mat1, mat2)
    return in_layout(like(product, product.stored * alpha), input._kind) + like(input, input.stored * beta)


@sparse_rule("hspmm", "hsmm")
def hspmm(mat1: Any, mat2: Any) -> Any:
    """Product of a sparse and a dense matrix, with one sparse dimension: the rows that have an element."""
    _check("hspmm", mat1, mat2, (2,))
    source = coalesced(as_coo(mat1))
    rows, columns = source.positions.unbind(0)
    products = source.stored.unsqueeze(1) * mat2.index_select(0, columns)
    made = wrap_sparse(rows.unsqueeze(0), products, (mat1.shape[0], mat2.shape[1]), sparse_coo)
    return coalesced(made)


@sparse_rule("smm")
def smm(input: Any, mat2: Any) -> Any:
    """Product of a sparse and a dense matrix, as a sparse one with all elements of the rows that have one."""
    return _sparse_rows(input, mat2)


def _sparse_rows(left: Any, right: Any) -> SparseTensor:
    """The product of a sparse and a dense matrix, with both dimensions sparse."""
    made = hspmm(left, right)
    count, width = made._nnz(), made.shape[1]
    rows = made.positions.repeat_interleave(width, 1)
    columns = rows.new_arange(0, width, 1).repeat(count).unsqueeze(0)
    return wrap_sparse(functions.cat([rows, columns]), made.stored.reshape(-1), made.shape, sparse_coo, True)


@sparse_rule("bmm")
def _bmm(input: Any, mat2: Any, *, out: Any = None) -> Any:
    return _products(input, mat2) if out is None else out.copy_(_products(input, mat2))


@differentiable(gradients.of_product)
def _products(input: Any, mat2: Any) -> Any:
    """Products of a batch of sparse matrices with dense ones: one product, of the blocks on a diagonal."""
    if is_sparse(mat2) or not is_sparse(input) or input.ndim != 3 or mat2.ndim != 3 or input.sparse_dim() != 3 or (
            input.shape[0] != mat2.shape[0] or input.shape[2] != mat2.shape[1]):
        raise ShapeError("bmm", f"a sparse and a dense operand of shapes {list(input.shape)} and {list(mat2.shape)}",
                         "a sparse batch [b, m, n] is multiplied by a dense one [b, n, k]", "check the sizes")
    batch, height, depth = input.shape
    number, row, column = as_coo(input).positions.unbind(0)
    places = functions.stack([number * height + row, number * depth + column])
    blocks = wrap_sparse(places, input.stored, (batch * height, batch * depth), sparse_coo)
    result = _sparse_dense(blocks, mat2.reshape((batch * depth, mat2.shape[2])))
    return result.reshape((batch, height, mat2.shape[2]))


def sampled_addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """Beta * input + alpha * (mat1 @ mat2), at the positions of ``input`` only.

    Args:
        input: [m, n] in layout ``sparse_csr``.
        mat1: [m, k], dense.
        mat2: [k, n], dense.
        beta: Factor of the input.
        alpha: Factor of the product.

    Raises:
        ArgumentError: The input has another layout.
        ShapeError: The sizes do not fit.
    """
    if not is_sparse(input) or input._kind is not sparse_csr:
        raise ArgumentError("sparse.sampled_addmm", f"an input of layout {input.layout!r}",
                            "the input has layout sparse_csr", "convert it with to_sparse_csr()")
    if mat1.ndim != 2 or mat2.ndim != 2 or mat1.shape[1] != mat2.shape[0] or (
            tuple(input.shape) != (mat1.shape[0], mat2.shape[1])):
        raise ShapeError("sparse.sampled_addmm",
                         f"shapes {list(input.shape)}, {list(mat1.shape)} and {list(mat2.shape)}",
                         "the input has the product's shape", "check the sizes")
    rows, columns = coo_positions(input)
    products = (mat1.index_select(0, rows) * mat2.mT.index_select(0, columns)).sum(1)
    return like(input, input.stored * beta + products * alpha)


for _function in (smm, sspaddmm):
    setattr(Tensor, _function.__name__, _function)

__all__ = ["addmm", "hspmm", "mm", "sampled_addmm", "smm", "sspaddmm"]
