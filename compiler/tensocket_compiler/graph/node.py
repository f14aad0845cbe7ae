"""Nodes: the calls of a graph, in a doubly linked list, each with its arguments and its uses."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tensocket_plugins.contract.errors import ArgumentError

from .immutable import immutable_dict, immutable_list
from .names import qualified_name, type_name
from .purity import is_impure

if TYPE_CHECKING:
    from .graph import Graph

#: Arguments of a node: nodes, constants, and tuples, lists, dicts and slices of them.
Argument = Any
Target = Any
#: The operations, in the order in which ``print_tabular`` explains them.
OPCODES: Final = ("placeholder", "get_attr", "call_function", "call_module", "call_method", "output", "root")
Given = TypeVar("Given")


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Apply a function to all leaves of tuples, lists, dicts and slices; lists and dicts come back immutable."""
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict((key, map_aggregate(value, fn)) for key, value in a.items())
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """Apply a function to all nodes of an argument.

    Raises:
        AssertionError: ``fn`` is not callable.
    """
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda leaf: fn(leaf) if isinstance(leaf, Node) else leaf)


def nodes_in(*values: Any) -> dict[Node, None]:
    """Return the nodes of arguments, each once, in order."""
    found: dict[Node, None] = {}

    def note(node: Node) -> Node:
        found.setdefault(node)
        return node

    for value in values:
        map_arg(value, note)
    return found


