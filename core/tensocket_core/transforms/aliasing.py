"""Views and in-place changes of values that a level replaces instead of modifying them.

A level tensor has a *content*: its tangent, or its value. Contents are never modified. A view stores how it derives
from its parent; when the root of the views gets another content, each view derives its content anew on first use. To
modify a view, its new content is written into a copy of the root's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensocket_plugins.contract.arrays import DeviceArray
from tensocket_plugins.contract.dtypes import int64
from tensocket_plugins.contract.errors import TransformError

from ..dispatch.call import call
from ..dispatch.lazy import with_lazy_bits
from ..dispatch.modes import untransformed
from ..dispatch.registry import OPERATORS
from ..keys import LAZY
from ..launch.fill import from_values
from .levels import LevelTensor

_new = object.__new__


class AliasTensor(LevelTensor):
    """A level tensor whose content is replaced.

    Attributes:
        _content: The content; for a view, that of the root's generation ``_seen``.
        _generation: Number of times that a root's content was replaced.
        _parent: The tensor that a view is a view of; None for roots.
        _replay: Derives the view's content from its parent's.
    """

    __slots__ = ()
    _content: Any = None
    _generation: int = 0
    _seen: int = 0
    _parent: Any = None
    _replay: Callable[[Any], Any]

    def _become(self, view: Any) -> None:
        """Become a view of a new tensor that takes over this tensor's present state."""
        before = _new(type(self))
        before._array, before._key, before._version_counter = self._array, self._key, self._version_counter
        before._grad = before._grad_fn = None
        before._base = self._base
        before.__dict__.update(self.__dict__)
        super()._become(view)
        self._parent, self._base = before, root_of(before)



def root_of(tensor: Any) -> Any:
    """Return the root of a view; any other tensor is its own root."""
    while tensor._parent is not None:
        tensor = tensor._parent
    return tensor


def make_view(view: Any, parent: Any, replay: Callable[[Any], Any]) -> None:
    """Register a tensor as a view."""
    view._parent, view._replay = parent, replay
    view._base = root = root_of(parent)
    view._seen = root._generation


def content(tensor: Any) -> Any:
    """Return the present content."""
    if tensor._parent is not None:
        root = root_of(tensor)
        if tensor._seen != root._generation:
            parent = content(tensor._parent)
            tensor._content = None if parent is None else tensor._replay(parent)
            tensor._seen = root._generation
    return tensor._content


def replace(tensor: Any, new: Any, blank: Callable[[Any], Any]) -> None:
    """Replace a tensor's content; its root and all views of that show the change.

    Args:
        tensor: A root or a view.
        new: Its content.
        blank: Makes the content of a root without one.

    Raises:
        TransformError: A view has another dtype than its root.
    """
    root = root_of(tensor)
    if root is tensor:
        root._content = new
    elif root.dtype is not tensor.dtype:
        raise TransformError(
            tensor._transform.name, f"a view of dtype {tensor.dtype.name} of a tensor of dtype {root.dtype.name}",
            "views that are modified have the dtype of what they are a view of", "modify the tensor itself")
    else:
        old, inner = root._content, with_lazy_bits(new, (tensor._key ^ root._key) & LAZY)
        root._content = written(blank(root) if old is None else old, root._array, tensor._array, inner)
        tensor._content = new
    root._generation += 1
    tensor._seen = root._generation


def _places(array: DeviceArray) -> np.ndarray[Any, Any]:
    """Return the positions in memory of all elements, in row-major order."""
    place = np.array(array.offset, np.int64)
    for size, stride in zip(array.shape, array.strides, strict=True):
        place = place[..., None] + np.arange(size, dtype=np.int64) * stride
    return place.reshape(-1)


def _positions(like: Any, root: DeviceArray, view: DeviceArray) -> Any:
    """Return the positions of a view's elements among those of a root, both on one memory, as a vector."""
    rows, chosen = _places(root), _places(view)
    order = np.argsort(rows, kind="stable")
    index = order[np.searchsorted(rows[order], chosen)].astype(np.int64)
    with untransformed():
        return from_values(index, int64, like._device_state)


def written(whole: Any, root: DeviceArray, view: DeviceArray, new: Any) -> Any:
    """Return a root's content with the elements of a view replaced, out of place.

    Args:
        whole: The root's content.
        root: Layout of the root.
        view: Layout of the view, on the same memory.
        new: The view's content.
    """
    value = new.to(whole.dtype).expand(view.shape).reshape(-1)
    flat = call(OPERATORS["scatter_valid"], whole.reshape(-1), 0, _positions(whole, root, view), value, False)
    return flat.reshape(tuple(whole.shape))


def shown(whole: Any, root: DeviceArray, view: DeviceArray) -> Any:
    """Return the part of a root's content that belongs to a view, out of place."""
    return call(OPERATORS["gather_valid"], whole.reshape(-1), 0, _positions(whole, root, view)).reshape(view.shape)
