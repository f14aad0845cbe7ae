"""Functions in two forms: the costly one is computed for vectors that need it, and the bits are those of both forms."""

from __future__ import annotations

import numpy as np
import pytest

from tensocket_plugins.contract.dtypes import float32, float64, int64
from tensocket_plugins.ir.decompose import decompose
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.math import ARITHMETIC, written_out
from tensocket_plugins.ir.math.ranged import Ranged
from tensocket_plugins.ir.nodes import (
    Buffer,
    IRError,
    Kernel,
    Load,
    LoopKind,
    Program,
    Scalar,
    Store,
    Var,
    call,
    loop,
)
from tensocket_plugins.ir.pipeline import scheduled
from tensocket_plugins.ir.printers.llvm import print_llvm
from tensocket_plugins.ir.strategies import Strategy
from tensocket_plugins.ir.target import Target

I, J, N, S = (Var(name, int64) for name in ("i", "j", "n", "s"))
CPU = Target("cpu", wide_arithmetic=True)
DTYPES = {float32: np.uint32, float64: np.uint64}
FORMS = [(name, dtype) for dtype, functions in ARITHMETIC.items() for name, made in functions.items()
         if isinstance(made, Ranged)]


def nest(name, dtype, step=None):
    """``out[i] = name(in[i])``; with a step, of every so many elements."""
    at = I if step is None else I * step
    scalars = (Scalar("n", int64), *(() if step is None else (Scalar("s", int64),)))
    body = loop(I, N, [Store("out", I, call(name, Load("x", at, dtype)))], LoopKind.PARALLEL)
    return Program(name, (Buffer("out", dtype, True), Buffer("x", dtype), *scalars), (Kernel(name, (body,)),))


def expected(built, x, scalars):
    out = np.zeros(scalars[0], x.dtype)
    with np.errstate(all="ignore"):
        interpret(decompose(built, Target("interpreter", wide_arithmetic=True)), [out, x], scalars)
    return out


def values(dtype, rng, count, rare):
    """Ordinary numbers, with a share of any bits."""
    word = DTYPES[dtype]
    x = rng.uniform(0.1, 9, count).astype(dtype.numpy)
    patterns = rng.integers(0, np.iinfo(word).max, count, word, endpoint=True).view(dtype.numpy)
    return np.where(rng.random(count) < rare, patterns, x)


def same(got, want):
    np.testing.assert_array_equal(got, want)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]))


def test_the_functions_in_two_forms():
    assert {name for name, dtype in FORMS if dtype is float32} >= {"sin", "cos", "exp", "log"}


@pytest.mark.parametrize(("name", "dtype"), FORMS)
@pytest.mark.parametrize("step", [None, 3])
def test_bits_are_those_of_both_forms(device, rng, name, dtype, step):
    built = nest(name, dtype, step)
    run = device.compile_ir(scheduled(built, CPU, Strategy.GROUP))
    for count in (0, 1, 31, 32, 33, 200):
        for rare in (0.0, 0.02, 1.0):
            x = values(dtype, rng, count * (step or 1) + 1, rare)
            scalars = (count,) if step is None else (count, step)
            out = np.zeros(count, dtype.numpy)
            run([out, x], scalars, device.default_stream)
            same(out, expected(built, x, scalars))


@pytest.mark.parametrize("name", ["sin", "exp", "log"])
def test_threads_divide_rows_anywhere(device, rng, name):
    built, x = nest(name, float32), values(float32, rng, 300_007, 0.001)
    out = np.zeros_like(x)
    device.compile_ir(scheduled(built, CPU, Strategy.GROUP))([out, x], (x.size,), device.default_stream)
    same(out, expected(built, x, (x.size,)))


def test_results_may_overwrite_operands(device, rng):
    built = scheduled(nest("sin", float32), CPU, Strategy.GROUP)
    x = values(float32, rng, 300_001, 0.01)
    want = expected(nest("sin", float32), x, (x.size,))
    device.compile_ir(built)([x, x], (x.size,), device.default_stream)
    same(x, want)


def test_one_branch_per_vector_leads_to_the_costly_form():
    text = print_llvm(scheduled(nest("sin", float32), CPU, Strategy.GROUP))
    far = text[text.index("\nfar"):]
    assert "icmp ne i32" in text[:text.index("\nfar")]  # any of 32 lanes
    assert "mul <32 x i64>" in far[:far.index("\nafter")]  # the product with bits of 2/pi
    assert "mul <32 x i64>" not in text[:text.index("\nfar")]


def test_the_interpreter_takes_both_forms(rng):
    built, x = nest("sin", float32), values(float32, rng, 1000, 0.5)
    out = np.zeros_like(x)
    with np.errstate(all="ignore"):
        interpret(decompose(built, CPU), [out, x], (x.size,))
    same(out, expected(built, x, (x.size,)))


def test_other_calls_have_no_rare_form():
    x = Load("x", I, float32)
    for wrong in (x, call("tanh", x)):
        with pytest.raises(IRError, match="rarely takes a call of a function with a form for unusual arguments"):
            written_out(call("rarely", x < 1.0, wrong, x))
