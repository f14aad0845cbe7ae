"""Values of a program that is recorded: each operation on a proxy becomes a node."""

from __future__ import annotations

import enum
import inspect
import operator
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from types import FrameType
from typing import Any, ClassVar, Final

from tensocket.errors import ArgumentError, TensocketError, UnsupportedOperator
from tensocket.nn import Module
from tensocket.overrides import is_tensor_method_or_property, resolve_name
from tensocket_compiler.graph.traceback import STATE
from tensocket_core.dispatch.packets import AtenOverloads
from tensocket_operators.namespaces import OpOverloadPacket

from ._frames import frame_of_program, is_asserting, stack_of_program, unpacked_count
from .graph import Graph
from .node import Argument, Node, base_types, map_aggregate, public_equivalent

_ADVICE: Final = ("make the value a concrete_arg of symbolic_trace, or hide the code in a function that torch.fx.wrap "
                  "records as one call")


class TraceError(TensocketError, ValueError):
    """Python code that depends on a value that is not known while it is recorded."""


class AnnotationError(ArgumentError):
    """A value with a second type."""


class Scope:
    """The module whose ``forward`` runs.

    Attributes:
        module_path: Its path below the root.
        module_type: Its class.
    """

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path = module_path
        self.module_type = module_type


class ScopeContextManager:
    """A block in which the scope of a tracer is another one."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._prev_scope = Scope(scope.module_path, scope.module_type)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type
        self._scope = scope

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *error: object) -> None:
        self._scope.module_path = self._prev_scope.module_path
        self._scope.module_type = self._prev_scope.module_type


class TracerBase:
    """Records operations on proxies in a graph; subclasses decide what is recorded and how.

    Attributes:
        graph: The graph.
        record_stack_traces: Whether nodes remember the lines of the program.
        check_mutable_operations: Whether operators that change their arguments are an error.
        trace_asserts: Whether ``assert`` on a proxy is recorded.
        proxy_buffer_attributes: Whether reading a buffer is recorded.
        traced_func_name: Name of the method that is recorded.
        scope: The module whose ``forward`` runs.
        module_stack: Paths and classes of the modules whose ``forward`` runs, outermost first.
        node_name_to_scope: Path and class of the module in which a node was recorded, by the node's name.
    """

    graph: Graph
    record_stack_traces: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, type]]

    def create_node(self, kind: str, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Argument],
                    name: str | None = None, type_expr: Any = None) -> Node:
        """Insert a node; subclasses may look at it or change it.

        Raises:
            ArgumentError: ``check_mutable_operations``, and the function changes an argument.
        """
        if kind == "call_function" and self.check_mutable_operations:
            from .operator_schemas import check_for_mutable_operation

            check_for_mutable_operation(target, args, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        scope = getattr(self, "scope", None)
        if scope is not None:
            self.node_name_to_scope[node.name] = (scope.module_path, scope.module_type)
        if STATE.preserves:
            node.meta.update(STATE.meta)
        elif getattr(self, "module_stack", None):
            node.meta["nn_module_stack"] = OrderedDict(self.module_stack)
        if "custom" in STATE.meta:
            node.meta.setdefault("custom", dict(STATE.meta["custom"]))
        return node

    def proxy(self, node: Node) -> Proxy:
        """Return a proxy for a node."""
        return Proxy(node, self)

    def create_proxy(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
                     name: str | None = None, type_expr: Any = None,
                     proxy_factory_fn: Callable[[Node], Proxy] | None = None) -> Proxy:
        """Record an operation whose arguments may hold proxies, and return the proxy of its result.

        Args:
            kind: The op.
            target: The function, or a name.
            args: Positional arguments.
            kwargs: Keyword arguments.
            name: Begin of the node's name; by default that of the target.
            type_expr: Annotation of the result.
            proxy_factory_fn: Makes the proxy from the node; ``self.proxy`` by default.
        """
        given, named = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, tuple(given), dict(named), name, type_expr)
        proxy = self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)
        if self.record_stack_traces and not node.stack_trace:
            node.stack_trace = stack_of_program()
        return proxy

    def _find_user_frame(self) -> FrameType | None:
        """Return the innermost frame that is not of this package's recording."""
        return frame_of_program()

    def create_arg(self, a: Any) -> Argument:
        """Return an argument as a node holds it: proxies become nodes, also those in containers and dataclasses.

        Raises:
            ArgumentError: A dict has a proxy among its keys.
            UnsupportedOperator: The argument is of a class that graphs do not hold.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return type(a)(*[self.create_arg(item) for item in a])
        if type(a) is tuple or isinstance(a, list):
            return type(a)([self.create_arg(item) for item in a]) if type(a) in (tuple, list) else [
                self.create_arg(item) for item in a]
        if isinstance(a, dict):
            return {self._key_of(key): self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, (AtenOverloads, OpOverloadPacket, enum.Enum, *base_types)) or a is ...:
            return a
        if is_dataclass(a) and not isinstance(a, type):
            values = {field.name: self.create_arg(getattr(a, field.name)) for field in fields(a)}
            return self.create_node("call_function", type(a), (), values)
        if isinstance(a, type) or resolve_name_of(a) is not None or inspect.isfunction(a):
            return a
        raise UnsupportedOperator("create_arg", f"an argument of type {type(a).__name__}", "arguments of a graph are "
                                  f"tensors, constants and containers of them; argument of type: {type(a)}",
                                  "override create_arg of the tracer")

    def _key_of(self, key: Any) -> Any:
        made = self.create_arg(key)

        def refuse(leaf: Any) -> Any:
            if isinstance(leaf, Node):
                raise ArgumentError("create_arg", f"a dict with {leaf} among its keys", "Keys for dictionaries used "
                                    "as an argument cannot contain a Node", "use constants as keys")
            return leaf

        return map_aggregate(made, refuse)

    def to_bool(self, obj: Proxy) -> bool:
        """Return the truth of a proxy; subclasses may know it.

        Raises:
            TraceError: It is not known.
        """
        raise TraceError("symbolic_trace", f"a branch on {obj}", "symbolically traced variables cannot be used as "
                         "inputs to control flow", _ADVICE)

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Return the items of a proxy; subclasses may know how many there are.

        Raises:
            TraceError: Their number is not known.
        """
        raise TraceError("symbolic_trace", f"a loop over {obj}", "Proxy object cannot be iterated. This can be "
                         "attempted when the Proxy is used in a loop or as a *args or **kwargs function argument",
                         _ADVICE)

    def keys(self, obj: Proxy) -> Any:
        """Return the keys of a proxy, as ``**x`` asks for them: by default a proxy of ``x.keys()``."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """A tracer that appends to a graph, for proxies that a pass makes from nodes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.node_name_to_scope = {}


