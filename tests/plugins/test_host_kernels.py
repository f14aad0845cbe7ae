"""NumPy host kernels against Python's own arithmetic and float64 NumPy; they never warn and return arrays."""

from __future__ import annotations

import itertools
import math
import operator
import threading

import numpy as np
import pytest

from tensocket_plugins.contract.dtypes import BY_NAME, bfloat16, bool_, float32, int32, uint8
from tensocket_plugins.contract.kernels import KernelTable
from tensocket_plugins.ir.scalar import bfloat16_to_float32, float32_to_bfloat16
from tensocket_plugins.kit import host_kernels_quiet
from tensocket_plugins.kit.host_kernels import EVERY, FLOATS, INTEGERS, NUMBERS, register_host_kernels
from tensocket_plugins.kit.host_kernels_math import NUMPY_MATH, erf, idiv, imod
from tensocket_plugins.kit.host_kernels_quiet import quiet


@pytest.fixture(scope="module")
def table():
    kernels = KernelTable()
    register_host_kernels(kernels, limit=1000)
    return kernels


@pytest.fixture
def kernel(table):
    def find(name, dtype):
        found = table.find(name, dtype, direct=True)
        assert found is not None, f"{name} on {dtype}"
        return quiet(found.run)  # as the runtime does where NumPy warns

    return find


def grid(dtype):
    """Values at which NumPy likes to warn."""
    info = np.finfo(dtype)
    return np.array([0, -0.0, 1, -1, 0.3, -2.5, 100, -100, np.inf, -np.inf, np.nan, info.max, -info.max, info.tiny,
                     info.smallest_subnormal], dtype)


UNARY = ("neg", "abs", "square", "floor", "ceil", "trunc", "reciprocal", "sqrt", "exp", "log", "sin", "cos", "tanh",
         "log1p", "expm1", "logical_not")
BINARY = ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "logical_and",
          "logical_or", "logical_xor")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_floats_never_warn_and_keep_their_dtype(kernel, name, dtype):
    values = grid(dtype)
    pairs = [values] if name in UNARY else [np.repeat(values, len(values)), np.tile(values, len(values))]
    before = np.geterr()
    for size in (None, 1, 3):  # NumPy's loops differ between vectors and their tails
        result = kernel(name, dtype)(*(a[:size] for a in pairs))
        assert type(result) is np.ndarray
        assert result.dtype == (np.bool_ if name in BINARY[7:] or name == "logical_not" else dtype)
    assert np.geterr() == before


@pytest.mark.parametrize(("name", "function"), [
    ("add", operator.add), ("sub", operator.sub), ("mul", operator.mul), ("eq", operator.eq), ("ne", operator.ne),
    ("lt", operator.lt), ("le", operator.le), ("gt", operator.gt), ("ge", operator.ge), ("maximum", max),
    ("minimum", min), ("bitwise_and", operator.and_), ("bitwise_or", operator.or_), ("bitwise_xor", operator.xor),
    ("logical_and", lambda a, b: bool(a and b)), ("logical_or", lambda a, b: bool(a or b)),
    ("logical_xor", lambda a, b: bool(a) != bool(b)),
])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap_around(kernel, name, function, dtype):
    info = np.iinfo(dtype)
    values = [info.min, info.max, 0, 1, 2, 100, info.max - 1]
    x, y = zip(*itertools.product(values, values), strict=True)
    result = kernel(name, dtype)(np.array(x, dtype), np.array(y, dtype))
    exact = [function(a, b) for a, b in zip(x, y, strict=True)]
    bits = 8 * info.dtype.itemsize
    wrapped = [v if isinstance(v, bool) else (v - info.min) % (1 << bits) + info.min for v in exact]
    assert result.tolist() == wrapped


@pytest.mark.parametrize(("name", "function"), [
    ("neg", operator.neg), ("abs", abs), ("square", lambda v: v * v), ("bitwise_not", operator.invert),
    ("sign", lambda v: (v > 0) - (v < 0)), ("logical_not", operator.not_)])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_functions_of_one_argument(kernel, name, function, dtype):
    info = np.iinfo(dtype)
    values = [info.min, info.max, 0, 1, 9]
    bits = 8 * info.dtype.itemsize
    exact = [function(v) for v in values]
    wrapped = [v if isinstance(v, bool) else (v - info.min) % (1 << bits) + info.min for v in exact]
    assert kernel(name, dtype)(np.array(values, dtype)).tolist() == wrapped


