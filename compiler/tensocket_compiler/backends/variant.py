"""A variant that runs what a backend made of the graph of public functions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tensocket_core.dispatch.modes import STATE, set_grad_enabled
from tensocket_core.pytree import tree_unflatten
from tensocket_plugins.contract.errors import CompileError

from ..calls.moving import place_of
from ..calls.results import FIXED, Known
from ..calls.signature import Signature
from ..calls.unrecorded import check_numbers
from ..calls.variant import has_own_builtins, use_machine_code
from ..capture.arguments import ArgumentGuard
from ..capture.guards import Change, Effect, Guards
from ..capture.object_words import TensorPart
from ..capture.recorder import CannotRecord
from ..capture.state import unwatched_state
from ..graph.graph import Graph
from ..graph.node import Node
from .calls import CallRecorder, preserve_writes
from .rollback import undone

#: Returns a value of a call from its tensor arguments and the outputs of the graph.
Maker = Callable[[Sequence[Any], Sequence[Any]], Any]


class Lowering(Protocol):
    """The front end's part: names of functions, and the backend."""

    def name_call(self, function: Any) -> tuple[str, Any]:
        """Return the op and the target of the node that calls a function."""

    def create_argument(self, value: Any) -> Any:
        """Return a constant as a node holds it."""

    def set_grad_enabled(self, enabled: bool) -> None:
        """Turn gradients on or off; it is the target of nodes."""

    def parameter_names(self, function: Any) -> list[str]:
        """Return the names of a function's parameters by position."""

    def compile(self, graph: Graph, inputs: list[Any], values: dict[Node, Any]) -> tuple[Any, Callable[..., Any]]:
        """Return the graph as a module, and the function that the backend makes of it."""


