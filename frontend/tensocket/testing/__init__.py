"""Helpers for tests of programs: comparisons with tolerances, and tensors of random values."""

from __future__ import annotations

from .comparison import assert_allclose, assert_close
from .creation import make_tensor
from .file_check import FileCheck

__all__ = ["FileCheck", "assert_allclose", "assert_close", "make_tensor"]
