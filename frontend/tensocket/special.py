"""Special functions."""

from __future__ import annotations

from tensocket_core._generated.functions import special_entr as entr
from tensocket_core._generated.functions import special_xlog1py as xlog1py

__all__ = [
    "entr",
    "xlog1py",
]
