"""Forward mode by hand: tensors with tangents, in a dual level."""

from __future__ import annotations

from tensocket_core.transforms.dual_levels import (
    UnpackedDualTensor,
    dual_level,
    enter_dual_level,
    exit_dual_level,
    make_dual,
    set_forward_grad_enabled,
    unpack_dual,
)

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "set_forward_grad_enabled",
    "unpack_dual",
]
