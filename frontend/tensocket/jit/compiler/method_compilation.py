"""Methods of modules and scripted classes: which ones are compiled, and when."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from tensocket.jit.compiler.closures import first_of, resolver_of, resolver_of_class
from tensocket.jit.compiler.compilation import compile_tree
from tensocket.jit.frontend import ScriptError, Source, definition, source_of
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.functions import MISSING, Argument, CompiledFunction, FunctionSchema
from tensocket.jit.markers import modifier_of
from tensocket.nn import Module, Sequential

_SEQUENTIAL: Final = """def forward(self, input):
    for module in self:
        input = module(input)
    return input
"""
#: Results of ``forward`` of layers that return more than one tensor, by class.
_RESULTS: Final[dict[str, t.JitType]] = {
    "LSTM": t.TupleType([t.TENSOR, t.TupleType([t.TENSOR, t.TENSOR])]),
    "GRU": t.TupleType([t.TENSOR, t.TENSOR]), "RNN": t.TupleType([t.TENSOR, t.TENSOR]),
    "LSTMCell": t.TupleType([t.TENSOR, t.TENSOR]),
    "MultiheadAttention": t.TupleType([t.TENSOR, t.optional(t.TENSOR)]),
}


def prepare(kind: t.ClassType, module: Module) -> None:
    """Let a type compile the methods of an instance, and compile its hooks and exported methods."""
    details = kind.details
    kind.compile_method = lambda name: _compile_named(kind, module, name)
    if details.library:
        return
    for name, member in _members(type(module)):
        if isinstance(member, property):
            _property(kind, module, name, member)
    for when, hooks in (("before", module._forward_pre_hooks), ("after", module._forward_hooks)):
        for hook in hooks.values():
            details.hooks.append((when, _hook(kind, hook)))


def _members(kind: type) -> list[tuple[str, Any]]:
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("tensocket"):
            found.update(vars(base))
    return list(found.items())


def compile_entry_points(kind: t.ClassType, module: Module) -> None:
    """Compile ``forward``, exported methods and properties of a module, and those of its parts."""
    for attribute in list(kind.attributes.values()):
        if isinstance(attribute, t.ClassType) and attribute.is_module and not attribute.is_interface and \
                hasattr(attribute.details, "module"):
            compile_entry_points(attribute, attribute.details.module)
    if kind.details.library or not hasattr(kind.details, "module"):
        return
    for name in entry_points(type(module)):
        kind.method(name)
    for getter, setter in kind.properties.values():
        kind.method(getter)
        if setter:
            kind.method(setter)


def entry_points(kind: type) -> list[str]:
    """Return the names of the methods that are compiled although none calls them."""
    names = []
    forward = getattr(kind, "forward", None)
    own = forward is not None and forward is not Module.forward
    if (own and modifier_of(forward) not in ("ignore", "unused")) or issubclass(kind, Sequential):
        names.append("forward")
    for name in dir(kind):
        member = inspect.getattr_static(kind, name, None)
        if modifier_of(member) == "export" and name not in names:
            names.append(name)
    return names


def _property(kind: t.ClassType, module: Module, name: str, member: property) -> None:
    unused = getattr(type(module), "__jit_unused_properties__", ()) or ()
    ignored = getattr(type(module), "__jit_ignored_attributes__", ()) or ()
    if name in unused or name in ignored or modifier_of(member.fget) in ("ignore", "unused"):
        return
    getter, setter = f"__{name}_getter", f"__{name}_setter" if member.fset is not None else None
    kind.properties[name] = (getter, setter)


def _hook(kind: t.ClassType, hook: Any) -> CompiledFunction:
    """Compile a hook, whose first argument is the module."""
    label = f"hook_{getattr(hook, '__name__', 'hook')}_{len(kind.details.hooks)}"
    compile_method(kind, hook, label)
    return kind.methods[label]  # type: ignore[no-any-return]


def _compile_named(kind: t.ClassType, module: Module, name: str) -> CompiledFunction | None:
    """Compile the method of a name, or return None if the class has none."""
    if kind.details.library and name == "forward":
        return _library_method(kind, name)
    for label, (getter, setter) in kind.properties.items():
        member = inspect.getattr_static(type(module), label)
        if name == getter:
            return compile_method(kind, member.fget, name)
        if name == setter:
            return compile_method(kind, member.fset, name)
    member = inspect.getattr_static(type(module), name, None)
    if name == "forward" and getattr(type(module), "forward", None) is Sequential.forward:
        return _from_text(kind, _SEQUENTIAL)
    if name in vars(module) and inspect.ismethod(vars(module)[name]):
        member = vars(module)[name].__func__
    if member is None or modifier_of(member) in ("ignore", "unused", "drop"):
        return None
    plain = getattr(member, "__func__", member)
    if not inspect.isfunction(plain) or (plain.__module__.startswith("tensocket") and hasattr(Module, name)):
        return None
    if plain.__module__.startswith("tensocket.nn"):
        return _library_method(kind, name)
    return compile_method(kind, member, name)


def _from_text(kind: t.ClassType, text: str) -> CompiledFunction:
    source = Source(text, "<torch.nn>", name="forward")
    tree = definition(source)
    made = CompiledFunction("forward", f"{kind.name}.forward", FunctionSchema("forward", [], t.NEVER), owner=kind,
                            source=source)
    kind.methods["forward"] = made
    compile_tree(made, tree, source, _nothing)
    return made


def _nothing(name: str) -> Any:
    raise KeyError(name)


def _library_method(kind: t.ClassType, name: str) -> CompiledFunction | None:
    """Return a method of one of the library's layers, which runs as it is."""
    return library_method(kind, kind.details.module, name)


