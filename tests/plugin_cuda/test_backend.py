"""The CUDA backend's messages about missing pieces, and its information if all are present."""

from __future__ import annotations

import builtins
import ctypes
import importlib.util
import subprocess
import sys

import pytest

import tensocket_cuda
from tensocket_cuda import backend as module
from tensocket_cuda import visible
from tensocket_cuda.backend import CudaBackend
from tensocket_plugins.contract.backend import Unavailable
from tensocket_plugins.contract.errors import BackendUnavailable


class FakeLibrary:
    """``libcuda.so.1`` with given results."""

    def __init__(self, start=0, devices=1, count_code=0):
        self.cuInit = lambda flags: start

        def count(pointer):
            pointer._obj.value = devices
            return count_code

        self.cuDeviceGetCount = count


class FakeNvml:
    """``libnvidia-ml.so.1`` with given GPUs."""

    def __init__(self, identities=("GPU-1a", "GPU-1b"), start=0, split=0):
        def number(pointer):
            pointer._obj.value = len(identities)
            return 0

        def handle(index, pointer):
            pointer._obj.value = index.value + 1
            return 0

        def mode(gpu, now, pending):
            now._obj.value = split
            return 0

        def identity(gpu, text, size):
            ctypes.memmove(text, identities[gpu.value - 1].encode() + b"\0", len(identities[gpu.value - 1]) + 1)
            return 0

        self.nvmlInit_v2, self.nvmlShutdown = lambda: start, lambda: 0
        self.nvmlDeviceGetCount_v2, self.nvmlDeviceGetHandleByIndex_v2 = number, handle
        self.nvmlDeviceGetMigMode, self.nvmlDeviceGetUUID = mode, identity


def with_library(monkeypatch, library, nvml=None):
    real_load = ctypes.CDLL

    def load(name, *args, **kwargs):
        if name == visible.LIBRARY:
            if nvml is None:
                raise OSError("no NVML")
            return nvml
        if name != module.LIBRARY:  # NVRTC's bindings look for their library once per process
            return real_load(name, *args, **kwargs)
        if isinstance(library, Exception):
            raise library
        return library

    monkeypatch.setattr(ctypes, "CDLL", load)


def reason():
    with pytest.raises(Unavailable) as caught:
        CudaBackend().probe()
    return caught.value.reason, caught.value.advice


def test_description_needs_no_driver():
    description = tensocket_cuda.tensocket_describe()
    assert description.name == "cuda"
    assert {"float16", "bfloat16", "float32", "float64", "bool", "int64"} <= description.profile.dtypes


def test_import_loads_no_driver_and_no_bindings():
    code = ("import sys, tensocket_cuda; tensocket_cuda.tensocket_backend();"
            "print([m for m in sys.modules if m.split('.')[0] in ('cuda', 'pycuda', 'numpy.ctypeslib')])")
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                            env={"PYTHONPATH": ":".join(sys.path)})
    assert result.stdout.strip() == "[]"


def test_missing_driver(monkeypatch):
    with_library(monkeypatch, OSError("libcuda.so.1: cannot open shared object file"))
    text, advice = reason()
    assert text == f"{module.LIBRARY} not found: no NVIDIA driver on this machine"
    assert "install the NVIDIA driver" in advice
    assert "cannot open shared object file" in advice


@pytest.mark.skipif(sys.platform != "linux", reason="the library has another name")
def test_missing_driver_on_this_machine():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        assert reason()[0].startswith("libcuda.so.1 not found")
    else:
        module.check_driver()


def test_library_without_its_functions(monkeypatch):
    with_library(monkeypatch, object())
    assert reason() == (f"{module.LIBRARY} has no function cuInit: the file is not the NVIDIA driver's",
                        "reinstall the NVIDIA driver")


def test_driver_that_does_not_start(monkeypatch):
    with_library(monkeypatch, FakeLibrary(start=803))
    text, advice = reason()
    assert text == f"{module.LIBRARY} cannot start: CUDA error 803"
    assert "nvidia-smi" in advice


@pytest.mark.parametrize("library", [FakeLibrary(start=100), FakeLibrary(devices=0), FakeLibrary(count_code=100)])
def test_no_device(monkeypatch, library):
    with_library(monkeypatch, library)
    text, advice = reason()
    assert text == "no NVIDIA GPU is visible to the driver"
    assert "CUDA_VISIBLE_DEVICES" in advice


def test_missing_pycuda(monkeypatch):
    with_library(monkeypatch, FakeLibrary())
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    text, advice = reason()
    assert text == "pycuda is not installed"
    assert "pip install 'tensocket-cuda[pycuda]'" in advice


def test_broken_pycuda(monkeypatch):
    with_library(monkeypatch, FakeLibrary())
    monkeypatch.setattr(module, "find_spec", lambda name: importlib.util.find_spec("sys"))
    monkeypatch.setitem(sys.modules, "pycuda", None)
    text, advice = reason()
    assert text.startswith("pycuda cannot be imported: ")
    assert "--force-reinstall" in advice


