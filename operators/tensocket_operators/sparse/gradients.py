"""Gradient formulas of sparse operands, like those of dense ones; gradients may be dense or sparse."""

from __future__ import annotations

from typing import Any

from tensocket_core import functions

from .layouts import block_of


def dense(grad: Any) -> Any:
    """Return a gradient as a dense tensor."""
    return grad.to_dense() if hasattr(grad, "_kind") else grad


def _fitted(grad: Any, operand: Any) -> Any:
    """Return a gradient summed to the shape of its operand; None for numbers."""
    if not hasattr(operand, "_key"):
        return None
    return grad if tuple(grad.shape) == tuple(operand.shape) else dense(grad).sum_to_size(tuple(operand.shape))


def _conjugate(value: Any) -> Any:
    if hasattr(value, "_key"):
        return value.conj() if value.dtype.kind == "complex" else value
    return value.conjugate()


def same(grad: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the gradient of operators that keep the elements."""
    return grad


def negated(grad: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the gradient of ``neg``."""
    return -grad


def converted(grad: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the gradient of conversions of dtype and device."""
    return grad.to(dtype=input.dtype, device=input.device)


def of_add(grad: Any, input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Return the gradients of ``add``."""
    return _fitted(grad, input), _fitted(grad if alpha == 1 else grad * _conjugate(alpha), other)


def of_sub(grad: Any, input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Return the gradients of ``sub``."""
    return of_add(grad, input, other, alpha=-alpha)


def of_mul(grad: Any, input: Any, other: Any) -> Any:
    """Return the gradients of ``mul``."""
    return tuple(_fitted(grad * _conjugate(y), x) if hasattr(x, "_key") and x.requires_grad else None
                 for x, y in ((input, other), (other, input)))


def of_div(grad: Any, input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """Return the gradient of ``div`` by a number."""
    if rounding_mode is not None:
        return grad * 0
    slope = grad / _conjugate(other)
    if not hasattr(other, "_key") or not other.requires_grad:
        return slope
    return slope, -(dense(slope) * _conjugate(dense(input) / other)).sum()


def of_product(grad: Any, input: Any, mat2: Any) -> Any:
    """Return the gradients of products with a dense operand."""
    grad, left, right = dense(grad), None, None
    if input.requires_grad:
        flat = mat2.ndim == 1
        left = functions.outer(grad, _conjugate(dense(mat2))) if flat else grad @ _conjugate(dense(mat2)).mT
    if mat2.requires_grad:
        right = _conjugate(input).transpose(-2, -1) @ grad
    return left, right


def of_affine(grad: Any, input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return the gradients of ``addmm`` and ``addmv``."""
    left, right = of_product(grad, mat1, mat2)
    return (_fitted(dense(grad) * _conjugate(beta), input), *(
        None if g is None else g * _conjugate(alpha) for g in (left, right)))


def of_sum(grad: Any, input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return the gradient of ``sum``, expanded to all elements."""
    grad = dense(grad)
    if dim is not None and not keepdim:
        axes = sorted(d % input.ndim for d in ((dim,) if isinstance(dim, int) else tuple(dim) or range(input.ndim)))
        for axis in axes:
            grad = grad.unsqueeze(axis)
    return grad.expand(tuple(input.shape)).to(input.dtype)


def of_select(grad: Any, input: Any, dim: int, index: int) -> Any:
    """Return the gradient of ``select``."""
    grad = dense(grad)
    return grad.new_zeros(tuple(input.shape)).select_scatter(grad, dim, index)


def of_narrow(grad: Any, input: Any, dim: int, start: Any, length: int) -> Any:
    """Return the gradient of ``narrow``."""
    grad, first = dense(grad), int(start) % max(input.shape[dim], 1)
    return grad.new_zeros(tuple(input.shape)).slice_scatter(grad, dim, first, first + length)


def of_index_select(grad: Any, input: Any, dim: int, index: Any) -> Any:
    """Return the gradient of ``index_select``."""
    grad = dense(grad)
    return grad.new_zeros(tuple(input.shape)).index_add(dim, index.reshape(-1), grad)


def of_cat(grad: Any, tensors: Any, dim: int = 0) -> Any:
    """Return the gradients of ``cat``."""
    sizes = [x.shape[dim] for x in tensors]
    return (dense(grad).split(sizes, dim),)


def of_stack(grad: Any, tensors: Any, dim: int = 0) -> Any:
    """Return the gradients of ``stack``."""
    return (tuple(grad.select(dim, k) for k in range(len(tensors))),)


def of_transpose(grad: Any, input: Any, dim0: int, dim1: int) -> Any:
    """Return the gradient of ``transpose``."""
    return grad.transpose(dim0, dim1)


def of_t(grad: Any, input: Any) -> Any:
    """Return the gradient of ``t``."""
    return grad.t()


def of_permute(grad: Any, input: Any, *dims: Any) -> Any:
    """Return the gradient of ``permute``."""
    given = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    order = [d % input.ndim for d in given]
    return grad.permute([order.index(k) for k in range(len(order))])


def of_reshape(grad: Any, input: Any, *args: Any) -> Any:
    """Return the gradient of ``squeeze`` and ``unsqueeze``."""
    return dense(grad).reshape(tuple(input.shape))


def of_mask(grad: Any, input: Any, mask: Any) -> Any:
    """Return the gradient of ``sparse_mask``, which has no element where the mask has none."""
    part = grad.sparse_mask(mask.coalesce() if mask.is_sparse else mask)
    return part if hasattr(input, "_kind") else part.to_dense()


def of_to_dense(grad: Any, input: Any, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
    """Return the gradient of ``to_dense``, at the positions of the operand or at all nonzero positions."""
    grad = grad.to(input.dtype)
    if not hasattr(input, "_kind"):
        return grad
    if masked_grad is None or masked_grad:
        pattern = input.alias()
        return pattern.with_gradient(pattern.values_in(grad))
    return grad.to_sparse(input.sparse_dim()) if input.is_sparse else grad


def of_to_sparse(grad: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the gradient of conversions of layout, in the operand's layout."""
    if not hasattr(input, "_kind"):
        return dense(grad)
    kind = input._kind
    if not hasattr(grad, "_kind") or grad._kind is kind:
        return grad
    return grad.to_sparse(layout=kind, blocksize=block_of(input))
