"""Operands of pointwise operators: Python numbers on both sides, conditions, limits, and what is refused."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions as f
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, DtypeError, ShapeError

FLOATS = ("float16", "bfloat16", "float32", "float64")

PYTHON = {
    "+": (lambda x, y: x + y, "num"),
    "-": (lambda x, y: x - y, "num"),
    "*": (lambda x, y: x * y, "num"),
    "/": (lambda x, y: x / y, "num"),
    "//": (lambda x, y: x // y, "num"),
    "%": (lambda x, y: x % y, "num"),
    "==": (lambda x, y: x == y, "all"),
    "!=": (lambda x, y: x != y, "all"),
    "<": (lambda x, y: x < y, "all"),
    "<=": (lambda x, y: x <= y, "all"),
    ">": (lambda x, y: x > y, "all"),
    ">=": (lambda x, y: x >= y, "all"),
}


@pytest.mark.parametrize("name", PYTHON)
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "float16"])
@pytest.mark.parametrize("number", [2, -3, 2.5])
def test_python_numbers_on_both_sides(device, numbers, near, host, name, dtype, number):
    function, _ = PYTHON[name]
    x, a = numbers(dtype, 1, 3)
    kind = np.float64 if isinstance(number, float) or dtype in FLOATS or name == "/" else np.dtype(dtype)
    wrapped = number if kind is np.float64 else np.array(number).astype(kind)
    with np.errstate(over="ignore"):
        near(function(x, number), function(a.astype(kind), wrapped))
        near(function(number, x), function(wrapped, a.astype(kind)))


def test_python_numbers_with_bits():
    x = tc.tensor([5, 6])
    assert (x & 4).tolist() == (4 & x).tolist() == [4, 4]
    assert (x | 8).tolist() == (8 | x).tolist() == [13, 14]
    assert (x ^ 1).tolist() == (1 ^ x).tolist() == [4, 7]
    assert (tc.tensor([True, False]) & True).tolist() == [True, False]


@pytest.mark.parametrize(("yes", "no"), list(itertools.product(["tensor", "number", "zero-dim"], repeat=2)))
def test_where(device, near, yes, no):
    condition = np.array([[True, False, True]])
    kinds = {
        "tensor": (tc.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(2, 3)),
        "number": (2.5, 2.5),
        "zero-dim": (tc.tensor(7.0), 7.0),
    }
    expected = np.where(
        np.broadcast_to(condition, (2, 3) if "tensor" in (yes, no) else (1, 3)), kinds[yes][1], kinds[no][1]
    )
    near(tc.where(tc.tensor(condition), kinds[yes][0], kinds[no][0]), expected, dtype="float32")


def test_where_of_other_conditions():
    assert tc.where(tc.tensor([1, 0], dtype=tc.uint8), 1, 2).tolist() == [1, 2]
    assert tc.where(tc.tensor([True, False]), 1, tc.tensor([0.5, 0.5])).tolist() == [1.0, 0.5]
    assert tc.tensor([1, 2]).where(tc.tensor([True, False]), 9).tolist() == [1, 9]
    with pytest.raises(DtypeError, match=r"\[where\]"):
        tc.where(tc.tensor([1, 0]), 1, 2)


def test_masked_fill(device, near):
    x, mask = tc.arange(4.0), tc.tensor([True, False, True, False])
    near(x.masked_fill(mask, -1), [-1, 1, -1, 3])
    near(x.masked_fill(mask, tc.tensor(5)), [5, 1, 5, 3], dtype="float32")
    near(x.masked_fill(tc.tensor([[True], [False]]), 0), [[0] * 4, [0, 1, 2, 3]])
    near(tc.arange(4).masked_fill(mask, 2.7), [2, 1, 2, 3], dtype="int64")
    assert x.masked_fill_(mask, 9) is x
    with pytest.raises(ShapeError, match=r"\[masked_fill\]"):
        x.masked_fill(mask, tc.ones(4))


def test_clamp_by_tensors(device, near):
    x = tc.tensor([-2.0, 0.5, 3.0, math.nan])
    near(x.clamp(tc.tensor(0.0), tc.tensor([1.0, 1.0, 2.0, 1.0])), [0.0, 0.5, 2.0, math.nan])
    near(x.clamp(min=tc.tensor([-3.0, 1.0, 1.0, 1.0])), [-2.0, 1.0, 3.0, math.nan])
    near(x.clamp(2, 1), [1.0, 1.0, 1.0, math.nan])
    near(tc.tensor([1, 2, 3]).clamp(1.5, 2.5), [1.5, 2.0, 2.5], dtype="float32")
    near(tc.tensor([1, 2, 3]).clip(max=2), [1, 2, 2], dtype="int64")
    with pytest.raises(ArgumentError, match=r"\[clamp\]"):
        x.clamp()


def test_combinations(device, near):
    a, b, c = (tc.tensor([1.0, 2.0, -3.0]) * k for k in (1, 2, 3))
    near(tc.addcmul(a, b, c, value=0.5), [4.0, 14.0, 24.0])
    near(tc.addcdiv(a, b, c, value=3.0), [3.0, 4.0, -1.0])
    near(tc.lerp(a, b, 0.25), [1.25, 2.5, -3.75])
    near(tc.lerp(a, b, tc.tensor([0.0, 1.0, 0.5])), [1.0, 4.0, -4.5])
    near(tc.add(a, b, alpha=2), [5.0, 10.0, -15.0])
    near(a.sub(b, alpha=0.5), [0.0, 0.0, 0.0])
    near(tc.tensor([1, 2]).addcmul(tc.tensor([1, 2]), tc.tensor([3, 4]), value=2), [7, 18], dtype="int64")


@pytest.mark.parametrize(
    ("call", "kind", "operator"),
    [
        (lambda: tc.ones(2) + tc.ones(3), ShapeError, "add"),
        (lambda: tc.ones(2, 3) * tc.ones(3, 2), ShapeError, "mul"),
        (lambda: tc.add(tc.ones(2), "x"), ArgumentTypeError, "add"),
        (lambda: tc.exp([1.0]), ArgumentTypeError, "exp"),
        (lambda: tc.tensor([True]) - tc.tensor([True]), DtypeError, "sub"),
        (lambda: tc.ones(2) - True, DtypeError, "sub"),
        (lambda: -tc.tensor([True]), DtypeError, "neg"),
        (lambda: tc.arange(3) ** -1, DtypeError, "pow"),
        (lambda: tc.arange(3) // 0, DtypeError, "floor_divide"),
        (lambda: tc.arange(3) % False, DtypeError, "remainder"),
        (lambda: ~tc.ones(2), DtypeError, "bitwise_not"),
        (lambda: tc.add(tc.arange(2), tc.arange(2), alpha=0.5), DtypeError, "add"),
        (lambda: tc.div(tc.ones(2), 2, rounding_mode="up"), ArgumentError, "div"),
        (lambda: f.gelu(tc.ones(2), approximate="sin"), ArgumentError, "gelu"),
    ],
)
def test_errors(call, kind, operator):
    with pytest.raises(kind, match=rf"^\[{operator}\] .+ — .+ — .+"):
        call()


@pytest.mark.parametrize("other", [None, "x", [1.0]])
def test_operands_of_foreign_types(other):
    with pytest.raises(TypeError, match="unsupported operand"):
        tc.ones(2) + other
    with pytest.raises(TypeError, match="unsupported operand"):
        other - tc.ones(2)
