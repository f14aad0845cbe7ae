"""Exported programs: a graph with its signature, the state it reads, and the ranges of its sizes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tensocket.errors import ExportError
from tensocket.fx._lazy_graph_module import _make_graph_module
from tensocket.fx.graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from tensocket.fx.graph_module import GraphModule
from tensocket.fx.node import Node
from tensocket.nn import Module, Parameter
from tensocket_operators.namespaces import built_in

from .graph_signature import (
    ArgumentSpec,
    ConstantArgument,
    CustomObjArgument,
    ExportBackwardSignature,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from .values import Symbol, ValueRanges


class CallSpec(NamedTuple):
    """The structures of a call.

    Attributes:
        in_spec: Of ``(args, kwargs)``.
        out_spec: Of the result.
    """

    in_spec: Any
    out_spec: Any


class ModuleCallSignature(NamedTuple):
    """The inputs and outputs of a call of a module below the exported one."""

    inputs: list[ArgumentSpec]
    outputs: list[ArgumentSpec]
    in_spec: Any
    out_spec: Any


class ModuleCallEntry(NamedTuple):
    """A call of a module, by its path."""

    fqn: str
    signature: ModuleCallSignature | None = None


class ExportedProgram:
    """A program that was captured ahead of time: ``torch.export.export`` makes it.

    Args:
        root: A module, or a dict, with the attributes of the graph.
        graph: The graph; its inputs are parameters, buffers and constants, then the arguments.
        graph_signature: Which input and output is which.
        state_dict: Parameters and persistent buffers by path.
        range_constraints: Ranges of sizes by symbol.
        module_call_graph: The calls of modules.
        example_inputs: The arguments of the capture, ``(args, kwargs)``.
        constants: Constants and buffers outside of the state dict, by path.
        guards: The module that checks the inputs.
        argument_names: Names of the arguments.
        dialect: Which operators the graph calls.
    """

    def __init__(self, root: Any, graph: Graph, graph_signature: ExportGraphSignature, state_dict: dict[str, Any],
                 range_constraints: dict[Symbol, ValueRanges], module_call_graph: list[ModuleCallEntry],
                 example_inputs: tuple[Any, Any] | None = None, constants: dict[str, Any] | None = None, *,
                 guards: Any = None, argument_names: list[str] | None = None, dialect: str = "TRAINING") -> None:
        self._graph_module = _make_graph_module(root, graph, "GraphModule")
        self._graph_signature = graph_signature
        self._state_dict = state_dict
        self._range_constraints = range_constraints
        self._module_call_graph = module_call_graph
        self._example_inputs = example_inputs
        self._constants = constants or {}
        self._guards, self._argument_names = guards, argument_names or []
        self._dialect = dialect
        self.validate()

    # ---- looking at it

    @property
    def graph_module(self) -> GraphModule:
        """The graph as a module that gets all inputs one by one."""
        return self._graph_module

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph_module.graph

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """Which input and output of the graph is which."""
        return self._graph_signature

    @property
    def state_dict(self) -> dict[str, Any]:
        """Parameters and persistent buffers by path."""
        return self._state_dict

    @property
    def constants(self) -> dict[str, Any]:
        """Constants, and buffers outside of the state dict, by path."""
        return self._constants

    @property
    def tensor_constants(self) -> dict[str, Any]:
        """The same."""
        return self._constants

    @property
    def range_constraints(self) -> dict[Symbol, ValueRanges]:
        """Ranges of sizes by symbol."""
        return self._range_constraints

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        """The calls of modules; the first is that of the program."""
        return self._module_call_graph

    @property
    def call_spec(self) -> CallSpec:
        """The structures of arguments and result."""
        signature = self._module_call_graph[0].signature
        assert signature is not None
        return CallSpec(signature.in_spec, signature.out_spec)

    @property
    def example_inputs(self) -> Any:
        """The arguments of the capture, ``(args, kwargs)``."""
        return self._example_inputs

    @example_inputs.setter
    def example_inputs(self, value: Any) -> None:
        self._example_inputs = value

    @property
    def dialect(self) -> str:
        """``TRAINING``: operators as programs call them, writes included. ``ATEN``: decomposed ones, without writes."""
        return self._dialect

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """Yield paths and parameters."""
        for path in self.graph_signature.parameters:
            yield path, self.state_dict[path]

    def parameters(self) -> Iterator[Any]:
        """Yield the parameters."""
        for _, x in self.named_parameters():
            yield x

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        """Yield paths and buffers."""
        outside = set(self.graph_signature.non_persistent_buffers)
        for path in self.graph_signature.buffers:
            yield path, (self.constants if path in outside else self.state_dict)[path]

    def buffers(self) -> Iterator[Any]:
        """Yield the buffers."""
        for _, x in self.named_buffers():
            yield x

    # ---- running it

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: a program has inputs that callers do not pass.

        Raises:
            ExportError: Always.
        """
        raise ExportError("ExportedProgram", "a call", "Unable to call ExportedProgram directly",
                          "You should use `exported_program.module()` instead")

    def module(self, check_guards: bool = True) -> GraphModule:
        """Return a module that takes the arguments of the original one, and shares its state with this program.

        Args:
            check_guards: Whether each call checks sizes, dtypes and constants.
        """
        return _unlifted(self, check_guards)

    def run_decompositions(self, decomp_table: Mapping[Any, Callable[..., Any]] | None = None,
                           decompose_custom_triton_ops: bool = False) -> ExportedProgram:
        """Return a program of simpler operators that writes to nothing: what it wrote to buffers are results.

        Args:
            decomp_table: Decompositions by operator; by default, those of all composite operators. An empty one
                decomposes nothing, and turns writes into results.
            decompose_custom_triton_ops: Accepted: there are no such operators.

        Raises:
            ExportError: The program has no example inputs, or writes that have no such form.
        """
        from .decompositions import decompose

        return decompose(self, decomp_table)

    def validate(self) -> None:
        """Check that graph, signature and state fit together.

        Raises:
            SpecViolationError: They do not.
        """
        from .verifier import verify

        verify(self)

    def _validate(self) -> None:
        self.validate()

    def __deepcopy__(self, memo: dict[int, Any]) -> ExportedProgram:
        made = object.__new__(type(self))
        memo[id(self)] = made
        made.__dict__.update({name: copy.deepcopy(value, memo) for name, value in vars(self).items()})
        for node, copied in zip(self.graph.nodes, made.graph.nodes, strict=True):
            copied.name = node.name  # the signature tells by names; copies of a graph rename what Python has a name for
        made.graph_module.recompile()
        return made

    def __str__(self) -> str:
        text = self.graph_module.print_readable(print_output=False, colored=False).replace("\n", "\n    ")
        return (f"ExportedProgram:\n    {text}\nGraph signature: {self.graph_signature}\n"
                f"Range constraints: {self.range_constraints}\n")


