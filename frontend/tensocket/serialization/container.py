"""The file format of ``save`` and ``load``: a zip archive of one JSON structure and the raw bytes of every storage.

``tensocket.json`` holds ``{"format": "tensocket", "version": 1, "storages": [...], "tensors": [...], "root": ...}``
(see ``structure`` and ``storages``), ``data/0``, ``data/1``, ... are uncompressed little-endian elements. The
archive's check sums cover both. Reading executes nothing, writes nothing, and believes no size that the file does not
have.
"""

from __future__ import annotations

import json
import zipfile
from typing import IO, Any, Final

from tensocket.errors import SerializationError, TensocketError

from .bits import to_bytes
from .files import FileLike, describe, is_path, replacing
from .storages import Pool, Shelf
from .structure import Decoder, Encoder

VERSION: Final = 1
_HEAD: Final = "tensocket.json"
#: The same content gives the same file: archives carry no time.
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def save(obj: Any, f: FileLike) -> None:
    """Write ``obj`` to a file, from which ``load`` reads it back.

    A path is written to a temporary file that takes its place at the end, so no reader ever sees a part of it.

    Args:
        obj: Tensors, numbers, strings, dtypes, devices, and lists, tuples, sets and dicts of them, for example
            ``module.state_dict()``. Tensors that share memory share it again when they are read.
        f: A path or a binary file object.

    Raises:
        SerializationError: ``obj`` contains something else, or the file cannot be written.
    """
    pool = Pool()
    root = Encoder(pool.place).encode(obj)
    head = {"format": "tensocket", "version": VERSION, **pool.describe(), "root": root}
    if is_path(f):
        with replacing(f) as stream:  # type: ignore[arg-type]  # is_path says so
            _write(stream, head, pool)
    else:
        _write(f, head, pool)  # type: ignore[arg-type]


def load(f: FileLike, map_location: Any = None, *, weights_only: bool = True) -> Any:
    """Read what ``save`` wrote.

    Args:
        f: A path or a binary file object that can seek.
        map_location: Where tensors go: a device, a dict from saved to new device names, or a function of a flat CPU
            tensor and the saved device name that returns a tensor, or None for the saved device. By default, tensors
            return to the device that they were on.
        weights_only: Files never hold code, so both values mean the same.

    Returns:
        An equal object; dtypes, strides and shared memory of tensors are kept.

    Raises:
        SerializationError: It is no such file, or it is truncated or damaged.
        FileNotFoundError: There is no such file.
        DeviceError: A tensor's device is not there; ``map_location`` helps.
    """
    if not is_path(f):
        return _read(f, f, map_location)  # type: ignore[arg-type]
    with open(f, "rb") as stream:  # type: ignore[arg-type]
        return _read(stream, f, map_location)


def _write(stream: IO[bytes], head: dict[str, Any], pool: Pool) -> None:
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        text = json.dumps(head, allow_nan=False, separators=(",", ":"))
        archive.writestr(zipfile.ZipInfo(_HEAD, _EPOCH), text)
        for number, storage in enumerate(pool.storages):
            data = to_bytes(storage.tensor)
            info = zipfile.ZipInfo(f"data/{number}", _EPOCH)
            info.file_size = data.nbytes
            with archive.open(info, "w") as entry:
                entry.write(data)


def _read(stream: IO[bytes], name: Any, map_location: Any) -> Any:
    try:
        size = stream.seek(0, 2)
        stream.seek(0)
        with zipfile.ZipFile(stream) as archive:
            entries = _entries(archive, size, name)
            head = json.loads(archive.read(_HEAD))
            if head["format"] != "tensocket" or type(head["version"]) is not int:
                raise ValueError("not the head of a tensocket file")
            if head["version"] > VERSION:
                raise SerializationError("load", f"{describe(name)} of format version {head['version']}",
                                         f"this release reads versions up to {VERSION}", "install a newer tensocket")
            shelf = Shelf(head)
            if entries != {_HEAD: entries[_HEAD], **{f"data/{k}": n for k, n in enumerate(shelf.sizes)}}:
                raise ValueError("the entries are not those that the head describes")
            # Nothing is moved to a device before everything was read and checked.
            contents = [bytearray(archive.read(f"data/{k}")) for k in range(len(shelf.sizes))]
    except TensocketError:
        raise
    # Parsers of hostile bytes may raise anything; whatever it is, the file is not one that save() wrote.
    except Exception as error:
        raise _damaged(name, error) from error
    for data in contents:
        shelf.fill(data, map_location)
    try:
        return Decoder(shelf.take).decode(head["root"])
    except Exception as error:
        raise _damaged(name, error) from error


def _entries(archive: zipfile.ZipFile, size: int, name: Any) -> dict[str, int]:
    """Names and sizes of the entries.

    Raises:
        ValueError: One is compressed, encrypted, twice there, or larger than the file.
        SerializationError: It is an archive of another library.
    """
    found = archive.infolist()
    entries = {info.filename: info.file_size for info in found}
    if _HEAD not in entries and any(label.endswith("/data.pkl") for label in entries):
        raise SerializationError("load", f"{describe(name)}, written by PyTorch", "pickled files are not read",
                                 "save it as safetensors there and use load_safetensors here")
    plain = all(info.compress_type == zipfile.ZIP_STORED and info.compress_size == info.file_size
                and not info.flag_bits & 1 for info in found)
    if not plain or len(entries) != len(found) or sum(entries.values()) > size:
        raise ValueError("an entry is compressed, encrypted, repeated or larger than the file")
    return entries


def _damaged(name: Any, error: Exception) -> SerializationError:
    return SerializationError("load", f"{describe(name)}: {str(error) or type(error).__name__}",
                              "the file must be what save() wrote, complete and unchanged",
                              "it is truncated, damaged or of another kind; get it again")
