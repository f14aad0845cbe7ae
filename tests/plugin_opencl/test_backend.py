"""Finding devices: reasons and next steps, and what a device says of itself."""

from __future__ import annotations

import importlib
import subprocess
import sys
from types import SimpleNamespace

import pytest

import tensocket_opencl
from tensocket_opencl import backend as module
from tensocket_opencl.backend import OpenCLBackend
from tensocket_plugins.contract.backend import Unavailable
from tensocket_plugins.contract.errors import BackendUnavailable, KernelError


class Error(Exception):
    """As pyopencl's."""


def fake_device(name, kind, *, available=True, compiler=True):
    return SimpleNamespace(name=name, type=kind, available=available, compiler_available=compiler)


def fake_platform(name, devices):
    def get_devices():
        if isinstance(devices, Error):
            raise devices
        return devices

    return SimpleNamespace(name=name, get_devices=get_devices)


def fake_pyopencl(platforms):
    def get_platforms():
        if isinstance(platforms, Error):
            raise platforms
        return platforms

    return SimpleNamespace(Error=Error, get_platforms=get_platforms,
                           device_type=SimpleNamespace(CPU=2, GPU=4, ACCELERATOR=8))


@pytest.fixture
def probe(monkeypatch):
    """Probe with a fake pyopencl (or an exception in its place)."""

    def function(pyopencl):
        def load(name):
            assert name == "pyopencl"
            if isinstance(pyopencl, BaseException):
                raise pyopencl
            return pyopencl

        monkeypatch.setattr(module, "import_module", load)
        backend = OpenCLBackend()
        backend.probe()
        return backend

    return function


@pytest.mark.parametrize(("pyopencl", "reason", "advice"), [
    (ModuleNotFoundError("No module named 'pyopencl'", name="pyopencl"), "pyopencl is not installed",
     "pip install pyopencl"),
    (ImportError("libOpenCL.so.1: cannot open"), "libOpenCL.so.1", "pocl-opencl-icd"),
    (fake_pyopencl(Error("PLATFORM_NOT_FOUND_KHR")), r"no OpenCL driver is installed \(PLATFORM_NOT_FOUND_KHR\)",
     "apt-get install pocl-opencl-icd"),
    (fake_pyopencl([]), r"drivers \(none\) offer no usable device", "pocl-opencl-icd"),
    (fake_pyopencl([fake_platform("Big GPU", Error("DEVICE_NOT_FOUND"))]),
     r"\(Big GPU\) offer no usable device; Big GPU: DEVICE_NOT_FOUND", "driver"),
    (fake_pyopencl([fake_platform("P", [fake_device("a", 4, available=False), fake_device("b", 2, compiler=False)])]),
     "P: a has no connection; P: b has no compiler", "driver"),
])
def test_what_is_missing_is_said(probe, pyopencl, reason, advice):
    with pytest.raises(Unavailable, match=reason) as caught:
        probe(pyopencl)
    assert advice in caught.value.advice


def test_gpus_come_first(probe):
    backend = probe(fake_pyopencl([
        fake_platform("P", [fake_device("cpu", 2), fake_device("gone", 4, available=False)]),
        fake_platform("broken", Error("DEVICE_NOT_FOUND")),
        fake_platform("Q", [fake_device("gpu", 4), fake_device("card", 8), fake_device("gpu2", 4)]),
    ]))
    assert [device.name for device in backend._devices] == ["gpu", "gpu2", "card", "cpu"]
    assert backend.device_count() == 4


def test_import_touches_no_driver():
    """Neither the entry point nor the creation of the backend imports pyopencl."""
    code = "import sys, tensocket_opencl as t; t.tensocket_describe(); t.tensocket_backend(); print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "tensocket_opencl" in modules
    assert "pyopencl" not in modules


def test_descriptor_is_the_entry_points(backend):
    descriptor = tensocket_opencl.tensocket_describe()
    assert descriptor.name == "opencl"
    assert isinstance(tensocket_opencl.tensocket_backend(), OpenCLBackend)


def test_device_says_what_it_is(backend):
    info = backend.device_info(0)
    assert info.model
    assert info.memory > 0
    assert info.driver
    assert int(info.details["compute_units"]) > 0


def test_driver_that_cannot_build_is_refused_when_opened(backend, monkeypatch):
    device = importlib.import_module("tensocket_opencl.device")

    def fail(compile_source):
        raise KernelError("compile", "kernel ts_check", "generated source must build", "report this")

    monkeypatch.setattr(device, "check_compiler", fail)
    with pytest.raises(BackendUnavailable, match=r"device 'opencl:0' \(.*its driver must be able to run kernels.*"
                                                 r"choose another OpenCL device"):
        backend.open(0)


def test_claims_are_narrowed_to_the_device(backend):
    device = importlib.import_module("tensocket_opencl.device")

    class Poor:
        """A device without float64."""

        extensions = "cl_khr_fp16"
        double_fp_config = 0
        max_mem_alloc_size = 1 << 28
        mem_base_addr_align = 1024

    profile = device._narrowed(Poor())
    assert "float64" not in profile.dtypes
    assert "fp64" not in profile.features
    assert profile.limits.max_bytes == 1 << 28
    assert profile.limits.alignment == 128
