"""Builders of kernel programs: mathematics, element types and loop nests as kernel IR."""

from __future__ import annotations

from tensocket_plugins.later import later

#: Modules of kernels load with the first one.
__getattr__ = later(__name__, "math", "nest")
