"""Logs for TensorBoard. The package tensorboard is imported when the first writer is made."""

from __future__ import annotations

from .writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
