"""Methods that ``dataclasses`` generates, as text that the compiler reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tensocket.jit.annotations import from_python, from_tree
from tensocket.jit.compiler.compilation import compile_tree
from tensocket.jit.frontend import Place, ScriptError, Source, definition, place_of
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.functions import CompiledFunction, FunctionSchema

_ORDER = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}


def add_methods(kind: t.ClassType, python: Any, resolve: Callable[[str], Any]) -> None:
    """Compile ``__init__``, ``__eq__`` and comparisons of a dataclass that it does not define itself.

    Raises:
        ScriptError: A field has a default factory.
    """
    fields = dataclasses.fields(python)
    for field in fields:
        if field.default_factory is not dataclasses.MISSING:
            raise ScriptError(f"the field {field.name} of {python.__name__}", "Default factory initializers are not "
                              "supported "
                              "in TorchScript dataclasses", "pass the value")
        kind.attributes[field.name] = _type(field.type, resolve)
    options = python.__dataclass_params__
    texts: dict[str, str] = {}
    if options.init:
        texts["__init__"] = _init(python, fields)
    if options.eq and _is_generated(python, "__eq__"):
        parts = " and ".join(f"self.{f.name} == other.{f.name}" for f in fields if f.compare) or "True"
        texts["__eq__"] = f"def __eq__(self, other: {python.__name__}) -> bool:\n    return {parts}\n"
    if options.order:
        for name, sign in _ORDER.items():
            texts[name] = _comparison(python, fields, name, sign)
    for name, text in texts.items():
        _compile(kind, name, text, resolve, python)


def _is_generated(python: Any, name: str) -> bool:
    return getattr(vars(python).get(name), "__qualname__", "").startswith("__create_fn__") or (
        getattr(getattr(vars(python).get(name), "__code__", None), "co_filename", "") == "<string>")


def _type(annotation: Any, resolve: Callable[[str], Any]) -> t.JitType:
    import ast

    return from_tree(ast.Constant(annotation), resolve) if isinstance(annotation, str) else from_python(annotation)


def _init(python: Any, fields: Any) -> str:
    arguments, lines = ["self"], []
    for field in fields:
        if field.init:
            default = "" if field.default is dataclasses.MISSING else f" = {field.default!r}"
            arguments.append(f"{field.name}{default}")
            lines.append(f"    self.{field.name} = {field.name}")
    if "__post_init__" in vars(python):
        lines.append("    self.__post_init__()")
    return f"def __init__({', '.join(arguments)}):\n" + "\n".join(lines or ["    pass"]) + "\n"


def _comparison(python: Any, fields: Any, name: str, sign: str) -> str:
    lines = [f"def {name}(self, other: {python.__name__}) -> bool:"]
    for field in fields:
        if field.compare:
            lines += [f"    if self.{field.name} != other.{field.name}:",
                      f"        return self.{field.name} {sign[0]} other.{field.name}"]
    return "\n".join([*lines, f"    return {'=' in sign}"]) + "\n"


def _compile(kind: t.ClassType, name: str, text: str, resolve: Callable[[str], Any], python: Any) -> None:
    source = Source(text, f"<dataclass {python.__name__}>", name=name)
    tree = definition(source)
    made = CompiledFunction(name, f"{kind.name}.{name}", FunctionSchema(name, [], t.NEVER), owner=kind, source=source,
                            python=None)
    kind.methods[name] = made
    if name == "__init__":
        made.python = _Annotated({f.name: kind.attributes[f.name] for f in dataclasses.fields(python)})
    try:
        compile_tree(made, tree, source, resolve, made.python)
    except RuntimeError as error:
        place: Place = place_of(source, tree)
        raise ScriptError(f"{name} of the dataclass {python.__name__}", str(error), "define the method in the class",
                          place) from error


class _Annotated:
    """Types of arguments, in the place of a Python function."""

    def __init__(self, annotations: dict[str, Any]) -> None:
        self.__annotations__ = annotations
