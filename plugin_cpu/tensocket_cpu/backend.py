"""The one CPU device: what it is, and opening it."""

from __future__ import annotations

import os
import platform

import numpy as np

from tensocket_plugins.contract.backend import Backend
from tensocket_plugins.contract.descriptor import DeviceInfo

from .device import CpuDevice


def _model() -> str:
    """Return the processor's name as the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith(("model name", "Hardware")):
                    return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine() or "CPU"


def _memory() -> int:
    """Bytes of physical memory; 0 where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


class CpuBackend(Backend):
    """The host itself; always available, with exactly one device."""

    def probe(self) -> None:
        """Do nothing: this backend needs nothing that could be missing."""

    def device_count(self) -> int:
        """Return 1."""
        return 1

    def device_info(self, index: int) -> DeviceInfo:
        """Return the processor, its memory and the NumPy that serves it."""
        return DeviceInfo(_model(), _memory(), f"NumPy {np.__version__}", {"cores": str(os.cpu_count() or 1)})

    def open(self, index: int) -> CpuDevice:
        """Open the device."""
        return CpuDevice(index)
