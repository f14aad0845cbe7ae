"""Weights of a C library: as C, or in a file beside it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.dtypes import DType

from ..memory.plan import LINE
from .interface import c_type

#: First bytes of a file of weights: name and version of the format, then size and checksum as little-endian words.
MAGIC: Final = b"TSWEIGHT\x01\x00\x00\x00\x00\x00\x00\x00"
HEAD: Final = 64
_NUMPY: Final[dict[str, Any]] = {"float": np.float32, "double": np.float64, "uint8_t": np.uint8, "uint16_t": np.uint16,
                 "uint32_t": np.uint32, "uint64_t": np.uint64, "int8_t": np.int8, "int16_t": np.int16,
                 "int32_t": np.int32, "int64_t": np.int64}


@dataclass(frozen=True, slots=True)
class Weight:
    """Contents that the library starts with.

    Attributes:
        block: Number of the block.
        dtype: Dtype of its elements.
        data: The bytes.
        offset: Its place among all weights, in bytes.
    """

    block: int
    dtype: DType
    data: bytes
    offset: int


def place_weights(blocks: Sequence[tuple[int, DType, bytes]]) -> tuple[list[Weight], int]:
    """Return the weights with their places, and the bytes of all."""
    found, total = [], 0
    for block, dtype, data in blocks:
        found.append(Weight(block, dtype, data, total))
        total += -(-len(data) // LINE) * LINE
    return found, total


def weight_file(weights: Sequence[Weight], total: int) -> bytes:
    """Return the file of weights."""
    body = bytearray(total)
    for x in weights:
        body[x.offset: x.offset + len(x.data)] = x.data
    words = total.to_bytes(8, "little") + checksum(bytes(body)).to_bytes(8, "little")
    return (MAGIC + words).ljust(HEAD, b"\0") + bytes(body)


def checksum(body: bytes) -> int:
    """Return the CRC-32 of the weights."""
    return zlib.crc32(body)


def weight_source(name: str, weights: Sequence[Weight]) -> str:
    """Return the weights as a C source."""
    lines = [f"/* Weights of the model {name}. */", "#include <math.h>", "#include <stdint.h>", ""]
    for x in weights:
        lines += [f"{declaration(name, x)};", f"{declaration(name, x, extern=False)} = {{",
                  *_rows(x), "};", ""]
    if not weights:
        lines.append(f"extern const int {name}_no_weights;\nconst int {name}_no_weights = 0;\n")
    return "\n".join(lines)


def declaration(name: str, weight: Weight, *, extern: bool = True) -> str:
    """Return the declaration of a weight's array."""
    count = max(len(weight.data) // np.dtype(_NUMPY[c_type(weight.dtype)]).itemsize, 1)
    return f"{'extern ' if extern else ''}const {c_type(weight.dtype)} {array_name(name, weight)}[{count}]"


def array_name(name: str, weight: Weight) -> str:
    """Return the name of a weight's array."""
    return f"{name}_weight_{weight.block}"


def _rows(weight: Weight) -> Iterator[str]:
    kind = _NUMPY[c_type(weight.dtype)]
    values = np.frombuffer(weight.data, kind).tolist() or [0]
    spell = _SPELLING.get(kind, str)
    for k in range(0, len(values), 8):
        yield "    " + ", ".join([spell(x) for x in values[k: k + 8]]) + ","


def _double(value: float) -> str:
    """Return a number exactly."""
    if value != value:
        return "NAN"
    if value in (float("inf"), float("-inf")):
        return "INFINITY" if value > 0 else "-INFINITY"
    return value.hex()


def _float(value: float) -> str:
    """Return a number of 32 bits exactly."""
    text = _double(value)
    return text if text[-1] in "NY" else f"{text}f"


def _int64(value: int) -> str:
    """Return an integer of 64 bits: the digits of the smallest one alone would be too large."""
    return f"{value}LL" if value > -(1 << 63) else f"({value + 1}LL - 1)"


def _uint64(value: int) -> str:
    """Return an unsigned integer of 64 bits."""
    return f"{value}ULL"


#: Literals by type, where ``str`` is not enough.
_SPELLING: Final[dict[Any, Callable[[Any], str]]] = {
    np.float32: _float, np.float64: _double, np.int64: _int64, np.uint64: _uint64}
