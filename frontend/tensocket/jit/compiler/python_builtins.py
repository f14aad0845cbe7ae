"""Python's own functions, and those of ``torch.jit``, in scripts."""

from __future__ import annotations

import ast
import builtins
import collections
import copy
import typing
from typing import TYPE_CHECKING, Any, Final

from tensocket.jit.compiler.scope import Condition
from tensocket.jit.compiler.sugared import (
    Builtin,
    ExceptionClass,
    FunctionValue,
    PythonClass,
    Range,
    SliceValue,
    Special,
    Sugared,
    SugaredTuple,
    TreeForm,
    Zipped,
)
from tensocket.jit.frontend import Place, ScriptError
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.functions import CompiledFunction
from tensocket.jit.graph.ir import Value
from tensocket.jit.graph.operators import is_number, is_sortable

if TYPE_CHECKING:
    from tensocket.jit.compiler.compiler import Compiler


def _one(name: str, arguments: list[Any], place: Place, most: int = 1) -> None:
    if not 1 <= len(arguments) <= most:
        raise ScriptError(f"{name} with {len(arguments)} arguments", f"{name} expected 1 argument, got "
                          f"{len(arguments)}",
                          "pass one value", place)


def _print(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Value:
    if keywords:
        raise ScriptError("print with keyword arguments", "print doesn't accept any keyword arguments", "leave them "
                          "out",
                          place)
    return c.node("prim::Print", [c.value(each, place) for each in arguments], t.NONE, place)


def _len(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Value:
    _one("len", arguments, place)
    thing = arguments[0]
    if isinstance(thing, Sugared) or (isinstance(thing.kind, t.TupleType)) or (
            isinstance(thing.kind, t.ClassType) and thing.kind.details is not None and thing.kind.details.container):
        items = c.items_of(thing, place)
        if items is not None:
            return c.constant(len(items), t.INT, place)
    value = c.value(thing, place)
    if isinstance(value.kind, t.ClassType):
        return c.call_method(value, "__len__", [], {}, place)  # type: ignore[no-any-return]
    if value.kind not in (t.TENSOR, t.STRING, t.ANY) and not isinstance(value.kind, (t.ListType, t.DictType)):
        raise ScriptError(f"len of {value.kind}", f"'{value.kind}' object has no len: Arguments for call are not valid",
                          "pass a list, tuple, dict, tensor or str", place)
    return c.node("aten::len", [value], t.INT, place)


def _range(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Range:
    if keywords or not 1 <= len(arguments) <= 3:
        raise ScriptError(f"range with {len(arguments)} arguments", "range expected at least 1 argument and at most 3, "
                          f"got {len(arguments)}", "pass stop, or start, stop and step", place)
    values = [c.convert(c.value(each, place), t.INT, place) for each in arguments]
    for value in values:
        if value.kind not in (t.INT, t.BOOL):
            raise ScriptError(f"range of {value.kind}", "Arguments for call are not valid: range takes int",
                              "convert with int()", place)
    if len(values) == 1:
        return Range(c.constant(0, t.INT, place), values[0], c.constant(1, t.INT, place), True)
    step = values[2] if len(values) == 3 else c.constant(1, t.INT, place)
    return Range(values[0], values[1], step, False)


def _enumerate(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Zipped:
    given = [*arguments, *keywords.values()]
    _one("enumerate", given, place, 2)
    start = c.value(given[1], place) if len(given) > 1 else None
    return Zipped([given[0]], start, counts=True)


def _zip(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Zipped:
    if not arguments:
        raise ScriptError("zip without arguments", "zip expected at least 1 arguments, got 0", "pass iterables", place)
    return Zipped(arguments)


def _cast(name: str, kind: t.JitType) -> Any:
    def convert(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Value:
        if not arguments:
            return c.constant({"int": 0, "float": 0.0, "bool": False, "str": "", "complex": 0j}[name], kind, place)
        values = [c.value(each, place) for each in arguments]
        first = values[0]
        if name == "bool":
            return c.boolean(first, place)
        if isinstance(first.kind, t.ClassType):
            dunder = f"__{name}__"
            return c.call_method(first, dunder, [], {}, place)  # type: ignore[no-any-return]
        if first.kind is kind and len(values) == 1:
            return first
        kinds = first.kind.members if isinstance(first.kind, t.UnionType) else (first.kind,)
        if name != "str" and not all(is_number(each) or each in (t.TENSOR, t.STRING, t.ANY) for each in kinds):
            raise ScriptError(f"{name} of {first.kind}", f"Arguments for call are not valid: {name} takes numbers, "
                              "tensors of one element and str", "convert the value", place)
        return c.node(f"aten::{name if name == 'str' else name.capitalize()}", values, kind, place)

    return Special(name, convert)


def _least(name: str) -> Special:
    def choose(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Value:
        values = [c.value(each, place) for each in arguments]
        if len(values) == 1 and isinstance(values[0].kind, t.ListType):
            return c.node(f"prim::{name}", values, values[0].kind.element, place)
        if len(values) == 1 and isinstance(values[0].kind, t.TupleType):
            values = [c.value(each, place) for each in c.items_of(values[0], place) or []]
        if any(v.kind is t.TENSOR for v in values):
            return c.node(f"prim::{name}", values, t.TENSOR, place)
        kind = t.unify_all([v.kind for v in values])
        if kind is None:
            kind = t.FLOAT if {v.kind for v in values} <= {t.INT, t.FLOAT, t.BOOL} else t.NUMBER
            values = [v if v.kind is kind else c.node("aten::Float", [v], kind, place) for v in values]
        return c.node(f"prim::{name}", values, kind, place)

    return Special(name, choose)


def _abs(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Value:
    _one("abs", arguments, place)
    value = c.value(arguments[0], place)
    kind = {t.COMPLEX: t.FLOAT, t.BOOL: t.INT}.get(value.kind, value.kind)
    return c.node("prim::abs", [value], kind, place)


def _sum(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Value:
    value = c.value(arguments[0], place)
    kind = value.kind.element if isinstance(value.kind, t.ListType) else t.TENSOR
    return c.node("aten::sum_", [value], t.INT if kind is t.BOOL else kind, place)


def _all(name: str) -> Special:
    def test(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Value:
        return c.node(f"aten::{name}_", [c.value(arguments[0], place)], t.BOOL, place)

    return Special(name, test)


def _sorted(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Value:
    value = c.value(arguments[0], place)
    named = {key: c.value(each, place) for key, each in keywords.items()}
    if isinstance(value.kind, t.TupleType):
        kind = t.unify_all(list(value.kind.items))
        value = c.convert(value, t.ListType(kind or t.ANY), place)
    if not isinstance(value.kind, t.ListType) or not is_sortable(value.kind.element):
        raise ScriptError(f"sorted of {value.kind}", "Arguments for call are not valid: sorted takes a list whose "
                          "elements "
                          "have an order", "sort numbers, str, tuples of these, or instances with __lt__", place)
    return c.node("aten::sorted", [value, *named.values()], value.kind, place, keywords=["", *named])


def _list(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Value:
    if not arguments:
        return c.list_of([], place)
    thing = arguments[0]
    known = c.known_items(thing, place)
    if known is not None:
        return c.list_of([c.value(each, place) for each in known], place)
    if isinstance(thing, (Range, Zipped)):
        return c.collect(thing, place)
    value = c.value(thing, place)
    if isinstance(value.kind, t.DictType):
        return c.node("aten::keys", [value], t.ListType(value.kind.key), place)
    if value.kind in (t.STRING, t.TENSOR):
        return c.node("aten::list", [value], t.ListType(value.kind), place)
    if not isinstance(value.kind, t.ListType):
        raise ScriptError(f"list of {value.kind}", f"'{value.kind}' object is not iterable", "pass a list, tuple, "
                          "dict, "
                          "tensor or str", place)
    return c.node("aten::list", [value], value.kind, place)


def _tuple(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    if not arguments:
        return c.tuple_of([], place)
    known = c.known_items(arguments[0], place)
    if known is None:
        raise ScriptError("tuple of a value whose length is not known", "cannot convert a list to a tuple: the "
                          "number of "
                          "elements is part of a tuple's type", "unpack the list first", place)
    return SugaredTuple(known)


def _dict(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Value:
    flat: list[Value] = []
    if arguments:
        known = c.known_items(arguments[0], place)
        if known is None:
            value = c.value(arguments[0], place)
            if isinstance(value.kind, t.DictType):
                kind: t.JitType = value.kind
            elif isinstance(value.kind, t.ListType) and isinstance(value.kind.element, t.TupleType) and len(
                    value.kind.element.items) == 2:
                kind = t.DictType(*value.kind.element.items)
            elif isinstance(arguments[0], Zipped):
                value = c.collect(arguments[0], place)
                kind = t.DictType(*value.kind.element.items)  # type: ignore[attr-defined]
            else:
                raise ScriptError(f"dict of {value.kind}", "dict takes a dict, or pairs of keys and values", "pass "
                                  "one of "
                                  "these", place)
            made = c.node("aten::dict", [value], kind, place)
            for key, each in keywords.items():
                c.add("aten::_set_item", [made, c.constant(key, t.STRING, place), c.value(each, place)], place)
            return made
        for pair in known:
            flat += [c.value(each, place) for each in c.items_of(pair, place, 2) or []]
    for key, each in keywords.items():
        flat += [c.constant(key, t.STRING, place), c.value(each, place)]
    return c.dict_of(flat, None, place)


def _reversed(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    known = c.known_items(arguments[0], place)
    if known is not None:
        return SugaredTuple(known[::-1])
    value = c.value(arguments[0], place)
    return c.node("aten::reversed", [value], value.kind, place)


def _round(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Value:
    values = [c.value(each, place) for each in arguments]
    if values[0].kind is t.TENSOR:
        return c.call_method(values[0], "round", [], {}, place)  # type: ignore[no-any-return]
    return c.node("aten::round_", values, t.FLOAT, place)


def _slice(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> SliceValue:
    values = [c.value(each, place) for each in arguments]
    if not 1 <= len(values) <= 3:
        raise ScriptError(f"slice with {len(values)} arguments", "slice expected at least 1 argument and at most 3",
                          "pass "
                          "stop, or start, stop and step", place)
    none = c.constant(None, t.NONE, place)
    bounds = [none, values[0]] if len(values) == 1 else values
    return SliceValue([*bounds, *[none] * (3 - len(bounds))])


def _pow(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    return c.binary("pow", arguments[0], arguments[1], place)


def _divmod(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Value:
    values = [c.value(each, place) for each in arguments]
    kind = t.FLOAT if t.FLOAT in [v.kind for v in values] else t.INT
    return c.node("aten::divmod", values, t.TupleType([kind, kind]), place)


def _super(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Sugared:
    from tensocket.jit.compiler.module_types import Super

    owner = c.scope.find(c.self_name)
    if owner is None:
        raise ScriptError("super() outside of a method", "super() needs an instance", "call the function itself", place)
    after = arguments[0].kind if arguments and isinstance(arguments[0], PythonClass) else None
    return Super(owner, after or c.defining_class())


def _deepcopy(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Value:
    value = c.value(arguments[0], place)
    return c.node("aten::deepcopy", [value], value.kind, place, callee=copy.deepcopy)


def _annotate(c: Compiler, node: ast.Call, place: Place) -> Value:
    if len(node.args) != 2:
        raise ScriptError(f"annotate with {len(node.args)} arguments", "it takes a type and a value", "pass both",
                          place)
    kind = c.annotation(node.args[0])
    value = c.convert(c.value(c.expression(node.args[1], kind), place), kind, place)
    if value.kind != kind and t.is_subtype(value.kind, kind):
        return c.node("prim::unchecked_cast", [value], kind, place)
    if value.kind != kind and value.kind is t.ANY:
        return c.node("prim::unchecked_cast", [value], kind, place)
    if value.kind != kind:
        raise ScriptError(f"annotate({kind.annotation_str}, a value of type {value.kind.annotation_str})",
                          f"expected an expression of type {kind.annotation_str} but found {value.kind.annotation_str}",
                          "correct one of them", place)
    return value


def _typing_cast(c: Compiler, node: ast.Call, place: Place) -> Value:
    kind = c.annotation(node.args[0])
    return c.node("prim::unchecked_cast", [c.value(c.expression(node.args[1]), place)], kind, place)


def _uninitialized(c: Compiler, node: ast.Call, place: Place) -> Value:
    return c.node("prim::Uninitialized", [], c.annotation(node.args[0]), place)


def _isinstance(c: Compiler, node: ast.Call, place: Place) -> Condition:
    return c.is_instance(node, place)


def _hasattr(c: Compiler, node: ast.Call, place: Place) -> Condition:
    if len(node.args) != 2 or not (isinstance(node.args[1], ast.Constant) and isinstance(node.args[1].value, str)):
        raise ScriptError(ast.unparse(node), "hasattr's second argument must be a string literal", "pass a name", place)
    thing, name = c.expression(node.args[0]), node.args[1].value
    if not isinstance(thing, Value) or not isinstance(thing.kind, t.ClassType):
        raise ScriptError(f"hasattr of {getattr(thing, 'kind', thing)}", "hasattr's first argument must be a module "
                          "or an "
                          "object of a scripted class", "pass one of these", place)
    kind = thing.kind
    details = kind.details
    found = name in kind.attributes or name in kind.constants or name in kind.properties or (
        details is not None and details.has(name)) or (details is None and kind.method(name) is not None)
    return Condition(None, found)


def _getattr(c: Compiler, node: ast.Call, place: Place) -> Any:
    if not 2 <= len(node.args) <= 3 or not isinstance(node.args[1], ast.Constant):
        raise ScriptError(ast.unparse(node), "getattr's second argument must be a string literal", "pass a name", place)
    owner, name = c.expression(node.args[0]), str(node.args[1].value)
    if len(node.args) == 3:
        try:
            return owner.attribute(c, place, name) if isinstance(owner, Sugared) else c.attribute(owner, name, place)
        except ScriptError:
            return c.expression(node.args[2])
    return owner.attribute(c, place, name) if isinstance(owner, Sugared) else c.attribute(owner, name, place)


def _assert(c: Compiler, node: ast.Call, place: Place) -> Value:
    """Compile ``torch._assert(condition, message)`` as the statement."""
    given = dict(zip(("condition", "message"), node.args, strict=False)) | {k.arg: k.value for k in node.keywords}
    if len(node.args) + len(node.keywords) != 2 or given.keys() != {"condition", "message"}:
        raise ScriptError(ast.unparse(node), "_assert takes a condition and a message", "pass both", place)
    c.statement(ast.copy_location(ast.Assert(given["condition"], given["message"]), node))
    return c.constant(None, t.NONE, place)


def _known(value: bool) -> TreeForm:
    return TreeForm("is_scripting", lambda c, node, place: Condition(None, value))


def _fork(c: Compiler, node: ast.Call, place: Place) -> Value:
    """Compile ``fork(function, *arguments)``."""
    return _later(c, node, place, "prim::fork", t.FutureType)


def _awaitable(c: Compiler, node: ast.Call, place: Place) -> Value:
    return _later(c, node, place, "prim::awaitable", t.AwaitType)


def _later(c: Compiler, node: ast.Call, place: Place, op: str, make: Any) -> Value:
    made = c.add(op, [], place)
    block = made.add_block()
    results: list[Value] = []
    rest = ast.copy_location(ast.Call(node.args[0], node.args[1:], node.keywords), node)
    c.branch(block, {}, lambda: results.append(c.value(c.call(rest), place)), place)
    block.add_output(results[0])
    return made.add_output(make(results[0].kind))


def _wait(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Value:
    value = c.value(arguments[0], place)
    if not isinstance(value.kind, t.FutureType):
        raise ScriptError(f"wait of {value.kind}", "wait takes what fork returned", "pass a future", place)
    return c.node("aten::wait", [value], value.kind.element, place)


def _nowait(c: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Value:
    value = c.value(arguments[0], place)
    return c.node("prim::awaitable_nowait", [value], t.AwaitType(value.kind), place)


_NAMES: Final[dict[str, Sugared]] = {
    "print": Special("print", _print), "len": Special("len", _len), "range": Special("range", _range),
    "enumerate": Special("enumerate", _enumerate), "zip": Special("zip", _zip), "int": _cast("int", t.INT),
    "float": _cast("float", t.FLOAT), "bool": _cast("bool", t.BOOL), "str": _cast("str", t.STRING),
    "complex": _cast("complex", t.COMPLEX), "min": _least("min"), "max": _least("max"), "abs": Special("abs", _abs),
    "sum": Special("sum", _sum), "all": _all("all"), "any": _all("any"), "sorted": Special("sorted", _sorted),
    "list": Special("list", _list), "tuple": Special("tuple", _tuple), "dict": Special("dict", _dict),
    "reversed": Special("reversed", _reversed), "round": Special("round", _round), "pow": Special("pow", _pow),
    "divmod": Special("divmod", _divmod), "super": Special("super", _super), "isinstance": TreeForm("isinstance",
                                                                                                   _isinstance),
    "hasattr": TreeForm("hasattr", _hasattr), "getattr": TreeForm("getattr", _getattr),
    "slice": Special("slice", _slice),
    "ord": Builtin("aten::ord", ord, t.INT), "chr": Builtin("aten::chr", chr, t.STRING),
    "hex": Builtin("aten::hex", hex, t.STRING), "oct": Builtin("aten::oct", oct, t.STRING),
    "bin": Builtin("aten::bin", bin, t.STRING), "hash": Builtin("aten::hash", hash, t.INT),
    "annotate": TreeForm("annotate", _annotate), "uninitialized": TreeForm("uninitialized", _uninitialized),
    "unchecked_cast": TreeForm("unchecked_cast", _typing_cast), "fork": TreeForm("fork", _fork),
    "awaitable": TreeForm("awaitable", _awaitable),
}
_FILE_ONLY: Final = frozenset({"annotate", "uninitialized", "unchecked_cast", "fork", "awaitable"})
_SPECIAL: Final[dict[int, tuple[Any, Sugared]]] = {}


def builtin(compiler: Compiler, name: str, place: Place) -> Any:
    """Return the meaning of one of Python's own functions, None if scripts have no such name."""
    if name in _NAMES and (name not in _FILE_ONLY or compiler.from_file):
        return _NAMES[name]
    thing = getattr(builtins, name, None)
    if isinstance(thing, type) and issubclass(thing, BaseException):
        return ExceptionClass(thing)
    if name in ("Tensor", "torch") or name == "NotImplemented":
        import tensocket

        return compiler.wrap(tensocket if name == "torch" else tensocket.Tensor,
                             place) if name != "NotImplemented" else None
    return None


def special(thing: Any) -> Sugared | None:
    """Return the meaning of a function that the compiler works out itself, None for other objects."""
    if not _SPECIAL:
        _fill()
    found = _SPECIAL.get(id(thing))
    return None if found is None else found[1]


def _fill() -> None:
    from tensocket import compiler, futures, jit, overrides
    from tensocket.jit import asynchronous, markers

    for name, meaning in _NAMES.items():
        if name not in _FILE_ONLY:
            thing = getattr(builtins, name)
            _SPECIAL[id(thing)] = (thing, meaning)
    table: list[tuple[Any, Sugared]] = [
        (overrides._assert, TreeForm("_assert", _assert)),
        (jit.annotate, TreeForm("annotate", _annotate)), (jit.isinstance, TreeForm("isinstance", _isinstance)),
        (markers.is_scripting, _known(True)), (markers.is_tracing, _known(False)),
        (compiler.is_compiling, _known(False)), (compiler.is_exporting, _known(False)),
        (typing.cast, TreeForm("cast", _typing_cast)), (asynchronous.fork, TreeForm("fork", _fork)),
        (asynchronous.wait, Special("wait", _wait)), (asynchronous._awaitable, TreeForm("awaitable", _awaitable)),
        (asynchronous._awaitable_wait, Special("wait", _wait)),
        (asynchronous._awaitable_nowait, Special("nowait", _nowait)),
        (collections.OrderedDict, Special("dict", _dict)), (copy.deepcopy, Special("deepcopy", _deepcopy)),
        (futures.wait_all, Builtin("prim::wait_all", futures.wait_all, t.ANY)),
    ]
    for thing, meaning in table:
        _SPECIAL[id(thing)] = (thing, meaning)


__all__ = ["CompiledFunction", "FunctionValue", "builtin", "special"]
