"""The name under which a program uses the package."""

from __future__ import annotations

import sys


def package_name() -> str:
    """``torch`` for a program that got this package when it imported that name, else ``tensocket``.

    Programs compare texts such as ``str(x.dtype)`` and ``x.type()`` with those they know.
    """
    return "torch" if getattr(sys.modules.get("torch"), "__name__", "") == "tensocket" else "tensocket"
