"""Checkpoints in folders of safetensors."""

from __future__ import annotations

from .refusals import Refused


class HuggingFaceStorageReader(Refused):
    """Reads checkpoints from a folder of safetensors: not supported."""


class HuggingFaceStorageWriter(Refused):
    """Writes checkpoints to a folder of safetensors: not supported."""


__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]
