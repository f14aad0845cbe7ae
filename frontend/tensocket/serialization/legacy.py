"""The format that PyTorch used before archives: four consecutive pickles, then the storages."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from typing import IO, Any, Final

import numpy as np

from tensocket.errors import SerializationError
from tensocket_operators import TypedStorage, UntypedStorage
from tensocket_operators.interop.typed_storages import typed
from tensocket_plugins.contract.devices import HOST_DEVICE
from tensocket_plugins.contract.dtypes import DType

from .archive import fill
from .contents import content, host_storage, normalise, restored, saved_storage
from .locations import Restore
from .pickling import Shelf

MAGIC: Final = 0x1950A86A20F9469CFC6C
VERSION: Final = 1001
_COUNT: Final = struct.Struct("<q")
#: The object of a pickle, and the pickle's length.
Unpickle = Callable[[Any, Any, int], tuple[Any, int]]


def write_legacy(stream: IO[bytes], text: bytes, shelf: Shelf, module: Any, protocol: int) -> None:
    """Write the pickle of an object and its storages."""
    system = {"protocol_version": VERSION, "little_endian": sys.byteorder == "little",
              "type_sizes": {"short": 2, "int": 4, "long": 4}}
    for value in (MAGIC, VERSION, system):
        stream.write(module.dumps(value, protocol))
    stream.write(text)
    stream.write(module.dumps(list(shelf.storages), protocol))
    for key, storage in shelf.storages.items():
        stream.write(_COUNT.pack(storage.nbytes() // shelf.kinds[key].itemsize))
        stream.write(content(storage))


class _Legacy:
    """The state of reading one file."""

    def __init__(self, data: bytearray, unpickle: Unpickle, restore: Restore) -> None:
        self.data, self.unpickle, self.restore, self.position = data, unpickle, restore, 0
        self.storages: dict[str, tuple[DType, int, UntypedStorage]] = {}
        self.parts: dict[Any, UntypedStorage] = {}
        self._left = len(data)

    def next(self, persistent_load: Any = None) -> Any:
        """Return the object of the next pickle."""
        value, size = self.unpickle(memoryview(self.data)[self.position:], persistent_load, len(self.data))
        self.position += size
        return value

    def persistent_load(self, saved: Any) -> TypedStorage:
        """Return a storage on its device; its bytes are read later."""
        kind, key, location, count = saved_storage(saved)
        if key not in self.storages:
            self._left -= count * kind.itemsize
            if self._left < 0:
                raise ValueError("storages are larger than the file")
            host = UntypedStorage(count * kind.itemsize, device=HOST_DEVICE)
            self.storages[key] = kind, count, restored(self.restore, host, location)
        whole = self.storages[key][2]
        if len(saved) < 6 or saved[5] is None:
            return typed(whole, kind)
        return typed(self._part(whole, saved[5], kind.itemsize), kind)

    def _part(self, whole: UntypedStorage, saved: Any, size: int) -> UntypedStorage:
        """Return a view of a storage, as PyTorch before version 0.4 wrote them: its key, its place and its length."""
        if not isinstance(saved, tuple) or len(saved) != 3 or not all(type(n) is int for n in saved[1:]):
            raise ValueError("a view of a storage has a key, a place and a length")
        key, start, count = saved
        if not 0 <= start <= start + count <= whole.nbytes() // size:
            raise ValueError("a view lies within its storage")
        if key not in self.parts:
            self.parts[key] = whole[start * size:(start + count) * size]
        return self.parts[key]

    def fill(self, key: Any, swapped: bool) -> None:
        """Read the bytes of the next storage."""
        kind, count, storage = self.storages[key]
        start = self.position + _COUNT.size
        end = start + count * kind.itemsize
        if _COUNT.unpack(self.data[self.position:start])[0] != count or end > len(self.data):
            raise ValueError(f"storage {key!r} has another size than the object says")
        self.position = end
        if count and storage.device.type != "meta":
            content = np.frombuffer(self.data[start:end], np.uint8)
            normalise(content, kind, swapped)
            storage.copy_(host_storage(content))


def read_legacy(stream: IO[bytes], size: int, unpickle: Unpickle, restore: Restore) -> Any:
    """Read a file that ``write_legacy`` wrote.

    Raises:
        SerializationError: The file has the older tar format.
        Exception: The file is something else; the class of the exception is unspecified.
    """
    data = bytearray(size)
    fill(stream, memoryview(data))
    if data[257:262] == b"ustar":
        raise SerializationError("load", "a tar archive", "files of the first format of PyTorch are not read",
                                 "load and save it there once")
    file = _Legacy(data, unpickle, restore)
    if file.next() != MAGIC or file.next() != VERSION:
        raise ValueError("it does not start as a file of this format does")
    system = file.next()
    little = system.get("little_endian", system.get(b"little_endian"))  # the keys are bytes if texts are read as bytes
    if type(little) is not bool:
        raise ValueError("it does not say in which order bytes are")
    swapped = little != (sys.byteorder == "little")
    value = file.next(file.persistent_load)
    keys = [key.decode("ascii") if isinstance(key, bytes) else key for key in file.next()]
    if sorted(keys) != sorted(file.storages):
        raise ValueError("the storages are not those of the object")
    for key in keys:
        file.fill(key, swapped)
    return value
