"""Annotations as types of scripts."""

from __future__ import annotations

import ast
import collections
import enum
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: UP035  what programs import

from tensocket.jit.frontend import Place, ScriptError
from tensocket.jit.graph import script_types as t
from tensocket_operators import Tensor
from tensocket_plugins.contract.devices import Device
from tensocket_plugins.contract.dtypes import DType

Lookup = Callable[[str], Any]


class _Broadcasting:
    """The annotation of a list whose one element may be passed for all."""

    def __init__(self, count: int, element: Any = None) -> None:
        self.count = count
        self.element = element

    def __getitem__(self, element: Any) -> _Broadcasting:
        return _Broadcasting(self.count, element)


BroadcastingList1: Any = _Broadcasting(1)
BroadcastingList2: Any = _Broadcasting(2)
BroadcastingList3: Any = _Broadcasting(3)


class Module:
    """A namespace with named members, for the resolution of names.

    Args:
        name: Its name.
        members: The members.
    """

    def __init__(self, name: str, members: dict[str, Any]) -> None:
        self.name = name
        self.members = members

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self.members[name]
        except KeyError:
            raise RuntimeError(f"Module {self.name} has no member called {name}") from None


_SIMPLE: Final[dict[Any, t.JitType]] = {
    int: t.INT, float: t.FLOAT, bool: t.BOOL, complex: t.COMPLEX, str: t.STRING, None: t.NONE, type(None): t.NONE,
    Any: t.ANY, Tensor: t.TENSOR, DType: t.DTYPE, Device: t.DEVICE, list: t.ANY_LIST,
    tuple: t.ANY_TUPLE, typing.NoReturn: t.NEVER,
}
#: Names that annotations of files and strings may use without an import.
_NAMES: Final[dict[str, Any]] = {
    "Tensor": Tensor, "int": int, "float": float, "bool": bool, "complex": complex, "str": str, "None": None,
    "NoneType": type(None), "Any": Any, "List": list, "Dict": dict, "Tuple": tuple, "Optional": typing.Optional,
    "Union": typing.Union, "list": list, "dict": dict, "tuple": tuple, "Device": Device,
    "number": t.NUMBER, "Final": typing.Final, "NoReturn": typing.NoReturn, "BroadcastingList1": BroadcastingList1,
    "BroadcastingList2": BroadcastingList2, "BroadcastingList3": BroadcastingList3, "Layout": t.LAYOUT,
    "Generator": t.GENERATOR, "Stream": t.STREAM, "Function": t.ANY,
}


_FIRST: Final = len(_SIMPLE)


def simple_types() -> dict[Any, t.JitType]:
    """Return the types of classes that have no parts."""
    if len(_SIMPLE) == _FIRST:
        import tensocket

        _SIMPLE.update({tensocket.Tensor: t.TENSOR, tensocket.nn.Parameter: t.TENSOR, tensocket.device: t.DEVICE,
                        tensocket.dtype: t.DTYPE, tensocket.layout: t.LAYOUT, tensocket.Generator: t.GENERATOR,
                        tensocket.memory_format: t.MEMORY_FORMAT})
    return _SIMPLE


def unknown_type(what: str, place: Place | None) -> ScriptError:
    """Return the error for an annotation that is not a type of scripts."""
    return ScriptError(f"Unknown type name or unsupported type annotation {what}", "annotations are Tensor, numbers, "
                       "str, device, containers of these, classes and modules that are scripts",
                       "use one of these", place)


