"""Scripted modules."""

from __future__ import annotations

import copy
import inspect
from typing import Any

from tensocket.jit.compiler.method_compilation import compile_entry_points
from tensocket.jit.compiler.module_types import refresh, type_of
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.functions import CompiledFunction
from tensocket.jit.markers import modifier_of
from tensocket.jit.script_functions import ScriptMethod
from tensocket.nn import Module


class ScriptMethodStub:
    """A method of a class that derives from ``ScriptModule``; instances have the compiled one."""

    def __init__(self, function: Any) -> None:
        self.function = self.__func__ = function
        function._torchscript_modifier = "export"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self.function
        kind = instance.__dict__.get("_type")
        if kind is None:
            raise RuntimeError(f"[ScriptModule] {self.function.__name__} before the end of __init__ — a method is "
                               f"compiled "
                               "when all attributes exist — call it later")
        return ScriptMethod(instance, kind.method(self.function.__name__))


def script_method(fn: Any) -> Any:
    """Mark a method of a class that derives from ``ScriptModule``: it is compiled when an instance is made."""
    return ScriptMethodStub(fn)


class ScriptMeta(type):
    """The class of ``ScriptModule``: it compiles marked methods after ``__init__``."""

    def __init__(cls, name: str, bases: Any, members: Any) -> None:
        super().__init__(name, bases, members)
        stubs = {n: each for n, each in members.items() if isinstance(each, ScriptMethodStub)}
        own = cls.__dict__.get("__init__")
        if own is None and not stubs:
            return

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        if "_modules" not in made.__dict__:
            raise RuntimeError(f"[{cls.__name__}] an instance without modules — super().__init__() was not called: "
                               f"the module is "
                               "not initialized — call it first in __init__")
        if isinstance(made, RecursiveScriptModule):
            return made
        if "_type" in made.__dict__:
            _script_parts(made)
            refresh(made._type, made)
            return made
        _compile_instance(made)
        return made


def _script_parts(module: Any) -> None:
    for name, part in list(module._modules.items()):
        if part is not None and not isinstance(part, ScriptModule):
            module._modules[name] = scripted(part)


def _compile_instance(module: Any) -> None:
    _script_parts(module)
    kind = type_of(module, share=False)
    module.__dict__["_type"] = kind
    for base in reversed(type(module).__mro__):
        for name, member in vars(base).items():
            if isinstance(member, ScriptMethodStub):
                kind.method(name)