def test_bools(kernel):
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    assert kernel("add", "bool")(x, y).tolist() == [False, True, True, True]
    assert kernel("mul", "bool")(x, y).tolist() == [False, False, False, True]
    assert kernel("maximum", "bool")(x, y).tolist() == [False, True, True, True]
    assert kernel("bitwise_not", "bool")(x).tolist() == [True, True, False, False]


@pytest.mark.parametrize(("name", "dtype"), [
    ("sub", "bool"), ("neg", "bool"), ("sign", "float32"), ("exp", "int64"), ("div", "int32"), ("add", "bfloat16"),
    ("matmul", "bool"), ("sum", "bfloat16"), ("mean", "int64"), ("bitwise_and", "float32"), ("floor", "int32")])
def test_what_numpy_does_otherwise_is_not_registered(table, name, dtype):
    assert table.find(name, dtype, direct=True) is None


def test_maximum_and_minimum_propagate_nan(kernel):
    x, y = np.array([1, np.nan, np.nan], np.float32), np.array([np.nan, 1, np.nan], np.float32)
    assert np.isnan(kernel("maximum", "float32")(x, y)).all()
    assert np.isnan(kernel("minimum", "float32")(x, y)).all()


@pytest.mark.parametrize("size", [1, 3, 40])
@pytest.mark.parametrize("dtype", FLOATS)
def test_of_zeros_with_two_signs_the_second_is_the_larger_one_as_in_generated_kernels(kernel, dtype, size):
    zero = np.zeros(size, dtype)
    for name in ("maximum", "minimum"):
        assert np.signbit(kernel(name, dtype)(zero, -zero)).all()
        assert not np.signbit(kernel(name, dtype)(-zero, zero)).any()
    assert not np.signbit(kernel("relu", dtype)(-zero)).any()


def test_limits(table):
    assert table.find("add", "float32", direct=True).limit == 1000
    assert table.find("expm1", "float32", direct=True).limit == 125
    assert table.find("add", "float16", direct=True).limit == 125
    assert table.find("sum", "float32", direct=True).limit == 1000
    assert table.find("softmax_rows", "float32", direct=True).limit == 125
    assert table.find("matmul", "float32", direct=True).limit is None


def test_kernels_are_quiet_where_numpy_is_set_to_raise(kernel):
    with np.errstate(all="raise"):
        assert np.isinf(kernel("exp", "float32")(np.array([1e9], np.float32))).all()
        assert np.geterr()["over"] == "raise"
        assert np.isinf(kernel("sum", "float16")(np.full(3, 60000, np.float16), (0,), False))


def test_kernels_are_quiet_in_every_thread(kernel):
    seen = []

    def work():
        seen.append(kernel("div", "float32")(np.ones(3, np.float32), np.zeros(3, np.float32)).tolist())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [[math.inf] * 3]


# ----------------------------------------------------------------------------------------------------- quiet


def test_quiet_restores_the_setting_after_an_error():
    def fail(x):
        assert np.geterr()["over"] == "ignore"
        raise ValueError(x)

    before = np.geterr()
    with pytest.raises(ValueError, match="spam"):
        quiet(fail)("spam")
    assert np.geterr() == before


def test_quiet_nests_and_takes_any_number_of_arguments():
    @quiet
    def inner(*numbers):
        return sum(numbers)

    @quiet
    def outer(x, y, z):
        return inner(x, y, z), np.geterr()["divide"]

    assert outer(1, 2, 3) == (6, "ignore")
    assert outer.__name__ == "outer"


def test_quiet_without_numpys_variable(monkeypatch):
    monkeypatch.setattr(host_kernels_quiet, "_FOUND", None)
    assert np.isinf(quiet(np.divide)(np.ones(1), np.zeros(1))).all()
    monkeypatch.setattr(np._core.umath, "_extobj_contextvar", None)
    assert host_kernels_quiet._find_variable() is None


def test_the_fast_way_works_with_this_numpy():
    assert host_kernels_quiet._FOUND is not None


# ------------------------------------------------------------------------------------------------ reductions

