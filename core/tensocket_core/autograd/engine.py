"""Reverse mode: visit nodes from the newest to the oldest, add up gradients, pass them on.

The loop is iterative. A heap orders nodes by sequence number (a consumer is always newer than its inputs). A node is
ready when it is popped, because every node that could add to its gradient came before it.

A leaf receives each gradient at once. Leaves with hooks are the exception: their hooks run once, with the whole
gradient, as soon as the oldest node that uses the leaf is done.
"""

from __future__ import annotations

import heapq
import itertools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from tensocket_plugins.contract.errors import AutogradError

from ..device import thread_streams, use_streams
from ..dispatch.modes import ACTIVE, INHERITED, STATE, set_grad_enabled
from ..keys import AUTOGRAD, OPTIONS, WRAPPER
from ..recording import OVERRIDDEN_KERNELS, RECORDING_SLOW_PATHS
from ..tensor import Tensor
from . import anomaly
from .accumulate import SOLE_REFERENCE, accumulate, add_gradients, try_set_first
from .array_backward import run_chain_on_arrays
from .deep import in_new_thread, stack_is_full
from .edges import Target, cast_to_shape, check_swapped, edges_on_the_way, fit_edge, last_uses, node_of, target_of
from .hooks import Extras, name_of
from .inspection import NAMED
from .node import MultiNode, Node, Output

_PARTS: Final = AUTOGRAD | WRAPPER


class _Current(threading.local):
    running: _Pass | None = None


_CURRENT: Final = _Current()
INHERITED.append(_CURRENT)
_NUMBERS: Final = itertools.count(1)


