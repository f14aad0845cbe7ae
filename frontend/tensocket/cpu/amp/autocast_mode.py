"""``autocast`` for devices of type ``cpu``."""

from __future__ import annotations

import warnings

from tensocket_operators import bfloat16, dtype

from ... import amp


class autocast(amp.autocast):
    """``amp.autocast("cpu", ...)``. Deprecated."""

    def __init__(self, enabled: bool = True, dtype: dtype = bfloat16, cache_enabled: bool = True) -> None:
        warnings.warn("`torch.cpu.amp.autocast(args...)` is deprecated. Please use "
                      "`torch.amp.autocast('cpu', args...)` instead.", FutureWarning, stacklevel=2)
        super().__init__("cpu", dtype, enabled, cache_enabled)


__all__ = ["autocast"]
