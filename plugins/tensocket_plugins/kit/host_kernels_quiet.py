"""Running NumPy without floating-point warnings, as cheaply as NumPy allows.

PyTorch never warns of overflow or invalid values, and a warning that a test run turns into an error would break a
correct program, so host kernels must not warn. ``np.errstate`` costs 0.8 microseconds per call, four times a small
addition. ``np.seterr`` costs nothing, but silences the user's own NumPy code and does not reach other threads. NumPy
stores the setting in a context variable; setting and resetting it directly costs 0.15 microseconds, is local to thread
and task, and restores the user's setting. For a NumPy without such a variable, this module uses ``np.errstate``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, TypeVar, cast

import numpy as np

_VARIES: Final = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS

F = TypeVar("F", bound=Callable[..., Any])


def _find_variable() -> tuple[ContextVar[Any], Any] | None:
    """Return NumPy's context variable and its value for "ignore everything"; None if this NumPy works differently."""
    variable = getattr(getattr(getattr(np, "_core", None), "umath", None), "_extobj_contextvar", None)
    if not isinstance(variable, ContextVar):
        return None
    with np.errstate(all="ignore"):
        value = variable.get(None)
    token = variable.set(value)
    try:
        works = set(np.geterr().values()) == {"ignore"}
    finally:
        variable.reset(token)
    return (variable, value) if works else None


_FOUND = _find_variable()


def quiet(function: F, arity: int | None = None) -> F:
    """Wrap ``function`` so that NumPy emits no floating-point warnings in this thread during a call.

    Args:
        function: Nesting is allowed.
        arity: Number of positional arguments if known, else -1: the function then takes named arguments, too. By
            default that of a ufunc's operands or of a plain function.
    """
    if _FOUND is None:
        return _guard_by_errstate(function)
    return _guard_by_variable(function, _arity(function) if arity is None else arity, *_FOUND)


def _arity(function: Callable[..., Any]) -> int | None:
    """Return the number of operands of a ufunc, or of arguments of a plain function; None if it varies."""
    if isinstance(function, np.ufunc):
        return function.nin
    code = getattr(function, "__code__", None)
    return None if code is None or code.co_flags & _VARIES else int(code.co_argcount)


def _guard_by_errstate(function: F) -> F:
    @functools.wraps(function)
    def run(*args: Any, **named: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args, **named)

    return cast(F, run)


def _guard_by_variable(function: F, arity: int | None, variable: ContextVar[Any], value: Any) -> F:
    # The signatures are fixed, because collecting *args costs as much as the context variable.
    enter, leave = variable.set, variable.reset

    def run1(x: Any) -> Any:
        token = enter(value)
        try:
            return function(x)
        finally:
            leave(token)

    def run2(x: Any, y: Any) -> Any:
        token = enter(value)
        try:
            return function(x, y)
        finally:
            leave(token)

    def run3(x: Any, y: Any, z: Any) -> Any:
        token = enter(value)
        try:
            return function(x, y, z)
        finally:
            leave(token)

    def run(*args: Any, **named: Any) -> Any:
        token = enter(value)
        try:
            return function(*args, **named)
        finally:
            leave(token)

    by_arity: dict[int | None, Callable[..., Any]] = {1: run1, 2: run2, 3: run3}
    chosen = by_arity.get(arity, run)
    return cast(F, functools.update_wrapper(chosen, function))
