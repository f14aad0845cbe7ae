"""Exported programs as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tensocket.errors import SerializationError
from tensocket.fx.node import Node
from tensocket.utils._pytree import treespec_dumps
from tensocket.version import __version__

from ..exported_program import ExportedProgram, ModuleCallEntry
from ..graph_signature import (
    ArgumentSpec,
    ConstantArgument,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from ..guards import comparison_text
from ..symbols import text_of
from ..values import SymbolicSize, TensorValue
from .arguments import Json, write_argument, write_node, write_size, write_tensor
from .constants import SCHEMA_VERSION
from .targets import name_of_target

#: The dialect of operators that programs call.
_POSITIONAL, _KEYWORD = 1, 2
_WRITES: Final = {
    OutputKind.BUFFER_MUTATION: ("buffer_mutation", "buffer_name"),
    OutputKind.PARAMETER_MUTATION: ("parameter_mutation", "parameter_name"),
    OutputKind.USER_INPUT_MUTATION: ("user_input_mutation", "user_input_name")}


def write_program(program: ExportedProgram, opset_version: Mapping[str, int]) -> Json:
    """Return a program as JSON, without its weights and constants.

    Raises:
        SerializationError: A node has a target or an argument that files cannot hold.
        UnsupportedOperator: A container among the arguments or results has no name.
    """
    guards = program._guards
    return {
        "graph_module": {
            "graph": _graph(program), "signature": _signature(program),
            "module_call_graph": [_call_entry(entry, program._argument_names) for entry in program.module_call_graph],
            "metadata": {}, "treespec_namedtuple_fields": {}},
        "opset_version": dict(opset_version),
        "range_constraints": {str(symbol): {"min_val": int(r.lower), "max_val": None if r.upper == float("inf")
                                            else int(r.upper)} for symbol, r in program.range_constraints.items()},
        "schema_version": {"major": SCHEMA_VERSION[0], "minor": SCHEMA_VERSION[1]},
        "verifiers": [program.dialect], "torch_version": f"tensocket {__version__}",
        "guards_code": [] if guards is None else [comparison_text(x, guards.local_of) for x in guards.guards]}


# --------------------------------------------------------------------------------------------------------------- graph


def _graph(program: ExportedProgram) -> Json:
    nodes = list(program.graph.nodes)
    inputs = [x for x in nodes if x.op == "placeholder"]
    texts = _input_texts(program, inputs)
    numbers: dict[str, Json] = {"sym_int_values": {}, "sym_float_values": {}, "sym_bool_values": {}}
    tensors = {}
    for node in nodes:
        value = node.meta.get("val")
        if isinstance(value, TensorValue):
            tensors[node.name] = write_tensor(value, texts.get(node) or [
                n.name if isinstance(n, SymbolicSize) else None for n in value.shape])
        elif node.op == "call_function" and isinstance(value, (int, float)):
            kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float"
            numbers[f"sym_{kind}_values"][node.name] = (
                write_size(int(value), getattr(value, "name", node.name)) if kind == "int" else {f"as_{kind}": value})
    outputs = program.graph.output_node().args[0]
    return {"inputs": [_input(program, x) for x in inputs], "outputs": [write_argument(x) for x in outputs],
            "nodes": [_node(x) for x in nodes if x.op == "call_function"], "tensor_values": tensors, **numbers,
            "is_single_tensor_return": False, "custom_obj_values": {}}


def _input_texts(program: ExportedProgram, inputs: list[Node]) -> dict[Node, list[str | None]]:
    """Return the expressions of the sizes of arguments, by node."""
    guards = program._guards
    if guards is None:
        return {}
    users = [node for node, spec in zip(inputs, program.graph_signature.input_specs, strict=True)
             if spec.kind is InputKind.USER_INPUT]
    found: dict[Node, list[str | None]] = {}
    for at, node in enumerate(users):
        value = node.meta["val"]
        if isinstance(value, TensorValue):
            found[node] = [text_of(guards.sizes[at, k], lambda root: root.symbol) if (at, k) in guards.sizes else None
                           for k in range(value.ndim)]
    return found


def _input(program: ExportedProgram, node: Node) -> Json:
    spec = next(x for x in program.graph_signature.input_specs if x.arg.name == node.name)
    return write_argument(spec.arg.value) if isinstance(spec.arg, ConstantArgument) else write_node(node)


def _node(node: Node) -> Json:
    """Return a call as JSON."""
    schema = getattr(node.target, "schema", None)
    names = [] if schema is None else list(schema.names)
    names += [f"arg{k}" for k in range(len(names), len(node.args))]
    inputs = [{"name": name, "arg": write_argument(x), "kind": _POSITIONAL}
              for name, x in zip(names, node.args, strict=False)]
    inputs += [{"name": name, "arg": write_argument(x), "kind": _KEYWORD} for name, x in node.kwargs.items()]
    return {"target": name_of_target(node.target), "inputs": inputs, "outputs": [write_node(node)],
            "metadata": _metadata(node), "is_hop_single_tensor_return": None, "name": node.name}


def _metadata(node: Node) -> Json:
    found = {name: str(node.meta[name]) for name in ("stack_trace",) if node.meta.get(name)}
    stack = node.meta.get("nn_module_stack")
    if stack:
        found["nn_module_stack"] = ";".join([f"{key},{path},{kind}" for key, (path, kind) in stack.items()])
    if node.meta.get("torch_fn"):
        found["torch_fn"] = ";".join(node.meta["torch_fn"])
    return found


# ----------------------------------------------------------------------------------------------------------- signature


def _signature(program: ExportedProgram) -> Json:
    signature = program.graph_signature
    return {"input_specs": [_input_spec(x) for x in signature.input_specs],
            "output_specs": [_output_spec(x) for x in signature.output_specs]}


def _input_spec(spec: InputSpec) -> Json:
    name = {"name": spec.arg.name}
    if spec.kind is InputKind.PARAMETER:
        return {"parameter": {"arg": name, "parameter_name": spec.target}}
    if spec.kind is InputKind.BUFFER:
        return {"buffer": {"arg": name, "buffer_name": spec.target, "persistent": bool(spec.persistent)}}
    if spec.kind is InputKind.CONSTANT_TENSOR:
        return {"tensor_constant": {"arg": name, "tensor_constant_name": spec.target}}
    if isinstance(spec.arg, ConstantArgument):
        return {"constant_input": {"name": spec.arg.name, "value": _constant(spec.arg.value)}}
    return {"user_input": {"arg": write_spec(spec.arg)}}


def _constant(value: Any) -> Json:
    if not isinstance(value, (bool, int, float, str, type(None))):
        raise SerializationError("export.save", f"an input that is a {type(value).__name__}", "inputs other than "
                                 "tensors are numbers, texts and None", "leave the object out of the arguments")
    return write_argument(value)


def _output_spec(spec: OutputSpec) -> Json:
    if spec.kind is OutputKind.USER_OUTPUT:
        return {"user_output": {"arg": write_spec(spec.arg)}}
    if spec.kind not in _WRITES:
        raise SerializationError("export.save", f"an output of kind {spec.kind.name}", "outputs in files are results, "
                                 "or writes to buffers, parameters and arguments", "export the forward pass alone")
    kind, name = _WRITES[spec.kind]
    return {kind: {"arg": {"name": spec.arg.name}, name: spec.target}}


def write_spec(arg: ArgumentSpec) -> Json:
    """Return an argument of a signature as JSON.

    Raises:
        SerializationError: It is an object of a program's class.
    """
    if isinstance(arg, ConstantArgument):
        return _constant(arg.value)
    for kind, name in ((SymIntArgument, "as_sym_int"), (SymFloatArgument, "as_sym_float"),
                       (SymBoolArgument, "as_sym_bool")):
        if isinstance(arg, kind):
            return {name: {"as_name": arg.name}}
    if not isinstance(arg, TensorArgument):
        raise SerializationError("export.save", f"a {type(arg).__name__} in the signature", "signatures in files have "
                                 "tensors, numbers, texts and None", "export the program without such objects")
    return {"as_tensor": {"name": arg.name}}


def _call_entry(entry: ModuleCallEntry, names: list[str]) -> Json:
    signature = entry.signature
    if signature is None:
        return {"fqn": entry.fqn, "signature": None}
    return {"fqn": entry.fqn, "signature": {
        "inputs": [write_spec(x) for x in signature.inputs], "outputs": [write_spec(x) for x in signature.outputs],
        "in_spec": treespec_dumps(signature.in_spec), "out_spec": treespec_dumps(signature.out_spec),
        "forward_arg_names": list(names) if not entry.fqn else None}}