CASES = [((7,), (0,)), ((3, 4), (0,)), ((3, 4), (1,)), ((3, 4), (0, 1)), ((2, 3, 4), (0, 2)), ((), ()),
         ((2, 0, 3), (1,)), ((0,), (0,)), ((1, 5), (0,))]


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize(("shape", "dims"), CASES)
@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize(("name", "exact"), [("sum", np.sum), ("prod", np.prod)])
def test_sum_and_prod(kernel, rng, name, exact, dtype, shape, dims, keepdim):
    x = rng.integers(1, 4, shape).astype(dtype)
    result = kernel(name, dtype)(x, dims, keepdim)
    assert type(result) is np.ndarray
    assert result.dtype == dtype
    expected = exact(x.astype(np.float64 if dtype in FLOATS else object), axis=dims, keepdims=keepdim)
    assert result.shape == np.shape(expected)
    if dtype in FLOATS:
        np.testing.assert_array_equal(result, np.asarray(expected).astype(dtype))
    else:
        bits = 8 * x.itemsize
        wrapped = np.vectorize(lambda v: np.array(v % (1 << bits), f"uint{bits}").view(dtype), otypes=[dtype])
        np.testing.assert_array_equal(result, wrapped(np.asarray(expected)) if result.size else result)


@pytest.fixture
def rng():
    return np.random.default_rng(20240817)


@pytest.mark.parametrize("axis", [0, 1])
def test_float32_sums_accumulate_in_float64(kernel, rng, axis):
    x = (rng.normal(size=(500, 500)) * 10.0 ** rng.integers(-6, 6, (500, 500))).astype(np.float32)
    exact = np.array([math.fsum(row) for row in (x if axis else x.T).tolist()])
    np.testing.assert_array_equal(kernel("sum", "float32")(x, (axis,), False), exact.astype(np.float32))
    np.testing.assert_array_equal(kernel("mean", "float32")(x, (axis,), False), (exact / 500).astype(np.float32))


def test_float16_sums_accumulate_in_float32(kernel):
    x = np.full(10_000, 0.1, np.float16)
    assert kernel("sum", "float16")(x, (0,), False) == np.float16(10_000 * float(np.float16(0.1)))
    assert kernel("mean", "float16")(np.full(10_000, 60_000, np.float16), (0,), False) == np.float16(60_000)


@pytest.mark.parametrize("dtype", FLOATS)
def test_mean(kernel, rng, dtype):
    x = rng.normal(size=(4, 5, 6)).astype(dtype)
    for dims, keepdim in [((0,), False), ((0, 2), True), ((0, 1, 2), False)]:
        result = kernel("mean", dtype)(x, dims, keepdim)
        assert result.dtype == dtype
        expected = x.astype(np.float64).mean(axis=dims, keepdims=keepdim)
        np.testing.assert_allclose(result, expected, rtol=np.finfo(dtype).eps, atol=np.finfo(dtype).eps)
    assert np.isnan(kernel("mean", dtype)(x[:0], (0,), False)).all()


@pytest.mark.parametrize("dtype", EVERY)
@pytest.mark.parametrize(("name", "function"), [("amax", max), ("amin", min)])
def test_extremes(kernel, rng, name, function, dtype):
    x = rng.integers(0, 100, (5, 6)).astype(dtype)
    assert kernel(name, dtype)(x, (0, 1), False).item() == function(x.ravel().tolist())
    rows = kernel(name, dtype)(x, (1,), True)
    assert rows.dtype == dtype
    assert rows.tolist() == [[function(row)] for row in x.tolist()]
    assert type(kernel(name, dtype)(x[0, 0].reshape(()), (), False)) is np.ndarray


@pytest.mark.parametrize("name", ["amax", "amin", "argmax", "argmin"])
def test_the_first_nan_wins(kernel, name):
    x = np.array([[1, np.nan, 5, np.nan], [7, 8, 9, 6]], np.float32)
    result = kernel(name, "float32")(x, (1,), False)
    if name.startswith("arg"):
        assert result[0] == 1
    else:
        assert np.isnan(result[0])
    assert result[1] == {"amax": 9, "amin": 6, "argmax": 2, "argmin": 3}[name]


