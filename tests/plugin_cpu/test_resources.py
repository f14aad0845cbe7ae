"""Built-in functions on arrays that are not small: memory of the pool, threads, and the next path without either."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tensocket_cpu.native as native
from tensocket_cpu.device import CpuDevice
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.plans import EntryPlan, JoinPlan, RecordedCall, ReplayPlan, WrapperLayout
from tensocket_plugins.ir.build.math import ExprMath
from tensocket_plugins.ir.build.nest import Operand, pointwise_nest
from tensocket_plugins.ir.pipeline import scheduled
from tensocket_plugins.ir.strategies import Strategy

pytestmark = pytest.mark.skipif(native.LAYOUT is None, reason="this interpreter or NumPy has another layout")

F4 = dtypes.float32
LIMIT = 1 << 17
#: Elements of arrays in the pool; with this many, threads divide the kernel below, which has several operations.
POOLED, DIVIDED = 1 << 15, 1 << 16


class Holder:
    """Something with slots, one of which has an array."""

    __slots__ = ("array", "changes")

    array: Any
    changes: Any


WRAPPER = WrapperLayout(Holder, "array", (("changes", None, None),), "changes")


def hold(array: Any) -> Holder:
    made = Holder()
    made.array, made.changes = array, None
    return made


def formula(x: Any) -> Any:
    m = ExprMath(F4, F4)
    return m.exp(m.sin(x)) + m.exp(x) * m.tanh(x)


def nest() -> Any:
    return pointwise_nest("several_steps", formula, [Operand("flat", F4)], [Operand("flat", F4)], 1, dtypes.int64)


@pytest.fixture
def device() -> Iterator[CpuDevice]:
    made = CpuDevice()
    made.set_num_threads(2)
    yield made
    made.close()


@pytest.fixture
def declined() -> list[Any]:
    return []


def entry(device: CpuDevice, next_path: Callable[..., Any]) -> Any:
    assert device.target is not None
    program = scheduled(nest(), device.target, Strategy.SMALL)
    plan = EntryPlan(program, (F4,), F4, "same", ("size",), limit=LIMIT, wrapper=WRAPPER)
    return device.compile_plan(plan, next_path)


def executable(device: CpuDevice) -> Any:
    assert device.target is not None
    return device.compile_ir(scheduled(nest(), device.target, Strategy.SERIAL))


def started(device: CpuDevice, size: int = DIVIDED) -> Any:
    """Run the kernel on a large array, which starts the pool and the workers; return its executable."""
    run = executable(device)
    x = np.zeros(size, np.float32)
    run((device.empty(x.shape, F4, device.default_stream), x), (size,), device.default_stream)
    return run


def values(size: int) -> Any:
    return np.random.default_rng(size).standard_normal(size).astype(np.float32)


def expected(x: Any) -> Any:
    x = x.astype(np.float64)
    return np.exp(np.sin(x)) + np.exp(x) * np.tanh(x)


# ------------------------------------------------------------------------------------------------------------- entries


def test_the_next_path_serves_large_arrays_until_pool_and_workers_run(device: CpuDevice, declined: list[Any]) -> None:
    call = entry(device, declined.append)
    x = values(100)
    np.testing.assert_allclose(call(hold(x)).array, expected(x), rtol=1e-5)
    large = [hold(values(size)) for size in (POOLED, DIVIDED)]
    for x in large:
        assert call(x) is None
    assert declined == large
    started(device)
    for x in large:
        np.testing.assert_allclose(call(x).array, expected(x.array), rtol=1e-5)
    assert declined == large
    assert call(hold(values(LIMIT + 1))) is None


def test_large_results_come_from_the_pool_and_return_to_it(device: CpuDevice, declined: list[Any]) -> None:
    call = entry(device, declined.append)
    started(device)
    before = device.allocator.stats().allocated
    x = hold(values(DIVIDED))
    first = call(x)
    assert device.allocator.stats().allocated == before + first.array.nbytes
    assert first.array.flags.owndata
    assert first.array.ctypes.data % 64 == 0
    place = first.array.ctypes.data
    del first
    assert device.allocator.stats().allocated == before
    again = call(x)
    assert again.array.ctypes.data == place
    handler = np._core._multiarray_umath.get_handler_name  # type: ignore[attr-defined]
    assert handler() == "default_allocator"
    assert handler(np.empty(1 << 20)) == "default_allocator"


def test_the_next_path_reports_exhausted_memory(device: CpuDevice, declined: list[Any]) -> None:
    call = entry(device, declined.append)
    started(device)
    x = hold(values(DIVIDED))
    held = [call(x) for _ in range(2)]
    device.allocator.set_limit(device.allocator.stats().allocated)
    assert call(x) is None
    assert declined == [x]
    device.allocator.set_limit(None)
    device.allocator.refuse_after(1)  # which the next path has to see
    assert call(x) is None
    device.allocator.refuse_after(0)
    assert call(x) is not None
    assert len(held) == 2


def test_bits_do_not_depend_on_threads(device: CpuDevice, declined: list[Any]) -> None:
    call, run = entry(device, declined.append), started(device)
    x = values(DIVIDED + 5)
    wanted = np.empty_like(x)
    found = []
    for threads in (1, 2, 3):
        device.set_num_threads(threads)
        assert call(hold(x)) is None, "workers start in the next path"
        run((wanted, x), (x.size,), device.default_stream)
        found.append(call(hold(x)).array)
    for array in found:
        np.testing.assert_array_equal(array, wanted)


def test_references_are_neither_lost_nor_kept(device: CpuDevice, declined: list[Any]) -> None:
    call = entry(device, declined.append)
    started(device)
    x, dtype = hold(values(DIVIDED)), np.dtype(np.float32)
    watched = x, x.array, dtype, None
    before = [sys.getrefcount(item) for item in watched]
    for _ in range(200):
        call(x)
    assert max(abs(sys.getrefcount(item) - n) for item, n in zip(watched, before, strict=True)) < 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
def test_forked_children_start_their_own_workers(device: CpuDevice, declined: list[Any]) -> None:
    call, run = entry(device, declined.append), started(device)
    x = hold(values(DIVIDED))
    wanted = call(x).array
    child = os.fork()
    if not child:
        right = call(x) is None
        out = np.empty_like(wanted)
        run((out, x.array), (out.size,), device.default_stream)
        right = right and np.array_equal(call(x).array, wanted) and np.array_equal(out, wanted)
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(call(x).array, wanted)


# ------------------------------------------------------------------------------------------------- replays and joins


def replay(device: CpuDevice, run: Any, x: Any, next_path: Callable[..., Any]) -> Any:
    """Replay the kernel on its own result."""
    def function(x: Any) -> RecordedCall:
        inner, out = (device.empty(x.shape, F4, device.default_stream) for _ in range(2))
        run((inner, x), (x.size,), device.default_stream)
        run((out, inner), (x.size,), device.default_stream)
        return RecordedCall((out,), (WRAPPER,), False)

    return device.compile_plan(ReplayPlan(function, {0: x}, {}, lambda arrays: device.default_stream), next_path)


def test_replays_of_divided_launches(device: CpuDevice, declined: list[Any]) -> None:
    x = values(DIVIDED)
    run = started(device)
    call = replay(device, run, x, declined.append)
    inner, wanted = np.empty_like(x), np.empty_like(x)
    run((inner, x), (x.size,), device.default_stream)
    run((wanted, inner), (x.size,), device.default_stream)
    before = device.allocator.stats().allocated
    found = call(hold(x))
    np.testing.assert_array_equal(found.array, wanted)
    assert device.allocator.stats().allocated == before + x.nbytes
    assert declined == []
    device.set_num_threads(2)
    assert call(hold(x)) is None, "workers start in the next path"
    device.allocator.set_limit(1)
    device.allocator.empty_cache()
    run((inner, x), (x.size,), device.default_stream)
    assert call(hold(x)) is None, "the pool is exhausted"
    device.allocator.set_limit(None)
    np.testing.assert_array_equal(call(hold(x)).array, wanted)


def test_large_joins(device: CpuDevice, declined: list[Any]) -> None:
    call = device.compile_plan(JoinPlan(F4, WRAPPER), declined.append)
    assert call is not None
    parts = [hold(values(size)) for size in (POOLED, POOLED, 7)]
    assert call(parts) is None
    started(device)
    np.testing.assert_array_equal(call(parts).array, np.concatenate([part.array for part in parts]))
    assert call(parts * 5) is None, "threads may share the copies"
