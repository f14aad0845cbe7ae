"""Pictures of programs: the memory of a profile over time. They need matplotlib, the extra ``viz``."""

from __future__ import annotations

from .memory import memory_timeline

__all__ = ["memory_timeline"]
