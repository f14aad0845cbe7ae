"""Functions of PyTorch's former ONNX exporter for operator set 11: none.

Libraries import the module to define how their operators are exported, and use its functions only during an export,
which ``onnx.export`` refuses.
"""

from __future__ import annotations

__all__: list[str] = []
