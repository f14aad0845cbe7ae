"""Checkpoints of several processes; one process writes a file with ``tensocket.save``."""

from __future__ import annotations

from . import state_dict as state_dict
from .parts import (
    DefaultLoadPlanner,
    DefaultSavePlanner,
    FileSystemReader,
    FileSystemWriter,
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
    async_save,
    load,
    load_state_dict,
    save,
    save_state_dict,
)

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner", "FileSystemReader", "FileSystemWriter",
           "HuggingFaceStorageReader", "HuggingFaceStorageWriter", "async_save", "load", "load_state_dict", "save",
           "save_state_dict"]
