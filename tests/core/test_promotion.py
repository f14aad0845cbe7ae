"""Type promotion: the whole table, and the three ranks of operands."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensocket_core as tc
from tensocket_plugins.contract.dtypes import BY_SHORT
from tensocket_plugins.contract.errors import ArgumentTypeError, DtypeError

TABLE = """
     b8   u8   i8   i16  i32  i64  f16  bf16 f32  f64  c64  c128
b8   b8   u8   i8   i16  i32  i64  f16  bf16 f32  f64  c64  c128
u8   u8   u8   i16  i16  i32  i64  f16  bf16 f32  f64  c64  c128
i8   i8   i16  i8   i16  i32  i64  f16  bf16 f32  f64  c64  c128
i16  i16  i16  i16  i16  i32  i64  f16  bf16 f32  f64  c64  c128
i32  i32  i32  i32  i32  i32  i64  f16  bf16 f32  f64  c64  c128
i64  i64  i64  i64  i64  i64  i64  f16  bf16 f32  f64  c64  c128
f16  f16  f16  f16  f16  f16  f16  f16  f32  f32  f64  c64  c128
bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32  bf16 f32  f64  c64  c128
f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f64  c64  c128
f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  c128 c128
c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c128 c64  c128
c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128
"""
HEAD, *ROWS = [line.split() for line in TABLE.strip().splitlines()]
PAIRS = [(row[0], column, row[k + 1]) for row in ROWS for k, column in enumerate(HEAD)]
#: Names of the dtypes that tensors can have on the device of these tests, and their categories.
CATEGORY = {"b8": 0, "u8": 1, "i8": 1, "i16": 1, "i32": 1, "i64": 1, "f16": 2, "bf16": 2, "f32": 2, "f64": 2}
EXPECTED = {(a, b): c for a, b, c in PAIRS}


@pytest.mark.parametrize(("a", "b", "expected"), PAIRS)
def test_promote_types(a, b, expected):
    assert tc.promote_types(BY_SHORT[a], BY_SHORT[b]) is BY_SHORT[expected]


@pytest.mark.parametrize(
    ("a", "b"), [("u16", "i16"), ("u32", "i64"), ("u64", "u8"), ("f8e5m2", "f32"), ("f8e4m3fn", "f8e5m2")]
)
def test_pairs_without_a_common_dtype(a, b):
    if (a, b) == ("u64", "u8"):
        assert tc.promote_types(BY_SHORT[a], BY_SHORT[b]) is BY_SHORT["u64"]
        return
    with pytest.raises(DtypeError, match=r"\[promote_types\]"):
        tc.promote_types(BY_SHORT[a], BY_SHORT[b])


def tensor(short, shape):
    return tc.zeros(shape, dtype=BY_SHORT[short])


@pytest.mark.parametrize(("a", "b"), list(itertools.product(CATEGORY, CATEGORY)))
def test_dimensioned_tensors_outrank_zero_dimensional_ones_of_their_category(a, b):
    both = BY_SHORT[EXPECTED[a, b]]
    assert tc.result_type(tensor(a, (2,)), tensor(b, (2,))) is both
    assert tc.result_type(tensor(a, ()), tensor(b, ())) is both
    expected = both if CATEGORY[b] > CATEGORY[a] else BY_SHORT[a]
    assert tc.result_type(tensor(a, (2,)), tensor(b, ())) is expected
    assert (tensor(a, (2,)) + tensor(b, ())).dtype is expected
    assert (tensor(b, ()) * tensor(a, (2,))).dtype is expected


@pytest.mark.parametrize("shape", [(2,), ()])
@pytest.mark.parametrize("a", CATEGORY)
@pytest.mark.parametrize("number", [True, 1, 1.5])
def test_numbers_matter_by_category_only(a, shape, number):
    category = {bool: 0, int: 1, float: 2}[type(number)]
    default = {0: tc.bool_, 1: tc.int64, 2: tc.float32}[category]
    expected = default if category > CATEGORY[a] else BY_SHORT[a]
    assert tc.result_type(tensor(a, shape), number) is expected
    assert tc.result_type(number, tensor(a, shape)) is expected
    assert (tensor(a, shape) + number).dtype is expected
    assert (number * tensor(a, shape)).dtype is expected


@pytest.mark.parametrize("shape", [(2,), ()])
@pytest.mark.parametrize("a", CATEGORY)
def test_complex_numbers_have_the_precision_of_floats(a, shape):
    expected = tc.complex128 if a == "f64" else tc.complex64
    assert tc.result_type(tensor(a, shape), 1j) is expected
    assert tc.result_type(1j, tensor(a, shape)) is expected


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


@pytest.mark.parametrize(
    ("source", "target", "allowed"),
    [
        ("f32", "i64", False),
        ("i64", "f32", True),
        ("i64", "b8", False),
        ("b8", "i64", True),
        ("f64", "f32", True),
        ("i64", "u8", True),
        ("c64", "f32", False),
        ("f32", "c64", True),
        ("b8", "b8", True),
    ],
)
def test_can_cast(source, target, allowed):
    assert tc.can_cast(BY_SHORT[source], BY_SHORT[target]) is allowed


def test_operands_that_are_neither_tensors_nor_numbers():
    with pytest.raises(ArgumentTypeError, match=r"\[result_type\]"):
        tc.result_type(tc.ones(2), "x")
