"""Running a module's graph node by node, and rewriting it while it runs on proxies."""

from __future__ import annotations

from typing import Any

from tensocket_compiler.graph.interpreter import Interpreter

from ._lazy_graph_module import _make_graph_module
from ._symbolic_trace import Tracer
from .graph import Graph
from .graph_module import GraphModule
from .node import Argument, Node
from .proxy import Proxy
from .traceback import preserve_node_meta


class _TransformerTracer(Tracer):
    """The tracer of a transformer: all modules are leaves, and paths are those of the module that is rewritten."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph

    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        """Whether a call is one node: all are."""
        return True


class Transformer(Interpreter):
    """An interpreter that runs on proxies, and so records a new graph; override the methods of opcodes to change it.

    Args:
        module: The module to rewrite.

    Attributes:
        new_graph: The graph that is recorded.
        tracer: The tracer that records it.
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target: str, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Record a placeholder."""
        default = args[0] if args else ...
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target: str, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Record the reading of an attribute."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: str, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Record a call of a submodule."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Record a call of a function."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Record the new graph, and return a module with it."""
        with preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is None and not any(node.op == "output" for node in self.graph.nodes):
            return _make_graph_module(self.module, self.new_graph)

        output: Node = self.graph.output_node()
        made = self.new_graph.output(self.tracer.create_arg(result), type_expr=output.type)
        made.meta.update(output.meta)
        return _make_graph_module(self.module, self.new_graph)


__all__ = ["Interpreter", "Transformer"]
