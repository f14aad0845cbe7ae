"""Reports on compiled functions: graphs, kernels, guards, and why calls run eagerly."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .describe import describe_memory, describe_runner, runners_of
from .function import PAUSE, WARM, CompiledFunction
from .parts import Part


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
        graphs: A text for each graph: its steps in order, with the operators of each kernel and the bytes they move.
        hits: Calls that the graphs served.
        parts: Modules and steps that were tried because the function is no graph as a whole.
        tier: ``graph`` if graphs serve calls; ``parts`` if graphs of parts do; else ``eager``.
        guards: Number of words of memory that each call compares.
        memory: A text for each variant: its buffers.
    """

    graph_count: int
    graph_break_count: int
    op_count: int
    break_reasons: list[str]
    out_guards: list[str]
    graphs: list[str]
    hits: int
    parts: list[PartReport]
    tier: str
    guards: int
    memory: list[str]

    @property
    def ops_per_graph(self) -> list[list[str]]:
        """Names of the operators of each graph, by kernels and calls."""
        return [[line.partition(": ")[2] for line in text.splitlines()[1:]] for text in self.graphs]

    def __str__(self) -> str:
        lines = [f"tier: {self.tier}; {self.graph_count} graphs, {self.op_count} operators, {self.hits} calls",
                 *[f"eager: {reason}" for reason in self.break_reasons], *map(str, self.parts), *self.graphs,
                 *self.memory,
                 f"guards: {self.guards} words of {len(self.out_guards)} objects"]
        own = [path for path in self.out_guards if path and not path.startswith("state.")]
        return "\n".join([*lines, *[f"  {path}" for path in own]])


def _found(compiled: CompiledFunction) -> list[tuple[str, Part]]:
    return [] if compiled.parts is None else compiled.parts.found()


def describe_parts(compiled: CompiledFunction) -> list[PartReport]:
    """Return reports on the parts of a compiled function that were tried."""
    found = []
    for name, part in _found(compiled):
        inner = part.compiled
        if inner is not None:
            tier = "eager" if part.plain else "graph" if inner.variants else "parts"
            found.append(PartReport(name, tier, sum(x.hits for x in inner.variants), list(inner.reasons)))
    return found


def report(compiled: CompiledFunction) -> Report:
    """Return a report on a compiled function."""
    parts = [part.compiled for _, part in _found(compiled) if part.compiled is not None and not part.plain]
    variants: list[Any] = [variant for each in (compiled, *parts) for variant in each.variants]
    runners = [x for variant in variants for _, x in runners_of(variant)]
    modules = [x.module for x in variants if getattr(x, "module", None) is not None]
    guards = dict.fromkeys(path for variant in variants for path in variant.guards.paths)
    texts = [*[describe_runner(x) for x in runners], *[str(module.graph) for module in modules]]
    return Report(len(texts), len(compiled.reasons), sum(variant.operators for variant in variants),
                  list(compiled.reasons), list(guards), texts, sum(variant.hits for variant in variants),
                  describe_parts(compiled), "graph" if compiled.variants else "parts" if variants else "eager",
                  sum(len(variant.guards.addresses) for variant in variants),
                  [describe_memory(variant) for variant in variants if runners_of(variant)])


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Report:
    """Compile a function for some arguments, and report; it is called as often as that takes."""
    compiled = CompiledFunction(function, share=math.inf)
    for _ in range(WARM + 3):
        compiled(*args, **kwargs)
    for _ in range(PAUSE if compiled.reasons else 0):
        compiled(*args, **kwargs)
    return report(compiled)
