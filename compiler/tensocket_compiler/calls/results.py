"""Results of a captured call: how each call makes what the function returned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensocket_core.autograd.record import version_of
from tensocket_core.geometry import memory_of, memory_offset
from tensocket_core.keys import AUTOGRAD
from tensocket_core.pytree import TreeSpec, tree_flatten, tree_unflatten
from tensocket_core.pytree_nodes import NODES
from tensocket_core.tensor import Tensor

from ..autograd.joint import borders_of, is_consumed, is_live
from ..capture.forms import OF_RUNTIME
from ..capture.guards import Guards
from ..capture.recorder import CannotRecord, Recorder
from ..memory.regions import Region

_new = object.__new__
#: Values that a function may return as the same objects in each call.
FIXED = (type(None), bool, int, float, complex, str, bytes)
Maker = Callable[[Sequence[Any], Sequence[Any], list[Any]], Any]
#: Makes a view of the tensor arguments of a call.
MakeView = Callable[[Sequence[Any]], Any]


class Known:
    """Containers that were there before a call, which its result may hold: each call returns the same ones.

    Args:
        guards: The guards, which keep those alive that the function can reach.
        args: The arguments of the call.
        kwargs: Its arguments by name.
    """

    def __init__(self, guards: Guards, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._reached = {id(x) for x in guards.keep_alive if type(x) in NODES}
        self._given: set[int] = set()
        for value in (*args, *kwargs.values()):
            self._add_containers(value)

    def _add_containers(self, value: Any) -> None:
        if type(value) in (list, dict) and id(value) not in self._given:
            self._given.add(id(value))
        elif not isinstance(value, tuple):
            return
        for item in value.values() if type(value) is dict else value:
            self._add_containers(item)

    def has(self, value: Any) -> bool:
        """Whether a value is a container that the function can reach, and return as it is."""
        return id(value) in self._reached

    def flatten(self, result: Any) -> tuple[list[Any], TreeSpec]:
        """Return the leaves of a result, among them known containers, and those that calls make again.

        Raises:
            CannotRecord: It has a container of the arguments, or has one in two places.
        """
        made: set[int] = set()

        def is_known(value: Any) -> bool:
            if self.has(value):
                return True
            if id(value) in self._given:
                raise CannotRecord(f"it returns a {type(value).__name__} of its arguments")
            if type(value) in NODES and not isinstance(value, tuple):
                if id(value) in made:
                    raise CannotRecord(f"it returns the same {type(value).__name__} in two places")
                made.add(id(value))
            return False

        return tree_flatten(result, is_known)


class Results:
    """The results of one function.

    Args:
        result: The result of the captured call.
        known: Containers that it may hold as they are.
        arguments: Its tensor arguments.
        captured: Tensors that were there before the call.
        recorder: The recorder of the call.

    Attributes:
        regions: Regions that the graph returns.
        live: Tensors with a graph that a later backward pass may go through.
        borders: Where graphs of this call end.
        live_numbers: Their places among ``regions``.

    Raises:
        CannotRecord: A part of the result cannot be made again.
    """

    def __init__(self, result: Any, known: Known, arguments: Sequence[Any], captured: Sequence[Any],
                 recorder: Recorder) -> None:
        leaves, self._structure = known.flatten(result)
        self._known = known
        self._single = self._structure.is_leaf()
        self._arguments = {id(x): k for k, x in enumerate(arguments)}
        self._captured = {id(x): x for x in captured}
        self._recorder: Recorder | None = recorder
        self.regions: list[Region] = []
        self.live: list[Any] = []
        self.borders = borders_of([*arguments, *captured])
        self.live_numbers: list[int] = []
        #: The numbers of the tensors that calls make, by identity.
        self._made: dict[int, int] = {}
        self._views: list[Any] = []
        self._makers = [self._maker(leaf, arguments) for leaf in leaves]
        if self.live and any(x._key & AUTOGRAD for x in self._views):
            raise CannotRecord("it returns a view with a graph beside new tensors with one")

    def _maker(self, leaf: Any, arguments: Sequence[Any]) -> Maker:
        """Return ``make(arguments, arrays, made)``, which returns this part of the result."""
        if not hasattr(leaf, "_key"):
            if type(leaf) not in FIXED and not self._known.has(leaf):
                raise CannotRecord(f"it returns a {type(leaf).__name__}")
            return lambda arguments, arrays, made: leaf
        position = self._arguments.get(id(leaf))
        if position is not None:
            return lambda arguments, arrays, made: arguments[position]
        if id(leaf) in self._captured:
            return lambda arguments, arrays, made: leaf
        assert self._recorder is not None, "all results are known before the graph is built"
        view = _view_of(leaf, self._recorder, arguments, self._captured)
        if view is None:
            return self.new_tensor(leaf)
        if any(leaf is x for x in self._views):
            raise CannotRecord("it returns a view twice")
        self._views.append(leaf)
        return lambda arguments, arrays, made: view(arguments)

    def new_tensor(self, tensor: Any) -> Maker:
        """Return ``make(arguments, arrays, made)`` for a tensor that the call made; it adds the tensor to a list.

        A tensor that is one of the results already is taken from that list.
        """
        if self.has(tensor):
            known = self._made[id(tensor)]
            return lambda arguments, arrays, made: made[known]
        number = self._made[id(tensor)] = len(self.regions)
        assert self._recorder is not None, "all results are known before the graph is built"
        self.regions.append(result_region(tensor, self._recorder, self.regions))
        key, node, version = tensor._key, tensor._grad_fn, version_of(tensor)
        is_live_one = is_live(tensor, self.borders)
        if key & AUTOGRAD and not (is_live_one or is_consumed(node, self.borders)):
            raise CannotRecord("it returns a new tensor that requires a gradient")
        if is_live_one:
            self.live.append(tensor)
            self.live_numbers.append(number)
            key, node = key & ~AUTOGRAD, None

        def make(arguments: Sequence[Any], arrays: Sequence[Any], made: list[Any]) -> Any:
            result = _new(Tensor)
            result._array, result._key, result._grad_fn = arrays[number], key, node
            result._grad = result._base = None
            result._version_counter = [version] if version else None
            made.append(result)
            return result

        return make

    def has(self, tensor: Any) -> bool:
        """Whether a tensor is one of those that calls make."""
        return id(tensor) in self._made

    def number_of(self, tensor: Any) -> int:
        """Return the number of the region of such a tensor."""
        return self._made[id(tensor)]

    def add_memory(self, tensor: Any) -> int:
        """Return the number of the region of new memory, which a tensor that was there before has got."""
        assert self._recorder is not None, "all results are known before the graph is built"
        self.regions.append(own_region(tensor, self._recorder, self.regions))
        return len(self.regions) - 1

    def finish(self) -> None:
        """Let go of the captured call."""
        self._recorder, self.live, self._views = None, [], []

    def __call__(self, arguments: Sequence[Any], arrays: Sequence[Any], made: list[Any]) -> Any:
        """Return the result of a call from its tensor arguments and the arrays that the graph made.

        Args:
            arguments: The tensor arguments.
            arrays: An array for each of ``regions``.
            made: Gets the new tensors, in the order of ``regions``.
        """
        if self._single:
            return self._makers[0](arguments, arrays, made)
        return tree_unflatten([make(arguments, arrays, made) for make in self._makers], self._structure)

    @property
    def structure(self) -> TreeSpec:
        """The containers of the result."""
        return self._structure


def result_region(tensor: Any, recorder: Recorder, others: Sequence[Region]) -> Region:
    """Return the region of a tensor that a call made, in memory that only this tensor has.

    Raises:
        CannotRecord: The tensor shares memory with others, or has attributes of its own.
    """
    if type(tensor) is not Tensor or tensor.__dict__.keys() - OF_RUNTIME:
        raise CannotRecord("it returns a tensor with a class, hooks or attributes of its own")
    return own_region(tensor, recorder, others)


def own_region(tensor: Any, recorder: Recorder, others: Sequence[Region]) -> Region:
    """Return the region of a tensor, in memory that a call made for it alone.

    Raises:
        CannotRecord: The tensor shares memory with others.
    """
    region = recorder.region(tensor)
    recorder.make_writable(region)
    if region.buffer.kind != "temporary":
        raise CannotRecord("it returns a view of a tensor that was there before")
    if any(x.buffer is region.buffer for x in others):
        raise CannotRecord("it returns tensors that share memory")
    return region


def _view_of(view: Any, recorder: Recorder, arguments: Sequence[Any], captured: Mapping[int, Any]) -> MakeView | None:
    """Return how calls make a view that a run returned; None if it is not a view of a tensor that was there before.

    Such a view needs no memory and no operation of a graph. The operators that made it run on the arguments of each
    call, so that its base, its version counter and its node are those that the function's own view would have.

    Args:
        view: The result.
        recorder: The recorder of the run.
        arguments: The tensor arguments of the run.
        captured: Other tensors that were there before, by identity.

    Raises:
        CannotRecord: The operators make another tensor than the run did, or make it from one with another graph.
    """
    steps, source, ends = [], view, False
    while (made := recorder.views.get(id(source))) is not None:
        # A view that ``no_grad`` made ends the graphs of its own views; the operators alone would make none that does.
        ends = ends or (source is not view and bool(source._key & AUTOGRAD) and source._grad_fn is None)
        _, operator, (source, *args), keywords = made
        steps.append((operator, tuple(args), keywords))
    position = next((k for k, x in enumerate(arguments) if x is source), None)
    if not steps or (position is None and id(source) not in captured):
        return None
    if ends:
        raise CannotRecord("it returns a view of a view that ends its graph")
    if view._key & AUTOGRAD and _is_written(recorder, view):
        raise CannotRecord("it returns a view with a graph of a tensor that it modifies")
    make = _view_maker(steps[::-1], position, None if position is not None else source, view._fixed_view)
    if not _is_same(make(arguments), view):
        raise CannotRecord("it returns a view that its operators don't make again")
    return make


def _view_maker(steps: Sequence[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]], position: int | None,
                captured: Any, mark: Any) -> MakeView:
    """Return the function that takes the steps from an argument, or from a captured tensor, and sets the mark."""
    def make(arguments: Sequence[Any]) -> Any:
        made = captured if position is None else arguments[position]
        for operator, args, keywords in steps:
            made = operator(made, *args, **keywords)
        if made._fixed_view is not mark:  # functions that return several views mark them
            made._fixed_view = mark
        return made
    return make


def _is_written(recorder: Recorder, view: Any) -> bool:
    buffer = recorder.region(view).buffer
    return any(region.buffer is buffer for operation in recorder.recording.operations for region in operation.writes)


def _is_same(made: Any, view: Any) -> bool:
    """Whether two views show the same elements, and have equal histories and no attributes of their own."""
    one, other, attributes = made._array, view._array, made.__dict__.keys() | view.__dict__.keys()
    counters = made._version_counter, view._version_counter  # a detached tensor has one of its own
    return bool(type(made) is type(view) is Tensor and made._key == view._key and made._base is view._base
                and type(made._grad_fn) is type(view._grad_fn) and view._grad is None and attributes <= OF_RUNTIME
                and (counters[0] is counters[1] or type(counters[0]) is type(counters[1]) is not list)
                and one.shape == other.shape and one.strides == other.strides
                and memory_of(one) is memory_of(other) and memory_offset(one) == memory_offset(other))
