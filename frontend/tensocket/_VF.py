# ruff: noqa: N999
"""Functions that PyTorch calls without a Python wrapper: the same as in the package itself."""

from __future__ import annotations

from typing import Any

import tensocket


def __getattr__(name: str) -> Any:
    """Return a function of the package."""
    return getattr(tensocket, name)
