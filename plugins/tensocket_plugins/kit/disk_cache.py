"""Compiled kernels on disk, by content. An unusable cache costs only time: one warning, no error."""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_MAGIC: Final = b"tensocket kernel 1\n"


def default_directory(backend: str) -> Path | None:
    """Return a backend's directory for compiled kernels: ``$TENSOCKET_CACHE_DIR``, else in the user's cache.

    The result is None if ``TENSOCKET_CACHE_DIR`` is set but empty (no cache), or if there is no home directory.
    """
    chosen = os.environ.get("TENSOCKET_CACHE_DIR")
    if chosen is not None:
        return Path(chosen) / backend if chosen else None
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "tensocket" / backend
    except RuntimeError:
        return None


@dataclass
class BuildStats:
    """Counts and times of all compilation so far.

    Attributes:
        kernels: Number of programs or kernels compiled or loaded.
        seconds: Time for that.
        cache_hits: Number of them from the disk cache.
        failures: Reasons why programs failed to compile, by name; those are interpreted.
    """

    kernels: int = 0
    seconds: float = 0.0
    cache_hits: int = 0
    failures: dict[str, str] = field(default_factory=dict)


class DiskCache:
    """Bytes by key, each in its own file with a checksum.

    Several processes may share one directory: files are written elsewhere and moved into place.

    Args:
        directory: Directory of the files, created on demand. None stores nothing.
    """

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory
        self._warned = False

    @staticmethod
    def key(*parts: str) -> str:
        """Return a file name for all inputs that the cached bytes depend on."""
        digest = hashlib.sha256()
        for part in parts:
            data = part.encode()
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
        return digest.hexdigest()

    def get(self, key: str) -> bytes | None:
        """Return the bytes stored for ``key``; None if there are none or they are damaged."""
        if self.directory is None:
            return None
        try:
            data = (self.directory / key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(f"cannot be read ({error})")
            return None
        head, payload = data[: len(_MAGIC) + 32], data[len(_MAGIC) + 32 :]
        if head != _MAGIC + hashlib.sha256(payload).digest():
            self._warn(f"holds a damaged file, {key}, which is replaced")
            return None
        return payload

    def put(self, key: str, payload: bytes) -> None:
        """Store ``payload`` for ``key``."""
        if self.directory is None:
            return
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.directory, delete=False) as file:
                try:
                    file.write(_MAGIC + hashlib.sha256(payload).digest() + payload)
                    file.close()
                    os.replace(file.name, self.directory / key)
                except BaseException:
                    Path(file.name).unlink(missing_ok=True)
                    raise
        except OSError as error:
            self._warn(f"cannot be written ({error})")

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(f"the kernel cache {self.directory} {what}; kernels are compiled anew. "
                          f"Set TENSOCKET_CACHE_DIR to another directory, or to nothing to do without.",
                          RuntimeWarning, stacklevel=2)
