"""Backward passes as replays: the launches of an earlier pass through a graph of the same form, as one call.

On a few elements, a pass spends its time between launches: on nodes, tensors and sums of gradients. Guard: it starts
from losses of one element, records nothing, and ends at leaves; nothing is hooked, replaced or wrapped, and saved
tensors are small and unchanged. Work: the launches of all rules, in the engine's order. All other passes go to the
engine, as do passes through graphs that launches alone do not serve.

Recordings belong to forms of graphs (``graph_forms``). They compare layouts (``launch/replay.py``), and their sums may
round otherwise than NumPy's, as those of single rules (``replayed_rules``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tensocket_core.autograd.accumulate import accumulate, try_set_first
from tensocket_core.autograd.differentiate import SHORTCUTS
from tensocket_core.autograd.edges import cast_to_shape
from tensocket_core.autograd.node import MultiNode
from tensocket_core.device import BY_KEY
from tensocket_core.dispatch.derivative import ARRAYS
from tensocket_core.keys import AUTOGRAD, DEVICE_MASK, DTYPE_MASK, LAZY, OPTIONS, WRAPPER, dtype_bit
from tensocket_core.launch.entries import ENABLED, compiled_or
from tensocket_core.launch.replay import compiled_launches
from tensocket_core.promotion import DEFAULT_DTYPE
from tensocket_core.recording import OVERRIDDEN_KERNELS, RECORDING_SLOW_PATHS
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract.dtypes import float32, float64
from tensocket_plugins.contract.launch_recorder import RECORDERS
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS
from tensocket_plugins.kit.bounded import BoundedCache

from ..unrolled.kernels import launching_kernels
from .graph_forms import LEAF, Graph, UnfitGraph, form_plan

#: Passes through graphs of one form before their launches are recorded, which costs as much as a hundred save; most
#: graphs that a program makes so often are those of its training loop. A pass counts once more for so many nodes.
PASSES = 30
_NODES: Final = 16
#: Passes in a row without a recording after which only one of so many looks for one, by the rule of the first loss.
_MISSED: Final = 256
_SELDOM: Final = 16
#: Most recordings for graphs of one form; most forms; the forms that machine code looks for.
_TRIES: Final = 3
_FORMS: Final = 512
_NEWEST: Final = 4
#: The bits by which plain losses are told from other tensors, and their values.
_PARTS: Final = AUTOGRAD | WRAPPER | LAZY | DTYPE_MASK
_LOSSES: Final = (AUTOGRAD | dtype_bit(float32), AUTOGRAD | dtype_bit(float64))
_LISTS: Final = (list, tuple)
_Made = list[tuple[Any, Any]]


class _Step:
    """One node of a pass, without its tensors.

    Attributes:
        outputs: Shape and key bits of each output; None for one without gradients.
        targets: Where each gradient goes; None if it is not wanted.
    """

    __slots__ = ("_derivative", "_saved", "outputs", "sequence", "targets")

    def __init__(self, graph: Graph, node: Any) -> None:
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

    def __init__(self, graph: Graph, losses: Sequence[Any], captures: bool) -> None:
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
        if index == LEAF:
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
    """The replays of passes through graphs of one form.

    Args:
        graph: A graph of the form.
        captures: See ``_Pass``.
    """

    __slots__ = ("_captures", "_code", "_dtype", "_leaves", "_left", "_match", "_operands", "_pass", "_tries")

    def __init__(self, graph: Graph, captures: bool) -> None:
        self._left: float = PASSES
        self._tries = _TRIES
        self._code: Callable[..., Any] = _declined
        self._match: Callable[..., Any] = _declined
        self._operands = self._leaves = 0
        self._pass: _Pass | None = None
        self._captures, self._dtype = captures, DEFAULT_DTYPE[0]

    def gradients(self, graph: Graph, losses: Sequence[Any], retain_graph: bool) -> _Made | None:
        """Return each gradient with its leaf; None if the engine has to run the pass."""
        made = self._code(*graph.operands)
        if made is None:
            self._left -= 1 + len(graph.nodes) / _NODES
            if self._left <= 0 and self._tries:
                self._record(graph, losses)
            return None
        return self._given(made, graph.leaves, () if retain_graph else graph.nodes)

    def matched(self, losses: Sequence[Any], wanted: tuple[Any, ...] | None, retain_graph: bool) -> _Made | None:
        """Return the same if machine code finds that the graph has this form."""
        found = self._match(*losses, wanted)
        if found is None or self._captures is (wanted is None) or DEFAULT_DTYPE[0] is not self._dtype:
            return None
        made = self._code(*found[:self._operands])
        if made is None:
            return None
        return self._given(made, found[self._operands:], () if retain_graph else found[self._leaves:])

    def _given(self, made: tuple[Any, ...], leaves: Sequence[Any], nodes: Sequence[Any]) -> _Made:
        for node in nodes:
            if node.saved and node.derivative.frees:
                node.saved = None
        assert self._pass is not None
        return [(leaves[place], grad) for place, grad in zip(self._pass.receivers, made, strict=True)]

    def _record(self, graph: Graph, losses: Sequence[Any]) -> None:
        self._tries -= 1
        self._left = PASSES
        run = self._pass = self._pass or _Pass(graph, losses, self._captures)

        def launching(*operands: Any) -> Any:
            with launching_kernels(marks=False):
                return run(*operands)

        state = BY_KEY[losses[0]._key & DEVICE_MASK]
        code = compiled_launches(state, launching, graph.operands, range(len(graph.operands)), self._code, True, True,
                                 same={})
        if code is None:
            return
        if self._code is _declined:
            plan, operands, leaves = form_plan(graph, losses, self._captures)
            self._match = compiled_or(state, plan, _declined)
            self._operands, self._leaves = operands, operands + leaves
        self._code = code
        _MISSES[_rule(losses)] = 0
        _MATCHED[:] = [self, *[other for other in _MATCHED if other is not self]][:_NEWEST]


def _declined(*args: Any) -> None:
    return None


#: By the number of losses, whether gradients are captured, the default dtype, and the form.
_KNOWN: Final[BoundedCache[Any, _Replays]] = BoundedCache(_FORMS)
#: The newest of them.
_MATCHED: Final[list[_Replays]] = []
#: Passes in a row without a recording, by the rule of the first loss.
_MISSES: Final[BoundedCache[Any, int]] = BoundedCache(_FORMS)


def replayed_pass(losses: Sequence[Any], wanted: tuple[Any, ...] | None, retain_graph: bool) -> _Made | None:
    """Return each gradient of a pass with its leaf; None if the engine has to run the pass.

    Args:
        losses: Tensors of one element with a graph.
        wanted: The leaves for which gradients are returned; None for all leaves, to which they are added.
        retain_graph: Whether nodes keep saved tensors.
    """
    if not ENABLED or RECORDERS or VALUE_OBSERVERS or OVERRIDDEN_KERNELS or RECORDING_SLOW_PATHS:
        return None
    for replays in _MATCHED:
        made = replays.matched(losses, wanted, retain_graph)
        if made is not None:
            return made
    rule = _rule(losses)
    missed = _MISSES[rule] = _MISSES.get(rule, 0) + 1
    if missed > _MISSED and missed % _SELDOM:
        return None
    made = _found_pass(losses, wanted, retain_graph)
    if made is not None:
        _MISSES[rule] = 0
    return made


def _rule(losses: Sequence[Any]) -> Any:
    return getattr(losses[0]._grad_fn, "derivative", None)


def _found_pass(losses: Sequence[Any], wanted: tuple[Any, ...] | None, retain_graph: bool) -> _Made | None:
    """Do the same for a graph whose form is not among the newest, or not known."""
    try:
        graph = Graph(losses, None if wanted is None else set(map(id, wanted)))
        key = len(losses), wanted is None, DEFAULT_DTYPE[0], *graph.words
        found = _KNOWN.get(key)
    except (UnfitGraph, TypeError):  # a saved value that may change
        return None
    if found is None:
        found = _KNOWN[key] = _Replays(graph, wanted is not None)
    return found.gradients(graph, losses, retain_graph)


class _Shortcut:
    """Replays for ``backward`` and ``grad``; see ``PassShortcut``."""

    def captured(self, outputs: Any, inputs: Any, retain_graph: bool) -> list[Any] | None:
        losses = (outputs,) if type(outputs) is Tensor else outputs
        leaves = (inputs,) if isinstance(inputs, Tensor) else inputs
        if type(losses) not in _LISTS or type(leaves) not in _LISTS or not losses or not leaves:
            return None
        for loss in losses:
            if type(loss) is not Tensor or loss._key & _PARTS not in _LOSSES or loss._grad_fn is None or (
                    type(loss._array) is not np.ndarray or loss._array.size != 1):
                return None
        for leaf in leaves:
            if not isinstance(leaf, Tensor) or leaf._key & _PARTS & ~DTYPE_MASK != AUTOGRAD or (
                    leaf._grad_fn is not None):
                return None
        made = replayed_pass(losses, tuple(leaves), retain_graph)
        if made is None:
            return None
        found = {id(leaf): grad for leaf, grad in made}
        return [found.get(id(leaf)) for leaf in leaves]

    def added(self, loss: Any, retain_graph: bool) -> bool:
        made = replayed_pass((loss,), None, retain_graph)
        if made is None:
            return False
        while made:
            leaf, grad = made.pop(0)
            if not try_set_first(leaf, grad):
                accumulate(leaf, grad, False, True)
        return True


SHORTCUTS.append(_Shortcut())
