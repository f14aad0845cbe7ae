"""The joint graph: recording the backward pass of a captured call behind the call itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensocket_core.autograd.differentiate import partial_gradients
from tensocket_core.autograd.edges import target_of
from tensocket_core.autograd.node import MultiNode, Node, Output
from tensocket_core.formats import contiguous_format
from tensocket_core.keys import AUTOGRAD
from tensocket_operators.differentiation.function_node import FunctionNode

from ..capture.recorder import CannotRecord, Recorder
from ..memory.regions import Region


@dataclass(frozen=True, slots=True)
class Joint:
    """The backward pass of a captured call.

    Attributes:
        begin: Number of operations before it.
        leaves: Tensors that gradients flow to: arguments and captured tensors, which may have graphs of their own.
        outputs: Results that gradients come from.
        cotangents: Regions of the outputs' gradients.
        gradients: Regions of the leaves' gradients; None where there is none.
    """

    begin: int
    leaves: tuple[Any, ...]
    outputs: tuple[Any, ...]
    cotangents: tuple[Region, ...]
    gradients: tuple[Region | None, ...]


def is_live(tensor: Any) -> bool:
    """Whether a later backward pass may go through the graph of a tensor."""
    node = tensor._grad_fn
    node = node.node if type(node) is Output else node
    return bool(tensor._key & AUTOGRAD) and node is not None and node.saved is not None


def find_leaves(outputs: Sequence[Any], known: Sequence[Any]) -> list[Any]:
    """Return the tensors that gradients of the outputs flow to, in order of discovery.

    Args:
        outputs: Tensors with a graph.
        known: Tensors at which the graph ends, also if they have one of their own.

    Raises:
        CannotRecord: A node has hooks, or runs Python code of a program.
    """
    inner = {target_of(x._grad_fn): x for x in known if x._key & AUTOGRAD and x._grad_fn is not None}
    found: dict[int, Any] = {}
    seen: set[tuple[int, int]] = set()
    pending = [x._grad_fn for x in outputs]
    while pending:
        edge = pending.pop()
        if edge is None or target_of(edge) in seen:
            continue
        seen.add(target_of(edge))
        end = edge if hasattr(edge, "_key") else inner.get(target_of(edge))
        node = edge.node if type(edge) is Output else edge
        if end is None and type(node) in (Node, MultiNode) and node.extras is None:
            pending += reversed(node.edges)
        elif end is None and (node.extras is not None or isinstance(node, FunctionNode)):
            raise CannotRecord("its graph has hooks or functions of its own")
        elif end is None:
            raise CannotRecord(f"its graph has a node {node.name()}")
        elif end is not edge and node.extras is not None:
            raise CannotRecord("an argument with a graph has hooks")
        else:
            found[id(end)] = end
    return list(found.values())


def record_backward(recorder: Recorder, outputs: Sequence[Any], known: Sequence[Any]) -> Joint:
    """Record the backward pass from outputs of a captured call; the graph stays as it is.

    Args:
        recorder: The recorder, which is not active.
        outputs: Results with a live graph.
        known: Arguments and captured tensors, which gradients may flow to.

    Raises:
        CannotRecord: Gradients flow to other tensors, or through hooks.
    """
    leaves = find_leaves(outputs, known)
    names = {id(x) for x in known}
    if any(id(x) not in names for x in leaves):
        raise CannotRecord("gradients flow to a tensor that it neither got nor captured")
    if any(x._extras is not None and x._extras.hooks for x in leaves if getattr(x, "_extras", None) is not None):
        raise CannotRecord("a tensor that gradients flow to has hooks")
    begin = len(recorder.recording.operations)
    starts = [x.detach().new_ones(tuple(x.shape)) for x in outputs]
    cotangents = tuple([recorder.region(x) for x in starts])
    with recorder:
        found = partial_gradients(list(outputs), leaves, starts)
        taken: set[Any] = set()
        results: list[Region | None] = []
        for x in found:
            results.append(None if x is None else _own(recorder, x, taken))
    return Joint(begin, tuple(leaves), tuple(outputs), cotangents, tuple(results))


def _own(recorder: Recorder, gradient: Any, taken: set[Any]) -> Region:
    """Return the region of a gradient in memory of its own; others are copied."""
    region = recorder.region(gradient)
    if region.buffer.kind != "temporary" or region.buffer in taken or not region.dense:
        region = recorder.region(gradient.clone(memory_format=contiguous_format))
    taken.add(region.buffer)
    return region
