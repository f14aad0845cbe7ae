"""Effects of a captured call: what it assigned to objects that were there before, and how each call does it again."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, Final

from tensocket_core.tensor import Tensor

from ..autograd.joint import is_live
from ..capture.guards import Effect
from ..capture.recorder import CannotRecord, Recorder
from ..memory.regions import Array, Region
from .results import Results

_new = object.__new__


def _references(value: Any) -> int:
    return sys.getrefcount(value)


#: The result of ``_references`` for an object that one attribute and one local variable of the caller refer to.
def _measure() -> int:
    holder = [object()]
    value = holder[0]
    return _references(value)


_HELD: Final = _measure()


class Slot:
    """A place to which each call assigns a tensor that it makes, such as the gradient of a parameter.

    If nobody else holds the tensor of the last call, this call writes into it: nobody can tell it from a new one.

    Attributes:
        position: Number of the result of the graph that goes there.
    """

    __slots__ = ("_assign", "_last", "_make", "_read", "_written", "position")

    def __init__(self, position: int, make: Callable[..., Any], read: Callable[[], Any],
                 assign: Callable[[Any], None]) -> None:
        self.position = position
        self._make, self._read, self._assign = make, read, assign
        self._last: Any = None

    def memory(self) -> Array | None:
        """Return the array of the last call's tensor, if only this place refers to both."""
        tensor = self._read()
        if tensor is None or tensor is not self._last or type(tensor) is not Tensor:
            return None
        # This object and the place refer to the tensor, and the tensor alone to the array.
        if _references(tensor) != _HELD + 1 or tensor._version_counter is not None or (
                tensor.__dict__):
            return None
        array = tensor._array
        return array if _references(array) == _HELD else None

    def assign(self, arrays: Sequence[Array], reused: bool) -> None:
        """Assign the tensor of this call."""
        if not reused:
            self._last = made = self._make((), arrays, [])
            self._assign(made)


def find_slots(effects: Sequence[Effect], results: Results, recorder: Recorder, reads: set[int]) -> list[Any]:
    """Return what assigns the effects of a call again: slots, and functions without arguments.

    Args:
        effects: The effects.
        results: Gets the regions of the tensors that they assign.
        recorder: The recorder of the call.
        reads: Buffers that the graph reads and that were there before the call.

    Raises:
        CannotRecord: The call assigned something else, or read what it replaced.
    """
    found: list[Any] = []
    for effect in effects:
        read, assign = place_of(effect)
        old, new = effect.old, effect.new
        if isinstance(old, Tensor) and recorder.recording.memory.find(old._array) is not None and (
                recorder.region(old).buffer.number in reads):
            raise CannotRecord(f"it reads {effect.path}, which it replaces")
        if isinstance(new, Tensor):
            if is_live(new):
                raise CannotRecord(f"it assigns a tensor with a graph to {effect.path}")
            make = results.new_tensor(new)
            found.append(Slot(len(results.regions) - 1, make, read, assign))
        elif new is None and isinstance(old, Tensor):
            found.append(lambda assign=assign: assign(None))
        else:
            raise CannotRecord(f"it changes {effect.path} from {old!r:.40} to {new!r:.40}")
    return found


def place_of(effect: Effect) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """Return functions that read and assign the place of an effect."""
    owner, label = effect.owner, effect.label
    if isinstance(owner, Tensor) and label == ".grad":
        return lambda: owner._grad, lambda value: setattr(owner, "_grad", value)
    if isinstance(owner, types.CellType):
        return lambda: owner.cell_contents, lambda value: setattr(owner, "cell_contents", value)
    if isinstance(owner, dict) and label.startswith("."):
        name = label[1:]
        return lambda: owner.get(name), lambda value: owner.__setitem__(name, value)
    raise CannotRecord(f"it assigns {effect.path}")


def captured_reads(regions: Sequence[Region]) -> set[int]:
    """Return the buffers among regions that were there before the call."""
    return {region.buffer.number for region in regions if region.buffer.kind == "input"}
