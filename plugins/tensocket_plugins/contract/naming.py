"""The name under which a program uses the package."""

from __future__ import annotations

import sys


def package_name() -> str:
    """Return ``torch`` for a program that imported this package by that name, else ``tensocket``.

    Programs compare strings such as ``str(x.dtype)`` and ``x.type()`` with the names they know.
    """
    package = sys.modules.get("torch")
    return "torch" if package is not None and package is sys.modules.get("tensocket") else "tensocket"
