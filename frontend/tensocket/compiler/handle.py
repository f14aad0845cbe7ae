"""The public handle of a compiled function: its graphs, kernels and pictures, and why calls run eagerly."""

from __future__ import annotations

from typing import Any

from tensocket_compiler.calls.describe import describe_graph, kernels_of
from tensocket_compiler.calls.events import describe_change
from tensocket_compiler.calls.function import CompiledFunction
from tensocket_compiler.calls.report import Report, report
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, CompileError

from .picture import draw


class Handle:
    """A compiled function, for people who look at it.

    Args:
        compiled: The compiled function.
    """

    def __init__(self, compiled: CompiledFunction) -> None:
        self._compiled = compiled

    @property
    def reasons(self) -> list[str]:
        """Reasons why calls run eagerly."""
        return list(self._compiled.reasons)

    @property
    def graph(self) -> Any:
        """The graph that was used last: the ``fx.Graph`` that a backend got, or the recorded operators as text.

        Raises:
            CompileError: There is no graph yet.
        """
        variant = self._latest()
        module = getattr(variant, "module", None)
        return describe_graph(variant) if module is None else module.graph

    def kernels(self) -> list[tuple[str, str]]:
        """Return the fused kernels of the graph that was used last: names made of their operators, and programs."""
        return kernels_of(self._latest())

    def picture(self, form: str = "svg") -> str:
        """Return a picture of the graph that was used last: kernels and calls, and which of them read from which.

        Args:
            form: ``svg``.

        Raises:
            ArgumentError: Another form is given.
            CompileError: There is no graph yet.
        """
        if form != "svg":
            raise ArgumentError("picture", f"form={form!r}", "pictures are written as SVG", 'pass "svg"')
        return draw(self._latest())

    def why(self, *args: Any, **kwargs: Any) -> str | None:
        """Return the first difference between a call and those that the graph serves; None if it serves the call.

        Raises:
            CompileError: There is no graph yet.
        """
        change = self._latest().why(args, kwargs)
        return None if change is None else describe_change(change)

    def report(self) -> Report:
        """Return a report on all graphs; it prints as text."""
        return report(self._compiled)

    def _latest(self) -> Any:
        if not self._compiled.variants:
            reasons = "; ".join(self._compiled.reasons) or "it has not been called often enough"
            raise CompileError("compiled", f"a function without graphs: {reasons}", "calls make graphs",
                               "call it more often with the same kind of arguments, or pass fullgraph=True to compile")
        return self._compiled.variants[0]


def compiled(function: Any) -> Handle:
    """Return the handle of a compiled function, method or module.

    Raises:
        ArgumentTypeError: It is not compiled.
    """
    found = getattr(function, "__func__", function)
    places = getattr(found, "__dict__", {})
    run = places.get("_compiled", getattr(places.get("forward"), "_compiled", None))
    if not isinstance(run, CompiledFunction):
        raise ArgumentTypeError("compiled", f"a {type(function).__name__}", "compile() returns functions and modules "
                                "that have graphs", "pass one of these")
    return Handle(run)
