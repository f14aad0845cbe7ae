"""Changes of tensors that no recorded operator makes, such as another geometry or another memory."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..capture.guards import Guards
from ..capture.recorder import CannotRecord, Recording
from ..memory.regions import Array


@dataclass(frozen=True, slots=True)
class TensorState:
    """The state of a tensor before a call.

    Attributes:
        tensor: The tensor.
        array: The handle of its memory.
        key: Its key, which tells whether it requires a gradient.
        node: Its node.
        version: The number of its changes in place.
        is_moving: Whether it may get other memory.
    """

    tensor: Any
    array: Array
    key: int
    node: Any
    version: int
    is_moving: bool


def count_of(tensor: Any) -> int:
    """Return the number of in-place changes of a tensor; 0 for one of inference mode, which does not count them."""
    counter = tensor._version_counter
    return int(counter[0]) if type(counter) is list else 0


def states_of(tensors: Iterable[Any], moving: Container[int] = ()) -> list[TensorState]:
    """Return the states of tensors.

    Args:
        tensors: The tensors.
        moving: The identities of those that may get other memory.
    """
    return [TensorState(x, x._array, x._key, x._grad_fn, count_of(x), id(x) in moving) for x in tensors]


def check_states(states: Sequence[TensorState], recording: Recording) -> None:
    """Check that a call changed tensors by its recorded operators alone.

    Raises:
        CannotRecord: A tensor has another geometry, memory or node, or changed without an operator.
    """
    for state in states:
        x = state.tensor
        _, increase = recording.versions.get(id(x._version_counter), (None, 0))
        if not (x._array is state.array or state.is_moving) or x._key != state.key or x._grad_fn is not state.node or (
                count_of(x) != state.version + increase):
            raise CannotRecord("it changes the geometry, the memory or the graph of a tensor that was there before")


def check_numbers(guards: Guards, tensors: Sequence[Any]) -> None:
    """Check that no number tells one argument from another that is like it.

    Args:
        guards: Everything that the observed call may have read.
        tensors: The arguments that are other objects at each call.

    Raises:
        CannotRecord: The call may have made numbers of their identities.
    """
    if tensors and guards.seen is not None and guards.seen.numbered:
        raise CannotRecord("it calls id() or hash(), which tell its tensors from those of other calls")
