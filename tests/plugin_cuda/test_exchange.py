"""DLPack's view of a CUDA device, on a double of the driver and of ``libcuda``."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

pytest.importorskip("cuda.bindings")

from tensocket_plugins.contract.dtypes import float32
from tensocket_plugins.contract.errors import ArgumentError, KernelError
from tensocket_plugins.contract.exchange import foreign_array

EVENT = 0xE0E0


class Library:
    """The four functions of ``libcuda`` that are called, with a record; a call fails where ``fail`` names it."""

    def __init__(self, driver):
        self.driver = driver
        self.calls = []
        self.fail = None

    def _answer(self, name, *arguments):
        assert self.driver.depth > 0, f"{name} without a current context"
        self.calls.append((name, *(a.value for a in arguments)))
        return 400 if self.fail == name else 0

    def cuEventCreate(self, event, flags):
        ctypes.cast(event, ctypes.POINTER(ctypes.c_void_p))[0] = EVENT
        return self._answer("create", flags)

    def cuEventRecord(self, event, stream):
        return self._answer("record", event, stream)

    def cuStreamWaitEvent(self, stream, event, flags):
        return self._answer("wait", stream, event, flags)

    def cuEventDestroy_v2(self, event):
        return self._answer("destroy", event)


@pytest.fixture
def library(driver, monkeypatch):
    made = Library(driver)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: made if name == "libcuda.so.1" else pytest.fail(name))
    return made


def test_device_and_addresses(device):
    assert device.exchange.device == (2, 0)  # kDLCUDA
    array = device.empty((4, 6), float32, device.default_stream)
    assert device.exchange.address(array) == int(array.storage.block.buffer)
    assert device.exchange.address(array[2:, 1:]) == int(array.storage.block.buffer) + 4 * 13
    assert "dlpack" in device.profile.features


@pytest.mark.parametrize(("consumer", "handle"), [(None, 1), (1, 1), (2, 2), (0x7F00, 0x7F00)])
def test_the_consumer_s_stream_waits_on_the_device(device, library, consumer, handle):
    stream = device.create_stream()
    device.exchange.export(stream, consumer)
    assert library.calls == [("create", 2), ("record", EVENT, stream.pointer), ("wait", handle, EVENT, 0),
                             ("destroy", EVENT)]
    assert device.exchange.number(stream) == stream.pointer


def test_stream_zero_means_nothing(device, library):
    with pytest.raises(ArgumentError, match=r"\[__dlpack__\] stream=0 — 0 could mean two streams of CUDA"):
        device.exchange.export(device.default_stream, 0)
    assert library.calls == []


@pytest.mark.parametrize("name", ["create", "record", "wait"])
def test_errors_of_the_driver(device, library, name):
    library.fail = name
    with pytest.raises(KernelError, match=r"\[__dlpack__\] streams of cuda:0 — the driver reports error 400"):
        device.exchange.export(device.default_stream, 5)
    assert [call[0] for call in library.calls].count("destroy") == (name != "create")


def test_foreign_memory_is_read_and_written_in_place(device, driver):
    theirs = device.empty((6,), float32, device.default_stream)
    device.copy(theirs, np.arange(6, dtype=np.float32), device.default_stream)
    ours = foreign_array(device.exchange, device.exchange.address(theirs[2:]), float32, (2, 2), (2, 1), theirs,
                         device.default_stream)
    back = np.empty((2, 2), np.float32)
    device.copy(back, ours, device.default_stream)
    assert back.tolist() == [[2, 3], [4, 5]]
    device.copy(ours, np.full((2, 2), 9, np.float32), device.default_stream)
    whole = np.empty(6, np.float32)
    device.copy(whole, theirs, device.default_stream)
    assert whole.tolist() == [0, 1, 9, 9, 9, 9]
    before = len(driver.named("stream synchronize"))
    del ours
    assert len(driver.named("stream synchronize")) == before + 1