class Node:
    """One step of a graph: an input, an attribute, a call or the result.

    Attributes:
        graph: The graph that owns the node.
        name: Name of the variable in generated code.
        op: One of ``placeholder``, ``get_attr``, ``call_function``, ``call_module``, ``call_method`` and ``output``.
        target: The function, or the name of the argument, attribute, method or module.
        users: The nodes that have this one among their arguments, as keys.
        type: Annotation of the result, or None.
        meta: Notes of passes about the node.
    """

    def __init__(self, graph: Graph, name: str, op: str, target: Target, args: tuple[Argument, ...],
                 kwargs: dict[str, Argument], return_type: Any = None) -> None:
        if op not in OPCODES:
            raise ArgumentError("Node", f"op {op!r}", f"op is one of {', '.join(OPCODES[:-1])}", "use one of them")
        if op == "call_function":
            if not callable(target):
                raise ArgumentError("Node", f"target {target!r}", "the target of a call_function is callable",
                                    "pass the function")
        elif not isinstance(target, str):
            raise ArgumentError("Node", f"a {type(target).__name__} as target of a {op}",
                                "the target of every other op is a str", "pass a name")
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._input_nodes: dict[Node, None] = {}
        self._repr_fn: Callable[[Node], str] | None = None
        self._prev: Node = self
        self._next: Node = self
        self._erased = False
        self._position = 0
        self._args: tuple[Argument, ...] = ()
        self._kwargs: dict[str, Argument] = immutable_dict()
        self._set_arguments(args, kwargs)

    # ---- order

    @property
    def next(self) -> Node:
        """The next node; the graph's root behind the last one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one; the graph's root before the first one."""
        return self._prev

    @property
    def _sort_key(self) -> tuple[int]:
        self.graph._number_nodes()
        return (self._position,)

    def __lt__(self, other: Node) -> bool:
        return self._sort_key < other._sort_key

    def __gt__(self, other: Node) -> bool:
        return self._sort_key > other._sort_key

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or self > other

    def prepend(self, x: Node) -> None:
        """Move a node of the same graph to the place before this one.

        Raises:
            AssertionError: ``x`` is of another graph.
        """
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x
        self.graph._is_numbered = False

    def append(self, x: Node) -> None:
        """Move a node of the same graph to the place behind this one."""
        if self is not x:
            self._next.prepend(x)

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    # ---- arguments

    @property
    def args(self) -> tuple[Argument, ...]:
        """Positional arguments; assign a new tuple to change them."""
        return self._args

    @args.setter
    def args(self, a: tuple[Argument, ...]) -> None:
        self._set_arguments(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """Keyword arguments; assign a new dict to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Argument]) -> None:
        self._set_arguments(self._args, k)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return list(self._input_nodes)

    def _set_arguments(self, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> None:
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._args = tuple(map_aggregate(tuple(args), _same))
        self._kwargs = map_aggregate(dict(kwargs), _same)
        self._input_nodes = nodes_in(self._args, self._kwargs)
        for node in self._input_nodes:
            node.users.setdefault(self)

    _update_args_kwargs = _set_arguments

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace one positional argument."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Insert a positional argument before position ``idx``.

        Raises:
            AssertionError: ``idx`` is not between 0 and the number of arguments.
        """
        if not 0 <= idx <= len(self.args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Set one keyword argument."""
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Replace a node among the arguments, wherever it occurs."""
        def replaced(node: Node) -> Node:
            return new_input if node is old_input else node

        self._call_replace_hooks(old_input, new_input)
        self._set_arguments(map_arg(self.args, replaced), map_arg(self.kwargs, replaced))

    def replace_all_uses_with(self, replace_with: Node, delete_user_cb: Callable[[Node], bool] | None = None, *,
                              propagate_meta: bool = False) -> list[Node]:
        """Let all users of this node use another one.

        Args:
            replace_with: The other node.
            delete_user_cb: Tells whether a user is to be changed; all are by default.
            propagate_meta: Whether ``replace_with``, whose ``meta`` is empty, gets this node's.

        Returns:
            The nodes that used this one, changed or not.

        Raises:
            AssertionError: ``propagate_meta``, and ``replace_with`` has metadata.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError("Called node.replace_all_uses_with(replace_with, propagate_meta=True), but "
                                     "replace_with already has .meta keys")
            replace_with.meta.update(self.meta)
        users = list(self.users)
        for user in users:
            if delete_user_cb is None or delete_user_cb(user):
                user.replace_input_with(self, replace_with)
        return users

    def _call_replace_hooks(self, old: Node, new: Node) -> None:
        for hook in getattr(self.graph.owning_module, "_replace_hooks", None) or ():
            hook(old=old, new=new.name, user=self)

    # ---- properties

    @property
    def stack_trace(self) -> str | None:
        """The lines of the program that made the node, if the tracer recorded them."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the node does more than to return a value, so that it stays although nothing uses it.

        Args:
            impure_random: Whether drawing random numbers counts, which changes the generator.
        """
        return is_impure(self, impure_random)

    def normalized_arguments(self, root: Any, arg_types: Any = None, kwarg_types: Any = None,
                             normalize_to_only_use_kwargs: bool = False) -> Any:
        """Return the arguments under the names of the function's or module's signature, or None without one.

        Args:
            root: The module whose submodules ``call_module`` nodes call.
            arg_types: Types of the positional arguments, if the function has several signatures.
            kwarg_types: Types of the keyword arguments.
            normalize_to_only_use_kwargs: Whether all arguments become keyword arguments.
        """
        return self.graph._normalize(self, root, arg_types, kwarg_types, normalize_to_only_use_kwargs)

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = candidate = self.graph._graph_namespace.create_name(candidate, None)
            self.graph._graph_namespace._rename_object(self, candidate)

    def __setattr__(self, name: str, value: Any) -> None:
        # The table of find_nodes is by op and target.
        if name in ("op", "target") and name in self.__dict__ and not self._erased:
            table = self.graph._find_nodes_lookup_table
            present = self in table
            if present:
                table.remove(self)
            object.__setattr__(self, name, value)
            if present:
                table.insert(self)
            return
        object.__setattr__(self, name, value)

    # ---- printing

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn is not None else self.name

    @staticmethod
    def _pretty_print_target(target: Any) -> str:
        """Return the name of a target in the listing of a graph."""
        if isinstance(target, str):
            return target
        if getattr(target, "__module__", None) == "_operator":
            return f"operator.{target.__name__}"
        name = getattr(target, "__name__", None)
        if name is not None and getattr(builtins, name, None) is target:
            return f"builtins.{name}"
        return qualified_name(target)

    def format_node(self, placeholder_names: list[str] | None = None, maybe_return_typename: list[str] | None = None, *,
                    include_tensor_metadata: bool = False) -> str:
        """Return the node's line in the listing of a graph.

        Args:
            placeholder_names: Gets name and annotation of a placeholder.
            maybe_return_typename: Gets the annotation of the output.
            include_tensor_metadata: Whether dtype and shape of a known result are shown.
        """
        kind = f": {type_name(self.type)} " if self.type else ": "
        head = f"%{self.name} {kind}[num_users={len(self.users)}] = {self.op}"
        target = f"[target={self._pretty_print_target(self.target)}]"
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(self.name + (f": {type_name(self.type)}" if self.type else ""))
            return head + target + (f"(default={self.args[0]})" if self.args else "")
        if self.op == "get_attr":
            return head + target
        if self.op == "output":
            if self.type and maybe_return_typename is not None:
                maybe_return_typename[0] = f" -> {type_name(self.type)}"
            return f"return {self.args[0]}"
        shown = f"{_shape_of(self)}" if include_tensor_metadata else ""
        return (f"{head}{target}(args = {format_argument(self.args)}, kwargs = {format_argument(self.kwargs)}){shown}")

    # ---- copies

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        # The order is the graph's list; links of thousands of nodes would nest as deeply.
        for name in ("_prev", "_next", "graph", "_repr_fn"):
            state.pop(name, None)
        return state


def _same(value: Given) -> Given:
    return value


def _shape_of(node: Node) -> str:
    value: Any = node.meta.get("val", node.meta.get("tensor_meta"))
    return f"  # {value.dtype}{list(value.shape)}" if hasattr(value, "shape") and hasattr(value, "dtype") else ""


def format_argument(value: Any, max_list_len: float = float("inf")) -> str:
    """Return an argument as listings of graphs show it, nodes with a ``%``."""
    custom = getattr(value, "_custom_fx_repr_fn", None)
    if custom is not None:
        return str(custom())
    if isinstance(value, (list, tuple)):
        left, right = "[]" if isinstance(value, list) else "()"
        items = [format_argument(item, max_list_len) for at, item in enumerate(value) if at < max_list_len]
        hidden = len(value) - len(items)
        text = ", ".join(items + ([f"...[total_len={len(value)}]"] if hidden else []))
        return f"{left}{text}{',' if len(value) == 1 and left == '(' else ''}{right}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {format_argument(item, max_list_len)}" for key, item in value.items()) + "}"
    return f"%{value}" if isinstance(value, Node) else str(value)
