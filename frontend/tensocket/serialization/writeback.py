"""Files that the system begins to write to the disk while they are written, so that ``fsync`` has little left to do."""

from __future__ import annotations

import ctypes
import io
import os
from functools import cache
from typing import IO, Any, Final

#: Bytes that are worth a call.
_LEAST: Final = 1 << 20
#: Linux's flag for starting to write without waiting.
_START: Final = 2


@cache
def _sync_file_range() -> Any:
    """Linux's function; None on other systems."""
    try:
        function = ctypes.CDLL(None).sync_file_range
    except (AttributeError, OSError, TypeError):
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return function


class _Eager(io.FileIO):
    """A file that is written from its start to its end."""

    _written = _started = 0

    def write(self, data: Any, /) -> int:
        """Write some of the bytes, and let the disk begin; whether it does changes nothing but the time."""
        count = super().write(data)
        self._written += count
        start = _sync_file_range()
        if start is not None and self._written - self._started >= _LEAST:
            start(self.fileno(), self._started, self._written - self._started, _START)
            self._started = self._written
        return count


def create(path: str | os.PathLike[str]) -> IO[bytes]:
    """Return a new file for writing.

    Raises:
        OSError: There is one of this name, or it cannot be made.
    """
    return io.BufferedWriter(_Eager(os.fspath(path), "x"))
