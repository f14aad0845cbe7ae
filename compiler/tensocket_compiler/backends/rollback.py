"""Undoing a run: a function is called once more for its graph, and everything that this call changed comes back."""

from __future__ import annotations

import types
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from tensocket_core.tensor import Tensor
from tensocket_operators.random.positions import from_positions, positions

from ..capture.guards import Effect, Guards
from ..capture.object_words import TENSOR_SLOTS, ArrayPart
from ..capture.words import MISSING, ItemsPart, ListPart, QueuePart, SetPart
from .contents import SavedContents

#: Parts whose containers come back as a whole.
_WHOLE: Final = (ItemsPart, ListPart, QueuePart, SetPart)


class Rollback:
    """The state before a run.

    Args:
        guards: Everything that the run may read, hence also all of the program that it may change.
        tensors: Its tensor arguments.

    Attributes:
        preserve: Saves the elements of a tensor that the run is about to write.
    """

    def __init__(self, guards: Guards, tensors: Iterable[Any]) -> None:
        self._guards = guards
        self.before = guards.snapshot()
        self._containers = {id(part.owner): (part.owner, _copy(part.owner)) for part in guards.parts
                            if isinstance(part, _WHOLE)}
        self._arrays = [(part.owner, part.owner.copy()) for part in guards.parts
                        if isinstance(part, ArrayPart) and part.owner.flags.writeable]
        known = [*tensors, *[part.owner for part in guards.parts if isinstance(part.owner, Tensor)]]
        self._slots = [(x, {name: getattr(x, name) for name in TENSOR_SLOTS}) for x in known]
        self._moving = [(place, place.read(), place.save()) for place in guards.moving]
        self._contents = SavedContents()
        self.preserve = self._contents.preserve

    def gradients_changed(self) -> bool:
        """Whether the gradient of any known tensor is another one."""
        return any(x._grad is not slots["_grad"] for x, slots in self._slots)

    def replaced(self) -> list[str]:
        """Return the paths of moving places that hold another object now."""
        return [place.path for place, held, _ in self._moving if place.read() is not held]

    def effects(self) -> list[Effect]:
        """Return the changes of the program's state since the beginning."""
        return self._guards.effects(self.before, self._guards.snapshot())

    def undo(self) -> None:
        """Restore everything."""
        self._contents.restore()
        for tensor, slots in self._slots:
            for name, value in slots.items():
                if getattr(tensor, name) is not value:
                    setattr(tensor, name, value)
        for place, held, put_back in self._moving:
            if place.read() is not held:
                put_back()
        for array, elements in self._arrays:
            if array.tobytes() != elements.tobytes():
                array[...] = elements
        for effect in reversed(self.effects()):
            self._undo(effect)
        left = self._guards.changed()
        if left is not None:
            warnings.warn(f"a call that made a graph changed {left.path}, which cannot be undone", RuntimeWarning,
                          stacklevel=2)

    def _undo(self, effect: Effect) -> None:
        owner, label, old = effect.owner, effect.label, effect.old
        if id(owner) in self._containers and not label.startswith("."):
            _restore(*self._containers[id(owner)])
        elif isinstance(owner, types.CellType):
            if old is MISSING:
                del owner.cell_contents
            else:
                owner.cell_contents = old
        elif isinstance(owner, dict):
            if old is MISSING:
                owner.pop(label[1:], None)
            else:
                owner[label[1:]] = old
        elif not isinstance(owner, (Tensor, np.ndarray)) and label.startswith(".") and label[1:3] != "__":
            if old is MISSING:
                delattr(owner, label[1:])
            else:
                setattr(owner, label[1:], old)


@contextmanager
def undone(guards: Guards, tensors: Iterable[Any]) -> Iterator[Rollback]:
    """Undo all that a block changes: state of the program, elements of tensors, positions of random streams."""
    rollback = Rollback(guards, tensors)
    try:
        with from_positions(positions()):
            yield rollback
    finally:
        rollback.undo()


def _copy(container: Any) -> Any:
    kind: Callable[[Any], Any] = next(x for x in (OrderedDict, dict, list, deque, set) if isinstance(container, x))
    return kind(kind.items(container) if isinstance(container, dict) else container)  # type: ignore[attr-defined]


def _restore(container: Any, contents: Any) -> None:
    """Give a container its former items, in their order, by the methods of its built-in type."""
    kind: Any = type(contents)
    kind.clear(container)
    if isinstance(container, OrderedDict):
        for key, value in contents.items():
            OrderedDict.__setitem__(container, key, value)
    elif isinstance(container, (dict, set)):
        kind.update(container, contents)
    else:
        kind.extend(container, contents)
