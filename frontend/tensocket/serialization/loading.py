"""``load``."""

from __future__ import annotations

import io
import mmap as memory_map
import os
import pickle
import sys
from typing import IO, Any, Final

import numpy as np

from tensocket.errors import ArgumentError, DamagedFileError, SerializationError, TensocketError
from tensocket_operators import TypedStorage, UntypedStorage
from tensocket_operators.interop.typed_storages import typed
from tensocket_plugins.contract.devices import HOST_DEVICE
from tensocket_plugins.contract.dtypes import DType

from .archive import Reader
from .contents import host_storage, normalise, restored, saved_storage
from .files import FileLike, describe, is_path, readable
from .legacy import read_legacy
from .locations import Restore, restore_function
from .options import LOCAL, SETTINGS, LoadEndianness
from .pickling import unpickler
from .restricted import Restricted
from .safety import DEFAULT, allowed_by_program, named_in

_ARCHIVE: Final = b"PK\x03\x04"


def load(
    f: FileLike, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool | None = None,
    mmap: bool | None = None, **pickle_load_args: Any,
) -> Any:
    """Read a file that ``save`` or PyTorch's ``torch.save`` wrote.

    Args:
        f: A path, or a binary file object that can seek; reading starts at its current position.
        map_location: Devices of the storages: a device or its name, a dict from names of places in the file to others,
            or a function of a storage on the host and its place that returns a storage, or None for the place in the
            file. By default, storages return to their original devices.
        pickle_module: The module whose ``Unpickler`` is used, for trusted files only.
        weights_only: Whether to refuse everything but tensors, numbers, texts, containers and the objects that
            ``add_safe_globals`` allows; True unless ``pickle_module`` is given. With False, a file can run any code
            when it is read: pass it only for files that you trust.
        mmap: Whether to map storages into memory instead of reading them; for paths only. Checksums of mapped contents
            are not compared.
        **pickle_load_args: Options of the ``Unpickler``: ``encoding`` of texts that Python 2 wrote.

    Raises:
        UnsafeGlobalError: The file names a class or function that is not allowed.
        DamagedFileError: The file has another format, or is truncated or damaged.
        SerializationError: The file needs a device that does not exist here, or has an unsupported format.
        FileNotFoundError: The file does not exist.
    """
    trusted = _is_trusted(weights_only, pickle_module)
    pickle_load_args.setdefault("encoding", "utf-8")
    if mmap and not is_path(f):
        raise ArgumentError("load", f"mmap=True for {describe(f)}", "f must be a file path in order to use the mmap "
                            "argument", "pass the path of the file")
    job = _Job(f, restore_function(map_location), bool(mmap), (pickle_module or pickle) if trusted else None,
               pickle_load_args)
    if not is_path(f):
        return job.run(readable(f))
    with open(f, "rb") as stream:  # type: ignore[arg-type]  # is_path says so
        return job.run(stream)


