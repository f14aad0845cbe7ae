"""An opened NVIDIA device: primary context, memory, streams and kernels."""

from __future__ import annotations

import ctypes
import os
import struct
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.arrays import Array, DeviceArray
from tensocket_plugins.contract.backend import Stream
from tensocket_plugins.contract.errors import KernelError, OutOfMemoryError
from tensocket_plugins.contract.kernels import KernelTable
from tensocket_plugins.ir.printers.dialect import CUDA
from tensocket_plugins.ir.target import Target
from tensocket_plugins.kit.allocator import CachingAllocator
from tensocket_plugins.kit.cfamily import CFamilyDevice
from tensocket_plugins.kit.disk_cache import BuildStats, DiskCache, default_directory

from . import DESCRIPTOR
from .compiler import Compiler, choose_architecture, supported_architectures
from .exchange import CudaExchange
from .library import register_cublas
from .memory import RawMemory, Staging
from .streams import CudaEvent, CudaStream, Spare, forked

#: The bytes of local memory that a kernel may use without a request to the driver.
_LOCAL_BYTES: Final = 48 << 10


class _Held(threading.local):
    """The uses of contexts in a thread that have not ended, innermost last."""

    def __init__(self) -> None:
        self.uses: list[Current] = []


_HELD: Final = _Held()


class Current:
    """A context manager that makes a device's context current in the calling thread and translates driver errors.

    pycuda keeps a stack of contexts per thread and aborts the process if a thread ends with a context on it, so every
    use pushes and pops, except within a use of the same context.

    Attributes:
        forked: Whether this is a forked child of the process that opened the device, where CUDA does not work.
    """

    __slots__ = ("_context", "_driver", "_name", "forked")

    def __init__(self, driver: Any, context: Any, name: str) -> None:
        self._driver = driver
        self._context = context
        self._name = name
        self.forked = False

    def __enter__(self) -> Any:
        if self.forked:
            raise forked(self._name)
        uses = _HELD.uses
        if not uses or uses[-1] is not self:
            self._context.push()
        uses.append(self)
        return self._driver

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        uses = _HELD.uses
        uses.pop()
        if not uses or uses[-1] is not self:
            self._context.pop()
        if isinstance(error, self._driver.MemoryError):
            raise OutOfMemoryError("cuda", f"work on {self._name}", f"the driver reports: {error}", "delete tensors "
                                   "that are no longer needed, or use smaller ones") from error
        if isinstance(error, self._driver.Error):
            raise KernelError("cuda", f"work on {self._name}", f"the driver reports: {error}", "a kernel's error may "
                              "show at a later call; after one the process has to be restarted") from error

    def detach(self) -> None:
        """Release the context; pycuda's own finalizer would treat the primary context as one that pycuda created."""
        self._context.push()
        self._context.detach()


class CudaKernel:
    """A loaded kernel. Arguments are packed as C lays them out; their types are those of the first launch.

    Attributes:
        function: pycuda's function.
        pack: Packs arguments; None before the first launch.
        module: Keeps the code loaded.
    """

    __slots__ = ("__weakref__", "function", "module", "pack")

    def __init__(self, module: Any, function: Any) -> None:
        self.module = module
        self.function = function
        self.pack: Any = None


def argument_format(args: Sequence[Any]) -> str:
    """Return the ``struct`` format of arguments: addresses are ints, scalars are NumPy's.

    >>> argument_format([4096, np.int64(0), np.float32(1.5), np.uint8(1)])
    'PqfB'
    """
    codes = {"i": {1: "b", 2: "h", 4: "i", 8: "q"}, "u": {1: "B", 2: "H", 4: "I", 8: "Q"}, "f": {4: "f", 8: "d"}}
    return "".join(codes[arg.dtype.kind][arg.dtype.itemsize] if isinstance(arg, np.generic) else "P" for arg in args)