class _ExportedModule(GraphModule):
    """The module of an exported program; whether it trains was decided at the export."""

    def train(self, mode: bool = True) -> Any:
        """Refuse.

        Raises:
            ExportError: Always.
        """
        raise ExportError("train", "the module of an exported program", "Calling train() is not supported yet.",
                          "set the mode of the original module, and export it again")

    def eval(self) -> Any:
        """Refuse.

        Raises:
            ExportError: Always.
        """
        raise ExportError("eval", "the module of an exported program", "Calling eval() is not supported yet.",
                          "set the mode of the original module, and export it again")


def _unlifted(program: ExportedProgram, check_guards: bool) -> GraphModule:
    """Return a module whose graph reads parameters, buffers and constants as attributes."""
    graph, nodes = Graph(), {}
    attributes: dict[str, Any] = {}
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    inputs = []
    placeholders = program.graph.find_nodes(op="placeholder")
    lifted = [node for node in placeholders if specs[node.name].target is not None]
    for node in [x for x in placeholders if x not in lifted] + lifted:
        spec = specs[node.name]
        if spec.target is None:
            nodes[node] = graph.placeholder(node.target)
            inputs.append(nodes[node])
        else:
            attributes[spec.target] = state_tensor(program, spec)
            nodes[node] = graph.create_node("get_attr", spec.target, name=spec.target.replace(".", "_"))
        nodes[node].meta = dict(node.meta)
        nodes[node].meta["name_in_program"] = node.name
    root = Module()
    for path, value in attributes.items():
        _place(root, path, value, program.graph_signature)
    if check_guards and program._guards is not None:
        root.add_module("_guards_fn", program._guards)
        graph.call_module("_guards_fn", tuple(inputs)) if inputs else None
    for node in program.graph.nodes:
        if node.op == "output":
            write_back(program, graph, nodes.__getitem__)
            results = [x for x, spec in zip(node.args[0], program.graph_signature.output_specs, strict=True)
                       if spec.kind is OutputKind.USER_OUTPUT]
            graph.output(_own(results, nodes))
        elif node.op != "placeholder":
            nodes[node] = graph.node_copy(node, lambda x: nodes[x])
            nodes[node].meta["name_in_program"] = node.name
    call = program.call_spec
    graph._codegen = _PyTreeCodeGen(_PyTreeInfo(argument_names(program), call.in_spec, call.out_spec))
    made = _make_graph_module(root, graph, "GraphModule", graph_module_cls=_ExportedModule)
    for path, value in attributes.items():
        _place(made, path, value, program.graph_signature)
    return made


