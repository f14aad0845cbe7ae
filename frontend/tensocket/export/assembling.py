"""Exported programs from captured modules."""

from __future__ import annotations

from typing import Any

from .building import GraphBuilder
from .capture import Captured
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from .guards import guards_of
from .values import Symbol, ValueRanges


def assemble(captured: Captured, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
             dialect: str = "TRAINING") -> ExportedProgram:
    """Return the program of a captured module.

    Args:
        captured: The captured module.
        module: The module.
        args: The positional arguments of the capture.
        kwargs: Its keyword arguments.
        dialect: Which operators the graph calls.

    Raises:
        ExportError: The graph has no place for a part of the program.
    """
    builder = GraphBuilder(captured, module)
    builder.build()
    signature = ModuleCallSignature([x.arg for x in builder.signature.input_specs if x.target is None],
                                    [x.arg for x in builder.signature.output_specs],
                                    captured.in_spec, captured.out_spec)
    state = module.state_dict(keep_vars=True)
    outside = {x.path: x.tensor for x in captured.sources if x.persistent is False}
    return ExportedProgram(
        module, builder.graph, builder.signature, {x.path: state.get(x.path, x.tensor) for x in captured.sources
                                                   if x.persistent is not False},
        _ranges(captured), [ModuleCallEntry("", signature), *_entries(captured, builder)], (args, kwargs),
        {**outside, **builder.constants}, guards=guards_of(captured.plan, captured.guards),
        argument_names=captured.names, dialect=dialect)


def _entries(captured: Captured, builder: GraphBuilder) -> list[ModuleCallEntry]:
    """Return the calls of modules below the root, in order."""
    modules = captured.run.modules
    return [] if modules is None else [ModuleCallEntry(path, builder.calls.get(path)) for path in modules.paths if path]


def _ranges(captured: Captured) -> dict[Symbol, ValueRanges]:
    plan = captured.plan
    found = {Symbol(root.symbol): ValueRanges(root.low, root.high) for root in plan.roots}
    for (at, k), expression in plan.sizes.items():
        dim = plan.leaves[at].dims[k]
        if isinstance(expression, tuple):
            found[Symbol(plan.text(expression))] = ValueRanges(dim.min, dim.max)
    return found
