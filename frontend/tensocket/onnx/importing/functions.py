"""Functions of a model: calls of them are replaced by their bodies, also those that ONNX defines for its operators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ..operators import TABLE
from ..packages import OnnxModelError, package

#: Nodes of the largest graph that calls of functions may grow to.
LARGEST: Final = 1_000_000
_ADVICE: Final = "get the file again from a source that you trust"


def _calls(nodes: Iterable[Any]) -> Iterable[tuple[str, str]]:
    for node in nodes:
        yield node.domain, node.op_type
        for attribute in node.attribute:
            for graph in [attribute.g, *attribute.graphs]:
                yield from _calls(graph.node)


class _Sizes:
    """The numbers of nodes that functions grow to."""

    def __init__(self, model: Any) -> None:
        self._bodies = {(f.domain, f.name): f for f in model.functions}
        self._known: dict[tuple[str, str], int] = {}
        self._active: set[tuple[str, str]] = set()

    def of(self, nodes: Iterable[Any]) -> int:
        """Return the number of nodes after all replacements.

        Raises:
            OnnxModelError: A function calls itself, or there are too many.
        """
        total = 0
        for call in _calls(nodes):
            total += self._function(call)
            if total > LARGEST:
                raise OnnxModelError("load_graph_module", "functions that call functions",
                                     f"their calls are replaced by up to {LARGEST} nodes", _ADVICE)
        return total

    def _function(self, call: tuple[str, str]) -> int:
        if call not in self._bodies:
            return 1
        if call in self._active:
            raise OnnxModelError("load_graph_module", f"the function {call[1]}", "a function does not call itself",
                                 _ADVICE)
        if call not in self._known:
            self._active.add(call)
            self._known[call] = self.of(self._bodies[call].node)
            self._active.remove(call)
        return self._known[call]


def inlined(model: Any) -> Any:
    """Return a model without calls of functions; operators that only ONNX's own definitions explain are replaced, too.

    Raises:
        OnnxModelError: Functions call themselves, or grow beyond a limit.
    """
    inliner = package("onnx.inliner")
    _Sizes(model).of(model.graph.node)
    known = {(domain or "ai.onnx" if domain == "ai.onnx" else domain, name) for domain, name in TABLE}
    own = {(f.domain, f.name) for f in model.functions}
    missing = set(_calls(model.graph.node)) - known
    if not own and not missing:
        return model
    if not model.functions:
        return inliner.inline_selected_functions(model, sorted(missing), inline_schema_functions=True)
    whole = inliner.inline_local_functions(model)
    rest = set(_calls(whole.graph.node)) - known
    return inliner.inline_selected_functions(whole, sorted(rest), inline_schema_functions=True) if rest else whole
