"""Scripts: programs that call a function before and after a change, and yield what can be told of every call."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tensocket as torch

#: Calls before a change, and after it.
CALLS = 12

#: Gets a function and returns what is to be called in its place; a script calls it like ``torch.compile``.
Compile = Callable[..., Any]
Script = Callable[[Compile], Iterator[Any]]


def vector() -> torch.Tensor:
    """Return the usual argument."""
    return torch.arange(1.0, 5.0)


def told(value: Any) -> Any:
    """Return all that can be compared of a result."""
    if isinstance(value, torch.Tensor):
        form = (str(value.dtype), tuple(value.shape), value.stride(), value.requires_grad, value.is_leaf)
        return value.detach().cpu().tolist(), *form
    if isinstance(value, np.ndarray):
        return value.tolist(), str(value.dtype), value.shape
    if isinstance(value, (list, tuple)):
        return [told(item) for item in value]
    if isinstance(value, dict):
        return {key: told(item) for key, item in value.items()}
    return repr(value)


def outcome(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what can be told of a call: of its result, or of its exception."""
    try:
        return told(function(*args, **kwargs))
    except Exception as error:
        return type(error).__name__, str(error)


def calls(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Iterator[Any]:
    """Call a function a dozen times; without arguments, it gets the usual one."""
    for _ in range(CALLS):
        yield outcome(function, *(args or (vector(),)), **kwargs)


def scripts_of(module: types.ModuleType) -> list[Script]:
    """Return the scripts of a module: its functions that yield."""
    return [value for value in vars(module).values() if isinstance(value, types.FunctionType)
            and value.__code__.co_flags & 0x20 and value.__module__ == module.__name__]
