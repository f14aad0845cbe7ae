"""Reports on compiled functions: graphs, kernels, guards, and why calls run eagerly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .describe import describe_runner, runners_of
from .function import WARM, CompiledFunction


@dataclass(frozen=True, slots=True)
class Report:
    """A report; it prints as text.

    Attributes:
        graph_count: Number of graphs.
        graph_break_count: Number of reasons why calls run eagerly.
        op_count: Operators of all graphs.
        break_reasons: The reasons.
        out_guards: Paths of everything that Python may have read.
        graphs: A text for each graph: its steps in order, with the operators of each kernel.
        hits: Calls that the graphs served.
    """

    graph_count: int
    graph_break_count: int
    op_count: int
    break_reasons: list[str]
    out_guards: list[str]
    graphs: list[str]
    hits: int

    def __str__(self) -> str:
        lines = [f"{self.graph_count} graphs, {self.op_count} operators, {len(self.out_guards)} guards, "
                 f"{self.hits} calls"]
        lines += [f"eager: {reason}" for reason in self.break_reasons]
        return "\n".join([*lines, *self.graphs])


def report(compiled: CompiledFunction) -> Report:
    """Return a report on a compiled function."""
    runners = [x for variant in compiled.variants for _, x in runners_of(variant)]
    modules = [x.module for x in compiled.variants if getattr(x, "module", None) is not None]
    guards = dict.fromkeys(path for variant in compiled.variants for path in variant.guards.paths)
    texts = [*[describe_runner(x) for x in runners], *[str(module.graph) for module in modules]]
    return Report(len(texts), len(compiled.reasons), sum(variant.operators for variant in compiled.variants),
                  list(compiled.reasons), list(guards), texts, sum(variant.hits for variant in compiled.variants))


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Report:
    """Compile a function for some arguments, and report; it is called as often as that takes."""
    compiled = CompiledFunction(function)
    for _ in range(WARM + 3):
        compiled(*args, **kwargs)
    return report(compiled)
