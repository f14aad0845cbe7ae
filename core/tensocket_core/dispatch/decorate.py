"""Contexts as decorators of functions, generators and coroutines."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any

Context = Callable[[], AbstractContextManager[Any]]


def decorate(context: Context, function: Any) -> Any:
    """Wrap ``function`` so that each call runs in a context.

    A generator or coroutine is in the context while it runs, not while it waits for its caller.

    Args:
        context: Makes a context manager.
        function: A function; for a class, only the constructor is wrapped, with a warning.
    """
    if inspect.isclass(function):
        warnings.warn("Decorating a class decorates only its constructor, and what results is no class; "
                      "decorate its methods instead", FutureWarning, stacklevel=3)
    elif inspect.isgeneratorfunction(function):
        return _around_generator(context, function)
    elif inspect.iscoroutinefunction(function):
        return _around_coroutine(context, function)

    @wraps(function, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with context():
            return function(*args, **kwargs)

    return wrapped


def _resumed(context: Context, steps: Generator[Any, Any, Any] | Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Yield the values of ``steps``, each step in a context of its own."""
    resume: Callable[[], Any] = lambda: steps.send(None)  # noqa: E731  the first step receives no value
    try:
        while True:
            try:
                with context():
                    value = resume()
            except StopIteration as stop:
                return stop.value
            try:
                sent = yield value
            except GeneratorExit:
                raise
            except BaseException as error:
                resume = _thrower(steps, error)
            else:
                resume = _sender(steps, sent)
    finally:
        with context():
            steps.close()


def _thrower(steps: Any, error: BaseException) -> Callable[[], Any]:
    return lambda: steps.throw(error)


def _sender(steps: Any, value: Any) -> Callable[[], Any]:
    return lambda: steps.send(value)


def _around_generator(context: Context, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return (yield from _resumed(context, function(*args, **kwargs)))

    return wrapped


class _Steps:
    """Awaitable over a coroutine's steps."""

    def __init__(self, steps: Generator[Any, Any, Any]) -> None:
        self._steps = steps

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._steps


def _around_coroutine(context: Context, function: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    @wraps(function)
    async def wrapped(*args: Any, **kwargs: Any) -> Any:
        return await _Steps(_resumed(context, function(*args, **kwargs)))  # type: ignore[arg-type]

    return wrapped
