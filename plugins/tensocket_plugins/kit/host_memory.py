"""Memory of NumPy's large arrays in host kernels: from the pool of the host-resident backend, if it has one.

NumPy allocates arrays through a handler, which a context variable holds. A host-resident backend installs its own, and
functions that compute with NumPy on large arrays run with it. Their results and temporaries then reuse freed blocks,
and are counted and limited like all others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
#: The variable, its value, and a function that makes an operator's out-of-memory error; empty without such a pool.
_INSTALLED: Final[list[tuple[ContextVar[Any], Any, Callable[[str], Exception]]]] = []


def install(variable: ContextVar[Any], handler: Any, exhausted: Callable[[str], Exception]) -> None:
    """Let NumPy's large arrays in host kernels come from a handler.

    Args:
        variable: NumPy's context variable for the handler.
        handler: Its value.
        exhausted: ``exhausted(operator)`` makes the error if memory runs out.
    """
    _INSTALLED[:] = [(variable, handler, exhausted)]


def call_pooled(operator: str, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function with NumPy's memory from the pool.

    Args:
        operator: Name of the operator in errors.
        function: Function that computes with NumPy.
        args: Its arguments.
        keywords: Its keywords.

    Raises:
        OutOfMemoryError: Memory ran out.
    """
    if not _INSTALLED:
        return function(*args, **keywords)
    variable, handler, exhausted = _INSTALLED[0]
    token = variable.set(handler)
    try:
        return function(*args, **keywords)
    except MemoryError:
        raise exhausted(operator) from None
    finally:
        variable.reset(token)


def pooled(operator: str) -> Callable[[F], F]:
    """Decorate a function that computes with NumPy, so that its memory comes from the pool."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def run(*args: Any, **keywords: Any) -> Any:
            return call_pooled(operator, function, *args, **keywords)

        return cast(F, run)

    return decorate
