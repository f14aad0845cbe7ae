"""A model's operators as a graph of TensorBoard."""

from __future__ import annotations

from typing import Any

from tensocket_operators.rules.trace import Value
from tensocket_operators.transforms import trace

from .protocol import proto


def _values(entry: Any) -> list[Value]:
    if isinstance(entry, Value):
        return [entry]
    return [value for item in entry for value in _values(item)] if isinstance(entry, (tuple, list)) else []


def _node(name: str, operator: str, inputs: list[str], value: Value | None) -> Any:
    node = proto("node_def", "NodeDef", name=name, op=operator, input=inputs)
    if value is not None:
        kind = proto("tensor_shape", "TensorShapeProto")
        shape = type(kind)(dim=[kind.Dim(size=size) for size in value.shape])
        attribute = proto("attr_value", "AttrValue")
        node.attr["_output_shapes"].CopyFrom(type(attribute)(list=attribute.ListValue(shape=[shape])))
    return node


def graph_of(model: Any, arguments: Any) -> Any:
    """Return the graph of one call: its arguments, constants (parameters by their names), operators, and results.

    Args:
        model: A module or function.
        arguments: A tensor, or a tuple of arguments.
    """
    given = tuple(arguments) if isinstance(arguments, (tuple, list)) else (arguments,)
    calls = trace(model)(*given)
    named = {id(p): f"parameters/{name}" for name, p in getattr(model, "named_parameters", lambda: ())()}
    names: dict[Value, str] = {}
    nodes: list[Any] = []
    constants: dict[int, str] = {}
    for k, value in enumerate(value for leaf in calls.inputs for value in _values(leaf)):
        names[value] = f"input/{k}"
        nodes.append(_node(names[value], "IO Node", [], value))
    counts: dict[str, int] = {}
    for call in calls:
        kind = call.operator.name
        counts[kind] = counts.get(kind, 0) + 1
        name = f"{kind}_{counts[kind]}"
        inputs = []
        for argument in call.args:
            if hasattr(argument, "_key"):
                inputs.append(constants.setdefault(
                    id(argument), named.get(id(argument), f"constants/{len(constants)}")))
            inputs += [names[value] for value in _values(argument)]
        results = _values(call.results)
        names.update(dict.fromkeys(results, name))
        nodes.append(_node(name, kind, inputs, results[0] if results else None))
    nodes += [_node(constant, "Constant", [], None) for constant in dict.fromkeys(constants.values())]
    for k, value in enumerate(value for leaf in calls.outputs for value in _values(leaf)):
        nodes.append(_node(f"output/{k}", "IO Node", [names[value]], value))
    return proto("graph", "GraphDef", node=nodes, versions=proto("versions", "VersionDef", producer=22))