def assert_fn(x: Any) -> None:
    """Assert; the target of recorded assertions.

    Raises:
        AssertionError: ``x`` is false.
    """
    assert x


class Proxy:
    """A value of the program that is recorded. Calling, indexing, arithmetic and attributes of it record nodes.

    Attributes:
        node: The node whose value it stands for.
        tracer: The tracer that records.
    """

    node: Node

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        # Operators and NumPy tell tensors and arrays by these; a proxy is neither.
        if k in _FOREIGN:
            raise AttributeError(k, name=k, obj=self)
        # The node is made when the attribute is used: a method's call needs none.
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        from copy import deepcopy

        copied = type(self).__new__(type(self))
        copied.__dict__.update({name: deepcopy(value, memo) for name, value in self.__dict__.items()})
        return copied

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        """Record a call of the value."""
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        count = unpacked_count(sys._getframe(1))
        return self.tracer.iter(self) if count is None else iter([operator.getitem(self, at) for at in range(count)])

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and is_asserting(sys._getframe(1)):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """Return the keys, as ``**x`` asks for them."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise ArgumentError("symbolic_trace", f"len({self.node})", "'len' is not supported in symbolic tracing by "
                            "default. If you want this call to be recorded, please call torch.fx.wrap('len') at "
                            "module scope",
                            "call torch.fx.wrap('len') in the module that calls len")

    @classmethod
    def __torch_function__(cls, orig_method: Any, types: Any, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        """Record a call of a function of this package.

        Raises:
            ArgumentError: The proxies are of several tracers.
        """
        kwargs = kwargs or {}
        tracers: dict[TracerBase, None] = {}

        def note(leaf: Any) -> Any:
            if isinstance(leaf, Proxy):
                tracers.setdefault(leaf.tracer)
            return leaf

        map_aggregate((args, kwargs), note)
        if len(tracers) != 1:
            raise ArgumentError("symbolic_trace", f"proxies of {list(tracers)}", "Found multiple different tracers "
                                "among the arguments of a call", "record one program at a time")
        tracer = next(iter(tracers))
        if isinstance(owner := getattr(orig_method, "owner", None), Module):  # a method of a script
            return tracer.create_proxy("call_method", orig_method.__name__, (owner, *args), kwargs)
        name = str(getattr(orig_method, "__name__", "")).removeprefix("method_")
        if (name.startswith("__") and name.endswith("__")) or is_tensor_method_or_property(orig_method):
            method = str(resolve_name(orig_method) or name).rpartition(".")[2]
            return tracer.create_proxy("call_method", method, args, kwargs)
        return tracer.create_proxy("call_function", public_equivalent(orig_method), args, kwargs,
                                   name=tracer.graph._target_to_str(name))

    # Methods of arithmetic follow below, from the tables.
    _reflected: ClassVar[tuple[str, ...]] = ("add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "lshift",
                                             "rshift",
                                             "and", "or", "xor", "matmul")


class Attribute(Proxy):
    """An attribute of a proxy; its node is made when something other than a call uses it."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads the attribute."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        """Record a call of the method."""
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A proxy for a parameter, whose shape is that of the parameter and not recorded."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        self.param = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        """The parameter's shape."""
        return self.param.shape

    def size(self) -> Any:
        """Return the parameter's shape."""
        return self.param.size()

    def dim(self) -> int:
        """Return the number of dimensions."""
        return int(self.param.dim())

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return int(self.param.ndim)

    def numel(self) -> int:
        """Return the number of elements."""
        return int(self.param.numel())

    def nelement(self) -> int:
        """Return the number of elements."""
        return int(self.param.nelement())