def library_method(kind: t.ClassType, module: Module, name: str) -> CompiledFunction | None:
    """Return a method of a layer for a type, None if the layer has none of this name."""
    function = getattr(type(module), name, None)
    if function is None:
        return None
    parameters = list(inspect.signature(function).parameters.values())
    arguments = [Argument("self", kind)]
    for parameter in parameters[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            arguments.append(Argument("input", t.ANY, MISSING))
            break
        default = MISSING if parameter.default is parameter.empty else parameter.default
        # The layer checks its own arguments; scripts know the types of results only.
        arguments.append(Argument(parameter.name, t.ANY, default))
    result: t.JitType = next((_RESULTS[base.__name__] for base in type(module).__mro__ if base.__name__ in _RESULTS),
                             t.TENSOR)
    if getattr(module, "return_indices", False):
        result = t.TupleType([t.TENSOR, t.TENSOR])
    made = CompiledFunction(name, f"{kind.name}.{name}", FunctionSchema(name, arguments, result), owner=kind,
                            python=function)
    kind.methods[name] = made
    return made


def compile_method(kind: t.ClassType, member: Any, name: str, resolve: Callable[[str], Any] | None = None
                   ) -> CompiledFunction:
    """Compile a method of a type.

    Raises:
        ScriptError: It is not a script.
    """
    static = isinstance(member, staticmethod)
    if isinstance(member, classmethod):
        raise ScriptError(f"the class method {name}", "class methods are not scripts", "use a static method")
    plain = inspect.unwrap(getattr(member, "__func__", member))
    owner = getattr(kind.python, "__name__", kind.name.rpartition(".")[2])
    source = replace(source_of(plain), name=f"{owner}.{name}")
    tree = definition(source)
    made = CompiledFunction(name, f"{kind.name}.{name}", FunctionSchema(name, [], t.NEVER), owner=kind, source=source,
                            python=plain, is_static=static)
    kind.methods[name] = made
    lookup = resolve or first_of(resolver_of(plain), resolver_of_class(kind.python or type(plain)))
    try:
        compile_tree(made, tree, source, lookup, plain)
    except BaseException:
        kind.methods.pop(name, None)
        raise
    return made
