"""Recording the operators that a function runs on tensors, below autograd: ``make_fx``."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from tensocket._subclasses.fake_tensor import FakeTensorMode
from tensocket.errors import ArgumentError, UnsupportedOperator
from tensocket.nn import Module, Parameter
from tensocket_core.dispatch.modes import STATE, thread_state
from tensocket_core.dispatch.protocol import TorchDispatchMode
from tensocket_core.pytree import tree_flatten, tree_unflatten
from tensocket_operators import Tensor

from .._lazy_graph_module import _make_graph_module
from ..graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from ..graph_module import GraphModule
from ..node import Node, map_aggregate
from ..proxy import GraphAppendingTracer, Proxy

#: Types of sizes that are not numbers: none, sizes are numbers here.
py_sym_types: Final[tuple[type, ...]] = ()
_MODES: Final = ("real", "fake", "symbolic")
_ACTIVE: Final[list[ProxyTorchDispatchMode]] = []


def is_sym_node(node: Any) -> bool:
    """Whether a node is a size that is not a number; none is."""
    return False


class PythonKeyTracer(GraphAppendingTracer):
    """A tracer of operators: tensors that it has not seen are constants of ``root``."""

    def __init__(self) -> None:
        super().__init__(Graph())
        self.root = Module()
        self._proxies: dict[int, tuple[Any, Any]] = {}

    def know(self, value: Any, proxy: Any) -> None:
        """Let a proxy stand for a tensor."""
        self._proxies[id(value)] = (value, proxy)

    def proxy_of(self, value: Any) -> Any:
        """Return the proxy of a tensor; a constant's is made. Other values come back unchanged."""
        if not isinstance(value, Tensor):
            return value
        found = self._proxies.get(id(value))
        if found is None:
            prefix = "_param_constant" if isinstance(value, Parameter) else "_tensor_constant"
            number = 0
            while hasattr(self.root, f"{prefix}{number}"):
                number += 1
            setattr(self.root, f"{prefix}{number}", value)
            self.know(value, self.create_proxy("get_attr", f"{prefix}{number}", (), {}))
            found = self._proxies[id(value)]
        return found[1]

    def create_arg(self, a: Any) -> Any:
        """Return an argument as a node holds it; operators' own objects, like plans, are read from ``root``."""
        try:
            return super().create_arg(a)
        except UnsupportedOperator:
            found = self._proxies.get(id(a))
            if found is None:
                name = f"_object{len(self._proxies)}"
                setattr(self.root, name, a)
                self.know(a, self.create_proxy("get_attr", name, (), {}))
                found = self._proxies[id(a)]
            return found[1].node

    def record(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Record a call and its results."""
        given, named = map_aggregate(args, self.proxy_of), map_aggregate(kwargs, self.proxy_of)
        proxy = self.create_proxy("call_function", func, given, named, name=func.name.rpartition("::")[2])
        proxy.node.meta["val"] = result
        self._know_result(result, proxy)

    def _know_result(self, result: Any, proxy: Proxy) -> None:
        if isinstance(result, Tensor):
            self.know(result, proxy)
        elif isinstance(result, (tuple, list)):
            for at, item in enumerate(result):
                part = self.create_proxy("call_function", operator.getitem, (proxy, at), {})
                part.node.meta["val"] = item
                self._know_result(item, part)


class ProxyTorchDispatchMode(TorchDispatchMode):
    """A mode that records the operators in its block.

    Args:
        tracer: The tracer.
        tracing_mode: ``real`` or ``fake``.
        decomposition_table: Functions that compute an operator from others, by the operator.
    """

    def __init__(self, tracer: PythonKeyTracer, tracing_mode: str = "real",
                 decomposition_table: Mapping[Any, Callable[..., Any]] | None = None) -> None:
        super().__init__()
        self.tracer = tracer
        self.tracing_mode = tracing_mode
        self.decomposition_table = dict(decomposition_table or {})

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Record a call; its decomposition, if it has one."""
        kwargs = kwargs or {}
        decomposition = self.decomposition_table.get(func)
        if decomposition is not None:
            with self:
                result = decomposition(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        self.tracer.record(func, args, kwargs, result)
        return result


@contextmanager
def disable_proxy_modes_tracing() -> Iterator[None]:
    """Record nothing in a block."""
    others = tuple(mode for mode in STATE.dispatch_modes if not isinstance(mode, ProxyTorchDispatchMode))
    with thread_state(dispatch_modes=others):
        yield


def get_innermost_proxy_mode() -> ProxyTorchDispatchMode | None:
    """Return the mode that records now, or None."""
    return _ACTIVE[-1] if _ACTIVE else None


#: The former name of the same function.
get_proxy_mode = get_innermost_proxy_mode


def make_fx(f: Callable[..., Any], decomposition_table: Mapping[Any, Callable[..., Any]] | None = None,
            tracing_mode: str = "real", _allow_non_fake_inputs: bool = False, *, pre_dispatch: bool = False,
            record_module_stack: bool = False, _allow_fake_constant: bool = False,
            _error_on_data_dependent_ops: bool = True, record_stack_traces: bool = False,
            proxy_module_inputs: bool = False) -> Callable[..., GraphModule]:
    """Return a function that records the operators which ``f`` runs on its arguments.

    Gradients are operators, too, so that ``make_fx(grad(f))(x)`` records how they are computed.

    Args:
        f: The function; tensors among its arguments and their containers are inputs of the graph.
        decomposition_table: Functions that compute an operator from others, by the operator's record.
        tracing_mode: ``real`` runs on the arguments; ``fake`` and ``symbolic`` on tensors without values.
        _allow_non_fake_inputs: Whether ``f`` may use other tensors in the mode ``fake``.
        pre_dispatch: Accepted for programs.
        record_module_stack: Accepted for programs.
        _allow_fake_constant: Accepted for programs.
        _error_on_data_dependent_ops: Accepted for programs.
        record_stack_traces: Accepted for programs.
        proxy_module_inputs: Accepted for programs.

    Raises:
        ArgumentError: ``tracing_mode`` is another word.
    """
    if tracing_mode not in _MODES:
        raise ArgumentError("make_fx", f"tracing_mode {tracing_mode!r}", "tracing_mode is real, fake or symbolic",
                            "use one of them")

    def traced(*args: Any) -> GraphModule:
        leaves, spec = tree_flatten(args)
        tracer = PythonKeyTracer()
        mode = ProxyTorchDispatchMode(tracer, tracing_mode, decomposition_table)
        names, used = _names_of(f, args), iter(range(len(leaves)))
        fake = FakeTensorMode(allow_non_fake_inputs=True) if tracing_mode != "real" else None
        values = []
        for name, child in zip(names, spec.children(), strict=True):
            for at in range(child.num_leaves):
                leaf = leaves[next(used)]
                values.append(_input(tracer, f"{name}_{at + 1}", leaf, fake))
        # The mode of fake tensors is inside, so that operators come to it with the tensors that were recorded.
        _ACTIVE.append(mode)
        try:
            with mode:
                result = f(*tree_unflatten(values, spec))
        finally:
            _ACTIVE.pop()
        return _finish(tracer, f, result, names, spec)

    return traced


def _input(tracer: PythonKeyTracer, name: str, value: Any, fake: FakeTensorMode | None) -> Any:
    proxy = tracer.create_proxy("placeholder", name, (), {})
    if isinstance(value, Tensor):
        if fake is not None:
            value = fake.from_tensor(value)
        tracer.know(value, proxy)
        proxy.node.meta["val"] = value
    return value


def _finish(tracer: PythonKeyTracer, f: Any, result: Any, names: list[str], spec: Any) -> GraphModule:
    leaves, out_spec = tree_flatten(result)
    outputs: list[Any] = [tracer.create_arg(tracer.proxy_of(leaf)) for leaf in leaves]
    flat = all(child.is_leaf() for child in spec.children())
    if not flat or out_spec.type not in (None, tuple, list) or not all(c.is_leaf() for c in out_spec.children()):
        tracer.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names, spec, out_spec))
        tracer.graph.output(outputs)
    else:
        tracer.graph.output(outputs[0] if out_spec.is_leaf() else out_spec.type(outputs))
    _erase_unused(tracer.graph)
    return _make_graph_module(tracer.root, tracer.graph, getattr(f, "__name__", type(f).__name__))