@pytest.mark.parametrize("dtype", EVERY)
@pytest.mark.parametrize(("name", "function"), [("argmax", max), ("argmin", min)])
def test_positions(kernel, rng, name, function, dtype):
    x = rng.integers(0, 4, (5, 6)).astype(dtype)
    run = kernel(name, dtype)
    rows = [row.index(function(row)) for row in x.tolist()]
    assert run(x, (1,), False).tolist() == rows
    assert run(x, (1,), True).tolist() == [[k] for k in rows]
    flat = x.ravel().tolist()
    for keepdim, shape in [(False, ()), (True, (1, 1))]:
        whole = run(x, (0, 1), keepdim)
        assert whole.shape == shape
        assert whole.dtype == np.int64
        assert whole.item() == flat.index(function(flat))
    assert run(x[0], (0,), True).shape == (1,)
    zero = run(x[0, 0].reshape(()), (), False)
    assert (type(zero), zero.shape, zero.item()) == (np.ndarray, (), 0)


@pytest.mark.parametrize("dtype", EVERY)
def test_any_and_all(kernel, dtype):
    x = np.array([[0, 0], [0, 1], [1, 1]]).astype(dtype)
    assert kernel("any", dtype)(x, (1,), False).tolist() == [False, True, True]
    assert kernel("all", dtype)(x, (1,), True).tolist() == [[False], [False], [True]]
    assert kernel("all", dtype)(x[:0], (0, 1), False).item() is True
    assert type(kernel("any", dtype)(x, (0, 1), False)) is np.ndarray


def test_nan_is_true(kernel):
    assert kernel("all", "float32")(np.array([np.nan], np.float32), (0,), False).item() is True


# ------------------------------------------------------------------------------------------------------- rows


def exact_softmax(x, axis):
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


@pytest.mark.parametrize(("shape", "axis"), [((7,), 0), ((3, 10), 1), ((3, 10), 0), ((2, 3, 4), 1), ((5, 1), 1)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_rows(kernel, rng, dtype, shape, axis):
    x, grad = (rng.normal(size=shape).astype(dtype) for _ in range(2))
    wide, upstream = x.astype(np.float64), grad.astype(np.float64)
    y = exact_softmax(wide, axis)
    bound = {"rtol": 8 * np.finfo(dtype).eps, "atol": 8 * np.finfo(dtype).eps}
    results = {"softmax_rows": (kernel("softmax_rows", dtype)(x, axis), y),
               "log_softmax_rows": (kernel("log_softmax_rows", dtype)(x, axis), np.log(y))}
    y_dtype, log_y = y.astype(dtype), np.log(y).astype(dtype)
    results["softmax_backward"] = (kernel("softmax_backward", dtype)(grad, y_dtype, axis),
                                   y * (upstream - (upstream * y).sum(axis=axis, keepdims=True)))
    results["log_softmax_backward"] = (kernel("log_softmax_backward", dtype)(grad, log_y, axis),
                                       upstream - y * upstream.sum(axis=axis, keepdims=True))
    for name, (result, expected) in results.items():
        assert type(result) is np.ndarray
        assert result.dtype == dtype
        np.testing.assert_allclose(result, expected, **bound, err_msg=name)
    np.testing.assert_array_equal(wide, x.astype(np.float64))  # operands are left alone


@pytest.mark.parametrize("name", ["softmax_rows", "log_softmax_rows"])
def test_rows_of_extreme_values(kernel, name):
    x = np.array([[1e30, 0], [-np.inf, 0], [np.nan, 0], [-np.inf, -np.inf], [np.inf, 0]], np.float32)
    result = kernel(name, "float32")(x, 1)
    expected = np.array([[1, 0], [0, 1]]) if name == "softmax_rows" else np.array([[0, -1e30], [-np.inf, 0]])
    np.testing.assert_allclose(result[:2], expected, rtol=1e-6)
    assert np.isnan(result[2:, 0]).all()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_rows_without_elements(kernel, shape):
    x = np.zeros(shape, np.float32)
    for name in ("softmax_rows", "log_softmax_rows"):
        result = kernel(name, "float32")(x, 1)
        assert result.shape == shape
        assert result is not x
    for name in ("softmax_backward", "log_softmax_backward"):
        assert kernel(name, "float32")(x, x, 1).shape == shape


# ---------------------------------------------------------------------------------------------------- matmul


@pytest.mark.parametrize(("left", "right"), [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)),
                                             ((5, 2, 3), (3, 4)), ((5, 1, 2, 3), (7, 3, 4)), ((2, 0), (0, 3)),
                                             ((0, 2, 3), (3, 4)), ((2, 3, 0), (0, 4)), ((6, 5, 2, 3), (3, 4))])
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, "bfloat16"])
def test_matmul(kernel, rng, left, right, dtype):
    x, y = rng.integers(0, 5, left).astype(np.float32), rng.integers(0, 5, right).astype(np.float32)
    expected = np.asarray(np.matmul(x.astype(np.float64), y.astype(np.float64)))
    if dtype == "bfloat16":
        result = kernel("matmul", dtype)(float32_to_bfloat16(x), float32_to_bfloat16(y))
        assert result.dtype == np.uint16
        assert type(result) is np.ndarray
        result = np.asarray(bfloat16_to_float32(result))
    else:
        result = kernel("matmul", dtype)(x.astype(dtype), y.astype(dtype))
        assert result.dtype == dtype
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, expected)