def test_missing_bindings(monkeypatch, pycuda):
    with_library(monkeypatch, FakeLibrary())
    monkeypatch.delitem(sys.modules, "tensocket_cuda.compiler", raising=False)
    real = builtins.__import__

    def without_bindings(name, *args, **kwargs):
        if name.startswith("cuda"):
            raise ModuleNotFoundError("No module named 'cuda'")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_bindings)
    text, advice = reason()
    assert text == "cuda.bindings is not installed (No module named 'cuda')"
    assert "cuda-bindings" in advice


def test_missing_nvrtc(monkeypatch, pycuda):
    compiler = pytest.importorskip("tensocket_cuda.compiler")
    with_library(monkeypatch, FakeLibrary())

    def missing():
        raise RuntimeError("Failure finding\n  libnvrtc.so")

    monkeypatch.setattr(compiler, "version", missing)
    text, advice = reason()
    assert text == "NVRTC not found: Failure finding libnvrtc.so"
    assert "pip install 'nvidia-cuda-nvrtc" in advice


def test_driver_older_than_nvrtc(monkeypatch, pycuda):
    pytest.importorskip("cuda.bindings")
    pycuda.get_driver_version = lambda: 12040
    real = ctypes.CDLL  # NVRTC's bindings load their library with it
    monkeypatch.setattr(module.ctypes, "CDLL", lambda name, *a, **k: FakeLibrary() if name == module.LIBRARY
                        else real("no NVML" if name == visible.LIBRARY else name, *a, **k))
    text, advice = reason()
    assert text.startswith("the NVIDIA driver supports CUDA 12.4, but NVRTC is 13.")
    assert "update the NVIDIA driver" in advice


def test_everything_is_there(monkeypatch, pycuda):
    pytest.importorskip("cuda.bindings")
    with_library(monkeypatch, FakeLibrary(devices=2))
    cuda = CudaBackend()
    cuda.probe()
    assert cuda.device_count() == 2
    info = cuda.device_info(1)
    assert (info.model, info.memory) == ("Fake H1", 80 << 30)
    assert info.driver.startswith("CUDA 13.2, NVRTC 13.")
    assert info.details == {"compute capability": "9.0", "multiprocessors": "132", "bus": "0000:01:00.0"}


def test_open(monkeypatch, pycuda):
    pytest.importorskip("cuda.bindings")
    from tensocket_cuda import library

    monkeypatch.setattr(library, "find_library", lambda: None)
    device = CudaBackend().open(1)
    assert device.name == "cuda:1"
    assert device.target.parallelism == 4 * 132
    device.close()


@pytest.mark.parametrize(("chosen", "number"), [
    (None, 2), ("0", 1), ("1,0", 2), ("GPU-1b", 1), ("GPU-1", 0), ("", 0), ("-1", 0), ("0,5,1", 1), ("1,1", 0)])
def test_nvml_counts_devices_without_starting_cuda(monkeypatch, pycuda, driver, chosen, number):
    pytest.importorskip("cuda.bindings")
    library = FakeLibrary()
    library.cuInit = lambda flags: pytest.fail("cuInit makes CUDA unusable in forked children")
    nvml, opened = FakeNvml(), []
    nvml.nvmlInit_v2 = lambda: opened.append(0) or 0
    with_library(monkeypatch, library, nvml)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if chosen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    if number == 0:
        assert reason()[0] == "no NVIDIA GPU is visible to the driver"
        return
    cuda = CudaBackend()
    cuda.probe()
    assert cuda.device_count() == number
    assert (driver.calls, opened) == ([], [0])


@pytest.mark.parametrize("nvml", [FakeNvml(start=9), FakeNvml(split=1), object()])
def test_cuda_counts_devices_where_nvml_cannot(monkeypatch, pycuda, nvml):
    pytest.importorskip("cuda.bindings")
    started = []
    library = FakeLibrary(devices=2)
    library.cuInit = lambda flags: started.append(flags) or 0
    with_library(monkeypatch, library, nvml)
    cuda = CudaBackend()
    cuda.probe()
    assert (started, cuda.device_count()) == ([0], 2)


def test_instances_of_split_gpus_are_counted_by_cuda(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-GPU-1a/1/0")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: FakeNvml())
    assert visible.count() is None


def test_children_forked_after_cuda_was_started_get_an_error(pycuda, device, monkeypatch):
    cuda = CudaBackend()
    assert cuda.driver is pycuda
    monkeypatch.setattr(module.os, "getpid", lambda: -1)
    message = ("[device] {} in a process forked after CUDA was started — CUDA does not work in forked children — start "
               "children with the multiprocessing method 'spawn', or fork before the device is used")
    with pytest.raises(BackendUnavailable) as caught:
        cuda.open(0)
    assert str(caught.value) == message.format("cuda")
    device.abandon()
    try:
        for work in (device.synchronize, device.create_stream, lambda: device.allocator.allocate(1 << 20, None)):
            with pytest.raises(BackendUnavailable) as caught:
                work()
            assert str(caught.value) == message.format("cuda:0")
        device.close()
    finally:
        device.current.forked = False
