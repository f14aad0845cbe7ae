"""Every schedule of every form of nest gives what NumPy computes in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tensocket_plugins.contract.dtypes import DType, float32, int32, int64
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.nodes import (
    Buffer,
    Call,
    Combine,
    Const,
    For,
    IRError,
    Kernel,
    Let,
    Load,
    Local,
    LoopKind,
    Param,
    Program,
    Reduce,
    Scalar,
    Store,
    Var,
    call,
    cast,
    const,
    loop,
    select,
)
from tensocket_plugins.ir.schedule import Strategy, pick_strategy, schedule
from tensocket_plugins.ir.schedule.nest import product, walk
from tensocket_plugins.ir.schedule.reduce import splittable
from tensocket_plugins.ir.target import Target

PARALLEL = LoopKind.PARALLEL
SIMT = Target("simt", group_size=16, max_group_size=64, parallelism=8)
LIMITED = Target("simt", group_size=8, max_group_size=256, max_groups=3, parallelism=8)
BARE = Target("simt", group_size=32, local_bytes=0)
CPU = Target("cpu", parallelism=8)
TARGETS = {"simt": SIMT, "limited": LIMITED, "bare": BARE, "cpu": CPU}
SIZES = [0, 1, 7, 31, 97, 257]


@dataclass
class Case:
    """A nest with arguments and what it should leave in the last buffers."""

    program: Program
    inputs: list[np.ndarray[Any, Any]]
    expected: list[np.ndarray[Any, Any]]
    scalars: list[int]
    tolerance: float = 1e-5

    def run(self, program: Program) -> list[np.ndarray[Any, Any]]:
        outs = [np.full(e.shape, 77, b.dtype.numpy) for e, b in
                zip(self.expected, self.program.buffers[len(self.inputs):], strict=True)]
        interpret(program, [*self.inputs, *outs], self.scalars)
        return outs

    def check(self, program: Program) -> None:
        for actual, expected in zip(self.run(program), self.expected, strict=True):
            np.testing.assert_allclose(actual, expected, rtol=self.tolerance, atol=self.tolerance)


def v(name: str, dtype: DType = int32) -> Var:
    return Var(name, dtype)


def nest(axes: list[tuple[str, Any]], body: list[Any], index: DType = int32) -> tuple[Any, ...]:
    inside = tuple(body)
    for name, stop in reversed(axes):
        inside = (loop(v(name, index), stop, inside, PARALLEL),)
    return inside


def total(result: Var, loops: list[tuple[str, Any]], value: Any, body: tuple[Let, ...] = (), function: str = "add",
          identity: float = 0, index: DType = int32) -> Reduce:
    left, right = Var(f"{result.name}_left", result.dtype), Var(f"{result.name}_right", result.dtype)
    return Reduce((result,), tuple((v(name, index), stop) for name, stop in loops), body, (value,),
                  (const(identity, result.dtype),), Combine((left,), (right,), (call(function, left, right),)))


def program(name: str, inputs: dict[str, DType], outputs: dict[str, DType], sizes: list[str], body: tuple[Any, ...],
            index: DType = int32) -> Program:
    params: list[Param] = [Buffer(n, d) for n, d in inputs.items()]
    params += [Buffer(n, d, writable=True) for n, d in outputs.items()]
    params += [Scalar(n, index) for n in sizes]
    return Program(name, tuple(params), (Kernel(name, body),))


def data(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def doubles(*arrays: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    return [a.astype(np.float64) for a in arrays]


def flat_add(n: int) -> Case:
    i = v("i")
    body = nest([("i", v("n"))], [Store("out", i, Load("a", i, float32) + Load("b", i, float32))])
    a, b = data(n), data(n)[::-1].copy()
    return Case(program("add", {"a": float32, "b": float32}, {"out": float32}, ["n"], body), [a, b], [a + b], [n], 0)


def strided(n: int) -> Case:
    """out[i, j, k] = a[k, j, i] * i, in int64 arithmetic."""
    i, j, k = (v(name, int64) for name in "ijk")
    n0, n1, n2 = (v(f"n{d}", int64) for d in range(3))
    let = Let(v("x", float32), Load("a", (k * n1 + j) * n0 + i, float32))
    body = nest([("i", n0), ("j", n1), ("k", n2)],
                [let, Store("out", (i * n1 + j) * n2 + k, v("x", float32) * cast(i, float32))], int64)
    a = data(n, 3, 5)
    expected = a.transpose(2, 1, 0) * np.arange(5, dtype=np.float32)[:, None, None]
    return Case(program("strided", {"a": float32}, {"out": float32}, ["n0", "n1", "n2"], body, int64), [a], [expected],
                [5, 3, n], 0)


def single(n: int) -> Case:
    """No loop at all: one iteration, whatever ``n``."""
    zero = const(0, int32)
    body = (Store("out", zero, Load("a", zero, float32) + 1.0),)
    a = data(1)
    return Case(program("single", {"a": float32}, {"out": float32}, [], body), [a], [a + np.float32(1)], [], 0)


def row_sum(n: int) -> Case:
    i, k, r = v("i"), v("k"), v("total", float32)
    body = nest([("i", v("m"))], [
        total(r, [("k", v("n"))], Load("a", i * v("n") + k, float32)),
        Let(v("mean", float32), r * 0.5),
        Store("out", i, v("mean", float32)),
    ])
    a = data(5, n)
    return Case(program("row_sum", {"a": float32}, {"out": float32}, ["m", "n"], body), [a],
                [a.astype(np.float64).sum(1) / 2], [5, n])


def sum_all(n: int) -> Case:
    """A sum over two loops that leaves one number."""
    i, k, r = v("i"), v("k"), v("total", float32)
    body = (total(r, [("i", v("m")), ("k", v("n"))], Load("a", i * v("n") + k, float32)),
            Store("out", const(0, int32), r))
    a = data(n, 13)
    return Case(program("sum_all", {"a": float32}, {"out": float32}, ["m", "n"], body), [a],
                [a.astype(np.float64).sum(keepdims=True)[:, 0]], [n, 13])


def sum_middle(n: int) -> Case:
    """out[i, j] = sum over p, q of a[p, i, q, j]."""
    i, j, p, q, r = v("i"), v("j"), v("p"), v("q"), v("total", float32)
    n0, n1, n2, n3 = (v(f"n{d}") for d in range(4))
    let = Let(v("x", float32), Load("a", ((p * n1 + i) * n2 + q) * n3 + j, float32))
    body = nest([("i", n1), ("j", n3)], [
        total(r, [("p", n0), ("q", n2)], v("x", float32), (let,)), Store("out", i * n3 + j, r)])
    a = data(3, 2, n, 4)
    return Case(program("sum_middle", {"a": float32}, {"out": float32}, ["n0", "n1", "n2", "n3"], body), [a],
                [a.astype(np.float64).sum((0, 2))], [3, 2, n, 4])


def argmax(n: int) -> Case:
    """Two accumulators; the lowest index wins among equal values."""
    i, k = v("i"), v("k")
    best, where = v("best", float32), v("where", int32)
    lv, rv, li, ri = v("lv", float32), v("rv", float32), v("li"), v("ri")
    takes = (lv > rv) | (call("eq", lv, rv) & (li <= ri))
    combine = Combine((lv, li), (rv, ri), (select(takes, lv, rv), select(takes, li, ri)))
    reduce = Reduce((best, where), ((k, v("n")),), (), (Load("a", i * v("n") + k, float32), k),
                    (const(-np.inf, float32), const(2**31 - 1, int32)), combine)
    body = nest([("i", v("m"))], [reduce, Store("value", i, best), Store("index", i, where)])
    a = np.round(data(6, n))
    none = np.full(6, -np.inf), np.full(6, 2**31 - 1)
    expected = none if n == 0 else (a.max(1), a.argmax(1))
    return Case(program("argmax", {"a": float32}, {"value": float32, "index": int32}, ["m", "n"], body), [a],
                list(expected), [6, n], 0)


def maximum(n: int) -> Case:
    """NaN wins; infinities are ordinary."""
    i, k, r = v("i"), v("k"), v("best", float32)
    body = nest([("i", v("m"))], [
        total(r, [("k", v("n"))], Load("a", i * v("n") + k, float32), function="max", identity=-np.inf),
        Store("out", i, r)])
    a = data(4, n)
    if n:
        a[0, -1], a[1, 0], a[2, n // 2] = np.nan, np.inf, -np.inf
    return Case(program("maximum", {"a": float32}, {"out": float32}, ["m", "n"], body), [a],
                [a.max(1, initial=-np.inf)], [4, n], 0)


def softmax(n: int) -> Case:
    """Two reductions, then a PARALLEL loop."""
    i, j, k, p = v("i"), v("j"), v("k"), v("p")
    best, scale = v("best", float32), v("scale", float32)
    x = Load("a", i * v("n") + k, float32)
    body = nest([("i", v("m"))], [
        total(best, [("k", v("n"))], x, function="max", identity=-np.inf),
        total(scale, [("p", v("n"))], call("exp", Load("a", i * v("n") + p, float32) - best)),
        loop(j, v("n"), [Store("out", i * v("n") + j,
                               call("exp", Load("a", i * v("n") + j, float32) - best) / scale)], PARALLEL),
    ])
    a = data(9, n)
    e = np.exp(a.astype(np.float64))
    return Case(program("softmax", {"a": float32}, {"out": float32}, ["m", "n"], body), [a],
                [e / e.sum(1, keepdims=True)], [9, n])


def normalize(n: int) -> Case:
    """Statistics stored per row and read back by two nested PARALLEL loops, which write what a last reduction reads."""
    i, k, j, c = v("i"), v("k"), v("j"), v("c")
    s, check = v("s", float32), v("check", float32)
    at = (i * v("n") + j) * 2 + c
    body = nest([("i", v("m"))], [
        total(s, [("k", v("n") * 2)], Load("a", i * v("n") * 2 + k, float32)),
        Store("stat", i, s),
        loop(j, v("n"), [loop(c, 2, [
            Store("out", at, Load("a", at, float32) - Load("stat", i, float32))], PARALLEL)], PARALLEL),
        total(check, [("q", v("n") * 2)], Load("out", i * v("n") * 2 + v("q"), float32)),
        Store("sum", i, check),
    ])
    a = data(4, n, 2)
    b = a.astype(np.float64)
    stat = b.sum((1, 2))
    out = b - stat[:, None, None]
    return Case(program("normalize", {"a": float32}, {"stat": float32, "out": float32, "sum": float32}, ["m", "n"],
                        body), [a], [stat, out, out.sum((1, 2))], [4, n], 2e-4 * max(n, 1))


def matmul_nest(dtype: DType, bias: bool) -> Program:
    b, m, n, k = v("b"), v("m"), v("n"), v("k")
    M, N, K = v("M"), v("N"), v("K")
    r = v("acc", dtype)
    x, y = v("x", dtype), v("y", dtype)
    lets = (Let(x, Load("left", (b * M + m) * K + k, dtype)), Let(y, Load("right", (b * K + k) * N + n, dtype)))
    at = (b * M + m) * N + n
    tail = r + Load("bias", n, dtype) if bias else r
    body = nest([("b", v("B")), ("m", M), ("n", N)], [total(r, [("k", K)], x * y, lets), Store("out", at, tail)])
    inputs = {"left": dtype, "right": dtype, **({"bias": dtype} if bias else {})}
    return program("matmul", inputs, {"out": dtype}, ["B", "M", "N", "K"], body)


def matmul(n: int) -> Case:
    """A batch of two products, float, with a bias."""
    left, right, bias = data(2, 37, n), data(2, n, 33), data(33)
    a, b, c = doubles(left, right, bias)
    return Case(matmul_nest(float32, bias=True), [left, right, bias], [a @ b + c], [2, 37, 33, n], 1e-4)


def matmul_int(n: int) -> Case:
    rng = np.random.default_rng(n)
    left, right = rng.integers(-9, 9, (1, n, 21), np.int32), rng.integers(-9, 9, (1, 21, 70), np.int32)
    return Case(matmul_nest(int32, bias=False), [left, right], [left @ right], [1, n, 70, 21], 0)


FORMS: list[Callable[[int], Case]] = [flat_add, strided, single, row_sum, sum_all, sum_middle, argmax, maximum, softmax,
                                      normalize, matmul, matmul_int]


def forms(test: Callable[..., None]) -> Callable[..., None]:
    return pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)(test)


@forms
@pytest.mark.parametrize("n", SIZES)
def test_unscheduled_nest_is_right(form: Callable[[int], Case], n: int) -> None:
    case = form(n)
    case.check(case.program)


@forms
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("strategy", Strategy, ids=lambda s: s.value)
def test_schedule_is_right(form: Callable[[int], Case], target: str, strategy: Strategy) -> None:
    scheduled = schedule(form(1).program, TARGETS[target], strategy)
    for n in SIZES:
        form(n).check(scheduled)


@forms
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("strategy", Strategy, ids=lambda s: s.value)
def test_scheduled_kernels_use_only_what_the_target_has(form: Callable[[int], Case], target: str,
                                                        strategy: Strategy) -> None:
    scheduled = schedule(form(1).program, TARGETS[target], strategy)
    for kernel in scheduled.kernels:
        kinds = {statement.kind for statement in walk(kernel.body) if isinstance(statement, For)}
        assert not any(isinstance(statement, Reduce) for statement in walk(kernel.body))
        if target == "cpu":
            assert not kinds & {LoopKind.GROUP, LoopKind.LANE}
        else:
            assert LoopKind.PARALLEL not in kinds
            group = kernel.body[0]
            assert isinstance(group, For)
            assert group.kind is LoopKind.GROUP
            lane = group.body[0]
            assert isinstance(lane, For)
            assert lane.kind is LoopKind.LANE
        if target == "bare":
            assert not kernel.locals


def test_long_reduction_is_split_over_parts_that_cover_it() -> None:
    """A length beyond the grain, not divisible by the number of parts."""
    n = 100_003
    for target in (SIMT, LIMITED, CPU):
        case = row_sum(n)
        scheduled = schedule(case.program, target, Strategy.SPLIT)
        assert len(scheduled.kernels) == 2
        assert len(scheduled.temporaries) == 1
        case.check(scheduled)
        case = argmax(40_009)
        scheduled = schedule(case.program, target, Strategy.SPLIT)
        assert len(scheduled.temporaries) == 2
        case.check(scheduled)


@pytest.mark.parametrize(("target", "strategy", "n"), [
    (CPU, Strategy.GROUP, 300_000), (SIMT, Strategy.GROUP, 300_000), (CPU, Strategy.SERIAL, 20_000),
    (SIMT, Strategy.SERIAL, 20_000),
])
def test_rounding_errors_of_long_float32_sums_stay_small(target: Target, strategy: Strategy, n: int) -> None:
    """Equal numbers make all errors point the same way; one after the other they are off by more than 5e-5 here."""
    a = np.full((1, n), 0.1, np.float32)
    exact = np.float64(np.float32(0.1)) * n
    out = np.zeros(1, np.float32)
    interpret(schedule(row_sum(1).program, target, strategy), [a, out], [1, n])
    assert abs(out[0] * 2 / exact - 1) < 3e-6
    assert abs(np.cumsum(a[0])[-1] / exact - 1) > 2e-5


def test_rows_are_not_split() -> None:
    for form in (softmax, normalize):
        kernel = form(1).program.kernels[0]
        assert not splittable(kernel)
        assert len(schedule(form(1).program, SIMT, Strategy.SPLIT).kernels) == 1


def test_matrix_product_is_tiled_where_the_target_can() -> None:
    scheduled = schedule(matmul(1).program, SIMT, Strategy.SERIAL)
    assert len(scheduled.kernels[0].locals) == 2
    small = Target("simt", group_size=32, max_group_size=32)
    case = matmul(40)
    untiled = schedule(case.program, small, Strategy.SERIAL)
    assert not untiled.kernels[0].locals
    case.check(untiled)


def test_sum_of_something_else_is_not_a_matrix_product() -> None:
    """sum of (left + right) must not be padded with zeros."""
    product = matmul_nest(float32, bias=False)
    nest_ = product.kernels[0].body
    (batch,) = nest_
    assert isinstance(batch, For)
    rows = batch.body[0]
    assert isinstance(rows, For)
    columns = rows.body[0]
    assert isinstance(columns, For)
    reduce, store = columns.body
    assert isinstance(reduce, Reduce)
    value = reduce.values[0]
    assert isinstance(value, Call)
    other = Reduce(reduce.results, reduce.loops, reduce.body, (value.args[0] + value.args[1],), reduce.identity,
                   reduce.combine)
    body = loop(batch.var, batch.stop, [loop(rows.var, rows.stop, [
        loop(columns.var, columns.stop, [other, store], PARALLEL)], PARALLEL)], PARALLEL)
    scheduled = schedule(Program("p", product.params, (Kernel("p", (body,)),)), SIMT, Strategy.SERIAL)
    assert not scheduled.kernels[0].locals


def test_interpreter_gets_the_nest_itself() -> None:
    nest_ = softmax(3).program
    assert schedule(nest_, Target("interpreter"), Strategy.GROUP) is nest_


def test_scheduled_program_is_not_scheduled_again() -> None:
    done = Program("p", (), (Kernel("p", (), (Local("shared", float32, 4),)),))
    with pytest.raises(IRError, match="scheduled already"):
        schedule(done, SIMT, Strategy.SERIAL)


def test_names_of_the_nest_do_not_clash_with_new_ones() -> None:
    """A nest that uses the names that schedules like best."""
    group, lane = v("group"), v("lane")
    body = nest([("group", v("id"))], [
        total(v("shared_f32", float32), [("lane", v("at"))], Load("a", group * v("at") + lane, float32)),
        Store("out", group, v("shared_f32", float32)),
    ])
    a = data(9, 50)
    case = Case(program("p", {"a": float32}, {"out": float32}, ["id", "at"], body), [a],
                [a.astype(np.float64).sum(1)], [9, 50])
    for target in TARGETS.values():
        for strategy in Strategy:
            case.check(schedule(case.program, target, strategy))


@pytest.mark.parametrize(("outer", "length", "target", "expected"), [
    (10, 1, SIMT, Strategy.SERIAL),
    (10, 64, SIMT, Strategy.SERIAL),
    (10, 65, SIMT, Strategy.GROUP),
    (7, 10**6, SIMT, Strategy.SPLIT),
    (8, 10**6, SIMT, Strategy.GROUP),
    (8 * 16, 1000, SIMT, Strategy.SERIAL),
    (10, 1000, BARE, Strategy.SERIAL),
    (1, 10**6, BARE, Strategy.SPLIT),
    (10**6, 1000, CPU, Strategy.GROUP),
    (10**6, 10, CPU, Strategy.SERIAL),
    (1, 10**6, CPU, Strategy.SPLIT),
])
def test_strategy_follows_sizes(outer: int, length: int, target: Target, expected: Strategy) -> None:
    assert pick_strategy(outer, length, target) is expected


def test_constant_sizes_are_folded() -> None:
    assert isinstance(product([const(3, int32), const(5, int32)], int32), Const)
    sized = product([v("n"), const(3, int32), const(5, int32)], int32)
    assert isinstance(sized, Call)
    assert isinstance(sized.args[1], Const)
    assert sized.args[1].value == 15
