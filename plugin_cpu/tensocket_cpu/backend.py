"""The CPU backend: the description of its one device, and opening it."""

from __future__ import annotations

import os
import platform

import numpy as np

from tensocket_plugins.contract.backend import Backend
from tensocket_plugins.contract.descriptor import DeviceInfo

from .device import CpuDevice


def _model() -> str:
    """Return the processor's name as the system reports it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith(("model name", "Hardware")):
                    return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine() or "CPU"


def _memory() -> int:
    """Return the bytes of physical memory; 0 if the system does not report them."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


class CpuBackend(Backend):
    """The host as a backend; always available, with exactly one device."""

    def probe(self) -> None:
        """Do nothing: nothing that this backend needs can be missing."""

    def device_count(self) -> int:
        """Return 1."""
        return 1

    def device_info(self, index: int) -> DeviceInfo:
        """Return the processor's name, its memory and the version of NumPy."""
        return DeviceInfo(_model(), _memory(), f"NumPy {np.__version__}", {"cores": str(os.cpu_count() or 1)})

    def open(self, index: int) -> CpuDevice:
        """Open the device."""
        return CpuDevice(index)
