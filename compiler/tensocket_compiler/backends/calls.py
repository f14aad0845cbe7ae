"""The recorder above autograd: a run as a graph of the public functions that it called.

The graph computes what the run did when its nodes are called again, gradients and writes in place included, because the
nodes are ordinary calls. All that the run did to tensors must be in such calls; anything else stops the recording.
"""

from __future__ import annotations

import operator
import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from threading import get_ident
from typing import Any, Final

from tensocket_core.autograd.engine import current_pass
from tensocket_core.dispatch.modes import STATE, thread_state
from tensocket_core.dispatch.overrides import TorchFunctionMode
from tensocket_core.dispatch.protocol import TorchDispatchMode
from tensocket_core.keys import AUTOGRAD
from tensocket_core.tensor import Tensor
from tensocket_operators.differentiation.function import INTERCEPTORS, call_with_context
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import TensocketError
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS, unobserved

from ..capture.forms import OF_RUNTIME
from ..capture.listed import HOLDERS
from ..capture.recorder import RUNTIME, CannotRecord, caller
from ..capture.shapes import reason_of_shapes
from ..capture.state import holder_state
from ..graph.graph import Graph
from ..graph.node import Node
from .reads import ReadObserver

#: Holders whose state calls change on their own, or that the graph sets: ``grad_enabled`` is a node.
_MOVING: Final = frozenset({"generators", "ThreadState", "Current"})
#: Attributes of the thread that decide how calls behave, except those that recorders set.
_THREAD: Final = ("include", "inference", "tracer", "transforms", "overrides_off")
#: Results that are the same in every call that the guards let pass.
_PLAIN: Final = (bool, int, float, complex, str, DType)


class StopRecording(BaseException):  # programs must not catch it as an error of theirs
    """Ends a run that has no place in a graph."""


