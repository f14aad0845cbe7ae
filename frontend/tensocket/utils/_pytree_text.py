"""Tree structures as text: JSON with a version, class names and contexts."""

from __future__ import annotations

import json
from enum import Enum
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from tensocket_core.pytree import LEAF, TreeSpec
from tensocket_core.pytree_nodes import NO_NAME, SERIALIZED, TYPE_OF_NAME
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, UnsupportedOperator

DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL: Final = 1


class EnumEncoder(json.JSONEncoder):
    """A JSON encoder that writes members of enumerations by the name of their class and their own name."""

    def default(self, obj: object) -> Any:
        """Return a substitute for an object that JSON cannot encode."""
        if isinstance(obj, Enum):
            kind = type(obj)
            return {"__enum__": True, "fqn": f"{kind.__module__}:{kind.__qualname__}", "name": obj.name}
        return super().default(obj)


def enum_object_hook(obj: dict[str, Any]) -> Any:
    """Return the member of an enumeration that a dict describes; return other dicts unchanged."""
    if "__enum__" not in obj:
        return obj
    module, _, path = obj["fqn"].partition(":")
    found: Any = import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found[obj["name"]]


def _dump(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    known = SERIALIZED.get(spec.type)
    if known is None or known.serialized_type_name == NO_NAME:
        raise UnsupportedOperator("treespec_dumps", f"{spec.type}", "No registered serialization name for it found",
                                  "pass serialized_type_name= to register_pytree_node")
    if known.to_dumpable_context is not None:
        context = known.to_dumpable_context(spec.context)
    else:
        try:
            context = json.dumps(spec.context, cls=EnumEncoder)
        except TypeError as error:
            raise ArgumentTypeError("treespec_dumps", f"the context of a {spec.type}",
                                    "Unable to serialize context: JSON does not express it",
                                    "pass to_dumpable_context= to register_pytree_node") from error
    return {"type": known.serialized_type_name, "context": context,
            "children_spec": [_dump(child) for child in spec.children()]}


def _load(text: dict[str, Any]) -> TreeSpec:
    if text["type"] is None and text["context"] is None and not text["children_spec"]:
        return LEAF
    if text["type"] not in TYPE_OF_NAME:
        raise UnsupportedOperator("treespec_loads", f"{text['type']!r}", "Deserializing it in pytree is not registered",
                                  "register the class with its serialized_type_name first")
    kind = TYPE_OF_NAME[text["type"]]
    load = SERIALIZED[kind].from_dumpable_context
    context = json.loads(text["context"], object_hook=enum_object_hook) if load is None else load(text["context"])
    return TreeSpec(kind, context, [_load(child) for child in text["children_spec"]])


def _check(operator: str, protocol: Any) -> None:
    if protocol != DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL:
        raise ArgumentError(operator, f"Unknown protocol {protocol}", "Available protocols: [1]", "use protocol 1")


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """Return a structure as text.

    Args:
        treespec: The structure.
        protocol: Version of the text; 1 is the only one.

    Raises:
        ArgumentTypeError: ``treespec`` is not a structure, or JSON cannot express a context.
        ArgumentError: The version is unknown.
        UnsupportedOperator: A class was registered without a name.
    """
    if not isinstance(treespec, TreeSpec):
        raise ArgumentTypeError("treespec_dumps", f"a {type(treespec).__name__}",
                                "Expected `treespec` to be an instance of TreeSpec", "pass what tree_structure returns")
    chosen = DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL if protocol is None else protocol
    _check("treespec_dumps", chosen)
    return json.dumps((chosen, _dump(treespec)), cls=EnumEncoder)


@lru_cache
def treespec_loads(serialized: str) -> TreeSpec:
    """Return the structure of a text by ``treespec_dumps``.

    Raises:
        ArgumentError: The version is unknown.
        UnsupportedOperator: A class was not registered.
    """
    protocol, text = json.loads(serialized)
    _check("treespec_loads", protocol)
    return _load(text)


__all__ = ["DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL", "EnumEncoder", "enum_object_hook", "treespec_dumps",
           "treespec_loads"]
