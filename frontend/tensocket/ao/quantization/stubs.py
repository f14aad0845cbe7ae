"""Modules at the borders of the quantized part of a model."""

from __future__ import annotations

from . import DeQuantStub, QuantStub

__all__ = ["DeQuantStub", "QuantStub"]
