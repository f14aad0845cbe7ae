"""Sharing device memory with other libraries through DLPack: the optional part of a backend for it.

The runtime makes and reads capsules. A backend that sets ``OpenDevice.exchange`` provides the addresses of its arrays,
buffers for addresses of other libraries, and waiting between streams of both sides. Its profile then has the feature
``dlpack``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from .arrays import Block, DeviceArray, Storage

if TYPE_CHECKING:
    from .backend import Stream
    from .dtypes import DType


class Exchange(ABC):
    """The memory of one opened device for DLPack.

    Attributes:
        device: DLPack's device type (``dlpack.h``: 2 is CUDA, 4 OpenCL, ...) and number.
    """

    device: tuple[int, int]

    @abstractmethod
    def address(self, array: DeviceArray) -> int:
        """Return the address of an array's first element."""

    @abstractmethod
    def buffer(self, address: int, nbytes: int) -> Any:
        """Return the memory at an address as an argument of this backend's kernels."""

    def export(self, stream: Stream, consumer: int | None) -> None:
        """Make later work on the consumer's stream start after the work that ``stream`` has queued so far.

        Args:
            stream: The stream that computed the array.
            consumer: The consumer's stream in DLPack's numbering for this device type; None is its default stream.
                Never -1, by which a consumer declares that it synchronises itself.

        The default implementation waits on the host.
        """
        stream.synchronize()

    def number(self, stream: Stream) -> int | None:
        """Return the ``stream=`` argument for a producer, which makes work on ``stream`` start after the producer's.

        The result is None if this device type has no numbers for streams.
        """
        return None


class ForeignMemory:
    """Stand-in for the allocator of a block that another library owns.

    Args:
        owner: Object that keeps the memory alive; released when the last array on it is gone.
    """

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def free(self, block: Block) -> None:
        """Release the owner. It may reuse the memory at once, so this first waits for queued work that uses it."""
        for stream in (block.stream, *(block.streams or ())):
            stream.synchronize()
        self._owner = None


def foreign_array(exchange: Exchange, address: int, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...],
                  owner: Any, stream: Stream) -> DeviceArray:
    """Return an array at an address in another library's memory; strides count elements and are non-negative."""
    reach = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1 if 0 not in shape else 0
    nbytes = reach * dtype.itemsize
    block = Block(exchange.buffer(address, nbytes), nbytes, stream)
    return DeviceArray(Storage(block, ForeignMemory(owner)), dtype, shape, strides, 0)
