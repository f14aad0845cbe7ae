"""``save``."""

from __future__ import annotations

import io
import os
import pickle
import sys
from typing import IO, Any, Final

from tensocket.errors import TensocketError, UnpicklableError

from .archive import ALIGNMENT, Writer
from .contents import content
from .files import FileLike, is_path, replacing, writable
from .legacy import write_legacy
from .pickling import Shelf, pickler

#: The pickle protocol that PyTorch reads in restricted mode.
DEFAULT_PROTOCOL: Final = 2


def save(
    obj: object, f: FileLike, pickle_module: Any = pickle, pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True, _disable_byteorder_record: bool = False,
) -> None:
    """Write an object to a file that ``load`` and PyTorch's ``torch.load`` read.

    The format is PyTorch's: an archive of one pickle and the bytes of every storage. Tensors that share memory still
    share it after reading; whole storages are written, so ``clone()`` a small view of a large tensor first. For a path,
    a temporary file is written and then renamed, so a crash leaves the old or the new file.

    Args:
        obj: Any picklable object, for example ``module.state_dict()``.
        f: A path, or a binary file object with ``write``.
        pickle_module: The module whose ``Pickler`` is used.
        pickle_protocol: Its protocol.
        _use_new_zipfile_serialization: Whether to write an archive, instead of the format of PyTorch before 1.6.
        _disable_byteorder_record: Whether to omit the byte order.

    Raises:
        UnpicklableError: The object contains an object that cannot be pickled.
        SerializationError: The file cannot be written, or one storage is used with two dtypes.
    """
    options = (pickle_module, pickle_protocol, _use_new_zipfile_serialization, not _disable_byteorder_record)
    if is_path(f):
        name = os.path.splitext(os.path.basename(os.fspath(f)))[0] or "archive"  # type: ignore[arg-type]
        with replacing(f) as stream:  # type: ignore[arg-type]
            _save(obj, stream, name, *options)
    else:
        _save(obj, writable(f), "archive", *options)


def _save(
    obj: object, stream: IO[bytes], name: str, module: Any, protocol: int, archive: bool, byteorder: bool
) -> None:
    shelf = Shelf(legacy=not archive)
    text = io.BytesIO()
    try:
        pickler(module, text, protocol, shelf).dump(obj)
    except TensocketError:
        raise
    except (pickle.PicklingError, AttributeError, TypeError, RecursionError) as error:
        raise UnpicklableError("save", f"a {type(obj).__name__}: {str(error) or type(error).__name__}",
                               "everything in the object can be pickled", "save a state_dict(), and classes and "
                               "functions from the top level of modules") from error
    if not archive:
        write_legacy(stream, text.getvalue(), shelf, module, protocol)
    else:
        _write_archive(stream, name, text, shelf, byteorder)
    if hasattr(stream, "flush"):
        stream.flush()


def _write_archive(stream: IO[bytes], name: str, text: io.BytesIO, shelf: Shelf, byteorder: bool) -> None:
    writer = Writer(stream, name)
    writer.add("data.pkl", text.getbuffer())
    writer.add(".format_version", b"1")
    writer.add(".storage_alignment", str(ALIGNMENT).encode())
    if byteorder:
        writer.add("byteorder", sys.byteorder.encode())
    writer.add_all((f"data/{key}", content(storage)) for key, storage in shelf.storages.items())
    writer.add("version", b"3\n")
    writer.add(".data/serialization_id", writer.identity().encode())
    writer.finish()
