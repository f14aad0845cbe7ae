"""Backward passes as replays: the launches of an earlier pass through a graph of the same form, as one call.

On a few elements, a pass spends its time between launches: on nodes, tensors and sums of gradients. Guard: it starts
from losses of one element, records nothing, and ends at leaves; nothing is hooked, replaced or wrapped, and saved
tensors are small and unchanged. Work: the launches of all rules, in the engine's order. All other passes go to the
engine, as do passes through graphs that launches alone do not serve.

The *form* of a graph is all that rules depend on, except for contents and layouts of saved tensors: the rules, shapes
and dtypes, how nodes are connected, the saved values that are no tensors, and the order in which the engine visits the
nodes. Replays compare layouts (``launch/replay.py``), and their sums may round otherwise than NumPy's, as those of
single rules (``replayed_rules``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, Final

import numpy as np

from tensocket_core.autograd.edges import cast_to_shape
from tensocket_core.autograd.engine import WHOLE_PASSES
from tensocket_core.autograd.node import MultiNode, Node, Output
from tensocket_core.device import BY_KEY
from tensocket_core.dispatch.derivative import ARRAYS
from tensocket_core.keys import AUTOGRAD, DEVICE_MASK, LAZY, OPTIONS, WRAPPER
from tensocket_core.launch.arguments import frozen
from tensocket_core.launch.entries import ENABLED
from tensocket_core.launch.replay import ELEMENTS, ELEMENTS_PER_CALL, compiled_launches
from tensocket_core.promotion import DEFAULT_DTYPE
from tensocket_core.recording import OVERRIDDEN_KERNELS, RECORDING_SLOW_PATHS
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract.launch_recorder import RECORDERS
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS
from tensocket_plugins.kit.bounded import BoundedCache

from ..unrolled.kernels import launching_kernels

#: The nodes that passes visit before their launches are recorded, which costs as much as some thousand visits save;
#: most graphs that a program makes so often are those of its training loop. Passes over large arrays wait longer.
VISITS = 400
#: Most nodes of a graph; most recordings for graphs of one form; most forms.
_NODES: Final = 64
_TRIES: Final = 3
_FORMS: Final = 512
#: The number of the output of a target that is a leaf.
_LEAF: Final = -1
_WRAPPED: Final = LAZY | WRAPPER
_PLAIN: Final = AUTOGRAD | _WRAPPED
_NO_SHAPES: Final = itertools.repeat(False)
#: Types whose equal values are identical; ``frozen`` compares others.
_EXACT: Final = frozenset({bool, str})


class _Unfit(Exception):
    """The engine serves this graph."""


class _Graph:
    """The nodes behind some losses, in an order that depends on the graph's form alone.

    Walking costs as much as the launches, so that the constructor is one function.

    Attributes:
        nodes: The nodes.
        leaves: The leaves.
        operands: The losses, and then the saved tensors.
        words: The form: numbers for edges and operands, and values.

    Args:
        losses: Tensors with a graph.
        wanted: Identities of the leaves that receive gradients; None for all of them.

    Raises:
        _Unfit: See the module.
    """

    __slots__ = ("_places", "leaves", "nodes", "operands", "words")

    def __init__(self, losses: Sequence[Any], wanted: set[int] | None) -> None:
        places = self._places = dict[int, int]()  # by identity
        nodes = self.nodes = list[Any]()
        leaves = self.leaves = list[Any]()
        self.operands: list[Any] = []
        words = self.words = list[Any]()
        edges: Iterable[Any] = [loss._grad_fn for loss in losses]
        values: Sequence[Any] = losses
        versions: Iterable[int] = [loss._version for loss in losses]
        shapes: Iterable[bool] = _NO_SHAPES
        done = 0
        while True:
            for value, version, is_shape in zip(values, versions, shapes, strict=False):
                if is_shape:
                    words.append(value)
                elif version >= 0:
                    place = places.get(id(value))
                    if place is None:
                        place = self._add_operand(value)
                    counter = value._version_counter
                    if counter is not None and counter[0] != version:
                        raise _Unfit
                    words.append(place)
                elif version != -1:
                    raise _Unfit
                elif value is None or type(value) in _EXACT:
                    words.append(value)
                elif _is_list_of_tensors(value):
                    words.append(tuple([self._add_operand(tensor) for tensor in value]))
                else:
                    words.append(frozen(_fixed(value)))
            for edge in edges:
                if edge is None:
                    words.append(None)
                    continue
                kind = type(edge)
                index = 0
                if kind is Output:
                    edge, index = edge.node, edge.index
                    kind = type(edge)
                place = places.get(~id(edge))
                if place is None:
                    place = places[~id(edge)] = len(nodes) + len(leaves)
                    if kind is Node or kind is MultiNode:
                        if edge.extras is not None or edge.saved is None or len(nodes) == _NODES:
                            raise _Unfit
                        nodes.append(edge)
                    elif isinstance(edge, Tensor) and edge._key & _PLAIN == AUTOGRAD and edge._extras is None and (
                            edge._base is None and (wanted is None or id(edge) in wanted)):
                        leaves.append(edge)
                        words.append(edge._array.shape)
                        words.append(edge._key & OPTIONS)
                    else:
                        raise _Unfit
                words.append(place << 8 | index)
            if done == len(nodes):
                break
            node = nodes[done]
            done += 1
            values, versions, edges = node.saved, node.versions, node.edges
            derivative = node.derivative
            shapes = derivative.saves_shapes
            if type(node) is MultiNode:
                words += derivative, node.outputs
            else:
                words += derivative, node.shape, node.options
        if done > 2 or len(losses) > 1:  # the engine visits the newest node first
            sequences = [node.sequence for node in nodes]
            words += sorted(range(done), key=sequences.__getitem__, reverse=True)

    def _add_operand(self, tensor: Any) -> int:
        """Return the place of a tensor among the operands."""
        place = self._places.get(id(tensor))
        if place is None:
            key = tensor._key
            if key & _WRAPPED or tensor._array.size > ELEMENTS:
                raise _Unfit
            place = self._places[id(tensor)] = len(self.operands)
            self.operands.append(tensor)
            self.words.append(key & OPTIONS)
        return place

    def target(self, edge: Any) -> tuple[int, int]:
        """Return the place of an edge's node and the number of its output, or the place of a leaf and -1."""
        if isinstance(edge, Tensor):
            return next(k for k, leaf in enumerate(self.leaves) if leaf is edge), _LEAF
        node, index = (edge.node, edge.index) if type(edge) is Output else (edge, 0)
        return next(k for k, known in enumerate(self.nodes) if known is node), index

    def operand(self, tensor: Any) -> int:
        """Return the place of a loss or saved tensor."""
        return self._places[id(tensor)]

    def saved(self, node: Any) -> list[Callable[[Sequence[Any]], Any]]:
        """Return a function for each saved value of a node, which returns it for some operands."""
        return [self._pick(value, version) for value, version in zip(node.saved, node.versions, strict=True)]

    def _pick(self, value: Any, version: int) -> Callable[[Sequence[Any]], Any]:
        if version >= 0:
            return itemgetter(self.operand(value))
        if _is_list_of_tensors(value):
            places = [self.operand(tensor) for tensor in value]
            return lambda operands: tuple([operands[place] for place in places])
        own = _fixed(value)
        return lambda operands: own


