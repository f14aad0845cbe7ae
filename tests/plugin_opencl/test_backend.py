"""Finding devices: reasons and next steps, and what a device says of itself."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import tensocket_opencl
from tensocket_opencl import backend as module
from tensocket_opencl.backend import OpenCLBackend
from tensocket_plugins.contract.backend import Unavailable
from tensocket_plugins.contract.errors import BackendUnavailable, KernelError


def fake_device(name, kind, *, available=1, compiler=1):
    return {"name": name, "type": kind, "available": available, "compiler": compiler}


@pytest.fixture
def probe(monkeypatch):
    """Probe with a listing that runs ``code``, or prints the given platforms."""

    def function(tmp_path, code=None, platforms=()):
        lines = [f"print({json.dumps(json.dumps(platform))})" for platform in platforms]
        script = tmp_path / "listing.py"
        script.write_text(code or "\n".join(lines))
        monkeypatch.setattr(module, "listing", SimpleNamespace(__file__=str(script)))
        monkeypatch.setattr(module, "_PATIENCE", 2)
        backend = OpenCLBackend()
        backend.probe()
        return backend

    return function


@pytest.mark.parametrize(("error", "reason", "advice"), [
    (ModuleNotFoundError("No module named 'pyopencl'", name="pyopencl"), "pyopencl is not installed",
     "pip install pyopencl"),
    (ImportError("libOpenCL.so.1: cannot open"), "pyopencl cannot be loaded: libOpenCL.so.1", "pocl-opencl-icd"),
])
def test_missing_bindings_are_said(monkeypatch, error, reason, advice):
    def load(name):
        assert name == "pyopencl"
        raise error

    monkeypatch.setattr(module, "import_module", load)
    with pytest.raises(Unavailable, match=reason) as caught:
        OpenCLBackend().probe()
    assert advice in caught.value.advice


@pytest.mark.parametrize(("platforms", "reason"), [
    ([], r"no OpenCL driver \(ICD\) is installed"),
    ([{"name": "Big GPU", "devices": []}], r"drivers \(Big GPU\) offer no usable device$"),
    ([{"name": "Big GPU", "devices": [], "problem": "clGetDeviceIDs failed with code -6"}],
     r"\(Big GPU\) offer no usable device; Big GPU: clGetDeviceIDs failed with code -6"),
    ([{"name": "P", "devices": [fake_device("a", 4, available=0), fake_device("b", 2, compiler=0)]}],
     "P: a has no connection; P: b has no compiler"),
])
def test_missing_drivers_and_devices_are_said(probe, tmp_path, platforms, reason):
    pytest.importorskip("pyopencl")
    with pytest.raises(Unavailable, match=reason) as caught:
        probe(tmp_path, platforms=platforms)
    assert "apt-get install pocl-opencl-icd" in caught.value.advice


@pytest.mark.parametrize(("code", "reason"), [
    ("import os; os.abort()", "listing OpenCL devices ended with code -6: no message"),
    ("raise SystemExit('the driver is broken')", "ended with code 1: the driver is broken"),
    ("import time; time.sleep(60)", "do not list their devices within 2 s"),
])
def test_drivers_that_crash_or_hang_do_no_harm(probe, tmp_path, code, reason):
    pytest.importorskip("pyopencl")
    with pytest.raises(Unavailable, match=reason) as caught:
        probe(tmp_path, code)
    assert "clinfo" in caught.value.advice


def test_gpus_come_first(probe, tmp_path):
    pytest.importorskip("pyopencl")
    backend = probe(tmp_path, platforms=[
        {"name": "P", "devices": [fake_device("cpu", 2), fake_device("gone", 4, available=0)]},
        {"name": "broken", "devices": [], "problem": "clGetDeviceIDs failed with code -6"},
        {"name": "Q", "devices": [fake_device("gpu", 4), fake_device("card", 8), fake_device("gpu2", 4)]},
    ])
    assert [device.facts["name"] for device in backend._devices] == ["gpu", "gpu2", "card", "cpu"]
    assert [(device.platform, device.position) for device in backend._devices] == [(2, 0), (2, 2), (2, 1), (0, 0)]
    assert backend.device_count() == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_children_forked_after_a_probe_can_use_the_device(backend):
    code = """
import os
from tensocket_opencl.backend import OpenCLBackend
backend = OpenCLBackend()
backend.probe()
backend.device_info(0)
if os.fork() == 0:
    device = backend.open(0)
    device.synchronize()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "7\n", done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_children_forked_after_use_get_an_error(backend):
    code = """
import os, sys
import numpy as np
from tensocket_opencl.backend import OpenCLBackend
from tensocket_plugins.contract import BackendUnavailable
from tensocket_plugins.contract.dtypes import float32
device = OpenCLBackend().open(0)
stream, event = device.create_stream(), device.create_event()
array, host = device.empty((4,), float32, stream), np.ones(4, np.float32)
device.copy(array, host, stream)
if os.fork() == 0:
    attempts = [lambda: device.copy(array, host, stream), lambda: device.copy(host, array, device.default_stream),
                lambda: stream.record(event), stream.synchronize, device.synchronize, device.create_stream,
                lambda: device.compile_source("kernel void f() {}", ["f"])]
    for attempt in attempts:
        try:
            attempt()
        except BackendUnavailable as error:
            print(error)
    device.close()
    sys.exit()
os.wait()
device.copy(host, array, stream)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "[device] opencl:0 in a process forked after it was opened — the threads of an OpenCL driver are not inherited "
        "by forked children — start children with the multiprocessing method 'spawn', or fork before the device is used"
    ] * 7


def test_listing_agrees_with_pyopencl(backend):
    import pyopencl as cl

    for found in backend._devices:
        device = cl.get_platforms()[found.platform].get_devices()[found.position]
        assert found.facts["name"] == device.name.strip()
        assert found.facts["type"] == device.type
        assert found.facts["compute_units"] == device.max_compute_units
        assert found.facts["local_memory"] == device.local_mem_size
        assert found.facts["version"] == device.version.strip()
        assert found.facts["driver"] == device.driver_version.strip()


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
    message = r"device 'opencl:0' \(.*\) — its driver must be able to run kernels, but: .*choose another OpenCL device"
    with pytest.raises(BackendUnavailable, match=message):
        backend.open(0)


def test_additions_at_equal_positions_are_in_order_only_on_request():
    assert "deterministic" not in tensocket_opencl.DESCRIPTOR.profile.features
    ts = pytest.importorskip("tensocket")
    rng = np.random.default_rng(0)
    index, values, expected = rng.integers(0, 4, 100_000), rng.normal(size=100_000).astype("f"), np.zeros(4, "f")
    np.add.at(expected, index, values)  # one after the other, in float32
    ts.use_deterministic_algorithms(True)
    try:
        places, added = ts.tensor(index).to("opencl"), ts.tensor(values).to("opencl")
        result = ts.zeros(4, device="opencl").scatter_add(0, places, added)
    finally:
        ts.use_deterministic_algorithms(False)
    assert result.tolist() == expected.tolist()


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
