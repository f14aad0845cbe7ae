"""Moving the memory of tensors to segments that several processes see."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np

from tensocket_plugins.contract.errors import ArgumentTypeError

from . import storages, tensors
from .dispatch.subclasses import without_memory
from .execute.geometry import memory_of
from .interop.shared import Segment, place_in_segment


def share_memory(tensor: Any) -> Any:
    """``Tensor.share_memory_``. Memory of devices stays where it is.

    Raises:
        ArgumentTypeError: The tensor has no memory of its own.
    """
    if tensor._level or not hasattr(tensor, "_array") or without_memory(tensor):
        raise ArgumentTypeError("share_memory_", f"a {type(tensor).__name__} without memory of its own",
                                "tensors of transforms live within their call, and other classes know their elements",
                                "share a tensor that is no part of a transform")
    array = tensor._array
    if type(array) is np.ndarray and place_in_segment(array) is None:
        memory = memory_of(array)
        # What refers to one tensor's array: the tensor, the name here and the argument; and to memory that is not
        # that array: the array, the name and the argument.
        alone = sys.getrefcount(memory) <= 3 + (array is memory) and sys.getrefcount(array) <= 3 + (array is memory)
        _move([tensor] if alone else [tensor, *_others_on(memory, tensor)], memory)
    return tensor


def _others_on(memory: Any, known: Any) -> list[Any]:
    """All tensors on some memory but the known one. Python knows all objects; tensors do not know their views."""
    found = []
    for each in gc.get_objects():
        if issubclass(type(each), tensors.Tensor):  # isinstance would ask proxies what they stand for
            array = getattr(each, "_array", None)
            if type(array) is np.ndarray and memory_of(array) is memory and each is not known:
                found.append(each)
    return found


def _move(holders: list[Any], memory: Any) -> None:
    """Copy memory to a segment of its own and give its tensors the same places there."""
    whole = storages.bytes_of(memory)
    first = int(memory.__array_interface__["data"][0])
    moved = Segment.create(whole.size).array(0, whole.size)
    moved[...] = whole
    for holder in holders:
        array = holder._array
        start = int(array.__array_interface__["data"][0]) - first if array.size else 0
        holder._array = np.ndarray(array.shape, array.dtype, moved, start, array.strides)
    storages.renew(memory, moved)


__all__ = ["place_in_segment", "share_memory"]
