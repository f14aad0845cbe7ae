"""The order of contractions in ``einsum``: from left to right."""

from __future__ import annotations

#: What programs set; products are contracted from left to right whatever it is.
enabled = True
strategy: str | None = None


def is_available() -> bool:
    """False: no package is asked for the order."""
    return False