def from_tree(node: ast.AST, lookup: Lookup, place: Place | None = None) -> t.JitType:
    """Return the type that an annotation's syntax tree states, with names looked up by a function.

    Raises:
        ScriptError: The annotation is not a type of scripts.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            return from_tree(ast.parse(node.value.strip(), mode="eval").body, lookup, place)
        except SyntaxError:
            raise unknown_type(repr(node.value), place) from None
    if isinstance(node, ast.Tuple):
        return t.TupleType([from_tree(each, lookup, place) for each in node.elts])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return t.union_of([from_tree(node.left, lookup, place), from_tree(node.right, lookup, place)])
    if isinstance(node, ast.Subscript):
        head = _object(node.value, lookup, place)
        inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if isinstance(node.slice, ast.Tuple) and not inside:
            return t.TupleType([])
        if any(isinstance(each, ast.Constant) and each.value is ... for each in inside):
            raise unknown_type(ast.unparse(node), place)
        return _generic(head, [from_tree(each, lookup, place) for each in inside], ast.unparse(node), place)
    return from_python(_object(node, lookup, place), place)


def _object(node: ast.AST, lookup: Lookup, place: Place | None) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Attribute):
        owner = _object(node.value, lookup, place)
        try:
            return getattr(owner, node.attr)
        except (AttributeError, RuntimeError):
            raise unknown_type(repr(ast.unparse(node)), place) from None
    if not isinstance(node, ast.Name):
        raise unknown_type(repr(ast.unparse(node)), place)
    try:
        return lookup(node.id)
    except KeyError:
        if node.id in _NAMES:
            return _NAMES[node.id]
        if node.id == "torch":
            import tensocket

            return tensocket
        raise unknown_type(repr(node.id), place) from None


def _generic(head: Any, parts: list[t.JitType], text: str, place: Place | None) -> t.JitType:
    """Return the type of a generic and its parameters."""
    from tensocket.futures import Future as EagerFuture
    from tensocket.jit.asynchronous import Await, Future

    if isinstance(head, _Broadcasting):
        return t.ListType(parts[0], head.count)
    if head in (list, typing.List) and len(parts) == 1:  # noqa: UP006
        return t.ListType(parts[0])
    if head in (dict, typing.Dict, collections.OrderedDict, typing.OrderedDict) and len(parts) == 2:  # noqa: UP006
        if parts[0] not in (t.INT, t.FLOAT, t.STRING, t.TENSOR, t.BOOL, t.COMPLEX, t.DEVICE, t.DTYPE, t.ANY) \
                and not isinstance(parts[0], t.EnumType):
            raise unknown_type(f"{text}: Cannot create dict for key type '{parts[0]}'", place)
        return t.DictType(*parts)
    if head in (tuple, typing.Tuple):  # noqa: UP006
        return t.TupleType(parts)
    if head is typing.Optional and len(parts) == 1:
        return t.optional(parts[0])
    if head is typing.Union:
        return t.union_of(parts)
    if head in (typing.Final, typing.ClassVar) and len(parts) == 1:
        return parts[0]
    if head in (Future, EagerFuture) and len(parts) == 1:
        return t.FutureType(parts[0])
    if head is Await and len(parts) == 1:
        return t.AwaitType(parts[0])
    raise unknown_type(text, place)


def from_python(annotation: Any, place: Place | None = None) -> t.JitType:
    """Return the type that an annotation means.

    Raises:
        ScriptError: It is not a type of scripts.
    """
    if isinstance(annotation, t.JitType):
        return annotation
    try:
        simple = simple_types().get(annotation)
    except TypeError:
        simple = None
    if simple is not None:
        return simple
    if isinstance(annotation, str):
        return from_tree(ast.Constant(annotation), _no_name, place)
    if isinstance(annotation, _Broadcasting):
        return t.ListType(from_python(annotation.element, place), annotation.count)
    origin = typing.get_origin(annotation)
    if origin is not None:
        arguments = typing.get_args(annotation)
        if origin is types.UnionType:
            origin = typing.Union
        if origin is tuple and (not arguments or arguments == ((),)):
            return t.TupleType([])
        if ... in arguments:
            raise unknown_type(repr(annotation), place)
        return _generic(origin, [from_python(each, place) for each in arguments], repr(annotation), place)
    if isinstance(annotation, type):
        return from_class(annotation, place)
    raise unknown_type(repr(annotation), place)


def _no_name(name: str) -> Any:
    raise KeyError(name)


def is_named_tuple(kind: Any) -> bool:
    """Whether a class is that of named tuples."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def from_class(kind: type, place: Place | None = None) -> t.JitType:
    """Return the type of the instances of a class, which is compiled now if it was not.

    Raises:
        ScriptError: Instances cannot be values of scripts.
    """
    from tensocket.jit.compiler import classes
    from tensocket.jit.modules import script_type_of

    if is_named_tuple(kind):
        return named_tuple(kind, place)
    if issubclass(kind, enum.Enum):
        return enum_type(kind, place)
    if issubclass(kind, Tensor):
        return t.TENSOR
    known = script_type_of(kind)
    if known is not None:
        return known
    if kind in (dict, typing.Dict):  # noqa: UP006
        raise unknown_type("Dict without types of keys and values", place)
    return classes.compile_class(kind, place)


_NAMED_TUPLES: Final[dict[type, t.TupleType]] = {}


