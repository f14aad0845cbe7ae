"""NVIDIA's library of neural networks: programs set its switches; no backend uses it, so they change nothing."""

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
    """Whether operators on ``tensor`` would use the library: never."""
    return False


Flags.module(sys.modules[__name__], enabled=True, benchmark=False, benchmark_limit=10, deterministic=False,
             allow_tf32=True, fp32_precision="none")
