"""Results that are views of tensors that were there before: each call makes them by the operators that the run called.

Such a view needs no memory and no operation of a graph. The operators that made it run on the arguments of each call,
so that its base, its version counter and its node are those that the function's own view would have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensocket_core.geometry import memory_of, memory_offset
from tensocket_core.keys import AUTOGRAD
from tensocket_core.tensor import Tensor

from ..capture.forms import OF_RUNTIME
from ..capture.recorder import CannotRecord, Recorder

#: Makes a view of the tensor arguments of a call.
MakeView = Callable[[Sequence[Any]], Any]


def view_of(view: Any, recorder: Recorder, arguments: Sequence[Any], captured: Mapping[int, Any]) -> MakeView | None:
    """Return how calls make a view that a run returned; None if it is not a view of a tensor that was there before.

    Args:
        view: The result.
        recorder: The recorder of the run.
        arguments: The tensor arguments of the run.
        captured: Other tensors that were there before, by identity.

    Raises:
        CannotRecord: The operators make another tensor than the run did.
    """
    steps, source = [], view
    while (made := recorder.views.get(id(source))) is not None:
        _, operator, (source, *args), keywords = made
        steps.append((operator, tuple(args), keywords))
    position = next((k for k, x in enumerate(arguments) if x is source), None)
    if not steps or (position is None and id(source) not in captured):
        return None
    if view._key & AUTOGRAD and _is_written(recorder, view):
        raise CannotRecord("it returns a view with a graph of a tensor that it modifies")
    make = _maker(steps[::-1], position, None if position is not None else source, view._fixed_view)
    if not _is_same(make(arguments), view):
        raise CannotRecord("it returns a view that its operators don't make again")
    return make


def _maker(steps: Sequence[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]], position: int | None,
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
