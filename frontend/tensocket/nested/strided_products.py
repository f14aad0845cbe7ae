"""Functions of nested tensors of layout strided that make new components: joins, normalisation and products."""

from __future__ import annotations

from typing import Any

from tensocket_core.geometry import normalize_axis
from tensocket_operators import functions
from tensocket_plugins.contract.errors import ArgumentError, ShapeError, UnsupportedOperator

from . import shared
from .padding import joined
from .rules import rule
from .structures import Pieces
from .tensors import Nested, StridedNested, components, like, nested, plain


@rule(StridedNested, "cat", "concat", "concatenate")
def cat(tensors: Any, dim: int = 0) -> Any:
    """Concatenate nested tensors along the batch, or each component with its partners.

    Raises:
        ArgumentError: A tensor is dense.
        ShapeError: Structures do not fit, or a tensor is not contiguous.
        UnsupportedOperator: The dimension is not the batch, and components differ in others than their first.
    """
    if not all(isinstance(x, Nested) for x in tensors):
        raise ArgumentError("cat", "nested and dense tensors", "expected each tensor in given list to be nested",
                            "make all of them nested")
    if not all(x.is_contiguous() for x in tensors):
        raise ShapeError("cat", "a nested tensor that is not contiguous",
                         "only contiguous nested tensors are supported", "call contiguous() first")
    first = tensors[0]
    axis = normalize_axis("cat", dim, first.ndim)
    if axis == 0:
        return nested(functions.cat([plain(x) for x in tensors]),
                      Pieces([shape for x in tensors for shape in x._structure.shapes], ndim=first.ndim))
    outside = [[(*s[:axis - 1], *s[axis:]) for s in x._structure.shapes] for x in tensors]
    if any(x.ndim != first.ndim for x in tensors) or any(shapes != outside[0] for shapes in outside):
        raise ShapeError("cat", "nested tensors of other structures", "expected all nested tensors to have matching "
                         "ragged structures outside of the concatenated dim", "pass tensors of one structure")
    for x in tensors:
        ragged = [k + 1 for k, sizes in enumerate(zip(*x._structure.shapes, strict=True)) if len(set(sizes)) > 1]
        if ragged not in ([], [1]):
            raise UnsupportedOperator("cat", f"ragged dimensions {ragged}", "only nested tensors with a single ragged "
                                      "dim next to the batch dim are supported", "join the components")
    return joined([functions.cat(parts, axis - 1) for parts in zip(*map(components, tensors), strict=True)], first)


