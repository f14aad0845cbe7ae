"""Nests of every form that the runtime builds, with arguments and what NumPy computes in float64.

Tests of schedules and of backends share them; they load this file by its path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.dtypes import DType, float32, int32, int64
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.nodes import (
    Assign,
    Buffer,
    Combine,
    Declare,
    If,
    Kernel,
    Let,
    Load,
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

PARALLEL = LoopKind.PARALLEL
#: Sizes that meet no edge, every edge, and one beyond.
SIZES: Final = (0, 1, 7, 31, 97, 257)


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


def sum_columns(n: int) -> Case:
    """Neighbouring outputs read neighbouring elements."""
    i, k, r, x = v("i"), v("k"), v("total", float32), v("x", float32)
    one = const(1, int32)
    body = nest([("i", v("n"))], [
        total(r, [("k", v("m"))], x, (Let(x, Load("a", i * one + k * v("s"), float32)),)),
        Let(v("mean", float32), r * 0.5),
        Store("out", i, v("mean", float32)),
    ])
    a = data(41, n)
    return Case(program("sum_columns", {"a": float32}, {"out": float32}, ["m", "n", "s"], body), [a],
                [a.astype(np.float64).sum(0) / 2], [41, n, n])


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


def runs(n: int) -> Case:
    """out[3 * i + k] = 10 * i + k below ``n``, in groups of 8 iterations; the value is summed up in a loop."""
    i, x, number = v("i"), v("x", float32), v("group") * 8 + v("side")
    places = [Let(v(f"place{k}"), number * 3 + k) for k in range(3)]
    body = nest([("group", v("groups")), ("side", const(8, int32))], [
        Declare(x, cast(number, float32)),
        loop(i, 9, [Assign(x, x + cast(number, float32))]),
        *places,
        *[If(place.var < v("n"), (Store("out", place.var, x + float(k)),)) for k, place in enumerate(places)],
    ])
    expected = (10 * np.arange(n, dtype=np.float32)[:, None] + np.arange(3, dtype=np.float32)).ravel()[:n]
    return Case(program("runs", {}, {"out": float32}, ["n", "groups"], body), [], [expected], [n, -(-n // 24)], 0)


FORMS: Final[dict[str, Callable[[int], Case]]] = {form.__name__: form for form in (
    flat_add, strided, single, row_sum, sum_all, sum_middle, sum_columns, argmax, maximum, softmax, normalize, matmul,
    matmul_int, runs)}
