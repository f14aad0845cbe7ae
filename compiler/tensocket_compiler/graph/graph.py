"""Graphs: lists of nodes that build themselves, check themselves and become Python source."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tensocket_plugins.contract.errors import ArgumentError

from .codegen import CodeGen, PythonCode
from .lint import lint
from .names import Namespace, is_magic, qualified_name, snake_case
from .node import Argument, Node, Target, map_arg
from .node_list import InsertPoint, NodeList, NodeTable

#: Set by the front end: returns a node's arguments by the names of a signature.
Normalizer = Callable[[Node, Any, Any, Any, bool], Any]
#: The normalizer of this process's front end.
NORMALIZERS: Final[list[Normalizer]] = []


class Graph:
    """A list of nodes, each with an op, a target and arguments, that ends in an output.

    Args:
        owning_module: The module whose ``forward`` the graph is, if it has been made.
        tracer_cls: Class of the tracer that recorded the graph.
        tracer_extras: Attributes of the tracer that copies of the graph need.
    """

    def __init__(self, owning_module: Any = None, tracer_cls: type | None = None,
                 tracer_extras: dict[str, Any] | None = None) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._used_names: dict[str, int] = {}
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._is_numbered = False
        self._graph_namespace = Namespace()
        self._owning_module: Any = None
        self.owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()
        self._co_fields: dict[str, Any] = {}
        self._find_nodes_lookup_table = NodeTable()

    # ---- looking at it

    @property
    def owning_module(self) -> Any:
        """The module whose ``forward`` the graph is; None for a graph without one."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: Any) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> NodeList:
        """The nodes in order; ``reversed`` works, too, and changes of the graph while they are iterated."""
        return NodeList(self)

    def output_node(self) -> Node:
        """Return the output.

        Raises:
            AssertionError: The graph does not have one.
        """
        output = next(iter(reversed(self.nodes)), None)
        if output is None or output.op != "output":
            raise AssertionError("the last node of the graph is not an output")
        return output

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """Return the nodes with an op and a target.

        Args:
            op: The op.
            target: The target, which calls of functions need; None takes all nodes with the op.
            sort: Whether they are in the order of the graph, not in that of their creation.
        """
        found = self._find_nodes_lookup_table.find_nodes(op=op, target=target)
        return sorted(found) if sort else found

    def _number_nodes(self) -> None:
        """Set the numbers of the nodes in order; moving and inserting nodes undoes it."""
        if self._is_numbered:
            return
        for position, node in enumerate(self.nodes):
            node._position = position
        self._is_numbered = True

    def _target_to_str(self, target: Target) -> str:
        name = target if isinstance(target, str) else getattr(target, "__name__", type(target).__name__)
        return snake_case(name.strip("_") if is_magic(name) else name)

    # ---- building

    def create_node(self, op: str, target: Target, args: tuple[Argument, ...] | None = None,
                    kwargs: dict[str, Argument] | None = None, name: str | None = None,
                    type_expr: Any = None) -> Node:
        """Insert a node at the graph's place of insertion, which is the end by default.

        Args:
            op: The op.
            target: The function, or a name.
            args: Positional arguments.
            kwargs: Keyword arguments.
            name: Begin of the name; by default that of the target.
            type_expr: Annotation of the result.
        """
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        if not isinstance(args, tuple):
            raise AssertionError("args must be a tuple")
        if not isinstance(kwargs, dict):
            raise AssertionError("kwargs must be a dict")
        name = self._graph_namespace.create_name(name if name is not None else self._target_to_str(target), None)
        node = Node(self, name, op, target, args, kwargs, type_expr)
        hooks = getattr(self.owning_module, "_create_node_hooks", None) or ()
        self._graph_namespace.associate_name_with_obj(name, node)
        self._insert(node)
        self._find_nodes_lookup_table.insert(node)
        self._len += 1
        self._is_numbered = False
        for hook in hooks:
            hook(node)
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """Insert an input, which ``*name`` and ``**name`` collect; without a default it is required."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Insert the reading of an attribute of the owning module; a warning tells that it does not have it."""
        self._warn_if_missing("get_attr", qualified_name)
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name: str, args: tuple[Argument, ...] | None = None,
                    kwargs: dict[str, Argument] | None = None, type_expr: Any = None) -> Node:
        """Insert a call of a submodule of the owning module; a warning tells that it does not have it."""
        self._warn_if_missing("call_module", module_name)
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def _warn_if_missing(self, op: str, target: str) -> None:
        here = self.owning_module
        if here is None:
            return
        for name in target.split("."):
            if not hasattr(here, name):
                warnings.warn(f"Attempted to insert a {op} Node with no underlying reference in the owning "
                              f"GraphModule! Assign {target} to the module to add the necessary attribute",
                              stacklevel=3)
                return
            here = getattr(here, name)

    def call_method(self, method_name: str, args: tuple[Argument, ...] | None = None,
                    kwargs: dict[str, Argument] | None = None, type_expr: Any = None) -> Node:
        """Insert a call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(self, the_function: Callable[..., Any], args: tuple[Argument, ...] | None = None,
                      kwargs: dict[str, Argument] | None = None, type_expr: Any = None,
                      name: str | None = None) -> Node:
        """Insert a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """Insert the output; ``result`` is a node or a structure of nodes."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def inserting_before(self, n: Node | None = None) -> InsertPoint:
        """Insert new nodes before a node; before all of them if it is None.

        Returns:
            A context manager, whose end restores the place of insertion.
        """
        if n is None:
            return self.inserting_after(self._root)
        self._check_own(n)
        return InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> InsertPoint:
        """Insert new nodes behind a node, each before the one inserted previously; at the end if it is None.

        Returns:
            A context manager, whose end restores the place of insertion.
        """
        if n is None:
            return self.inserting_before(self._root)
        self._check_own(n)
        return InsertPoint(self, n.append)

    def _check_own(self, node: Node) -> None:
        if node.graph is not self:
            raise AssertionError("Node to insert is not in this graph.")

    def erase_node(self, to_erase: Node) -> None:
        """Erase a node that nothing uses.

        Raises:
            ArgumentError: Nodes use it.
            AssertionError: It is of another graph.
        """
        if to_erase.users:
            raise ArgumentError("Graph.erase_node", f"node {to_erase}, which {list(to_erase.users)} use",
                                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the "
                                f"graph: {to_erase.users}!", "replace its uses with node.replace_all_uses_with first")
        if to_erase.graph is not self:
            raise AssertionError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", None) or ():
            hook(to_erase)
        self._find_nodes_lookup_table.remove(to_erase)
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        to_erase._set_arguments((), {})

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x) -> Node:
        """Insert a copy of a node of another graph.

        Args:
            node: The node.
            arg_transform: Returns, for a node among its arguments, the one of this graph that stands for it.
        """
        copied = self.create_node(node.op, node.target, map_arg(node.args, arg_transform),
                                  map_arg(node.kwargs, arg_transform), node.name, node.type)
        copied.meta = dict(node.meta)
        return copied

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Insert copies of all nodes of another graph but its output.

        Args:
            g: The other graph.
            val_map: Nodes of this graph that stand for some of ``g``; it gets all the others.
            return_output_node: Whether the other output is returned, too.

        Returns:
            The result of the output in terms of this graph; None if ``g`` has no output.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        memo = {} if memo is None else memo
        copied = type(self)(tracer_cls=self._tracer_cls)
        copied._tracer_extras = self._tracer_extras
        val_map: dict[Node, Node] = {}
        memo[id(self)] = copied
        found = copied.graph_copy(self, val_map, return_output_node=True)
        copied._codegen = _copy_codegen(self._codegen, memo)
        copied._graph_namespace = _copy_names(self._graph_namespace, copied._graph_namespace, val_map)
        if found is not None:
            result, output = found
            made = copied.output(result, type_expr=output.type)
            made.meta = dict(output.meta)
            val_map[output] = made
        for old, new in val_map.items():
            memo[id(old)] = new
        return copied

    # ---- code

    def set_codegen(self, codegen: CodeGen) -> None:
        """Generate code in another way."""
        self._codegen = codegen

    def on_generate_code(self, make_transformer: Callable[[Any], Any]) -> Any:
        """Change the generated statements.

        Args:
            make_transformer: Gets the transformer that is in use, or None, and returns the new one, a function of a
                list of statements that returns a list.

        Returns:
            A context manager, whose end restores the earlier transformer; leave it unused to keep the new one.
        """
        earlier = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(earlier)

        @contextmanager
        def restored() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = earlier

        return restored()

    def python_code(self, root_module: str, *, verbose: bool = False, include_stride: bool = False,
                    include_device: bool = False, colored: bool = False, expanded_def: bool = False,
                    record_func: bool = False, additional_meta: list[str] | None = None) -> PythonCode:
        """Return the graph as source of a Python function.

        Args:
            root_module: Name of the owning module in the source, usually ``self``.
            verbose: Whether comments show where nodes come from and the shapes that they have.
            include_stride: Whether these comments show strides.
            include_device: Whether they show devices.
            colored: Whether the source has colours for a terminal.
            expanded_def: Whether each parameter of the function is on a line of its own.
            record_func: Accepted for programs; calls are not timed.
            additional_meta: Further entries of ``node.meta`` that comments show.
        """
        names = Namespace()

        def name_of(node: Node) -> str:
            return names.create_name(node.name, node)

        with self._printing(name_of):
            return self._codegen._gen_python_code(
                self.nodes, root_module, names, verbose=verbose, include_stride=include_stride,
                include_device=include_device, colored=colored, expanded_def=expanded_def,
                additional_meta=additional_meta)

    @contextmanager
    def _printing(self, name_of: Callable[[Node], str]) -> Iterator[None]:
        """Let nodes print under the names that they have in the generated code."""
        earlier = [(node, node._repr_fn) for node in self.nodes]
        try:
            for node, _ in earlier:
                node._repr_fn = name_of
            yield
        finally:
            for node, function in earlier:
                node._repr_fn = function

    def process_inputs(self, *args: Any) -> Any:
        """Return arguments of ``forward`` as the placeholders take them."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """Return the value of the output as ``forward`` returns it."""
        return self._codegen.process_outputs(out)

    def __str__(self) -> str:
        return "\n    ".join(["graph():", *(node.format_node() for node in self.nodes)])

    def print_tabular(self) -> None:
        """Print a table of the nodes."""
        rows = [["opcode", "name", "target", "args", "kwargs"],
                *[[str(x) for x in (node.op, node.name, node.target, node.args, node.kwargs)] for node in self.nodes]]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        rows.insert(1, ["-" * width for width in widths])
        print("\n".join("  ".join(x.ljust(width) for x, width in zip(row, widths, strict=True)).rstrip()
                        for row in rows))

    # ---- checks and clean-up

    def lint(self) -> None:
        """Check that the graph is well formed, and that the owning module has the targets.

        Raises:
            ArgumentError: It is not.
        """
        lint(self)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erase calls whose result nothing uses and that have no effect.

        Args:
            is_impure_node: Tells whether a node has an effect; ``node.is_impure()`` by default.

        Returns:
            Whether the graph changed.
        """
        self.lint()
        is_impure = is_impure_node or Node.is_impure
        changed = False
        for node in reversed(self.nodes):
            if not node.users and not is_impure(node) and node.op not in ("placeholder", "output"):
                self.erase_node(node)
                changed = True
        for below in _graphs_below(self.owning_module):
            changed |= below.eliminate_dead_code(is_impure_node)
        return changed

    def _clear_nodes(self) -> None:
        for node in reversed(self.nodes):
            node.users.clear()
            self.erase_node(node)

    def _normalize(self, node: Node, root: Any, arg_types: Any, kwarg_types: Any, only_kwargs: bool) -> Any:
        for normalize in NORMALIZERS:
            return normalize(node, root, arg_types, kwarg_types, only_kwargs)
        return None

    # ---- pickling

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state["_listed"] = [dict(node.__getstate__(), _self=node) for node in self.nodes]
        for name in ("_root", "_insert", "_owning_module", "_find_nodes_lookup_table", "_graph_namespace"):
            state.pop(name)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        listed = state.pop("_listed")
        self.__init__()  # type: ignore[misc]
        self.__dict__.update(state)
        self._len = 0
        for entry in listed:
            node = entry.pop("_self")
            node.__dict__.update(entry, graph=self, _repr_fn=None, _prev=node, _next=node)
            self._graph_namespace._rename_object(node, node.name)
            self._insert(node)
            self._find_nodes_lookup_table.insert(node)
            self._len += 1


def _graphs_below(module: Any) -> Iterable[Graph]:
    """Yield the graphs of a module's submodules."""
    for child in getattr(module, "_modules", {}).values():
        graph = getattr(child, "graph", None)
        if isinstance(graph, Graph):
            yield graph


def _copy_codegen(codegen: CodeGen, memo: dict[int, Any]) -> CodeGen:
    from copy import deepcopy

    return deepcopy(codegen, memo)


def _copy_names(old: Namespace, new: Namespace, val_map: dict[Node, Node]) -> Namespace:
    """Reserve the names of the original in the copy, so that later nodes have the same names in both."""
    new._used_names |= old._used_names
    for base, count in old._base_count.items():
        new._base_count[base] = max(count, new._base_count[base])
    return new


__all__ = ["CodeGen", "Graph", "Node", "PythonCode", "qualified_name"]
