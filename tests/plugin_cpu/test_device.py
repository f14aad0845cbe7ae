"""The device itself: descriptor, backend, arrays, copies, streams, events."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest

import tensocket_cpu
from tensocket_cpu.backend import CpuBackend
from tensocket_cpu.code import pointers
from tensocket_cpu.native import LAYOUT
from tensocket_cpu.threads.streams import CpuEvent, CpuStream
from tensocket_plugins.contract.backend import Event
from tensocket_plugins.contract.dtypes import BY_NAME, bfloat16, float32, int64
from tensocket_plugins.contract.errors import ArgumentError, KernelError
from tensocket_plugins.ir.nodes import IRError, Kernel, Let, Program, Var


class ForeignEvent(Event):
    def query(self):
        return True

    def synchronize(self):
        pass

    def elapsed_ms(self, end):
        return 0.0


def test_describing_the_backend_loads_neither_llvm_nor_numpy_kernels():
    code = ("import sys, tensocket_cpu; d = tensocket_cpu.tensocket_describe(); assert d.name == 'cpu'; "
            "assert d.profile.host_resident; assert not [m for m in sys.modules if m.startswith('llvmlite')]; "
            "b = tensocket_cpu.tensocket_backend(); b.probe(); b.open(0); "
            "assert not [m for m in sys.modules if m.startswith('llvmlite')]")
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_backend_has_one_device():
    backend = CpuBackend()
    backend.probe()
    assert backend.device_count() == 1
    info = backend.device_info(0)
    assert info.model
    assert info.memory > 1 << 28
    assert info.driver == f"NumPy {np.__version__}"
    assert backend.open(0).name == "cpu:0"


@pytest.mark.parametrize("name", sorted(tensocket_cpu.DESCRIPTOR.profile.dtypes))
@pytest.mark.parametrize("shape", [(), (0,), (3, 5), (300, 500)])
def test_empty(device, name, shape):
    dtype = BY_NAME[name]
    array = device.empty(shape, dtype, device.default_stream)
    assert type(array) is np.ndarray
    assert array.shape == shape
    assert array.dtype == dtype.numpy
    assert array.flags.c_contiguous
    assert array.flags.writeable
    array[...] = 1
    assert np.count_nonzero(array) == array.size


def test_bfloat16_is_stored_as_bits(device):
    assert device.empty((2,), bfloat16, device.default_stream).dtype == np.uint16


@pytest.mark.parametrize("source", [np.arange(6, dtype=np.float32).reshape(2, 3), np.float32(3).reshape(()),
                                    np.zeros((0, 4), np.float32), np.array([np.nan, -0.0, 1e-45], np.float32)])
def test_copy_is_of_bytes(device, source):
    target = device.empty(source.shape, float32, device.default_stream)
    device.copy(target, source, device.default_stream)
    assert target.tobytes() == source.tobytes()


def test_copy_from_read_only_and_to_a_part(device):
    source = np.arange(4, dtype=np.int64)
    source.flags.writeable = False
    whole = np.zeros(10, np.int64)
    device.copy(whole[3:7], source, device.default_stream)
    assert whole.tolist() == [0, 0, 0, 0, 1, 2, 3, 0, 0, 0]


def test_data_ptr_counts_bytes(device):
    array = device.empty((10, 10), int64, device.default_stream)
    assert device.data_ptr(array) == array.ctypes.data
    assert device.data_ptr(array[2:, 3:]) - device.data_ptr(array) == 8 * 23


def test_fast_pointer_is_numpys_own():
    for array in (np.zeros(3), np.zeros((4, 4))[1:, 2], np.zeros(()), np.broadcast_to(np.ones(1), (5,))):
        assert pointers.address_of(array) == array.ctypes.data


@pytest.mark.skipif(LAYOUT is None, reason="this interpreter or NumPy has another layout")
def test_the_pointers_field_is_found():
    assert pointers.POINTER_FIELD is not None


def test_an_unknown_layout_of_arrays_is_noticed(monkeypatch):
    monkeypatch.setattr(pointers, "_read_field", lambda array, offset: id(array))
    assert pointers.find_pointer_field() is None
    monkeypatch.setattr(pointers, "POINTER_FIELD", None)
    array = np.zeros(3)
    assert pointers.address_of(array) == array.ctypes.data


def test_kernels_run_with_an_unknown_layout_of_arrays():
    code = """
