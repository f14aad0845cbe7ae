"""Conversions between layouts, dtypes and devices, copies, and ``where``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket_core.formats import layout, sparse_coo, sparse_csr, strided
from tensocket_operators import functions
from tensocket_operators.differentiation.function import Function
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentError

from .core import MaskedTensor, _masks_match, data_of, is_masked_tensor, joined, mask_of, name_of, rule
from .unary import on_elements


class _Converted(Function):
    """A masked tensor in another layout; gradients return in the layout of its operand."""

    @staticmethod
    def forward(ctx: Any, masked: Any, kind: layout) -> Any:
        ctx.layout = masked.layout
        data, mask = (x.to_dense() if x.layout is not strided else x
                      for x in (masked._masked_data, masked._masked_mask))
        if kind is not strided:
            mask = mask.to_sparse(layout=kind)
            data = data.sparse_mask(mask)
        return MaskedTensor(data, mask)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if is_masked_tensor(grad):
            return in_layout(grad, ctx.layout), None
        return (grad.to_dense() if ctx.layout is strided else grad.to_sparse(layout=ctx.layout)), None


def in_layout(masked: Any, kind: layout) -> Any:
    """Return a masked tensor in layout ``strided``, ``sparse_coo`` or ``sparse_csr``; itself if it has that layout.

    Raises:
        ArgumentError: The layout is ``sparse_csr``, and the tensor is not a matrix.
    """
    if kind is sparse_csr and masked.ndim != 2:
        raise ArgumentError("to_sparse_csr", "Only 2D tensors can be converted to the SparseCsr layout but got shape: "
                            f"{list(masked.shape)}", "the layout is one of matrices", "use to_sparse()")
    return masked if masked.layout is kind else _Converted.apply(masked, kind)


def _to_dense(self: Any, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
    """Convert data and mask to plain strided tensors."""
    made = in_layout(self, strided)
    return made if dtype is None else made.to(dtype)


def _to_sparse(self: Any) -> Any:
    """Convert to layout ``sparse_coo``, with the elements that the mask holds."""
    return in_layout(self, sparse_coo)


def _to_sparse_csr(self: Any) -> Any:
    """Convert a matrix to layout ``sparse_csr``, with the elements that the mask holds."""
    return in_layout(self, sparse_csr)


MaskedTensor.to_dense = _to_dense  # type: ignore[attr-defined]
MaskedTensor.to_sparse = MaskedTensor.to_sparse_coo = _to_sparse  # type: ignore[attr-defined]
MaskedTensor.to_sparse_csr = _to_sparse_csr  # type: ignore[attr-defined]


@rule("contiguous")
def contiguous(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the tensor itself, or a copy in row-major order."""
    masked, *rest = args
    if masked.is_contiguous(*rest, **kwargs):
        return masked
    return joined(func(masked.get_data(), *rest, **kwargs), func(masked.get_mask(), *rest, **kwargs))


@rule("to", "convert", "float", "double", "half", "int", "long", "short", "bool", "cpu", "type", "type_as")
def convert(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Convert the data to another dtype or device, and move the mask to that device."""
    masked, *rest = args
    if not is_masked_tensor(masked):
        return func(masked, *data_of(rest), **kwargs)
    data = func(masked.get_data(), *data_of(rest), **kwargs)
    return joined(data, masked.get_mask().to(data.device))


@rule("clone")
def clone(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Copy data and mask."""
    masked, *rest = args
    data = on_elements(lambda x: func(x, *rest, **kwargs), masked.get_data())
    return joined(data, masked.get_mask())


@rule("detach")
def detach(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Copy data and mask, detached from the graph."""
    return MaskedTensor(args[0]._masked_data.detach(), args[0].get_mask())


@rule("ones_like", "zeros_like", "full_like", "empty_like")
def make_like(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a tensor of one value with the same mask."""
    masked, *rest = args
    options = dict(kwargs)
    requires_grad = options.pop("requires_grad", False)
    made = on_elements(lambda x: func(x, *rest, **options), masked._masked_data)
    return MaskedTensor(made, masked.get_mask().to(made.device), bool(requires_grad))


@rule("new_ones", "new_zeros", "new_full", "new_empty")
def make_new(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a tensor of one value: with the same mask for the same shape, otherwise with a mask that is true
    everywhere.
    """
    masked, *rest = args
    options = dict(kwargs)
    requires_grad = options.pop("requires_grad", False)
    made = func(masked._masked_data, *rest, **options)
    mask = masked.get_mask() if made.shape == masked.shape and made.layout is masked.layout else mask_of(made)
    return MaskedTensor(made, mask.to(made.device), bool(requires_grad))


@rule("fill_", "zero_")
def fill(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Set all data to one value."""
    masked, *rest = args
    masked._masked_data = on_elements(lambda x: func(x, *rest, **kwargs), masked._masked_data)
    return masked


@rule("copy_")
def copy(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Copy the data of another tensor with the same mask.

    Raises:
        ArgumentError: The masks differ, or a plain tensor would get a mask.
    """
    target, source, *rest = args
    if not is_masked_tensor(target) or not _masks_match(target, source):
        raise ArgumentError("copy_", "other masks: args[0] mask and args[1] mask must match but do not",
                            "a copy in place keeps the mask", "make another tensor with masked_tensor")
    func(target._masked_data, data_of(source), *rest, **kwargs)
    return target


@rule("where", "where_self")
def where(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the elements of two tensors and of their masks; plain tensors have masks that are true everywhere.

    Raises:
        ArgumentError: The two tensors are missing.
    """
    names = ("input", "condition", "other") if name_of(func).endswith("where_self") else ("condition", "input", "other")
    given = dict(zip(names, args, strict=False)) | kwargs
    condition, first, second = (given.get(name) for name in ("condition", "input", "other"))
    if first is None or second is None:
        raise ArgumentError("where", f"{len(given)} arguments: __torch_function__, torch.where: len(args) must be 3 "
                            f"but got {len(given)}", "a choice is between two tensors", "pass both of them")
    condition = data_of(condition)
    sides = [x if hasattr(x, "_key") else condition.new_full((), x, dtype=dtypes.float32 if isinstance(x, float)
                                                             else dtypes.int64) for x in (first, second)]
    result = functions.where(condition, *(data_of(x) for x in sides))
    held = functions.where(condition, *(mask_of(x) for x in sides))
    return joined(result, held)


@rule("item", "_local_scalar_dense")
def item(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the single element.

    Raises:
        ArgumentError: The mask does not hold the element.
    """
    masked = args[0]
    if not masked.to_dense()._masked_mask.reshape(()).item():
        raise ArgumentError("item", "an element that the mask leaves out: expected a mask tensor", "only elements that "
                            "count have a value", "use get_data().item()")
    return masked._masked_data.item()
