"""Products of sparse matrices with sparse and dense ones."""

from __future__ import annotations

import math
from typing import Any

from tensocket_core import functions
from tensocket_core.formats import sparse_coo, sparse_csr
from tensocket_core.geometry import broadcast_shapes
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError

from . import gradients
from .layouts import (
    as_coo,
    coalesced,
    coo_positions,
    elements,
    flat_positions,
    in_layout,
    in_layout_of,
    position_dims,
    summed_rows,
)
from .recording import differentiable
from .tensor import SparseTensor, is_sparse, like, sparse_rule, wrap_sparse


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
    """Return the rows of the dense operand, scaled and added up (or combined by another reduction)."""
    rows, columns = coo_positions(left)
    scale = elements(left).unsqueeze(1) if right.ndim == 2 else elements(left)
    products = scale * right.index_select(0, columns)
    if reduce == "sum":
        return summed_rows(left.shape[0], rows, products)
    nothing = products.new_zeros((left.shape[0], *products.shape[1:]))
    return nothing.index_reduce(0, rows, products, reduce, include_self=False)


def _sparse_sparse(left: Any, right: Any) -> SparseTensor:
    """Multiply every value of ``left`` by the row of ``right`` that its column selects, and add up the products."""
    first, second = as_coo(left), in_layout(right, sparse_csr)
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
    return coalesced(made) if right._kind is left._kind is sparse_coo else in_layout(made, sparse_csr)


@sparse_rule("matmul", "mm", "mv", "dot")
def _mm(input: Any, mat2: Any) -> Any:
    if input.ndim > 2 or mat2.ndim > 2:
        return _batched(input, mat2)
    return mm(input, mat2) if is_sparse(input) and is_sparse(mat2) else _product(input, mat2)


def _batched(input: Any, mat2: Any) -> Any:
    """Return the batched product of one sparse and one dense operand; a matrix is used for every batch."""
    if is_sparse(mat2):
        return _batched(mat2.transpose(-2, -1), input.mT).mT
    lead = tuple((input if is_sparse(input) and input.ndim > 2 else mat2).shape[:-2])
    if input.ndim == 2:
        wide = mat2.movedim(-2, 0).reshape((mat2.shape[-2], -1))
        product = _product(input, wide)
        return product.reshape((input.shape[0], *lead, mat2.shape[-1])).movedim(0, -2)
    sizes = (math.prod(lead), *input.shape[-2:])
    positions = coo_positions(input)
    number = flat_positions(positions[:-2], lead)
    flat = wrap_sparse(functions.cat([number.unsqueeze(0), positions[-2:]]), elements(input), sizes, sparse_coo)
    dense = mat2.expand((*lead, *mat2.shape[-2:])).reshape((sizes[0], *mat2.shape[-2:]))
    return _products(flat, dense).reshape((*lead, sizes[1], mat2.shape[-1]))


