"""Operators that take operators and functions."""

from __future__ import annotations

from .associative_scan import associative_scan
from .control import cond, while_loop
from .map import map
from .out_dtype import out_dtype
from .scan import scan

__all__ = ["associative_scan", "cond", "map", "out_dtype", "scan", "while_loop"]
