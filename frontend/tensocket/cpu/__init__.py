"""Devices of type ``cpu``: the functions of ``get_device_module("cpu")``, streams, and automatic mixed precision."""

from __future__ import annotations

from typing import Any

from tensocket_operators import get_device_module

from . import amp as amp
from .memory import max_memory_reserved as max_memory_reserved
from .memory import memory_stats as memory_stats
from .memory import memory_summary as memory_summary
from .streams import Event as Event
from .streams import Stream as Stream
from .streams import StreamContext as StreamContext
from .streams import current_stream as current_stream
from .streams import stream as stream


def __getattr__(name: str) -> Any:
    """Return a function of the device module."""
    return getattr(get_device_module("cpu"), name)
