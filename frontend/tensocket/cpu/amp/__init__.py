"""PyTorch's older names of ``tensocket.amp`` for devices of type ``cpu``."""

from __future__ import annotations

from . import autocast_mode as autocast_mode
from . import grad_scaler as grad_scaler
from .autocast_mode import autocast
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast"]
