"""Access to the tensors of a module by name."""

from __future__ import annotations

from typing import Any

from tensocket.errors import ArgumentError
from tensocket.nn import Module
from tensocket_operators import Tensor


def swap_tensor(module: Module, name: str, tensor: Tensor | None, allow_missing: bool = False) -> Any:
    """Put another tensor in the place of a parameter or buffer of a module, and return the former one.

    Args:
        module: The module itself, whose submodules are left alone.
        name: The name, without a dot.
        tensor: The tensor.
        allow_missing: Whether the module may lack the name; then an attribute is set.

    Raises:
        ArgumentError: The module has no tensor of that name.
    """
    for table in (module._parameters, module._buffers):
        if name in table:
            before = table[name]
            table[name] = tensor  # type: ignore[assignment]
            return before
    before = getattr(module, name, None)
    if not allow_missing and not isinstance(before, Tensor):
        raise ArgumentError("swap_tensor", f"the name {name!r}", f"{type(module).__name__} has a tensor of that name",
                            "see named_parameters() and named_buffers()")
    setattr(module, name, tensor)
    return before


__all__ = ["swap_tensor"]