class _Pass:
    """One backward pass: gradients that wait for their node, and the targets of results.

    Args:
        edges: Wanted edges; None accumulates into all leaves.
        create_graph: Whether the computation is recorded.
        retain_graph: Whether nodes keep their saved tensors.
        into: Whether gradients accumulate into the wanted edges instead of being captured.
        ends: Whether the pass ends at wanted edges: none gets what flows through another.
    """

    __slots__ = ("callbacks", "captured", "captures", "create_graph", "ends", "grads", "heap", "held", "into",
                 "kept_edges", "last_uses", "nodes", "nothing", "number", "own", "parts", "plain", "retain_graph",
                 "roots", "wanted")

    def __init__(self, edges: Iterable[Any] | None, create_graph: bool, retain_graph: bool, into: bool,
                 ends: bool = False) -> None:
        self.number = next(_NUMBERS)
        self.into, self.ends = into, ends
        self.create_graph = create_graph
        self.retain_graph = retain_graph
        self.heap: list[int] = []
        self.nodes: dict[int, Node] = {}
        #: By sequence number: the gradient of a node with one output, or a list for several.
        self.grads: dict[int, Any] = {}
        #: Whether only leaves receive gradients, without recording or special features.
        self.plain = not create_graph and not RECORDING_SLOW_PATHS and (
            edges is None or all(isinstance(edge, Tensor) for edge in edges))
        #: Whether the gradients of wanted targets are captured.
        self.captures = edges is not None and not into
        #: Sequence numbers of nodes whose gradient only this pass refers to: further gradients are added in place.
        self.own: set[int] = set()
        #: Leaves and the sums of gradients of their slices.
        self.parts: dict[int, tuple[Any, Any]] = {}
        self.wanted = None if edges is None else {target_of(edge) for edge in edges}
        #: By sequence number of the nodes that lead to a wanted target: their edges, None for each that does not. None
        #: if all edges lead to wanted targets.
        self.kept_edges: dict[int, tuple[Any, ...]] | None = None
        self.captured: dict[Target, Any] = {}
        #: Leaves with hooks and their gradients so far; by sequence number, the leaves that no older node uses.
        self.held: dict[int, tuple[Any, Any]] = {}
        self.last_uses: dict[int, list[int]] | None = None
        self.callbacks: list[Callable[[], Any]] = []
        #: Nodes to visit although no gradient has arrived so far.
        self.nothing: set[int] = set()

    # ------------------------------------------------------------------------------------------ giving

    def give(self, edge: Any, grad: Any, sole: bool = False) -> None:
        """Add to the gradient of an edge's target."""
        kind = type(edge)
        if kind is Node or kind in NAMED:
            if grad._array.shape != edge.shape or grad._key & OPTIONS != edge.options:
                grad = cast_to_shape(grad, edge.shape, edge.options)
            sequence = edge.sequence
            if sequence in self.grads:
                if sequence in self.own and not grad._key & _PARTS:
                    self.grads[sequence].add_(grad)
                elif self.nothing and sequence in self.nothing:
                    self.nothing.discard(sequence)
                    self.grads[sequence] = grad
                else:
                    total = self.grads[sequence] = add_gradients(self.grads.pop(sequence), grad, self.create_graph)
                    if self.plain and not total._key & _PARTS:
                        self.own.add(sequence)
            else:
                self._queue(edge, grad)
            return
        if kind is not Output and not isinstance(edge, Node):
            if grad._array.shape != edge._array.shape or (grad._key ^ edge._key) & OPTIONS:
                grad, sole = cast_to_shape(grad, edge._array.shape, edge._key & OPTIONS), True
            self._give_leaf(edge, grad, sole)
            return
        node = node_of(edge)
        if isinstance(node, MultiNode):
            self._give_output(node, target_of(edge)[1], fit_edge(edge, grad))

    def _queue(self, node: Node, grad: Any) -> None:
        self.grads[node.sequence], self.nodes[node.sequence] = grad, node
        heapq.heappush(self.heap, -node.sequence)

    def _visit_without_gradient(self, edge: Any) -> None:
        """Visit the target of an edge even if no gradient arrives: user-defined functions receive zeros, hooks None."""
        node = node_of(edge)
        if node is None or node.sequence in self.grads:
            return
        self._queue(node, None)
        self.nothing.add(node.sequence)

    def _give_part(self, node: Node, grad: Any) -> bool:
        """Add the gradient of a slice of a tensor to that of the whole; False if the node must run instead.

        Many slices, each with a gradient as large as the whole, would cost as many passes over it.
        """
        whole = node.edges[0]
        if node.saved is None or grad._key & _PARTS or not (self.heap or id(whole) in self.parts):
            return False
        if type(whole) is Tensor:
            if whole._extras is not None or (grad._key ^ whole._key) & OPTIONS:
                return False
            if id(whole) not in self.parts:
                self.parts[id(whole)] = whole, grad.new_zeros(whole._array.shape)
            node.derivative.add_part(self.parts[id(whole)][1], grad, *node.saved)
            return True
        if type(whole) is not Node or grad._key & OPTIONS != whole.options:
            return False
        sequence = whole.sequence
        if sequence not in self.grads:
            self._queue(whole, grad.new_zeros(whole.shape))
            self.own.add(sequence)
        elif sequence not in self.own:
            return False
        node.derivative.add_part(self.grads[sequence], grad, *node.saved)
        return True

    def _give_output(self, node: MultiNode, index: int, grad: Any) -> None:
        sequence = node.sequence
        if sequence not in self.grads:
            self._queue(node, [None] * len(node.outputs))
        elif self.nothing and sequence in self.nothing:
            self.nothing.discard(sequence)
            self.grads[sequence] = [None] * len(node.outputs)
        grads = self.grads[sequence]
        grads[index] = grad if grads[index] is None else add_gradients(_pop_value(grads, index), grad,
                                                                       self.create_graph)

    def _give_leaf(self, leaf: Any, grad: Any, sole: bool) -> None:
        if self.wanted is not None and (id(leaf), 0) not in self.wanted:
            return
        if leaf._extras is not None:
            if leaf._key & AUTOGRAD:
                old = self.held.get(id(leaf))
                self.held[id(leaf)] = leaf, grad if old is None else old[1] + grad
            elif leaf._extras.swapped:
                self.held[id(leaf)] = leaf, grad
        elif leaf._key & AUTOGRAD and self.captures:
            self.capture((id(leaf), 0), grad)
        elif leaf._key & AUTOGRAD:
            accumulate(leaf, grad, self.create_graph, sole)

    def capture(self, target: Target, grad: Any) -> None:
        known = target in self.captured
        self.captured[target] = add_gradients(self.captured.pop(target), grad, self.create_graph) if known else grad

    # ------------------------------------------------------------------------------------------ visiting

    def start(self, roots: Sequence[tuple[Any, Any]]) -> None:
        """Queue everything that gradients of ``roots`` reach."""
        self.roots = roots
        if self.plain and len(roots) == 1:
            edge, gradient = roots[0]
            if type(edge) is Node and (edge.shape, edge.options) == _place(gradient):
                self.run(edge, gradient)
                return
            if type(edge) is MultiNode and edge.outputs[0] == _place(gradient):
                self.run(edge, [gradient, *[None] * (len(edge.outputs) - 1)])
                return
        for edge, gradient in roots:
            self.give(edge, gradient)
        self.run()

    def run(self, node: Any = None, grad: Any = None) -> None:
        """Visit all nodes that have a gradient.

        Args:
            node: A node to visit first; no other pass has visited it.
            grad: Its gradient; a list for a node with several outputs.
        """
        if self.wanted is not None:
            nodes = self.nodes.values() if node is None else (node,)
            self.kept_edges = edges_on_the_way(nodes, self.wanted, self.into, self.plain)
        heap, retain, plain, kept_edges = self.heap, self.retain_graph, self.plain, self.kept_edges
        on_arrays = plain and not ACTIVE and not OVERRIDDEN_KERNELS
        while node is not None or heap:
            if node is None:
                sequence = -heapq.heappop(heap)
                node, grad = self.nodes.pop(sequence), self.grads.pop(sequence)
                self.own.discard(sequence)
                if grad is None:
                    self._visit_without(node)
                    node = None
                    continue
            else:
                sequence = node.sequence
            while node is not None:
                if on_arrays and type(node) is Node and node.extras is None and node.derivative.arrays:
                    node, grad, last = run_chain_on_arrays(self, node, grad)
                    sequence = last or sequence
                    if node is None:
                        break
                    if last:
                        grad = cast_to_shape(grad, node.shape, node.options)
                edges = node.edges if kept_edges is None else kept_edges.get(node.sequence, ())
                if plain and type(node) is Node and node.extras is None and not grad._key & WRAPPER:
                    if not edges or (node.derivative.add_part is not None and self._give_part(node, grad)):
                        break
                    outputs = node.apply_plain(grad, edges)
                elif plain and edges and type(node) is MultiNode and node.extras is None and not _wrapped(grad):
                    outputs = node.apply_plain(tuple(grad), edges)
                else:
                    with set_grad_enabled(self.create_graph):
                        outputs = self._visit(node, grad, edges)
                if not retain and edges and node.saved and node.derivative.frees:  # a captured node has not run
                    node.saved = None
                # No variable may hold a gradient that is passed on, so that a leaf can take it over without a copy.
                grad = None
                only = None if heap or self.held or not edges else _only_node(edges, outputs)
                if only is None:
                    self._pass_on(edges, outputs)
                    break
                # While the heap is empty, a single successor is the next node.
                grad, node, sequence = outputs[0], only, only.sequence
                if grad._array.shape != node.shape or grad._key & OPTIONS != node.options:
                    with set_grad_enabled(self.create_graph):
                        grad = cast_to_shape(grad, node.shape, node.options)
            node = None
            if self.held:
                with set_grad_enabled(self.create_graph):
                    self._serve_held(sequence)
        if self.held or self.callbacks or self.parts:
            with set_grad_enabled(self.create_graph):
                self._finish()

    def _pass_on(self, edges: tuple[Any, ...], outputs: list[Any]) -> None:
        keeps = self.plain and not self.captures
        for edge in reversed(edges):
            output = outputs.pop()
            if edge is None:
                continue
            if output is None:
                self._visit_without_gradient(edge)
            else:
                # The count is taken before the call, because arguments are references too.
                sole = sys.getrefcount(output) == SOLE_REFERENCE
                if not (sole and keeps and try_set_first(edge, output)):
                    self.give(edge, output, sole)

    def _finish(self) -> None:
        while self.parts:
            self._give_leaf(*self.parts.popitem()[1], True)
        for leaf, grad in tuple(self.held.values()):
            self._serve(leaf, grad)
        while self.callbacks:
            self.callbacks.pop(0)()

    def _visit_without(self, node: Node) -> None:
        """Visit a node that received no gradient."""
        self.nothing.discard(node.sequence)
        with set_grad_enabled(self.create_graph):
            edges = node.edges if self.kept_edges is None else self.kept_edges.get(node.sequence, ())
            outputs = self._visit(node, [None] * len(node.outputs) if isinstance(node, MultiNode) else None, edges)
        if not self.retain_graph and edges and node.saved and node.derivative.frees:
            node.saved = None
        self._pass_on(edges, outputs)
        if self.held:
            with set_grad_enabled(self.create_graph):
                self._serve_held(node.sequence)

    def _visit(self, node: Node, grad: Any, edges: tuple[Any, ...]) -> list[Any]:
        """Visit a node with special features: hooks, several outputs, a stream, wanted gradients; ``edges`` as kept."""
        many = isinstance(node, MultiNode)
        grads = tuple(grad) if many else (grad,)
        extras = node.extras
        if extras is not None:
            grads = tuple([extras.run_gradient(k, g) for k, g in enumerate(grads)])
        if self.wanted is not None:
            for k, g in enumerate(grads):
                if g is not None and self.captures and (id(node), k) in self.wanted:
                    self.capture((id(node), k), g)
            if not edges or (self.ends and any((id(node), k) in self.wanted for k in range(len(grads)))):
                return [None] * len(edges)
        if extras is not None and extras.before:
            grads = extras.run_before(grads)
        outputs = self._compute(node, grads if many else grads[0], edges)
        if extras is not None and extras.after:
            fitted = tuple([fit_edge(edge, output) for edge, output in zip(edges, outputs, strict=True)])
            outputs = list(extras.run_after(fitted, grads))
        return outputs

    def _compute(self, node: Node, grad: Any, edges: tuple[Any, ...]) -> list[Any]:
        if not node.runs_without and (grad is None or (type(grad) is tuple and all(g is None for g in grad))):
            return [None] * len(edges)
        streams = None if node.extras is None else node.extras.streams
        ambient = thread_streams()
        if streams != ambient:
            use_streams(streams)
        tracer = STATE.tracer
        compute = self._compute_checked if anomaly.enabled() else self._compute_plain
        try:
            if tracer is None:
                return compute(node, grad, edges)
            given = grad if isinstance(grad, (tuple, list)) else (grad,)
            return tracer.step("backward", node.name(), "", "", given, partial(compute, node, grad, edges))  # type: ignore[no-any-return]
        finally:
            if streams != ambient:
                use_streams(ambient)

    def _compute_plain(self, node: Node, grad: Any, edges: tuple[Any, ...]) -> list[Any]:
        return node.apply(grad, edges, self.create_graph)

    def _compute_checked(self, node: Node, grad: Any, edges: tuple[Any, ...]) -> list[Any]:
        parent, anomaly.CURRENT.node = anomaly.CURRENT.node, node
        try:
            outputs = node.apply(grad, edges, self.create_graph)
            anomaly.check(node, outputs)
        except Exception:
            anomaly.report(node)
            raise
        finally:
            anomaly.CURRENT.node = parent
        return outputs

    # ------------------------------------------------------------------------------------------ leaves with hooks

    def _serve_held(self, sequence: int) -> None:
        """Serve leaves that no pending node uses."""
        if self.last_uses is None:
            self.last_uses = last_uses(self.nodes.values())
            later = {leaf for leaves in self.last_uses.values() for leaf in leaves}
            ready = [leaf for leaf in self.held if leaf not in later]
        else:
            ready = self.last_uses.get(sequence, [])
        for identity in ready:
            if identity in self.held:
                self._serve(*self.held[identity])

    def _serve(self, leaf: Any, grad: Any) -> None:
        self.held.pop(id(leaf), None)
        if leaf._extras.swapped:
            check_swapped(leaf, [edge for edge, _ in self.roots])
        grad = leaf._extras.run_gradient(0, grad)
        if self.captures:
            # A pass that only returns gradients runs neither the leaf's node nor its hooks.
            self.capture((id(leaf), 0), grad)
        else:
            _accumulate_hooked(leaf, leaf._extras, grad, self.create_graph)