def _is_trusted(weights_only: bool | None, pickle_module: Any) -> bool:
    if weights_only and pickle_module is not None:
        raise ArgumentError("load", "weights_only=True with a pickle_module", "Can not safely load weights when "
                            "explicit pickle_module is specified", "leave one of the two out")
    if os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "0").lower() in ("1", "y", "yes", "true"):
        return False
    if weights_only is None:
        forced = os.environ.get("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "0").lower() in ("1", "y", "yes", "true")
        return forced or pickle_module is not None
    return not weights_only


class _Job:
    """One call of ``load``."""

    def __init__(self, name: Any, restore: Restore, mapped: bool, module: Any, options: dict[str, Any]) -> None:
        self.name, self.restore, self.mapped, self.module, self.options = name, restore, mapped, module, options
        self.storages: dict[str, UntypedStorage] = {}
        self.in_program = False

    def run(self, stream: IO[bytes]) -> Any:
        try:
            return self._read(stream)
        except TensocketError as error:
            if isinstance(error, SerializationError):
                raise
            raise _damaged(self.name, error) from error
        except (KeyboardInterrupt, MemoryError):
            raise
        # Parsers of hostile bytes may raise anything; any exception means that save() did not write the file.
        # Exceptions of code that a trusted file runs belong to the program.
        except Exception as error:
            if self.in_program and not isinstance(error, (pickle.UnpicklingError, EOFError, ValueError)):
                raise
            raise _damaged(self.name, error) from error

    def _read(self, stream: IO[bytes]) -> Any:
        start = stream.tell()
        head = stream.read(len(_ARCHIVE))
        size = stream.seek(0, 2) - start
        if not head:
            raise EOFError("Ran out of input: the file is empty, or read to its end (seek(0) goes to its start)")
        if head == _ARCHIVE:
            return self._read_archive(stream, size)
        stream.seek(start)
        if self.mapped:
            raise SerializationError("load", f"mmap=True for {describe(self.name)}", "mmap can only be used with files "
                                     "saved with _use_new_zipfile_serialization=True", "leave mmap out")
        return read_legacy(stream, size, self.unpickled, self.restore)

    def unpickled(self, data: Any, persistent_load: Any, size: int) -> tuple[Any, int]:
        """Return the object of a pickle, and the pickle's number of bytes."""
        if self.module is None:
            machine = Restricted(data, persistent_load, self.options["encoding"], size)
            return machine.load(), machine.position
        stream = io.BytesIO(data)
        self.in_program = True
        value = unpickler(self.module, stream, persistent_load, self.options).load()
        self.in_program = False
        return value, stream.tell()

    def _read_archive(self, stream: IO[bytes], size: int) -> Any:
        archive = Reader(stream)
        if "constants.pkl" in archive:
            raise SerializationError("load", f"{describe(self.name)}, a TorchScript archive", "compiled programs are "
                                     "not read", "save the state_dict() of the module there")
        swapped = _order(archive) != sys.byteorder
        mapping = _mapped(stream) if self.mapped else None

        def persistent_load(saved: Any) -> TypedStorage:
            kind, key, location, count = saved_storage(saved)
            storage = self.storages.get(key)
            if storage is None:
                storage = storage_from(archive, key, kind, mapping, swapped)
                self.storages[key] = storage = restored(self.restore, storage, location)
            if count * kind.itemsize > storage.nbytes():
                raise ValueError(f"storage {key!r} of {count} elements has {storage.nbytes()} bytes")
            return typed(storage, kind)

        value, _ = self.unpickled(archive.read("data.pkl"), persistent_load, size)
        archive.check()
        return value


def storage_from(archive: Reader, key: str, kind: DType, mapping: Any, swapped: bool) -> UntypedStorage:
    """Return a storage on the host with the bytes of an entry, read or mapped."""
    entry = archive.entry(f"data/{key}")
    if mapping is not None and not swapped and entry.start % kind.itemsize == 0 and entry.size:
        return host_storage(np.frombuffer(mapping, np.uint8, entry.size, entry.start))
    storage = UntypedStorage(entry.size, device=HOST_DEVICE)
    if not LOCAL.skip:
        target = storage._bytes._host()
        # The code below changes the contents, so they must be checked first.
        archive.read_into(f"data/{key}", target.data, later=not swapped and kind.kind != "bool")
        normalise(target, kind, swapped)
    return storage


def _order(archive: Reader) -> str:
    if "byteorder" in archive:
        order = archive.read("byteorder").decode()
        if order not in ("little", "big"):
            raise ValueError(f"the order of bytes is {order[:20]!r}")
        return order
    default = SETTINGS.endianness
    if default is LoadEndianness.BIG or (default is LoadEndianness.NATIVE and sys.byteorder == "big"):
        return "big"
    return "little"


def _mapped(stream: IO[bytes]) -> Any:
    flags = SETTINGS.mmap_flags
    if os.name == "nt":
        return memory_map.mmap(stream.fileno(), 0, access=memory_map.ACCESS_COPY)
    if flags == memory_map.MAP_SHARED:
        with open(stream.name, "r+b") as changed:
            return memory_map.mmap(changed.fileno(), 0, flags=flags)
    return memory_map.mmap(stream.fileno(), 0, flags=flags, prot=memory_map.PROT_READ | memory_map.PROT_WRITE)


def _damaged(name: Any, error: Exception) -> DamagedFileError:
    return DamagedFileError("load", f"{describe(name)}: {type(error).__name__}: {error}",
                            "the file must be what save() wrote, complete and unchanged",
                            "it is truncated, damaged or of another kind; get it again")


def get_unsafe_globals_in_checkpoint(f: FileLike) -> list[str]:
    """Return the full names of the classes and functions in a file that restricted loading does not allow.

    Raises:
        DamagedFileError: The file is not an archive of ``save``.
    """
    try:
        if is_path(f):
            with open(f, "rb") as stream:  # type: ignore[arg-type]
                data = Reader(stream).read("data.pkl")
        else:
            data = Reader(readable(f)).read("data.pkl")
        names = set(named_in(bytes(data)))
    except OSError:
        raise
    except Exception as error:
        raise _damaged(f, error) from error
    return sorted(name for name in names if name not in DEFAULT and name not in allowed_by_program())
