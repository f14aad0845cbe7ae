"""An opened OpenCL device: one context, in-order queues, pooled buffers, kernels printed as OpenCL C."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyopencl as cl

from tensocket_plugins.contract.arrays import Array
from tensocket_plugins.contract.backend import Event, Stream
from tensocket_plugins.contract.descriptor import Limits, Profile
from tensocket_plugins.contract.errors import BackendUnavailable, KernelError
from tensocket_plugins.contract.kernels import KernelTable
from tensocket_plugins.ir.printers.dialect import OPENCL
from tensocket_plugins.ir.target import Target
from tensocket_plugins.kit.allocator import CachingAllocator
from tensocket_plugins.kit.cfamily import CFamilyDevice
from tensocket_plugins.kit.disk_cache import BuildStats, DiskCache, default_directory

from . import DESCRIPTOR
from .compiler import Compiler, LaunchKernel, check_compiler
from .streams import OpenCLEvent, OpenCLStream, forked, guarded, translated

#: Host data of up to this many bytes is copied first, so that the caller need not wait for work queued before.
STAGED_BYTES: Final = 1 << 20


class OpenCLDevice(CFamilyDevice):
    """One OpenCL device.

    Args:
        index: Position among the backend's devices.
        handle: pyopencl's device.

    Raises:
        BackendUnavailable: The driver cannot create a context or build a kernel.
    """

    dialect = OPENCL

    def __init__(self, index: int, handle: Any) -> None:
        self.name = f"opencl:{index}"
        self.index = index
        self._handle = handle
        self.profile = _narrowed(handle)
        self.target = _target(handle)
        self.kernels = KernelTable()
        self._streams: weakref.WeakSet[OpenCLStream] = weakref.WeakSet()
        self._forked = False
        try:
            self._context = cl.Context([handle])
            self._compiler = Compiler(self._context, handle, self.name, DiskCache(default_directory("opencl")))
            check_compiler(self._compiler.compile)
            self.default_stream: Stream = self.create_stream()
        except (cl.Error, KernelError) as error:
            raise BackendUnavailable(
                "device", f"device '{self.name}' ({handle.name.strip()}, {handle.platform.name.strip()})",
                f"its driver must be able to run kernels, but: {error}",
                "choose another OpenCL device, or install another driver for this one") from error
        self._compiler.stats = BuildStats()
        _DEVICES.add(self)
        self._max_bytes = int(handle.max_mem_alloc_size)
        self.allocator = CachingAllocator(
            self._allocate, _release, device_name=self.name, alignment=256, capacity=int(handle.global_mem_size),
            record_event=self._record, out_of_memory=(MemoryError,))

    @property
    def build_stats(self) -> BuildStats:
        """The number of built kernels, the time that took, and the number from the disk cache."""
        return self._compiler.stats

    # ------------------------------------------------------------------------------------------------------ memory

    def _allocate(self, nbytes: int) -> Any:
        # Drivers that allocate lazily take any size and fail at the first use.
        if nbytes > self._max_bytes:
            raise MemoryError
        try:
            return cl.Buffer(self._context, cl.mem_flags.READ_WRITE, nbytes)
        except cl.Error as error:
            raise MemoryError from error

    def copy(self, dst: Array, src: Array, stream: Stream) -> None:
        """Copy between contiguous arrays of equal dtype and size; see ``OpenDevice.copy``.

        Raises:
            OutOfMemoryError: The driver has no memory for the copy.
            KernelError: Work queued before the copy failed.
        """
        assert isinstance(stream, OpenCLStream)
        if dst.size == 0:
            return
        if isinstance(dst, np.ndarray):
            guarded("copy", self.name, lambda: self._to_host(dst, src, stream))
        elif isinstance(src, np.ndarray):
            guarded("copy", self.name, lambda: self._from_host(dst, src, stream))
        else:
            guarded("copy", self.name, lambda: self._within(dst, src, stream))

    def _to_host(self, dst: np.ndarray[Any, Any], src: Array, stream: OpenCLStream) -> None:
        cl.enqueue_copy(stream.queue, dst, src.storage.buffer, src_offset=_byte_offset(src), is_blocking=True)
        stream.last = None

    def _from_host(self, dst: Array, src: np.ndarray[Any, Any], stream: OpenCLStream) -> None:
        if src.nbytes <= STAGED_BYTES:
            stream.stage(dst.storage.buffer, src.copy(), _byte_offset(dst))
            return
        cl.enqueue_copy(stream.queue, dst.storage.buffer, src, dst_offset=_byte_offset(dst), is_blocking=True)
        stream.last = None

    def _within(self, dst: Array, src: Array, stream: OpenCLStream) -> None:
        begin, to, nbytes = _byte_offset(src), _byte_offset(dst), src.nbytes
        source, target = src.storage.buffer, dst.storage.buffer
        if source is not target or abs(begin - to) >= nbytes:
            stream.last = cl.enqueue_copy(stream.queue, target, source, src_offset=begin, dst_offset=to,
                                          byte_count=nbytes)
        elif begin != to:  # OpenCL refuses overlapping copies
            aside = self.allocator.allocate(nbytes, stream)
            cl.enqueue_copy(stream.queue, aside.buffer, source, src_offset=begin, byte_count=nbytes)
            stream.last = cl.enqueue_copy(stream.queue, target, aside.buffer, dst_offset=to, byte_count=nbytes)
            self.allocator.free(aside)

    # ----------------------------------------------------------------------------------------------------- kernels

    def compile_source(self, source: str, names: Sequence[str]) -> Mapping[str, LaunchKernel]:
        """Build OpenCL C, or load its binary from the disk cache.

        Raises:
            KernelError: The source does not build; the message has the first lines of the build log.
            BackendUnavailable: This is a forked child of the process that opened the device.
        """
        if self._forked:
            raise forked(self.name)
        return self._compiler.compile(source, names)

    def launch(self, kernel: LaunchKernel, grid: tuple[int, ...], group: tuple[int, ...], args: Sequence[Any],
               stream: Any) -> None:
        """Queue a kernel.

        Raises:
            OutOfMemoryError: The driver has no memory for the launch.
            KernelError: The driver refuses the launch.
        """
        size = (grid[0] * group[0],) if len(grid) == 1 else tuple(g * n for g, n in zip(grid, group, strict=True))
        try:
            stream.last = kernel.launch(stream.queue, size, group, args)
        except cl.Error as error:
            raise translated(error, "launch", self.name) from error

    # ----------------------------------------------------------------------------------------- streams and events

    def create_stream(self, priority: int = 0) -> OpenCLStream:
        """Return a new in-order queue; OpenCL has no priorities."""
        if self._forked:
            raise forked(self.name)
        stream = OpenCLStream(self._context, self.name)
        self._streams.add(stream)
        return stream

    def create_event(self, *, timing: bool = False) -> OpenCLEvent:
        """Return a new event."""
        return OpenCLEvent(self.name, timing=timing)

    def _record(self, stream: Stream) -> Event:
        event = self.create_event()
        stream.record(event)
        return event

    def synchronize(self) -> None:
        """Block until all streams are idle.

        Raises:
            KernelError: Queued work failed.
        """
        for stream in list(self._streams):
            stream.synchronize()

    def close(self) -> None:
        """Wait for queued work, so that no queue is destroyed while its work runs."""
        if not self._forked:
            self.synchronize()

    def abandon(self) -> None:
        """Refuse all work from now on, in a forked child."""
        self._forked = True
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._context))
        for stream in list(self._streams):
            stream.abandon()


def _abandon_all() -> None:
    for device in list(_DEVICES):
        device.abandon()


_DEVICES: Final[weakref.WeakSet[OpenCLDevice]] = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)


def _release(buffer: Any) -> None:
    """Release a buffer; OpenCL frees its memory once queued work no longer uses it."""
    buffer.release()


def _byte_offset(array: Array) -> int:
    return int(array.offset * array.dtype.itemsize)


def _narrowed(handle: Any) -> Profile:
    """Return the backend's profile without the features that this device lacks."""
    profile = DESCRIPTOR.profile
    limits = Limits(max_bytes=int(handle.max_mem_alloc_size), alignment=max(1, int(handle.mem_base_addr_align) // 8))
    if not _has_float64(handle):
        profile = replace(profile, dtypes=profile.dtypes - {"float64"}, features=profile.features - {"fp64"})
    return replace(profile, limits=limits)


def _has_float64(handle: Any) -> bool:
    return "cl_khr_fp64" in handle.extensions.split() or bool(handle.double_fp_config)


def _target(handle: Any) -> Target:
    """Return the limits for schedules. On a CPU, long groups amortise the cost of starting a group."""
    units, cpu = int(handle.max_compute_units), bool(handle.type & cl.device_type.CPU)
    largest = min(int(handle.max_work_group_size), int(handle.max_work_item_sizes[0]))
    return Target(
        kind="simt",
        group_size=min(largest, 256 if cpu else 128),
        max_group_size=1 << (largest.bit_length() - 1),
        local_bytes=int(handle.local_mem_size),
        parallelism=max(8, 4 * units) if cpu else max(64, 4 * units),
        sequential=cpu,
        float64=_has_float64(handle),
    )
