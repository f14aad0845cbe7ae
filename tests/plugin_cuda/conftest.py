"""A double of ``pycuda.driver``: memory in NumPy arrays, streams that finish at once, a record of every call."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

#: Fake addresses of allocations are this far apart.
SPACING = 1 << 32


class Error(Exception):
    """Base of the driver's errors."""


class MemoryError(Error):
    """No memory left."""


class FakeContext:
    def __init__(self, driver):
        self.driver = driver

    def push(self):
        self.driver.depth += 1

    def pop(self):
        self.driver.depth -= 1
        assert self.driver.depth >= 0

    def detach(self):
        self.driver.call("detach")
        self.driver.depth -= 1


class FakeDriver:
    """A double of ``pycuda.driver`` for the backend; every call that needs a context checks that one is current."""

    Error = Error
    MemoryError = MemoryError
    event_flags = SimpleNamespace(DISABLE_TIMING=2)
    device_attribute = SimpleNamespace(MULTIPROCESSOR_COUNT="multiprocessors")

    def __init__(self):
        self.calls = []
        self.depth = 0
        self.memory = {}
        self.capacity = 1 << 30
        self.devices = 2
        self.version = 13020
        self.fail = None
        outer = self

        class Context:
            @staticmethod
            def synchronize():
                outer.call("synchronize")

        self.Context = Context

        class Device:
            def __init__(self, index):
                self.index = index

            @staticmethod
            def count():
                return outer.devices

            def name(self):
                return f"Fake H{self.index}"

            def total_memory(self):
                return 80 << 30

            def compute_capability(self):
                return 9, 0

            def pci_bus_id(self):
                return "0000:01:00.0"

            def get_attribute(self, name):
                return {"multiprocessors": 132}[name]

            def retain_primary_context(self):
                return FakeContext(outer)

        self.Device = Device

    def init(self):
        self.calls.append(("init",))

    def get_driver_version(self):
        return self.version

    def call(self, *record):
        assert self.depth > 0, f"{record[0]} without a current context"
        self.calls.append(record)
        if self.fail is not None:
            raise self.fail

    def named(self, name):
        return [record[1:] for record in self.calls if record[0] == name]

    def bytes_at(self, address, nbytes):
        base = address - address % SPACING
        start = address - base
        assert start + nbytes <= self.memory[base].size, "outside of the allocation"
        return self.memory[base][start : start + nbytes]

    # ---------------------------------------------------------------------------- the parts of pycuda.driver

    def mem_alloc(self, nbytes):
        self.call("mem_alloc", nbytes)
        if sum(block.size for block in self.memory.values()) + nbytes > self.capacity:
            raise MemoryError("cuMemAlloc failed: out of memory")
        address = SPACING * (len(self.named("mem_alloc")))
        self.memory[address] = np.full(nbytes, 0xA5, np.uint8)
        driver = self

        class Allocation:
            def __int__(self):
                return address

            def free(self):
                driver.call("free", address)
                del driver.memory[address]

        return Allocation()

    def pagelocked_empty(self, shape, dtype):
        self.call("pagelocked_empty", shape)
        return np.empty(shape, dtype)

    def memcpy_htod_async(self, address, source, stream):
        self.call("htod", address, source.nbytes, stream)
        self.bytes_at(address, source.nbytes)[...] = source

    def memcpy_dtoh_async(self, target, address, stream):
        self.call("dtoh", address, target.nbytes, stream)
        target[...] = self.bytes_at(address, target.nbytes)

    def memcpy_dtod_async(self, target, source, nbytes, stream):
        self.call("dtod", target, source, nbytes, stream)
        self.bytes_at(target, nbytes)[...] = self.bytes_at(source, nbytes)

    def memset_d8_async(self, address, value, nbytes, stream):
        self.call("memset", address, value, nbytes, stream)
        self.bytes_at(address, nbytes)[...] = value

    def Stream(self):
        self.call("Stream")
        driver, number = self, len(self.named("Stream"))

        class Stream:
            handle = 0x5000 + number

            def synchronize(self):
                driver.call("stream synchronize", number)

            def is_done(self):
                driver.call("is_done", number)
                return True

            def wait_for_event(self, event):
                driver.call("wait", number, event)

        return Stream()

    def Event(self, flags):
        self.call("Event", flags)
        driver = self

        class Event:
            def __init__(self):
                self.flags = flags

            def record(self, stream):
                driver.call("record", self, stream)

            def synchronize(self):
                driver.call("event synchronize", self)

            def query(self):
                driver.call("query", self)
                return True

            def time_till(self, end):
                driver.call("time_till", self, end)
                return 1.5

        return Event()

    def module_from_buffer(self, code):
        self.call("module", code)
        driver = self

        class Function:
            def __init__(self, name):
                self.name = name

            def _launch_kernel(self, grid, group, packed, shared, stream):
                driver.call("launch", self.name, grid, group, packed, shared, stream)

        return SimpleNamespace(get_function=Function)


@pytest.fixture
def driver():
    """The double itself."""
    return FakeDriver()


@pytest.fixture
def pycuda(driver, monkeypatch):
    """The double as the importable module ``pycuda.driver``."""
    package, module = ModuleType("pycuda"), ModuleType("pycuda.driver")
    package.__spec__ = ModuleSpec("pycuda", None)
    package.__path__ = []
    for name in dir(driver):
        if not name.startswith("__"):
            setattr(module, name, getattr(driver, name))
    package.driver = module
    monkeypatch.setitem(sys.modules, "pycuda", package)
    monkeypatch.setitem(sys.modules, "pycuda.driver", module)
    return module


@pytest.fixture
def device(driver, monkeypatch, tmp_path):
    """An opened device on the double, without cuBLAS."""
    pytest.importorskip("cuda.bindings")
    from tensocket_cuda import library
    from tensocket_cuda.device import CudaDevice

    monkeypatch.setenv("TENSOCKET_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(library, "find_library", lambda: None)
    opened = CudaDevice(0, driver)
    yield opened
    assert driver.depth == 0, "every push is followed by a pop"
    opened.close()
    assert driver.memory == {}
