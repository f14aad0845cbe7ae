"""Memory that several processes share: anonymous segments, mapped into each of them.

A segment has no name. It lives while a process maps it or holds its descriptor, so nothing remains when the
processes end, however they end. As with pooled memory, an array on a segment refers to a token that is not an
array: all views of the array hold the token, and the token keeps the segment mapped.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensocket_core.geometry import memory_of
from tensocket_plugins.contract.errors import OutOfMemoryError

#: The result of ``mmap`` after an error.
_FAILED: Final = ctypes.c_void_p(-1).value
#: Fills the page table at once if the system can, instead of at the first access to every page.
_SHARED: Final = getattr(mmap, "MAP_SHARED", 0) | getattr(mmap, "MAP_POPULATE", 0)
#: Segments start on pages, and arrays in them on cache lines.
ALIGNMENT: Final = 64


@cache
def _system() -> Any:
    """Return the C library. Python's ``mmap`` would hold a descriptor for every mapping."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return library


def _anonymous_file() -> int:
    """Return the descriptor of an anonymous file: in memory if the system supports that, else an unlinked file."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tensocket", os.MFD_CLOEXEC)
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"tensocket-{os.urandom(8).hex()}")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.unlink(path)
    return descriptor


class Segment:
    """Shared memory, mapped into this process.

    Attributes:
        nbytes: Size.
        address: Address of the mapping.
        descriptor: File descriptor by which other processes map the memory; -1 when it is closed.
    """

    __slots__ = ("__weakref__", "_unmap", "address", "descriptor", "nbytes")

    def __init__(self, descriptor: int, nbytes: int) -> None:
        self.descriptor = descriptor
        self.nbytes = nbytes
        self.address = 0
        library = _system()
        self._unmap = library.munmap
        address = library.mmap(None, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, _SHARED, descriptor, 0)
        if address == _FAILED:
            raise _exhausted(nbytes, os.strerror(ctypes.get_errno()))
        self.address = address

    @classmethod
    def create(cls, nbytes: int) -> Segment:
        """Return new memory, filled with zeros.

        Raises:
            OutOfMemoryError: The system has no memory left.
        """
        nbytes = max(1, nbytes)
        try:
            descriptor = _anonymous_file()
        except OSError as error:
            raise _exhausted(nbytes, str(error.strerror)) from None
        try:
            os.truncate(descriptor, nbytes)
            return cls(descriptor, nbytes)
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, OSError):
                raise _exhausted(nbytes, str(error.strerror)) from None
            raise

    def close(self) -> None:
        """Close the descriptor; the mapping stays, but no further process can map the memory."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def array(self, start: int, nbytes: int, lease: object = None) -> NDArray[np.uint8]:
        """Return a piece of the memory, which keeps the segment and ``lease`` alive as long as it has views."""
        token: Any = _Token.from_address(self.address + start)
        token.segment, token.start, token.lease = self, start, lease
        return np.ndarray((nbytes,), np.uint8, token)

    def __del__(self) -> None:
        if self.address:
            self._unmap(self.address, self.nbytes)
        self.close()


class _Token(ctypes.c_char * (1 << 46)):  # type: ignore[misc]  # ctypes makes array types at run time
    """The owner to which arrays on a segment refer; one long type for all, because ctypes never frees its types."""

    segment: Segment
    start: int
    lease: object


def _exhausted(nbytes: int, reason: str) -> OutOfMemoryError:
    return OutOfMemoryError("share_memory", f"{nbytes} bytes", f"the system gives no shared memory: {reason}",
                            "share less at once, or raise the limits of the system (files, /dev/shm)")


def place_in_segment(array: Any) -> tuple[Segment, int] | None:
    """Return the segment of an array, and the offset of its memory in the segment.

    Return None for memory that only this process uses.
    """
    if type(array) is not np.ndarray:
        return None
    token = memory_of(array).base
    return (token.segment, token.start) if type(token) is _Token else None
