"""Names that programs import from PyTorch's native module: guards that disable parts of dispatch, and autograd."""

from __future__ import annotations

import weakref
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Final

from tensocket_compiler.graph.names import PUBLIC
from tensocket_compiler.graph.purity import has_side_effect
from tensocket_core.autograd.engine import current_pass
from tensocket_core.autograd.inspection import SavedTensor
from tensocket_core.autograd.node import AccumulateGrad
from tensocket_core.autograd.saved import hooks_are_enabled
from tensocket_core.dispatch.modes import STATE, thread_state, update_state
from tensocket_core.dispatch.overrides import DisableTorchFunction, DisableTorchFunctionSubclass
from tensocket_core.dispatch.overrides import disabled_torch_dispatch as _disabled_torch_dispatch_impl
from tensocket_core.dispatch.overrides import disabled_torch_function as _disabled_torch_function_impl
from tensocket_core.keys import AUTOGRAD, WRAPPER
from tensocket_operators import Tensor, accelerator, device, get_default_device, is_grad_enabled, set_grad_enabled
from tensocket_operators.differentiation.delayed import DelayedError, UndefinedGrad
from tensocket_operators.differentiation.dual_levels import is_forward_grad_enabled as _is_fwd_grad_enabled
from tensocket_operators.differentiation.dual_levels import set_forward_grad_enabled
from tensocket_operators.library import Tag as Tag


class _AutoDispatchBelowAutograd(thread_state):
    """``with _AutoDispatchBelowAutograd():`` — calls skip the layer that records gradients."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(exclude=STATE.exclude | AUTOGRAD)


class _DisableTorchDispatch(thread_state):
    """``with _DisableTorchDispatch():`` — calls skip dispatch modes and ``__torch_dispatch__`` of classes."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(exclude=STATE.exclude | WRAPPER)


class _EnableTorchFunction:
    """A guard that enables ``__torch_function__`` of classes while it lives, also within a guard that disables it."""

    __slots__ = ("_before",)

    def __init__(self) -> None:
        self._before = update_state(overrides_off=False)

    def __del__(self) -> None:
        update_state(**self._before)


def _is_torch_function_enabled() -> bool:
    """Whether ``__torch_function__`` of classes is enabled."""
    return not STATE.overrides_off


@has_side_effect
def _set_grad_enabled(enabled: bool) -> None:
    """Turn the recording of gradients on or off in this thread."""
    set_grad_enabled(enabled)


PUBLIC.add_name("torch._C._set_grad_enabled", _set_grad_enabled)


def _get_dispatch_modes() -> tuple[Any, ...]:
    """Return the active dispatch modes, innermost last."""
    return STATE.dispatch_modes


class _WeakTensorRef:
    """A reference to a tensor that does not keep it alive.

    Args:
        tensor: The tensor.
    """

    __slots__ = ("_reference",)

    def __init__(self, tensor: Any) -> None:
        self._reference = weakref.ref(tensor)

    def expired(self) -> bool:
        """Whether the tensor was deleted."""
        return self._reference() is None


def _current_graph_task_id() -> int:
    """Return the number of this thread's innermost backward pass; -1 outside of passes."""
    running = current_pass()
    return -1 if running is None else running.number


def _set_fwd_grad_enabled(enabled: bool) -> None:
    """Set whether tangents are computed."""
    set_forward_grad_enabled(enabled)


def _log_api_usage_once(event: str) -> None:
    """Do nothing: nobody is told which functions a program uses."""


def _get_tracing_state() -> None:
    """Return None: operators do not build a graph of a tracer in C++."""


def _is_torch_function_mode_enabled() -> bool:
    """Whether a mode intercepts ``__torch_function__``."""
    return bool(STATE.function_modes)


def _are_functorch_transforms_active() -> bool:
    """Whether a transform of functions runs."""
    return bool(STATE.transforms)


def _get_default_device() -> str:
    """Return the type of the device of new tensors."""
    return str(get_default_device().type)


def _get_accelerator(check: bool | None = None) -> Any:
    """Return the device type of accelerators, as a device without index; that of the host without one."""
    return accelerator.current_accelerator() or device("cpu")


def _is_alias_of(data: Any, other: Any) -> bool:
    """Whether two tensors are on the same memory."""
    return bool(data.untyped_storage()._cdata == other.untyped_storage()._cdata)


#: The class of the class ``Tensor``.
_TensorMeta: Final = type(Tensor)
#: Nodes that programs construct or search for.
_functions: Final = SimpleNamespace(AccumulateGrad=AccumulateGrad, DelayedError=DelayedError,
                                    UndefinedGrad=UndefinedGrad)
#: The attribute names by which programs read saved tensors.
_autograd: Final = SimpleNamespace(SavedTensor=SavedTensor, _saved_tensors_hooks_is_enabled=hooks_are_enabled)


def __getattr__(name: str) -> Any:
    """Return a module or name that is imported at its first use."""
    if name in ("_cpu", "_functorch", "_nn"):
        return import_module(f"tensocket._C.{name}")
    keys = name in ("DispatchKey", "DispatchKeySet", "_ExcludeDispatchKeyGuard")
    module = import_module("tensocket._C._dispatch_keys" if keys else "tensocket.jit.native_names")
    try:
        return getattr(module, name)
    except AttributeError:
        raise AttributeError(f"module 'tensocket._C' has no attribute {name!r}") from None


__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "_disabled_torch_dispatch_impl",
    "_disabled_torch_function_impl",
    "_is_fwd_grad_enabled",
    "is_grad_enabled",
]
