"""Transposing nests, scheduled for a processor."""

from __future__ import annotations

import numpy as np
import pytest

from tensocket_plugins.contract.dtypes import DType, float32, int8, int32
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.nodes import Buffer, Kernel, Load, LoopKind, Program, Scalar, Stmt, Store, Var, loop
from tensocket_plugins.ir.schedule import schedule
from tensocket_plugins.ir.strategies import Strategy
from tensocket_plugins.ir.target import Target
from tensocket_plugins.ir.verify import verify


def _transposed(dtype: DType) -> Program:
    """``out[b, i, j] = in0[b, j, i] + in1[b, i, j]``; sizes are arguments."""
    b, i, j, k, n, m = (Var(name, int32) for name in "bijknm")
    turned, straight = Load("in0", b * (n * m) + j * n + i, dtype), Load("in1", b * (n * m) + i * m + j, dtype)
    body: tuple[Stmt, ...] = (Store("out", b * (n * m) + i * m + j, turned + straight),)
    for var, size in ((j, m), (i, n), (b, k)):
        body = (loop(var, size, body, LoopKind.PARALLEL),)
    params = (Buffer("out", dtype, True), Buffer("in0", dtype), Buffer("in1", dtype),
              *(Scalar(name, int32) for name in "knm"))
    return Program("turn", params, (Kernel("turn", body),))


@pytest.mark.parametrize(("dtype", "sizes"), [(float32, (2, 16, 16)), (float32, (1, 20, 33)), (int8, (1, 66, 65))])
def test_transposing_nests_of_a_processor_go_through_squares(dtype: DType, sizes: tuple[int, int, int]) -> None:
    scheduled = schedule(_transposed(dtype), Target(kind="cpu"), Strategy.SERIAL)
    verify(scheduled)
    side = 64 if dtype is int8 else 16
    assert [local.size for local in scheduled.kernels[0].locals] == [side * side] * 2
    k, n, m = sizes
    turned = np.arange(k * m * n).reshape(k, m, n).astype(dtype.numpy)
    straight = np.arange(k * m * n)[::-1].reshape(k, n, m).astype(dtype.numpy)
    out = np.zeros((k, n, m), dtype.numpy)
    interpret(scheduled, [out.reshape(-1), turned.reshape(-1), straight.reshape(-1)], [*sizes])
    np.testing.assert_array_equal(out, turned.transpose(0, 2, 1) + straight)


def test_nests_that_lie_along_one_axis_are_left_alone() -> None:
    i, j, n, m = (Var(name, int32) for name in "ijnm")
    body = loop(i, n, [loop(j, m, [Store("out", i * m + j, Load("in0", i * m + j, float32))], LoopKind.PARALLEL)],
                LoopKind.PARALLEL)
    params = (Buffer("out", float32, True), Buffer("in0", float32), Scalar("n", int32), Scalar("m", int32))
    program = Program("copy", params, (Kernel("copy", (body,)),))
    assert not schedule(program, Target(kind="cpu"), Strategy.SERIAL).kernels[0].locals