class CallRecorder(TorchFunctionMode):
    """Mode that records the public functions which its block calls, as nodes of a graph.

    Args:
        sources: Tensors from before the run, with the paths by which it reaches them.
        name_call: Returns the op and the target of the node of a function.
        create_argument: Returns a constant as a node holds it; raises where it cannot.
        set_grad_enabled: The function of nodes that turn gradients on or off.

    Attributes:
        graph: The graph.
        inputs: The tensors of its placeholders, in order.
        values: The result of each node, by node.
    """

    def __init__(self, sources: Iterable[tuple[Any, str]], name_call: Callable[[Any], tuple[str, Any]],
                 create_argument: Callable[[Any], Any], set_grad_enabled: Callable[..., Any]) -> None:
        super().__init__()
        self.graph = Graph()
        self.inputs: list[Any] = []
        self.values: dict[Node, Any] = {}
        self._sources = {id(x): (x, path) for x, path in sources}
        self._name_call, self._create_argument = name_call, create_argument
        self._set_grad_enabled = set_grad_enabled
        self._nodes: dict[int, Node] = {}
        #: Tensors in containers that nodes return, with their places there.
        self._items: dict[int, tuple[Node, tuple[int, ...]]] = {}
        self._called: dict[Node, tuple[Any, str]] = {}
        #: Tensors of the run with key and memory as the last call left them: only calls may change these.
        self._forms: dict[int, tuple[Any, int, Any]] = {}
        self._below = _Operators(self)
        self._reason: str | None = None
        self._last_input: Node | None = None

    # ------------------------------------------------------------------------------------------------ the block

    def run(self, function: Callable[[], Any]) -> Any:
        """Call a function while its calls are recorded.

        Raises:
            CannotRecord: It did something that has no place in a graph; it did not finish then.
        """
        self._grad = self._began_with_grad = STATE.grad_enabled
        thread = get_ident()

        def record_function(kind: Any, args: tuple[Any, ...]) -> Any:
            if get_ident() != thread or self not in STATE.function_modes:
                return NotImplemented
            with thread_state(function_modes=tuple([x for x in STATE.function_modes if x is not self])):
                return self._call(kind.apply, args, {}, lambda: call_with_context(kind, args)[0])

        INTERCEPTORS.append(record_function)
        VALUE_OBSERVERS[thread] = self._below
        try:
            with self._below, self:
                self._state = _state()
                result = function()
            self._set_grad(self._began_with_grad)
        except StopRecording:
            result = None
        finally:
            VALUE_OBSERVERS.pop(thread, None)
            INTERCEPTORS.remove(record_function)
        if self._reason is not None:
            raise CannotRecord(self._reason)
        self._check_hooks()
        return result

    def name_calls(self) -> None:
        """Give nodes their targets. It is not a part of the run, because the search for names may import modules.

        Raises:
            CannotRecord: A function must not be in graphs.
        """
        for node, (function, place) in self._called.items():
            try:
                node.op, node.target = self._name_call(function)
            except CannotRecord as error:
                raise CannotRecord(f"{error}{place}") from None

    def stop(self, reason: str) -> None:
        """End the run.

        Raises:
            StopRecording: Always.
        """
        self._reason = self._reason or reason
        raise StopRecording(reason)

    def _check_hooks(self) -> None:
        """Check that nothing hangs on results that calling the nodes again does not make.

        Raises:
            CannotRecord: Something does.
        """
        if not all(self._is_as_left(x) for x, _, _ in self._forms.values()):
            raise CannotRecord("it assigns requires_grad or data of a tensor that it made")
        for value in self.values.values():
            for x in tensors_of(value):
                node = getattr(x._grad_fn, "node", x._grad_fn)
                if id(x) not in self._sources and getattr(node, "extras", None) is not None:
                    raise CannotRecord("it sets hooks in its graph of gradients")
                if id(x) not in self._sources and x._grad is not None:
                    raise CannotRecord("it assigns gradients")
                if id(x) not in self._sources and vars(x).keys() - OF_RUNTIME:
                    raise CannotRecord("it gives attributes to a tensor that it made")

    # ------------------------------------------------------------------------------------------------ calls

    def __torch_function__(self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        """Run a call, and record it."""
        kwargs = kwargs or {}
        return self._call(func, args, kwargs, lambda: func(*args, **kwargs))

    def _call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]) -> Any:
        if current_pass() is not None:
            self.stop(f"it runs a backward pass{caller()}")
        if _state() != self._state:
            self.stop(f"it changes how operators behave, as autocast does{caller()}")
        name = str(getattr(func, "__name__", ""))
        try:
            given, named = self._node_arguments(args), self._node_arguments(kwargs)
        except TensocketError as error:
            self.stop(f"{name}() gets an argument that no graph holds{caller()}: {error}")
        below = self._below
        writes, below.depth = below.writes, below.depth + 1
        try:
            result = run()
        finally:
            below.depth -= 1
        if not list(tensors_of(result)) and below.writes == writes:
            if result is None or not _is_plain(result):
                self.stop(f"{name}() returns a {type(result).__name__}{caller()}")
            return result
        self._set_grad(STATE.grad_enabled)
        node = self.graph.create_node("call_function", func, given, named,
                                      name=self.graph._target_to_str(name.removeprefix("method_") or "call"))
        node.meta["stack_trace"] = _program_frames()
        self._called[node] = func, caller()
        self._know(node, result)
        for x in tensors_of([*args, *kwargs.values(), result]):
            self._forms[id(x)] = x, x._key, x._array
        return result

    def _set_grad(self, enabled: bool) -> None:
        if enabled is not self._grad:
            self._grad = enabled
            self.graph.create_node("call_function", self._set_grad_enabled, (enabled,), {})

    def _know(self, node: Node, result: Any) -> None:
        """Let a node stand for a result, and note which tensors a container has."""
        self.values[node] = result
        if isinstance(result, Tensor):
            self._items.pop(id(result), None)
            self._nodes[id(result)] = node
        else:
            self._note_items(node, (), result)

    def _note_items(self, node: Node, place: tuple[int, ...], result: Any) -> None:
        for k, item in enumerate(result if isinstance(result, (tuple, list)) else ()):
            if isinstance(item, Tensor):
                self._nodes.pop(id(item), None)
                self._items[id(item)] = node, (*place, k)
            else:
                self._note_items(node, (*place, k), item)

    def _is_as_left(self, tensor: Any) -> bool:
        """Whether nothing but calls has changed whether a tensor requires a gradient, and its memory."""
        known = self._forms.get(id(tensor))
        return known is None or (tensor._key == known[1] and tensor._array is known[2])

    def find_node(self, tensor: Any) -> Node | None:
        """Return the node of a tensor of the run; None for others. Items of containers get one at their first use."""
        known = self._items.pop(id(tensor), None)
        if known is not None:
            node, place = known
            for k in place:
                node = self.graph.create_node("call_function", operator.getitem, (node, k), {})
            self._nodes[id(tensor)] = node
            self.values[node] = tensor
        return self._nodes.get(id(tensor))

    def node_of(self, tensor: Any) -> Node:
        """Return the node of a tensor; the first use of one from before the run makes a placeholder.

        Raises:
            StopRecording: No public function of the run made the tensor, or it is not as these left it.
        """
        if not self._is_as_left(tensor):
            self.stop(f"it assigns requires_grad or data of a tensor{caller()}")
        node = self.find_node(tensor)
        if node is None:
            known = self._sources.get(id(tensor))
            if known is None:
                self.stop(f"it uses a tensor that no public function made{caller()}")
            assert known is not None
            node = self._nodes[id(tensor)] = self._placeholder(known[1])
            self.values[node] = tensor
            self.inputs.append(tensor)
        return node

    def _placeholder(self, path: str) -> Node:
        words = re.sub(r"[\W_]+", "_", path).strip("_")
        first = next(iter(self.graph.nodes), None)
        place = self.graph.inserting_after(self._last_input) if self._last_input is not None else (
            self.graph.inserting_before(first) if first is not None else None)
        if place is None:
            node = self._named_placeholder(words)
        else:
            with place:
                node = self._named_placeholder(words)
        self._last_input = node
        return node

    def _named_placeholder(self, words: str) -> Node:
        node = self.graph.create_node("placeholder", f"L_{words}_", (), {}, name=f"l_{words.lower()}_")
        node.target = node.name if node.name != f"l_{words.lower()}_" else f"L_{words}_"
        return node

    def _node_arguments(self, value: Any) -> Any:
        """Return arguments with nodes in place of tensors."""
        if isinstance(value, Tensor):
            return self.node_of(value)
        if isinstance(value, dict):
            return {key: self._node_arguments(x) for key, x in value.items()}
        if isinstance(value, (list, tuple)):
            items = [self._node_arguments(x) for x in value]
            return items if isinstance(value, list) else (
                type(value)(*items) if hasattr(value, "_fields") else tuple(items))  # sizes become plain tuples
        if isinstance(value, slice):
            return slice(*[self._node_arguments(x) for x in (value.start, value.stop, value.step)])
        return self._create_argument(value)


