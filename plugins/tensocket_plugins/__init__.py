"""Contract, kernel IR and kit for tensocket device backends."""

from __future__ import annotations

__version__ = "0.1.0"
