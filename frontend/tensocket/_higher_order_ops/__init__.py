"""Operators that take operators."""

from __future__ import annotations

from .out_dtype import out_dtype

__all__ = ["out_dtype"]
