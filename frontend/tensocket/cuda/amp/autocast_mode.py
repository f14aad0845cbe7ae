"""``autocast`` for devices of type ``cuda``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tensocket_operators import dtype, float16

from ... import amp


def _warn(name: str, modern: str) -> None:
    warnings.warn(f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}({modern})` instead.",
                  FutureWarning, stacklevel=3)


class autocast(amp.autocast):
    """``amp.autocast("cuda", ...)``. Deprecated."""

    def __init__(self, enabled: bool = True, dtype: dtype = float16, cache_enabled: bool = True) -> None:
        _warn("autocast", "'cuda', args...")
        super().__init__("cuda", dtype, enabled, cache_enabled)


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: dtype | None = None) -> Any:
    """Return ``amp.custom_fwd(fwd, device_type="cuda", ...)``. Deprecated."""
    _warn("custom_fwd", "args..., device_type='cuda'")
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Any:
    """Return ``amp.custom_bwd(bwd, device_type="cuda")``. Deprecated."""
    _warn("custom_bwd", "args..., device_type='cuda'")
    return amp.custom_bwd(bwd, device_type="cuda")


__all__ = ["autocast", "custom_bwd", "custom_fwd"]
