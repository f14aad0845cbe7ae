"""Operators that move elements: data and mask move in the same way. Results are copies, not views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .core import _mapped, data_of, is_masked_tensor, joined, mask_of, rule

#: Operators of one tensor.
_MOVES: Final = (
    "__getitem__", "getitem", "basic_index", "select", "transpose", "swapaxes", "swapdims", "t", "permute", "movedim",
    "moveaxis", "expand", "expand_as", "broadcast_to", "view", "view_as", "reshape", "reshape_as", "flatten",
    "unflatten", "unsqueeze", "squeeze", "unfold", "narrow", "split", "split_with_sizes", "tensor_split", "chunk",
    "unbind", "index_select", "flip", "roll", "repeat", "tile", "diagonal", "im2col", "col2im")
#: Operators of several tensors; plain tensors have masks that are true everywhere.
_GATHERS: Final = ("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack")


def _wrapped(data: Any, mask: Any) -> Any:
    if isinstance(data, (tuple, list)):
        return type(data)(_wrapped(x, y) for x, y in zip(data, mask, strict=True))
    return joined(data, mask)


@rule(*_MOVES)
def move(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply the operator to the data and to the mask."""
    masks = [_mapped(x, lambda y: y.get_mask() if is_masked_tensor(y) else y) for x in args]
    return _wrapped(func(*data_of(list(args)), **kwargs), func(*masks, **kwargs))


@rule(*_GATHERS)
def gather(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply the operator to the data and to the masks."""
    tensors, *rest = args
    return joined(func(data_of(tensors), *rest, **kwargs), func(mask_of(tensors), *rest, **kwargs))