def mm(input: Any, mat2: Any, reduce: str = "sum") -> Any:
    """Return the product of matrices, at least one of them sparse; the result is sparse if both are.

    Args:
        input: [m, n], sparse or dense.
        mat2: [n, k], sparse or dense, or a dense [n].
        reduce: Reduction of the products of stored elements, for sparse times dense: ``sum``, ``mean``, ``amax`` or
            ``amin``.

    Raises:
        ArgumentError: The reduction is unknown.
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
    """Return beta * input + alpha * (mat1 @ mat2)."""
    product = mm(mat1, mat2) if is_sparse(mat1) or is_sparse(mat2) else mat1.mm(mat2)
    result = product if alpha == 1 else product * alpha
    if beta == 0:  # drops even NaN of the input
        wide = result.expand(broadcast_shapes("addmm", [tuple(result.shape), tuple(input.shape)]))
        if is_sparse(wide):
            return in_layout_of(wide, input) if is_sparse(input) else wide.to_dense()
        return wide
    return input * beta + result


@sparse_rule("linear")
def _linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """Return ``input @ weight.T + bias``; all dimensions of a dense input before the last are rows."""
    if is_sparse(input):
        product = _mm(input, weight.t())
    elif input.ndim == 1:
        product = _mm(weight, input)
    else:
        rows = _mm(weight, input.reshape((-1, input.shape[-1])).mT).mT
        product = rows.reshape((*input.shape[:-1], weight.shape[0]))
    return product if bias is None else product + bias


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
    """Return beta * input + alpha * (mat1 @ mat2), sparse: the product has whole rows where ``mat1`` has elements."""
    product: Any = _sparse_rows(mat1, mat2)
    scaled: Any = in_layout_of(like(product, product.stored * alpha), input)
    return scaled + like(input, input.stored * beta)


@sparse_rule("hspmm", "hsmm")
def hspmm(mat1: Any, mat2: Any) -> Any:
    """Return the product of a sparse and a dense matrix, with one sparse dimension: the rows that have an element."""
    _check("hspmm", mat1, mat2, (2,))
    source = coalesced(as_coo(mat1))
    rows, columns = source.positions.unbind(0)
    products = source.stored.unsqueeze(1) * mat2.index_select(0, columns)
    made = wrap_sparse(rows.unsqueeze(0), products, (mat1.shape[0], mat2.shape[1]), sparse_coo)
    return coalesced(made)


@sparse_rule("smm")
def smm(input: Any, mat2: Any) -> Any:
    """Return the product of a sparse and a dense matrix, sparse, with whole rows where ``input`` has elements."""
    return _sparse_rows(input, mat2)


def _sparse_rows(left: Any, right: Any) -> SparseTensor:
    """Return the product of a sparse and a dense matrix, with both dimensions sparse."""
    made = hspmm(left, right)
    count, width = made._nnz(), made.shape[1]
    rows = made.positions.repeat_interleave(width, 1)
    columns = rows.new_arange(0, width, 1).repeat(count).unsqueeze(0)
    return wrap_sparse(functions.cat([rows, columns]), made.stored.reshape(-1), made.shape, sparse_coo, True)


@sparse_rule("bmm")
def _bmm(input: Any, mat2: Any) -> Any:
    return _products(input, mat2)


@differentiable(gradients.of_product)
def _products(input: Any, mat2: Any) -> Any:
    """Multiply a batch of sparse matrices by dense ones, as one product with a block-diagonal matrix."""
    if is_sparse(mat2) or not is_sparse(input) or input.ndim != 3 or mat2.ndim != 3 or position_dims(input) != 3 or (
            input.shape[0] != mat2.shape[0] or input.shape[2] != mat2.shape[1]):
        raise ShapeError("bmm", f"a sparse and a dense operand of shapes {list(input.shape)} and {list(mat2.shape)}",
                         "a sparse batch [b, m, n] is multiplied by a dense one [b, n, k]", "check the sizes")
    batch, height, depth = input.shape
    number, row, column = as_coo(input).positions.unbind(0)
    places = functions.stack([number * height + row, number * depth + column])
    blocks = wrap_sparse(places, elements(input), (batch * height, batch * depth), sparse_coo)
    result = _sparse_dense(blocks, mat2.reshape((batch * depth, mat2.shape[2])))
    return result.reshape((batch, height, mat2.shape[2]))


def sampled_addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """Return beta * input + alpha * (mat1 @ mat2), at the positions of ``input`` only.

    Args:
        input: [..., m, n] in layout ``sparse_csr``.
        mat1: [..., m, k], dense.
        mat2: [..., k, n], dense.
        beta: Factor of the input.
        alpha: Factor of the product.

    Raises:
        ArgumentError: The input has another layout.
        ShapeError: The sizes do not fit.
    """
    if not is_sparse(input) or input._kind is not sparse_csr:
        raise ArgumentError("sparse.sampled_addmm", f"an input of layout {input.layout!r}",
                            "the input has layout sparse_csr", "convert it with to_sparse_csr()")
    lead = tuple(input.shape[:-2])
    if input.dense_dim() or mat1.ndim != input.ndim or mat2.ndim != input.ndim or mat1.shape[-1] != mat2.shape[-2] or (
            tuple(input.shape) != (*mat1.shape[:-1], mat2.shape[-1]) or tuple(mat2.shape[:-2]) != lead):
        raise ShapeError("sparse.sampled_addmm",
                         f"shapes {list(input.shape)}, {list(mat1.shape)} and {list(mat2.shape)}",
                         "the input has the product's shape", "check the sizes")
    positions, depth = coo_positions(input), mat1.shape[-1]
    rows = flat_positions(positions[:-1], input.shape[:-1])
    columns = flat_positions(functions.cat([positions[:-2], positions[-1:]]), (*lead, input.shape[-1]))
    left = mat1.reshape((math.prod(input.shape[:-1]), depth))
    right = mat2.mT.reshape((math.prod(lead) * input.shape[-1], depth))
    products = (left.index_select(0, rows) * right.index_select(0, columns)).sum(1)
    return like(input, input.stored * beta + products.reshape(tuple(input.raw.shape)) * alpha)


for _function in (smm, sspaddmm):
    setattr(Tensor, _function.__name__, _function)

__all__ = ["addmm", "hspmm", "mm", "sampled_addmm", "smm", "sspaddmm"]
