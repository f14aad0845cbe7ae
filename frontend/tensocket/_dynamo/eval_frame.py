"""The module from which programs import the class of compiled modules."""

from __future__ import annotations

from tensocket.compiler.compiling import OptimizedModule
from tensocket_compiler.capture.layout import LAYOUT


def is_dynamo_supported() -> bool:
    """Whether functions can be captured on this interpreter."""
    return LAYOUT is not None


__all__ = ["OptimizedModule", "is_dynamo_supported"]