def qualified(thing: Any) -> str:
    """Return the name of a class or function in printed code."""
    module = str(getattr(thing, "__module__", "") or "")
    name = getattr(thing, "__qualname__", getattr(thing, "__name__", type(thing).__name__))
    name = name.replace("<locals>.", "").replace("<lambda>", "_lambda")
    module = "torch" + module.removeprefix("tensocket") if module.partition(".")[0] == "tensocket" else module
    module = "__torch__" if module in ("__main__", "") else f"__torch__.{module}"
    return f"{module}.{name}"


def named_tuple(kind: Any, place: Place | None = None) -> t.TupleType:
    """Return the type of a class of named tuples."""
    known = _NAMED_TUPLES.get(kind)
    if known is None:
        hints = _hints(kind)
        items = [from_python(hints[name], place) if name in hints else t.TENSOR for name in kind._fields]
        known = _NAMED_TUPLES[kind] = t.TupleType(items, kind, qualified(kind), kind._fields,
                                                  dict(kind._field_defaults))
    return known


def _hints(kind: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind)
    except Exception:
        return dict(inspect.get_annotations(kind))


def enum_type(kind: Any, place: Place | None = None) -> t.EnumType:
    """Return the type of an enumeration's members.

    Raises:
        ScriptError: The members' values are not of one type.
    """
    kinds = {from_value(member.value) for member in kind}
    if len(kinds) != 1 or None in kinds or not kinds <= {t.INT, t.FLOAT, t.STRING}:
        raise ScriptError(f"Could not unify type list: Enum {kind.__name__} has values of types "
                          f"{sorted(str(k) for k in kinds)}", "the members' values are all int, all float or all str",
                          "give the members values of one of these types", place)
    return t.EnumType(kind, kinds.pop(), qualified(kind))  # type: ignore[arg-type]


def from_value(value: Any) -> t.JitType | None:
    """Return the type of a Python value; None if it is of no type of scripts."""
    if value is None:
        return t.NONE
    simple = simple_types().get(type(value))
    if simple is not None and simple not in (t.ANY_LIST, t.ANY_TUPLE):
        return simple
    if isinstance(value, Tensor):
        return t.TENSOR
    if isinstance(value, tuple):
        if hasattr(value, "_fields"):
            return named_tuple(type(value))
        parts = [from_value(each) for each in value]
        return None if None in parts else t.TupleType(parts)  # type: ignore[arg-type]
    if isinstance(value, list):
        return _container([value], lambda kinds: t.ListType(kinds[0]))
    if isinstance(value, dict):
        return _container([list(value), list(value.values())], lambda kinds: t.DictType(*kinds))
    if isinstance(value, enum.Enum):
        return enum_type(type(value))
    if isinstance(value, (int, float, complex, str)):
        return next(simple_types()[k] for k in (bool, int, float, complex, str) if isinstance(value, k))
    return _of_object(value)


def _of_object(value: Any) -> t.JitType | None:
    from tensocket.jit.asynchronous import Await, Future
    from tensocket.jit.compiler.classes import ScriptObject, class_of_instance
    from tensocket.jit.modules import ScriptModule

    if isinstance(value, ScriptModule):
        return value._type
    if isinstance(value, ScriptObject):
        return value._type
    if isinstance(value, (Await, Future)):
        inside = from_value(value.peek())
        kind = t.AwaitType if isinstance(value, Await) else t.FutureType
        return None if inside is None else kind(inside)
    return class_of_instance(type(value))


def _container(groups: list[list[Any]], make: Callable[[list[t.JitType]], t.JitType]) -> t.JitType | None:
    kinds: list[t.JitType] = []
    for group in groups:
        if not group:
            return None
        parts = [from_value(each) for each in group]
        found = None if None in parts else t.unify_all(parts)  # type: ignore[arg-type]
        if found is None:
            return None
        kinds.append(found)
    return make(kinds)


def ann_to_type(ann: Any, loc: Any = None) -> t.JitType:
    """Return the type that an annotation means."""
    return from_python(ann)


def try_ann_to_type(ann: Any, loc: Any = None, rcb: Any = None) -> t.JitType | None:
    """Return the type that an annotation means, or None if it is not one of scripts."""
    if ann is inspect.Signature.empty:
        return t.TENSOR
    try:
        return from_python(ann)
    except ScriptError:
        return None


__all__ = ["Any", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Dict", "List", "Module", "Optional",
           "Tuple", "Union", "ann_to_type", "from_class", "from_python", "from_tree", "from_value", "named_tuple",
           "qualified", "try_ann_to_type"]
