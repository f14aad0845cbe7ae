"""Forward mode: tensors with tangents, in a dual level."""

from __future__ import annotations

from tensocket_operators.differentiation.dual_levels import (
    UnpackedDualTensor,
    current_level,
    dual_level,
    enter_dual_level,
    exit_dual_level,
    is_forward_grad_enabled,
    make_dual,
    set_forward_grad_enabled,
    unpack_dual,
)

_is_fwd_grad_enabled = is_forward_grad_enabled
_set_fwd_grad_enabled = set_forward_grad_enabled


def __getattr__(name: str) -> int:
    """Return ``_current_level``, whose value changes."""
    if name == "_current_level":
        return current_level()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "set_forward_grad_enabled",
    "unpack_dual",
]
