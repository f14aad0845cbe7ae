"""The verifier: graph, signature and state of an exported program fit together."""

from __future__ import annotations

from typing import Any

from tensocket.errors import ExportError

from .graph_signature import ConstantArgument, InputKind


class SpecViolationError(ExportError):
    """An exported program whose parts do not fit together."""


def _refuse(given: str, rule: str) -> SpecViolationError:
    return SpecViolationError("ExportedProgram", given, rule, "make graph and signature fit")


def verify(program: Any) -> None:
    """Check an exported program.

    Raises:
        SpecViolationError: Its graph, signature or state do not fit together.
    """
    graph, signature = program.graph, program.graph_signature
    graph.lint()
    names = [node.name for node in graph.nodes if node.op == "placeholder"]
    declared = [spec.arg.name for spec in signature.input_specs]
    if names != declared:
        raise _refuse(f"inputs {names}", f"the inputs of the signature are {declared}")
    for spec in signature.input_specs:
        if spec.kind is InputKind.PARAMETER and spec.target not in program.state_dict:
            raise _refuse(f"the parameter {spec.target}", "parameters are in the state dict")
        if spec.kind is InputKind.BUFFER and spec.target not in (
                program.state_dict if spec.persistent else program.constants):
            raise _refuse(f"the buffer {spec.target}", "buffers are in the state dict, or among the constants")
        if spec.kind is InputKind.CONSTANT_TENSOR and spec.target not in program.constants:
            raise _refuse(f"the constant {spec.target}", "constants are among the constants")
    for node in graph.nodes:
        if node.op not in ("placeholder", "call_function", "output", "get_attr"):
            raise _refuse(f"node {node.name} with op {node.op}", "nodes are inputs, calls of functions and the output")
    outputs = graph.output_node().args[0]
    if len(outputs) != len(signature.output_specs):
        raise _refuse(f"{len(outputs)} outputs", f"the signature has {len(signature.output_specs)}")
    for output, spec in zip(outputs, signature.output_specs, strict=True):
        if not isinstance(spec.arg, ConstantArgument) and getattr(output, "name", None) != spec.arg.name:
            raise _refuse(f"the output {output}", f"the signature has {spec.arg.name} in its place")
