"""DLPack for CUDA: buffers are addresses, and streams wait for each other on the device."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

from tensocket_plugins.contract.arrays import DeviceArray
from tensocket_plugins.contract.backend import Stream
from tensocket_plugins.contract.errors import ArgumentError, KernelError
from tensocket_plugins.contract.exchange import Exchange

from .streams import CudaStream

if TYPE_CHECKING:
    from .device import CudaDevice

#: ``kDLCUDA`` of ``dlpack.h``.
DEVICE_TYPE: Final = 2
#: The driver's handles of the default stream that all threads share, and of the one of each thread. DLPack has the same
#: numbers, 1 and 2; its None is the first.
_LEGACY: Final = 1
_DISABLE_TIMING: Final = 2


class CudaExchange(Exchange):
    """The DLPack exchange of one GPU's memory.

    Args:
        device: The opened device.
    """

    def __init__(self, device: CudaDevice) -> None:
        self.device = (DEVICE_TYPE, device.index)
        self._device = device

    def address(self, array: DeviceArray) -> int:
        """Return the address of an array's first element."""
        return self._device.address(array)

    def buffer(self, address: int, nbytes: int) -> int:
        """Return the address itself: buffers are addresses."""
        return address

    def number(self, stream: Stream) -> int:
        """Return the driver's handle of a stream."""
        assert isinstance(stream, CudaStream), "work of this device is queued on its streams"
        return stream.pointer

    def export(self, stream: Stream, consumer: int | None) -> None:
        """Make the consumer's stream wait for an event on ``stream``; the host does not wait.

        pycuda has no objects for other libraries' streams, so this calls the driver's own functions.

        Raises:
            ArgumentError: ``consumer`` is 0, which could mean either default stream.
            KernelError: The driver returns an error.
        """
        if consumer == 0:
            raise ArgumentError("__dlpack__", "stream=0", "0 could mean two streams of CUDA",
                                "pass 1 for the default stream of all threads, 2 for that of each thread")
        handle = _LEGACY if consumer is None else consumer
        driver = ctypes.CDLL("libcuda.so.1")
        event = ctypes.c_void_p()
        with self._device.current:
            self._check(driver.cuEventCreate(ctypes.byref(event), ctypes.c_uint(_DISABLE_TIMING)))
            try:
                self._check(driver.cuEventRecord(event, ctypes.c_void_p(self.number(stream))))
                self._check(driver.cuStreamWaitEvent(ctypes.c_void_p(handle), event, ctypes.c_uint(0)))
            finally:
                # The driver keeps the queued work; only the handle goes.
                driver.cuEventDestroy_v2(event)

    def _check(self, status: Any) -> None:
        if status:
            raise KernelError("__dlpack__", f"streams of {self._device.name}", f"the driver reports error {status}",
                              "pass the number of a stream of this device that exists")
