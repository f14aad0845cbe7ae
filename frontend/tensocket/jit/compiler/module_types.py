"""Types of modules: attributes, constants, methods to compile, containers, hooks."""

from __future__ import annotations

import inspect
import types
from typing import TYPE_CHECKING, Any, Final

from tensocket.jit.annotations import from_python, from_value, qualified
from tensocket.jit.compiler.closures import resolver_of
from tensocket.jit.compiler.sugared import BoundMethod, FunctionValue, PythonFunction, Special, Sugared, SugaredTuple
from tensocket.jit.frontend import Place, ScriptError
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.functions import Argument, CompiledFunction
from tensocket.jit.markers import modifier_of
from tensocket.nn import Module, ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential

if TYPE_CHECKING:
    from tensocket.jit.compiler.compiler import Compiler
    from tensocket.jit.graph.ir import Value

#: Attributes that every module has and scripts do not see.
_HIDDEN: Final = frozenset(vars(Module())) - {"training"} | {
    "_type", "_original", "_wrapped", "_is_full_backward_hook", "_parameters", "_buffers", "_modules",
    "_flat_weight_refs", "_flat_weights", "_version"}


class ModuleDetails:
    """The compiler's knowledge of a kind of module besides its attributes.

    Args:
        kind: The type.
        module: An instance.

    Attributes:
        container: ``list`` or ``dict`` for containers, "" for others.
        names: Names of the parts of a container.
        library: Whether the class is one of the library's layers, which run as they are.
        failed: Why attributes have no type, by name.
        functions: Attributes that are functions.
        hooks: Compiled hooks of ``forward``.
    """

    def __init__(self, kind: t.ClassType, module: Module) -> None:
        self.kind = kind
        self.python = type(module)
        self.module = module
        self.library = is_library(type(module))
        self.failed: dict[str, str] = {}
        self.functions: dict[str, Any] = {}
        self.hooks: list[tuple[str, Any]] = []
        self.container, self.names = _container_of(module)
        self.resolve: Any = None
        self.shared: list[Any] = []

    @property
    def kinds(self) -> dict[str, t.JitType]:
        """The types of the parts of a container."""
        return {name: self.kind.attributes[name] for name in self.names}

    def has(self, name: str) -> bool:
        """Whether an instance has an attribute or method."""
        return name in self.functions or hasattr(self.python, name) or name in self.failed

    def why_missing(self, name: str) -> str:
        """Return the reason for which an attribute is missing, as a part of a message."""
        return f" ({self.failed[name]})" if name in self.failed else ""

    def attribute(self, compiler: Compiler, owner: Value, name: str, place: Place) -> Any:
        """Return an attribute that is not a value: a function, a container's method; None for others."""
        if name in self.functions:
            return compiler.wrap(self.functions[name], place, name)
        own = str(getattr(getattr(self.python, name, None), "__module__", "tensocket"))
        if self.container and name in _CONTAINER_METHODS and own.startswith("tensocket"):
            return Special(name, lambda c, where, a, k: _CONTAINER_METHODS[name](self, c, owner, where))
        if name in ("named_modules", "modules", "children", "named_children", "parameters", "named_parameters",
                    "buffers", "named_buffers"):
            return Special(name, lambda c, where, a, k: _walk(self, c, owner, name, where))
        function = inspect.getattr_static(self.python, name, None)
        plain = getattr(function, "__func__", function)
        modifier = modifier_of(plain) if plain is not None else ""
        if modifier in ("ignore", "unused", "drop") and not isinstance(function, property):
            return self._python_method(owner, name, plain, modifier, isinstance(function, staticmethod), place)
        return None

    def _python_method(self, owner: Value, name: str, function: Any, modifier: str, static: bool,
                       place: Place) -> Sugared:
        from tensocket.jit.compiler.wrapping import python_function

        made = python_function(function, modifier, place)
        if static:
            return made
        return _WithReceiver(made, owner, name)

    def call_with_hooks(self, compiler: Compiler, owner: Value, arguments: list[Any], keywords: dict[str, Any],
                        place: Place) -> Any:
        """Call ``forward`` between its hooks."""
        given: Any = compiler.tuple_of([compiler.value(each, place) for each in arguments], place)
        for when, hook in self.hooks:
            if when == "before":
                result = compiler.call_compiled(hook, [owner, given], {}, place)
                if result.kind is not t.NONE:
                    given = result if isinstance(result.kind, t.TupleType) else compiler.tuple_of([result], place)
        parts = compiler.items_of(given, place) or []
        result = compiler.call_object(owner, "forward", parts, keywords, place)
        for when, hook in self.hooks:
            if when == "after":
                changed = compiler.call_compiled(hook, [owner, given, result], {}, place)
                result = result if changed.kind is t.NONE else changed
        return result


