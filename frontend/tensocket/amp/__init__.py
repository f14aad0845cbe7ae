"""Automatic mixed precision: ``autocast`` chooses the precision of operators, ``GradScaler`` keeps small gradients of
low-precision programs from vanishing.
"""

from __future__ import annotations

from . import autocast_mode as autocast_mode
from . import grad_scaler as grad_scaler
from .autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