def _accumulate_hooked(leaf: Any, extras: Extras, grad: Any, create_graph: bool) -> None:
    """Accumulate the complete gradient of a leaf with hooks."""
    if extras.before:
        (grad,) = extras.run_before((grad,))
        if grad is None:
            return
    first = leaf._grad is None
    accumulate(leaf, grad, create_graph)
    seen = leaf._grad if first else grad
    for hook in tuple((extras.accumulated or {}).values()):
        if hook(leaf) is not None:
            raise AutogradError("backward", f"a value from hook {name_of(hook)!r}",
                                "hooks that run after a gradient was accumulated return None",
                                "assign to the leaf's grad instead")
    if extras.after:
        extras.run_after((), (seen,))


def _place(x: Any) -> tuple[tuple[int, ...], int]:
    """Return the shape and options of a tensor."""
    return x._array.shape, x._key & OPTIONS


def _wrapped(grads: list[Any]) -> bool:
    """Whether any gradient is not a plain tensor."""
    bits = 0
    for grad in grads:
        if grad is not None:
            bits |= grad._key
    return bool(bits & WRAPPER)


def _pop_value(values: list[Any], index: int) -> Any:
    """Return an element and remove it from the list, so that the list holds no reference."""
    value = values[index]
    values[index] = None
    return value


