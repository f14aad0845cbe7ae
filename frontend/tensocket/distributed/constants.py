"""Defaults of groups of processes."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

#: How long collectives wait for other processes, unless a program says otherwise.
default_pg_timeout: Final = timedelta(minutes=30)
default_pg_nccl_timeout: Final = timedelta(minutes=10)

__all__ = ["default_pg_nccl_timeout", "default_pg_timeout"]
