"""Nested Python values as JSON, with tensors by number. Nothing is imported or called by name when it is read.

``None``, booleans, strings, 64-bit integers, finite floats and lists are JSON's own. Everything else is an object
with one key that names its type: ``{"tuple": [...]}``, ``{"dict": [[key, value], ...]}``, ``{"tensor": 0}`` and so on.
"""

from __future__ import annotations

import base64
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from tensocket.errors import SerializationError
from tensocket_core import Size, Tensor, device
from tensocket_core import dtype as DType
from tensocket_plugins.contract.dtypes import BY_NAME

_INT64: Final = 1 << 63
#: Deeper structures are refused; Python's own recursion limit is not far above.
MAX_DEPTH: Final = 200


class Encoder:
    """Turns values into JSON values; ``place`` notes a tensor and returns its number."""

    def __init__(self, place: Callable[[Tensor], int]) -> None:
        self._place = place
        self._inside: set[int] = set()

    def encode(self, value: Any, where: str = "value") -> Any:
        """The JSON value for ``value``, which is called ``where`` in messages.

        Raises:
            SerializationError: It is, or contains, what a file cannot hold.
        """
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, Tensor):
            return {"tensor": self._place(value)}
        if isinstance(value, int):
            return int(value) if -_INT64 <= value < _INT64 else {"int": hex(value)}
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"float": repr(float(value))}
        if isinstance(value, complex):
            return {"complex": [self.encode(value.real), self.encode(value.imag)]}
        if isinstance(value, DType):
            return {"dtype": value.name}
        if isinstance(value, device):
            return {"device": str(value)}
        if isinstance(value, (bytes, bytearray)):
            return {"bytes": base64.b64encode(value).decode("ascii")}
        return self._encode_container(value, where)

    def _encode_container(self, value: Any, where: str) -> Any:
        if type(value) not in _CONTAINERS:
            raise SerializationError("save", f"{where} of type {type(value).__name__}", "a file holds numbers, "
                                     "strings, tensors, dtypes, devices, and lists, tuples and dicts of them",
                                     "save a state_dict(), or convert the value")
        if id(value) in self._inside or len(self._inside) >= MAX_DEPTH:
            raise SerializationError("save", f"{where}, which contains itself or is nested deeper than {MAX_DEPTH}",
                                     "a file holds trees of this depth", "break the cycle or flatten the value")
        self._inside.add(id(value))
        try:
            if isinstance(value, dict):
                items = [[self.encode(key, f"{where} key"), self.encode(item, f"{where}[{key!r}]")]
                         for key, item in value.items()]
            else:
                items = [self.encode(item, f"{where}[{k}]") for k, item in enumerate(value)]
        finally:
            self._inside.discard(id(value))
        kind = _CONTAINERS[type(value)]
        return items if kind == "list" else {kind: items}


_CONTAINERS: Final[dict[type, str]] = {
    list: "list", tuple: "tuple", dict: "dict", OrderedDict: "ordered", Size: "size", set: "set",
    frozenset: "frozenset",
}


class Decoder:
    """Turns JSON values back; ``take`` returns the tensor of a number."""

    def __init__(self, take: Callable[[Any], Tensor]) -> None:
        self._take = take

    def decode(self, node: Any, depth: int = 0) -> Any:
        """The value of a JSON value.

        Raises:
            ValueError: It was not written by ``Encoder``.
        """
        if node is None or isinstance(node, (bool, str, int, float)):
            return node
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")
        if isinstance(node, list):
            return [self.decode(item, depth + 1) for item in node]
        (kind, content), = node.items()
        if kind == "tensor":
            return self._take(content)
        if kind in _SIMPLE:
            return _SIMPLE[kind](content)
        if kind in ("dict", "ordered"):
            pairs = [(self.decode(key, depth + 1), self.decode(item, depth + 1)) for key, item in content]
            return OrderedDict(pairs) if kind == "ordered" else dict(pairs)
        if kind == "complex":
            real, imaginary = content
            return complex(self.decode(real), self.decode(imaginary))
        return _SEQUENCES[kind](self.decode(item, depth + 1) for item in content)


_SIMPLE: Final[dict[str, Callable[[Any], Any]]] = {
    "int": lambda text: int(text, 16),
    "float": float,
    "dtype": lambda name: BY_NAME[name],
    "device": device,
    "bytes": lambda text: base64.b64decode(text, validate=True),
}
_SEQUENCES: Final[dict[str, Callable[[Any], Any]]] = {"tuple": tuple, "size": Size, "set": set, "frozenset": frozenset}