class ScriptModule(Module, metaclass=ScriptMeta):
    """A module whose methods are scripts. A class may derive from it and mark methods with ``script_method``."""

    _type: t.ClassType

    @property
    def original_name(self) -> str:
        """Name of the class that was compiled."""
        kind = self.__dict__.get("_type")
        return type(self).__name__ if kind is None else kind.name.rpartition(".")[2]

    def _compiled_method(self, name: str) -> CompiledFunction:
        method = self._type.method(name)
        if method is None:
            raise AttributeError(f"'{self.original_name}' has no method '{name}'")
        return method  # type: ignore[no-any-return]

    @property
    def forward(self) -> Any:
        """The compiled ``forward``."""
        kind = self.__dict__.get("_type")
        method = None if kind is None else kind.method("forward")
        if method is None:
            raise NotImplementedError(f"[{self.original_name}] forward — the module has no forward — call another "
                                      f"method")
        return ScriptMethod(self, method)

    @forward.setter
    def forward(self, value: Any) -> None:
        raise AttributeError("a scripted module's forward cannot be replaced")

    @property
    def graph(self) -> Any:
        """The graph of ``forward``."""
        return ScriptMethod(self, self._compiled_method("forward")).graph

    @property
    def inlined_graph(self) -> Any:
        """The graph of ``forward``, with the graphs of the functions that it calls in their place."""
        return ScriptMethod(self, self._compiled_method("forward")).inlined_graph

    @property
    def code(self) -> str:
        """The code of ``forward``."""
        return ScriptMethod(self, self._compiled_method("forward")).code

    @property
    def code_with_constants(self) -> Any:
        """The code of ``forward``, and its constants."""
        return ScriptMethod(self, self._compiled_method("forward")).code_with_constants

    @property
    def forward_magic_method(self) -> Any:
        """The method that a call runs."""
        return self.forward

    def define(self, src: str) -> None:
        """Compile methods that a text defines, and add them."""
        from tensocket.jit.compiler.closures import resolver_of_frame
        from tensocket.jit.compiler.compilation import bodies, compile_tree
        from tensocket.jit.graph.functions import FunctionSchema

        resolve = resolver_of_frame(1)
        _script_parts(self)
        if "_type" not in self.__dict__:
            self.__dict__["_type"] = type_of(self, share=False)
        refresh(self._type, self)
        for tree, source in bodies(src):
            made = CompiledFunction(tree.name, f"{self._type.name}.{tree.name}", FunctionSchema(tree.name, [], t.NEVER),
                                    owner=self._type, source=source)
            self._type.methods[tree.name] = made
            compile_tree(made, tree, source, resolve)

    def save(self, f: Any, **options: Any) -> None:
        """Write the module to a file, as ``jit.save`` does."""
        from tensocket.jit.entry_points import save

        save(self, f, **options)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        """Return the contents of the file that ``save`` writes."""
        from tensocket.jit.files.archive import to_bytes

        return to_bytes(self, _extra_files)

    def get_debug_state(self) -> Any:
        """Return the compiled ``forward``."""
        return self._compiled_method("forward")

    def copy(self) -> Any:
        """Return a copy that shares parameters, buffers and attributes, but not the modules."""
        made = copy.copy(self)
        made.__dict__.update({n: dict(v) for n, v in self.__dict__.items() if n in ("_parameters", "_buffers")})
        made.__dict__["_modules"] = {n: m.copy() if isinstance(m, ScriptModule) else m for n, m
                                     in self._modules.items()}
        return made

    def __getattr__(self, name: str) -> Any:
        kind = self.__dict__.get("_type")
        if kind is not None and name in kind.methods:
            return ScriptMethod(self, kind.methods[name])
        if kind is not None and name in kind.properties:
            return kind.method(kind.properties[name][0]).checked(self)
        if kind is not None and name in kind.constants:
            return kind.constants[name]
        return super().__getattr__(name)

    def __copy__(self) -> Any:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        import pickle

        raise pickle.PickleError("[ScriptModule] pickle of a script — ScriptModules cannot be pickled — save it with "
                                 "torch.jit.save")

    def __deepcopy__(self, memo: Any) -> Any:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        for name, value in self.__dict__.items():
            made.__dict__[name] = value if name == "_type" else copy.deepcopy(value, memo)
        return made


class RecursiveScriptModule(ScriptModule):
    """A module that ``script``, ``trace`` or ``load`` made."""

    def __init__(self, kind: t.ClassType | None = None) -> None:
        super().__init__()
        if kind is not None:
            self.__dict__["_type"] = kind

    def _get_name(self) -> str:
        return "RecursiveScriptModule"

    def extra_repr(self) -> str:
        """Return the name of the class that was compiled."""
        return f"original_name={self.original_name}"

    def __len__(self) -> int:
        return self._container().__len__()  # type: ignore[no-any-return]

    def _container(self) -> Any:
        details = self._type.details
        if "__len__" in self._type.methods:
            return _Methods(self)
        if details is None or not details.container:
            raise TypeError(f"object of type '{self.original_name}' has no len()")
        if details.names and details.names[0] in self._parameters:
            return {name: self._parameters[name] for name in details.names}
        return dict(self._modules)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Any:
        parts = self._container()
        return iter(parts if self._type.details.container == "dict" else list(parts.values()))

    def __contains__(self, key: Any) -> bool:
        if self._type.method("__contains__") is not None:
            return bool(self._type.method("__contains__").checked(self, key))
        return key in self._container()

    def __getitem__(self, key: Any) -> Any:
        if self._type.method("__getitem__") is not None:
            return self._type.method("__getitem__").checked(self, key)
        parts = self._container()
        return parts[key] if self._type.details.container == "dict" else list(parts.values())[key]

    def keys(self) -> Any:
        """Return the keys of a ``ModuleDict``."""
        return self._container().keys()

    def items(self) -> Any:
        """Return keys and modules of a ``ModuleDict``."""
        return self._container().items()

    def values(self) -> Any:
        """Return the modules of a ``ModuleDict``."""
        return self._container().values()

    def __setattr__(self, name: str, value: Any) -> None:
        kind = self.__dict__.get("_type")
        if kind is not None and name in kind.properties and kind.properties[name][1]:
            kind.method(kind.properties[name][1]).checked(self, value)
            return
        if kind is not None and name in kind.constants:
            raise AttributeError(f"Cannot mutate TorchScript constant value: '{name}'. Value: '{kind.constants[name]}'")
        if kind is not None and name in kind.attributes and name not in kind.parameters and name not in kind.buffers:
            attribute = kind.attributes[name]
            if not (isinstance(attribute, t.ClassType) and attribute.is_module):
                self.__dict__[name] = value
                return
        super().__setattr__(name, value)

    def __dir__(self) -> Any:
        return [*super().__dir__(), *self._type.methods, *self._type.attributes]


