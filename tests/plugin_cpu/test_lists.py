"""One kernel over many sets of arguments: pieces of any range, any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from tensocket_cpu.threads.pool import default_threads
from tensocket_plugins.contract.dtypes import float32, int64
from tensocket_plugins.ir.nodes import Buffer, Kernel, Load, LoopKind, Program, Scalar, Store, Var, loop
from tensocket_plugins.kit.plans import compile_list, launch_each

I, N, A = Var("i", int64), Var("n", int64), Var("a", float32)


def scaled():
    body = loop(I, N, [Store("out", I, Load("in0", I, float32) * A)], LoopKind.PARALLEL)
    return Program("scaled", (Buffer("out", float32, True), Buffer("in0", float32), Scalar("n", int64),
                              Scalar("a", float32)), (Kernel("scaled", (body,)),))


@pytest.fixture
def threads(device):
    yield device.set_num_threads
    device.set_num_threads(default_threads())


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("sizes", [[3], [0, 5, 0, 1], [400_000, 1, 100_001, 63, 300_000]])
def test_every_element_of_every_set(device, threads, sizes, count):
    threads(count)
    sources = [np.random.default_rng(k).normal(size=n).astype(np.float32) for k, n in enumerate(sizes)]
    targets = [np.full(n, np.nan, np.float32) for n in sizes]
    factors = [float(k + 1) for k in range(len(sizes))]
    compile_list(device, scaled())([targets, sources], [sizes, factors], device.default_stream)
    for target, source, factor in zip(targets, sources, factors, strict=True):
        np.testing.assert_array_equal(target, source * np.float32(factor))


def test_the_derived_form_does_the_same(device):
    sources, targets = [np.ones(3, np.float32), np.ones(2, np.float32)], [np.empty(3, np.float32), np.empty(2, "f4")]
    launch_each(device.compile_ir(scaled()))([targets, sources], [[3, 2], [2.0, 5.0]], device.default_stream)
    assert [x.tolist() for x in targets] == [[2.0] * 3, [5.0] * 2]


def test_programs_without_a_loop_over_a_scalar_take_the_derived_form(device):
    program = Program("first", (Buffer("out", float32, True), Buffer("in0", float32)), (Kernel("first", (loop(I, 1, [
        Store("out", I, Load("in0", I, float32))], LoopKind.PARALLEL),)),))
    targets = [np.zeros(1, np.float32), np.zeros(1, np.float32)]
    compile_list(device, program)([targets, [np.full(1, 4.0, "f4"), np.full(1, 5.0, "f4")]], [], device.default_stream)
    assert [x.tolist() for x in targets] == [[4.0], [5.0]]