import numpy as np
from tensocket_cpu.code import pointers
pointers.POINTER_FIELD = None
from tensocket_cpu.device import CpuDevice
from tensocket_plugins.contract.dtypes import int64
from tensocket_plugins.ir.nodes import Buffer, Kernel, Load, LoopKind, Program, Scalar, Store, Var, loop
I, N = Var("i", int64), Var("n", int64)
store = Store("out", I, Load("in", I, int64) * 3)
program = Program("p", (Buffer("out", int64, True), Buffer("in", int64), Scalar("n", int64)),
                  (Kernel("p", (loop(I, N, [store], LoopKind.PARALLEL),)),))
out = np.zeros(9, int)
CpuDevice().compile_ir(program)([out, np.arange(9)], [9], None)
assert out.tolist() == list(range(0, 27, 3))
"""
    environment = {**os.environ, "TENSOCKET_CACHE_DIR": ""}
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, env=environment)


def test_the_default_stream_is_always_idle(device):
    stream = device.default_stream
    assert isinstance(stream, CpuStream)
    assert stream.query()
    stream.synchronize()
    device.synchronize()
    stream.wait(device.create_event())


def test_events_measure_time(device):
    start, end = device.create_event(timing=True), device.create_event(timing=True)
    assert start.query()
    device.default_stream.record(start)
    time.sleep(0.01)
    device.default_stream.record(end)
    end.synchronize()
    assert 10 <= start.elapsed_ms(end) < 1000


def test_event_errors(device):
    stream, event = device.default_stream, device.create_event(timing=True)
    with pytest.raises(ArgumentError, match=r"\[Event.elapsed_time\] start event with timing=True, recorded=False — "
                       "both events were created with timing and recorded"):
        event.elapsed_ms(event)
    stream.record(event)
    plain = device.create_event()
    stream.record(plain)
    with pytest.raises(ArgumentError, match=r"\[Event.elapsed_time\] end event with timing=False, recorded=True — "):
        event.elapsed_ms(plain)
    with pytest.raises(ArgumentError, match=r"\[Event.elapsed_time\] end=ForeignEvent — both events are of one device"):
        event.elapsed_ms(ForeignEvent())
    with pytest.raises(ArgumentError, match=r"\[Stream.record_event\] event=ForeignEvent — "
                       "a CPU stream records CPU events"):
        stream.record(ForeignEvent())
    assert isinstance(event, CpuEvent)


def test_program_that_is_not_for_a_processor_is_refused_and_the_device_goes_on(device):
    bad = Program("bad", (), (Kernel("bad", (Let(Var("x", float32), Var("y", float32)),)),))
    with pytest.raises(IRError, match="variable y is not defined"):
        device.compile_ir(bad)
    device.compile_ir(Program("nothing", (), (Kernel("nothing", ()),)))([], [], device.default_stream)


def test_build_stats_count_programs(device):
    before = device.build_stats.kernels
    device.compile_ir(Program("counted", (), (Kernel("counted", ()),)))
    assert device.build_stats.kernels == before + 1
    assert device.build_stats.seconds > 0


def test_llvm_rejecting_a_program_is_a_kernel_error(device, monkeypatch):
    monkeypatch.setattr("tensocket_cpu.code.compiler.print_llvm",
                        lambda program, **options: "define void @x() { nonsense }")
    with pytest.raises(KernelError, match=r"\[compile\] program p — LLVM rejects its kernels: (.|\n)*nonsense"):
        device.compile_ir(Program("p", (), (Kernel("p", ()),)))


def test_llvm_failing_to_make_code_is_a_kernel_error_and_can_be_repeated(device, monkeypatch):
    def fail(names, code):
        raise RuntimeError("no such symbol")

    program = Program("unlinked", (), (Kernel("unlinked", ()),))
    with monkeypatch.context() as patch:
        patch.setattr(device.compiler, "_link", fail)
        with pytest.raises(KernelError, match=r"^\[compile\] program unlinked — LLVM makes no code of it: "
                                              r"no such symbol — report this with the processor's name"):
            device.compile_ir(program)
    device.compile_ir(program)([], [], device.default_stream)


def test_llvm_that_cannot_be_loaded_is_a_kernel_error(monkeypatch):
    from tensocket_cpu.device import CpuDevice

    monkeypatch.setitem(sys.modules, "tensocket_cpu.code.compiler", None)
    with pytest.raises(KernelError, match=r"^\[compile\] cpu:0: ModuleNotFoundError: .* — LLVM cannot be loaded — "
                                          r"install llvmlite anew"):
        CpuDevice().compile_ir(Program("p", (), (Kernel("p", ()),)))
