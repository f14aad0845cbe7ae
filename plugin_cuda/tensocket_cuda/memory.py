"""Device memory, and pinned host memory for copies."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .streams import CudaEvent

if TYPE_CHECKING:
    from .device import CudaDevice
    from .streams import CudaStream

#: The bytes of one piece of a copy, and the number of pieces in flight.
PIECE: Final = 4 << 20
PIECES: Final = 2


class RawMemory:
    """The driver's allocations. A buffer is its address, which kernels take.

    Args:
        device: The device that owns the memory.
    """

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._allocations: dict[int, Any] = {}

    def allocate(self, nbytes: int) -> int:
        """Allocate memory, and return its address.

        Raises:
            OutOfMemoryError: The device does not have enough free memory.
        """
        with self._device.current as driver:
            allocation = driver.mem_alloc(nbytes)
        address = int(allocation)
        self._allocations[address] = allocation
        return address

    def free(self, address: int) -> None:
        """Free memory after waiting for work that uses it. Does nothing once the device is closed."""
        allocation = self._allocations.pop(address, None)
        if allocation is not None:
            with self._device.current:
                allocation.free()

    def close(self) -> None:
        """Free all memory."""
        for address in list(self._allocations):
            self.free(address)


class Staging:
    """Copies between host and device through two pieces of pinned memory, so that copying and transfer overlap.

    Args:
        device: The device whose memory is copied.
    """

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._pieces: list[tuple[np.ndarray[Any, Any], CudaEvent]] = []

    def to_device(self, address: int, source: np.ndarray[Any, Any], stream: CudaStream) -> None:
        """Queue a copy of ``source`` (flat bytes); the caller may change it as soon as this returns."""
        with self._lock, self._device.current as driver:
            for start, (piece, event) in self._turns(source.size):
                part = source[start : start + PIECE]
                event.synchronize()
                piece[: part.size] = part
                driver.memcpy_htod_async(address + start, piece[: part.size], stream.handle)
                stream.record(event)

    def to_host(self, target: np.ndarray[Any, Any], address: int, stream: CudaStream) -> None:
        """Copy into ``target`` (flat bytes) after the work queued so far, and wait for the copy."""
        with self._lock, self._device.current as driver:
            queued: list[tuple[int, np.ndarray[Any, Any], CudaEvent]] = []
            for start, (piece, event) in self._turns(target.size):
                if len(queued) == PIECES:
                    self._finish(target, *queued.pop(0))
                event.synchronize()
                driver.memcpy_dtoh_async(piece[: min(PIECE, target.size - start)], address + start, stream.handle)
                stream.record(event)
                queued.append((start, piece, event))
            for item in queued:
                self._finish(target, *item)

    @staticmethod
    def _finish(target: np.ndarray[Any, Any], start: int, piece: np.ndarray[Any, Any], event: CudaEvent) -> None:
        event.synchronize()
        part = target[start : start + PIECE]
        part[...] = piece[: part.size]

    def _turns(self, nbytes: int) -> list[tuple[int, tuple[np.ndarray[Any, Any], CudaEvent]]]:
        """Return each piece's start and its pinned memory, which the first call allocates."""
        if not self._pieces:
            with self._device.current as driver:
                self._pieces = [(driver.pagelocked_empty(PIECE, np.uint8), CudaEvent(self._device))
                                for _ in range(PIECES)]
        return [(start, self._pieces[i % PIECES]) for i, start in enumerate(range(0, nbytes, PIECE))]

    def close(self) -> None:
        """Free the pinned memory."""
        with self._lock, self._device.current:
            self._pieces.clear()
