"""Calls, methods and attributes in scripts."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tensocket.jit.compiler.module_values import ModuleValues
from tensocket.jit.compiler.sugared import BoundMethod, Builtin, FunctionValue, PythonFunction, Sugared, TreeForm
from tensocket.jit.frontend import Place, ScriptError
from tensocket.jit.graph import operators as ops
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.functions import MISSING, CompiledFunction, FunctionSchema
from tensocket.jit.graph.ir import Value
from tensocket.jit.graph.named_results import fields_of_results
from tensocket_operators import Tensor

if TYPE_CHECKING:
    from tensocket.jit.compiler.compiler import Compiler


class Calls(ModuleValues):
    """The compiler's methods for calls."""

    def call(self: Compiler, node: ast.Call, hint: t.JitType | None = None) -> Any:
        """Compile a call."""
        place = self.place(node)
        function = self.expression(node.func)
        if isinstance(function, TreeForm):
            from tensocket.jit.compiler.scope import Condition

            result = function.function(self, node, place)
            if isinstance(result, Condition):
                return self.constant(result.known, t.BOOL, place) if result.known is not None else result.value
            return result
        arguments = [part for each in node.args for part in self._spread(each)]
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise ScriptError(ast.unparse(node), "keyword-arg expansion is not supported", "pass each argument",
                                  place)
            keywords[keyword.arg] = self.expression(keyword.value)
        if isinstance(function, BoundMethod) and function.name == "tolist" and hint is not None:
            # Only the annotation says how deep the lists are.
            return self.node("aten::tolist", [function.receiver], hint, place, callee=Tensor.tolist)
        if isinstance(function, Sugared):
            return function.call(self, place, arguments, keywords)
        return self.call_value(function, arguments, keywords, place)

    def call_value(self: Compiler, value: Value, arguments: list[Any], keywords: dict[str, Any], place: Place) -> Any:
        """Call a value: a module, an instance with ``__call__``, or a function.

        Raises:
            ScriptError: It cannot be called.
        """
        kind = value.kind
        if isinstance(kind, t.ClassType):
            if kind.is_module:
                return self.call_module(value, arguments, keywords, place)
            return self.call_method(value, "__call__", arguments, keywords, place)
        if isinstance(kind, t.FunctionType):
            return self.call_compiled(kind.function, arguments, keywords, place)
        raise ScriptError(f"a call of a value of type '{kind}'", f"'{kind}' object is not callable", "call functions, "
                          "methods and modules", place)

    # ---- compiled functions

    def call_compiled(self: Compiler, function: CompiledFunction, arguments: list[Any], keywords: dict[str, Any],
                      place: Place, receiver: Value | None = None) -> Value:
        """Add a call of a compiled function.

        Raises:
            ScriptError: The arguments do not fit.
        """
        if function.graph is None and function.owner is None:
            raise ScriptError(f"function '{function.name}' is called recursively", "Recursive calls are not supported",
                              "use a loop", place)
        skip = 0 if receiver is None else 1
        inputs = self.match(function.schema, arguments, keywords, place, skip)
        op = "prim::CallFunction" if receiver is None else "prim::CallMethod"
        whole = inputs if receiver is None else [receiver, *inputs]
        return self.node(op, whole, function.schema.result, place, name=function.name, callee=function)

    def match(self: Compiler, schema: FunctionSchema, arguments: Sequence[Any], keywords: dict[str, Any],
              place: Place, skip: int = 0) -> list[Value]:
        """Return one value for each parameter of a schema.

        Raises:
            ScriptError: The arguments do not fit.
        """
        parameters = schema.arguments[skip:]
        if len(arguments) > sum(not p.kwarg_only for p in parameters):
            raise self._misfit(schema, f"Expected at most {len(parameters)} arguments but found {len(arguments)} "
                               "positional arguments", place)
        unknown = [name for name in keywords if name not in [p.name for p in parameters]]
        if unknown:
            raise self._misfit(schema, f"Unknown keyword argument '{unknown[0]}'", place)
        found: list[Value] = []
        for k, parameter in enumerate(parameters):
            if k < len(arguments):
                if parameter.name in keywords:
                    raise self._misfit(schema, f"Argument {parameter.name} specified twice", place)
                value = self.value(arguments[k], place)
            elif parameter.name in keywords:
                value = self.value(keywords[parameter.name], place)
            elif parameter.default is not MISSING:
                value = self.constant(parameter.default, None if parameter.default is not None else t.NONE, place)
            else:
                raise self._misfit(schema, f"missing value for argument '{parameter.name}'", place)
            value = self.convert(value, parameter.type, place)
            if not t.is_subtype(value.kind, parameter.type):
                raise self._misfit(schema, f"Expected a value of type '{parameter.type.annotation_str}' for argument "
                                   f"'{parameter.name}' but instead found type '{value.kind.annotation_str}'", place)
            found.append(value)
        return found

    def _misfit(self: Compiler, schema: FunctionSchema, problem: str, place: Place) -> ScriptError:
        return ScriptError(f"{schema}: {problem}", "Arguments for call are not valid", "pass arguments of the schema",
                           place)

    # ---- operators

    def call_operator(self: Compiler, builtin: Builtin, arguments: list[Any], keywords: dict[str, Any], place: Place
                      ) -> Value:
        """Add a call of an operator.

        Raises:
            ScriptError: The arguments do not fit.
        """
        keywords = {name: self.value(each, place) for name, each in keywords.items()}
        inputs = [self.value(each, place) for each in arguments]
        name = builtin.kind.rpartition("::")[2]
        if self.from_file:
            from tensocket.jit.files.printed_names import adapt

            inputs, keywords = adapt(self, name, inputs, keywords, place)
        function = builtin.function
        problem = ops.check_arguments(name, function, inputs, keywords)
        if problem is not None:
            raise ScriptError(f"{builtin.kind}({', '.join(str(v.kind) for v in inputs)}): {problem}",
                              "Arguments for call are not valid", "see the operator's documentation", place)
        kind = builtin.result or ops.result_type(name, inputs, keywords, function)
        names = [""] * len(inputs) + list(keywords)
        return self.node(builtin.kind, [*inputs, *keywords.values()], kind, place, keywords=names, callee=function)

    def call_python(self: Compiler, function: PythonFunction, arguments: list[Any], keywords: dict[str, Any],
                    place: Place) -> Value:
        """Add a call of a Python function."""
        if function.refusal:
            message = self.constant(function.refusal, t.STRING, place)
            self.add("prim::RaiseException", [message], place, cls="Exception")
            return self.node("prim::Uninitialized", [], function.result, place)
        schema = FunctionSchema(getattr(function.function, "__name__", "python"), list(function.arguments),
                                function.result)
        variadic = any(a.name.startswith("*") for a in schema.arguments)
        inputs = ([self.value(each, place) for each in arguments] if variadic
                  else self.match(schema, arguments, keywords, place))
        return self.node("prim::PythonOp", inputs, function.result, place, name=schema.name, callee=function.function)

    # ---- methods and attributes

    def attribute(self: Compiler, owner: Value, name: str, place: Place) -> Any:
        """Return an attribute or method of a value.

        Raises:
            ScriptError: There is none.
        """
        kind = owner.kind
        if isinstance(kind, t.ClassType):
            return self.object_attribute(owner, name, place)
        if kind is t.TENSOR:
            known = ops.TENSOR_ATTRIBUTES.get(name)
            if known is not None:
                return self.node(f"prim::{name}", [owner], known, place)
            import tensocket

            if callable(getattr(tensocket.Tensor, name, None)) and name != "register_hook":
                return BoundMethod(owner, name)
        fields = kind.fields or fields_of_results(owner.node().kind()) if isinstance(kind, t.TupleType) else ()
        if name in fields:
            index = self.constant(fields.index(name), t.INT, place)
            return self.index(owner, index, place)
        if isinstance(kind, t.EnumType) and name in ("name", "value"):
            return self.node(f"prim::Enum{name.capitalize()}", [owner], t.STRING if name == "name" else kind.value,
                             place)
        plain = {(t.DEVICE, "type"): t.STRING, (t.DEVICE, "index"): t.optional(t.INT), (t.COMPLEX, "real"): t.FLOAT,
                 (t.COMPLEX, "imag"): t.FLOAT, (t.DTYPE, "is_floating_point"): t.BOOL, (t.DTYPE, "is_complex"): t.BOOL,
                 (t.DTYPE, "itemsize"): t.INT}.get((kind, name))
        if plain is not None:
            return self.node("prim::PlainAttr", [owner], plain, place, name=name)
        if ops.method_type(kind, name, []) is not None or kind is t.DEVICE:
            return BoundMethod(owner, name)
        if isinstance(kind, t.UnionType) and kind.is_optional:
            raise ScriptError(f"'{kind}' object has no attribute or method '{name}'", "the value may be None",
                              "Did you forget to unwrap Optional? Check `is not None` before", place)
        raise ScriptError(f"'{kind.annotation_str}' object has no attribute or method '{name}'", "scripts use the "
                          "methods "
                          "of tensors, lists, dicts, str and scripted classes", "use one of these", place)

    def call_method(self: Compiler, owner: Value, name: str, arguments: list[Any], keywords: dict[str, Any],
                    place: Place) -> Any:
        """Call a method of a value.

        Raises:
            ScriptError: There is none, or the arguments do not fit.
        """
        kind = owner.kind
        if isinstance(kind, t.ClassType):
            return self.call_object(owner, name, arguments, keywords, place)
        if kind is t.TENSOR:
            import tensocket

            builtin = Builtin(f"aten::{name}", getattr(tensocket.Tensor, name))
            return self.call_operator(builtin, [owner, *arguments], keywords, place)
        values = [self.value(each, place) for each in arguments]
        named = {key: self.value(each, place) for key, each in keywords.items()}
        result = ops.method_type(kind, name, values)
        if result is None:
            raise ScriptError(f"'{kind}' object has no method '{name}'", "scripts use the methods of lists, dicts "
                              "and str",
                              "use one of these", place)
        values = self._method_arguments(kind, name, values, place)
        return self.node(f"aten::{name}", [owner, *values, *named.values()], result, place,
                         keywords=[""] * (1 + len(values)) + list(named), method=name)

    def _method_arguments(self: Compiler, kind: t.JitType, name: str, values: list[Value], place: Place) -> list[Value]:
        """Return the arguments of a container's method, converted to the container's types.

        Raises:
            ScriptError: An argument is of another type.
        """
        wanted: list[t.JitType] = []
        if isinstance(kind, t.ListType):
            element = kind.element
            if name == "sort" and not ops.is_sortable(element):
                raise ScriptError(f"{kind}.sort()", "Arguments for call are not valid: the elements have no order",
                                  "sort "
                                  "numbers, str, tuples of these, or instances with __lt__", place)
            of_lists: dict[str, list[t.JitType]] = {"append": [element], "insert": [t.INT, element],
                                                    "remove": [element], "count": [element],
                      "extend": [kind], "index": [element], "pop": [t.INT]}
            wanted = of_lists.get(name, [])
        elif isinstance(kind, t.DictType):
            of_dicts: dict[str, list[t.JitType]] = {"pop": [kind.key, kind.value], "get": [kind.key, t.ANY],
                                                    "setdefault": [kind.key, kind.value],
                      "update": [kind]}
            wanted = of_dicts.get(name, [])
        found = []
        for value, want in zip(values, wanted, strict=False):
            value = self.convert(value, want, place)
            if not t.is_subtype(value.kind, want):
                raise ScriptError(f"{kind}.{name}({value.kind})", f"Arguments for call are not valid: {name} takes "
                                  f"{want}",
                                  "convert the argument", place)
            found.append(value)
        return [*found, *values[len(found):]]


__all__ = ["Calls", "FunctionValue"]
