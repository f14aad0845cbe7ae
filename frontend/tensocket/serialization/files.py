"""Atomic writes: a reader sees the old or the new content, never a part."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from tensocket.errors import FileObjectError, SerializationError

from .writeback import create

#: A path, or an open binary file.
FileLike = str | os.PathLike[str] | IO[bytes]


def is_path(file: Any) -> bool:
    """Whether ``file`` is a path instead of a file object."""
    return isinstance(file, (str, os.PathLike))


def describe(file: Any) -> str:
    """Return the file's name in messages."""
    return f"file {os.fspath(file)!r}" if is_path(file) else f"file object {type(file).__name__}"


def writable(file: Any) -> IO[bytes]:
    """Return a file object for writing.

    Raises:
        FileObjectError: It is not writable.
    """
    if not hasattr(file, "write"):
        raise FileObjectError("save", describe(file), "expected 'f' to be string, path, or a file-like object with a "
                              "'write' attribute", "pass a path or open(path, 'wb')")
    return file  # type: ignore[no-any-return]


def readable(file: Any) -> IO[bytes]:
    """Return a file object for reading.

    Raises:
        FileObjectError: It is not readable or not seekable.
    """
    able = all(hasattr(file, name) for name in ("read", "seek", "tell"))
    if not able or not getattr(file, "seekable", lambda: True)():
        raise FileObjectError("load", describe(file), "You can only load from a file that is seekable",
                              "read it into io.BytesIO first, or pass its path")
    return file  # type: ignore[no-any-return]


@contextlib.contextmanager
def replacing(file: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Provide a temporary file that replaces ``file`` when the block ends without an error.

    Raises:
        SerializationError: The file cannot be written; the old content stays.
    """
    # A symbolic link stays one: its target is replaced.
    target = Path(os.path.realpath(file))
    if target.exists() and not target.is_file():
        with _special(file) as stream:
            yield stream
        return
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        with create(temporary) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        known = target.exists()
        if known:
            temporary.chmod(target.stat().st_mode & 0o7777)
        temporary.replace(target)
        if not known:  # for a known name, a power cut may restore the old file, which is intact
            _sync_folder(target.parent)
    except OSError as error:
        raise _unwritable(file, error) from error
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _special(file: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a pipe or a device, which is written to directly."""
    try:
        with open(file, "wb") as stream:
            yield stream
    except OSError as error:
        raise _unwritable(file, error) from error


def _unwritable(file: str | os.PathLike[str], error: OSError) -> SerializationError:
    return SerializationError("save", f"{describe(file)}: {error.strerror or error}", "the file must be writable and "
                              "have space", "choose another path or free some space")


def _sync_folder(folder: Path) -> None:
    """Make the new name durable if the system supports that for folders."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
