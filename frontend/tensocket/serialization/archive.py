"""The zip archives of checkpoints: uncompressed, with contents at multiples of 64 bytes for memory mapping. The
reader extracts nothing to the file system and checks every size against that of the file.
"""

from __future__ import annotations

import struct
import threading
import zipfile
import zlib
from collections import deque
from collections.abc import Iterable
from typing import IO, Any, Final, NamedTuple

from .options import SETTINGS

#: Alignment of contents, so that mapped elements of every dtype are aligned.
ALIGNMENT: Final = 64
_LOCAL: Final = struct.Struct("<4s5H3L2H")
_CENTRAL: Final = struct.Struct("<4s6H3L5H2L")
_FULL: Final = 0xFFFFFFFF
#: 1980-01-01, the earliest date: equal contents give equal files.
_DAY: Final = 0x21
#: Names are UTF-8.
_UTF8: Final = 0x800
#: Number of bytes from which computing a checksum takes longer than starting a thread.
_LARGE: Final = 1 << 20
#: Number of checksums that are computed while other files are read.
_AT_ONCE: Final = 2
#: An extra field with padding.
_PADDING: Final = b"FB"


class Entry(NamedTuple):
    """The position of one file in an archive."""

    name: str
    start: int
    size: int
    crc: int


class CheckSum:
    """The checksum of a block of memory; a thread computes it if that takes longer than starting one.

    Args:
        data: The memory.
        wanted: Whether to compute it; otherwise it is 0.
    """

    def __init__(self, data: Any, wanted: bool = True) -> None:
        self._data = memoryview(data)
        self._value = 0
        self._thread: threading.Thread | None = None
        if not wanted:
            return
        if self._data.nbytes < _LARGE:
            self._compute()
        else:
            self._thread = threading.Thread(target=self._compute)
            self._thread.start()

    def _compute(self) -> None:
        self._value = zlib.crc32(self._data)

    def value(self) -> int:
        """Return the checksum, or 0."""
        if self._thread is not None:
            self._thread.join()
        return self._value


class Writer:
    """A writer of an archive, from its first to its last byte; the stream need not be seekable.

    Args:
        stream: The output stream.
        folder: The folder of all files.
    """

    def __init__(self, stream: IO[bytes], folder: str) -> None:
        self._stream, self._folder, self._at = stream, folder, 0
        self._entries: list[Entry] = []

    def _write(self, data: Any) -> None:
        self._stream.write(data)
        self._at += memoryview(data).nbytes

    def add(self, name: str, data: Any) -> None:
        """Add one file; ``data`` is contiguous memory."""
        self.add_all([(name, data)])

    def add_all(self, files: Iterable[tuple[str, Any]]) -> None:
        """Add several files; compute the checksum of the next file while one is written."""
        before: tuple[str, memoryview, CheckSum] | None = None
        for name, data in files:
            following = name, memoryview(data), CheckSum(data, SETTINGS.crc32)
            if before is not None:
                self._add(*before)
            before = following
        if before is not None:
            self._add(*before)

    def _add(self, name: str, data: memoryview, check_sum: CheckSum) -> None:
        crc = check_sum.value()
        label = f"{self._folder}/{name}".encode()
        size = data.nbytes
        start = self._at
        large = struct.pack("<2H2Q", 1, 16, size, size) if size >= _FULL else b""
        head = start + _LOCAL.size + len(label) + len(large) + 4
        extra = large + _PADDING + struct.pack("<H", -head % ALIGNMENT) + b"Z" * (-head % ALIGNMENT)
        short = min(size, _FULL)
        self._write(_LOCAL.pack(b"PK\x03\x04", 45 if large else 20, _UTF8, 0, 0, _DAY, crc, short, short, len(label),
                                len(extra)) + label + extra)
        if size:
            self._write(data)
        self._entries.append(Entry(label.decode(), start, size, crc))

    def identity(self) -> str:
        """Return 40 digits that depend on all contents."""
        first = second = 0
        for entry in self._entries:
            first = zlib.crc32(entry.name.encode(), first)
            second = zlib.crc32(entry.crc.to_bytes(4, "little"), second)
        return f"{first:020d}{second:020d}"

    def finish(self) -> None:
        """Write the table of contents."""
        start = self._at
        for name, offset, size, crc in self._entries:
            label = name.encode()
            wide = [value for value in (size, size, offset) if value >= _FULL]
            extra = struct.pack(f"<2H{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
            short = min(size, _FULL)
            self._write(_CENTRAL.pack(b"PK\x01\x02", 45, 45 if wide else 20, _UTF8, 0, 0, _DAY, crc, short, short,
                                      len(label), len(extra), 0, 0, 0, 0, min(offset, _FULL)) + label + extra)
        size, count, end = self._at - start, len(self._entries), self._at
        self._write(struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, start)
                    + struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1)
                    + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, min(count, 0xFFFF), min(count, 0xFFFF),
                                  min(size, _FULL), min(start, _FULL), 0))


