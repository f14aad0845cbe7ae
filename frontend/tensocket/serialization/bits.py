"""Tensors as raw little-endian bytes, and back."""

from __future__ import annotations

import numpy as np

from tensocket_core.device import open_device
from tensocket_operators import Tensor
from tensocket_operators import dtype as DType
from tensocket_operators.creation import finish
from tensocket_plugins.contract.devices import HOST_DEVICE


def to_bytes(tensor: Tensor) -> memoryview:
    """Return the elements in row-major order. The view shares memory with a contiguous tensor on the host."""
    host = tensor.detach().cpu().contiguous()._host()
    little = host.astype(host.dtype.newbyteorder("<"), copy=False)
    return little.reshape(-1).view(np.uint8).data


def from_bytes(data: bytearray | np.ndarray[tuple[int], np.dtype[np.uint8]], dtype: DType) -> Tensor:
    """Return a one-dimensional CPU tensor on the memory of ``data``, whose size is a multiple of the element's.

    Raises:
        ValueError: The size is not such a multiple.
    """
    little = np.frombuffer(data, dtype.numpy.newbyteorder("<"))
    array = little.astype(dtype.numpy, copy=False)
    if dtype.name == "bool":
        # Bytes other than 0 and 1 would make booleans that are neither.
        array = array.view(np.uint8) != 0
    tensor: Tensor = finish(array, dtype, open_device(HOST_DEVICE), requires_grad=False)
    return tensor
