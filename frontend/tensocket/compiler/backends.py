"""Backends by name, and the graphs of public functions that they get."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from tensocket._C import _set_grad_enabled
from tensocket._subclasses.fake_tensor import FakeTensorMode, UnsupportedFakeTensorException
from tensocket.fx.graph_module import GraphModule
from tensocket.fx.node import NAMESPACES, public_equivalent
from tensocket.fx.proxy import GraphAppendingTracer
from tensocket.nn import Module
from tensocket.overrides import is_tensor_method_or_property, resolve_name
from tensocket_compiler.capture.recorder import CannotRecord
from tensocket_compiler.errors import BackendCompilerFailed, InvalidBackend
from tensocket_compiler.graph.graph import Graph
from tensocket_compiler.graph.node import Node
from tensocket_operators import Tensor
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError

#: Gets a graph module and the tensors of its placeholders, and returns the function that computes its outputs.
Backend = Callable[..., Callable[..., Any]]
#: Methods that stand for operators of Python.
_OPERATORS: Final = {"__getitem__": operator.getitem, "__setitem__": operator.setitem}

#: Modules with public functions.
_SPACES: Final = ("tensocket", "tensocket.nn.functional", "tensocket.linalg", "tensocket.fft", "tensocket.special")


@dataclass(frozen=True, slots=True)
class _Known:
    """A registered backend: its function, which is None for the compiler itself, and its tags."""

    function: Backend | None
    tags: tuple[str, ...] = ()


def _run_graph(gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """Run a graph as it is."""
    return gm.forward


#: Backends by name. ``register_backend`` adds more; none is ever removed.
_KNOWN: Final[dict[str, _Known]] = {
    "inductor": _Known(None), "tensocket": _Known(None), "eager": _Known(_run_graph, ("debug",)),
    "aot_eager": _Known(_run_graph, ("debug",))}


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """Return the names of backends without those that have a tag of ``exclude_tags``."""
    hidden = set(exclude_tags or ())
    return sorted(name for name, known in _KNOWN.items() if not hidden.intersection(known.tags))


def register_backend(compiler_fn: Backend | None = None, name: str | None = None, tags: Sequence[str] = ()) -> Any:
    """Give a backend a name for ``compile(backend=name)``; without a function, return a decorator.

    Raises:
        ArgumentError: Another backend has the name.
        ArgumentTypeError: The backend is not callable.
    """
    if compiler_fn is None:
        return lambda function: register_backend(function, name, tags)
    if not callable(compiler_fn):
        raise ArgumentTypeError("register_backend", f"a {type(compiler_fn).__name__}", "a backend is a function of a "
                                "graph module and example inputs", "pass a function")
    known = name or compiler_fn.__name__
    if known in _KNOWN:
        raise ArgumentError("register_backend", f"name={known!r}", "duplicate name: each backend has a name of its own",
                            "choose another name")
    _KNOWN[known] = _Known(compiler_fn, tuple(tags))
    return compiler_fn


#: Public functions that ``torch._dynamo.disallow_in_graph`` keeps out of graphs.
DISALLOWED: Final[set[Any]] = set()
#: The backend of ``compile`` without one.
_DEFAULT: Final[list[Any]] = ["inductor"]


def get_default_backend() -> str | Backend:
    """Return the backend of ``compile`` without one."""
    found: str | Backend = _DEFAULT[0]
    return found


def set_default_backend(backend: str | Backend | None) -> None:
    """Set the backend of ``compile`` without one; None stands for ``inductor``.

    Raises:
        InvalidBackend: No backend has the name.
    """
    find_backend("inductor" if backend is None else backend)
    _DEFAULT[0] = "inductor" if backend is None else backend


def find_backend(backend: Any) -> Backend | None:
    """Return the function of a backend, given or by name; the function of the compiler itself is None.

    Args:
        backend: A name or a function; None stands for the default backend.

    Raises:
        InvalidBackend: No backend has the name.
        ArgumentTypeError: It is neither a name nor a function.
    """
    if backend is None:
        backend = get_default_backend()
    if isinstance(backend, str):
        known = _KNOWN.get(backend)
        if known is None:
            raise InvalidBackend("compile", f"backend={backend!r}",
                                 f"Invalid backend: backends are {', '.join(_KNOWN)}",
                                 "pass one of them, or a function; see torch._dynamo.list_backends()")
        return known.function
    if not callable(backend):
        raise ArgumentTypeError("compile", f"backend of type {type(backend).__name__}",
                                "a backend is a name or a function", "pass a name of list_backends(), or a function")
    return backend  # type: ignore[no-any-return]


def _compile_here(gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """Compile a graph by the compiler itself."""
    from .compiling import compile as compile_function

    compiled: Callable[..., Any] = compile_function(gm, **options)
    return compiled


def lookup_backend(compiler_fn: str | Backend) -> Backend:
    """Return a backend's function, given itself or by name.

    Raises:
        InvalidBackend: No backend has the name.
    """
    return find_backend(compiler_fn) or _compile_here


class _Arguments(GraphAppendingTracer):
    """A tracer that only converts constants to arguments of nodes."""

    def __init__(self) -> None:
        super().__init__(Graph())


class BackendLowering:
    """Names of functions in graphs, and one backend.

    Args:
        backend: The backend.
        options: Keyword arguments that it gets beside the graph and the example inputs.
    """

    def __init__(self, backend: Backend, options: dict[str, Any]) -> None:
        self.backend, self.options = backend, options
        for space in NAMESPACES:  # the search for names imports them; guards must not see that
            import_module("tensocket" + space.removeprefix("torch"))
        resolve_name(Tensor.add)
        self._arguments = _Arguments()
        self.set_grad_enabled: Callable[..., Any] = _set_grad_enabled

    def name_call(self, function: Any) -> tuple[str, Any]:
        """Return the op and the target of the node that calls a function.

        Raises:
            CannotRecord: The program keeps the function out of graphs.
        """
        op, target = self._name(function)
        if DISALLOWED and any(x in DISALLOWED for x in (function, target, getattr(Tensor, str(target), None))):
            raise CannotRecord(f"it calls {getattr(function, '__name__', function)}(), which disallow_in_graph() "
                               "keeps out of graphs")
        return op, target

    @staticmethod
    def _name(function: Any) -> tuple[str, Any]:
        name = str(getattr(function, "__name__", "")).removeprefix("method_")
        method = str(resolve_name(function) or name).rpartition(".")[2]
        if method in _OPERATORS:
            return "call_function", _OPERATORS[method]
        if is_tensor_method_or_property(function) or (_is_only_method(method) and inspect.isfunction(function)):
            return "call_method", method
        return "call_function", public_equivalent(function) if inspect.isfunction(function) else function

    def create_argument(self, value: Any) -> Any:
        """Return a constant as a node holds it."""
        return self._arguments.create_arg(value)

    def parameter_names(self, function: Any) -> list[str]:
        """Return the names of a function's parameters by position; those of a module's ``forward``."""
        try:
            parameters = inspect.signature(function.forward if isinstance(function, Module) else function).parameters
        except (TypeError, ValueError):
            return []
        return [name for name, x in parameters.items() if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)]

    def compile(self, graph: Graph, inputs: list[Any], values: dict[Node, Any]) -> tuple[Any, Callable[..., Any]]:
        """Return the graph as a module, and the function that the backend makes of it.

        Raises:
            CannotRecord: A tensor's class has no form without elements.
            BackendCompilerFailed: The backend raised, or its result cannot be called.
        """
        fake = FakeTensorMode(allow_non_fake_inputs=True)
        for node, value in values.items():
            node.meta["example_value"] = node.meta["val"] = _without_values(fake, value)
        graph.lint()
        module = GraphModule({}, graph)
        name = getattr(self.backend, "__name__", type(self.backend).__name__)
        try:
            compiled = self.backend(module, inputs, **self.options)
        except Exception as error:
            raise BackendCompilerFailed("compile", f"backend={name!r} raised: {type(error).__name__}: {error}",
                                        "a backend returns a function that computes its graph",
                                        "correct the backend, or set torch._dynamo.config.suppress_errors") from error
        if not callable(compiled):
            raise BackendCompilerFailed("compile", f"backend={name!r} returned a {type(compiled).__name__}",
                                        "compiler_fn did not return callable: a backend returns a function that "
                                        "computes its graph", "return gm.forward, or another function")
        return module, compiled


def _is_only_method(name: str) -> bool:
    """Whether tensors have a method of this name, and no public module a function."""
    return hasattr(Tensor, name) and not any(hasattr(import_module(space), name) for space in _SPACES)


def _without_values(fake: FakeTensorMode, value: Any) -> Any:
    if hasattr(value, "_key"):
        try:
            found = fake.from_tensor(value.detach())  # the mode keeps weak references to what it gets
        except UnsupportedFakeTensorException:
            raise CannotRecord(f"it computes with a {type(value).__name__}, whose results have no shape without "
                               "elements") from None
        return found.requires_grad_() if value.requires_grad else found
    if isinstance(value, (tuple, list)):
        items = [_without_values(fake, item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
