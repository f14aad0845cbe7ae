"""Logs for TensorBoard. The first writer imports the package tensorboard."""

from __future__ import annotations

from .writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