class CudaDevice(CFamilyDevice):
    """One GPU.

    Args:
        index: Position among the driver's devices.
        driver: ``pycuda.driver``, initialised.
    """

    dialect = CUDA

    def __init__(self, index: int, driver: Any) -> None:
        self.name = f"cuda:{index}"
        self.index = index
        self.profile = DESCRIPTOR.profile
        handle = driver.Device(index)
        attribute = driver.device_attribute
        self.current = Current(driver, handle.retain_primary_context(), self.name)
        self.target = Target(
            kind="simt", group_size=256, max_group_size=1024, local_bytes=_LOCAL_BYTES,
            parallelism=4 * int(handle.get_attribute(attribute.MULTIPROCESSOR_COUNT)))
        self.spare = Spare()
        self._raw = RawMemory(self)
        self._staging = Staging(self)
        self.allocator: CachingAllocator = CachingAllocator(
            self._raw.allocate, self._raw.free, device_name=self.name, alignment=DESCRIPTOR.profile.limits.alignment,
            record_event=self._mark, out_of_memory=(OutOfMemoryError, MemoryError))
        self.default_stream: Stream = CudaStream(self)
        self._capability = tuple(handle.compute_capability())
        self._compiler: Compiler | None = None
        self._lock = threading.Lock()
        self._closed = False
        self.kernels = KernelTable()
        self.library = register_cublas(self)
        self.exchange = CudaExchange(self)
        self._loaded: weakref.WeakSet[CudaKernel] = weakref.WeakSet()
        _DEVICES.add(self)

    def _mark(self, stream: Stream) -> CudaEvent:
        event = CudaEvent(self)
        stream.record(event)
        return event

    # -------------------------------------------------------------------------------------------------- kernels

    @property
    def compiler(self) -> Compiler:
        """NVRTC for this device."""
        with self._lock:
            if self._compiler is None:
                major, minor = self._capability
                self._compiler = Compiler(choose_architecture((major, minor), supported_architectures()),
                                          DiskCache(default_directory("cuda")))
        return self._compiler

    @property
    def build_stats(self) -> BuildStats:
        """The number of compiled programs, the time that took, and the number from the disk cache."""
        return self.compiler.stats

    def compile_source(self, source: str, names: Sequence[str]) -> Mapping[str, CudaKernel]:
        """Compile a source with NVRTC, and load its kernels.

        Raises:
            KernelError: The source does not compile, or the driver does not load the code.
            OutOfMemoryError: The device has no memory for the code.
        """
        code = self.compiler.compile(source)
        with self.current as driver:
            module = driver.module_from_buffer(code)
            kernels = {name: CudaKernel(module, module.get_function(name)) for name in names}
        self._loaded.update(kernels.values())
        return kernels

    def launch(self, kernel: CudaKernel, grid: tuple[int, ...], group: tuple[int, ...], args: Sequence[Any],
               stream: Stream) -> None:
        """Queue a kernel.

        Raises:
            KernelError: The driver refuses the launch, or reports an error of earlier work.
        """
        if kernel.pack is None:
            kernel.pack = struct.Struct(argument_format(args)).pack
        with self.current:
            kernel.function._launch_kernel(grid, group, kernel.pack(*args), 0, stream.handle)  # type: ignore[attr-defined]

    # --------------------------------------------------------------------------------------------------- memory

    def address(self, array: DeviceArray) -> int:
        """Return the address of an array's first element."""
        return int(array.storage.block.buffer) + array.offset * array.dtype.itemsize

    def copy(self, dst: Array, src: Array, stream: Stream) -> None:
        """Copy between contiguous arrays of equal size; see the contract."""
        if not dst.size:
            return
        if not isinstance(stream, CudaStream):
            raise TypeError(f"a CUDA copy runs on a CudaStream, not a {type(stream).__name__}")
        if isinstance(dst, np.ndarray):
            self._staging.to_host(dst.reshape(-1).view(np.uint8), self.address(src), stream)
        elif isinstance(src, np.ndarray):
            self._staging.to_device(self.address(dst), src.reshape(-1).view(np.uint8), stream)
        else:
            with self.current as driver:
                driver.memcpy_dtod_async(self.address(dst), self.address(src), dst.nbytes, stream.handle)

    def data_ptr(self, array: DeviceArray) -> int:
        """Return the address of an array's first element."""
        return self.address(array)

    # --------------------------------------------------------------------------------------------------- queues

    def synchronize(self) -> None:
        """Block until all work on this device is done.

        Raises:
            KernelError: Work failed.
        """
        with self.current as driver:
            driver.Context.synchronize()

    def create_stream(self, priority: int = 0) -> CudaStream:
        """Return a new stream; pycuda has no priorities."""
        return CudaStream(self)

    def create_event(self, *, timing: bool = False) -> CudaEvent:
        """Return a new event."""
        return CudaEvent(self, timing=timing)

    def close(self) -> None:
        """Release all resources of the device, the context last."""
        if self._closed or self.current.forked:
            return
        self._closed = True
        if self.library is not None:
            self.library.close()
        self._staging.close()
        self._raw.close()
        with self.current:
            self.spare.clear()
        self.current.detach()

    def abandon(self) -> None:
        """Refuse all work from now on, in a forked child, where no object of the driver may be destroyed."""
        self.current.forked = True
        for held in (self, *self._loaded):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))


_DEVICES: Final[weakref.WeakSet[CudaDevice]] = weakref.WeakSet()


def _abandon_all() -> None:
    for device in list(_DEVICES):
        device.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)
