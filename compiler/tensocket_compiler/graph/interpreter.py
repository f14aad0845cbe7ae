"""Running a graph node by node: analyses and rewrites override the method of an opcode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tensocket_plugins.contract.errors import ArgumentError

from .codegen import last_uses
from .graph import Graph
from .node import Argument, Node, map_arg
from .traceback import set_current_meta


class MissingAttributeError(ArgumentError, AttributeError):
    """A target that a module does not have."""


class Interpreter:
    """Runs a module's graph; ``run`` calls ``run_node`` for each node, which calls the method of its opcode.

    Args:
        module: The module that owns the attributes and submodules.
        garbage_collect_values: Whether a value is dropped after its last use.
        graph: The graph; that of the module by default.

    Attributes:
        env: Values of the nodes that have run.
        extra_traceback: Whether an error tells which node raised it.
    """

    def __init__(self, module: Any, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module = module
        self.submodules: dict[str, Any] = dict(module.named_modules())
        self.graph: Graph = module.graph if graph is None else graph
        self.name = "Interpreter"
        self.env: dict[Node, Any] = {}
        self.extra_traceback = True
        self.garbage_collect_values = garbage_collect_values
        self.user_to_last_uses: dict[Node, list[Node]] = last_uses(self.graph.nodes) if garbage_collect_values else {}
        self.args_iter: Iterator[Any] = iter(())

    # ---- running

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """Run the graph.

        Args:
            args: Arguments of the module; placeholders take them in order.
            initial_env: Values of nodes that then do not run.
            enable_io_processing: Whether arguments and the result are structures as ``forward`` takes and returns
                them; otherwise those of placeholders and of the output.

        Returns:
            The module's result.
        """
        self.env = {} if initial_env is None else initial_env
        self.args_iter = iter(self.graph.process_inputs(*args) if enable_io_processing else args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            self.env[node] = self._run_explained(node)
            if self.garbage_collect_values:
                for used in self.user_to_last_uses.get(node, ()):
                    self.env.pop(used, None)
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Run the graph on a list, which is emptied: arguments are dropped after their last use."""
        placeholders = [node for node in self.graph.nodes if node.op == "placeholder"]
        env = dict(zip(placeholders, args_list, strict=False))
        args_list.clear()
        return self.run(initial_env=env)

    def _run_explained(self, node: Node) -> Any:
        try:
            return self.run_node(node)
        except Exception as error:
            if not self.extra_traceback:
                raise
            text = f"While executing {node.format_node()}"
            text = f"{error.args[0]}\n\n{text}" if error.args else text
            text += f"\nOriginal traceback:\n{node.stack_trace}"
            error.args = (text, *error.args[1:])
            if isinstance(error, KeyError):
                raise RuntimeError(*error.args) from error
            raise

    @contextmanager
    def _set_current_node(self, node: Node) -> Iterator[None]:
        with set_current_meta(node, f"Interpreter_{self.__class__.__name__}"):
            yield

    def run_node(self, n: Node) -> Any:
        """Run one node by the method of its opcode, and return its value."""
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    # ---- opcodes

    def placeholder(self, target: str, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the next argument, or all others for ``*name``; the default in ``args`` without one.

        Raises:
            ArgumentError: An argument without default is missing.
        """
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise ArgumentError("Interpreter.run", f"too few arguments for {type(self.module).__name__}",
                                f"Expected positional argument for parameter {target}, but one was not passed in!",
                                "pass an argument for each placeholder") from None

    def get_attr(self, target: str, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return an attribute of the module."""
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function."""
        return target(*args, **kwargs)

    def call_method(self, target: str, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of the first argument."""
        own, *rest = args
        return getattr(own, target)(*rest, **kwargs)

    def call_module(self, target: str, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Call a submodule."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: str, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result."""
        return args[0]

    # ---- values

    def fetch_attr(self, target: str) -> Any:
        """Return an attribute of the module by its dotted path.

        Raises:
            MissingAttributeError: The module does not have it.
        """
        value = self.module
        parts = target.split(".")
        for at, part in enumerate(parts):
            if not hasattr(value, part):
                raise MissingAttributeError("Interpreter", f"target {target} of a {type(self.module).__name__}",
                                            f"Node referenced nonexistent target {'.'.join(parts[:at + 1])}",
                                            "assign the attribute to the module")
            value = getattr(value, part)
        return value

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a node with values in place of nodes."""
        args: Any = self.map_nodes_to_values(n.args, n)
        kwargs: Any = self.map_nodes_to_values(n.kwargs, n)
        return args, kwargs

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """Return an argument of a node with values in place of nodes.

        Raises:
            ArgumentError: A node has not run.
        """
        def value_of(node: Node) -> Any:
            if node not in self.env:
                raise ArgumentError("Interpreter", f"node {n}", f"Node {n} referenced nonexistent value {node}! Run "
                                    "Graph.lint() to diagnose such issues", "run the nodes in order")
            return self.env[node]

        return map_arg(args, value_of)


