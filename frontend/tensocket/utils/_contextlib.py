"""Bases of context managers that also decorate functions, generators and coroutines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket_core.dispatch.decorate import decorate

context_decorator = decorate


class _DecoratorContextManager:
    """A context manager that decorates functions when it is called with one; ``clone`` makes it for each call."""

    def __call__(self, orig_func: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that runs in the context."""
        decorated: Callable[..., Any] = decorate(self.clone, orig_func)
        return decorated

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *error: object) -> Any:
        raise NotImplementedError

    def clone(self) -> Any:
        """Return another context manager like this one; classes whose constructors take arguments define their own."""
        return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """A context manager without arguments, so that its class decorates functions, too: ``@manager``."""

    def __new__(cls, orig_func: Callable[..., Any] | None = None) -> Any:
        """Return a manager, or a decorated function."""
        return super().__new__(cls) if orig_func is None else cls()(orig_func)


__all__ = ["context_decorator"]
