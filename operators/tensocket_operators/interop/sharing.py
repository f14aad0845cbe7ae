"""Moving the memory of tensors to segments that several processes share."""

from __future__ import annotations

import gc
import sys
from typing import Any, Final

import numpy as np

from tensocket_core.dispatch.lazy import plain_handle
from tensocket_core.geometry import element_strides, memory_of, memory_offset
from tensocket_core.strides import reach
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract.arrays import DeviceArray
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError

from .. import creation
from ..tensor_methods.subclasses import without_memory
from . import storage as storages
from .shared import Segment, place_in_segment

#: Handle types.
_HANDLES: Final = frozenset({np.ndarray, DeviceArray})


def share_memory(tensor: Any) -> Any:
    """Apply ``Tensor.share_memory_``; memory of devices stays in place.

    Raises:
        ArgumentTypeError: The tensor has no memory of its own.
    """
    if tensor._level or not hasattr(tensor, "_array") or without_memory(tensor):
        raise ArgumentTypeError("share_memory_", f"a {type(tensor).__name__} without memory of its own",
                                "tensors of transforms live within their call, and other classes know their elements",
                                "share a tensor that is no part of a transform")
    array = plain_handle(tensor._array)
    if type(array) is np.ndarray and place_in_segment(array) is None:
        memory = memory_of(array)
        # References to the array of one tensor: the tensor, the local name and the argument. References to memory
        # that is not that array: the array, the local name and the argument.
        alone = sys.getrefcount(memory) <= 3 + (array is memory) and sys.getrefcount(array) <= 3 + (array is memory)
        _move([tensor] if alone else [tensor, *_others_on(memory, tensor)], memory)
    return tensor


def _others_on(memory: Any, known: Any) -> list[Any]:
    """Return all other tensors on some memory, found among all Python objects; tensors do not know their views."""
    found = []
    for each in gc.get_objects():
        if issubclass(type(each), Tensor):  # isinstance would resolve proxies
            array = plain_handle(getattr(each, "_array", None))
            if type(array) in _HANDLES and memory_of(array) is memory and each is not known:
                found.append(each)
    return found


def resize(storage: Any, size: int) -> Any:
    """Apply ``UntypedStorage.resize_``: all tensors move to new memory, with the same geometry.

    Raises:
        ArgumentError: A tensor reaches beyond the new size, or other objects hold the memory.
    """
    held = storage.nbytes()
    if size == held:
        return storage
    if size < 0 or not storage.resizable():
        raise ArgumentError("resize_", f"{size} bytes for a storage of {held}", "Trying to resize storage that is not "
                            "resizable", "clone() what arrays, buffers, files or other processes have, too")
    memory, old = storage._memory, storage._bytes
    holders = _others_on(memory, old)
    if size < held:
        _check_reach(holders, size)
    fresh = creation.empty(size, dtype=old.dtype, device=old.device)
    common = min(size, held)
    fresh[:common].copy_(old[:common])
    for holder in holders:
        holder._array = storages.moved(holder._array, fresh._array)
    old._array = fresh._array
    storages.renew(memory, memory_of(fresh._array))
    return storage


def _check_reach(holders: list[Any], size: int) -> None:
    for holder in holders:
        array = holder._array
        end = (memory_offset(array) + reach(array.shape, element_strides(array))) * holder.dtype.itemsize
        if 0 not in array.shape and end > size:
            raise ArgumentError("resize_", f"{size} bytes for a storage with a tensor of shape {list(array.shape)}",
                                f"tensors stay within their storage, and this one reaches to byte {end}",
                                "resize the tensor first, or delete it")


def _move(holders: list[Any], memory: Any) -> None:
    """Copy memory to a segment of its own and move its tensors there with the same geometry."""
    whole = storages.bytes_of(memory)
    moved = Segment.create(whole.size).array(0, whole.size)
    moved[...] = whole
    for holder in holders:
        holder._array = storages.moved(holder._array, moved)
    storages.renew(memory, moved)


__all__ = ["place_in_segment", "share_memory"]