class _WithReceiver(Sugared):
    """A method that scripts call as Python."""

    def __init__(self, function: PythonFunction, owner: Value, name: str) -> None:
        self.function, self.owner, self.name = function, owner, name

    def call(self, compiler: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """Call it with its receiver."""
        return self.function.call(compiler, place, [self.owner, *arguments], keywords)


def is_library(kind: type) -> bool:
    """Whether a class is one of the library's layers."""
    forward = getattr(kind, "forward", None)
    module = str(getattr(inspect.unwrap(forward) if callable(forward) else kind, "__module__", ""))
    return module.startswith("tensocket.nn") and kind not in (Sequential, ModuleList, ModuleDict, ParameterList,
                                                             ParameterDict, Module) and not issubclass(
        kind, (Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict)) and forward is not Module.forward


def _container_of(module: Module) -> tuple[str, list[str]]:
    if isinstance(module, (Sequential, ModuleList)):
        return "list", list(module._modules)
    if isinstance(module, ModuleDict):
        return "dict", list(module._modules)
    if isinstance(module, ParameterList):
        return "list", [str(k) for k in range(len(module))]
    if isinstance(module, ParameterDict):
        return "dict", list(module.keys())
    return "", []


def _values(details: ModuleDetails, compiler: Compiler, owner: Value, place: Place) -> list[Any]:
    return [compiler.object_attribute(owner, name, place) for name in details.names]


def _keys(details: ModuleDetails, compiler: Compiler, owner: Value, place: Place) -> list[Any]:
    return [compiler.constant(name, t.STRING, place) for name in details.names]


def _items(details: ModuleDetails, compiler: Compiler, owner: Value, place: Place) -> SugaredTuple:
    pairs = zip(_keys(details, compiler, owner, place), _values(details, compiler, owner, place), strict=True)
    return SugaredTuple([SugaredTuple(pair) for pair in pairs])


_CONTAINER_METHODS: Final[dict[str, Any]] = {
    "items": _items, "keys": lambda d, c, o, p: SugaredTuple(_keys(d, c, o, p)),
    "values": lambda d, c, o, p: SugaredTuple(_values(d, c, o, p)),
}


def _walk(details: ModuleDetails, compiler: Compiler, owner: Value, name: str, place: Place) -> SugaredTuple:
    """Return the parts that a method of ``Module`` lists."""
    found: list[tuple[str, Any]] = []

    def visit(value: Value, path: str, deep: bool) -> None:
        kind = value.kind
        assert isinstance(kind, t.ClassType)
        for each, inner in kind.attributes.items():
            label = f"{path}.{each}" if path else each
            if isinstance(inner, t.ClassType) and inner.is_module:
                part = compiler.object_attribute(value, each, place)
                if name.removeprefix("named_") in ("children", "modules"):
                    found.append((label, part))
                if deep:
                    visit(part, label, deep)
            elif (name.endswith("parameters") and each in kind.parameters) or (
                    name.endswith("buffers") and each in kind.buffers):
                found.append((label, compiler.object_attribute(value, each, place)))

    if name.endswith("modules"):
        found.append(("", owner))
    visit(owner, "", not name.endswith("children"))
    if name.startswith("named_"):
        return SugaredTuple([SugaredTuple([compiler.constant(label, t.STRING, place), part]) for label, part in found])
    return SugaredTuple([part for _, part in found])


class Super(Sugared):
    """``super()`` in a method.

    Args:
        owner: The instance.
        after: The class after which the search for methods begins.
    """

    def __init__(self, owner: Value, after: Any) -> None:
        self.owner, self.after = owner, after

    def attribute(self, compiler: Compiler, place: Place, name: str) -> Any:
        """Return a method of a base class."""
        kind = self.owner.kind
        assert isinstance(kind, t.ClassType)
        classes = list(kind.python.__mro__)
        rest = classes[classes.index(self.after) + 1:] if self.after in classes else classes[1:]
        for base in rest:
            if name in vars(base):
                method = base_method(kind, base, name)
                return Special(name, lambda c, where, a, k, method=method: c.call_compiled(method, a, k, where,
                                                                                           self.owner))
        return super().attribute(compiler, place, name)


def base_method(kind: t.ClassType, base: type, name: str) -> CompiledFunction:
    """Return a method of a base class, compiled for a type under a name of its own."""
    label = f"{base.__name__}_{name}"
    if label not in kind.methods:
        from tensocket.jit.compiler.method_compilation import compile_method

        compile_method(kind, vars(base)[name], label)
    return kind.methods[label]  # type: ignore[no-any-return]


# ---------------------------------------------------------------------------------------- types of instances

_STORE: Final[dict[type, list[tuple[Any, t.ClassType]]]] = {}
_COUNTS: Final[dict[str, int]] = {}


def clear_store() -> None:
    """Forget the types of all modules."""
    _STORE.clear()
    _COUNTS.clear()


def unique_name(name: str) -> str:
    """Return a qualified name that no other type has."""
    count = _COUNTS.get(name, 0)
    _COUNTS[name] = count + 1
    head, _, tail = name.rpartition(".")
    return name if count == 0 else f"{head}.___torch_mangle_{count - 1}.{tail}"


def type_of(module: Module, share: bool = True) -> t.ClassType:
    """Return the type of a module. Instances of a class with equal types and constants share one, if asked to."""
    from tensocket.jit.modules import ScriptModule

    if isinstance(module, ScriptModule) and "_type" in module.__dict__:
        return module._type
    kind = t.ClassType("", type(module), is_module=True)
    details = kind.details = ModuleDetails(kind, module)
    _collect(kind, details, module)
    key = (details.container, tuple(details.names), tuple(kind.attributes.items()), _constants_key(kind.constants),
           frozenset(kind.parameters), frozenset(kind.buffers), tuple(details.failed),
           tuple((name, id(each)) for name, each in details.functions.items()), _hooks_key(module))
    known = _STORE.setdefault(type(module), [])
    for each, same in known:
        if share and each == key:
            return same
    kind.name = unique_name(qualified(type(module)))
    from tensocket.jit.compiler.method_compilation import prepare

    prepare(kind, module)
    if share:
        known.append((key, kind))
    return kind


def refresh(kind: t.ClassType, module: Module) -> None:
    """Add the attributes to a type that an instance got after the type was made."""
    known = dict(kind.attributes)
    _collect(kind, kind.details, module)
    kind.attributes.update(known)


def _hooks_key(module: Module) -> tuple[int, ...]:
    return tuple(id(hook) for hook in [*module._forward_pre_hooks.values(), *module._forward_hooks.values()])


def _constants_key(constants: dict[str, Any]) -> Any:
    def key(value: Any) -> Any:
        return (type(value), tuple(map(key, value))) if isinstance(value, (list, tuple)) else (type(value), repr(value))

    return tuple((name, key(value)) for name, value in constants.items())


def _collect(kind: t.ClassType, details: ModuleDetails, module: Module) -> None:
    """Set the attributes of a type from an instance."""
    annotations = _class_annotations(type(module))
    constants = constant_names(type(module), annotations)
    for name, value in module._parameters.items():
        kind.attributes[name] = t.NONE if value is None else t.TENSOR
        kind.parameters.add(name)
        if value is None and name in annotations and not details.library:
            kind.attributes[name] = _declared(annotations[name], module) or t.NONE
    for name, buffer in module._buffers.items():
        kind.attributes[name] = t.NONE if buffer is None else t.TENSOR
        kind.buffers.add(name)
        if name in annotations and not details.library:
            kind.attributes[name] = _declared(annotations[name], module) or kind.attributes[name]
    for name, part in module._modules.items():
        if part is None:
            kind.attributes[name] = t.NONE
            continue
        declared = _declared(annotations[name], module) if name in annotations else None
        kind.attributes[name] = declared if isinstance(declared, t.InterfaceType) else type_of(part)
    for name in constants:
        if name in kind.attributes:
            continue
        if hasattr(module, name):
            kind.constants[name] = _constant(name, getattr(module, name))
    _collect_rest(kind, details, module, annotations)


def _constant(name: str, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_constant(name, each) for each in value)
    return value


def _collect_rest(kind: t.ClassType, details: ModuleDetails, module: Module, annotations: dict[str, Any]) -> None:
    from tensocket.jit import Attribute
    from tensocket.jit.compiler.wrapping import compiled_of

    kind.attributes["training"] = t.BOOL
    for name, value in vars(module).items():
        if name in _HIDDEN or name in kind.attributes or name in kind.constants:
            continue
        if isinstance(value, Attribute):
            kind.attributes[name] = from_python(value.type)
            continue
        if name in annotations:
            declared = _declared(annotations[name], module)
            if declared is not None:
                kind.attributes[name] = declared
                continue
        if compiled_of(value) is not None or isinstance(value, (types.FunctionType, types.BuiltinFunctionType)) or (
                callable(value) and str(getattr(value, "__module__", "")).startswith("tensocket")
                and not isinstance(value, (type, Module)) and from_value(value) is None):
            details.functions[name] = value
            continue
        try:
            found = from_value(value)
        except (ScriptError, RuntimeError) as error:
            found, reason = None, str(error).split("\n", 1)[0]
        else:
            reason = f"an attribute of type '{type(value).__name__}' that scripts do not have"
        if found is None:
            details.failed[name] = reason
        else:
            kind.attributes[name] = found


def _declared(annotation: Any, module: Module) -> t.JitType | None:
    from tensocket.jit.annotations import from_tree
    from tensocket.jit.compiler.closures import resolver_of_class

    try:
        if isinstance(annotation, str):
            import ast

            return from_tree(ast.Constant(annotation), resolver_of_class(type(module)))
        return from_python(annotation)
    except ScriptError:
        return None


def _class_annotations(kind: type) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("tensocket"):
            found.update(inspect.get_annotations(base))
    return found


def constant_names(kind: type, annotations: dict[str, Any]) -> list[str]:
    """Return the names that a class declares as constants."""
    names = list(getattr(kind, "__constants__", ()))
    for name, annotation in annotations.items():
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__origin__", annotation)
        if "Final" in str(text).split("[")[0]:
            names.append(name)
    return list(dict.fromkeys(names))


__all__ = ["Argument", "BoundMethod", "FunctionValue", "ModuleDetails", "Super", "clear_store", "resolver_of",
           "type_of",
           "unique_name"]
