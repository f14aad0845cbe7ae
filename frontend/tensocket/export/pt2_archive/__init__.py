"""Exported programs in files: PyTorch's archives of a JSON text and the bytes of tensors.

Reading a file runs nothing of it: structures of containers are made of registered classes, operators come from a closed
list, and example inputs from the restricted reader of ``torch.load``.
"""

from __future__ import annotations

from .package import PT2ArchiveContents, is_pt2_package, load_pt2, package_pt2

__all__ = ["PT2ArchiveContents", "is_pt2_package", "load_pt2", "package_pt2"]
