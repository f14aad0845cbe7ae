# ruff: noqa: N999
"""Functions without Python in between, as PyTorch calls them: the same as in the package itself."""

from __future__ import annotations

from typing import Any

import tensocket


def __getattr__(name: str) -> Any:
    """Return a function of the package."""
    return getattr(tensocket, name)