class Reader:
    """The files of an archive.

    Args:
        stream: A binary file that can seek.

    Raises:
        Exception: The file is not an archive of ``Writer`` or PyTorch; the class of the exception is unspecified.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._sums: deque[tuple[str, int, CheckSum]] = deque()
        total = stream.seek(0, 2)
        with zipfile.ZipFile(stream) as archive:
            found = archive.infolist()
        if sum(info.file_size for info in found) > total or len({info.filename for info in found}) != len(found):
            raise ValueError("entries are repeated or larger than the file")
        names = [info.filename[:-len("/data.pkl")] for info in found if info.filename.endswith("/data.pkl")]
        if len(names) != 1:
            raise ValueError("it has not one entry data.pkl")
        self._prefix = names[0] + "/"
        self._entries = {info.filename: self._entry(info) for info in found}
        #: PyTorch can omit checksums; it then writes 0 everywhere.
        self._checked = any(entry.crc for entry in self._entries.values())
        end = 0
        for entry in sorted(self._entries.values(), key=lambda entry: entry.start):
            if entry.start < end or entry.start + entry.size > total:
                raise ValueError("entries overlap or reach out of the file")
            end = entry.start + entry.size

    def _entry(self, info: zipfile.ZipInfo) -> Entry:
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or info.flag_bits & 1:
            raise ValueError(f"entry {info.filename!r} is compressed or encrypted")
        self._stream.seek(info.header_offset)
        head = self._stream.read(_LOCAL.size)
        if len(head) != _LOCAL.size or head[:4] != b"PK\x03\x04":
            raise ValueError(f"entry {info.filename!r} has no header")
        *_, label, extra = _LOCAL.unpack(head)
        if self._stream.read(label) != info.filename.encode():
            raise ValueError(f"entry {info.filename!r} has another name in its header")
        return Entry(info.filename, info.header_offset + _LOCAL.size + label + extra, info.file_size, info.CRC)

    def names(self) -> list[str]:
        """Return the names of all files."""
        return [name.removeprefix(self._prefix) for name in self._entries]

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._entries

    def entry(self, name: str) -> Entry:
        """Return the position of a file.

        Raises:
            ValueError: The file does not exist.
        """
        found = self._entries.get(self._prefix + name)
        if found is None:
            raise ValueError(f"it has no entry {name!r}")
        return found

    def read(self, name: str) -> bytearray:
        """Return a file's content."""
        data = bytearray(self.entry(name).size)
        self.read_into(name, memoryview(data))
        return data

    def read_into(self, name: str, target: memoryview, *, later: bool = False) -> None:
        """Read a file's content into memory of the same size.

        Args:
            name: The file.
            target: The memory.
            later: Whether ``check`` compares the checksum, which is computed in the meantime.

        Raises:
            ValueError: The checksum is wrong.
        """
        entry = self.entry(name)
        self._stream.seek(entry.start)
        fill(self._stream, target)
        if self._checked:
            self._sums.append((name, entry.crc, CheckSum(target)))
            self.check(_AT_ONCE if later else 0)

    def check(self, left: int = 0) -> None:
        """Compare the checksums of the contents that were read, except for the last few.

        Raises:
            ValueError: A checksum is wrong.
        """
        while len(self._sums) > left:
            name, expected, found = self._sums.popleft()
            if found.value() != expected:
                raise ValueError(f"the check sum of entry {name!r} is wrong")


def fill(stream: IO[bytes], target: memoryview) -> None:
    """Read as many bytes as fit into ``target``.

    Raises:
        ValueError: The file ends before that.
    """
    done = 0
    while done < target.nbytes:
        if hasattr(stream, "readinto"):
            count = stream.readinto(target[done:])
        else:
            piece = stream.read(min(target.nbytes - done, 1 << 24))
            count = len(piece)
            target[done:done + count] = piece
        if not count:
            raise ValueError("the file ends too early")
        done += count
