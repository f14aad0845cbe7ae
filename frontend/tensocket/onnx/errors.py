"""Errors of reading and writing models, by PyTorch's path."""

from __future__ import annotations

from .packages import OnnxExporterError, OnnxModelError, UnsupportedOnnxOperators

__all__ = ["OnnxExporterError", "OnnxModelError", "UnsupportedOnnxOperators"]
