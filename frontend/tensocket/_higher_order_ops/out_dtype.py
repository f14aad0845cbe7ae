"""An operator with a result in another dtype, such as a product of 8-bit integers in 32 bits."""

from __future__ import annotations

from typing import Any, Final

import tensocket as torch
from tensocket.errors import ArgumentError
from tensocket.utils import _pytree

#: The operators that may be given, each linear in its arguments.
_ALLOWED: Final = ("linear", "mm", "conv2d", "convolution", "mul", "div")


def out_dtype(op: Any, output_dtype: Any, *args: Any) -> Any:
    """Return an operator's result in ``output_dtype``, computed in the dtype to which this and the arguments promote.

    Args:
        op: The operator, of ``torch.ops.aten``: ``mm.default``, for example.
        output_dtype: The result's dtype.
        args: The operator's arguments.

    Raises:
        ArgumentError: It is not one of the operators that are linear in each argument.
    """
    if getattr(op, "name", None) not in _ALLOWED:
        raise ArgumentError("out_dtype", str(op), f"the operator is one of {', '.join(_ALLOWED)}",
                            "call the operator, and convert its result")
    wide = output_dtype
    for value in _pytree.tree_leaves(args):
        if isinstance(value, torch.Tensor):
            wide = torch.promote_types(wide, value.dtype)
    converted = _pytree.tree_map_only(torch.Tensor, lambda value: value.to(wide), args)
    return op(*converted).to(output_dtype)
