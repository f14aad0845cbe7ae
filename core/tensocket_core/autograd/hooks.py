"""Hooks on gradients."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any


def keep_gradient(owner: weakref.ref[Any], grad: Any) -> None:
    """A hook for ``retain_grad``; it does not keep its tensor alive, whose node keeps the hook."""
    tensor = owner()
    if tensor is not None:
        tensor._grad = grad if tensor._grad is None else tensor._grad + grad


class HookHandle:
    """What ``register_hook`` returns.

    Args:
        owner: What holds the list of hooks.
        name: The list's attribute.
        hook: The hook.
    """

    __slots__ = ("_hook", "_name", "_owner")

    def __init__(self, owner: Any, name: str, hook: Callable[..., Any]) -> None:
        self._owner = owner
        self._name = name
        self._hook = hook

    def remove(self) -> None:
        """Take the hook off; nothing happens the second time."""
        hooks = list(getattr(self._owner, self._name) or ())
        if self._hook in hooks:
            hooks.remove(self._hook)
            setattr(self._owner, self._name, hooks)
