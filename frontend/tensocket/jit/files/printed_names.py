"""The names of printed scripts: operators below ``torch`` and ``ops``, as graphs call them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final

from tensocket.jit.compiler.sugared import Builtin, OperatorNamespace, Sugared
from tensocket.jit.files import aten_names
from tensocket.jit.frontend import Place, ScriptError
from tensocket.jit.graph import operators, runtime
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.ir import Value

if TYPE_CHECKING:
    from tensocket.jit.compiler.compiler import Compiler

_SPACES: Final = frozenset({"nn", "functional", "special", "linalg", "fft", "autograd", "ops", "utils", "rnn",
                           "modules", "transformer"})
_MANAGERS: Final = frozenset({"no_grad", "enable_grad", "set_grad_enabled", "inference_mode"})
_ARITHMETIC: Final = frozenset({"add", "sub", "mul", "div", "floordiv", "remainder", "pow", "matmul", "__and__",
                                "__or__", "__xor__", "__lshift__", "__rshift__"})
_COMPARISONS: Final = {"eq": ast.Eq, "ne": ast.NotEq, "lt": ast.Lt, "le": ast.LtE, "gt": ast.Gt, "ge": ast.GtE}
#: Operators whose result's type follows from a table, by name.
_RESULTS: Final[dict[str, t.JitType]] = {
    "len": t.INT, "Int": t.INT, "Float": t.FLOAT, "Bool": t.BOOL, "Complex": t.COMPLEX, "str": t.STRING,
    "IntImplicit": t.INT, "FloatImplicit": t.FLOAT, "ScalarImplicit": t.NUMBER, "__is__": t.BOOL, "__isnot__": t.BOOL,
    "ComplexImplicit": t.COMPLEX, "__not__": t.BOOL, "__contains__": t.BOOL, "__range_length": t.INT,
    "__derive_index": t.INT, "ord": t.INT, "chr": t.STRING, "hex": t.STRING, "oct": t.STRING, "bin": t.STRING,
    "hash": t.INT, "format": t.STRING, "percentFormat": t.STRING, "any_": t.BOOL, "all_": t.BOOL, "round_": t.FLOAT,
    "warn": t.NONE, "Delete": t.NONE, "_set_item": t.NONE, "list_range": t.ListType(t.INT), "dim": t.INT,
    "device": t.DEVICE, "numel": t.INT,
}
#: Numbers of PyTorch's dtypes are arguments of these operators, at these positions.
_DTYPE_AT: Final = {"to": (1, 2), "softmax": (2,), "log_softmax": (2,), "sum": (1,), "mean": (1,), "cumsum": (2,),
                    "cumprod": (2,), "prod": (1,), "type": (1,), "_softmax": (), "softmin": (2,)}


def constant_of(name: str) -> Any:
    """Return a dtype, layout or memory format by name.

    Raises:
        KeyError: There is none.
    """
    import tensocket

    thing = getattr(tensocket, name, None)
    if not isinstance(thing, (tensocket.dtype, tensocket.layout, tensocket.memory_format)):
        raise KeyError(name)
    return thing


def member(space: OperatorNamespace, compiler: Compiler, place: Place, name: str) -> Any:
    """Return what ``torch.name`` means in printed code.

    Raises:
        ScriptError: Nothing.
    """
    import tensocket

    if not space.path:
        if name in _SPACES:
            return OperatorNamespace((name,))
        if name == "device":
            return Builtin("aten::device", tensocket.device, t.DEVICE)
        if name in _MANAGERS:
            return compiler.wrap(getattr(tensocket, name), place)
        try:
            return compiler.constant(constant_of(name), None, place)
        except KeyError:
            return PrintedOperator(name)
    if space.path == ("ops",):
        return PrimOperator(name) if name == "prim" else OperatorNamespace(("ops", name))
    if space.path[0] == "ops":
        return _custom(space.path[1], name, place)
    owner: Any = tensocket
    for part in space.path:
        owner = getattr(owner, part)
    found = getattr(owner, name, None)
    if found is not None and operators.is_operator(found):
        return Builtin(f"{'.'.join(space.path)}::{name}", found)
    if name in _SPACES or name == "grad_mode":
        return OperatorNamespace((*space.path, name))
    if name in _MANAGERS:
        return compiler.wrap(getattr(tensocket, name), place)
    raise unknown(f"torch.{'.'.join(space.path)}.{name}", place)


def unknown(name: str, place: Place | None) -> ScriptError:
    """Return the error for an operator that does not exist here."""
    return ScriptError(f"Unknown builtin op: {name}", "a file calls operators that exist here", "save it again without "
                       "this operator", place)


def _custom(space: str, name: str, place: Place) -> Builtin:
    import tensocket

    function = getattr(getattr(tensocket.ops, space, None), name, None)
    if function is None or (not operators.is_operator(function) and space in ("aten", "prim")):
        raise unknown(f"{space}::{name}", place)
    return Builtin(f"ops.{space}::{name}", function)


class PrimOperator(Sugared):
    """``ops.prim`` in printed code."""

    def __init__(self, name: str) -> None:
        self.name = name

    def attribute(self, compiler: Compiler, place: Place, name: str) -> Any:
        """Return an operator."""
        return PrintedPrim(name)


class PrintedPrim(Sugared):
    """An operator of the namespace ``prim``."""

    def __init__(self, name: str) -> None:
        self.name = name

    def call(self, compiler: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """Add its node.

        Raises:
            ScriptError: There is no such operator.
        """
        values = [compiler.value(each, place) for each in arguments]
        if self.name == "RaiseException":
            kind = str(values[1].toIValue()) if len(values) > 1 else "Exception"
            compiler.add("prim::RaiseException", values[:1], place, cls=kind.removeprefix("builtins."))
            compiler.scope.exit = "raise"
            return compiler.constant(None, t.NONE, place)
        if self.name in operators.TENSOR_ATTRIBUTES:
            return compiler.attribute(values[0], self.name, place)
        result = self._result(values)
        if result is None:
            raise unknown(f"prim::{self.name}", place)
        return compiler.node(f"prim::{self.name}", values, result, place)

    def _result(self, values: list[Value]) -> t.JitType | None:
        if self.name in ("min", "max"):
            first = values[0].kind
            return first.element if len(values) == 1 and isinstance(first, t.ListType) else t.unify_all(
                [v.kind for v in values]) or t.FLOAT
        if self.name == "abs":
            return values[0].kind
        return {"NumToTensor": t.TENSOR, "tensor_like": t.TENSOR, "assign_view": t.TENSOR, "index_last": t.TENSOR,
                "dtype_of_number": t.DTYPE, "ToScalar": t.NUMBER, "Enter": t.ANY}.get(self.name)


class PrintedOperator(Sugared):
    """An operator by the name that graphs use; the types of its arguments decide which one it is.

    Args:
        name: The name.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def attribute(self, compiler: Compiler, place: Place, name: str) -> Any:
        """Refuse.

        Raises:
            ScriptError: Always.
        """
        raise unknown(f"torch.{self.name}.{name}", place)

    def call(self, compiler: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """Add its node.

        Raises:
            ScriptError: There is no such operator.
        """
        values = [compiler.value(each, place) for each in arguments]
        first = values[0].kind if values else t.NONE
        tensor = any(v.kind is t.TENSOR for v in values)
        if not keywords and len(values) == 2:
            if self.name in _ARITHMETIC and (not tensor or self.name in ("add", "sub", "mul", "div", "pow", "matmul")):
                return compiler.binary(self.name, values[0], values[1], place)
            if self.name in _COMPARISONS and not (tensor and t.NONE in (values[0].kind, values[1].kind)):
                return compiler.compare(_COMPARISONS[self.name](), values[0], values[1], place)
        if self.name == "neg" and not tensor:
            return compiler.node("aten::neg", values, first, place)
        if self.name == "__getitem__":
            return compiler.index(values[0], values[1], place)
        if self.name in ("list", "sorted", "deepcopy", "reversed", "dict", "keys", "values", "items") and (
                first is not t.TENSOR):
            return self._container(compiler, values, keywords, place)
        if self.name == "slice" and not keywords:
            return compiler.node("aten::slice", values, first, place)
        if self.name == "wait" and isinstance(first, t.FutureType):
            return compiler.node("aten::wait", values, first.element, place)
        if self.name in _RESULTS and not (self.name in ("Delete",) and tensor):
            return compiler.node(f"aten::{self.name}", values, _RESULTS[self.name], place)
        if self.name.startswith("math_"):
            import math

            function = getattr(math, self.name.removeprefix("math_"))
            return compiler.call_operator(Builtin(f"aten::{self.name}", function, operators.MATH[function.__name__]),
                                          values, keywords, place)
        return self._operator(compiler, values, keywords, place, first is t.TENSOR)

    def _container(self, compiler: Compiler, values: list[Value], keywords: dict[str, Any], place: Place) -> Value:
        kind = values[0].kind
        if self.name == "list" and (isinstance(kind, t.TupleType) or kind is t.STRING):
            items = [t.STRING] if kind is t.STRING else list(kind.items)  # type: ignore[attr-defined]
            kind = t.ListType(t.unify_all(items) or t.ANY)
        elif self.name in ("keys", "values", "items") and isinstance(kind, t.DictType):
            kind = operators.method_type(kind, self.name, []) or kind
        elif self.name == "dict" and isinstance(kind, t.ListType) and isinstance(kind.element, t.TupleType):
            kind = t.DictType(*kind.element.items)
        named = {name: compiler.value(each, place) for name, each in keywords.items()}
        names = [""] * len(values) + list(named)
        return compiler.node(f"aten::{self.name}", [*values, *named.values()], kind, place, keywords=names)

    def _operator(self, compiler: Compiler, values: list[Value], keywords: dict[str, Any], place: Place, tensor: bool
                  ) -> Any:
        first = values[0].kind if values else t.NONE
        if not tensor and values and operators.method_type(first, self.name, values) is not None:
            return compiler.call_method(values[0], self.name, values[1:], keywords, place)
        if not tensor and self.name in operators.MATH and values and operators.is_number(first):
            import math

            function = getattr(math, self.name)
            return compiler.node(f"aten::math_{self.name}", values, operators.MATH[self.name], place, callee=function)
        if not hasattr(runtime, self.name) or self.name in ("device",):
            function = aten_names.find(self.name) or operators.find(self.name)
            if function is None:
                raise unknown(f"aten::{self.name}", place)
            return compiler.call_operator(Builtin(f"aten::{self.name}", function), values, keywords, place)
        return compiler.call_operator(Builtin(f"aten::{self.name}", getattr(runtime, self.name)), values, keywords,
                                      place)


def adapt(compiler: Compiler, name: str, inputs: list[Value], keywords: dict[str, Value], place: Place
          ) -> tuple[list[Value], dict[str, Value]]:
    """Return an operator's arguments with dtypes, layouts and formats in place of PyTorch's numbers."""
    inputs = [_dtype(compiler, value, place) if k in _DTYPE_AT.get(name, ()) else value for k, value
              in enumerate(inputs)]
    found: dict[str, Value] = {}
    for key, value in keywords.items():
        number = value.kind is t.INT
        if key == "dtype" and number:
            value = _dtype(compiler, value, place)
        elif key == "layout" and (number or value.toIValue() is None):
            continue
        elif key == "memory_format" and number:
            formats = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
            value = compiler.constant(constant_of(formats[int(value.toIValue())]), None, place)
        elif (key == "pin_memory" and not value.toIValue()) or key == "implicit" or (value.kind is t.NONE and key
                                                                                     in ("memory_format", "generator")):
            continue
        found[key] = value
    return inputs, found


def _dtype(compiler: Compiler, value: Value, place: Place) -> Value:
    if value.kind is not t.INT or isinstance(value.toIValue(), bool):
        return value
    if value.toIValue() is None:
        return compiler.node("prim::dtype_of_number", [value], t.DTYPE, place)
    return compiler.constant(runtime.dtype_of_number(value.toIValue()), t.DTYPE, place)
