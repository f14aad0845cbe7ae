"""Splitting host tensors into parts for another process, and rebuilding them there on shared memory."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from tensocket_core.device import open_device
from tensocket_core.geometry import element_strides, memory_of
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import AutogradError

from ..tensor_methods.subclasses import without_memory
from .pickling import Memory, attributes, build, place_of
from .shared import Segment


def on_host(tensor: Any) -> bool:
    """Whether a tensor has memory of its own in host memory.

    Raises:
        AutogradError: An operator made the tensor; its graph cannot be sent.
    """
    if tensor._level or type(getattr(tensor, "_array", None)) is not np.ndarray or without_memory(tensor):
        return False
    if tensor._grad_fn is not None:
        raise AutogradError("send", f"a tensor of shape {list(tensor.shape)} made by an operator",
                            "only leaf tensors are sent to other processes, because the graph of a tensor stays behind",
                            "detach() it first")
    return bool(tensor._device_state.holds_data)


def packed_parts(tensor: Any) -> tuple[Any, ...] | None:
    """Return the parts of a host tensor that ``pickle`` stores, with its elements as one buffer; None for others.

    The parts contain only the tensor's own elements, not the rest of its storage.
    """
    if not on_host(tensor):
        return None
    array = tensor._array
    if array.flags.c_contiguous:
        flat = array
    elif array.flags.f_contiguous:
        flat = array.T
    else:
        array = flat = np.ascontiguousarray(array)
    buffer = pickle.PickleBuffer(flat.reshape(-1).view(np.uint8))
    geometry = tensor.dtype, tuple(array.shape), tuple(element_strides(array))
    return on_buffer, (type(tensor), buffer, str(tensor.device), *geometry, tensor.requires_grad), \
        attributes(tensor) or None


def on_buffer(cls: Any, buffer: Any, device: str, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...],
              requires_grad: bool) -> Any:
    """Return a leaf on the memory of a buffer."""
    handle = buffer if type(buffer) is np.ndarray else np.frombuffer(bytearray(buffer), np.uint8)
    return on_memory(cls, handle, (device, dtype, shape, strides, 0), requires_grad)


def segment_of(tensor: Any) -> tuple[Segment, int]:
    """Return the segment of a shared tensor, and the offset of its memory in the segment."""
    token = memory_of(tensor._array).base
    return token.segment, token.start


def place_parts(tensor: Any) -> tuple[Any, ...]:
    """Return device, dtype, shape, strides and the offset of the first byte of a tensor in its memory."""
    _, start = place_of(tensor)
    array = tensor._array
    return str(tensor.device), tensor.dtype, tuple(array.shape), tuple(element_strides(array)), start


def on_memory(cls: Any, memory: Any, place: tuple[Any, ...], requires_grad: bool) -> Any:
    """Return a leaf at a place in memory, a vector of bytes."""
    device, dtype, shape, strides, start = place
    return build(cls, Memory(open_device(device), memory), dtype, shape, strides, start, requires_grad)


__all__ = [
    "attributes",
    "on_buffer",
    "on_host",
    "on_memory",
    "packed_parts",
    "place_parts",
    "segment_of",
]
