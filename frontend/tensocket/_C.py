# ruff: noqa: N999
"""Names that programs import from PyTorch's native module: guards that switch parts of dispatch off."""

from __future__ import annotations

from typing import Any

from tensocket_core.dispatch.keys import AUTOGRAD, WRAPPER
from tensocket_core.dispatch.modes import STATE, thread_state, update_state
from tensocket_core.dispatch.overrides import DisableTorchFunction, DisableTorchFunctionSubclass
from tensocket_core.dispatch.overrides import disabled_torch_dispatch as _disabled_torch_dispatch_impl
from tensocket_core.dispatch.overrides import disabled_torch_function as _disabled_torch_function_impl


class _AutoDispatchBelowAutograd(thread_state):
    """``with _AutoDispatchBelowAutograd():`` — calls go below the layer that records gradients."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(exclude=STATE.exclude | AUTOGRAD)


class _DisableTorchDispatch(thread_state):
    """``with _DisableTorchDispatch():`` — neither dispatch modes nor ``__torch_dispatch__`` of classes see calls."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(exclude=STATE.exclude | WRAPPER)


class _EnableTorchFunction:
    """While an instance lives, ``__torch_function__`` of classes is asked, also within a guard that switches it off."""

    __slots__ = ("_before",)

    def __init__(self) -> None:
        self._before = update_state(overrides_off=False)

    def __del__(self) -> None:
        update_state(**self._before)


def _is_torch_function_enabled() -> bool:
    """Whether ``__torch_function__`` of classes is asked."""
    return not STATE.overrides_off


def _get_dispatch_modes() -> tuple[Any, ...]:
    """Active dispatch modes, innermost last."""
    return STATE.dispatch_modes


__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "_disabled_torch_dispatch_impl",
    "_disabled_torch_function_impl",
]
