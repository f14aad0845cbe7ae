"""The name under which a program uses the package."""

from __future__ import annotations

import sys


def package_name() -> str:
    """Return ``torch`` for a program that imported this package by that name, else ``tensocket``.

    Programs compare strings such as ``str(x.dtype)`` and ``x.type()`` with the names they know.
    """
    return "torch" if getattr(sys.modules.get("torch"), "__name__", "") == "tensocket" else "tensocket"
