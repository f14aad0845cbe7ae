"""The interpreter on scheduled programs: groups, lanes, local memory, barriers, vectors and atomics."""

from __future__ import annotations

import numpy as np
import pytest

from tensocket_plugins.contract.dtypes import float32, float64, int32, int64
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.nodes import (
    Assign,
    Atomic,
    Barrier,
    Buffer,
    Declare,
    If,
    IRError,
    Kernel,
    Let,
    Load,
    Local,
    LoopKind,
    Program,
    Scalar,
    Store,
    Var,
    call,
    cast,
    const,
    loop,
)

I, J, K, N = (Var(name, int32) for name in ("i", "j", "k", "n"))
P, G, L = LoopKind.PARALLEL, LoopKind.GROUP, LoopKind.LANE


def program(*kernels, params):
    return Program("test", tuple(params), kernels)


def kernel(*body, locals=()):
    return Kernel("kernel", body, tuple(locals))


def tree_sum(barriers=True):
    """Each of n groups sums 64 elements with 16 lanes through local memory."""
    partial = Var("partial", float64)
    tile = Load("tile", J, float64)
    wait = (Barrier(),) if barriers else ()
    lane = [
        Declare(partial, const(0.0, float64)),
        loop(K, 64, [Assign(partial, partial + Load("x", I * 64 + K, float64))], start=J, step=16),
        Store("tile", J, partial), *wait,
        *(s for half in (8, 4, 2, 1) for s in (
            If(const(half, int32) > J, (Store("tile", J, tile + Load("tile", J + half, float64)),)), *wait)),
        If(call("eq", J, 0), (Store("out", I, Load("tile", const(0, int32), float64)),)),
    ]
    return program(kernel(loop(I, N, [loop(J, 16, lane, L)], G), locals=[Local("tile", float64, 16)]),
                   params=[Buffer("x", float64), Buffer("out", float64, True), Scalar("n", int32)])


def test_local_memory_tree(rng, monkeypatch):
    x = rng.standard_normal((700, 64))
    out = np.zeros(700)
    interpret(tree_sum(), [x, out], [700])
    assert np.allclose(out, x.sum(1), atol=1e-12)


def test_missing_barrier_is_noticed(rng):
    with pytest.raises(IRError, match=r"race on tile\[.*one lane reads what another wrote since the last barrier"):
        interpret(tree_sum(barriers=False), [rng.standard_normal((2, 64)), np.zeros(2)], [2])


@pytest.mark.parametrize(("stores", "message"), [
    ([Store("tile", J, J), Barrier(), Let(K, Load("tile", J, int32)), Store("tile", (J + 1) % 4, J)],
     r"race on tile\[.*one lane writes what another read"),
    ([Store("tile", const(0, int32), J)], r"race on tile\[0\].*one lane writes what another wrote"),
    ([Store("tile", J + 1, J)], r"store to tile\[4\]: the array has elements 0 to 3"),
    ([Let(K, Load("tile", J - 1, int32))], r"load from tile\[-1\]: the array has elements 0 to 3"),
])
def test_misuse_of_local_memory_is_noticed(stores, message):
    with pytest.raises(IRError, match=message):
        interpret(program(kernel(loop(I, 2, [loop(J, 4, stores, L)], G), locals=[Local("tile", int32, 4)]),
                          params=[]), [], [])


def test_vector_loop_and_guarded_tail():
    x, out = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    v, at = Var("v", int32), Var("at", int32)
    body = loop(I, (N + 7) // 8, [loop(J, 2, [loop(v, 4, [
        Let(at, (I * 2 + J) * 4 + v),
        If(at < N, (Store("out", at, Load("x", at, float32) + 1.0),))], LoopKind.VECTOR)], L)], G)
    interpret(program(kernel(body), params=[Buffer("x", float32), Buffer("out", float32, True), Scalar("n", int32)]),
              [x, out], [10])
    assert np.array_equal(out, x + 1)


@pytest.mark.parametrize(("function", "start", "expected"), [("add", 10, 10 + 45), ("max", 3, 9), ("min", 3, 0)])
def test_atomics_count_every_iteration(function, start, expected):
    for value in (I, cast(I, float32), cast(I, int64)):
        out = np.full(2, start, value.dtype.numpy)
        body = loop(I, 10, [Atomic(function, "out", const(1, int32), value)], P)
        interpret(program(kernel(body), params=[Buffer("out", value.dtype, True)]), [out], [])
        assert out.tolist() == [start, expected]


def test_atomics_of_an_equal_value_count_and_masks_hold():
    out = np.zeros(1, np.float64)
    count = Atomic("add", "out", const(0, int32), const(1.0, float64))
    interpret(program(kernel(loop(I, 10, [count, If(I < 3, (count,))], P)), params=[Buffer("out", float64, True)]),
              [out], [])
    assert out[0] == 13