def _only_node(edges: tuple[Any, ...], outputs: list[Any]) -> Node | None:
    """Return the node that receives all of a node's gradients, by its first edge and one output; else None."""
    first = edges[0]
    if type(first) is not Node or outputs[0] is None:
        return None
    return first if len(edges) == 1 or (len(edges) == 2 and edges[1] is None) else None


def run_pass(roots: Sequence[tuple[Any, Any]], edges: list[Any] | None, retain_graph: bool | None,
             create_graph: bool, into: bool = False, ends: bool = False) -> dict[Target, Any]:
    """Run one backward pass.

    Args:
        roots: Edges and the gradients to start from.
        edges: Wanted edges; None accumulates into leaves.
        retain_graph: Whether to keep saved tensors; default is ``create_graph``.
        create_graph: Whether the computation is recorded.
        into: Whether gradients accumulate into the wanted edges.
        ends: Whether the pass ends at wanted edges: none gets what flows through another.

    Returns:
        Gradients of the wanted edges, unless they accumulate.
    """
    if _CURRENT.running is not None and stack_is_full():
        return in_new_thread(lambda: run_pass(roots, edges, retain_graph, create_graph, into, ends))
    state = _Pass(edges, create_graph, create_graph if retain_graph is None else retain_graph, into, ends)
    outer, _CURRENT.running = _CURRENT.running, state
    try:
        if create_graph:
            with set_grad_enabled(True):
                state.start(roots)
        else:
            # Nothing that plain nodes compute with is part of a graph, so they need no mode.
            state.start(roots)
    finally:
        _CURRENT.running = outer
    return state.captured


def current_pass() -> _Pass | None:
    """Return the innermost backward pass of this thread."""
    return _CURRENT.running


@contextmanager
def outside_of_passes() -> Iterator[None]:
    """Run a block as outside of this thread's backward passes."""
    outer, _CURRENT.running = _CURRENT.running, None
    try:
        yield
    finally:
        _CURRENT.running = outer


def queue_callback(callback: Callable[[], Any]) -> None:
    """Call a function at the end of this thread's backward pass, or at once outside of one."""
    if _CURRENT.running is None:
        callback()
    else:
        _CURRENT.running.callbacks.append(callback)
