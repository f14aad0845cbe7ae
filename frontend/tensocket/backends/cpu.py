"""The host's processor."""

from __future__ import annotations

import platform


def get_cpu_capability() -> str:
    """Return the processor's architecture; kernels are compiled for the actual processor."""
    return platform.machine()
