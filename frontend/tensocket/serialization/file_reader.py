"""``PyTorchFileReader``: the records of a file that ``save`` wrote, one by one."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import IO, Any

from tensocket.errors import SerializationError
from tensocket_operators import Tensor, frombuffer, uint8
from tensocket_plugins.contract.dtypes import DType

from .archive import Reader


class PyTorchFileReader:
    """The records of a file that ``save`` wrote.

    Args:
        name_or_buffer: The path, or a binary file that can seek.

    Raises:
        SerializationError: The file is not such an archive.
    """

    def __init__(self, name_or_buffer: str | Path | IO[bytes]) -> None:
        named = isinstance(name_or_buffer, (str, Path))
        self._stream: IO[bytes] = open(name_or_buffer, "rb") if named else name_or_buffer  # type: ignore[arg-type, assignment]  # noqa: SIM115  closed with this object
        if named:
            weakref.finalize(self, self._stream.close)
        try:
            self._reader = Reader(self._stream)
        except Exception as error:
            raise SerializationError("PyTorchFileReader", f"{name_or_buffer}: {error}", "the file is an archive that "
                                     "save() wrote", "get it again") from error

    def get_all_records(self) -> list[str]:
        """Return the names of all records."""
        return self._reader.names()

    def has_record(self, name: str) -> bool:
        """Whether there is a record of a name."""
        return name in self._reader

    def get_record(self, name: str) -> bytes:
        """Return a record.

        Raises:
            SerializationError: It does not exist, or is damaged.
        """
        try:
            return bytes(self._reader.read(name))
        except ValueError as error:
            raise SerializationError("PyTorchFileReader", f"record {name!r}: {error}", "the archive has the record",
                                     "see get_all_records()") from error

    def get_storage_from_record(self, name: str, numel: int, dtype: Any) -> Tensor:
        """Return the elements of a record as a tensor of shape ``(numel,)``; of bytes if ``dtype`` is a storage class.

        Raises:
            SerializationError: The record does not exist, or is smaller.
        """
        kind = dtype if isinstance(dtype, DType) else uint8
        data = bytearray(self.get_record(name))
        if len(data) < numel * kind.itemsize:
            raise SerializationError("PyTorchFileReader", f"{numel} elements of record {name!r}", f"it has {len(data)} "
                                     "bytes", "ask for fewer")
        made: Tensor = frombuffer(data, dtype=kind, count=numel)
        return made


__all__ = ["PyTorchFileReader"]
