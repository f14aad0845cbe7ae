"""NVIDIA's profiler; calls are not passed on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


def start() -> None:
    """Do nothing."""


def stop() -> None:
    """Do nothing."""


@contextmanager
def profile() -> Iterator[None]:
    """Run a block without profiling it."""
    yield


__all__ = ["profile", "start", "stop"]
