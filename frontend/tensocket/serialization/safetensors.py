"""The safetensors format: an 8-byte length, a JSON header with dtype, shape and position of tensors, their bytes."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import IO, Any, Final

from tensocket.errors import ArgumentTypeError, SerializationError, UnsupportedDtype
from tensocket_operators import Tensor
from tensocket_plugins.contract.dtypes import BY_NAME, DType

from .bits import from_bytes, to_bytes
from .files import describe, replacing

#: The format's names of dtypes; it does not support others.
_NAMES: Final[dict[str, str]] = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32", "int32": "I32",
    "uint64": "U64", "int64": "I64", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float16": "F16",
    "bfloat16": "BF16", "float32": "F32", "float64": "F64", "complex64": "C64",
}
_DTYPES: Final[dict[str, DType]] = {short: BY_NAME[name] for name, short in _NAMES.items()}
_METADATA: Final = "__metadata__"


def save_safetensors(
    tensors: Mapping[str, Tensor], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors to a safetensors file, which replaces an existing one when it is complete.

    Args:
        tensors: Tensors by name. Tensors that share memory are written separately.
        filename: The file.
        metadata: Texts to store in the header.

    Raises:
        ArgumentTypeError: A name is not a string, or a value is not a tensor.
        UnsupportedDtype: The format does not support the dtype.
        SerializationError: The file cannot be written.
    """
    head: dict[str, Any] = {} if metadata is None else {_METADATA: dict(metadata)}
    end = 0
    name: Any
    value: Any
    for name, value in tensors.items():
        if not isinstance(name, str) or not isinstance(value, Tensor) or name == _METADATA:
            raise ArgumentTypeError("save_safetensors", f"a {type(value).__name__} as {name!r}", "the file holds "
                                    "tensors by name", "pass a flat mapping such as module.state_dict()")
        if value.dtype.name not in _NAMES:
            raise UnsupportedDtype("save_safetensors", f"{name!r} of dtype {value.dtype.name}", "safetensors has no "
                                   "such dtype", "convert it, for example to pairs of real numbers")
        start, end = end, end + value.numel() * value.element_size()
        head[name] = {"dtype": _NAMES[value.dtype.name], "shape": list(value.shape), "data_offsets": [start, end]}
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with replacing(filename) as stream:
        stream.write(len(text).to_bytes(8, "little"))
        stream.write(text)
        for value in tensors.values():
            stream.write(to_bytes(value))


def load_safetensors(filename: str | os.PathLike[str], device: Any = "cpu") -> dict[str, Tensor]:
    """Read the tensors of a safetensors file to ``device``.

    Raises:
        SerializationError: The file has another format, or is truncated or damaged.
        FileNotFoundError: The file does not exist.
    """
    with open(filename, "rb") as stream:
        try:
            found = _read(stream)
        # Parsers of hostile bytes may raise anything; any exception means that the file is not a safetensors file.
        except Exception as error:
            raise SerializationError("load_safetensors", f"{describe(filename)}: {str(error) or type(error).__name__}",
                                     "the file must be a complete safetensors file", "it is truncated, damaged or of "
                                     "another kind; get it again") from error
    return {name: tensor.to(device) for name, tensor in found.items()}


def _read(stream: IO[bytes]) -> dict[str, Tensor]:
    size = stream.seek(0, 2)
    stream.seek(0)
    length = int.from_bytes(stream.read(8), "little")
    if not 2 <= length <= size - 8:
        raise ValueError(f"a head of {length} bytes in a file of {size}")
    head = json.loads(stream.read(length), object_pairs_hook=_unique)
    head.pop(_METADATA, None)
    found, position = {}, 0
    for name, entry in sorted(head.items(), key=lambda item: item[1]["data_offsets"]):
        dtype, shape, (start, end) = _DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        if len(shape) > 64 or not all(type(n) is int and 0 <= n < 1 << 63 for n in (*shape, start, end)):
            raise ValueError(f"sizes of {name!r} are not at most 64 natural numbers of 63 bits")
        if start != position or end > size - 8 - length or end - start != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{name!r} of shape {shape} lies at bytes {start} to {end} of {size - 8 - length}")
        found[name] = from_bytes(bytearray(stream.read(end - start)), dtype).reshape(shape)
        position = end
    if position != size - 8 - length:
        raise ValueError(f"{size - 8 - length - position} bytes at the end belong to no tensor")
    return {name: found[name] for name in head}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a name appears twice")
    return dict(pairs)
