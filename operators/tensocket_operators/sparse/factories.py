"""Factories of sparse tensors without values and of sparse tensors like another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket_core.dispatch.modes import as_leaf
from tensocket_core.formats import layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided
from tensocket_plugins.contract.dtypes import int64
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, UnsupportedOperator

from .. import creation
from ..creation import shape_of
from ..creation.keywords import LAYOUTS
from .construct import sparse_coo_tensor
from .layouts import COMPRESSED, block_of, in_layout, position_dims
from .tensor import RULES, SparseTensor, sparse_rule, wrap_sparse


def without_values(shape: tuple[int, ...], sparse_dim: int, kind: layout, dtype: Any, device: Any,
                   requires_grad: bool = False) -> SparseTensor:
    """Return a sparse tensor of zeros, which stores no values."""
    if kind in COMPRESSED and (COMPRESSED[kind].blocked or sparse_dim < 2):
        raise ArgumentError("empty", f"layout {kind!r}: Only batched sparse compressed (non-block) tensors are "
                            f"supported, but got size {list(shape)}",
                            "layouts without blocks can be empty, and their tensors are matrices",
                            "convert a tensor with to_sparse()")
    stored = creation.zeros((0, *shape[sparse_dim:]), dtype=dtype, device=device)
    rows = stored.new_zeros((sparse_dim, 0), dtype=int64)
    made = in_layout(wrap_sparse(rows, stored, shape, sparse_coo, True), kind)
    if requires_grad:
        as_leaf(made)
    return made


def _empty(kind: layout, operator: str, args: tuple[Any, ...], given: dict[str, Any]) -> SparseTensor:
    """Run ``empty`` or ``zeros`` in a sparse layout; ``args`` are sizes, after the tensor if it is a method."""
    if operator.endswith("_like") and isinstance(args[0], SparseTensor):
        return RULES[operator](args[0], layout=kind, **given)  # type: ignore[no-any-return]
    if operator in ("empty_like", "zeros_like"):
        raise UnsupportedOperator(operator, f"layout={kind!r} for a strided tensor", "a tensor like a strided one is "
                                  "strided", "pass its shape to zeros")
    source, sizes = (args[0], args[1:]) if args and hasattr(args[0], "_key") else (None, args)
    shape = tuple(args[0].shape) if operator.endswith("_like") else shape_of(operator, sizes)
    dtype, device = given.get("dtype"), given.get("device")
    if source is not None:
        dtype, device = dtype or source.dtype, source.device if device is None else device
    return without_values(shape, len(shape), kind, dtype, device, bool(given.get("requires_grad")))


def _empty_coo(operator: str, args: tuple[Any, ...], given: dict[str, Any]) -> SparseTensor:
    return _empty(sparse_coo, operator, args, given)


def _empty_compressed(kind: layout) -> Callable[[str, tuple[Any, ...], dict[str, Any]], SparseTensor]:
    def make(operator: str, args: tuple[Any, ...], given: dict[str, Any]) -> SparseTensor:
        return _empty(kind, operator, args, given)

    return make


LAYOUTS.update({sparse_coo: _empty_coo, **{kind: _empty_compressed(kind) for kind in COMPRESSED}})


@sparse_rule("new_empty", "new_zeros")
def _new(input: Any, *size: Any, dtype: Any = None, layout: Any = None, device: Any = None,
         requires_grad: bool = False, pin_memory: bool = False, **keywords: Any) -> Any:
    shape = shape_of("new_empty", size or (keywords["size"],))
    dtype, device = dtype or input.dtype, input.device if device is None else device
    return without_values(shape, len(shape), layout or input._kind, dtype, device, requires_grad)


@sparse_rule("zeros_like")
def _like(input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
          pin_memory: bool = False, memory_format: Any = None) -> Any:
    dtype, device, kind = dtype or input.dtype, input.device if device is None else device, layout or input._kind
    if kind is strided and input._kind is sparse_coo:
        return creation.zeros(tuple(input.shape), dtype=dtype, device=device, requires_grad=requires_grad)
    if memory_format is not None:
        raise ArgumentError("zeros_like", f"memory_format={memory_format!r} for a sparse tensor",
                            "memory format option is only supported by strided tensors", "leave memory_format out")
    if kind is not input._kind and (sparse_coo in (kind, input._kind) or kind is strided):
        raise ArgumentError("zeros_like", f"layout={kind!r} for a tensor of layout {input._kind!r}",
                            "empty_like with different sparse layout is not supported", "leave layout out")
    made = without_values(tuple(input.shape), position_dims(input), _unblocked(kind), dtype, device)
    if kind is not made._kind:  # no blocks, but of the tensor's block size
        made = wrap_sparse(_no_blocks(input, kind), made.raw.new_zeros(
            (*input.shape[:input.batch_dim()], 0, *(block_of(input) or (1, 1)), *made.shape[position_dims(input):])),
            input.shape, kind, True)
    return as_leaf(made) if requires_grad else made


def _unblocked(kind: layout) -> layout:
    """Return the corresponding layout without blocks."""
    return {sparse_bsr: sparse_csr, sparse_bsc: sparse_csc}.get(kind, kind)


def _no_blocks(input: Any, kind: layout) -> tuple[Any, Any]:
    """Return the positions of a blocked tensor that stores no blocks."""
    lead, (tall, wide) = input.batch_dim(), block_of(input) or (1, 1)
    lines = input.shape[lead] // tall if COMPRESSED[kind].rows else input.shape[lead + 1] // wide
    starts, others = input.positions
    return starts.new_zeros((*starts.shape[:-1], lines + 1)), others.new_zeros((*others.shape[:-1], 0))


@sparse_rule("empty_like")
def _filled_like(input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
                 pin_memory: bool = False, memory_format: Any = None) -> Any:
    """Return a tensor of zeros like another one; compressed tensors keep their positions."""
    if input._kind is sparse_coo or layout not in (None, input._kind) or memory_format is not None:
        return _like(input, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad,
                     memory_format=memory_format)
    values = input.raw.new_zeros(tuple(input.raw.shape), dtype=dtype, device=device)
    places = tuple(x.to(values.device) for x in input.positions)
    made = wrap_sparse(places, values, input.shape, input._kind, True)
    return as_leaf(made) if requires_grad else made


def _ones_like(input: Any, *args: Any, **options: Any) -> Any:
    if input._kind is sparse_coo:
        return _dense_like("ones_like")(input)
    made = _filled_like(input, *args, **options)
    made.raw.fill_(1)
    return made


def _dense_like(name: str) -> Any:
    """Return a rule that refuses a factory whose elements are not zero."""

    def rule(input: Any, *args: Any, **options: Any) -> Any:
        raise ArgumentError(name, f"layout {input._kind!r}", "a tensor whose elements are not zeros is strided",
                            "pass layout=tensocket.strided")

    return rule


RULES.update({name: _dense_like(name) for name in (
    "full_like", "rand_like", "randn_like", "randint_like")})


RULES["ones_like"] = _ones_like


def _new_legacy(self: Any, *data: Any, device: Any = None) -> Any:
    """Return a tensor from sizes, or from positions, values and a size, with the dtype and device of ``self``."""
    if device is not None and str(device) != str(self.device):
        raise ArgumentTypeError("new", f"device {device} for a tensor on {self.device}",
                                "the new tensor lies on the same device", "leave device out")
    if not data or isinstance(data[0], int) or type(data[0]).__name__ == "Size":
        return _new(self, *(data or (0,)))
    return sparse_coo_tensor(*data, dtype=self.dtype, device=self.device)


SparseTensor.new = _new_legacy  # type: ignore[attr-defined]

__all__ = ["without_values"]
