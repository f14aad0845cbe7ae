"""Sizes: which calls differ from others in nothing but sizes of tensors.

Kernels do not contain sizes, so that other sizes need another plan of the same kernels: counts, strides, memory. A call
with other sizes is observed; if it ran no code that the calls of a graph did not run, then it is known what Python may
have read, and the graphs of both share their guards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tensocket_core.tensor import Tensor

from ..capture.arguments import ArgumentGuard
from ..capture.forms import DYNAMIC, MAYBE_DYNAMIC, STATIC, TensorForm, flatten, is_same_form
from ..capture.guards import Guards

#: Sizes and strides of the tensors among arguments.
Key = tuple[tuple[int, ...], ...]


def sizes_of(args: Sequence[Any], kwargs: dict[str, Any]) -> Key:
    """Return sizes and strides of the tensors of a call; calls that one graph serves have equal ones."""
    found: list[tuple[int, ...]] = []
    for value in args:
        _collect(value, found)
    for name in sorted(kwargs):
        _collect(kwargs[name], found)
    return tuple(found)


def _collect(value: Any, found: list[tuple[int, ...]], above: tuple[int, ...] = ()) -> None:
    """Add what ``sizes_of`` returns of a value; ``above``: the identities of the containers that it lies in."""
    if isinstance(value, Tensor):
        found += [tuple(value._array.shape), tuple(value._array.strides)]
    elif type(value) in (list, tuple, dict) and id(value) not in above:
        for item in value.values() if type(value) is dict else value:
            _collect(item, found, (*above, id(value)))


class Form:
    """The arguments of a call, up to the elements of tensors.

    Args:
        args, kwargs: The arguments.
        dynamic: Whether sizes may change; False if only those may that marks name.

    Attributes:
        sizes: Sizes and strides.
    """

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: bool | None) -> None:
        tensors: list[Any] = []
        self._items = list(flatten(args, kwargs, tensors))
        self._fixed = [_fixed_dims(x, dynamic) for x in tensors]
        self.sizes = sizes_of(args, kwargs)

    def resizes(self, other: Form, exact: bool) -> bool:
        """Whether another call differs in sizes that may change, and in strides with them, and in nothing else."""
        if len(self._items) != len(other._items):
            return False
        number, changed = -1, False
        for (_, old), (_, new) in zip(self._items, other._items, strict=True):
            number += isinstance(old, TensorForm)
            if is_same_form(old, new, exact):
                continue
            if not (isinstance(old, TensorForm) and isinstance(new, TensorForm)
                    and _is_resized(old, new, self._fixed[number] | other._fixed[number])):
                return False
            changed = True
        return changed


def _fixed_dims(tensor: Any, dynamic: bool | None) -> frozenset[int]:
    """Return the dimensions of an argument whose sizes must stay."""
    marks = {name: frozenset([d % tensor.ndim for d in tensor.__dict__.get(name, ())])
             for name in (DYNAMIC, MAYBE_DYNAMIC, STATIC)}
    others = frozenset(range(tensor.ndim)) if dynamic is False else frozenset()
    return marks[STATIC] | (others - marks[DYNAMIC] - marks[MAYBE_DYNAMIC])


def _is_resized(old: TensorForm, new: TensorForm, fixed: Iterable[int]) -> bool:
    return (len(old.shape) == len(new.shape) and old.shape != new.shape
            and all(old.shape[d] == new.shape[d] for d in fixed)
            and old._replace(shape=new.shape, strides=new.strides) == new)


@dataclass(eq=False, slots=True)
class Waiting:
    """An observed call. The next one like it is captured; calls of a function may differ by turns.

    Attributes:
        form: Its arguments, up to elements.
        arguments: Its arguments, exactly. Calls with others may read other things.
        guards: All that it may have read.
        resized: Whether the guards are those of a graph, which calls with other sizes share.
        graphs: Whether backward passes can go through the graphs of its results; see ``joint.graph_states``.
    """

    form: Form
    arguments: ArgumentGuard
    guards: Guards
    resized: bool
    graphs: list[str]

    def holds(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a call now reads what the observed one did."""
        return self.arguments.matches(args, kwargs) is not None and self.guards.changed() is None
