"""Helpers for tests of programs: comparisons with tolerances, and tensors of random values."""

from __future__ import annotations

from .comparison import assert_allclose, assert_close
from .creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
