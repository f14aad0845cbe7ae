"""Finding OpenCL devices, and opening them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tensocket_plugins.contract.backend import Backend, Unavailable
from tensocket_plugins.contract.descriptor import DeviceInfo

if TYPE_CHECKING:
    from .device import OpenCLDevice

DRIVER_ADVICE = ("install an OpenCL driver: your GPU vendor's, or PoCL for the CPU "
                 "(Debian and Ubuntu: apt-get install pocl-opencl-icd)")


class OpenCLBackend(Backend):
    """All devices of all installed OpenCL platforms, graphics processors first."""

    def __init__(self) -> None:
        self._devices: list[Any] = []

    def probe(self) -> None:
        """Ask the installed drivers for devices; makes no context.

        Raises:
            Unavailable: pyopencl, a driver or a device is missing.
        """
        self._devices = _find_devices(_import_pyopencl())

    def device_count(self) -> int:
        """Number of devices."""
        return len(self._found())

    def device_info(self, index: int) -> DeviceInfo:
        """What the driver says of a device."""
        device = self._found()[index]
        return DeviceInfo(device.name.strip(), int(device.global_mem_size),
                          f"{device.platform.name.strip()} {device.driver_version.strip()}", {
                              "version": device.version.strip(),
                              "compute_units": str(device.max_compute_units),
                              "local_memory": str(device.local_mem_size),
                          })

    def open(self, index: int) -> OpenCLDevice:
        """Make a context for a device, and see that its driver can compile.

        Raises:
            BackendUnavailable: It cannot.
        """
        from .device import OpenCLDevice

        return OpenCLDevice(index, self._found()[index])

    def _found(self) -> list[Any]:
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


def _find_devices(cl: Any) -> list[Any]:
    """Usable devices: GPUs, then accelerators, then processors, each in the drivers' order."""
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:  # an ICD loader without any driver reports an error instead of an empty list
        raise Unavailable(f"no OpenCL driver is installed ({error})", DRIVER_ADVICE) from error
    devices: list[Any] = []
    problems: list[str] = []
    for platform in platforms:
        try:
            offered = platform.get_devices()
        except cl.Error as error:
            problems.append(f"{platform.name.strip()}: {error}")
            continue
        for device in offered:
            if device.available and device.compiler_available:
                devices.append(device)
            else:
                lacks = "compiler" if device.available else "connection"
                problems.append(f"{platform.name.strip()}: {device.name.strip()} has no {lacks}")
    if not devices:
        names = ", ".join(platform.name.strip() for platform in platforms) or "none"
        found = f"; {'; '.join(problems)}" if problems else ""
        raise Unavailable(f"the installed OpenCL drivers ({names}) offer no usable device{found}", DRIVER_ADVICE)
    kinds = cl.device_type
    return sorted(devices, key=lambda d: 0 if d.type & kinds.GPU else 1 if d.type & kinds.ACCELERATOR else 2)
