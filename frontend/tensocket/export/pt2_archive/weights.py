"""Tensors in archives: the bytes of their memory, and a table with shape, strides and dtype of each."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from tensocket._utils import _rebuild_tensor_v3
from tensocket.errors import SerializationError
from tensocket.nn import Parameter
from tensocket.serialization import load, save
from tensocket.serialization.archive import Reader
from tensocket.serialization.contents import content, host_storage, normalise
from tensocket_core.formats import strided
from tensocket_core.geometry import memory_of
from tensocket_operators import Tensor

from ..values import TensorValue
from .arguments import Json, entry_of, read_device, write_tensor
from .constants import DTYPE_OF_CODE, LAYOUT_OF_CODE

#: Largest number of dimensions.
_DIMS: Final = 64


def write_tensors(tensors: Mapping[str, Any], prefix: str) -> tuple[Json, dict[str, Any]]:
    """Return the table of some tensors, and the contents of the files that it names.

    Tensors that share memory are in one file. Sparse tensors are in files of ``torch.save``.

    Args:
        tensors: Tensors by path.
        prefix: Begin of the names of files.
    """
    config: Json = {}
    files: dict[str, Any] = {}
    names: dict[Any, str] = {}
    kept: list[Any] = []
    for path, tensor in tensors.items():
        plain = tensor.detach().resolve_conj().resolve_neg()
        is_plain = plain.layout is strided and type(plain) is Tensor
        storage = plain.untyped_storage() if is_plain else None
        key = id(memory_of(plain._array)) if is_plain else path
        if key not in names:
            names[key] = f"{prefix}{len(names)}"
            files[names[key]] = content(storage) if storage is not None else _saved(tensor)
        form = write_tensor(TensorValue.of(plain, plain.shape), [None] * plain.dim())
        form["requires_grad"] = bool(tensor.requires_grad)
        kept.append(plain)  # so that its identity stays its own
        form["storage_offset"] = {"as_int": plain.storage_offset() if is_plain else 0}
        config[path] = {"path_name": names[key], "is_param": isinstance(tensor, Parameter), "use_pickle": not is_plain,
                        "tensor_meta": form}
    return {"config": config}, files


def _saved(tensor: Any) -> memoryview:
    stream = io.BytesIO()
    save(tensor, stream)
    return stream.getbuffer()


def read_tensors(archive: Reader, table: str, folder: str) -> dict[str, Any]:
    """Return the tensors of a table.

    Args:
        archive: The archive.
        table: Name of the table's file.
        folder: The folder of the files that it names.

    Raises:
        ValueError: A tensor reaches out of its file.
        SerializationError: A file holds something other than a tensor.
    """
    config = json.loads(archive.read(table))["config"]
    storages: dict[str, Any] = {}
    found: dict[str, Any] = {}
    known: dict[str, Any] = {}
    for path, entry in config.items():
        # Two paths with one tensor have the same entry, and get the same tensor again.
        key = json.dumps(entry, sort_keys=True)
        if key not in known:
            known[key] = _tensor(archive, folder, entry, storages)
        found[path] = known[key]
    return found


def _tensor(archive: Reader, folder: str, entry: Json, storages: dict[str, Any]) -> Any:
    name = entry["path_name"]
    if not isinstance(name, str) or "/" in name:
        raise ValueError(f"a tensor in the file {name!r}")
    if entry["use_pickle"]:
        tensor = _loaded(archive, folder + name)
    else:
        tensor = _placed(archive, folder + name, entry["tensor_meta"], storages)
    if not entry["is_param"] or isinstance(tensor, Parameter):
        return tensor
    return Parameter(tensor, requires_grad=bool(entry["tensor_meta"]["requires_grad"]))


def _loaded(archive: Reader, name: str) -> Any:
    """Return the tensor of a file of ``torch.save``; the restricted loader runs no code."""
    tensor = load(io.BytesIO(archive.read(name)))
    if not isinstance(tensor, Tensor):
        raise SerializationError("export.load", f"a {type(tensor).__name__} in {name}", "weights and constants are "
                                 "tensors", "export the program without objects of its own classes")
    return tensor


def _placed(archive: Reader, name: str, meta: Json, storages: dict[str, Any]) -> Any:
    dtype, sizes = DTYPE_OF_CODE[meta["dtype"]], [read_size(x) for x in meta["sizes"]]
    strides, offset = [read_size(x) for x in meta["strides"]], read_size(meta["storage_offset"])
    if name not in storages:
        data = np.frombuffer(archive.read(name), np.uint8)
        storages[name] = host_storage(data), dtype
        normalise(data, dtype, _is_swapped(archive))
    storage, first = storages[name]
    if first is not dtype and "bool" in (first.name, dtype.name):
        raise ValueError(f"{name} has booleans and other elements")
    tensor = _rebuild_tensor_v3(storage, offset, sizes, strides, bool(meta["requires_grad"]), None, dtype)
    device = read_device(meta["device"])
    return tensor if device == tensor.device else tensor.detach().to(device).requires_grad_(tensor.requires_grad)


def _is_swapped(archive: Reader) -> bool:
    order = archive.read("byteorder").decode() if "byteorder" in archive else "little"
    if order not in ("little", "big"):
        raise ValueError(f"the order of bytes is {order[:20]!r}")
    return order != sys.byteorder


def read_size(value: Json) -> int:
    """Return a size; of one that changes, the example.

    Raises:
        ValueError: It is not a natural number.
    """
    kind, given = entry_of(value)
    found = entry_of(given["hint"])[1] if kind == "as_expr" else given
    if type(found) is not int or not 0 <= found < 1 << 63:
        raise ValueError(f"a size {found!r}")
    return found


def read_form(meta: Json, sizes: list[int]) -> TensorValue:
    """Return the form of a tensor with given sizes.

    Raises:
        ValueError: It has too many dimensions.
    """
    if len(sizes) > _DIMS:
        raise ValueError(f"a tensor with {len(sizes)} dimensions")
    return TensorValue(sizes, DTYPE_OF_CODE[meta["dtype"]], read_device(meta["device"]), bool(meta["requires_grad"]),
                       [_stride(x) for x in meta["strides"]], LAYOUT_OF_CODE[meta["layout"]])


def _stride(value: Json) -> int:
    kind, given = entry_of(value)
    hint = given.get("hint") if kind == "as_expr" else None
    found = given if kind == "as_int" else entry_of(hint)[1] if hint else 0
    return int(found)