class _Methods:
    def __init__(self, module: Any) -> None:
        self.module = module

    def __len__(self) -> int:
        return int(self.module._type.method("__len__").checked(self.module))


class TopLevelTracedModule(RecursiveScriptModule):
    """A module that ``trace`` made."""

    def _get_name(self) -> str:
        return "TopLevelTracedModule"


TracedModule = TopLevelTracedModule


def script_type_of(kind: type) -> t.JitType | None:
    """Return the type of a class of modules in annotations: an interface's; None for others."""
    from tensocket.jit.compiler.classes import compiled_type

    return compiled_type(kind)


_LIBRARY: dict[type, type[Any]] = {}


def _wrapper_class(details: Any) -> type[Any]:
    """Return the class of the wrapper of a module; a layer's keeps the layer's methods."""
    if not details.library:
        return RecursiveScriptModule
    if details.python not in _LIBRARY:
        members = {"forward": details.python.forward, "__doc__": details.python.__doc__,
                   "extra_repr": RecursiveScriptModule.extra_repr, "__setattr__": Module.__setattr__,
                   "__getattr__": _layer_attribute}
        bases = (RecursiveScriptModule, details.python)
        _LIBRARY[details.python] = ScriptMeta(details.python.__name__, bases, members)
    return _LIBRARY[details.python]


def layer_wrapper(module: Module, kind: t.ClassType) -> Any:
    """Return a layer of the library as a script of a type."""
    from types import SimpleNamespace

    wrapper: Any = _wrapper_class(SimpleNamespace(library=True, python=type(module)))
    made = wrapper.__new__(wrapper)
    made.__dict__.update(vars(module))
    made.__dict__["_type"] = kind
    return made


def _layer_attribute(self: Any, name: str) -> Any:
    return Module.__getattr__(self, name)


def scripted(module: Module, memo: dict[int, Any] | None = None) -> Any:
    """Return a module as a script: parameters and buffers are shared.

    Raises:
        ScriptError: A method is not a script.
    """
    if isinstance(module, ScriptModule):
        return module
    kind = type_of(module)
    compile_entry_points(kind, module)
    return wrapped(module, kind, {} if memo is None else memo)


def wrapped(module: Module, kind: t.ClassType, memo: dict[int, Any]) -> Any:
    """Return the object that runs a compiled type with the state of a module."""
    if id(module) in memo:
        return memo[id(module)]
    if isinstance(module, ScriptModule):
        return module
    wrapper: Any = _wrapper_class(kind.details)
    made = memo[id(module)] = wrapper.__new__(wrapper)
    made.__dict__.update({name: value for name, value in vars(module).items() if name != "_modules"})
    for name in ("_parameters", "_buffers"):
        made.__dict__[name] = dict(vars(module)[name])
    made.__dict__["_type"] = kind
    made.__dict__["_modules"] = {name: None if part is None else wrapped(part, part_type(kind, name, part), memo)
                                 for name, part in module._modules.items()}
    from tensocket.jit import Attribute

    for name, value in list(made.__dict__.items()):
        if isinstance(value, Attribute):
            made.__dict__[name] = value.value
        if name in kind.constants or (inspect.ismethod(value) and value.__self__ is module):
            del made.__dict__[name]
    if not kind.details.library:
        _bind_python_methods(made, module)
    return made


def part_type(kind: t.ClassType, name: str, part: Module) -> t.ClassType:
    """Return the type of a part of a module, whose attribute may have that of an interface."""
    declared = kind.attributes[name]
    if isinstance(declared, t.InterfaceType) or not isinstance(declared, t.ClassType):
        found = type_of(part)
        compile_entry_points(found, part)
        return found
    return declared


def _bind_python_methods(made: Any, module: Module) -> None:
    for name in dir(type(module)):
        member = inspect.getattr_static(type(module), name, None)
        if inspect.isfunction(member) and modifier_of(member) in ("ignore", "unused", "drop"):
            made.__dict__[name] = member.__get__(made)


__all__ = ["RecursiveScriptModule", "ScriptMethodStub", "ScriptModule", "TopLevelTracedModule", "TracedModule",
           "script_method", "scripted", "wrapped"]
