"""OpenCL devices: the probe for drivers, and opening a device."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tensocket_plugins.contract.backend import Backend, Unavailable
from tensocket_plugins.contract.descriptor import DeviceInfo

from . import listing

if TYPE_CHECKING:
    from .device import OpenCLDevice

DRIVER_ADVICE: Final = ("install an OpenCL driver: your GPU vendor's, or PoCL for the CPU "
                        "(Debian and Ubuntu: apt-get install pocl-opencl-icd)")
#: The seconds after which a driver that does not answer counts as broken.
_PATIENCE: Final = 20
_GPU: Final = 4
_ACCELERATOR: Final = 8


@dataclass(frozen=True)
class _Found:
    """A usable device: its index among the platforms and their devices, and its driver's description."""

    platform: int
    position: int
    platform_name: str
    facts: dict[str, Any]


class OpenCLBackend(Backend):
    """All devices of all installed OpenCL platforms, GPUs first."""

    def __init__(self) -> None:
        self._devices: list[_Found] = []

    def probe(self) -> None:
        """List the devices of the installed drivers in a separate process, without creating a context.

        Raises:
            Unavailable: pyopencl, a driver or a device is missing.
        """
        pyopencl = _import_pyopencl()
        self._devices = _usable(_platforms(pyopencl._cl.__file__))

    def device_count(self) -> int:
        """Return the number of devices."""
        return len(self._found())

    def device_info(self, index: int) -> DeviceInfo:
        """Return the driver's description of a device."""
        device = self._found()[index]
        details = {key: str(device.facts[key]) for key in ("version", "compute_units", "local_memory")}
        return DeviceInfo(device.facts["name"], device.facts["memory"],
                          f"{device.platform_name} {device.facts['driver']}", details)

    def open(self, index: int) -> OpenCLDevice:
        """Create a context for a device, and check that its driver can compile.

        Raises:
            BackendUnavailable: The driver fails at either.
        """
        from .device import OpenCLDevice

        device = self._found()[index]
        return OpenCLDevice(index, import_module("pyopencl").get_platforms()[device.platform].get_devices()[
            device.position])

    def _found(self) -> list[_Found]:
        if not self._devices:
            self.probe()
        return self._devices


def _import_pyopencl() -> Any:
    try:
        return import_module("pyopencl")
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "pyopencl"
        reason = "the Python package pyopencl is not installed" if missing else f"pyopencl cannot be loaded: {error}"
        raise Unavailable(reason, "pip install pyopencl" if missing else DRIVER_ADVICE) from error


def _platforms(extension: str) -> list[dict[str, Any]]:
    """Return the devices that ``listing`` finds, platform by platform."""
    # Isolated and without site packages, Python starts in a few milliseconds.
    command = [sys.executable, "-I", "-S", listing.__file__, extension]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"the installed OpenCL drivers do not list their devices within {_PATIENCE} s",
                          "find the driver that hangs with clinfo, and remove it") from error
    platforms = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode and not any(platform["devices"] for platform in platforms):
        said = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise Unavailable(f"listing OpenCL devices ended with code {done.returncode}: {said[0]}",
                          "find the driver that fails with clinfo, and remove it")
    return platforms


def _usable(platforms: list[dict[str, Any]]) -> list[_Found]:
    """Return the usable devices: GPUs, then accelerators, then CPUs, each in the drivers' order."""
    if not platforms:
        raise Unavailable("no OpenCL driver (ICD) is installed", DRIVER_ADVICE)
    devices: list[_Found] = []
    problems: list[str] = []
    for number, platform in enumerate(platforms):
        problems += [f"{platform['name']}: {platform['problem']}"] if "problem" in platform else []
        for position, facts in enumerate(platform["devices"]):
            if facts["available"] and facts["compiler"]:
                devices.append(_Found(number, position, platform["name"], facts))
            else:
                lacks = "compiler" if facts["available"] else "connection"
                problems.append(f"{platform['name']}: {facts['name']} has no {lacks}")
    if not devices:
        names = ", ".join(platform["name"] for platform in platforms)
        found = f"; {'; '.join(problems)}" if problems else ""
        raise Unavailable(f"the installed OpenCL drivers ({names}) offer no usable device{found}", DRIVER_ADVICE)
    return sorted(devices, key=lambda d: 0 if d.facts["type"] & _GPU else 1 if d.facts["type"] & _ACCELERATOR else 2)