def _erase_unused(graph: Graph) -> None:
    """Erase calls without use or effect; those that draw random numbers stay."""
    for node in reversed(graph.nodes):
        if not node.users and not node.is_impure() and not _is_random(node):
            graph.erase_node(node)


def _is_random(node: Node) -> bool:
    schema = getattr(node.target, "schema", None)
    return schema is not None and any("generator" in parameter.name.lower() for parameter in schema.parameters)


def _names_of(f: Callable[..., Any], args: tuple[Any, ...]) -> list[str]:
    """Return the names of a function's parameters, and ``arg`` with a number for others."""
    try:
        known = [name for name, parameter in inspect.signature(f).parameters.items()
                 if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        known = []
    return [known[at] if at < len(known) else f"arg{at}" for at in range(len(args))]


def get_isolated_graphmodule(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
                             tracing_mode: str = "real",
                             decomposition_table: Mapping[Any, Callable[..., Any]] | None = None) -> GraphModule:
    """Record a function on some arguments, apart from a recording that runs.

    Args:
        func: The function.
        args: Positional arguments.
        kwargs: Keyword arguments.
        tracing_mode: As for ``make_fx``.
        decomposition_table: As for ``make_fx``.
    """
    leaves, spec = tree_flatten((args, kwargs))

    def wrapped(flat: list[Any]) -> Any:
        given, named = tree_unflatten(flat, spec)
        return func(*given, **named)

    with disable_proxy_modes_tracing():
        return make_fx(wrapped, decomposition_table, tracing_mode)(leaves)


__all__ = ["ProxyTorchDispatchMode", "PythonKeyTracer", "disable_proxy_modes_tracing",
           "get_innermost_proxy_mode", "get_isolated_graphmodule", "is_sym_node", "make_fx", "py_sym_types"]
