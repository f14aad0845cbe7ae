"""The joint graph: recording the backward pass of a captured call behind the call itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensocket_core.autograd.differentiate import grad as gradients
from tensocket_core.autograd.node import MultiNode, Node, Output
from tensocket_core.formats import contiguous_format
from tensocket_core.keys import AUTOGRAD
from tensocket_operators.differentiation.function_node import FunctionNode
from tensocket_plugins.contract.errors import AutogradError

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


def is_live(tensor: Any) -> bool:
    """Whether a later backward pass may go through the graph of a tensor."""
    node = tensor._grad_fn
    node = node.node if type(node) is Output else node
    return bool(tensor._key & AUTOGRAD) and node is not None and node.saved is not None


def find_leaves(outputs: Sequence[Any]) -> list[Any]:
    """Return the tensors that gradients of the outputs flow to, in order of discovery.

    Raises:
        CannotRecord: A node has hooks, or runs Python code of a program.
    """
    found: dict[int, Any] = {}
    seen: set[int] = set()
    pending = [x._grad_fn for x in outputs]
    while pending:
        edge = pending.pop()
        node = edge.node if type(edge) is Output else edge
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if hasattr(node, "_key"):
            found[id(node)] = node
            continue
        if node.extras is not None or isinstance(node, FunctionNode):
            raise CannotRecord("its graph has hooks or functions of its own")
        if type(node) not in (Node, MultiNode):
            raise CannotRecord(f"its graph has a node {node.name()}")
        pending += reversed(node.edges)
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
    leaves = find_leaves(outputs)
    names = {id(x) for x in known}
    if any(id(x) not in names for x in leaves):
        raise CannotRecord("gradients flow to a tensor that it neither got nor captured")
    if any(x._extras is not None and x._extras.hooks for x in leaves if getattr(x, "_extras", None) is not None):
        raise CannotRecord("a tensor that gradients flow to has hooks")
    begin = recorder.fixed = len(recorder.recording.operations)
    starts = [x.detach().new_ones(tuple(x.shape)) for x in outputs]
    cotangents = tuple([recorder.region(x) for x in starts])
    with recorder:
        try:
            found = gradients(list(outputs), leaves, starts, retain_graph=True, allow_unused=True)
        except AutogradError as error:  # a part is freed, or a saved tensor was modified
            raise CannotRecord(f"its backward pass fails: {error}") from None
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
