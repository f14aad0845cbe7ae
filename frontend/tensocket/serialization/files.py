"""Writing files so that a reader sees the old or the new content, never a part."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from tensocket.errors import SerializationError

#: A path, or an open binary file.
FileLike = str | os.PathLike[str] | IO[bytes]


def is_path(file: Any) -> bool:
    """Whether ``file`` names a file instead of being one."""
    return isinstance(file, (str, os.PathLike))


def describe(file: Any) -> str:
    """How messages name the file."""
    return f"file {os.fspath(file)!r}" if is_path(file) else f"file object {type(file).__name__}"


@contextlib.contextmanager
def replacing(file: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A temporary file that takes the place of ``file`` when the block ends without an error.

    Raises:
        SerializationError: The file cannot be written; what was there before stays.
    """
    # A symbolic link stays one: its target is replaced.
    target = Path(os.path.realpath(file))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        with open(temporary, "xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o7777)
        temporary.replace(target)
        _sync_folder(target.parent)
    except OSError as error:
        raise SerializationError("save", f"{describe(file)}: {error.strerror or error}", "the file must be writable "
                                 "and have space", "choose another path or free some space") from error
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the new name durable, where the system can do that for folders."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
