"""The CPU as an opened device: array handles are NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensocket_plugins.contract.backend import Allocator, OpenDevice, Stream
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.kernels import KernelTable
from tensocket_plugins.ir.target import Target
from tensocket_plugins.kit.host_kernels import register_host_kernels

from . import DESCRIPTOR
from .memory import HostAllocator
from .streams import CpuEvent, CpuStream


class CpuDevice(OpenDevice):
    """The host's memory and cores."""

    def __init__(self, index: int = 0) -> None:
        self.name = f"cpu:{index}"
        self.index = index
        self.profile = DESCRIPTOR.profile
        self.allocator: Allocator = HostAllocator()
        self.default_stream: Stream = CpuStream()
        self.target = Target(kind="cpu")
        self.kernels = KernelTable()
        register_host_kernels(self.kernels, limit=16384)

    def empty(self, shape: tuple[int, ...], dtype: DType, stream: Stream) -> Any:
        """An uninitialised C-contiguous array of ``dtype.numpy``."""
        return np.empty(shape, dtype.numpy)

    def copy(self, dst: Any, src: Any, stream: Stream) -> None:
        """Copy bytes between two contiguous arrays of equal size."""
        dst.reshape(-1).view(np.uint8)[...] = np.ascontiguousarray(src).reshape(-1).view(np.uint8)

    def synchronize(self) -> None:
        """Return at once: nothing is ever pending."""

    def create_stream(self, priority: int = 0) -> Stream:
        """A new stream."""
        return CpuStream()

    def create_event(self, *, timing: bool = False) -> CpuEvent:
        """A new event."""
        return CpuEvent(timing=timing)

    def data_ptr(self, array: Any) -> int:
        """The address of the first element."""
        return int(array.__array_interface__["data"][0])
