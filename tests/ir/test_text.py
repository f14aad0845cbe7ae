"""The IR's text: the example of the documentation, precedence, and that different programs have different texts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tensocket_plugins.contract.dtypes import bool_, float32, float64, int32, int64, uint32
from tensocket_plugins.ir import text as text_module
from tensocket_plugins.ir.nodes import (
    Assign,
    Atomic,
    Barrier,
    Buffer,
    Combine,
    Const,
    Declare,
    If,
    Kernel,
    Let,
    Load,
    Local,
    LoopKind,
    Program,
    Reduce,
    Scalar,
    Store,
    Temporary,
    Var,
    call,
    cast,
    const,
    loop,
    select,
)
from tensocket_plugins.ir.text import format_expression, format_program

I, J, N = (Var(name, int32) for name in ("i", "j", "n"))
X, Y, Z = (Var(name, float32) for name in ("x", "y", "z"))


def test_pointwise_example():
    body = loop(I, N, [Store("out0", I, Load("in0", I, float32) + Load("in1", I, float32))], LoopKind.PARALLEL)
    params = (Buffer("in0", float32), Buffer("in1", float32), Buffer("out0", float32, True), Scalar("n", int32))
    assert format_program(Program("add", params, (Kernel("add", (body,)),))) == (
        "kernel add(in0: f32[], in1: f32[], out0: mut f32[], n: i32)\n"
        "  parallel i in n:\n"
        "    out0[i] = in0[i] + in1[i]\n")


def test_every_statement():
    total, left, right = (Var(name, float32) for name in ("total", "l", "r"))
    reduce = Reduce((total,), ((J, N), (Var("k", int32), const(4, int32))), (Let(X, Load("t", J, float32)),), (X * X,),
                    (const(0.0, float32),), Combine((left,), (right,), (left + right,)))
    first = Kernel("first", (loop(I, N, [reduce, Store("t", I, total)], LoopKind.PARALLEL),))
    second = Kernel("second", (loop(I, N, [loop(J, 8, [
        Declare(Y, const(1.0, float32)),
        loop(Var("k", int32), N, [Assign(Y, Y * 2.0)], start=J, step=8),
        Store("tile", J, Y), Barrier(),
        If(J < 4, (Atomic("add", "out", I, Load("tile", J, float32)),)),
    ], LoopKind.LANE)], LoopKind.GROUP),), (Local("tile", float32, 8),))
    program = Program("p", (Buffer("out", float32, True), Scalar("n", int32)), (first, second),
                      (Temporary("t", float32, N * 2),))
    assert format_program(program) == (
        "program p(out: mut f32[], n: i32)\n"
        "  temporary t: f32[n * 2]\n"
        "kernel first\n"
        "  parallel i in n:\n"
        "    reduce total over j in n, k in 4:\n"
        "      let x = t[j]\n"
        "      give x * x\n"
        "      from 0.0\n"
        "      merge (l) (r) -> l + r\n"
        "    t[i] = total\n"
        "kernel second\n"
        "  local tile: f32[8]\n"
        "  group i in n:\n"
        "    lane j in 8:\n"
        "      var y = 1.0\n"
        "      serial k in range(j, n, 8):\n"
        "        y = y * 2.0\n"
        "      tile[j] = y\n"
        "      barrier\n"
        "      if j < 4:\n"
        "        atomic add out[i], tile[j]\n")


@pytest.mark.parametrize(("expression", "text"), [
    (X + Y * Z, "x + y * z"),
    ((X + Y) * Z, "(x + y) * z"),
    (X - (Y - Z), "x - (y - z)"),
    (X - Y - Z, "x - y - z"),
    (X / (Y * Z), "x / (y * z)"),
    (-(X + Y), "-(x + y)"),
    (-X * Y, "-x * y"),
    (-const(1.0, float32), "-(1.0)"),
    (const(-1.0, float32) * X, "-1.0 * x"),
    (~(X < Y) & (Y < Z), "~(x < y) & y < z"),
    (call("eq", X < Y, Y < Z), "(x < y) == (y < z)"),
    (I // 4 % N << 2 >> J, "i // 4 % n << 2 >> j"),
    (I << (N + 1), "i << n + 1"),
    (select(X < Y, X, Y), "select(x < y, x, y)"),
    (call("max", X, Y), "max(x, y)"),
    (cast(I, float64) + 1.0, "f64(i) + 1.0f64"),
    (call("bitcast", X, dtype=uint32) | 7, "bits_u32(x) | 7u32"),
    (cast(X, bool_), "b8(x)"),
    (const(True, bool_), "true"),
    (const(float("-inf"), float32), "-inf"),
    (const(float("nan"), float64), "nanf64"),
    (const(3, int64), "3i64"),
])
def test_expressions(expression, text):
    assert format_expression(expression) == text


def test_texts_tell_programs_apart():
    def stored(value):
        return format_program(Program("p", (Buffer("out", value.dtype, True),),
                                      (Kernel("p", (Store("out", const(0, int32), value),)),)))

    values = [const(0.0, float32), const(-0.0, float32), -const(0.0, float32), const(0.0, float64), const(0, int32),
              const(0, int64), const(False, bool_), const(1.0, float32) - const(1.0, float32),
              const(0.1, float32), Const(0.1 + 2**-54, float32)]
    texts = [stored(v) for v in values]
    assert len(set(texts)) == len(texts)
    assert texts == [stored(v) for v in values]


def test_the_example_of_the_readme(capsys):
    page = Path(text_module.__file__).with_name("README.md").read_text()
    blocks = re.findall(r"```(\w*)\n(.*?)```", page, re.DOTALL)
    code = next(block for language, block in blocks if language == "python")
    printed = next(block for language, block in blocks if block.startswith("kernel norm"))
    exec(code, {})
    assert capsys.readouterr().out.strip() == printed.strip()
