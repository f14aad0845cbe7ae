"""ONNX export: not implemented."""

from __future__ import annotations

from typing import Any

from tensocket.errors import ExportError

#: PyTorch's name for such errors.
OnnxExporterError = ExportError


def export(model: Any, args: Any = (), f: Any = None, **options: Any) -> None:
    """Refuse to write a model.

    Raises:
        ExportError: Always.
    """
    raise ExportError("onnx.export", f"a {type(model).__name__}", "models are not written in ONNX yet",
                      "save the state_dict, and write the model where PyTorch is installed")


def is_in_onnx_export() -> bool:
    """Return False: no model is being written."""
    return False


__all__ = ["OnnxExporterError", "export", "is_in_onnx_export"]
