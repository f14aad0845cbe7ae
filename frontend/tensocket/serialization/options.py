"""Settings of ``save`` and ``load`` for the whole process or a thread."""

from __future__ import annotations

import mmap
import threading
from enum import Enum
from typing import Any, Final

from tensocket.errors import ArgumentError, ArgumentTypeError


class SourceChangeWarning(Warning):
    """The category for changed sources of classes. Files hold no sources, so nothing warns; programs filter it."""


class LoadEndianness(Enum):
    """The byte order that ``load`` assumes for files that do not state theirs."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class _Settings:
    endianness: LoadEndianness | None = None
    crc32 = True
    mmap_flags: int = getattr(mmap, "MAP_PRIVATE", 0)


class _Local(threading.local):
    #: Whether contents of storages are omitted.
    skip = False


SETTINGS: Final = _Settings()
LOCAL: Final = _Local()


def get_default_load_endianness() -> LoadEndianness | None:
    """Return the byte order for files that do not state theirs; None means that of this machine."""
    return SETTINGS.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the byte order for files that do not state theirs.

    Raises:
        ArgumentTypeError: ``endianness`` is not a ``LoadEndianness``.
    """
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise ArgumentTypeError("set_default_load_endianness", repr(endianness), "the order is a LoadEndianness or "
                                "None", "pass for example LoadEndianness.LITTLE")
    SETTINGS.endianness = endianness


def get_crc32_options() -> bool:
    """Whether ``save`` computes checksums."""
    return SETTINGS.crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Set whether ``save`` computes checksums; without them, ``load`` notices no damage within storages."""
    SETTINGS.crc32 = bool(compute_crc32)


def get_default_mmap_options() -> int | None:
    """Return the flags with which ``load(..., mmap=True)`` maps files."""
    return SETTINGS.mmap_flags


class set_default_mmap_options:
    """Set the flags of ``load(..., mmap=True)``, for a ``with`` block or permanently.

    Args:
        flags: ``mmap.MAP_PRIVATE`` leaves changes of loaded tensors in memory, ``mmap.MAP_SHARED`` writes them to the
            file.

    Raises:
        ArgumentError: ``flags`` is neither of the two.
    """

    def __init__(self, flags: int) -> None:
        if flags not in (getattr(mmap, "MAP_PRIVATE", 0), getattr(mmap, "MAP_SHARED", 0)):
            raise ArgumentError("set_default_mmap_options", f"flags {flags!r}", "flags are mmap.MAP_PRIVATE or "
                                "mmap.MAP_SHARED", "pass one of these")
        self.previous = SETTINGS.mmap_flags
        SETTINGS.mmap_flags = flags

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        SETTINGS.mmap_flags = self.previous


class skip_data:
    """``with skip_data():`` — ``save`` omits the contents of storages (and writes zeros), and ``load``
    does not read them (their values are undefined).

    Args:
        materialize_fake_tensors: Accepted for compatibility; there are no fake tensors.
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self) -> None:
        self._previous = LOCAL.skip
        LOCAL.skip = True

    def __exit__(self, *error: Any) -> None:
        LOCAL.skip = self._previous
