"""Import of ONNX models as graph modules."""

from __future__ import annotations

from .loading import load_graph_module

__all__ = ["load_graph_module"]
