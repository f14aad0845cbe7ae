"""The default device of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tensocket_core import device as _device
from tensocket_core.dispatch.decorate import decorate

F = TypeVar("F", bound=Callable[..., Any])


def set_device(device: Any) -> Callable[[F], F]:
    """Return a decorator: factories within the function make tensors on ``device``, also in the steps of a
    generator.
    """
    return lambda function: decorate(lambda: _device(device), function)


__all__ = ["set_device"]