def _fixed(value: Any) -> Any:
    """Return a value with tuples in the place of lists, which may change."""
    return tuple(map(_fixed, value)) if type(value) in (list, tuple) else value


def _is_list_of_tensors(value: Any) -> bool:
    return type(value) is tuple and bool(value) and isinstance(value[0], Tensor)


class _Step:
    """One node of a pass, without its tensors.

    Attributes:
        outputs: Shape and key bits of each output; None for one without gradients.
        targets: Where each gradient goes; None if it is not wanted.
    """

    __slots__ = ("_derivative", "_saved", "outputs", "sequence", "targets")

    def __init__(self, graph: _Graph, node: Any) -> None:
        self._derivative, self.sequence = node.derivative, node.sequence
        self.outputs = node.outputs if type(node) is MultiNode else ((node.shape, node.options),)
        self.targets = [None if edge is None else graph.target(edge) for edge in node.edges]
        self._saved = graph.saved(node)

    def gradients(self, arrived: list[Any], operands: Sequence[Any]) -> Sequence[Any]:
        """Return the gradient for each target."""
        derivative = self._derivative
        given = tuple(arrived) if derivative.multiple else arrived[0]
        saved = [pick(operands) for pick in self._saved]
        if derivative.joint is not None:
            return derivative.joint(given, *[saved[k] for k in derivative.picks[0]])  # type: ignore[no-any-return]
        return [None if target is None or rule is None else rule(given, *[saved[k] for k in picks])
                for target, rule, picks in zip(self.targets, derivative.functions, derivative.picks, strict=True)]


