"""Settings of ``save`` and ``load`` for the whole process or a thread."""

from __future__ import annotations

import mmap
import threading
from enum import Enum
from typing import Any, Final

from tensocket.errors import ArgumentError, ArgumentTypeError


class SourceChangeWarning(Warning):
    """A class in a file has another source now. Files hold no sources, so nothing warns; programs filter it by name."""


class LoadEndianness(Enum):
    """The order of bytes that ``load`` assumes for files that do not tell."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class _Settings:
    endianness: LoadEndianness | None = None
    crc32 = True
    mmap_flags: int = getattr(mmap, "MAP_PRIVATE", 0)


class _Local(threading.local):
    #: Whether contents of storages are left out.
    skip = False


SETTINGS: Final = _Settings()
LOCAL: Final = _Local()


def get_default_load_endianness() -> LoadEndianness | None:
    """Return the order of bytes assumed for files that do not tell; None: that of this machine."""
    return SETTINGS.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the order of bytes assumed for files that do not tell.

    Raises:
        ArgumentTypeError: It is no ``LoadEndianness``.
    """
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise ArgumentTypeError("set_default_load_endianness", repr(endianness), "the order is a LoadEndianness or "
                                "None", "pass for example LoadEndianness.LITTLE")
    SETTINGS.endianness = endianness


def get_crc32_options() -> bool:
    """Whether ``save`` computes check sums."""
    return SETTINGS.crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Whether ``save`` computes check sums, without which ``load`` notices no damage within storages."""
    SETTINGS.crc32 = bool(compute_crc32)


def get_default_mmap_options() -> int | None:
    """Return the flags with which ``load(..., mmap=True)`` maps files."""
    return SETTINGS.mmap_flags


class set_default_mmap_options:
    """Set the flags of ``load(..., mmap=True)``, for a ``with`` block or from now on.

    Args:
        flags: ``mmap.MAP_PRIVATE``: changes of loaded tensors stay in memory. ``mmap.MAP_SHARED``: they go to the file.

    Raises:
        ArgumentError: It is neither.
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
    """``with skip_data():`` — ``save`` leaves the contents of storages out (zeros are in their place), and ``load``
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
