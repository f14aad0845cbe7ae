"""Tapes and words: noted launches in machine code, and comparisons of memory, against the generic forms."""

from __future__ import annotations

import numpy as np
import pytest

from tensocket_core.device import open_device
from tensocket_cpu.native.layout import LAYOUT
from tensocket_plugins.contract.dtypes import float32, int64
from tensocket_plugins.contract.launch_recorder import record_launches
from tensocket_plugins.contract.plans import TapePlan, WordsPlan
from tensocket_plugins.ir.build.nest import Operand, pointwise_nest
from tensocket_plugins.ir.pipeline import scheduled
from tensocket_plugins.ir.strategies import Strategy

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="no machine code reads objects without a known layout")


def scaled_sum():
    """A kernel: out = x * number + y, over flat float32 arrays."""
    device = open_device("cpu").runtime
    nest = pointwise_nest("scaled_sum", lambda x, y, n: x * n + y,
                          [Operand("flat", float32), Operand("flat", float32), Operand("number", float32)],
                          [Operand("flat", float32)], 1, int64)
    return device, device.compile_ir(scheduled(nest, device.target, Strategy.SERIAL))


@pytest.mark.parametrize("size", [1, 7, 1000, 400_000])
def test_a_tape_runs_launches_on_other_arrays_and_numbers(size):
    device, run = scaled_sum()
    rng = np.random.default_rng(0)
    x, y, middle, out = (rng.standard_normal(size).astype(np.float32) for _ in range(4))

    def launch():
        run([middle, x, y], (size, 2.0), None)
        run([out, middle, x], (size, 3.0), None)
    _, recorder = record_launches(launch)
    plan = TapePlan(tuple(recorder.calls), (x, out), (((0, 1),), ((1, 1),)))
    tape = device.compile_plan(plan, print)
    for _ in range(3):
        other, result = rng.standard_normal(size).astype(np.float32), np.empty(size, np.float32)
        before = out.copy()
        tape([other, result], [0.5, -1.5], None)
        expected = (other * np.float32(0.5) + y) * np.float32(-1.5) + other
        np.testing.assert_array_equal(result, expected)
        np.testing.assert_array_equal(out, before)


def test_a_product_of_the_library_takes_other_arrays():
    device = open_device("cpu").runtime
    multiply = device.kernels.find("matmul", "float32", direct=True).run
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((5, 6)).astype(np.float32), rng.standard_normal((6, 7)).astype(np.float32)
    out, recorder = record_launches(lambda: multiply(x, y), wants_kernels=True)
    tape = device.compile_plan(TapePlan(tuple(recorder.calls), (x, out)), print)
    other, result = rng.standard_normal((5, 6)).astype(np.float32), np.empty((5, 7), np.float32)
    tape([other, result], [], None)
    np.testing.assert_allclose(result, other.astype(np.float64) @ y.astype(np.float64), 1e-5, 1e-5)


def test_words_are_compared():
    device = open_device("cpu").runtime
    memory = np.arange(10, dtype=np.uint64)
    base = memory.__array_interface__["data"][0]

    def plan(equal, unequal):
        return WordsPlan(*[np.array(x, np.uint64) for x in (
            [base + 8 * k for k in equal], list(equal.values()), [base + 8 * k for k in unequal],
            list(unequal.values()))])
    check = device.compile_plan(plan({1: 1, 5: 5}, {7: 0}), print)
    assert check() is True
    memory[7] = 0
    assert check() is False
    memory[7] = 7
    memory[5] = 6
    assert check() is False
    memory[5] = 5
    assert check() is True
    assert device.compile_plan(plan({}, {}), print)() is True
