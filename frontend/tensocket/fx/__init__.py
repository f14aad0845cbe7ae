"""Graphs of modules' calls: not implemented."""

from __future__ import annotations

from typing import Any

from tensocket.errors import ExportError


def wrap(fn_or_name: Any) -> Any:
    """Return the function, or its name, unchanged: functions are called, not recorded."""
    return fn_or_name


def symbolic_trace(root: Any, concrete_args: Any = None) -> Any:
    """Refuse to record a module.

    Raises:
        ExportError: Always.
    """
    raise ExportError("symbolic_trace", f"a {type(root).__name__}", "modules are not recorded as graphs yet",
                      "call the module, or look at it with named_modules()")


__all__ = ["symbolic_trace", "wrap"]
