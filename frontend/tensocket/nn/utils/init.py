"""Construction of modules without initial values."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from tensocket.errors import ArgumentError
from tensocket.nn.modules.module import Module

M = TypeVar("M", bound=Module)


def skip_init(module_cls: type[M], *args: Any, **kwargs: Any) -> M:
    """Construct a module whose parameters have memory but no initial values.

    Args:
        module_cls: Its class, whose constructor takes ``device``.
        args: Arguments of the constructor.
        kwargs: Named arguments of the constructor.

    Raises:
        ArgumentError: The class is not a module, or its constructor takes no ``device``.
    """
    if not issubclass(module_cls, Module):
        raise ArgumentError("skip_init", f"{module_cls}", "the class is a module's", "derive it from nn.Module")
    if "device" not in inspect.signature(module_cls).parameters:
        raise ArgumentError("skip_init", f"{module_cls.__name__}", "Module must support a 'device' arg to skip "
                            "initialization", "add one to its constructor")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **{**kwargs, "device": "meta"}).to_empty(device=device)


__all__ = ["skip_init"]
