"""Marks of functions: exported, ignored, unused; and the state of scripting and tracing."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from tensocket.jit.frontend import Error

_Value = TypeVar("_Value")
_MARK: Final = "_torchscript_modifier"


def _plain(function: Any) -> Any:
    return getattr(function, "fget", None) or getattr(function, "__func__", function)


def modifier_of(function: Any) -> str:
    """Return the mark of a function: ``export``, ``ignore``, ``unused``, ``drop``, or ""."""
    return str(getattr(_plain(function), _MARK, "") or "")


def is_export_refused(function: Any, modifier: str) -> str:
    """Return the message of the error that a call raises in a script, "" if it calls the function."""
    if modifier != "unused":
        return ""
    return str(getattr(_plain(function), "_torchscript_message", ""))


def export(fn: _Value) -> _Value:
    """Mark a method as one that is compiled although ``forward`` does not call it."""
    setattr(_plain(fn), _MARK, "export")
    return fn


def unused(fn: _Value) -> _Value:
    """Mark a function or property whose calls in scripts raise an error."""
    plain = _plain(fn)
    setattr(plain, _MARK, "unused")
    plain._torchscript_message = (f"Function {getattr(plain, '__name__', plain)} is marked as unused: a script must "
                                  f"not "
                                  "call it")
    return fn


_drop = unused


def ignore(drop: Any = False, **options: Any) -> Any:
    """Mark a function that scripts call as Python.

    Args:
        drop: The function; or whether calls raise an error in scripts, for a decorator.
        **options: ``drop_on_export``, PyTorch's former name.

    Raises:
        RuntimeError: ``drop`` is neither.
    """
    if callable(drop):
        setattr(_plain(drop), _MARK, "ignore")
        return drop
    if not isinstance(drop, bool):
        raise RuntimeError(f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}")
    if options.get("drop_on_export") or drop:
        return unused

    def mark(fn: _Value) -> _Value:
        setattr(_plain(fn), _MARK, "ignore")
        return fn

    return mark


class _State(threading.local):
    tracing = 0
    tracer: Any = None


#: The state of this thread.
STATE: Final = _State()


def is_scripting() -> bool:
    """Whether this runs in a script: False in Python, True in a compiled function."""
    return False


def is_tracing() -> bool:
    """Whether ``trace`` records this thread's calls."""
    return STATE.tracing > 0


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function run as a script while ``trace`` records, and as Python otherwise."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not is_tracing():
            return fn(*args, **kwargs)
        from tensocket.jit.entry_points import script

        return script(fn)(*args, **kwargs)

    wrapper.__original_fn = fn  # type: ignore[attr-defined]
    wrapper.__script_if_tracing_wrapper = True  # type: ignore[attr-defined]
    return wrapper


def overload(func: _Value) -> _Value:
    """Mark a declaration of a function with other types; the definition that follows it is what runs."""
    return func


__all__ = ["STATE", "Error", "export", "ignore", "is_scripting", "is_tracing", "modifier_of", "overload",
           "script_if_tracing", "unused"]
