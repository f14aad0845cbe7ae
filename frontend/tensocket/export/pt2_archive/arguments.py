"""Arguments of nodes as JSON, each a dict of one entry whose key tells its kind.

Kinds are those of PyTorch. Four more hold the arguments that its files cannot: ``as_tuple`` and ``as_items`` (a list of
anything), ``as_slice`` and ``as_ellipsis``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from tensocket.errors import SerializationError
from tensocket.fx.node import Node
from tensocket_core import device as Device
from tensocket_core.formats import layout as Layout
from tensocket_core.formats import memory_format as MemoryFormat
from tensocket_plugins.contract.dtypes import DType

from ..values import TensorValue
from .constants import (
    CODE_OF_DTYPE,
    CODE_OF_FORMAT,
    CODE_OF_LAYOUT,
    DTYPE_OF_CODE,
    FORMAT_OF_CODE,
    LAYOUT_OF_CODE,
)

Json = dict[str, Any]
_INFINITE: Final = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
#: The kind of a list whose items are all of one kind.
_LISTS: Final = {"as_int": "as_ints", "as_float": "as_floats", "as_bool": "as_bools", "as_string": "as_strings"}


# ------------------------------------------------------------------------------------------------------------- writing


def write_float(value: float) -> float | str:
    """Return a float as JSON holds it: infinities and NaN as text."""
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def write_device(device: Any) -> Json:
    """Return a device as JSON."""
    return {"type": device.type, "index": device.index}


def write_node(node: Node) -> Json:
    """Return the name of a node as JSON, by the kind of its value."""
    value = node.meta.get("val")
    if isinstance(value, bool):
        return {"as_sym_bool": {"as_name": node.name}}
    if isinstance(value, int):
        return {"as_sym_int": {"as_name": node.name}}
    if isinstance(value, float):
        return {"as_sym_float": {"as_name": node.name}}
    return {"as_tensor": {"name": node.name}}


def write_argument(value: Any) -> Json:
    """Return an argument as JSON.

    Raises:
        SerializationError: No kind fits it.
    """
    if isinstance(value, Node):
        return write_node(value)
    if isinstance(value, list):
        return _write_list(value)
    if isinstance(value, tuple):
        return {"as_tuple": [write_argument(x) for x in value]}
    if isinstance(value, slice):
        return {"as_slice": [write_argument(x) for x in (value.start, value.stop, value.step)]}
    if isinstance(value, dict) and all(isinstance(k, str) for k in value):
        return {"as_string_to_argument": {k: write_argument(x) for k, x in value.items()}}
    return _write_constant(value)


def _write_constant(value: Any) -> Json:
    if value is None:
        return {"as_none": True}
    if value is ...:
        return {"as_ellipsis": True}
    if isinstance(value, complex):
        return {"as_complex": {"real": write_float(value.real), "imag": write_float(value.imag)}}
    for kind, name, convert in _CONSTANTS:
        if isinstance(value, kind):
            return {name: convert(value)}
    raise SerializationError("export.save", f"an argument of type {type(value).__name__}", "arguments in files are "
                             "tensors, numbers, texts, dtypes, devices, layouts, and containers of these",
                             "leave the object out of the exported program")


_CONSTANTS: Final[tuple[tuple[type, str, Callable[[Any], Any]], ...]] = (
    (bool, "as_bool", bool), (int, "as_int", int.__index__), (float, "as_float", write_float), (str, "as_string", str),
    (DType, "as_scalar_type", CODE_OF_DTYPE.__getitem__), (Device, "as_device", write_device),
    (MemoryFormat, "as_memory_format", CODE_OF_FORMAT.__getitem__), (Layout, "as_layout", CODE_OF_LAYOUT.__getitem__))


def _write_list(values: list[Any]) -> Json:
    """Return a list by the kind that its items share."""
    items = [write_argument(x) for x in values]
    kinds = {next(iter(item)) for item in items}
    contents = [next(iter(item.values())) for item in items]
    if not items:
        return {"as_ints": []}
    if len(kinds) == 1 and (kind := next(iter(kinds))) in _LISTS:
        return {_LISTS[kind]: contents}
    if kinds == {"as_tensor"}:
        return {"as_tensors": contents}
    if kinds == {"as_tensor", "as_none"}:
        return {"as_optional_tensors": items}
    if kinds <= {"as_sym_int", "as_int"}:
        return {"as_sym_ints": [x if kind == "as_sym_int" else {kind: x}
                                for item in items for kind, x in item.items()]}
    return {"as_items": items}


# ------------------------------------------------------------------------------------------------------------- reading


def read_float(value: Any) -> float:
    """Return the float of a JSON value.

    Raises:
        ValueError: It is not one.
    """
    if isinstance(value, str):
        return _INFINITE[value]
    if type(value) not in (int, float):
        raise ValueError(f"a {type(value).__name__} in place of a number")
    return float(value)


def read_device(value: Json) -> Any:
    """Return the device of a JSON value."""
    index = value.get("index")
    if type(value["type"]) is not str or type(index) not in (int, type(None)):
        raise ValueError("a device has a type and an index")
    return Device(value["type"] if index is None else f"{value['type']}:{index}")


def entry_of(value: Json) -> tuple[str, Any]:
    """Return the kind and content of a JSON value with one kind.

    Raises:
        ValueError: It has none, or several.
    """
    given = [(kind, content) for kind, content in value.items() if content is not None]
    if len(given) != 1:
        raise ValueError(f"{len(given)} kinds of one value")
    return given[0]


def read_argument(value: Json, node_of: Callable[[str], Any]) -> Any:
    """Return the argument of a JSON value.

    Args:
        value: The JSON value.
        node_of: Returns the node with a name.

    Raises:
        ValueError: It is not an argument.
        SerializationError: Its kind is not supported.
    """
    kind, content = entry_of(value)
    if kind in _NAMED:
        return node_of(content["name"])
    if kind in _SYMBOLIC:
        return _symbolic(content, node_of)
    if kind in ("as_tensors", "as_nested_tensors"):
        return [node_of(x["name"]) if isinstance(x, dict) else [node_of(y["name"]) for y in x] for x in content]
    if kind in ("as_sym_ints", "as_sym_floats", "as_sym_bools"):
        return [_symbolic(x, node_of) for x in content]
    if kind in ("as_optional_tensors", "as_items"):
        return [read_argument(x, node_of) for x in content]
    if kind == "as_tuple":
        return tuple([read_argument(x, node_of) for x in content])
    if kind == "as_slice":
        start, stop, step = [read_argument(x, node_of) for x in content]
        return slice(start, stop, step)
    if kind == "as_optional_tensor":
        return read_argument(content, node_of)
    if kind == "as_string_to_argument":
        return {str(k): read_argument(x, node_of) for k, x in content.items()}
    return _read_constant(kind, content)


_NAMED: Final = frozenset({"as_tensor", "as_token"})
_SYMBOLIC: Final = frozenset({"as_sym_int", "as_sym_float", "as_sym_bool"})


def _symbolic(value: Json, node_of: Callable[[str], Any]) -> Any:
    kind, content = entry_of(value)
    return node_of(content) if kind == "as_name" else _read_constant(kind, content)


def _read_constant(kind: str, content: Any) -> Any:
    read = _READERS.get(kind)
    if read is None:
        raise SerializationError("export.load", f"an argument of kind {kind!r}", f"kinds are {', '.join(_READERS)}, "
                                 "and lists of these", "export the program without objects of its own classes")
    return read(content)


def _typed(kind: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(f"a {type(value).__name__} in place of a {kind.__name__}")
        return value

    return read


def _listed(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda values: [read(x) for x in values]


def _read_operator(name: Any) -> Any:
    from .targets import target_of_name

    return target_of_name(_typed(str)(name))


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "as_none": lambda _: None, "as_ellipsis": lambda _: ..., "as_int": _typed(int), "as_float": read_float,
    "as_bool": _typed(bool), "as_string": _typed(str), "as_ints": _listed(_typed(int)),
    "as_floats": _listed(read_float), "as_bools": _listed(_typed(bool)), "as_strings": _listed(_typed(str)),
    "as_int_lists": _listed(_listed(_typed(int))), "as_float_lists": _listed(_listed(read_float)),
    "as_scalar_type": DTYPE_OF_CODE.__getitem__, "as_layout": LAYOUT_OF_CODE.__getitem__,
    "as_memory_format": FORMAT_OF_CODE.__getitem__, "as_device": read_device, "as_operator": _read_operator,
    "as_complex": lambda x: complex(read_float(x["real"]), read_float(x["imag"]))}


# -------------------------------------------------------------------------------------------------------------- tensors


def write_size(value: int, text: str | None = None) -> Json:
    """Return a size as JSON; with a text, one that changes, whose example is the value."""
    if text is None:
        return {"as_int": int(value)}
    return {"as_expr": {"expr_str": text, "hint": {"as_int": int(value)}}}


def write_tensor(value: TensorValue, texts: list[str | None]) -> Json:
    """Return the form of a tensor as JSON.

    Args:
        value: The form.
        texts: The expression of each size; None for sizes that do not change.
    """
    return {"dtype": CODE_OF_DTYPE[value.dtype], "sizes": [write_size(n, t) for n, t in zip(value.shape, texts,
                                                                                          strict=True)],
            "requires_grad": value.requires_grad, "device": write_device(value.device),
            "strides": [{"as_int": n} for n in value.stride()], "storage_offset": {"as_int": 0},
            "layout": CODE_OF_LAYOUT[value.layout]}
