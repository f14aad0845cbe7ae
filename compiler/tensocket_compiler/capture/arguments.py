"""Guards over arguments, which may be other objects at each call.

Tensors may change if class, key (dtype, device, whether a gradient is required), shape and strides stay, and if the
same of them are the same object, or share memory, among each other and with the tensors that the function captured.
Numbers, texts and containers are compared by value and structure; any other object must be the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from tensocket_core.keys import AUTOGRAD, describe_key
from tensocket_core.tensor import Tensor

from .forms import NAMES, Occupied, TensorForm, find_aliases, flatten, form_of, is_same_form, memory_of
from .guards import Change
from .places import Place
from .watch import Refusal
from .words import MISSING


class ArgumentGuard:
    """A check that the arguments of a call are as those of an observed call.

    Args:
        args, kwargs: The arguments of the observed call.
        captured: Tensors that the function captured.
        exact: Whether code may compare identities of numbers and texts.
        moving: Places whose tensors stand behind the arguments.
        begins: Whether ``among`` follows, when the observed call has run.

    Attributes:
        refusals: Reasons why these arguments cannot be guarded.
        repeats: Whether a tensor is there several times.
        tensor_paths: Where each tensor stands among the arguments first.
        given: The number of different tensors among the arguments themselves.
    """

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], captured: Iterable[Tensor] = (),
                 exact: bool = False, moving: Sequence[Place] = (), begins: bool = False) -> None:
        self.moving = moving
        self._flatten = partial(_flatten_with, moving) if moving else flatten
        tensors: list[Tensor] = []
        self.items = list(self._flatten(args, kwargs, tensors))
        self.count = len(tensors)
        self._observed = tensors
        self.among(captured, exact)
        if begins:
            self._observed = tensors
        first = {id(x): k for k, x in reversed(list(enumerate(tensors)))}
        # Nothing tells whether an empty tensor is there several times.
        self._first = [k for k, x in enumerate(tensors) if first[id(x)] == k or not x.numel()]
        self.repeats = len(self._first) < len(tensors)
        paths = [path for path, value in self.items if isinstance(value, TensorForm)]
        self.tensor_paths = [paths[k] for k in self._first]
        behind = sum(isinstance(place.content(), Tensor) for place in moving)
        self.given = sum(k < len(tensors) - behind for k in self._first)
        self.refusals = [Refusal("it is a NumPy array, whose elements are not watched", path)
                         for path, value in self.items if isinstance(value, np.ndarray)]
        self.refusals += [Refusal("it wraps other tensors", path) for path, value in self.items
                          if isinstance(value, TensorForm) and value.handle is type(None)]
        memories = {place.path for place in moving if place.is_memory}
        self.refusals += [Refusal("it has attributes or hooks of its own", path) for path, value in self.items
                          if isinstance(value, TensorForm) and value.attributes and path not in memories]

    def among(self, captured: Iterable[Tensor], exact: bool) -> ArgumentGuard:
        """Return this check with other captured tensors, once; for the arguments see the class."""
        self.captured, self.exact = list(captured), exact
        self.occupied = Occupied(self.captured)
        self.aliases = find_aliases(self._observed, self.captured)
        self._observed = []
        return self

    def matches(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor] | None:
        """Return the different tensors of a call in order; None if its arguments are not as those of the observed call.

        A tensor that is there several times was so in the observed call.
        """
        tensors: list[Tensor] = []
        items = self.items
        count = 0
        for _, value in self._flatten(args, kwargs, tensors):
            if count >= len(items) or not is_same_form(items[count][1], value, self.exact):
                return None
            count += 1
        if count != len(items) or len(tensors) != self.count:
            return None
        if not self._shares_as_before(tensors):
            return None
        return [tensors[k] for k in self._first] if self.repeats else tensors

    def _shares_as_before(self, tensors: list[Tensor]) -> bool:
        """Whether the same tensors are one object or share memory.

        Fast path. Guard: neither before nor now does any memory overlap. Work: one search in sorted ranges per tensor.
        All other calls compare lists of pairs.
        """
        if not self.aliases:
            spans = sorted([memory_of(tensor) for tensor in tensors])
            apart = all(a[0] != b[0] or a[2] <= b[1] for a, b in pairwise(spans))
            if apart and not any(self.occupied.overlaps(*span) for span in spans):
                return True
        return find_aliases(tensors, self.captured) == self.aliases

    def why(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Change | None:
        """Return the first difference to the observed call; None if there is none."""
        tensors: list[Tensor] = []
        items = list(self._flatten(args, kwargs, tensors))
        for (path, old), (new_path, new) in zip(self.items, items, strict=False):
            if path != new_path:
                return Change(path, old, f"{new_path}: {new!r}")
            if isinstance(old, TensorForm) and isinstance(new, TensorForm):
                for name, a, b in zip(NAMES, old, new, strict=True):
                    if a != b:
                        return Change(f"{path}.{_precise(name, a, b)}", *_readable(name, a, b))
            elif not is_same_form(old, new, self.exact):
                return Change(path, old, new)
        if len(items) != len(self.items):
            longer = (items if len(items) > len(self.items) else self.items)[min(len(items), len(self.items))]
            return Change(longer[0], *((MISSING, longer[1]) if len(items) > len(self.items) else (longer[1], MISSING)))
        aliases = find_aliases(tensors, self.captured)
        return None if aliases == self.aliases else Change("memory that arguments share", self.aliases, aliases)


def _flatten_with(moving: Sequence[Place], args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[Tensor]
                  ) -> Iterator[tuple[str, Any]]:
    """Yield what ``flatten`` yields, and then the same for what is at moving places."""
    yield from flatten(args, kwargs, tensors)
    for place in moving:
        value = place.content()
        if isinstance(value, Tensor):
            tensors.append(value)
            yield place.path, form_of(value)
        else:
            yield place.path, value


def _precise(name: str, old: Any, new: Any) -> str:
    return "requires_grad" if name == "key" and old ^ new == AUTOGRAD else "dtype and device" if name == "key" else name


def _readable(name: str, old: Any, new: Any) -> tuple[Any, Any]:
    return (describe_key(old), describe_key(new)) if name == "key" else (old, new)
