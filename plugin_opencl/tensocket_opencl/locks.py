"""One build at a time among the processes of a user, for drivers whose own cache is not safe between processes."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if sys.platform != "win32":
    import fcntl


def needs_lock(device: Any) -> bool:
    """Whether two processes must not build with this driver at once.

    PoCL 3.1 aborts the process (an assertion in ``pocl_binary_get_kernels_metadata``) if another process builds the
    same program at the same time: both write to one place in its cache.
    """
    return sys.platform != "win32" and "portable computing language" in device.platform.name.lower()


@contextlib.contextmanager
def build_lock(wanted: bool) -> Iterator[None]:
    """Hold the lock, unless it is not wanted or the file cannot be opened. It is never held across a launch."""
    if sys.platform == "win32" or not wanted:
        yield
        return
    path = Path(tempfile.gettempdir()) / f"tensocket-opencl-{os.getuid()}.lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
