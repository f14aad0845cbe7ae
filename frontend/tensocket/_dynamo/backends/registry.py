"""Names of backends; ``tensocket.compiler.backends`` holds them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from tensocket.compiler.backends import (
    Backend,
    get_default_backend,
    list_backends,
    lookup_backend,
    register_backend,
    set_default_backend,
)

CompilerFn = Backend
CompiledFn = Callable[..., Any]
register_debug_backend: Final = functools.partial(register_backend, tags=("debug",))
register_experimental_backend: Final = functools.partial(register_backend, tags=("experimental",))

__all__ = ["CompiledFn", "CompilerFn", "get_default_backend", "list_backends", "lookup_backend", "register_backend",
           "register_debug_backend", "register_experimental_backend", "set_default_backend"]
