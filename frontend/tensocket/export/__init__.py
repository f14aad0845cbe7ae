"""Export of modules as graphs, ahead of time: ``torch.export``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tensocket.errors import ExportError
from tensocket.nn import Module
from tensocket.utils._pytree import register_pytree_node
from tensocket_operators import Tensor

from .building import GraphBuilder
from .capture import Captured, capture
from .dynamic_shapes import Dim, ShapesCollection, dims
from .exported_program import (
    CallSpec,
    ExportedProgram,
    ModuleCallEntry,
    ModuleCallSignature,
)
from .graph_signature import (
    ArgumentSpec,
    ConstantArgument,
    ExportBackwardSignature,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from .guards import ConstraintViolation, GuardError, InputGuards
from .values import Symbol, ValueRanges


def export(mod: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None, *, dynamic_shapes: Any = None,
           strict: bool = False, preserve_module_call_signature: tuple[str, ...] = (),
           prefer_deferred_runtime_asserts_over_guards: bool = False) -> ExportedProgram:
    """Return a module as a graph of operators.

    The module runs on the arguments; with dynamic shapes, it also runs on others, whose elements are those of the
    arguments. Its state stays as it is.

    Args:
        mod: The module.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        dynamic_shapes: The sizes that may change: for each argument, by name, a dict from dimensions to ``Dim``,
            ``Dim.AUTO`` or ``Dim.DYNAMIC``, or None; in containers, a container of these.
        strict: Accepted for programs.
        preserve_module_call_signature: Accepted for programs.
        prefer_deferred_runtime_asserts_over_guards: Accepted for programs.

    Raises:
        ExportError: The module has no graph that is right for all of its inputs.
    """
    if not isinstance(mod, Module):
        raise ExportError("export", f"a {type(mod).__name__}", "Expected `mod` to be an instance of "
                          f"`torch.nn.Module`, got {type(mod)}", "put the function into the forward() of a module")
    if not isinstance(args, tuple):
        raise ExportError("export", f"args of type {type(args).__name__}", "Expecting `args` to be a tuple of example "
                          f"positional inputs, got {type(args)}", "pass a tuple")
    captured = capture(mod, args, dict(kwargs or {}), dynamic_shapes)
    builder = GraphBuilder(captured, mod)
    builder.build()
    signature = ModuleCallSignature([x.arg for x in builder.signature.input_specs if x.target is None],
                                    [x.arg for x in builder.signature.output_specs],
                                    captured.in_spec, captured.out_spec)
    state = mod.state_dict(keep_vars=True)
    outside = {x.path: x.tensor for x in captured.sources if x.persistent is False}
    return ExportedProgram(
        mod, builder.graph, builder.signature, {x.path: state.get(x.path, x.tensor) for x in captured.sources
                                                if x.persistent is not False},
        _ranges(captured), [ModuleCallEntry("", signature)], (args, dict(kwargs or {})),
        {**outside, **builder.constants}, guards=InputGuards(captured.plan, captured.guards),
        argument_names=captured.names)


def _ranges(captured: Captured) -> dict[Symbol, ValueRanges]:
    plan = captured.plan
    found = {Symbol(root.symbol): ValueRanges(root.low, root.high) for root in plan.roots}
    for (at, k), expression in plan.sizes.items():
        dim = plan.leaves[at].dims[k]
        if isinstance(expression, tuple):
            found[Symbol(plan.text(expression))] = ValueRanges(dim.min, dim.max)
    return found


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Let instances of a dataclass be arguments and results of exported programs.

    Raises:
        ExportError: The class is not a dataclass.
    """
    if not dataclasses.is_dataclass(cls):
        raise ExportError("register_dataclass", f"{cls}", "Only dataclasses can be registered with this "
                          f"function: {cls}", "decorate the class with dataclass")
    names = [x.name for x in dataclasses.fields(cls) if x.init]

    def flatten(value: Any) -> tuple[list[Any], Any]:
        given = [name for name in names if getattr(value, name) is not None]
        return [getattr(value, name) for name in given], (given, [x for x in names if x not in given])

    def unflatten(values: Any, context: Any) -> Any:
        given, absent = context
        return cls(**dict(zip(given, values, strict=True)), **dict.fromkeys(absent))

    register_pytree_node(cls, flatten, unflatten, serialized_type_name=serialized_type_name)


__all__ = ["ArgumentSpec", "CallSpec", "ConstantArgument", "ConstraintViolation", "Dim", "ExportBackwardSignature",
           "ExportGraphSignature", "ExportedProgram", "GuardError", "InputKind", "InputSpec", "ModuleCallEntry",
           "ModuleCallSignature", "OutputKind", "OutputSpec", "ShapesCollection", "Tensor", "TensorArgument", "dims",
           "export", "register_dataclass"]
