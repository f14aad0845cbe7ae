"""The hooks in a backend's entry-point module. They run at load time, never per operator."""

from __future__ import annotations

from typing import Final

import pluggy

from .backend import Backend
from .descriptor import Descriptor
from .entrypoints import ENTRY_POINT_GROUP as ENTRY_POINT_GROUP

PROJECT: Final = "tensocket"

hookspec: Final = pluggy.HookspecMarker(PROJECT)
hookimpl: Final = pluggy.HookimplMarker(PROJECT)


@hookspec(firstresult=True)
def tensocket_describe() -> Descriptor:  # type: ignore[empty-body]
    """Return the backend's descriptor. Must not import a driver."""


@hookspec(firstresult=True)
def tensocket_backend() -> Backend:  # type: ignore[empty-body]
    """Return the backend. May import a driver's bindings; must not create a context."""
