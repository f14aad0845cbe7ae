"""Sparse tensors without values, and those like another tensor."""

from __future__ import annotations

from typing import Any

from tensocket_plugins.contract.dtypes import int64
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError

from .. import creation
from ..creation import shape_of
from ..dispatch.factory_keywords import LAYOUTS
from ..dispatch.modes import as_leaf
from ..formats import layout, preserve_format, sparse_coo, sparse_csr
from .construct import sparse_coo_tensor
from .tensor import RULES, SparseTensor, in_layout, sparse_rule, wrap_sparse


def without_values(shape: tuple[int, ...], sparse_dim: int, kind: layout, dtype: Any, device: Any,
                   requires_grad: bool = False) -> SparseTensor:
    """A sparse tensor of zeros."""
    stored = creation.zeros((0, *shape[sparse_dim:]), dtype=dtype, device=device)
    rows = stored.new_zeros((sparse_dim, 0), dtype=int64)
    made = in_layout(wrap_sparse(rows, stored, shape, sparse_coo, True), kind)
    if requires_grad:
        as_leaf(made)
    return made


def _empty(kind: layout, operator: str, args: tuple[Any, ...], given: dict[str, Any]) -> SparseTensor:
    """``empty`` and ``zeros`` in a sparse layout, with sizes, and a method's tensor in front of them."""
    source, sizes = (args[0], args[1:]) if args and hasattr(args[0], "_key") else (None, args)
    shape = tuple(args[0].shape) if operator.endswith("_like") else shape_of(operator, sizes)
    dtype, device = given.get("dtype"), given.get("device")
    if source is not None:
        dtype, device = dtype or source.dtype, source.device if device is None else device
    return without_values(shape, len(shape), kind, dtype, device, bool(given.get("requires_grad")))


def _empty_coo(operator: str, args: tuple[Any, ...], given: dict[str, Any]) -> SparseTensor:
    return _empty(sparse_coo, operator, args, given)


def _empty_csr(operator: str, args: tuple[Any, ...], given: dict[str, Any]) -> SparseTensor:
    return _empty(sparse_csr, operator, args, given)


LAYOUTS.update({sparse_coo: _empty_coo, sparse_csr: _empty_csr})


@sparse_rule("new_empty", "new_zeros")
def _new(input: Any, *size: Any, dtype: Any = None, layout: Any = None, device: Any = None,
         requires_grad: bool = False, pin_memory: bool = False, **keywords: Any) -> Any:
    shape = shape_of("new_empty", size or (keywords["size"],))
    dtype, device = dtype or input.dtype, input.device if device is None else device
    return without_values(shape, len(shape), layout or input._kind, dtype, device, requires_grad)


@sparse_rule("zeros_like", "empty_like")
def _like(input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
          pin_memory: bool = False, memory_format: Any = None) -> Any:
    dtype, device = dtype or input.dtype, input.device if device is None else device
    if memory_format not in (None, preserve_format):
        raise ArgumentError("zeros_like", f"memory_format={memory_format!r} for a sparse tensor",
                            "memory formats are those of strided tensors", "leave memory_format out")
    return without_values(tuple(input.shape), input.sparse_dim(), layout or input._kind, dtype, device, requires_grad)


def _dense_like(name: str) -> Any:
    """A rule that refuses to store what fills every element."""

    def rule(input: Any, *args: Any, **options: Any) -> Any:
        raise ArgumentError(name, f"layout {input._kind!r}", "a tensor whose elements are not zeros is strided",
                            "pass layout=tensocket.strided")

    return rule


RULES.update({name: _dense_like(name) for name in (
    "ones_like", "full_like", "rand_like", "randn_like", "randint_like")})


def _new_legacy(self: Any, *data: Any, device: Any = None) -> Any:
    """A tensor of sizes, or of positions, values and a size, of this one's dtype and device."""
    if device is not None and str(device) != str(self.device):
        raise ArgumentTypeError("new", f"device {device} for a tensor on {self.device}",
                                "the new tensor lies on the same device", "leave device out")
    if not data or isinstance(data[0], int) or type(data[0]).__name__ == "Size":
        return _new(self, *(data or (0,)))
    return sparse_coo_tensor(*data, dtype=self.dtype, device=self.device)


SparseTensor.new = _new_legacy  # type: ignore[method-assign, assignment]

__all__ = ["without_values"]
