"""The names that a function sees: its closure, its globals, and those of its caller."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable
from typing import Any


def resolver_of(function: Any) -> Callable[[str], Any]:
    """Return a function that looks a name up as a Python function does; it raises KeyError for unknown names."""
    plain = inspect.unwrap(getattr(function, "__func__", function)) if callable(function) else function
    names = dict(getattr(plain, "__globals__", {}))
    with contextlib.suppress(TypeError, ValueError):
        names.update(inspect.getclosurevars(plain).nonlocals)

    def resolve(name: str) -> Any:
        return names[name]

    return resolve


def resolver_of_frame(depth: int) -> Callable[[str], Any]:
    """Return a function that looks a name up as code of a caller does.

    Args:
        depth: The number of frames between this function's caller and that code.
    """
    frame = sys._getframe(depth + 1)
    local, outer = frame.f_locals, frame.f_globals

    def resolve(name: str) -> Any:
        return local[name] if name in local else outer[name]

    return resolve


def resolver_of_class(kind: type) -> Callable[[str], Any]:
    """Return a function that looks a name up as the methods of a class do."""
    resolvers = [resolver_of(member) for member in vars(kind).values() if inspect.isfunction(member)]
    module = vars(sys.modules.get(kind.__module__) or sys)

    def resolve(name: str) -> Any:
        for each in resolvers:
            try:
                return each(name)
            except KeyError:
                continue
        if name == kind.__name__:
            return kind
        return module[name]

    return resolve


def first_of(*resolvers: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a function that asks several resolvers in turn."""

    def resolve(name: str) -> Any:
        for each in resolvers:
            try:
                return each(name)
            except KeyError:
                continue
        raise KeyError(name)

    return resolve
