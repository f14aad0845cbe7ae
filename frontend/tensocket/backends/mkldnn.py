"""Intel's oneDNN: programs enable and disable it; no backend uses it."""

from __future__ import annotations

import sys

from .flags import Flags


def is_available() -> bool:
    """Return False: no backend uses the library."""
    return False


Flags.module(sys.modules[__name__], enabled=True, deterministic=False, allow_tf32=True, fp32_precision="none")