class MetaProxy(Proxy):
    """A proxy with a fake tensor, whose properties are known.

    Attributes:
        fake_mode: The mode of the fake tensor.
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None, fake_mode: Any = None) -> None:
        super().__init__(node, tracer)
        self.fake_mode = fake_mode

    def __repr__(self) -> str:
        return f"MetaProxy({self.node.name})"


def resolve_name_of(function: Any) -> str | None:
    """Return the name of an overridable function; None for any other object."""
    try:
        return resolve_name(function)
    except TypeError:  # an object without a hash
        return None


_FOREIGN: Final = frozenset({"_key", "__array__", "__array_interface__", "__array_struct__", "__cuda_array_interface__",
                            "__dlpack__", "__array_namespace__", "__index__"})

# ---- arithmetic

_OPERATORS: Final = ("add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor",
                     "getitem", "matmul", "eq", "ne", "lt", "gt", "le", "ge", "pos", "neg", "invert")


def _recorded(name: str) -> Callable[..., Proxy]:
    target = getattr(operator, name)

    def method(self: Proxy, *args: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", target, (self, *args), {})

    method.__name__ = f"__{name.strip('_')}__"
    return method


def _reflected(name: str) -> Callable[..., Proxy]:
    target = getattr(operator, name if hasattr(operator, name) and name not in ("and", "or") else f"{name}_")

    def method(self: Proxy, rhs: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", target, (rhs, self), {})

    method.__name__ = f"__r{name}__"
    return method


def _define_operators() -> None:
    for name in _OPERATORS:
        setattr(Proxy, f"__{name.strip('_')}__", _recorded(name))
    for name in Proxy._reflected:
        setattr(Proxy, f"__r{name}__", _reflected(name))
    Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]


_define_operators()

__all__ = ["Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "Scope",
           "ScopeContextManager", "TraceError", "TracerBase"]
