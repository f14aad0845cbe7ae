"""Operators that take operators and functions."""

from __future__ import annotations

from .control import cond, while_loop
from .out_dtype import out_dtype

__all__ = ["cond", "out_dtype", "while_loop"]
