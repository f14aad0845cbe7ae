"""Checkpoints in folders of safetensors."""

from __future__ import annotations

from .parts import HuggingFaceStorageReader, HuggingFaceStorageWriter

__all__: list[str] = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]
