"""Reports on compiled functions: graphs, kernels, guards, and why calls run eagerly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..execute.runner import Runner
from .function import PAUSE, WARM, CompiledFunction


@dataclass(frozen=True, slots=True)
class PartReport:
    """A module, or an optimizer's step, that a function calls which is no graph as a whole.

    Attributes:
        name: Name and class of the module, or the class of the optimizer.
        tier: ``graph``; ``parts`` if the modules inside are tried; ``eager`` if graphs do not pay or cannot be made.
        hits: Calls that its graphs served.
        reasons: Why calls of it could not be captured.
    """

    name: str
    tier: str
    hits: int
    reasons: list[str]

    def __str__(self) -> str:
        return "; ".join([f"part {self.name}: {self.tier}, {self.hits} calls", *self.reasons])


@dataclass(frozen=True, slots=True)
class Report:
    """A report; it prints as text.

    Attributes:
        graph_count: Number of graphs, those of parts included.
        graph_break_count: Number of reasons why calls run eagerly.
        op_count: Operators of all graphs.
        break_reasons: The reasons.
        out_guards: Paths of everything that Python may have read.
        graphs: A text for each graph: its steps in order, with the operators of each kernel.
        hits: Calls that the graphs served.
        parts: What has graphs, or was tried, although the function is no graph as a whole.
    """

    graph_count: int
    graph_break_count: int
    op_count: int
    break_reasons: list[str]
    out_guards: list[str]
    graphs: list[str]
    hits: int
    parts: list[PartReport]

    def __str__(self) -> str:
        lines = [f"{self.graph_count} graphs, {self.op_count} operators, {len(self.out_guards)} guards, "
                 f"{self.hits} calls"]
        lines += [f"eager: {reason}" for reason in self.break_reasons]
        lines += map(str, self.parts)
        return "\n".join([*lines, *self.graphs])


def describe(runner: Runner) -> str:
    """Return the steps of a graph as text."""
    figures = runner.statistics
    lines = [f"{figures.operations} operators: {figures.kernels} kernels and {figures.calls} calls, {figures.tapes} "
             f"tapes and {figures.python} steps in Python, {figures.arena} bytes for {figures.temporaries} of "
             "temporaries"]
    for group in runner.groups:
        kind = "call" if group.call else f"kernel over {list(group.shape)}"
        lines.append(f"  {kind}: {', '.join(operation.name for operation in group.operations)}")
    return "\n".join(lines)


def describe_parts(compiled: CompiledFunction) -> list[PartReport]:
    """Return reports on the parts of a compiled function that were tried."""
    found = []
    for name, part in compiled.parts.found():
        inner = part.compiled
        if inner is not None:
            tier = "eager" if part.plain else "graph" if inner.variants else "parts"
            found.append(PartReport(name, tier, sum(x.hits for x in inner.variants), list(inner.reasons)))
    return found


def report(compiled: CompiledFunction) -> Report:
    """Return a report on a compiled function."""
    parts = [part.compiled for _, part in compiled.parts.found() if part.compiled is not None and not part.plain]
    variants = [variant for each in (compiled, *parts) for variant in each.variants]
    runners = [x for variant in variants for x in (
        variant.runner, *([] if variant.backward is None else [variant.backward.runner]))]
    guards = dict.fromkeys(path for variant in variants for path in variant.guards.paths)
    return Report(len(runners), len(compiled.reasons), sum(x.statistics.operations for x in runners),
                  list(compiled.reasons), list(guards), [describe(x) for x in runners],
                  sum(variant.hits for variant in variants), describe_parts(compiled))


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Report:
    """Compile a function for some arguments, and report; it is called as often as that takes."""
    compiled = CompiledFunction(function)
    for _ in range(WARM + 3):
        compiled(*args, **kwargs)
    for _ in range(PAUSE if compiled.reasons else 0):
        compiled(*args, **kwargs)
    return report(compiled)
