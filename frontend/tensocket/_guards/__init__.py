"""The fake mode that is active, under PyTorch's names: libraries ask whether tensors have values."""

from __future__ import annotations

from typing import Any

from tensocket._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from tensocket.utils._python_dispatch import _get_current_dispatch_mode_stack
from tensocket_core.pytree import tree_flatten


def active_fake_mode() -> FakeTensorMode | None:
    """Return the innermost active ``FakeTensorMode``, or None."""
    modes = reversed(_get_current_dispatch_mode_stack())
    return next((mode for mode in modes if isinstance(mode, FakeTensorMode)), None)


def detect_fake_mode(inputs: Any = None) -> FakeTensorMode | None:
    """Return the active ``FakeTensorMode``, else that of a fake tensor in nested values, or None."""
    active = active_fake_mode()
    if active is not None:
        return active
    fakes = (value for value in tree_flatten(inputs)[0] if isinstance(value, FakeTensor))
    return next((fake.fake_mode for fake in fakes), None)


__all__ = ["active_fake_mode", "detect_fake_mode"]
