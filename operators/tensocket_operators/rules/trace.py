"""Recording of a function's calls as a graph that can be replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tensocket_core.dispatch.registry import OPERATORS
from tensocket_core.pytree import TreeSpec, tree_flatten, tree_unflatten
from tensocket_core.transforms.levels import LevelTensor, Transform, call_lower, lowered, map_tensors, results_of
from tensocket_plugins.contract.devices import Device
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError


class Value:
    """A tensor of a graph: an argument, or a result of a call.

    Attributes:
        index: Its number; values are numbered in order of creation.
        shape: Its shape.
        dtype: Its element type.
        device: Its device.
    """

    __slots__ = ("device", "dtype", "index", "shape")

    def __init__(self, index: int, shape: tuple[int, ...], dtype: DType, device: Device) -> None:
        self.index = index
        self.shape = shape
        self.dtype = dtype
        self.device = device

    def __repr__(self) -> str:
        return f"%{self.index}"


class Call(NamedTuple):
    """A call of an operator.

    Attributes:
        operator: The operator's record.
        args: Arguments in the order of the schema; ``Value`` for tensors of the graph, real tensors for constants.
        kwargs: Keyword-only arguments.
        results: The result, or a tuple of results, as ``Value``.
    """

    operator: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: Any

    def __str__(self) -> str:
        given = [_text(x) for x in self.args] + [f"{name}={_text(x)}" for name, x in self.kwargs.items()]
        return f"{self.results} = {self.operator.name}({', '.join(given)})"


def _text(value: Any) -> str:
    if hasattr(value, "_key"):
        return f"<{value.dtype.name}{list(value.shape)}>"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_text, value))}]"
    return repr(value)


class Graph(list[Call]):
    """The calls of a function in order.

    Attributes:
        inputs: Leaves of the arguments; ``Value`` for tensors.
        outputs: Leaves of the result; ``Value`` for tensors that the function computed.
    """

    def __init__(self, inputs: list[Any], structure: TreeSpec) -> None:
        super().__init__()
        self.inputs = inputs
        self.outputs: list[Any] = []
        self._structure = structure
        self._out_structure = structure

    def finish(self, outputs: list[Any], structure: TreeSpec) -> None:
        """Set the outputs."""
        self.outputs, self._out_structure = outputs, structure

    def __str__(self) -> str:
        lines = [f"inputs {', '.join(map(_text, self.inputs))}", *map(str, self),
                 f"return {', '.join(map(_text, self.outputs))}"]
        return "\n".join(lines)

    def replay(self, *args: Any, **kwargs: Any) -> Any:
        """Run the calls on other arguments of the same structure, shapes and dtypes.

        Raises:
            ArgumentError: The arguments have another structure.
        """
        leaves, structure = tree_flatten((args, kwargs))
        if structure != self._structure:
            raise ArgumentError("replay", f"arguments {structure.brief()} for {self._structure.brief()}",
                                "a graph runs on arguments of the structure that was traced", "trace it anew")
        known = {symbol: x for symbol, x in zip(self.inputs, leaves, strict=True) if isinstance(symbol, Value)}
        for entry in self:
            result = entry.operator(*[_look_up(known, x) for x in entry.args],
                                    **{k: _look_up(known, v) for k, v in entry.kwargs.items()})
            symbols = entry.results if isinstance(entry.results, tuple) else (entry.results,)
            for symbol, x in zip(symbols, result if isinstance(entry.results, tuple) else (result,), strict=True):
                known[symbol] = x
        return tree_unflatten([_look_up(known, x) for x in self.outputs], self._out_structure)


def _look_up(known: dict[Value, Any], value: Any) -> Any:
    """Return an argument of a replay: for a value of the graph, its tensor in this run."""
    if isinstance(value, Value):
        return known[value]
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)([_look_up(known, item) for item in value])
    return value


class TracedTensor(LevelTensor):
    """A tensor with a value in a graph."""

    __slots__ = ()
    label = "TracedTensor"
    _symbol: Value



class Tracing(Transform):
    """Transform that records calls and runs them."""

    kind = TracedTensor
    functional = False

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.graph: Graph
        self._count = 0

    def wrap(self, value: Any) -> Any:
        """Wrap a tensor of the level below as a new value of the graph."""
        tensor = super().wrap(value)
        tensor._symbol = Value(self._count, tuple(value.shape), value.dtype, value.device)
        self._count += 1
        return tensor

    def created(self, tensor: Any, drawn: bool = False) -> Any:
        """Return a copy of a factory's result, which is a constant: the function may modify the copy."""
        with lowered(depth=self.level - 1):
            made = self.wrap(tensor.clone())
        self.graph.append(Call(OPERATORS["clone"], (tensor,), {}, made._symbol))
        return made

    def wrap_like(self, tensor: Any, value: Any) -> Any:
        """Return a copy of ``value``, like ``created``."""
        return self.created(value)

    def symbolic(self, value: Any) -> Any:
        """Replace this level's tensors in an argument by values of the graph."""
        return map_tensors(lambda t: t._symbol if self.owns(t) else t, value)

    def run(self, operator: Any, args: tuple[Any, ...]) -> Any:
        """Run the operator in the level below, and record the call."""
        self.check_mutation(operator, args)
        result = call_lower(operator, self.unwrap(args))
        made = results_of(args, result, self.wrap)
        symbols = self.symbolic(args)
        positional = [x for p, x in zip(operator.schema.parameters, symbols, strict=False) if not p.keyword_only]
        named = {p.name: x for p, x in zip(operator.schema.parameters, symbols, strict=False) if p.keyword_only}
        results = self.symbolic(made)
        self.graph.append(Call(operator, tuple(positional), named,
                               tuple(results) if isinstance(results, (tuple, list)) else results))
        return made


def trace(func: Callable[..., Any]) -> Callable[..., Graph]:
    """Return a function that runs ``func`` once and returns the graph of its calls.

    Tensors that do not come from the arguments, including random draws, are constants of the graph; control flow is
    that of the one run. A composite operator appears as the operators that it calls.

    >>> import tensocket_core as tc
    >>> print(trace(lambda x: (x * 2).sum())(tc.ones(3)))
    inputs %0
    %1 = mul(%0, 2)
    %2 = sum(%1, None, False, dtype=None)
    return %2
    """

    def run(*args: Any, **kwargs: Any) -> Graph:
        transform = Tracing("trace")
        leaves, structure = tree_flatten((args, kwargs))
        with transform:
            wrapped = [transform.wrap(x) if hasattr(x, "_key") else x for x in leaves]
            transform.graph = graph = Graph([transform.symbolic(x) for x in wrapped], structure)
            positional, named = tree_unflatten(wrapped, structure)
            outputs, out_structure = tree_flatten(func(*positional, **named))
        graph.finish([transform.symbolic(x) for x in outputs], out_structure)
        return graph

    return run
