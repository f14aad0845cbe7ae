"""Builds OpenCL C: once per source and driver; the disk cache holds the driver's binary."""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyopencl as cl

from tensocket_plugins.contract.errors import KernelError
from tensocket_plugins.kit.disk_cache import BuildStats, DiskCache

from .locks import build_lock, needs_lock

_LOG_LINES: Final = 8


class LaunchKernel:
    """A built kernel with its argument setters. Launches take turns, because they share OpenCL's argument slots."""

    __slots__ = ("_handle", "_lock", "_setters")

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._lock = threading.Lock()
        self._setters: list[Callable[[int, Any], None]] = []

    def launch(self, queue: Any, size: tuple[int, ...], group: tuple[int, ...], args: Sequence[Any]) -> Any:
        """Queue the kernel over ``size`` work-items, and return OpenCL's event."""
        with self._lock:
            setters = self._setters or self._prepare(args)
            for index, arg in enumerate(args):
                setters[index](index, arg)
            return cl.enqueue_nd_range_kernel(queue, self._handle, size, group)

    def _prepare(self, args: Sequence[Any]) -> list[Callable[[int, Any], None]]:
        """Return a setter for each argument: the public ``set_arg`` tries all kinds of objects before a number."""
        by_value = getattr(self._handle, "_set_arg_buf", self._handle.set_arg)
        self._setters = [by_value if isinstance(arg, np.generic) else self._handle.set_arg for arg in args]
        return self._setters


class Compiler:
    """The builder of sources for one device.

    Args:
        context: The device's context.
        device: The device.
        name: The device's name in messages, such as ``opencl:0``.
        cache: The disk cache of binaries.
    """

    def __init__(self, context: Any, device: Any, name: str, cache: DiskCache) -> None:
        self._context = context
        self._device = device
        self._name = name
        self._cache = cache
        self._lock = threading.Lock()
        self._locked = needs_lock(device)
        self.stats = BuildStats()
        # Every driver has OpenCL C 1.2; the built-ins of the newest version take a tenth longer to parse.
        # Nobody reads warnings about generated sources (-w).
        options = ["-cl-std=CL1.2", "-w"]
        if device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT:
            options.append("-cl-fp32-correctly-rounded-divide-sqrt")
        self._options = " ".join(options)
        # PoCL compiles for the machine's own processor, which its device names may not identify exactly.
        self._driver = "\n".join((device.platform.name, device.platform.version, device.vendor, device.name,
                                  device.version, device.driver_version, platform.machine(), platform.processor()))

    def compile(self, source: str, names: Sequence[str]) -> dict[str, LaunchKernel]:
        """Return the kernels of a source by name.

        Raises:
            KernelError: The source does not build; the message has the first lines of the build log.
        """
        key = DiskCache.key(source, self._options, self._driver)
        with self._lock:
            start = time.perf_counter()
            program = self._load(self._cache.get(key))
            if program is not None:
                self.stats.cache_hits += len(names)
            else:
                with build_lock(self._locked):
                    program = self._build(source, names)
                    binary = program.get_info(cl.program_info.BINARIES)[0]
                    # PoCL finishes its binary only now; loading it back saves a second compilation at the first launch.
                    ready = self._load(binary)
                if ready is not None:
                    self._cache.put(key, binary)
                    program = ready
            kernels = {name: LaunchKernel(cl.Kernel(program, name)) for name in names}
            self.stats.kernels += len(names)
            self.stats.seconds += time.perf_counter() - start
        return kernels

    # pyopencl's public Program has its own cache in the user's home and turns any build log into a Python warning;
    # the class beneath it does neither.

    def _load(self, binary: bytes | None) -> Any:
        """Return a program from a binary; None without a binary or if the driver rejects it."""
        if not binary:
            return None
        try:
            program = cl._cl._Program(self._context, [self._device], [binary])
            program._build(self._options.encode(), [self._device])
        except cl.Error:
            return None
        return program

    def _build(self, source: str, names: Sequence[str]) -> Any:
        program = cl._cl._Program(self._context, source)
        try:
            program._build(self._options.encode(), [self._device])
        except cl.Error as error:
            raise KernelError("compile", f"kernel {', '.join(names)} for {self._name}: {error}; {self._log(program)}",
                              "generated source must build", "report this with the name of the driver") from error
        return program

    def _log(self, program: Any) -> str:
        """Return the first informative lines of the build log."""
        try:
            log = program.get_build_info(self._device, cl.program_build_info.LOG)
        except cl.Error as error:
            return f"the build log cannot be read ({error})"
        lines = [line.strip() for line in log.splitlines() if line.strip()]
        return " | ".join(lines[:_LOG_LINES]) or "the build log is empty"


def check_compiler(compile_source: Callable[[str, Sequence[str]], Mapping[str, Any]]) -> None:
    """Build a trivial kernel.

    Raises:
        KernelError: The kernel does not build.
    """
    compile_source("__kernel void ts_check(__global int *a) { a[get_global_id(0)] = 1; }", ["ts_check"])
