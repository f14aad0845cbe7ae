"""Reductions across adjacent outputs on groups of lanes."""

from __future__ import annotations

import numpy as np
import pytest

from tensocket_plugins.contract.dtypes import bfloat16, float32, int32
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.nodes import (
    Buffer,
    Combine,
    Kernel,
    Let,
    Load,
    LoopKind,
    Program,
    Reduce,
    Scalar,
    Store,
    Var,
    cast,
    const,
    loop,
    select,
)
from tensocket_plugins.ir.pipeline import scheduled
from tensocket_plugins.ir.printers.c import print_c
from tensocket_plugins.ir.printers.dialect import CUDA
from tensocket_plugins.ir.schedule.group_columns import is_across
from tensocket_plugins.ir.strategies import Strategy, pick_strategy
from tensocket_plugins.ir.target import Target

GPU = Target("simt", group_size=32, parallelism=2)
LIMITED = Target("simt", group_size=16, max_groups=3, parallelism=2)
B, I, J, M, N, K = (Var(name, int32) for name in "bijmnk")
HALF = Target("simt", group_size=256, max_group_size=1024, local_bytes=48 << 10, parallelism=528)
SIZES = [(1, 1), (5, 3), (40, 4), (37, 7), (130, 33), (70, 131), (9, 300)]


def sums(dtype=float32):
    """``out[b, i] = sum over j of a[b, j, i]``, of ``k`` matrices of ``m`` rows and ``n`` columns."""
    total, left, right, x = (Var(name, float32) for name in ("total", "left", "right", "x"))
    element = cast(Load("a", (B * M + J) * N + I, dtype), float32)
    reduce = Reduce((total,), ((J, M),), (Let(x, element),), (x,), (const(0, float32),),
                    Combine((left,), (right,), (left + right,)))
    return _program("sums", dtype, [reduce, Store("out", B * N + I, total)], [Buffer("out", float32, writable=True)])


def extremes():
    """The greatest element of each column, and the first row that has it."""
    top, left, right = (Var(name, float32) for name in ("top", "left", "right"))
    where, first, second = (Var(name, int32) for name in ("where", "first", "second"))
    takes = (left > right) | (~(right > left) & (first < second))
    reduce = Reduce((top, where), ((J, M),), (), (Load("a", (B * M + J) * N + I, float32), J),
                    (const(float("-inf"), float32), const(2**31 - 1, int32)),
                    Combine((left, first), (right, second), (select(takes, left, right),
                                                             select(takes, first, second))))
    stores = [Store("out", B * N + I, top), Store("at", B * N + I, where)]
    return _program("extremes", float32, [reduce, *stores], [
        Buffer("out", float32, writable=True), Buffer("at", int32, writable=True)])


def _program(name, dtype, body, outputs):
    inner = loop(I, N, body, LoopKind.PARALLEL)
    params = (Buffer("a", dtype), *outputs, *(Scalar(size, int32) for size in "kmn"))
    return Program(name, params, (Kernel(name, (loop(B, K, [inner], LoopKind.PARALLEL),)),))


targets = pytest.mark.parametrize("target", [GPU, LIMITED], ids=["gpu", "limited"])
strategies = pytest.mark.parametrize("strategy", [Strategy.GROUP, Strategy.SPLIT], ids=lambda s: s.value)


@targets
@strategies
@pytest.mark.parametrize(("m", "n"), SIZES)
def test_sums_are_right_on_interpreter_and_device(opencl, m, n, strategy, target):
    program = scheduled(sums(), target, strategy)
    assert len(program.kernels) == (2 if strategy is Strategy.SPLIT else 1)
    a = np.random.default_rng(m * n).standard_normal((2, m, n), np.float32)
    for execute in (interpret, opencl):
        out = np.full(2 * n, 7, np.float32)
        execute(program, [a.ravel().copy(), out], [2, m, n])
        np.testing.assert_allclose(out.reshape(2, n), a.astype(np.float64).sum(1), rtol=1e-5, atol=1e-5)


@targets
@strategies
@pytest.mark.parametrize(("m", "n"), SIZES)
def test_several_results_meet_in_local_memory(opencl, m, n, strategy, target):
    program = scheduled(extremes(), target, strategy)
    a = np.random.default_rng(m + n).integers(0, 9, (2, m, n)).astype(np.float32)
    for execute in (interpret, opencl):
        out, at = np.zeros(2 * n, np.float32), np.zeros(2 * n, np.int32)
        execute(program, [a.ravel().copy(), out, at], [2, m, n])
        np.testing.assert_array_equal(out.reshape(2, n), a.max(1))
        np.testing.assert_array_equal(at.reshape(2, n), a.argmax(1))


def test_elements_outside_of_the_matrix_are_not_read():
    a = np.ones(3 * 5, np.float32)
    for strategy in (Strategy.GROUP, Strategy.SPLIT):
        out = np.zeros(5, np.float32)
        interpret(scheduled(sums(), GPU, strategy), [a, out], [1, 3, 5])  # raises at an access outside
        assert out.tolist() == [3] * 5


def test_split_sums_are_the_same_every_time(opencl):
    a = np.random.default_rng(3).standard_normal((1, 900, 50), np.float32)
    program, seen = scheduled(sums(), GPU, Strategy.SPLIT), set()
    for _ in range(5):
        out = np.zeros(50, np.float32)
        opencl(program, [a.ravel().copy(), out], [1, 900, 50])
        seen.add(out.tobytes())
    assert len(seen) == 1


def test_cuda_reads_vectors_into_registers():
    pytest.importorskip("cuda.bindings")
    from tensocket_cuda.compiler import build

    for dtype, load in ((float32, "ld.global.v4.f32"), (bfloat16, "ld.global.v4.u32")):
        code = build(print_c(scheduled(sums(dtype), HALF, Strategy.GROUP), CUDA), "compute_90").decode()
        assert load in code
        assert ".local" not in code


def test_rows_are_not_columns():
    along = Program("p", sums().params, (Kernel("p", (loop(B, K, [loop(I, N, [Reduce(
        (Var("t", float32),), ((J, M),), (), (Load("a", (B * N + I) * M + J, float32),), (const(0, float32),),
        Combine((Var("l", float32),), (Var("r", float32),), (Var("l", float32) + Var("r", float32),))),
        Store("out", B * N + I, Var("t", float32))], LoopKind.PARALLEL)], LoopKind.PARALLEL),)),))
    assert is_across(sums().kernels[0])
    assert not is_across(along.kernels[0])


@pytest.mark.parametrize(("outer", "length", "columns", "expected"), [
    (4096, 4096, 4096, Strategy.SPLIT),
    (64 * 4096, 4096, 4096, Strategy.SERIAL),
    (128 * 1000, 4096, 50, Strategy.GROUP),
    (100, 100, 100, Strategy.SMALL),
    (4096, 64, 4096, Strategy.SERIAL),
    (3, 10**6, 3, Strategy.SPLIT),
])
def test_strategy_follows_sizes(outer, length, columns, expected):
    assert pick_strategy(outer, length, HALF, columns=columns) is expected
