"""Type promotion: the whole table, and the three ranks of operands."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_plugins.contract.dtypes import BY_SHORT
from tensocket_plugins.contract.errors import ArgumentTypeError, DtypeError

#: Both orders of a pair give the same; ``--`` has no common dtype. float8 mixes with nothing but itself.
TABLE = """
     b8   u8   i8   i16  i32  i64  u16  u32  u64  f16  bf16 f32  f64  c32  c64  c128
b8   b8   u8   i8   i16  i32  i64  --   --   --   f16  bf16 f32  f64  c32  c64  c128
u8   u8   u8   i16  i16  i32  i64  --   --   --   f16  bf16 f32  f64  c32  c64  c128
i8   i8   i16  i8   i16  i32  i64  --   --   --   f16  bf16 f32  f64  c32  c64  c128
i16  i16  i16  i16  i16  i32  i64  --   --   --   f16  bf16 f32  f64  c32  c64  c128
i32  i32  i32  i32  i32  i32  i64  --   --   --   f16  bf16 f32  f64  c32  c64  c128
i64  i64  i64  i64  i64  i64  i64  --   --   --   f16  bf16 f32  f64  c32  c64  c128
u16  --   --   --   --   --   --   u16  --   --   f16  bf16 f32  f64  --   --   --
u32  --   --   --   --   --   --   --   u32  --   f16  bf16 f32  f64  --   --   --
u64  --   --   --   --   --   --   --   --   u64  f16  bf16 f32  f64  --   --   --
f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  f32  f32  f64  c32  c64  c128
bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32  bf16 f32  f64  c64  c64  c128
f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f64  c64  c64  c128
f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  c128 c128 c128
c32  c32  c32  c32  c32  c32  c32  --   --   --   c32  c64  c64  c128 c32  c64  c128
c64  c64  c64  c64  c64  c64  c64  --   --   --   c64  c64  c64  c128 c64  c64  c128
c128 c128 c128 c128 c128 c128 c128 --   --   --   c128 c128 c128 c128 c128 c128 c128
"""
HEAD, *ROWS = [line.split() for line in TABLE.strip().splitlines()]
FLOAT8 = ("f8e4m3fn", "f8e5m2")
#: Complex dtypes that keep the precision of real ones.
WITH_PARTS = {"f16": "c32", "bf16": "c64", "f32": "c64", "f64": "c128"}
WIDE = ("u16", "u32", "u64")
EVERY = (*HEAD, *FLOAT8)
TOGETHER = {(row[0], column): row[k + 1] for row in ROWS for k, column in enumerate(HEAD)}
TOGETHER |= {(a, b): a if a == b else "--" for a in EVERY for b in EVERY if a in FLOAT8 or b in FLOAT8}
CATEGORY = {name: "b iiiiiuuu ffff ccc".replace(" ", "")[k] for k, name in enumerate(HEAD)} | dict.fromkeys(FLOAT8, "f")
RANK = {name: "biufc".index(letter) - (letter in "ufc") for name, letter in CATEGORY.items()}
#: Dtypes that arithmetic is defined for.
COMPUTED = {name: RANK[name] for name in HEAD}


def outranked(high, low):
    """The rule of ranks: the lower-ranked operand counts only where its category is higher.

    A float meeting a lower-ranked complex number keeps its precision.
    """
    if CATEGORY[high] == "f" and CATEGORY[low] == "c":
        return WITH_PARTS.get(high, "--")
    if RANK[low] <= RANK[high]:
        return high
    return low if CATEGORY[low] == "c" else TOGETHER[high, low]


def result(*operands):
    try:
        return tc.result_type(*operands).short
    except DtypeError:
        return "--"


@pytest.mark.parametrize("a", EVERY)
def test_promote_types(a):
    for b in EVERY:
        expected = TOGETHER[a, b]
        if expected == "--":
            with pytest.raises(DtypeError, match=r"\[promote_types\]"):
                tc.promote_types(BY_SHORT[a], BY_SHORT[b])
        else:
            assert tc.promote_types(BY_SHORT[a], BY_SHORT[b]) is BY_SHORT[expected]


def tensor(short, shape):
    return tc.zeros(shape, dtype=BY_SHORT[short])


@pytest.mark.parametrize("a", EVERY)
def test_dimensioned_tensors_outrank_zero_dimensional_ones_of_their_category(a):
    for b in EVERY:
        assert result(tensor(a, (2,)), tensor(b, (2,))) == TOGETHER[a, b]
        assert result(tensor(a, ()), tensor(b, ())) == TOGETHER[a, b]
        assert result(tensor(a, (2,)), tensor(b, ())) == outranked(a, b)
        assert result(tensor(b, ()), tensor(a, (2,))) == outranked(a, b)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(COMPUTED, COMPUTED)))
def test_operators_follow_the_rule_of_ranks(a, b):
    expected = outranked(a, b)
    if expected == "--":
        with pytest.raises(DtypeError):
            tensor(a, (2,)) + tensor(b, ())
        return
    assert (tensor(a, (2,)) + tensor(b, ())).dtype is BY_SHORT[expected]
    assert (tensor(b, ()) * tensor(a, (2,))).dtype is BY_SHORT[expected]


@pytest.mark.parametrize("shape", [(2,), ()])
@pytest.mark.parametrize("a", EVERY)
@pytest.mark.parametrize("number", [True, 1, 1.5, 1j])
def test_numbers_matter_by_category_only(a, shape, number):
    default = {bool: "b8", int: "i64", float: "f32", complex: "c64"}[type(number)]
    if isinstance(number, complex) and CATEGORY[a] == "f":
        expected = WITH_PARTS.get(a, "--")
    else:
        expected = default if RANK[default] > RANK[a] else a
    assert result(tensor(a, shape), number) == result(number, tensor(a, shape)) == expected
    if a in COMPUTED:
        assert (tensor(a, shape) + number).dtype is BY_SHORT[expected]
        assert (number * tensor(a, shape)).dtype is BY_SHORT[expected]


@pytest.mark.parametrize(
    ("dims", "zeros", "number", "expected"),
    [
        ("i8", "i64", 5, "i8"),
        ("i8", "f64", 5, "f64"),
        ("i8", "f16", 2.5, "f16"),
        ("f16", "f64", 2.5, "f16"),
        ("b8", "i16", 5, "i16"),
        ("b8", "b8", 5, "i64"),
        ("u8", "b8", 2.5, "f32"),
        ("bf16", "f16", True, "bf16"),
    ],
)
def test_three_ranks_of_operands(dims, zeros, number, expected):
    x, y = tensor(dims, (2,)), tensor(zeros, ())
    assert tc.where(tensor("b8", (2,)), x, y).dtype is tc.result_type(x, y)
    assert tc.add(tc.add(x, y), number).dtype is BY_SHORT[expected]


def test_numbers_alone():
    assert tc.result_type(1, 2.0) is tc.float32
    assert tc.result_type(True, 1) is tc.int64
    assert tc.result_type(True, False) is tc.bool_
    assert tc.result_type(1, 1j) is tc.complex64


def test_the_default_dtype_is_that_of_floats():
    tc.set_default_dtype(tc.float64)
    assert tc.get_default_dtype() is tc.float64
    assert tc.result_type(tc.ones(2, dtype=tc.int64), 1.0) is tc.float64
    assert tc.ones(2).dtype is tc.float64
    assert tc.result_type(1, 1j) is tc.complex128
    assert (tc.arange(3) / 2).dtype is tc.float64


def test_numpy_numbers_count_as_python_numbers():
    assert (tc.ones(2) + np.float64(2)).dtype is tc.float32
    assert (np.float64(2) + tc.ones(2)).dtype is tc.float32
    assert tc.add(tc.ones(2, dtype=tc.int8), np.int64(2)).dtype is tc.int8
    assert (np.float32(3) - tc.ones(2)).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("source", EVERY)
def test_can_cast(source):
    """No complex to real, no float to integer, no number to bool."""
    for target in EVERY:
        allowed = RANK[target] >= RANK[source]
        assert tc.can_cast(BY_SHORT[source], BY_SHORT[target]) is allowed


def test_operands_that_are_neither_tensors_nor_numbers():
    with pytest.raises(ArgumentTypeError, match=r"\[result_type\]"):
        tc.result_type(tc.ones(2), "x")
