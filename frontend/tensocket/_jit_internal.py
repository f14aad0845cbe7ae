"""Names that programs import from PyTorch's internal module of scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: UP035  what programs import

from tensocket.jit import Future, export, ignore, is_scripting, unused
from tensocket.jit.annotations import BroadcastingList1, BroadcastingList2, BroadcastingList3


def boolean_dispatch(arg_name: str, arg_index: int, default: bool, if_true: Callable[..., Any],
                     if_false: Callable[..., Any], module_name: str, func_name: str) -> Callable[..., Any]:
    """Return a function that calls one of two others, depending on an argument."""

    def call(*args: Any, **kwargs: Any) -> Any:
        chosen = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if chosen else if_false)(*args, **kwargs)

    call.__name__, call.__module__ = func_name, module_name
    return call


def _overload(func: Any) -> Any:
    """Return the function itself."""
    return func


_overload_method = _copy_to_script_wrapper = _overload


@contextmanager
def _disable_emit_hooks() -> Iterator[None]:
    """Call no hooks after compilations in the block."""
    from tensocket.jit.native_names import HOOKS

    before = list(HOOKS)
    HOOKS[:] = [None, None]
    try:
        yield
    finally:
        HOOKS[:] = before


weak_module = weak_script = weak_script_method = _overload

__all__ = ["BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Dict", "Final", "Future", "List",
           "Optional", "Tuple", "Union", "boolean_dispatch", "export", "ignore", "is_scripting", "unused"]