@rule(StridedNested, "sum")
def sum_(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Add up along the last dimension.

    Raises:
        UnsupportedOperator: Other dimensions are given, or ``keepdim`` is False.
    """
    if dim is None:
        return (plain(input) if input.is_contiguous() else plain(shared.contiguous(input))).sum(dtype=dtype)
    axes = [dim] if isinstance(dim, int) else list(dim)
    if len(axes) != 1:
        raise UnsupportedOperator("sum", f"dimensions {axes}", "NestedTensor only allows reduction of a single "
                                  "dimension for now.", "reduce the components")
    if normalize_axis("sum", axes[0], input.ndim) != input.ndim - 1:
        raise UnsupportedOperator("sum", f"dim={axes[0]}", "NestedTensor can only be reduced across the last dimension "
                                  "for now", "pass dim=-1")
    if not keepdim:
        raise UnsupportedOperator("sum", "keepdim=False", "NestedTensor always requires keepdim=True for now.",
                                  "pass keepdim=True")
    return joined([x.sum(-1, keepdim=True, dtype=dtype) for x in components(input)], input)


@rule(StridedNested, "softmax")
def softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """Return the softmax of each component along a dimension."""
    return _rows("softmax", functions.softmax, input, dim, dtype)


@rule(StridedNested, "log_softmax")
def log_softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """Return the logarithm of softmax of each component along a dimension."""
    return _rows("log_softmax", functions.log_softmax, input, dim, dtype)


def _rows(name: str, function: Any, input: Any, dim: int, dtype: Any) -> Any:
    if not len(input):
        return shared.clone(input)
    axis = normalize_axis(name, dim, input.ndim)
    if axis == 0:
        raise UnsupportedOperator(name, "dim=0", f"Cannot apply {name} across nested dimension 0",
                                  "pass another dimension")
    source = shared.contiguous(input)
    rows = _rows_of(source) if axis == input.ndim - 1 else None
    if rows is not None:
        return like(source, function(rows, -1, dtype=dtype).reshape(-1))
    return joined([function(x, axis - 1, dtype=dtype) for x in components(input)], input)


def _rows_of(input: Any) -> Any:
    """Return the line of a contiguous nested tensor as rows of its last dimension, or None if components differ in
    it.
    """
    sizes = {shape[-1] for shape in input._structure.shapes}
    if len(sizes) != 1 or not input.numel():
        return None
    return plain(input).view(-1, sizes.pop())


@rule(StridedNested, "layer_norm")
def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5,
               cudnn_enable: bool = True) -> Any:
    """Normalise over the last dimensions.

    Raises:
        ShapeError: Components differ in these dimensions, or their sizes are not the given ones.
    """
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    source = shared.contiguous(input)
    if len(shape) >= input.ndim:
        raise ShapeError("layer_norm", f"normalized_shape {shape}", "normalized_shape extends into irregular "
                         "dimensions for the nested tensor", "normalise fewer dimensions")
    for k, n in enumerate(reversed(shape)):
        sizes = {own[len(own) - 1 - k] for own in source._structure.shapes}
        if len(sizes) > 1:
            raise ShapeError("layer_norm", f"normalized_shape {shape}", "normalized_shape extends into irregular "
                             "dimensions for the nested tensor", "normalise fewer dimensions")
        if sizes and sizes != {n}:
            raise ShapeError("layer_norm", f"normalized_shape {shape}",
                             f"The shape at dimension {len(shape) - 1 - k} of normalized_shape differs from the input",
                             f"pass {sizes}")
    made = functions.layer_norm(plain(source).view(-1, *shape), shape, weight, bias, eps)
    return like(source, made.reshape(-1))


@rule(StridedNested, "linear")
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """Return ``x @ weight.T + bias`` of each component in one product.

    Raises:
        UnsupportedOperator: The weight is nested, or the number of dimensions is not 3.
        ShapeError: The tensor is not contiguous, or sizes do not fit.
    """
    if isinstance(weight, Nested):
        raise UnsupportedOperator("linear", "a nested weight", "Linear does not support nested weight when input is a "
                                  "nested tensor.", "pass a dense weight")
    if not isinstance(input, Nested):
        raise UnsupportedOperator("linear", "a dense input and nested parameters",
                                  "Linear does not support nested parameters", "pass dense parameters")
    if input.ndim != 3 or weight.dim() != 2:
        raise ShapeError("linear", f"{input.ndim} and {weight.dim()} dimensions",
                         "Linear requires nested_tensor.dim == 3 and dense_matrix.dim == 2. Nested tensor dim: "
                         f"{input.ndim}. Dense tensor dim: {weight.dim()}", "pass matrices")
    if not input.is_contiguous():
        raise ShapeError("linear", "a nested tensor that is not contiguous",
                         "for now linear only supports contiguous nested tensor", "call contiguous() first")
    sizes = sorted({shape[-1] for shape in input._structure.shapes})
    if len(sizes) != 1:
        raise ShapeError("linear", "components that differ in the last dimension", "Expected all tensors in nested "
                         f"tensor to have the same trailing dimension, instead last dimension equals: {sizes}",
                         "pass components of one width")
    if sizes[0] != weight.shape[1]:
        raise ShapeError("linear", f"components of width {sizes[0]} and a weight of {list(weight.shape)}",
                         "Shape mismatch for NestedTensor Linear: Expected input's (a nested tensor) 'last_dim' to "
                         f"equal 'weight.size(1), but got: last_dim = {sizes[0]}, and weight.size(1) = "
                         f"{weight.shape[1]}", "pass another weight")
    made = functions.linear(plain(input).view(-1, sizes[0]), weight, bias)
    return nested(made.reshape(-1), Pieces([(*shape[:-1], weight.shape[0]) for shape in input._structure.shapes]))


@rule(StridedNested, "bmm")
def bmm(input: Any, mat2: Any) -> Any:
    """Multiply matrices component by component; one of the two tensors may be dense.

    Raises:
        ShapeError: Dimensions or sizes do not fit.
    """
    for k, x in enumerate((input, mat2), 1):
        if x.dim() != 3:
            raise ShapeError("bmm", f"batch{k} of {x.dim()} dimensions", f"batch{k} must be a 3D tensor",
                             "pass batches of matrices")
    first, second = _batch(input), _batch(mat2)
    if len(first) != len(second):
        raise ShapeError("bmm", f"batches of {len(first)} and {len(second)}", "Expected size for the 1st dimension of "
                         f"batch2 tensor to be: {len(first)} but got: {len(second)}.", "pass batches of one size")
    for k, (a, b) in enumerate(zip(first, second, strict=True)):
        if a.shape[1] != b.shape[0]:
            raise ShapeError("bmm", "matrices that do not fit", f"{k}-th nested matrices in batch cannot be multiplied "
                             f"({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})", "pass others")
    return joined([a @ b for a, b in zip(first, second, strict=True)], input if isinstance(input, Nested) else mat2)


def _batch(tensor: Any) -> list[Any]:
    return components(tensor) if isinstance(tensor, Nested) else list(tensor.unbind(0))


@rule(StridedNested, "matmul", "__matmul__", "__rmatmul__")
def matmul(input: Any, other: Any) -> Any:
    """Multiply matrices component by component; a dense matrix broadcasts to all components.

    Raises:
        ShapeError: Dimensions or sizes do not fit, or one of the two is dense.
    """
    kinds = ["nested" if isinstance(x, Nested) else "non-nested" for x in (input, other)]
    if kinds == ["nested", "non-nested"] and other.dim() == 2 and input.ndim >= 3:
        return joined([x @ other for x in components(input)], input)
    if "non-nested" in kinds and not (input.dim() == other.dim() == 3):
        raise ShapeError("matmul", "a nested and a dense tensor", "Expected both to be nested, but got a "
                         f"{kinds[0]} self and {kinds[1]} other", "make both nested")
    for k, x in enumerate((input, other)):
        if x.dim() < 3:
            raise ShapeError("matmul", f"a nested tensor of {x.dim()} dimensions", "matmul: For nested tensors, only "
                             f"inputs with >= 3 dims are currently supported. {'1st' if k == 0 else '2nd'} input has "
                             f"rank: {x.dim()}", "pass batches of matrices")
    first, second = _batch(input), _batch(other)
    if len(first) != len(second):
        raise ShapeError("matmul", f"batches of {len(first)} and {len(second)}", "matmul: Expected size for the 1st "
                         f"dimension of 2nd input tensor to be: {len(first)} but got: {len(second)}.",
                         "pass batches of one size")
    for a, b in zip(first, second, strict=True):
        if a.shape[:-2] != b.shape[:-2]:
            raise ShapeError("matmul", f"components of shapes {list(a.shape)} and {list(b.shape)}",
                             "matmul(): For nested tensors, batch dimensions must have the same sizes, got "
                             f"{list(a.shape[:-2])} and {list(b.shape[:-2])}", "pass others")
        if a.shape[-1] != b.shape[-2]:
            raise ShapeError("matmul", f"components of shapes {list(a.shape)} and {list(b.shape)}",
                             "matmul(): Nested tensors cannot be matrix multiplied (last and second-last sizes differ)",
                             "pass others")
    return joined([a @ b for a, b in zip(first, second, strict=True)], input if isinstance(input, Nested) else other)
