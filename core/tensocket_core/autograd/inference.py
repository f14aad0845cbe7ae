"""Inference mode: no recording, and results that never take part in recording."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket_plugins.contract.errors import AutogradError

from ..dispatch.decorate import decorate
from ..dispatch.modes import STATE, enable_grad, no_grad, update_state


class InferenceCounter:
    """Counter of an inference tensor, which does not count in-place changes.

    A reader of the count either saves the tensor for backward (index 0) or modifies it (index -1). Only inference mode
    allows that.
    """

    __slots__ = ()

    def __getitem__(self, index: int) -> int:
        if STATE.inference is None:
            raise AutogradError("inference_mode", "an inference tensor outside of inference mode",
                                "it is not saved for backward and not modified there, as its changes are not counted",
                                "clone() it first, or use no_grad instead of inference_mode")
        return 0

    def __setitem__(self, index: int, value: int) -> None:
        """Do nothing: changes do not count."""


COUNTER: Final = InferenceCounter()


class DetachedCounter(InferenceCounter):
    """Counter of a tensor detached from an inference tensor outside of inference mode; that tensor may be modified."""

    __slots__ = ("_changes",)

    def __init__(self) -> None:
        self._changes = 0

    def __getitem__(self, index: int) -> int:
        return self._changes if index == -1 else super().__getitem__(index)

    def __setitem__(self, index: int, value: int) -> None:
        self._changes = value


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode."""
    return STATE.inference is not None


def is_inference(tensor: Any) -> bool:
    """Whether a tensor was made in inference mode."""
    return isinstance(tensor._version_counter, InferenceCounter)


def check_outside(tensor: Any) -> None:
    """Raise if an inference tensor is to require a gradient outside of inference mode.

    Raises:
        AutogradError: The tensor is an inference tensor.
    """
    if is_inference(tensor) and STATE.inference is None:
        raise AutogradError("requires_grad", "True for an inference tensor",
                            "inference tensors take no part in autograd outside of inference mode", "clone() it first")


def detached(alias: Any) -> Any:
    """Return ``alias``, which was detached from a tensor; that of an inference tensor gets its own counter."""
    if STATE.inference is None and is_inference(alias):
        alias._version_counter = DetachedCounter()
    return alias


def mark(result: Any) -> Any:
    """Mark an operator's result as one of inference mode: new tensors become inference tensors.

    Tensors that already count changes are views or arguments of the operator and remain as they are; views of inference
    tensors have no base.
    """
    if isinstance(result, (tuple, list)):
        for each in result:
            mark(each)
    elif getattr(result, "_version_counter", COUNTER) is None:
        result._version_counter = COUNTER
    elif hasattr(result, "_key") and result._version_counter is COUNTER:
        result._base = None
    return result


class inference_mode:
    """A block or function without recording and counting of changes; new tensors stay out of autograd.

    Args:
        mode: False turns an outer inference mode off for the block. A function is decorated.
    """

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        """Return a context, or a decorated function."""
        return object.__new__(cls) if isinstance(mode, bool) else cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode
        self._before: list[tuple[Any, Any]] = []

    def __enter__(self) -> None:
        grad = no_grad() if self.mode else enable_grad()
        grad.__enter__()
        before = update_state(inference=mark if self.mode else None)
        self._before.append((before["inference"], grad))

    def __exit__(self, *error: object) -> None:
        inference, grad = self._before.pop()
        update_state(inference=inference)
        grad.__exit__(*error)

    def __call__(self, function: Callable[..., Any]) -> Any:
        """Decorate ``function``."""
        mode = self.mode
        return decorate(lambda: inference_mode(mode), function)
