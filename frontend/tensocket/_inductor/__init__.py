"""Names of PyTorch's code generator that programs use; settings are stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import config


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """Return the options that a mode of ``compile`` stands for; without a mode, those of all modes by name."""
    from tensocket.compiler.options import list_mode_options as options_of

    return options_of(mode, dynamic)


def list_options() -> list[str]:
    """Return the names of the options of ``compile``."""
    from tensocket.compiler.options import list_options as names

    return names()


def compile(gm: Any, example_inputs: Any, options: dict[str, Any] | None = None) -> Callable[..., Any]:
    """Compile a graph module; the inputs are those of its calls."""
    from tensocket.compiler import compile as compile_function

    compiled: Callable[..., Any] = compile_function(gm, options=options)
    return compiled


__all__ = ["compile", "config", "list_mode_options", "list_options"]