class _Operators(TorchDispatchMode, ReadObserver):
    """The view of the same run from below autograd: writes, reads of elements, operators outside of public functions.

    Attributes:
        depth: Number of running public functions.
        writes: Number of operators that wrote to an argument.
        before_write: Gets each tensor that is about to be written.
    """

    def __init__(self, calls: CallRecorder) -> None:
        super().__init__()
        self._calls = calls
        self.depth = self.writes = 0
        self.before_write: Callable[[Any], None] | None = None

    def __torch_dispatch__(self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        """Run an operator; it stops the run if calling the same public functions may not repeat it."""
        kwargs = kwargs or {}
        if current_pass() is not None:
            self._calls.stop(f"it runs a backward pass{caller()}")
        if not self.depth:
            self._calls.stop(f"it calls {func.name} outside of public functions{caller()}")
        schema = getattr(func, "schema", None)
        written = [] if schema is None else [
            x for p, value in zip(schema.parameters, args, strict=False) if p.mutated for x in tensors_of(value)]
        if written:
            self.writes += 1
            for x in written:
                if self.before_write is not None:
                    self.before_write(x)
        with unobserved():
            result = func(*args, **kwargs)
        if not written:
            reason = reason_of_shapes(func, args, kwargs, list(tensors_of(result)))
            if reason is not None:
                self._calls.stop(f"{reason}{caller()}")
        return result

    def note_read(self, source: Any) -> None:
        """Stop the run, because code outside of operators reads elements."""
        self._calls.stop(f"elements of a tensor are read{caller()}")

    def run_apart(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Stop the run: the program that gets the graph does not know the function."""
        self._calls.stop(f"it calls {function.__qualname__}(){caller()}")
        return function(*args)


def preserve_writes(recorder: CallRecorder, preserve: Callable[[Any], None]) -> None:
    """Let a function see each tensor that the recorded run is about to write."""
    recorder._below.before_write = preserve


def tensors_of(value: Any) -> Iterator[Any]:
    """Yield the tensors in a value and its lists and tuples."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_of(item)


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(_is_plain(item) for item in value)
    return isinstance(value, _PLAIN)


def _state() -> tuple[Any, ...]:
    """Return the state that decides how calls behave, but for whether gradients are recorded."""
    return (STATE.exclude & ~AUTOGRAD, *[getattr(STATE, name) for name in _THREAD],
            *[holder_state(holder) for name, holder in HOLDERS.items() if name not in _MOVING])


def _program_frames() -> str:
    """Return the frames of the program, as tracebacks show them."""
    frames = [x for x in traceback.extract_stack() if not any(f"{name}/" in x.filename for name in RUNTIME)]
    return "".join(traceback.format_list(frames[-1:]))
