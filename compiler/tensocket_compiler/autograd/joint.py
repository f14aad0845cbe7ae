"""The joint graph: recording the backward pass of a captured call behind the call itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensocket_core.autograd.differentiate import partial_gradients
from tensocket_core.autograd.edges import Target, target_of
from tensocket_core.autograd.node import AccumulateGrad, MultiNode, Node, Output
from tensocket_core.autograd.record import version_of
from tensocket_core.formats import contiguous_format
from tensocket_core.keys import AUTOGRAD
from tensocket_core.pytree import tree_flatten
from tensocket_core.pytree_nodes import NODES
from tensocket_core.tensor import Tensor
from tensocket_operators.differentiation.function_node import FunctionNode
from tensocket_plugins.contract.errors import AutogradError, TensocketError

from ..capture.recorder import CannotRecord, Recorder
from ..memory.regions import Region


@dataclass(frozen=True, slots=True)
class Joint:
    """The backward pass of a captured call.

    Attributes:
        begin: Number of operations before it.
        leaves: Tensors that gradients flow to: arguments and captured tensors.
        outputs: Results that gradients come from.
        cotangents: Regions of the outputs' gradients.
        gradients: Regions of the leaves' gradients; None where there is none.
    """

    begin: int
    leaves: tuple[Any, ...]
    outputs: tuple[Any, ...]
    cotangents: tuple[Region, ...]
    gradients: tuple[Region | None, ...]


Borders = Mapping[Target, Any]


def borders_of(tensors: Sequence[Any]) -> Borders:
    """Return the tensors that a graph made, by the target of their gradients: the graph of a call ends there."""
    return {target_of(x._grad_fn): x for x in reversed(tensors) if x._grad_fn is not None}


def is_live(tensor: Any, borders: Borders) -> bool:
    """Whether a later backward pass may go through the graph of a tensor."""
    return bool(tensor._key & AUTOGRAD) and tensor._grad_fn is not None and not is_consumed(tensor._grad_fn, borders)


def is_consumed(edge: Any, borders: Borders) -> bool:
    """Whether a backward pass has freed what a node of the call saved, so that nothing can go through it again.

    Nodes that save nothing, such as that of ``mean``, do not tell; those in front of them do.
    """
    return any(node.saved is None for node in _nodes([edge], borders, []))


def graph_states(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """Return whether a backward pass can go through the graph of each tensor among the results of a call.

    Operators that are recorded part by part have other nodes, which save other tensors. So a run that is recorded may
    leave graphs where the plain one left none.

    Args:
        result: The result of the call.
        args: Its arguments.
        kwargs: Its arguments by name.
    """
    borders = borders_of(tensors_in((args, kwargs)))
    return [_graph_state(x, borders) for x in tensors_in(result)]


def tensors_in(tree: Any) -> list[Any]:
    """Return the tensors in a tree, whose containers count once, as one may hold itself."""
    done: dict[int, Any] = {}  # alive, so that no other container gets its identity

    def is_done(value: Any) -> bool:
        if type(value) not in NODES or id(value) in done:
            return id(value) in done
        done[id(value)] = value
        return False

    return [x for x in tree_flatten(tree, is_done)[0] if isinstance(x, Tensor)]


def has_graphs(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], wanted: Sequence[str]) -> bool:
    """Whether the results of a recorded call have the graphs of the plain one, see ``graph_states``.

    Graphs that the plain call freed are freed.
    """
    found = graph_states(result, args, kwargs)
    for x, state, other in zip(tensors_in(result), found, wanted, strict=False):
        if state != other == "freed":
            node: Any = x._grad_fn
            (node.node if type(node) is Output else node).saved = None
    return found == list(wanted)


def _graph_state(tensor: Any, borders: Borders) -> str:
    try:
        nodes = list(_nodes([tensor._grad_fn], borders, []))
    except AutogradError:
        return "unusable"  # a view that its base left behind has no node
    if any(node.saved is None for node in nodes):
        return "freed"
    stale = any(version >= 0 and version_of(value) != version for node in nodes
                for value, version in zip(node.saved, node.versions, strict=False))
    return "modified" if stale else "usable"


def _nodes(edges: Sequence[Any], borders: Borders, leaves: list[Any]) -> Iterator[Any]:
    """Yield the nodes behind edges up to the borders, and add the leaves and border tensors that they lead to."""
    seen: set[int] = set()
    pending = list(edges)
    while pending:
        edge = pending.pop()
        if edge is None:
            continue
        node = edge.node if type(edge) is Output else edge
        border = borders.get(target_of(edge))
        leaf = node if border is None and hasattr(node, "_key") else border
        if leaf is not None:
            if all(leaf is not each for each in leaves):
                leaves.append(leaf)
        elif id(node) not in seen:
            seen.add(id(node))
            yield node
            pending += reversed(node.edges)


def find_leaves(outputs: Sequence[Any], borders: Borders) -> list[Any]:
    """Return the tensors that gradients of the outputs flow to, in order of discovery.

    Raises:
        CannotRecord: A node has hooks, or runs Python code of a program.
    """
    found: list[Any] = []
    for node in _nodes([x._grad_fn for x in outputs], borders, found):
        if node.extras is not None or isinstance(node, FunctionNode):
            raise CannotRecord("its graph has hooks or functions of its own")
        if not _is_recorded(node):
            raise CannotRecord(f"its graph has a node {node.name()}")
    if any(getattr(getattr(x._grad_fn, "node", x._grad_fn), "extras", None) is not None for x in found):
        raise CannotRecord("an argument with a graph has hooks")
    return found


def _is_recorded(node: Any) -> bool:
    """Whether an operator made a node; nodes that a program has looked at are of classes with names of operators."""
    kind = type(node)
    named = kind.__base__ in (Node, MultiNode) and kind.__module__ == Node.__module__ and kind is not AccumulateGrad
    return kind in (Node, MultiNode) or named


def record_backward(recorder: Recorder, outputs: Sequence[Any], known: Sequence[Any]) -> Joint:
    """Record the backward pass from outputs of a captured call; the graph stays as it is.

    Args:
        recorder: The recorder, which is not active.
        outputs: Results with a live graph.
        known: Arguments and captured tensors, which gradients may flow to.

    Raises:
        CannotRecord: Gradients flow to other tensors, or through hooks.
    """
    leaves = find_leaves(outputs, borders_of(known))
    names = {id(x) for x in known}
    if any(id(x) not in names for x in leaves):
        raise CannotRecord("gradients flow to a tensor that it neither got nor captured")
    if any(_has_hooks(x) for x in leaves):
        raise CannotRecord("a tensor that gradients flow to has hooks")
    begin = recorder.fixed = len(recorder.recording.operations)
    starts = [x.detach().new_ones(tuple(x.shape)) for x in outputs]
    cotangents = tuple([recorder.region(x) for x in starts])
    with recorder:
        try:
            found = partial_gradients(list(outputs), leaves, starts)
        except TensocketError as error:  # a part is freed, a saved tensor was modified, or a derivative raises
            raise CannotRecord(f"its backward pass fails: {error}") from None
        taken: set[Any] = set()
        results: list[Region | None] = []
        for x in found:
            results.append(None if x is None else _own(recorder, x, taken))
    return Joint(begin, tuple(leaves), tuple(outputs), cotangents, tuple(results))


def _has_hooks(leaf: Any) -> bool:
    """Whether hooks see the gradient of a leaf."""
    extras = getattr(leaf, "_extras", None)
    return extras is not None and any(
        hooks for hooks in (*(extras.gradient or {}).values(), extras.before, extras.after, extras.accumulated))


def _own(recorder: Recorder, gradient: Any, taken: set[Any]) -> Region:
    """Return the region of a gradient in memory of its own; others are copied."""
    region = recorder.region(gradient)
    if region.buffer.kind != "temporary" or region.buffer in taken or not region.dense:
        region = recorder.region(gradient.clone(memory_format=contiguous_format))
    taken.add(region.buffer)
    return region
