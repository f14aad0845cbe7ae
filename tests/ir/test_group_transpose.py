"""Transposing nests on groups of lanes pass through tiles in local memory."""

from __future__ import annotations

import numpy as np
import pytest

from tensocket_plugins.contract.dtypes import bfloat16, float32, float64, int8, int32
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.nodes import Buffer, Kernel, Load, LoopKind, Program, Scalar, Store, Var, loop
from tensocket_plugins.ir.pipeline import scheduled
from tensocket_plugins.ir.printers.c import print_c
from tensocket_plugins.ir.printers.dialect import CUDA
from tensocket_plugins.ir.strategies import Strategy
from tensocket_plugins.ir.target import Target

B, I, J, K, M, N = (Var(name, int32) for name in "bijkmn")
TARGETS = [Target("simt", group_size=256), Target("simt", group_size=16), Target("simt", group_size=64, max_groups=2)]
SIZES = [(1, 1), (1, 70), (70, 1), (3, 40), (40, 3), (32, 32), (33, 65), (100, 31), (5, 700)]
each_target = pytest.mark.parametrize("target", TARGETS, ids=["gpu", "small", "limited"])


def nest(dtype, plus=False, doubled=False):
    """``out[b, i, j] = a[b, j, i]``, perhaps plus ``c[b, i, j]``; ``b`` below k, ``i`` below m, ``j`` below n."""
    place = (B * M + I) * N + J
    value = Load("a", (B * N + J) * M + I, dtype)
    if plus:
        value = value + Load("c", place, dtype) + Load("row", I * 1 + J * 0, dtype)
    inner = loop(B, K, [loop(I, M, [loop(J, N, [Store("out", place, value + value if doubled else value)],
                                         LoopKind.PARALLEL)], LoopKind.PARALLEL)], LoopKind.PARALLEL)
    others = (Buffer("c", dtype), Buffer("row", dtype)) if plus else ()
    params = (Buffer("a", dtype), *others, Buffer("out", dtype, writable=True), *(Scalar(s, int32) for s in "kmn"))
    return Program("turn", params, (Kernel("turn", (inner,)),))


def tiles(program):
    return [local.size for local in program.kernels[0].locals if not local.private]


@each_target
@pytest.mark.parametrize(("m", "n"), SIZES)
def test_elements_arrive_where_they_belong(opencl, m, n, target):
    program = scheduled(nest(float32), target, Strategy.SERIAL)
    assert len(tiles(program)) == 1
    a = np.arange(2 * m * n, dtype=np.float32).reshape(2, n, m)
    for execute in (interpret, opencl):
        out = np.full(2 * m * n, -1, np.float32)
        execute(program, [a.ravel().copy(), out], [2, m, n])
        np.testing.assert_array_equal(out.reshape(2, m, n), a.transpose(0, 2, 1))


@pytest.mark.parametrize("dtype", [int8, float64], ids=str)
def test_elements_of_other_sizes(opencl, dtype):
    program = scheduled(nest(dtype), TARGETS[0], Strategy.SERIAL)
    a = np.random.default_rng(0).integers(-99, 99, (3, 70, 140)).astype(dtype.numpy)
    for execute in (interpret, opencl):
        out = np.zeros(a.size, dtype.numpy)
        execute(program, [a.ravel().copy(), out], [3, 140, 70])
        np.testing.assert_array_equal(out.reshape(3, 140, 70), a.transpose(0, 2, 1))


@each_target
def test_operands_along_the_results_need_no_tile(opencl, target):
    program = scheduled(nest(float32, plus=True), target, Strategy.SERIAL)
    assert len(tiles(program)) == 1
    rng = np.random.default_rng(1)
    a, c, row = rng.random((2, 50, 41), np.float32), rng.random((2, 41, 50), np.float32), rng.random(41, np.float32)
    for execute in (interpret, opencl):
        out = np.zeros(a.size, np.float32)
        execute(program, [a.ravel().copy(), c.ravel().copy(), row.copy(), out], [2, 41, 50])
        np.testing.assert_array_equal(out.reshape(2, 41, 50), a.transpose(0, 2, 1) + c + row[:, None])


def test_an_operand_that_is_used_twice_has_one_tile():
    assert len(tiles(scheduled(nest(float32, doubled=True), TARGETS[0], Strategy.SERIAL))) == 1


def test_tiles_that_do_not_fit_are_not_made():
    assert not tiles(scheduled(nest(float64), Target("simt", local_bytes=1 << 10), Strategy.SERIAL))
    assert not tiles(scheduled(nest(float32), Target("simt", sequential=True), Strategy.SERIAL))


def test_cuda_keeps_what_it_reads_in_registers():
    pytest.importorskip("cuda.bindings")
    from tensocket_cuda.compiler import build

    for dtype, batch in ((float32, 4), (bfloat16, 8)):
        code = build(print_c(scheduled(nest(dtype), TARGETS[0], Strategy.SERIAL), CUDA), "compute_90").decode()
        assert code.count("ld.global") >= batch
        assert ".local" not in code
