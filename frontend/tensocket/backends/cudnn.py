"""NVIDIA's library of neural networks: no backend uses it, so its settings have no effect."""

from __future__ import annotations

import sys
from typing import Any

from .flags import Flags


def is_available() -> bool:
    """Return False: no backend uses the library."""
    return False


def version() -> int | None:
    """Return None: no backend uses the library."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """Return False: operators never use the library."""
    return False


Flags.module(sys.modules[__name__], enabled=True, benchmark=False, benchmark_limit=10, deterministic=False,
             allow_tf32=True, fp32_precision="none")
