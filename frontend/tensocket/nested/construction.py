"""Construction of nested tensors."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import tensocket_operators as core
from tensocket_core.formats import jagged, strided
from tensocket_core.promotion import get_default_dtype
from tensocket_operators import Tensor
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, ShapeError

from .padding import joined, offsets_of
from .structures import Pieces, Ragged
from .tensors import Nested, nested, view_of


def _check_layout(operator: str, layout: Any) -> Any:
    layout = strided if layout is None else layout
    if layout not in (strided, jagged):
        raise ArgumentError(operator, f"layout {layout}",
                            f"Specified layout is unsupported for nested tensors: {layout}",
                            "pass strided or jagged")
    return layout


def from_list(operator: str, parts: list[Any], layout: Any, dtype: Any = None, device: Any = None) -> Any:
    """Make a nested tensor of tensors; gradients flow back into them."""
    dtype = dtype if dtype is not None else parts[0].dtype if parts else get_default_dtype()
    ranks = [x.dim() for x in parts]
    for k, (before, rank) in enumerate(pairwise(ranks), 1):
        if rank != before:
            raise ShapeError(operator, "components of several numbers of dimensions",
                             "All Tensors given to nested_tensor must have the same dimension. Found dimension "
                             f"{rank} for Tensor at index {k} and dimension {before} for Tensor at index {k - 1}.",
                             "pass components of one number of dimensions")
    parts = [x.to(dtype=dtype, device=device if device is not None else x.device) for x in parts]
    if layout is jagged:
        return ragged_from_list(operator, parts)
    if not parts:
        return nested(core.empty(0, dtype=dtype, device=device), Pieces([]))
    return joined(parts)


def ragged_from_list(operator: str, parts: list[Any], offsets: Tensor | None = None) -> Any:
    """Make a nested tensor of layout jagged from tensors that differ only in their first dimension."""
    if not parts:
        raise ArgumentError(operator, "no components", "Cannot create a nested tensor of layout jagged from an empty "
                            "list", "pass components")
    if len({tuple(x.shape[1:]) for x in parts}) > 1 or parts[0].dim() == 0:
        raise ShapeError(operator, f"components of shapes {[list(x.shape) for x in parts]}",
                         "Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the "
                         "jagged layout only represents shapes of the form (B, *, D_0, D_1, ..., D_N), with only * "
                         "allowed to be ragged.", "use layout strided")
    lengths = [x.shape[0] for x in parts]
    if offsets is None:
        offsets = offsets_of(lengths, parts[0])
    return nested(core.cat(parts, 0), Ragged(offsets, None, 1, parts[0].dim() + 1, min(lengths), max(lengths)))


def _list_of(operator: str, given: Any) -> list[Any]:
    if not isinstance(given, (list, tuple)):
        raise ArgumentTypeError(operator, f"{type(given).__name__}", "Only lists (List) of tensors can be made a "
                                "nested tensor", "pass a list of tensors")
    return list(given)


def nested_tensor(tensor_list: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
                  requires_grad: bool = False, pin_memory: bool = False) -> Any:
    """Return a nested tensor of copies of tensors or lists of numbers: a leaf.

    Args:
        tensor_list: The components.
        dtype: The dtype; that of the first component if not given.
        layout: ``strided`` or ``jagged``.
        device: The device; that of the components if not given.
        requires_grad: Whether it requires a gradient.
        pin_memory: Accepted as in PyTorch.

    Raises:
        ArgumentTypeError: ``tensor_list`` is not a list.
        ShapeError: The components do not fit into one nested tensor.
    """
    layout = _check_layout("nested_tensor", layout)
    items = _list_of("nested_tensor", tensor_list)
    parts = [x.detach() if isinstance(x, Tensor) else core.tensor(x, dtype=dtype, device=device) for x in items]
    with core.no_grad():
        made = from_list("nested_tensor", parts, layout, dtype, device)
    if len(parts) == 1:
        made = made.clone()
    return made.requires_grad_(requires_grad) if requires_grad else made


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> Any:
    """Make a nested tensor of tensors, with their history; a dense tensor's components are its entries.

    Args:
        ts: A list of tensors, a dense tensor, or a nested one.
        dtype: The dtype; that of the components if not given.
        device: The device; that of the components if not given.
        layout: ``strided`` or ``jagged``.

    Raises:
        ArgumentTypeError: A component is not a tensor.
        ArgumentError: A nested tensor has another layout.
        ShapeError: A dense tensor has fewer than 2 dimensions, or components do not fit.
    """
    layout = _check_layout("as_nested_tensor", layout)
    if isinstance(ts, Nested):
        if ts.layout is not layout:
            raise ArgumentError("as_nested_tensor", f"a nested tensor of layout {ts.layout}",
                                "Converting between nested tensor layouts is not supported", "use unbind()")
        return ts.to(device=device if device is not None else ts.device, dtype=dtype or ts.dtype)
    if isinstance(ts, Tensor):
        return _from_dense(ts, dtype, device, layout)
    parts = _list_of("as_nested_tensor", ts)
    for x in parts:
        if not isinstance(x, Tensor):
            raise ArgumentTypeError("as_nested_tensor", f"a component of type {type(x).__name__}",
                                    "as_nested_tensor(): Expected first argument to be a tensor, or a list / tuple of "
                                    "tensors", "use nested_tensor")
    return from_list("as_nested_tensor", parts, layout, dtype, device)


def _from_dense(tensor: Tensor, dtype: Any, device: Any, layout: Any) -> Any:
    if tensor.dim() < 2:
        raise ShapeError("as_nested_tensor", f"a tensor of {tensor.dim()} dimensions",
                         "as_nested_tensor(): Expected tensor argument to have dim() > 1", "pass a batch of tensors")
    tensor = tensor.to(dtype=dtype or tensor.dtype, device=device if device is not None else tensor.device)
    count, length = int(tensor.shape[0]), int(tensor.shape[1])
    if layout is jagged:
        offsets = offsets_of([length] * count, tensor)
        return nested(view_of(tensor.flatten(0, 1)), Ragged(offsets, None, 1, tensor.dim(), length, length))
    return nested(view_of(tensor.reshape(-1)), Pieces([tuple(tensor.shape[1:])] * count, ndim=tensor.dim()))


def nested_tensor_from_jagged(values: Tensor, offsets: Tensor | None = None, lengths: Tensor | None = None,
                              jagged_dim: int | None = None, min_seqlen: int | None = None,
                              max_seqlen: int | None = None) -> Any:
    """Return a view of a dense tensor that concatenates the components.

    Args:
        values: The concatenated components.
        offsets: Start of each component, and end of the last one.
        lengths: Sizes of the components. Without ``offsets``, there are no gaps between them.
        jagged_dim: The ragged dimension, counting that of the batch; 1 if not given.
        min_seqlen: The smallest size, if known.
        max_seqlen: The largest size, if known.

    Raises:
        ArgumentError: Neither offsets nor lengths are given, or ``jagged_dim`` is less than 1.
    """
    if offsets is None:
        if lengths is None:
            raise ArgumentError("nested_tensor_from_jagged", "neither offsets nor lengths",
                                "nested_tensor_from_jagged(): At least one of offsets or lengths is required.",
                                "pass one of them")
        offsets, lengths = core.cat([lengths.new_zeros(1), lengths.cumsum(0)]), None
    axis = 1 if jagged_dim is None else jagged_dim
    if axis < 1:
        raise ArgumentError("nested_tensor_from_jagged", f"jagged_dim={axis}", f"Expected jagged_dim >=1, but got "
                            f"{axis}.", "pass 1 or more")
    return nested(view_of(values), Ragged(offsets, lengths, axis, values.dim() + 1, min_seqlen, max_seqlen))


def narrow(tensor: Tensor, dim: int, start: Any, length: Any, layout: Any = None) -> Any:
    """Return a view of a part of each entry of a dense tensor, from ``start`` on; start and length may differ by entry.

    Args:
        tensor: A dense tensor.
        dim: 1, the dimension after that of the batch.
        start: Start of the part: an integer, or a tensor with one for each entry.
        length: Length of the part, likewise.
        layout: ``jagged``, or ``strided`` for parts of one size.

    Raises:
        ArgumentTypeError: Start or length is neither an integer nor a tensor.
        ArgumentError: The dimension or layout is not supported.
    """
    layout = _check_layout("narrow", layout)
    for what, value in (("start", start), ("length", length)):
        if not isinstance(value, (int, Tensor)):
            raise ArgumentTypeError("narrow", f"{what} of type {type(value).__name__}",
                                    f"{what} must be an integer or a tensor", "pass an integer")
    if layout is strided:
        if isinstance(start, Tensor) or isinstance(length, Tensor):
            raise ArgumentError("narrow", "tensors of starts or lengths", "start and length must be integers for the "
                                "strided layout NT impl", "use layout jagged")
        return as_nested_tensor(list(tensor.unbind(0)), layout=strided).narrow(dim, start, length)
    if dim != 1:
        raise ArgumentError("narrow", f"dim={dim}", "jagged layout only supports dim=1", "pass dim=1")
    count, size = int(tensor.shape[0]), int(tensor.shape[1])
    starts = start.tolist() if isinstance(start, Tensor) else [start] * count
    lengths = length.tolist() if isinstance(length, Tensor) else [length] * count
    places = [k * size + a for k, a in enumerate(starts)]
    values = tensor.flatten(0, 1)
    if all(a + n == b for a, n, b in zip(places, lengths, places[1:], strict=False)):
        places, sizes = [*places, places[-1] + lengths[-1]], None
    else:
        places = [*places, count * size]
        sizes = length if isinstance(length, Tensor) else core.tensor(lengths, device=tensor.device)
    offsets = core.tensor(places, dtype=core.int64, device=tensor.device)
    return nested(view_of(values), Ragged(offsets, sizes, 1, tensor.dim(), min(lengths), max(lengths)))


def masked_select(tensor: Tensor, mask: Tensor) -> Any:
    """Return the elements of each row of a dense tensor for which ``mask`` is true, as a nested tensor of layout
    jagged.

    Args:
        tensor: A dense tensor of at least 2 dimensions.
        mask: Bools that broadcast with it.

    Raises:
        ArgumentError: The tensor is not strided.
        ShapeError: It has fewer than 2 dimensions.
    """
    if isinstance(tensor, Nested) or tensor.layout is not strided:
        raise ArgumentError("masked_select", "a tensor that is not strided",
                            "torch.nested.masked_select requires a strided tensor", "pass a dense tensor")
    if mask.layout is not strided or isinstance(mask, Nested):
        raise ArgumentError("masked_select", "a mask that is not strided",
                            "torch.nested.masked_select requires a strided mask", "pass a dense mask")
    full = core.broadcast_to(mask, tensor.shape) if mask.shape != tensor.shape else mask
    lengths = full.reshape(full.shape[0], -1).sum(1) if full.dim() > 1 else full.sum(0, keepdim=True)
    return nested_tensor_from_jagged(tensor.masked_select(full), lengths=lengths)
