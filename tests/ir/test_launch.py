"""Host evaluation of sizes, and the geometry of launches."""

from __future__ import annotations

import pytest

from tensocket_plugins.contract.dtypes import float32, int32, int64
from tensocket_plugins.ir.launch import evaluate, geometry, host_function
from tensocket_plugins.ir.nodes import Const, IRError, Kernel, Load, LoopKind, Var, call, cast, const, loop, select

N, M = Var("n", int32), Var("m", int32)


@pytest.mark.parametrize(("expr", "expected"), [
    (N + 3, 20),
    (M - N, -22),
    (N * M, -85),
    (-N, -17),
    (abs(M), 5),
    (N // 5, 3),
    (M // 2, -2),  # towards zero
    (M % 2, -1),
    (N % 5, 2),
    (call("min", N, M), -5),
    (call("max", N, 40), 40),
    (select(N < 20, N, M), 17),
    (select(call("eq", N, M) | (M <= -5), 1, N), 1),
    (select((N > 0) & (M > 0), N, M), -5),
    (select(call("ne", N, M), N, M), 17),
    (N << 3, 136),
    (N >> 2, 4),
    (cast(N, int64) * (1 << 40), 17 << 40),
    (const(7, int32), 7),
])
def test_integer_arithmetic_is_evaluated(expr, expected):
    assert evaluate(expr, {"n": 17, "m": -5}) == expected


def test_sizes_do_not_overflow():
    assert evaluate(N * N, {"n": 1 << 40}) == 1 << 80


def test_several_expressions_are_evaluated_by_one_function():
    function = host_function((N, N + M))
    assert function({"n": 1, "m": 2}) == (1, 3)
    assert host_function(())({}) == ()


@pytest.mark.parametrize("expr", [
    Load("a", N, int32), const(1.5, float32), Var("x", float32) + 1.0, call("sqrt", Var("x", float32)),
])
def test_what_the_host_cannot_evaluate_is_an_error(expr):
    with pytest.raises(IRError, match="the host cannot evaluate"):
        evaluate(expr, {"n": 1, "x": 1})


def test_missing_scalar_is_named():
    with pytest.raises(KeyError, match="n"):
        evaluate(N + 1, {})


def lanes(size, body=(), stop=None):
    return loop(Var(f"l{size}", int32), size if stop is None else stop, body, LoopKind.LANE)


def groups(stop, *body):
    return loop(Var("g", int32), stop, body, LoopKind.GROUP)


def test_last_loop_is_the_fastest_axis():
    kernel = Kernel("k", (groups(N, groups((N + 15) // 16, lanes(4, [lanes(16)]))),))
    assert geometry(kernel)({"n": 40}) == ((3, 40), (16, 4))


@pytest.mark.parametrize(("body", "expected"), [
    ((), ((1,), (1,))),
    ((groups(N),), ((7,), (1,))),
    ((lanes(8),), ((1,), (8,))),
    ((groups(N, groups(3, lanes(8))),), ((3, 7), (8, 1))),
    ((groups(N, lanes(2, [lanes(4)])),), ((7, 1), (4, 2))),
    ((groups(N - 7, lanes(8)),), ((0,), (8,))),
    # Only loops around everything else are part of the launch.
    ((groups(2), groups(3)), ((1,), (1,))),
])
def test_grid_and_group_have_equally_many_axes(body, expected):
    assert geometry(Kernel("k", body))({"n": 7}) == expected


def test_lane_extents_are_constants():
    with pytest.raises(IRError, match="not constant"):
        geometry(Kernel("k", (lanes(0, stop=N),)))


def test_a_launch_has_three_axes():
    body = lanes(2)
    for _ in range(4):
        body = groups(2, body)
    with pytest.raises(IRError, match="4 axes"):
        geometry(Kernel("k", (body,)))


def test_constant_grid():
    assert geometry(Kernel("k", (groups(Const(5, int32), lanes(32)),)))({}) == ((5,), (32,))
