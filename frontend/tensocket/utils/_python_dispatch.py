"""``__torch_dispatch__`` for modes and for tensors that wrap others: helpers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tensocket_core.dispatch.modes import STATE, thread_state
from tensocket_core.dispatch.protocol import TorchDispatchMode
from tensocket_operators import Tensor


@contextmanager
def _disable_current_modes() -> Iterator[tuple[Any, ...]]:
    """Disable all dispatch modes in the block."""
    modes = STATE.dispatch_modes
    with thread_state(dispatch_modes=()):
        yield modes


def _get_current_dispatch_mode() -> Any:
    """Return the innermost dispatch mode, or None."""
    modes = STATE.dispatch_modes
    return modes[-1] if modes else None


def _get_current_dispatch_mode_stack() -> list[Any]:
    """Return the active dispatch modes, innermost last."""
    return list(STATE.dispatch_modes)


def return_and_correct_aliasing(func: Any, args: tuple[Any, ...], kwargs: Any, out: Any) -> Any:
    """Return the result of a wrapping class's ``__torch_dispatch__``: for in-place operators the argument itself."""
    mutated = [k for k, parameter in enumerate(func.schema.parameters) if parameter.mutated]
    if not mutated:
        return out
    name = func.schema.parameters[mutated[0]].name
    return args[mutated[0]] if mutated[0] < len(args) else kwargs[name]


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether a tensor's class can be decomposed into plain tensors and rebuilt from them."""
    return isinstance(t, Tensor) and type(t) is not Tensor and hasattr(t, "__tensor_flatten__") and hasattr(
        t, "__tensor_unflatten__")


__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass", "return_and_correct_aliasing"]