class _Pass:
    """A pass through graphs of one form, as a function of its operands.

    Attributes:
        receivers: For each result of the last call, the place of the leaf that receives it.

    Args:
        graph: A graph of the form.
        captures: Whether each leaf receives one sum, instead of gradients that are added to it one by one.
    """

    def __init__(self, graph: _Graph, losses: Sequence[Any], captures: bool) -> None:
        self._captures = captures
        self._starts = [graph.target(loss._grad_fn) for loss in losses]
        self._losses = [graph.operand(loss) for loss in losses]
        self._steps = [_Step(graph, node) for node in graph.nodes]
        self._leaves = [(leaf._array.shape, leaf._key & OPTIONS) for leaf in graph.leaves]
        self.receivers: list[int] = []

    def __call__(self, *operands: Any) -> tuple[Any, ...]:
        """Return the gradients for leaves."""
        arrived: list[list[Any]] = [[None] * len(step.outputs) for step in self._steps]
        received: list[tuple[int, Any]] = []
        for target, place in zip(self._starts, self._losses, strict=True):
            loss = operands[place]
            self._give(target, loss.new_ones(loss.shape), arrived, received)
        for place in sorted(range(len(self._steps)), key=lambda k: -self._steps[k].sequence):
            step = self._steps[place]
            if all(grad is None for grad in arrived[place]):
                continue
            outputs = step.gradients(arrived[place], operands)
            for goal, output in zip(reversed(step.targets), reversed(outputs), strict=True):  # as the engine does
                if goal is not None and output is not None:
                    self._give(goal, output, arrived, received)
        if self._captures:
            received = _summed(received)
        self.receivers = [place for place, _ in received]
        return _distinct([grad for _, grad in received], operands)

    def _give(self, target: tuple[int, int], grad: Any, arrived: list[list[Any]], received: list[tuple[int, Any]]
              ) -> None:
        place, index = target
        if index == _LEAF:
            received.append((place, cast_to_shape(grad, *self._leaves[place])))
            return
        form = self._steps[place].outputs[index]
        assert form is not None
        grad, old = cast_to_shape(grad, *form), arrived[place][index]
        if 0 in grad._array.strides and grad._array.size <= ARRAYS:
            grad = grad.contiguous()  # products of few elements take dense operands only
        arrived[place][index] = grad if old is None else old + grad


def _summed(received: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """Return one gradient for each leaf."""
    sums: dict[int, Any] = {}
    for place, grad in received:
        sums[place] = sums[place] + grad if place in sums else grad
    return [*sums.items()]


def _distinct(grads: list[Any], operands: Sequence[Any]) -> tuple[Any, ...]:
    """Return gradients of which each has all of its memory, in any order of dimensions, and shares it with nothing."""
    taken = {id(_owner(x._array)) for x in operands}
    made = []
    for grad in grads:
        array = grad._array
        owner = _owner(array)
        if id(owner) in taken or owner.nbytes != array.nbytes or 0 in array.strides:
            grad = grad.clone()
            owner = _owner(grad._array)
        taken.add(id(owner))
        made.append(grad)
    return tuple(made)


def _owner(array: Any) -> Any:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


class _Replays:
    """The replays of passes through graphs of one form."""

    __slots__ = ("_code", "_left", "_pass", "_tries")

    def __init__(self, graph: _Graph) -> None:
        largest = max([x._array.size for x in graph.operands])
        self._left = max(VISITS, largest // ELEMENTS_PER_CALL)
        self._tries = _TRIES
        self._code: Callable[..., Any] = _declined
        self._pass: _Pass | None = None

    def gradients(self, graph: _Graph, losses: Sequence[Any], captures: bool) -> list[tuple[Any, Any]] | None:
        """Return each gradient with its leaf; None if the engine has to run the pass."""
        made = self._code(*graph.operands)
        if made is None:
            self._left -= len(graph.nodes)
            if self._left <= 0 and self._tries:
                self._record(graph, losses, captures)
            return None
        assert self._pass is not None
        return [(graph.leaves[place], grad) for place, grad in zip(self._pass.receivers, made, strict=True)]

    def _record(self, graph: _Graph, losses: Sequence[Any], captures: bool) -> None:
        self._tries -= 1
        self._left = VISITS
        run = self._pass or _Pass(graph, losses, captures)

        def launching(*operands: Any) -> Any:
            with launching_kernels(marks=False):
                return run(*operands)

        state = BY_KEY[losses[0]._key & DEVICE_MASK]
        code = compiled_launches(state, launching, graph.operands, range(len(graph.operands)), self._code, True, True,
                                 same={})
        if code is not None:
            self._code, self._pass = code, run


def _declined(*args: Any) -> None:
    return None


#: By the number of losses, whether gradients are captured, the default dtype, and the form.
_KNOWN: Final[BoundedCache[Any, _Replays]] = BoundedCache(_FORMS)


def replayed_pass(losses: Sequence[Any], wanted: set[int] | None, retain_graph: bool) -> list[tuple[Any, Any]] | None:
    """Return each gradient of a pass with its leaf; None if the engine has to run the pass.

    Args:
        losses: Tensors of one element with a graph.
        wanted: Identities of the leaves for which gradients are returned; None for all leaves, to which they are added.
        retain_graph: Whether nodes keep saved tensors.
    """
    if not ENABLED or RECORDERS or VALUE_OBSERVERS or OVERRIDDEN_KERNELS or RECORDING_SLOW_PATHS:
        return None
    try:
        graph = _Graph(losses, wanted)
        key = len(losses), wanted is None, DEFAULT_DTYPE[0], *graph.words
        found = _KNOWN.get(key)
    except (_Unfit, TypeError):  # a saved value that may change
        return None
    if found is None:
        found = _KNOWN[key] = _Replays(graph)
    made = found.gradients(graph, losses, wanted is not None)
    if made is not None and not retain_graph:
        for node in graph.nodes:
            if node.saved and node.derivative.frees:
                node.saved = None
    return made


WHOLE_PASSES.append(replayed_pass)
