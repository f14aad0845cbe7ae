"""The objects that ``script`` and ``trace`` return: the function or module itself, called eagerly."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from tensocket.errors import ExportError
from tensocket.nn import Module
from tensocket.notices import note
from tensocket_plugins.contract.errors import ArgumentTypeError


def _text(what: str) -> ExportError:
    return ExportError(what, "a script", "scripts are not translated, so that there is no graph and no code",
                       "look at the Python source")


class ScriptFunction:
    """A function that was passed to ``script`` or ``trace``.

    Args:
        function: The original.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the original."""
        return self._function(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self) -> Any:
        return ScriptFunction, (self._function,)

    @property
    def name(self) -> str:
        """The original's name."""
        return str(getattr(self._function, "__name__", ""))

    @property
    def graph(self) -> Any:
        """Refuse: there is no graph.

        Raises:
            ExportError: Always.
        """
        raise _text("graph")

    @property
    def code(self) -> str:
        """Refuse: there is no code.

        Raises:
            ExportError: Always.
        """
        raise _text("code")

    def save(self, f: Any, **options: Any) -> None:
        """Write the function to a file, as ``jit.save`` does."""
        import tensocket

        tensocket.jit.save(self, f)


class ScriptModule(Module):
    """A module that was passed to ``script`` or ``trace``, or whose class derives from this one."""

    _of: type[Module] | None = None

    @property
    def original_name(self) -> str:
        """Name of the class."""
        return (self._of or type(self)).__name__

    graph = ScriptFunction.graph
    code = ScriptFunction.code
    inlined_graph = graph
    save = ScriptFunction.save

    def __reduce_ex__(self, protocol: Any) -> Any:
        return super().__reduce_ex__(protocol) if self._of is None else (scripted, (original(self),))


RecursiveScriptModule = ScriptModule
TopLevelTracedModule = ScriptModule


_CLASSES: Final[dict[type[Module], type[Any]]] = {}


def _scripted_class(kind: type[Module]) -> type[Any]:
    if kind in _CLASSES:
        return _CLASSES[kind]
    members = {"_of": kind, "__doc__": kind.__doc__, "__module__": kind.__module__}
    _CLASSES[kind] = type(kind.__name__, (kind, ScriptModule), members)
    return _CLASSES[kind]


def scripted(module: Module) -> ScriptModule:
    """Return the same module as an instance of ``ScriptModule``: parameters, submodules and mode are shared."""
    if isinstance(module, ScriptModule):
        return module
    kind = _scripted_class(type(module))
    same: ScriptModule = object.__new__(kind)
    same.__dict__ = module.__dict__
    return same


def original(module: Module) -> Module:
    """Return the module that was passed to ``script``, or one that represents it."""
    kind: type[Module] | None = getattr(module, "_of", None)
    if kind is None:
        return module
    same = kind.__new__(kind)
    same.__dict__ = module.__dict__
    return same


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """Return a function, module or class unchanged, to be called eagerly, with one notice.

    Args:
        obj: The function or module that PyTorch would compile.
        optimize: Accepted as in PyTorch, like the arguments after it.
        example_inputs: Inputs for the inference of types.

    Raises:
        ArgumentTypeError: ``obj`` is none of these.
    """
    note("jit.script", "scripts are not translated yet; they run eagerly as Python")
    return _as_script("script", obj)


def _as_script(operator: str, obj: Any) -> Any:
    if isinstance(obj, Module):
        return scripted(obj)
    if isinstance(obj, (type, dict, list, ScriptFunction)):
        return obj
    if not callable(obj):
        raise ArgumentTypeError(operator, f"a {type(obj).__name__}", "functions and modules become scripts",
                                "pass something that can be called")
    return ScriptFunction(obj)


def trace(func: Any, example_inputs: Any = None, optimize: Any = None, check_trace: bool = True,
          check_inputs: Any = None, check_tolerance: float = 1e-5, strict: bool = True, _force_outplace: bool = False,
          _module_class: Any = None, _compilation_unit: Any = None, example_kwarg_inputs: Any = None,
          _store_inputs: bool = True) -> Any:
    """Return a function or module unchanged, after one call with the example inputs, with one notice.

    Args:
        func: The function or module that PyTorch would record.
        example_inputs: A tensor, or positional arguments.
        optimize: Accepted as in PyTorch, like the others.
        check_trace: Whether to compare results.
        check_inputs: Inputs for the comparison.
        check_tolerance: Tolerance of the comparison.
        strict: Whether mutable containers are refused.
        example_kwarg_inputs: Named arguments, instead of ``example_inputs``.
    """
    note("jit.trace", "calls are not recorded yet; functions run eagerly as Python")
    result = _as_script("trace", func)
    positional = example_inputs if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    if example_kwarg_inputs is not None:
        func(**example_kwarg_inputs)
    elif example_inputs is not None:
        func(*positional)
    return result


def trace_module(mod: Module, inputs: dict[str, Any], *args: Any, **options: Any) -> Any:
    """Return a module unchanged, after one call of each method in ``inputs``, with one notice."""
    for name, given in inputs.items():
        getattr(mod, name)(*(given if isinstance(given, (tuple, list)) else (given,)))
    return trace(mod)
