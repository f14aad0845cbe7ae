"""``autocast`` for devices of type ``cpu``."""

from __future__ import annotations

from tensocket_core import bfloat16, dtype

from ... import amp


class autocast(amp.autocast):
    """``amp.autocast("cpu", ...)``."""

    def __init__(self, enabled: bool = True, dtype: dtype = bfloat16, cache_enabled: bool = True) -> None:
        super().__init__("cpu", dtype, enabled, cache_enabled)


__all__ = ["autocast"]