def write_back(program: ExportedProgram, graph: Graph, read: Callable[[Node], Node]) -> None:
    """Add the writes of a program's outputs to buffers, parameters and arguments, as its signature tells them.

    Args:
        program: The program.
        graph: Another graph with its nodes.
        read: Returns the node there of one of the program.
    """
    nodes, copy_ = {x.name: x for x in program.graph.nodes}, built_in("copy_")
    assert callable(copy_)
    places = {spec.target: nodes[spec.arg.name] for spec in program.graph_signature.input_specs}
    for value, spec in zip(program.graph.output_node().args[0], program.graph_signature.output_specs, strict=True):
        if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION):
            graph.call_function(copy_, (read(places[spec.target]), read(value)))
        elif spec.kind is OutputKind.USER_INPUT_MUTATION:
            graph.call_function(copy_, (read(nodes[str(spec.target)]), read(value)))


def _own(value: Any, nodes: dict[Any, Any]) -> Any:
    return tuple([nodes.get(x, x) if not isinstance(x, (list, dict)) else x for x in value])


def argument_names(program: ExportedProgram) -> list[str]:
    """Return the names of the arguments, as many as the structure has."""
    args, kwargs = program.call_spec.in_spec.children()
    names, keywords = list(program._argument_names), list(kwargs.context)
    given = [x for x in names if x not in keywords][:args.num_children]
    given += [f"args_{k}" for k in range(len(given), args.num_children)]
    return [*given, *keywords]


def state_tensor(program: ExportedProgram, spec: InputSpec) -> Any:
    """Return the parameter, buffer or constant of an input."""
    assert spec.target is not None
    inside = spec.kind is InputKind.PARAMETER or (spec.kind is InputKind.BUFFER and spec.persistent)
    return (program.state_dict if inside else program.constants)[spec.target]


def _place(root: Any, path: str, value: Any, signature: ExportGraphSignature) -> None:
    """Set a parameter, buffer or constant of a module and the modules on its path."""
    *parents, name = path.split(".")
    for part in parents:
        if part not in root._modules:
            root.add_module(part, Module())
        root = root._modules[part]
    if isinstance(value, Parameter):
        root.register_parameter(name, value)
    elif path in signature.buffers:
        root.__dict__.pop(name, None)
        root.register_buffer(name, value, persistent=path not in signature.non_persistent_buffers)
    else:  # modules of graphs hold tensors as buffers, but constants are not a part of the state
        root._buffers.pop(name, None)
        setattr(root, name, value)


__all__ = ["ArgumentSpec", "CallSpec", "ConstantArgument", "CustomObjArgument", "ExportBackwardSignature",
           "ExportGraphSignature", "ExportedProgram", "InputKind", "InputSpec", "ModuleCallEntry",
           "ModuleCallSignature", "OutputKind", "OutputSpec", "SymBoolArgument", "SymFloatArgument", "SymIntArgument",
           "TensorArgument"]
