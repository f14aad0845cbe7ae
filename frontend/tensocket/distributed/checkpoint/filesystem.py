"""Checkpoints in folders of files."""

from __future__ import annotations

from .refusals import Refused


class FileSystemReader(Refused):
    """Reads checkpoints from a folder: not supported."""


class FileSystemWriter(Refused):
    """Writes checkpoints to a folder: not supported."""


__all__ = ["FileSystemReader", "FileSystemWriter"]
