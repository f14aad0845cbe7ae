"""Views and in-place changes of values that a level replaces instead of modifying them.

A level tensor has a *content*: its tangent, or its value. Contents are never modified. A view remembers how it came
from its parent; when the root of the views gets another content, the contents of the views are made anew from it when
they are asked for. To modify a view is to put its new content into the root's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensocket_plugins.contract.arrays import DeviceArray
from tensocket_plugins.contract.dtypes import int64
from tensocket_plugins.contract.errors import TransformError

from ..dispatch.call import call
from ..dispatch.lazy import turned
from ..dispatch.modes import untransformed
from ..dispatch.registry import OPERATORS
from ..keys import LAZY
from ..launch.fill import from_values
from .levels import LevelTensor

_new = object.__new__


class AliasTensor(LevelTensor):
    """A level tensor whose content is replaced.

    Attributes:
        _content: The content; of a view, as it was when the root had the generation ``_seen``.
        _generation: How often a root's content was replaced.
        _parent: The tensor that a view is a view of; None for roots.
        _replay: Makes the view's content of its parent's.
    """

    __slots__ = ()
    _content: Any = None
    _generation: int = 0
    _seen: int = 0
    _parent: Any = None
    _replay: Callable[[Any], Any]

    def _become(self, view: Any) -> None:
        """Take the place of a view; what it was stays as the tensor that is viewed."""
        before = _new(type(self))
        before._array, before._key, before._version_counter = self._array, self._key, self._version_counter
        before._grad = before._grad_fn = None
        before._base = self._base
        before.__dict__.update(self.__dict__)
        super()._become(view)
        self._parent, self._base = before, root_of(before)



def root_of(tensor: Any) -> Any:
    """Return the tensor that a view shows a part of; itself for others."""
    while tensor._parent is not None:
        tensor = tensor._parent
    return tensor


def make_view(view: Any, parent: Any, replay: Callable[[Any], Any]) -> None:
    """Say that a tensor is a view."""
    view._parent, view._replay = parent, replay
    view._base = root = root_of(parent)
    view._seen = root._generation


def content(tensor: Any) -> Any:
    """Return the content as of now."""
    if tensor._parent is not None:
        root = root_of(tensor)
        if tensor._seen != root._generation:
            parent = content(tensor._parent)
            tensor._content = None if parent is None else tensor._replay(parent)
            tensor._seen = root._generation
    return tensor._content


def replace(tensor: Any, new: Any, blank: Callable[[Any], Any]) -> None:
    """Give a tensor another content, which its root and all views of that show from now on.

    Args:
        tensor: A root or a view.
        new: Its content.
        blank: Makes the content of a root that has none.

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
        old, inner = root._content, turned(new, (tensor._key ^ root._key) & LAZY)
        root._content = written(blank(root) if old is None else old, root._array, tensor._array, inner)
        tensor._content = new
    root._generation += 1
    tensor._seen = root._generation


def _places(array: DeviceArray) -> np.ndarray[Any, Any]:
    """Return the positions in memory of all elements, row by row."""
    place = np.array(array.offset, np.int64)
    for size, stride in zip(array.shape, array.strides, strict=True):
        place = place[..., None] + np.arange(size, dtype=np.int64) * stride
    return place.reshape(-1)


def _positions(like: Any, root: DeviceArray, view: DeviceArray) -> Any:
    """Where elements of a view are among those of a root, both on one memory, as a vector."""
    rows, chosen = _places(root), _places(view)
    order = np.argsort(rows, kind="stable")
    index = order[np.searchsorted(rows[order], chosen)].astype(np.int64)
    with untransformed():
        return from_values(index, int64, like._entry)


def written(whole: Any, root: DeviceArray, view: DeviceArray, new: Any) -> Any:
    """Return a root's content with another one where a view shows it, out of place.

    Args:
        whole: The root's content.
        root: Geometry of the root.
        view: Geometry of the view, on the same memory.
        new: The view's content.
    """
    value = new.to(whole.dtype).expand(view.shape).reshape(-1)
    flat = call(OPERATORS["scatter_valid"], whole.reshape(-1), 0, _positions(whole, root, view), value, False)
    return flat.reshape(tuple(whole.shape))


def shown(whole: Any, root: DeviceArray, view: DeviceArray) -> Any:
    """Return the part of a root's content that a view shows, out of place."""
    return call(OPERATORS["gather_valid"], whole.reshape(-1), 0, _positions(whole, root, view)).reshape(view.shape)
