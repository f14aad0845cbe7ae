"""Forms of arguments: what of them a compiled call takes for granted."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from tensocket_core.tensor import Tensor
from tensocket_plugins.contract.devices import Device

from .layout import LAYOUT
from .offsets import read_word
from .words import VALUES, is_same

#: Attributes that name dimensions of an argument, under PyTorch's names: sizes that may change, that may do so without
#: being sure to, and that stay.
DYNAMIC, MAYBE_DYNAMIC, STATIC = MARKS = (
    "_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices", "_dynamo_static_indices")
#: Attributes that the runtime keeps at tensors, which are no state of programs.
OF_RUNTIME: Final = frozenset({"_views", "_fixed_view", *MARKS})
_DICTS: Final = (dict,)


class TensorForm(NamedTuple):
    """Properties of a tensor argument that must stay.

    Attributes:
        kind: Its class.
        key: Its dispatch key: dtype, device, whether it requires a gradient.
        shape, strides: Its sizes and strides, in the units of its handle.
        handle: The class of its handle; that of None for a wrapper of other tensors.
        leaf: Whether no recorded operator made it.
        view: Whether it is a view.
        inference: Whether it belongs to inference mode.
        attributes: Names of attributes that a program, or a hook, has given it.
        grad: Class, key and strides of its gradient; None without one.
    """

    kind: type
    key: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    handle: type
    leaf: bool
    view: bool
    inference: bool
    attributes: tuple[str, ...]
    grad: tuple[type, int, tuple[int, ...]] | None


#: The fields of a form as programs write them.
NAMES: Final = ("class", "key", "shape", "strides", "layout", "is_leaf", "_is_view()", "is_inference()",
         "attributes", "grad")


#: Leaves of arguments that are compared by value.
_BY_VALUE: Final = (TensorForm, Device, np.generic)


def is_wrapper(tensor: Tensor) -> bool:
    """Whether a tensor has no memory of its own: sparse tensors and classes that intercept calls wrap others."""
    array: Any = tensor._array
    return tensor._dispatches or (not isinstance(array, np.ndarray) and array.storage is None)


def form_of(tensor: Tensor) -> TensorForm:
    """Return the form of a tensor."""
    array = tensor._array
    handle = type(None) if is_wrapper(tensor) else type(array)
    return TensorForm(type(tensor), tensor._key, tuple(array.shape), tuple(array.strides), handle,
                      tensor._grad_fn is None, tensor._base is not None, bool(tensor.is_inference()),
                      tuple(sorted(vars(tensor).keys() - OF_RUNTIME)), grad_form_of(tensor))


def grad_form_of(tensor: Any) -> tuple[type, int, tuple[int, ...]] | None:
    """Return the class, the key and the strides of a tensor's gradient; None without one."""
    grad = tensor._grad
    return None if grad is None else (type(grad), grad._key, tuple(grad._array.strides))


def memory_of(tensor: Tensor) -> tuple[int, int, int]:
    """Return a tensor's memory: an identity of the address space, the first byte, and the byte after the last."""
    array = tensor._array
    if is_wrapper(tensor):
        return id(tensor), 0, 0
    if isinstance(array, np.ndarray):
        if LAYOUT is not None and array.flags.c_contiguous:
            start = read_word(id(array) + LAYOUT.data)
            return 0, start, start + array.nbytes
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


class Occupied:
    """The memory of tensors, for the question whether another tensor overlaps any of it."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        #: By address space, where ranges begin and end; ranges that touch are one.
        self.ranges: dict[int, tuple[list[int], list[int]]] = {}
        for space, start, end in sorted(memory_of(tensor) for tensor in tensors):
            starts, ends = self.ranges.setdefault(space, ([], []))
            if ends and start <= ends[-1]:
                ends[-1] = max(ends[-1], end)
            else:
                starts.append(start)
                ends.append(end)

    def overlaps(self, space: int, start: int, end: int) -> bool:
        """Whether a range has a byte of it."""
        if space not in self.ranges:
            return False
        starts, ends = self.ranges[space]
        at = bisect_left(starts, end)
        return at > 0 and ends[at - 1] > start


def flatten(args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[Tensor]) -> Iterator[tuple[str, Any]]:
    """Yield paths and values of arguments: forms of tensors, values, and the sizes of containers."""
    yield "number of arguments", len(args)
    for k, value in enumerate(args):
        yield from _leaves(f"argument {k}", value, tensors)
    yield "names of arguments", tuple(sorted(kwargs))
    for name in sorted(kwargs):
        yield from _leaves(name, kwargs[name], tensors)


def _leaves(path: str, value: Any, tensors: list[Tensor], above: tuple[int, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield what ``flatten`` yields of a value; ``above``: the identities of the containers that it lies in."""
    kind = type(value)
    if isinstance(value, Tensor):
        tensors.append(value)
        yield path, form_of(value)
    elif kind in VALUES:
        yield path, value
    elif id(value) in above:
        yield path, (kind, f"at level {above.index(id(value))}")
    elif kind is list or (isinstance(value, tuple) and (kind is tuple or hasattr(kind, "_fields") or kind.__len__ is
                                                         tuple.__len__)):
        yield path, (kind, len(value))
        for k, item in enumerate(value):
            yield from _leaves(f"{path}[{k}]", item, tensors, (*above, id(value)))
    elif kind in _DICTS:
        yield path, (kind, tuple(value))
        for key, item in value.items():
            yield from _leaves(f"{path}[{key!r}]", item, tensors, (*above, id(value)))
    else:
        yield path, value


def same_forms(before: Sequence[tuple[str, Any]], after: Sequence[tuple[str, Any]]) -> bool:
    """Whether a call left its arguments as they were: their containers, and the forms of tensors but for gradients."""
    return len(before) == len(after) and all(
        path == other and is_same_form(_without_grad(old), _without_grad(new))
        for (path, old), (other, new) in zip(before, after, strict=True))


def _without_grad(value: Any) -> Any:
    return value._replace(grad=None) if isinstance(value, TensorForm) else value


def is_same_form(old: Any, new: Any, exact: bool = False) -> bool:
    """Whether a leaf of the arguments is as another one; ``exact``: code may compare identities."""
    if type(old) is type(new) and isinstance(old, _BY_VALUE):
        return bool(old == new)
    return is_same(old, new, exact)
