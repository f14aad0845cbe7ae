"""Compiles CUDA C++ to machine code by NVRTC, which needs no driver, with a cache on disk."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from cuda.bindings import nvrtc

from tensocket_plugins.contract.errors import KernelError
from tensocket_plugins.kit.disk_cache import BuildStats, DiskCache

#: No contraction of a product and a sum: float32 results are the same bits on every device.
OPTIONS: Final = ("--fmad=false", "--std=c++17")


def _check(result: tuple[Any, ...]) -> Any:
    """Return the results of an NVRTC function without its status.

    Raises:
        RuntimeError: The status is an error.
    """
    status, *values = result
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise RuntimeError(f"NVRTC: {status.name}")
    return values[0] if len(values) == 1 else tuple(values)


def version() -> tuple[int, int]:
    """Load the NVRTC library, and return its version.

    Raises:
        RuntimeError: The library is missing or does not work.
    """
    major, minor = _check(nvrtc.nvrtcVersion())
    return int(major), int(minor)


def supported_architectures() -> tuple[int, ...]:
    """Return the compute capabilities that NVRTC compiles for, such as ``90``, ascending."""
    return tuple(sorted(_check(nvrtc.nvrtcGetSupportedArchs())))


def choose_architecture(capability: tuple[int, int], supported: Sequence[int]) -> str:
    """Return the architecture to compile for, such as ``sm_90``.

    For a device that is newer than NVRTC, it is ``compute_`` and the newest capability that NVRTC knows.

    Raises:
        KernelError: The device is older than any that NVRTC supports.
    """
    wanted = capability[0] * 10 + capability[1]
    if wanted in supported:
        return f"sm_{wanted}"
    older = [known for known in supported if known < wanted]
    if not older:
        raise KernelError("compile", f"a device of compute capability {capability[0]}.{capability[1]}",
                          f"NVRTC {'.'.join(map(str, version()))} compiles for {supported[0] / 10} and newer",
                          "install an older nvidia-cuda-nvrtc, or use another device")
    return f"compute_{older[-1]}"


class Compiler:
    """NVRTC for one kind of device.

    Args:
        architecture: ``sm_90`` for machine code, ``compute_90`` for PTX, which the driver compiles.
        cache: The disk cache of compiled code.
    """

    def __init__(self, architecture: str, cache: DiskCache) -> None:
        self.architecture = architecture
        self.stats = BuildStats()
        self._cache = cache
        self._version = ".".join(map(str, version()))

    def compile(self, source: str) -> bytes:
        """Return the machine code (or PTX) of a source.

        Raises:
            KernelError: The source does not compile; the message has NVRTC's log.
        """
        start = time.perf_counter()
        key = DiskCache.key(source, self.architecture, self._version, *OPTIONS)
        code = self._cache.get(key)
        if code is None:
            code = build(source, self.architecture)
            self._cache.put(key, code)
        else:
            self.stats.cache_hits += 1
        self.stats.kernels += 1
        self.stats.seconds += time.perf_counter() - start
        return code


def build(source: str, architecture: str) -> bytes:
    """Compile a source without a cache.

    Raises:
        KernelError: The source does not compile; the message has NVRTC's log.
    """
    program = _check(nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], []))
    try:
        options = [option.encode() for option in (f"--gpu-architecture={architecture}", *OPTIONS)]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = b"\0" * _check(nvrtc.nvrtcGetProgramLogSize(program))
            _check((*nvrtc.nvrtcGetProgramLog(program, log), None))
            text = log.decode(errors="replace").strip("\0\n ")
            raise KernelError("compile", f"a kernel for {architecture}", f"NVRTC rejects it: {text}",
                              "report this as a bug of the kernel's printer")
        binary = architecture.startswith("sm_")
        size = _check(nvrtc.nvrtcGetCUBINSize(program) if binary else nvrtc.nvrtcGetPTXSize(program))
        code: bytes = b"\0" * size
        _check((*(nvrtc.nvrtcGetCUBIN(program, code) if binary else nvrtc.nvrtcGetPTX(program, code)), None))
        return code
    finally:
        nvrtc.nvrtcDestroyProgram(program)