class LoweredVariant:
    """A graph of public functions, compiled by a backend, and everything under which it stands for the function.

    Attributes:
        guards: Everything that Python may have read.
        arguments: The form of the arguments.
        module: The graph as a module.
        hits: The calls that it served.
        used, memory, next_check, warned, backward, raises: As those of ``calls.variant.Variant``.
    """

    def __init__(self, guards: Guards, arguments: ArgumentGuard, signature: Signature, module: Any,
                 compiled: Callable[..., Any], inputs: Sequence[tuple[int, Any]], count: int, result: Maker,
                 assigns: Sequence[tuple[Callable[[Any], None], Maker]]) -> None:
        self.guards, self.arguments, self.module = guards, arguments, module
        self.hits = self.used = self.memory = 0
        self.next_check = sys.maxsize  # backends may compute other values on purpose
        self.warned = ()
        self.backward = None  # gradients go through the calls of the graph
        self.raises = False  # calls run in the function's order
        self._matches, self._compiled = signature.matches, compiled
        self._inputs, self._count, self._result, self._assigns = inputs, count, result, assigns

    def fits(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any] | None:
        """Return the tensor arguments of a call that this variant may serve; None for others."""
        tensors = self._matches(args, kwargs)
        if tensors is None or not (self.guards.check() or (has_own_builtins() and self.guards.changed() is None)):
            return None
        return tensors

    @property
    def operators(self) -> int:
        """Number of calls in its graph."""
        return 0 if self.module is None else sum(node.op.startswith("call") for node in self.module.graph.nodes)

    def why(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Change | None:
        """Return the first difference between a call and the captured one."""
        return self.arguments.why(args, kwargs) or self.guards.changed()

    def __call__(self, tensors: Sequence[Any]) -> Any:
        """Run the backend's function on the tensor arguments of a call that fits.

        Raises:
            CompileError: It returned something else than its graph.
        """
        self.hits += 1
        enabled = STATE.grad_enabled
        try:
            outputs = self._compiled(*[captured if k < 0 else tensors[k] for k, captured in self._inputs])
        except BaseException:
            set_grad_enabled(enabled)  # the graph may have been about to restore it
            raise
        if not isinstance(outputs, (tuple, list)) or len(outputs) < self._count:
            raise CompileError("compile", f"a backend's function that returned a {type(outputs).__name__}",
                               f"it computes the {self._count} outputs of its graph",
                               "return a tuple or list of them")
        for assign, make in self._assigns:
            assign(make(tensors, outputs))
        return self._result(tensors, outputs)


class _Outputs:
    """The outputs of a graph, and how values follow from them.

    Args:
        recorder: The recorder of the run.
        known: Containers that the function may return as they are.
        tensors: The tensor arguments.
        captured: Tensors from before the run that the function may return.
    """

    def __init__(self, recorder: CallRecorder, known: Known, tensors: Sequence[Any], captured: Sequence[Any]) -> None:
        self.nodes: list[Node] = []
        self._recorder, self._known = recorder, known
        self._arguments = {id(x): k for k, x in enumerate(tensors)}
        self._captured = {id(x) for x in captured}

    def maker(self, value: Any) -> Maker:
        """Return a function that makes a value again.

        Raises:
            CannotRecord: None can.
        """
        leaves, structure = self._known.flatten(value)
        makers = [self._leaf(x) for x in leaves]
        if structure.is_leaf():
            return makers[0]
        return lambda tensors, outputs: tree_unflatten([make(tensors, outputs) for make in makers], structure)

    def _leaf(self, leaf: Any) -> Maker:
        if not hasattr(leaf, "_key"):
            if type(leaf) not in FIXED and not self._known.has(leaf):
                raise CannotRecord(f"it returns a {type(leaf).__name__}")
            return lambda tensors, outputs: leaf
        position = self._arguments.get(id(leaf))
        if position is not None:
            return lambda tensors, outputs: tensors[position]
        if id(leaf) in self._captured:
            return lambda tensors, outputs: leaf
        node = self._recorder.find_node(leaf)
        if node is None:
            raise CannotRecord("it returns a tensor that no public function made")
        if node not in self.nodes:
            self.nodes.append(node)
        number = self.nodes.index(node)
        return lambda tensors, outputs: outputs[number]


def lower(function: Callable[..., Any], guards: Guards, args: tuple[Any, ...], kwargs: dict[str, Any],
          lowering: Lowering) -> LoweredVariant:
    """Call a function once more, undo what this changes, and let a backend compile the public functions that it called.

    Args:
        function: The function, which has just been observed.
        guards: Everything that it may have read in the observed call.
        args: Its arguments.
        kwargs: Its arguments by name.
        lowering: The front end.

    Raises:
        CannotRecord: The call has no place in a graph.
        Exception: The backend's error.
    """
    captured = guards.captured
    arguments = ArgumentGuard(args, kwargs, captured, guards.exact, guards.moving)
    tensors = arguments.matches(args, kwargs) or []
    for refusal in arguments.refusals:
        raise CannotRecord(str(refusal))
    check_numbers(guards, tensors)
    if guards.seen is not None and guards.seen.warned:
        raise CannotRecord(f"it warns: {guards.seen.warned[0].text:.60}")
    recorder = CallRecorder(_sources(function, guards, arguments, tensors, lowering), lowering.name_call,
                            lowering.create_argument, lowering.set_grad_enabled)
    outputs = _Outputs(recorder, Known(guards, args, kwargs), tensors, captured)
    with undone(guards, tensors) as rollback:
        preserve_writes(recorder, rollback.preserve)
        try:
            value = recorder.run(lambda: function(*args, **kwargs))
        except Exception as error:
            if isinstance(error, CannotRecord):
                raise
            raise CannotRecord(f"it raised {type(error).__name__} when it was called once more") from error
        if rollback.gradients_changed():
            raise CannotRecord("it assigns gradients")
        for path in rollback.replaced():
            raise CannotRecord(f"it replaces {path}, which the program replaces between calls too")
        result = outputs.maker(value)
        effects = rollback.effects()
        assigns = [_assign(effect, outputs, recorder) for effect in effects]
    recorder.name_calls()
    recorder.graph.output(tuple(outputs.nodes))
    positions = {id(x): k for k, x in enumerate(tensors)}
    inputs = [(positions.get(id(x), -1), x) for x in recorder.inputs]
    module, compiled = None, _nothing
    if any(node.op.startswith("call") for node in recorder.graph.nodes):
        module, compiled = lowering.compile(recorder.graph, recorder.inputs, recorder.values)
    if effects:
        guards = guards.without(effects)
    guards.state = unwatched_state()  # compiling may import modules, which register classes
    use_machine_code(guards)
    kept = [(k, None if k >= 0 else x) for k, x in inputs]
    return LoweredVariant(guards, arguments, Signature(arguments, args, kwargs), module, compiled, kept,
                          len(outputs.nodes), result, assigns)


def _nothing(*inputs: Any) -> tuple[()]:
    return ()


def _sources(function: Any, guards: Guards, arguments: ArgumentGuard, tensors: Sequence[Any],
             lowering: Lowering) -> list[tuple[Any, str]]:
    """Return the tensors that a run may use, with paths as in programs: parameters' names for arguments."""
    names = lowering.parameter_names(function)
    root = f"{type(function).__name__}."
    found = [(part.owner, part.path) for part in guards.parts if isinstance(part, TensorPart)]
    for x, path in zip(tensors, arguments.tensor_paths, strict=True):
        words = path.split(" ", 1)
        if words[0] == "argument":
            number, _, rest = words[1].partition("[")
            k = int(number)
            path = (names[k] if k < len(names) else f"args_{k}") + (f"_{rest}" if rest else "")
        found.append((x, path))
    return [(x, f"self.{path.removeprefix(root)}" if path.startswith(root) else path) for x, path in found]


def _assign(effect: Effect, outputs: _Outputs, recorder: CallRecorder) -> tuple[Callable[[Any], None], Maker]:
    """Return how each call repeats an effect.

    Raises:
        CannotRecord: It cannot.
    """
    old, new = effect.old, effect.new
    place = place_of(effect)
    if effect.label == ".grad":
        raise CannotRecord(f"it assigns {effect.path}")
    if any(old is x for x in recorder.inputs):
        raise CannotRecord(f"it reads {effect.path}, which it replaces")
    if not hasattr(new, "_key") and not (new is None and hasattr(old, "_key")):
        raise CannotRecord(f"it changes {effect.path} from {old!r:.40} to {new!r:.40}")
    return place.assign, outputs.maker(new)
