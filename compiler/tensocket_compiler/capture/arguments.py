"""Guards over arguments, which may be other objects at each call.

Tensors may change if class, key (dtype, device, whether a gradient is required), shape and strides stay, and if the
same of them are the same object, or share memory, among each other and with the tensors that the function captured.
Numbers, texts and containers are compared by value and structure; any other object must be the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from tensocket_core.keys import AUTOGRAD, describe_key
from tensocket_core.tensor import Tensor

from .guards import MISSING, Change
from .words import VALUES, is_same

_DICTS: Final = (dict,)


class TensorForm(NamedTuple):
    """What must hold of a tensor argument.

    Attributes:
        kind: Its class.
        key: Its dispatch key: dtype, device, whether it requires a gradient.
        shape, strides: Its layout, in the units of its handle.
        leaf: Whether no recorded operator made it.
        view: Whether it is a view.
        inference: Whether it belongs to inference mode.
        aligned: Whether its memory begins at a multiple of 16 bytes.
    """

    kind: type
    key: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    leaf: bool
    view: bool
    inference: bool
    aligned: bool


_NAMES: Final = ("class", "key", "shape", "strides", "is_leaf", "_is_view()", "is_inference()", "alignment")


def form_of(tensor: Tensor) -> TensorForm:
    """Return the form of a tensor."""
    array = tensor._array
    start = array.ctypes.data if isinstance(array, np.ndarray) else array.offset
    return TensorForm(type(tensor), tensor._key, tuple(array.shape), tuple(array.strides), tensor._grad_fn is None,
                      tensor._base is not None, bool(tensor.is_inference()), start % 16 == 0)


def memory_of(tensor: Tensor) -> tuple[int, int, int]:
    """Return a tensor's memory: an identity of the address space, the first byte, and the byte after the last."""
    array = tensor._array
    if isinstance(array, np.ndarray):
        return (0, *np.lib.array_utils.byte_bounds(array))
    size = tensor.dtype.itemsize
    steps = [(n - 1) * step * size for n, step in zip(array.shape, array.strides, strict=True)]
    start = array.offset * size
    last = sum(step for step in steps if step > 0) + size if 0 not in array.shape else 0
    return id(array.storage), start + sum(step for step in steps if step < 0), start + last


def find_aliases(tensors: Sequence[Tensor], captured: Sequence[Tensor] = ()) -> tuple[tuple[int, ...], ...]:
    """Return which tensors are the same object or share memory, among each other and with captured ones.

    Each entry is (first, second, distance): positions in ``[*tensors, *captured]`` and the distance in bytes of their
    memory; a distance of -1 stands for the same object. Pairs of captured tensors are left out.
    """
    everything = [*tensors, *captured]
    spans = sorted((*memory_of(tensor), k) for k, tensor in enumerate(everything))
    found: list[tuple[int, ...]] = []
    active: list[tuple[int, int, int, int]] = []
    for span in spans:
        space, start, end, k = span
        active = [other for other in active if other[0] == space and other[2] > start]
        for other in active:
            first, second = sorted((k, other[3]))
            if first < len(tensors):
                same = everything[first] is everything[second]
                found.append((first, second, -1 if same else abs(start - other[1])))
        if end > start:
            active.append(span)
    return tuple(sorted(found))


class ArgumentGuard:
    """What must hold of the arguments of a call, as those of an observed call.

    Args:
        args, kwargs: The arguments of the observed call.
        captured: Tensors that the function captured.
        exact: Whether code may compare identities of numbers and texts.

    Attributes:
        refusals: Reasons why these arguments cannot be guarded.
    """

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], captured: Iterable[Tensor] = (),
                 exact: bool = False) -> None:
        self.captured = list(captured)
        self.exact = exact
        tensors: list[Tensor] = []
        self.items = list(_flatten(args, kwargs, tensors))
        self.aliases = find_aliases(tensors, self.captured)
        self.count = len(tensors)
        self.refusals = [f"{path} is a NumPy array, whose elements would not be watched" for path, value in self.items
                         if isinstance(value, np.ndarray)]

    def matches(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor] | None:
        """Return the tensors of a call in order; None if its arguments are not as those of the observed call."""
        tensors: list[Tensor] = []
        items = self.items
        count = 0
        for _, value in _flatten(args, kwargs, tensors):
            if count >= len(items) or not is_same(items[count][1], value, self.exact):
                return None
            count += 1
        if count != len(items) or len(tensors) != self.count:
            return None
        return tensors if find_aliases(tensors, self.captured) == self.aliases else None

    def why(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Change | None:
        """Return the first difference to the observed call; None if there is none."""
        tensors: list[Tensor] = []
        items = list(_flatten(args, kwargs, tensors))
        for (path, old), (new_path, new) in zip(self.items, items, strict=False):
            if path != new_path:
                return Change(path, old, f"{new_path}: {new!r}")
            if isinstance(old, TensorForm) and isinstance(new, TensorForm):
                for name, a, b in zip(_NAMES, old, new, strict=True):
                    if a != b:
                        return Change(f"{path}.{_precise(name, a, b)}", *_readable(name, a, b))
            elif not is_same(old, new, self.exact):
                return Change(path, old, new)
        if len(items) != len(self.items):
            longer = (items if len(items) > len(self.items) else self.items)[min(len(items), len(self.items))]
            return Change(longer[0], *((MISSING, longer[1]) if len(items) > len(self.items) else (longer[1], MISSING)))
        aliases = find_aliases(tensors, self.captured)
        return None if aliases == self.aliases else Change("memory that arguments share", self.aliases, aliases)


def _precise(name: str, old: Any, new: Any) -> str:
    return "requires_grad" if name == "key" and old ^ new == AUTOGRAD else "dtype and device" if name == "key" else name


def _readable(name: str, old: Any, new: Any) -> tuple[Any, Any]:
    return (describe_key(old), describe_key(new)) if name == "key" else (old, new)


def _flatten(args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[Tensor]) -> Iterator[tuple[str, Any]]:
    """Yield paths and values of arguments: forms of tensors, values, and the sizes of containers."""
    yield "number of arguments", len(args)
    for k, value in enumerate(args):
        yield from _leaves(f"argument {k}", value, tensors)
    yield "names of arguments", tuple(sorted(kwargs))
    for name in sorted(kwargs):
        yield from _leaves(name, kwargs[name], tensors)


def _leaves(path: str, value: Any, tensors: list[Tensor]) -> Iterator[tuple[str, Any]]:
    kind = type(value)
    if isinstance(value, Tensor):
        tensors.append(value)
        yield path, form_of(value)
    elif kind in VALUES:
        yield path, value
    elif kind is list or (isinstance(value, tuple) and (kind is tuple or hasattr(kind, "_fields") or kind.__len__ is
                                                         tuple.__len__)):
        yield path, (kind, len(value))
        for k, item in enumerate(value):
            yield from _leaves(f"{path}[{k}]", item, tensors)
    elif kind in _DICTS:
        yield path, (kind, tuple(value))
        for key, item in value.items():
            yield from _leaves(f"{path}[{key!r}]", item, tensors)
    else:
        yield path, value
