"""CFamilyDevice: what a backend's ``compile_source`` and ``launch`` are given."""

from __future__ import annotations

import numpy as np
import pytest

from tensocket_plugins.contract.arrays import Block, DeviceArray, Storage
from tensocket_plugins.contract.backend import Allocator
from tensocket_plugins.contract.dtypes import bool_, float32, float64, int32, int64
from tensocket_plugins.contract.errors import KernelError
from tensocket_plugins.ir.nodes import (
    Buffer,
    If,
    Kernel,
    Let,
    Load,
    LoopKind,
    Program,
    Scalar,
    Store,
    Temporary,
    Var,
    loop,
)
from tensocket_plugins.ir.printers.c import print_c
from tensocket_plugins.ir.printers.dialect import OPENCL
from tensocket_plugins.kit.cfamily import CFamilyDevice

LANES = 32
i, n, g, l = (Var(name, int32) for name in ("i", "n", "g", "l"))


class CountingAllocator(Allocator):
    def __init__(self):
        self.allocated, self.freed = [], []

    def allocate(self, nbytes, stream):
        block = Block(f"memory{len(self.allocated)}", nbytes, stream)
        self.allocated.append(block)
        return block

    def free(self, block):
        self.freed.append(block)


class RecordingDevice(CFamilyDevice):
    """Compiles nothing and remembers every call."""

    dialect = OPENCL
    name = "recording:0"

    def __init__(self):
        self.allocator = CountingAllocator()
        self.sources, self.launches = [], []
        self.fails = False

    def compile_source(self, source, names):
        self.sources.append((source, list(names)))
        return {name: f"<{name}>" for name in names}

    def launch(self, kernel, grid, group, args, stream):
        if self.fails:
            raise KernelError("launch", "kernel", "it failed", "try again")
        self.launches.append((kernel, grid, group, list(args), stream))

    def copy(self, dst, src, stream):
        raise AssertionError("not part of compile_ir")

    def synchronize(self):
        raise AssertionError("not part of compile_ir")


@pytest.fixture
def device():
    return RecordingDevice()


def grid_kernel(name, *body):
    inner = (Let(i, g * LANES + l), If(i < n, body))
    return Kernel(name, (loop(g, (n + (LANES - 1)) // LANES, (loop(l, LANES, inner, LoopKind.LANE),), LoopKind.GROUP),))


def scale_program():
    """``out = a * s`` with an unused parameter of each kind."""
    params = (Buffer("out", float32, True), Scalar("unused", int64), Buffer("extra", float32), Buffer("a", float32),
              Scalar("n", int32), Scalar("s", float32))
    return Program("scale", params, (grid_kernel("k", Store("out", i, Load("a", i, float32) * Var("s", float32))),))


def array(device, dtype, size, offset=0):
    block = device.allocator.allocate(size * dtype.itemsize, None)
    return DeviceArray(Storage(block, device.allocator), dtype, (size,), (1,), offset)


def test_a_program_is_printed_and_compiled_once(device):
    program = scale_program()
    device.compile_ir(program)
    assert device.sources == [(print_c(program, OPENCL), ["tensocket_k"])]
    assert device.launches == []


def test_arguments_are_what_the_kernel_takes(device):
    run = device.compile_ir(scale_program())
    out, extra, a = (array(device, float32, 70, offset) for offset in (0, 1, 7))
    run([out, extra, a], [1 << 40, 70, 0.1], "stream")
    ((kernel, grid, group, args, stream),) = device.launches
    assert (kernel, grid, group, stream) == ("<tensocket_k>", (3,), (32,), "stream")
    assert args == ["memory0", 0, "memory2", 7, 70, np.float32(0.1)]
    assert [type(x) for x in args] == [str, np.int64, str, np.int64, np.int32, np.float32]


def test_zero_groups_are_not_launched(device):
    run = device.compile_ir(scale_program())
    run([array(device, float32, 1)] * 3, [0, 0, 1.0], None)
    assert device.launches == []


@pytest.mark.parametrize(("value", "passed"), [(1e300, np.inf), (-1e300, -np.inf), (float("inf"), np.inf),
                                               (3.4e38, 3.4e38)])
def test_numbers_beyond_float32_become_infinite(device, value, passed):
    run = device.compile_ir(scale_program())
    run([array(device, float32, 1)] * 3, [0, 1, value], None)
    assert device.launches[0][3][-1] == np.float32(passed)


def test_scalar_types(device):
    names = {"flag": bool_, "wide": float64, "long_number": int64}
    stores = [Store(f"to_{name}", i, Var(name, dtype)) for name, dtype in names.items()]
    params = [Buffer(f"to_{name}", dtype, True) for name, dtype in names.items()]
    params += [Scalar(name, dtype) for name, dtype in names.items()]
    run = device.compile_ir(Program("p", (*params, Scalar("n", int32)), (grid_kernel("k", *stores),)))
    run([array(device, dtype, 4) for dtype in names.values()], [True, 0.1, 1 << 40, 4], None)
    assert [type(x) for x in device.launches[0][3][6:]] == [np.uint8, np.float64, np.int64, np.int32]


def two_step_program():
    """A temporary of ``2 * n`` float64, written by one kernel and read by the next."""
    return Program("two", (Buffer("out", float32, True), Buffer("a", float32), Scalar("n", int32)),
                   (grid_kernel("one", Store("t", i, Load("a", i, float32))),
                    grid_kernel("two", Store("out", i, Load("t", i, float32)))), (Temporary("t", float32, n * 2),))


def test_temporaries_live_for_one_run(device):
    run = device.compile_ir(two_step_program())
    out, a = array(device, float32, 40), array(device, float32, 40)
    run([out, a], [40], "stream")
    block = device.allocator.allocated[-1]
    assert (block.nbytes, block.stream) == (320, "stream")
    assert device.allocator.freed == [block]
    assert [(launch[0], launch[3]) for launch in device.launches] == [
        ("<tensocket_one>", ["memory1", 0, 40, "memory2"]), ("<tensocket_two>", ["memory0", 0, 40, "memory2"])]


def test_temporaries_are_freed_when_a_launch_fails(device):
    run = device.compile_ir(two_step_program())
    device.fails = True
    arrays = [array(device, float32, 40), array(device, float32, 40)]
    with pytest.raises(KernelError, match="it failed"):
        run(arrays, [40], None)
    assert device.allocator.freed == [device.allocator.allocated[-1]]