def test_batches_that_meet_one_matrix_are_one_product(kernel, rng, monkeypatch):
    x, y = rng.standard_normal((4, 3, 6)).transpose(1, 0, 2), rng.standard_normal((6, 2))
    expected = np.einsum("abk,kn->abn", x, y)
    shapes, multiply = [], np.matmul
    monkeypatch.setattr(np, "matmul", lambda a, b: (shapes.append(a.shape), multiply(a, b))[1])
    np.testing.assert_allclose(kernel("matmul", "float64")(x, y), expected, rtol=1e-12)
    assert shapes == [(12, 6)]


def test_float16_matmul_accumulates_in_float32(kernel):
    ones = np.ones((1, 5000), np.float16)
    assert kernel("matmul", "float16")(ones, ones.T).item() == 5000


# ------------------------------------------------------------------------------------------------------ math


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8])
def test_integer_division_truncates_and_survives_zero(dtype):
    info = np.iinfo(dtype)
    values = [info.min, info.max, 0, 1, 7, 5, *([-1, -7, -3] if info.min else [])]
    x, y = (np.array(v, dtype) for v in zip(*itertools.product(values, values), strict=True))

    def divide(a, b):
        return 0 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)

    quotients = [divide(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    wrapped = [(q - int(info.min)) % 2 ** (8 * info.dtype.itemsize) + int(info.min) for q in quotients]
    assert quiet(idiv)(x, y).tolist() == wrapped
    remainders = [0 if b == 0 else a - b * q for a, b, q in zip(x.tolist(), y.tolist(), quotients, strict=True)]
    assert quiet(imod)(x, y).tolist() == remainders


def test_erf():
    x = np.concatenate([np.linspace(-7, 7, 20_001), [0.46875, 4.0, 1e-300, 30.0, -0.0]])
    exact = np.array([math.erf(v) for v in x])
    np.testing.assert_allclose(erf(x), exact, rtol=8e-16, atol=0)
    assert np.signbit(erf(np.array(-0.0)))
    assert erf(np.array([np.inf, -np.inf, np.nan])).tolist()[:2] == [1.0, -1.0]
    assert np.isnan(erf(np.array([np.nan])))[0]
    assert erf(np.array([0.5], np.float32)).dtype == np.float32
    assert erf(np.array([], np.float64)).shape == (0,)


def test_math_namespace_casts_and_selects():
    m = NUMPY_MATH
    x = np.array([0.0, -1.5, np.nan], np.float32)
    assert m.cast(x, bool_).tolist() == [False, True, True]
    assert m.cast(x[:2], int32).tolist() == [0, -1]
    assert m.cast(np.array([1.0], np.float64), bfloat16).tolist() == [0x3F80]
    assert m.bitcast(np.array([1.0], np.float32), int32).tolist() == [0x3F800000]
    chosen = m.where(np.array(True), np.array(1, np.uint8), np.array(2, np.uint8))
    assert type(chosen) is np.ndarray
    assert chosen.dtype == uint8.numpy
    assert m.minimum(x, np.float32(-1)).tolist()[:2] == [-1.0, -1.5]
    assert m.rint(np.array([0.5, 1.5, 2.5])).tolist() == [0, 2, 2]
    assert m.fmod(np.array([-7.0]), np.array([3.0])).tolist() == [-1.0]
    assert m.cast(x, float32).dtype == float32.numpy


def test_registered_dtypes_exist():
    assert {*EVERY} <= BY_NAME.keys()
