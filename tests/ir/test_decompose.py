"""Which functions are replaced, and that naming shared parts changes nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from tensocket_plugins.contract.dtypes import float32, float64, int32
from tensocket_plugins.ir.decompose import decompose
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.nodes import (
    Assign,
    Barrier,
    Buffer,
    Combine,
    Const,
    Declare,
    If,
    Kernel,
    Let,
    Load,
    LoopKind,
    Program,
    Reduce,
    Scalar,
    Store,
    Temporary,
    Var,
    call,
    const,
    loop,
)
from tensocket_plugins.ir.rewrite import name_shared
from tensocket_plugins.ir.target import Target
from tensocket_plugins.ir.text import format_program
from tensocket_plugins.ir.verify import verify

I, J, N = (Var(name, int32) for name in ("i", "j", "n"))
X, Y = Var("x", float32), Var("y", float32)
ZERO = const(0, int32)
PARAMS = (Buffer("a", float32), Buffer("out", float32, True), Scalar("n", int32))


def program(*body, params=PARAMS, **more):
    return Program("p", params, (Kernel("p", body),), **more)


def body_text(p):
    return [line.strip() for line in format_program(p).splitlines()[1:]]


@pytest.mark.parametrize("kind", ["simt", "interpreter", "cpu"])
def test_programs_for_processors_alone_compute_a_form_rarely(kind):
    narrow = program(Store("out", ZERO, call("sin", Load("a", ZERO, float32))))
    assert ("rarely(" in format_program(decompose(narrow, Target(kind)))) == (kind == "cpu")


def test_rare_forms_stay_calls():
    """A call is named in other places, but not as the one whose form for unusual arguments is computed."""
    x = Load("a", ZERO, float32)
    sine, other = call("sin", x), call("sin", x * 2.0)
    shared = program(Store("out", ZERO, call("rarely", x < 1.0, sine, x) + sine),
                     Store("out", const(1, int32),
                           call("rarely", x < 2.0, sine, x) * call("rarely", x < 3.0, other, x)))
    named = body_text(name_shared(shared))
    assert sum(line.count("rarely(") for line in named) == 3
    assert all("(sin(" in part or ", sin(" in part for line in named for part in line.split("rarely(")[1:])
    a = np.array([0.5], np.float32)
    for p in (shared, name_shared(shared)):
        out = np.zeros(2, np.float32)
        interpret(p, [a, out], [1])
        np.testing.assert_allclose(out, [2 * np.sin(0.5), np.sin(0.5) * np.sin(1.0)], rtol=1e-6)


def test_float64_functions_stay_unless_wanted_and_native_ones_do():
    wide = program(Store("out", ZERO, call("exp", Load("a", ZERO, float64))),
                   params=(Buffer("a", float64), Buffer("out", float64, True)))
    assert body_text(decompose(wide, Target("cpu"))) == ["out[0] = exp(a[0])"]
    assert "exp(" not in format_program(decompose(wide, Target("interpreter", wide_arithmetic=True)))
    narrow = program(Store("out", ZERO, call("sin", call("exp", Load("a", ZERO, float32)))))
    native = decompose(narrow, Target("interpreter", native=frozenset({"exp", "sin"})))
    assert body_text(native) == ["out[0] = sin(exp(a[0]))"]
    text = format_program(decompose(narrow, Target("interpreter", native=frozenset({"exp"}))))
    assert "exp(a[0])" in text
    assert "sin(" not in text


def test_functions_everywhere_in_a_program_are_replaced():
    total, left, right = (Var(name, float32) for name in ("total", "l", "r"))
    reduce = Reduce((total,), ((J, N),), (Let(X, call("exp", Load("a", J, float32))),), (call("log", X),),
                    (const(0.0, float32),), Combine((left,), (right,), (call("log", left + right),)))
    inner = loop(J, N, [If(call("exp", Y) > 1.0, (Assign(Y, call("tanh", Y)),))])
    original = program(loop(I, N, [reduce, Declare(Y, call("erf", total)), inner, Store("out", I, Y)],
                            LoopKind.PARALLEL), temporaries=(Temporary("t", float32, N),))
    changed = decompose(original, Target("interpreter"))
    verify(changed)
    text = format_program(changed)
    assert not [name for name in ("exp", "log", "tanh", "erf") if f"{name}(" in text]


def test_a_decomposed_program_computes_the_same(rng):
    a = rng.standard_normal(50).astype(np.float32)
    value = call("exp", call("sin", Load("a", I, float32)) * 3.0)
    original = program(loop(I, N, [Store("out", I, value * value)], LoopKind.PARALLEL))
    out = np.empty(50, np.float32)
    interpret(decompose(original, Target("cpu")), [a, out], [50])
    assert np.allclose(out, np.exp(np.sin(a.astype(np.float64)) * 3) ** 2, rtol=2e-6)


def test_shared_parts_get_names_once():
    square = Load("a", I, float32) * Load("a", I, float32)
    quad = square * square
    shared = program(loop(I, N, [Store("out", I, quad * quad)], LoopKind.PARALLEL))
    assert body_text(name_shared(shared)) == [
        "parallel i in n:", "let t0 = a[i] * a[i]", "let t1 = t0 * t0", "out[i] = t1 * t1"]
    assert body_text(name_shared(name_shared(shared))) == body_text(name_shared(shared))


def test_a_deep_chain_of_shared_parts_stays_small():
    value = Load("a", ZERO, float32)
    for _ in range(2000):
        value = value * value
    named = name_shared(program(Store("out", ZERO, value)))
    verify(named)
    assert len(body_text(named)) == 2001


def test_names_do_not_clash():
    square = X * X
    clash = program(Let(Var("t0", float32), const(1.0, float32)), Let(X, const(2.0, float32)),
                    Store("out", ZERO, square + square))
    assert "let t1 = x * x" in body_text(name_shared(clash))


def test_parts_are_shared_between_statements_while_they_hold():
    index = I * 3
    pure = (index + 1) * 2
    loaded = Load("a", pure, float32)
    p = program(loop(I, N, [Let(X, loaded + 1.0), Store("out", pure, loaded), Store("out", ZERO, loaded)],
                     LoopKind.PARALLEL))
    assert body_text(name_shared(p)) == [
        "parallel i in n:", "let t0 = (i * 3 + 1) * 2", "let t1 = a[t0]", "let x = t1 + 1.0", "out[t0] = t1",
        "let t2 = a[t0]", "out[0] = t2"]


def test_an_assignment_ends_names_of_what_it_changes():
    double = Y * 2.0
    p = program(Declare(Y, const(1.0, float32)), Let(X, double), Assign(Y, double), Store("out", ZERO, double))
    assert body_text(name_shared(p)) == ["var y = 1.0", "let x = y * 2.0", "y = x", "let t0 = y * 2.0", "out[0] = t0"]


def test_reductions_name_parts_inside_and_keep_what_they_combine():
    total, left, right = (Var(name, float32) for name in ("total", "l", "r"))
    x = Load("a", J, float32)
    twice = left + right
    reduce = Reduce((total,), ((J, N),), (), (x * x,), (const(0.0, float32),),
                    Combine((left,), (right,), (twice * twice,)))
    named = name_shared(program(reduce, Store("out", ZERO, total)))
    verify(named)
    assert body_text(named)[:3] == ["reduce total over j in n:", "let t0 = a[j]", "give t0 * t0"]
    assert body_text(named)[4] == "merge (l) (r) -> (l + r) * (l + r)"


def test_names_hold_inside_inner_blocks_unless_they_load():
    index, bound = I * 3, N + 1
    x = Load("a", index, float32)
    inner = loop(J, bound, [Store("out", index + J, x), If(call("lt", J, bound), (Store("out", index, x),))])
    p = program(loop(I, N, [Let(X, x), inner], LoopKind.PARALLEL))
    assert body_text(name_shared(p)) == [
        "parallel i in n:", "let t0 = i * 3", "let x = a[t0]", "let t1 = n + 1", "serial j in t1:",
        "let t2 = a[t0]", "out[t0 + j] = t2", "if j < t1:", "out[t0] = a[t0]"]


def test_barriers_end_names_of_loads():
    x = Load("a", ZERO, float32)
    p = program(loop(I, N, [loop(J, 4, [Let(X, x), Barrier(), Let(Y, x), Store("out", J, Y)], LoopKind.LANE)],
                     LoopKind.GROUP))
    assert body_text(name_shared(p)) == body_text(p)


@pytest.mark.parametrize("value", [Const(1.5, float32), X])
def test_constants_and_variables_get_no_names(value):
    p = program(Let(X, const(2.0, float32)), Store("out", ZERO, value + value))
    assert body_text(name_shared(p)) == body_text(p)
