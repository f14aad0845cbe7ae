"""Sharing device memory with other libraries through DLPack: what a backend adds for it. Optional.

The runtime makes and reads capsules; a backend that sets ``OpenDevice.exchange`` says where its arrays are, how an
address of somebody else's becomes a buffer of its own, and how streams of both sides wait for each other. Its profile
then has the feature ``dlpack``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from .arrays import Block, DeviceArray, Storage

if TYPE_CHECKING:
    from .backend import Stream
    from .dtypes import DType


class Exchange(ABC):
    """The memory of one opened device, as DLPack sees it.

    Attributes:
        device: DLPack's device type (``dlpack.h``: 2 is CUDA, 4 OpenCL, ...) and number.
    """

    device: tuple[int, int]

    @abstractmethod
    def address(self, array: DeviceArray) -> int:
        """Address of an array's first element."""

    @abstractmethod
    def buffer(self, address: int, nbytes: int) -> Any:
        """Memory at an address as this backend's kernels take it."""

    def export(self, stream: Stream, consumer: int | None) -> None:
        """Make work that the consumer queues on its stream from now on start after what ``stream`` has queued so far.

        Args:
            stream: Where the array was computed.
            consumer: The consumer's stream as DLPack numbers those of this device type; None is its default stream.
                Never -1, with which a consumer says that it takes care itself.

        The general way, used unless overridden, is to wait on the host.
        """
        stream.synchronize()

    def number(self, stream: Stream) -> int | None:
        """Return the ``stream=`` argument for a producer, so that work queued on ``stream`` starts after the
        producer's; None where this device type has no numbers for streams.
        """
        return None


class ForeignMemory:
    """Stands for the allocator of a block that another library owns.

    Args:
        owner: Keeps the memory; let go when the last array on it is gone.
    """

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def free(self, block: Block) -> None:
        """Let the owner go. It may reuse the memory at once, so queued work that uses it is waited for first."""
        for stream in (block.stream, *(block.streams or ())):
            stream.synchronize()
        self._owner = None


def foreign_array(exchange: Exchange, address: int, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...],
                  owner: Any, stream: Stream) -> DeviceArray:
    """Return an array at an address of another library's memory; strides count elements and are not negative."""
    reach = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1 if 0 not in shape else 0
    nbytes = reach * dtype.itemsize
    block = Block(exchange.buffer(address, nbytes), nbytes, stream)
    return DeviceArray(Storage(block, ForeignMemory(owner)), dtype, shape, strides, 0)
