"""Files whose writeback to disk starts while they are written, so that ``fsync`` has little left to do."""

from __future__ import annotations

import ctypes
import io
import os
from functools import cache
from typing import IO, Any, Final

#: Number of bytes from which a call is worthwhile.
_LEAST: Final = 1 << 20
#: Linux's flag for starting writeback without waiting.
_START: Final = 2


@cache
def _sync_file_range() -> Any:
    """Return Linux's function; None on other systems."""
    try:
        function = ctypes.CDLL(None).sync_file_range
    except (AttributeError, OSError, TypeError):
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return function


class _Eager(io.FileIO):
    """A file that is written sequentially."""

    _written = _started = 0

    def write(self, data: Any, /) -> int:
        """Write some bytes and start writeback, which affects only the time."""
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
        OSError: The file exists already or cannot be created.
    """
    return io.BufferedWriter(_Eager(os.fspath(path), "x"))
