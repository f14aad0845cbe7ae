"""NVIDIA devices: the probe for their software, and opening one."""

from __future__ import annotations

import ctypes
import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from tensocket_plugins.contract.backend import Backend, Unavailable
from tensocket_plugins.contract.descriptor import DeviceInfo

from . import visible
from .streams import forked

if TYPE_CHECKING:
    from .device import CudaDevice

#: The driver's library, which comes with the driver and never with a package.
LIBRARY: Final = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_NO_DEVICE: Final = 100  # CUDA_ERROR_NO_DEVICE


def check_driver() -> int:
    """Load the driver's library, and return the number of devices. NVML counts them; without it, CUDA starts here.

    Raises:
        Unavailable: The library, a function of it or a device is missing.
    """
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise Unavailable(f"{LIBRARY} not found: no NVIDIA driver on this machine",
                          "install the NVIDIA driver on a machine with an NVIDIA GPU, or choose another device; the "
                          f"loader says: {error}") from error
    number = visible.count()
    if number is None:
        number = _count_by_driver(library)
    if number == 0:
        raise Unavailable("no NVIDIA GPU is visible to the driver",
                          "check nvidia-smi and the environment variable CUDA_VISIBLE_DEVICES")
    return number


def _count_by_driver(library: ctypes.CDLL) -> int:
    """Start CUDA, and return the number of devices; creates no context.

    Raises:
        Unavailable: The library is not the driver's, or does not start.
    """
    try:
        start, count = library.cuInit, library.cuDeviceGetCount
    except AttributeError as error:
        raise Unavailable(f"{LIBRARY} has no function cuInit: the file is not the NVIDIA driver's",
                          "reinstall the NVIDIA driver") from error
    number = ctypes.c_int(0)
    code = start(0) or count(ctypes.byref(number))
    if code not in (0, _NO_DEVICE):
        raise Unavailable(f"{LIBRARY} cannot start: CUDA error {code}",
                          "look at the output of nvidia-smi; a driver that was just updated needs a reboot")
    return 0 if code == _NO_DEVICE else number.value


def load_pycuda() -> Any:
    """Import ``pycuda.driver``, which does not start CUDA yet.

    Raises:
        Unavailable: pycuda is not installed or cannot be imported.
    """
    if find_spec("pycuda") is None:
        raise Unavailable("pycuda is not installed", "pip install 'tensocket-cuda[pycuda]' (pycuda is built on this "
                          "machine and needs the CUDA toolkit)")
    try:
        import pycuda.driver as driver
    except ImportError as error:
        raise Unavailable(f"pycuda cannot be imported: {error}",
                          "pip install --force-reinstall --no-cache-dir pycuda, so that it is built anew for this "
                          "machine") from error
    return driver


def check_nvrtc() -> tuple[int, int]:
    """Return the version of NVRTC.

    Raises:
        Unavailable: NVRTC or its bindings are missing.
    """
    advice = "pip install 'nvidia-cuda-nvrtc>=13,<14' 'cuda-bindings>=13,<14'"
    try:
        from .compiler import version

        return version()
    except ImportError as error:
        raise Unavailable(f"cuda.bindings is not installed ({error})", advice) from error
    except (OSError, RuntimeError) as error:
        raise Unavailable(f"NVRTC not found: {' '.join(str(error).split())}", advice) from error


class CudaBackend(Backend):
    """All NVIDIA devices of the machine."""

    def __init__(self) -> None:
        self._driver: Any = None
        self._devices: int | None = None
        self._process: int | None = None

    @property
    def driver(self) -> Any:
        """``pycuda.driver``, started in this process.

        Raises:
            BackendUnavailable: This is a forked child of a process that started CUDA.
        """
        if self._process is None:
            self._driver = load_pycuda()
            self._driver.init()
            self._process = os.getpid()
        elif self._process != os.getpid():
            raise forked("cuda")
        return self._driver

    def probe(self) -> None:
        """Look for the driver, pycuda, NVRTC and a device, in this order.

        Raises:
            Unavailable: With the first piece that is missing.
        """
        self._devices = check_driver()
        driver = load_pycuda()
        nvrtc = check_nvrtc()
        supported = driver.get_driver_version()
        if supported // 1000 < nvrtc[0]:
            raise Unavailable(
                f"the NVIDIA driver supports CUDA {supported // 1000}.{supported % 1000 // 10}, but NVRTC is "
                f"{nvrtc[0]}.{nvrtc[1]}", f"update the NVIDIA driver to one for CUDA {nvrtc[0]}")

    def device_count(self) -> int:
        """Return the number of devices that the probe found; without a probe, start CUDA and ask it."""
        return int(self.driver.Device.count()) if self._devices is None else self._devices

    def device_info(self, index: int) -> DeviceInfo:
        """Return model, memory and driver of a device, without creating a context."""
        device = self.driver.Device(index)
        version = self.driver.get_driver_version()
        major, minor = device.compute_capability()
        processors = device.get_attribute(self.driver.device_attribute.MULTIPROCESSOR_COUNT)
        return DeviceInfo(device.name(), int(device.total_memory()),
                          f"CUDA {version // 1000}.{version % 1000 // 10}, NVRTC {'.'.join(map(str, check_nvrtc()))}",
                          {"compute capability": f"{major}.{minor}", "multiprocessors": str(processors),
                           "bus": device.pci_bus_id()})

    def open(self, index: int) -> CudaDevice:
        """Open a device on its primary context, which other libraries share."""
        from .device import CudaDevice  # needs NVRTC's bindings, which a probe may find missing

        return CudaDevice(index, self.driver)
