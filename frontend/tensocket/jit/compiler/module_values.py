"""Modules and instances of scripted classes in scripts."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from tensocket.jit.compiler.sugared import BoundMethod, SugaredDict, SugaredTuple
from tensocket.jit.frontend import Place, ScriptError
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.ir import Value

if TYPE_CHECKING:
    from tensocket.jit.compiler.compiler import Compiler


class ModuleValues:
    """The compiler's methods for objects with attributes."""

    def object_attribute(self: Compiler, owner: Value, name: str, place: Place) -> Any:
        """Return an attribute, constant, property or method of an object.

        Raises:
            ScriptError: There is none.
        """
        kind = owner.kind
        assert isinstance(kind, t.ClassType)
        if name in kind.attributes:
            return self.node("prim::GetAttr", [owner], kind.attributes[name], place, name, name=name)
        if name in kind.constants:
            return self.wrap(kind.constants[name], place, name)
        if name in kind.properties:
            return self.call_object(owner, kind.properties[name][0], [], {}, place)
        special = None if kind.details is None else kind.details.attribute(self, owner, name, place)
        if special is not None:
            return special
        method = kind.method(name)
        if method is not None:
            from tensocket.jit.compiler.sugared import FunctionValue

            return FunctionValue(method) if method.is_static else BoundMethod(owner, name)
        reason = "" if kind.details is None else kind.details.why_missing(name)
        what = "Module" if kind.is_module else "Tried to access nonexistent attribute or method:"
        raise ScriptError(f"{what} '{kind.name.rpartition('.')[2]}' has no attribute '{name}'{reason}",
                          "scripts use attributes that instances have after __init__, of types of scripts",
                          "assign it in __init__, or annotate its type", place)

    def call_module(self: Compiler, owner: Value, arguments: list[Any], keywords: dict[str, Any], place: Place) -> Any:
        """Call a module: its ``forward`` between its hooks."""
        kind = owner.kind
        assert isinstance(kind, t.ClassType)
        if kind.details is not None and kind.details.hooks:
            return kind.details.call_with_hooks(self, owner, arguments, keywords, place)
        return self.call_object(owner, "forward", arguments, keywords, place)

    def call_object(self: Compiler, owner: Value, name: str, arguments: list[Any], keywords: dict[str, Any],
                    place: Place) -> Any:
        """Call a method of an object.

        Raises:
            ScriptError: There is none.
        """
        kind = owner.kind
        assert isinstance(kind, t.ClassType)
        if kind.details is not None:
            special = kind.details.attribute(self, owner, name, place)
            if special is not None:
                return special.call(self, place, arguments, keywords)
        method = kind.method(name)
        if method is None:
            return self.object_attribute(owner, name, place).call(self, place, arguments, keywords)
        if method.graph is None and method.schema.result is t.NEVER:
            raise ScriptError(f"method '{name}' is called recursively", "Recursive calls are not supported: the "
                              "result's "
                              "type is not known yet", "annotate the result, or use a loop", place)
        return self.call_compiled(method, arguments, keywords, place, None if method.is_static else owner)

    def set_attribute(self: Compiler, owner: Value, name: str, thing: Any, declared: t.JitType | None, place: Place
                      ) -> None:
        """Assign an attribute.

        Raises:
            ScriptError: There is no such attribute, or it has another type.
        """
        kind = owner.kind
        assert isinstance(kind, t.ClassType)
        value = self.value(thing, place)
        if name not in kind.attributes and kind.details is None and self.function.name == "__init__":
            if self.scope.parent is not None:
                raise ScriptError(f"self.{name} in a branch or loop", "attributes are defined by assignments that "
                                  "always run: "
                                  "assignment cannot be in a control-flow block", "assign it before", place)
            kind.attributes[name] = declared or value.kind
        setter = kind.properties.get(name, ("", None))[1]
        if setter:
            self.call_object(owner, setter, [value], {}, place)
            return
        wanted = kind.attributes.get(name)
        if wanted is None:
            rule = "constants cannot be assigned" if name in kind.constants else (
                "only attributes that __init__ assigns exist")
            raise ScriptError(f"Tried to set nonexistent attribute: {name}. Did you forget to initialize it in "
                              "__init__()?", rule, "assign it in __init__", place)
        value = self.convert(value, wanted, place)
        if not t.is_subtype(value.kind, wanted):
            raise ScriptError(f"Wrong type for attribute assignment. Expected {wanted.annotation_str} but got "
                              f"{value.kind.annotation_str}", "an attribute keeps its type", "annotate the attribute",
                              place)
        self.add("prim::SetAttr", [owner, value], place, name=name)

    def defining_class(self: Compiler) -> Any:
        """Return the Python class that defines the method which is compiled."""
        python, kind = self.function.python, self.function.owner
        classes = [] if kind is None or kind.python is None else kind.python.__mro__
        for base in classes:
            for member in vars(base).values():
                if getattr(member, "__func__", member) is python:
                    return base
        return None

    # ---- containers

    def module_items(self: Compiler, owner: Value, place: Place) -> list[Any] | None:
        """Return the parts of a container of modules or parameters.

        Raises:
            ScriptError: The module is not a container.
        """
        details = getattr(owner.kind, "details", None)
        if details is None or not details.container:
            raise ScriptError(f"module '{owner.kind}' in a loop", "'module' object is not iterable: only ModuleList, "
                              "Sequential, ModuleDict and lists of parameters are", "use one of these", place)
        if details.container == "dict":
            return [self.constant(name, t.STRING, place) for name in details.names]
        return [self.object_attribute(owner, name, place) for name in details.names]

    def names_of(self: Compiler, owner: Value) -> list[str] | None:
        """Return the keys of a container with names, None for others."""
        details = getattr(owner.kind, "details", None)
        return list(details.names) if details is not None and details.container == "dict" else None

    def container_item(self: Compiler, owner: Value, index: ast.expr, place: Place) -> Any:
        """Return a part of a container.

        Raises:
            ScriptError: The index is not known, or there is no such part.
        """
        details = owner.kind.details  # type: ignore[attr-defined]
        if details.container == "dict":
            key = self.value(self.expression(index), place)
            if key.toIValue() is None:
                return self._by_interface(owner, key, details, place)
            if key.toIValue() not in details.names:
                raise ScriptError(f"key {key.toIValue()!r}", f"Key Error, {key.toIValue()}: there is none", "use one "
                                  "of "
                                  f"{list(details.names)}", place)
            return self.object_attribute(owner, key.toIValue(), place)
        parts = self.module_items(owner, place) or []
        if not isinstance(index, ast.Slice):
            value = self.value(self.expression(index), place)
            if value.toIValue() is None and value.kind is t.INT:
                return self._by_interface(owner, value, details, place)
        return self._of_known(parts, index, place)

    def _by_interface(self: Compiler, owner: Value, index: Value, details: Any, place: Place) -> Value:
        kinds = {details.kinds[name] for name in details.names}
        if len(kinds) != 1:
            raise ScriptError("an index of modules of several types", "Unable to extract string literal index: an "
                              "index "
                              "that is not a constant needs modules of one type, or an annotated interface",
                              "use a number, or loop over the modules", place)
        return self.node("prim::ModuleContainerIndex", [owner, index], kinds.pop(), place)

    # ---- making instances

    def construct(self: Compiler, kind: t.JitType, arguments: list[Any], keywords: dict[str, Any],
                  place: Place) -> Value:
        """Make an instance of a scripted class or of named tuples."""
        if isinstance(kind, t.TupleType):
            from tensocket.jit.graph.functions import MISSING, Argument, FunctionSchema

            schema = FunctionSchema(kind.qualified, [Argument(name, item, kind.defaults.get(name, MISSING))
                                                     for name, item in zip(kind.fields, kind.items, strict=True)], kind)
            return self.node("prim::TupleConstruct", self.match(schema, arguments, keywords, place), kind, place)
        assert isinstance(kind, t.ClassType)
        made = self.node("prim::CreateObject", [], kind, place, type=kind)
        if kind.method("__init__") is not None:
            self.call_object(made, "__init__", arguments, keywords, place)
        elif arguments or keywords:
            raise ScriptError(f"{kind.name} with arguments", "the class has no __init__", "define one", place)
        return made


__all__ = ["ModuleValues", "SugaredDict", "SugaredTuple"]
