"""Pointwise operators against NumPy in float64, where conformance has no samples: dtypes, layouts, operands."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.registry import OPERATORS, clear_tables
from tensocket_core.launch import entries as native
from tensocket_operators import functions as f
from tensocket_plugins.contract.errors import DtypeError

SHAPE = (3, 5)
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
_erf = np.vectorize(math.erf, otypes=[float])


def phi(x):
    return 0.5 * (1 + _erf(x / math.sqrt(2)))


#: For floats only: function, reference, and the range of its arguments.
ACTIVATIONS = {
    "gelu": (f.gelu, lambda x: x * phi(x), -3, 3),
    "gelu by tanh": (
        lambda x: f.gelu(x, approximate="tanh"),
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        -3,
        3,
    ),
    "silu": (f.silu, lambda x: x / (1 + np.exp(-x)), -5, 5),
    "silu_slope": (lambda x: call(OPERATORS["silu_slope"], x),
                   lambda x: (1 + x / (1 + np.exp(x))) / (1 + np.exp(-x)), -5, 5),
    "leaky_relu": (lambda x: f.leaky_relu(x, 0.2), lambda x: np.where(x > 0, x, 0.2 * x), -3, 3),
}
TESTS_UNARY = {
    "isnan": (f.isnan, np.isnan),
    "isinf": (f.isinf, np.isinf),
    "isfinite": (f.isfinite, np.isfinite),
    "logical_not": (f.logical_not, np.logical_not),
}
#: Dtypes of which conformance has samples in few layouts.
FEW_SAMPLES = ("float16", "bfloat16", "uint8", "int8", "int16")
ARITHMETIC = {
    "add": (f.add, np.add),
    "sub": (f.sub, np.subtract),
    "mul": (f.mul, np.multiply),
    "maximum": (f.maximum, np.maximum),
    "minimum": (f.minimum, np.minimum),
}
QUOTIENTS = {
    "floor_divide": (f.floor_divide, np.floor_divide),
    "remainder": (f.remainder, np.mod),
    "fmod": (f.fmod, np.fmod),
    "div trunc": (lambda x, y: f.div(x, y, rounding_mode="trunc"), lambda x, y: np.trunc(x / y)),
    "div floor": (lambda x, y: f.div(x, y, rounding_mode="floor"), np.floor_divide),
}
#: Their samples and references are those of conformance: ``tests/operators/test_samples.py``.
SAMPLED = {"exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tanh", "erf", "sigmoid",
           "neg", "abs", "square", "floor", "ceil", "trunc", "round", "relu", "clamp", "clamp_min", "clamp_max",
           "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor",
           "bitwise_and", "bitwise_or", "bitwise_xor"}
#: Records that have tests of their own, below or with the operands.
OTHERS = {"sign", "div", "pow", "bitwise_not", "where", "addcmul", "addcdiv", "lerp", "truncated_divide",
          "floored_divide", "gelu_backward", "relu_backward", "leaky_relu_backward", "round_decimals", "add_bias"} | {
    "complex", "conj_physical", "angle", "sgn", "bitwise_left_shift", "bitwise_right_shift"}


#: Tested in test_elementary.py.
ELEMENTARY = {"acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "cosh", "exp2", "hypot", "log10",
              "log2", "logaddexp", "logaddexp2", "nextafter", "signbit", "sinh", "tan"}


#: Modules whose records have tests of their own: test_numeric.py, test_exponents.py, special/test_special.py ...
FAMILIES = ("indexing.", "pointwise.numeric", "pointwise.exponents", "pointwise.activations_piecewise", "special.",
            "nn.losses", "nn.dropout")


def test_every_record_is_here():
    known = {
        name.split()[0]
        for table in (ACTIVATIONS, TESTS_UNARY, ARITHMETIC, QUOTIENTS)
        for name in table
    } | SAMPLED | OTHERS | ELEMENTARY
    assert known == {name for name, operator in OPERATORS.items() if operator.kind == "pointwise"
                     and not operator.formula.__module__.removeprefix("tensocket_operators.").startswith(FAMILIES)}


def test_sampled_records_have_samples():
    ops = pytest.importorskip("tensocket_conformance.ops")
    # Samples of clamp with one limit are those of the other two.
    assert {record.name for record in ops.operators()} >= SAMPLED - {"clamp_min", "clamp_max"}


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_activations(device, supports, numbers, near, name, dtype):
    if not supports(dtype):
        return
    function, reference, low, high = ACTIVATIONS[name]
    x, values = numbers(dtype, low, high)
    near(function(x), reference(values), dtype=dtype)
    with pytest.raises(DtypeError, match="is not defined for int dtypes"):
        function(tc.arange(3))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_signs(device, supports, numbers, near, dtype):
    if not supports(dtype):
        return
    x, values = numbers(dtype)
    near(f.sign(x), np.sign(values).astype(values.dtype), dtype=dtype)


@pytest.mark.parametrize("name", TESTS_UNARY)
@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "bool"])
def test_tests(device, supports, make, near, name, dtype):
    if not supports(dtype):
        return
    function, reference = TESTS_UNARY[name]
    values = [0.0, 1.0, -2.5, math.inf, -math.inf, math.nan] if dtype in FLOATS else [0, 1, 1]
    near(function(make(values, dtype)), reference(np.array(values)), dtype="bool")


@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("dtype", FEW_SAMPLES)
@pytest.mark.parametrize(
    "shapes", [(SHAPE, SHAPE), (SHAPE, (5,)), ((3, 1), (1, 5)), (SHAPE, ()), ((), SHAPE), ((0, 5), (5,))], ids=str
)
def test_arithmetic(device, supports, numbers, near, name, dtype, shapes):
    if not supports(dtype):
        return
    function, reference = ARITHMETIC[name]
    (x, a), (y, b) = (numbers(dtype, shape=shape, seed=seed) for seed, shape in enumerate(shapes))
    near(function(x, y), reference(a, b), dtype=dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap(device, make, near, dtype):
    values = np.array([100, 127, 0, 1], dtype)
    with np.errstate(over="ignore"):
        near(make(values, dtype) * make(values, dtype), values * values)
        near(make(values, dtype) + make(values, dtype), values + values)
    near(-make(values, dtype), (-values.astype(np.int64)).astype(dtype))
    if dtype != "uint8":
        low = np.iinfo(dtype).min
        assert make([low], dtype).abs().tolist() == [low]


@pytest.mark.parametrize("name", ["fmod", "div trunc", "div floor"])
@pytest.mark.parametrize("dtype", ["float32", "float64", *INTEGERS])
def test_rounded_quotients(device, numbers, make, near, name, dtype):
    function, reference = QUOTIENTS[name]
    x, a = numbers(dtype, 0 if dtype == "uint8" else -3, 3)
    divisors = [1, 2, 3, 4, 7] if dtype == "uint8" else [1, -2, 3, -4, 7]
    near(
        function(x, make(divisors, dtype)),
        reference(a.astype(float), np.array(divisors, float)).astype(a.dtype),
        dtype=dtype,
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("floor_divide", [3, -4, -4, 3]),
        ("remainder", [1, 1, -1, -1]),
        ("fmod", [1, -1, 1, -1]),
        ("div trunc", [3, -3, -3, 3]),
    ],
)
def test_signs_of_quotients(device, name, expected):
    assert QUOTIENTS[name][0](tc.tensor([7, -7, 7, -7]), tc.tensor([2, 2, -2, -2])).tolist() == expected


def test_quotients_of_special_floats(device):
    inf, nan = math.inf, math.nan
    x, y = tc.tensor([5.0, -5.0, 0.0, 5.0, inf, 1.0, 6.0]), tc.tensor([0.0, 0.0, 0.0, inf, 2.0, nan, 0.1])
    assert str((x / y).tolist()[:5]) == str([inf, -inf, nan, 0.0, inf])
    assert str((x // y).tolist()[:4]) == str([inf, -inf, nan, 0.0])
    assert str((x % y).tolist()[:5]) == str([nan, nan, nan, 5.0, nan])


def test_integer_division_by_zero_elements(device):
    """An error where looking costs nothing; elsewhere by one."""
    if device == "cpu":
        for run in (f.floor_divide, f.remainder, f.fmod, lambda x, y: f.div(x, y, rounding_mode="trunc")):
            with pytest.raises(DtypeError, match="int64 by 0"):
                run(tc.tensor([7, -3]), tc.tensor([0, 2]))
        with pytest.raises(DtypeError, match="int64 by 0"):
            tc.tensor([7, -3]).remainder_(tc.tensor([1, 0]))
        return
    assert (tc.tensor([7, -3]) // tc.tensor([0, 2])).tolist() == [7, -2]
    assert (tc.tensor([7, -3]) % tc.tensor([0, 2])).tolist() == [0, 1]


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "uint8", "bool"])
def test_true_division(device, supports, numbers, near, make, dtype):
    if not supports(dtype):
        return
    x, a = numbers(dtype)
    divisors = np.ones(5) if dtype == "bool" else np.arange(1.0, 6)
    near(x / make(divisors, dtype), a / divisors, dtype=dtype if dtype in FLOATS else "float32")
    near(
        6 / (x.abs() + 1 if dtype != "bool" else make(np.ones(SHAPE))),
        6 / (np.abs(a) + 1) if dtype != "bool" else np.full(SHAPE, 6.0),
    )


def test_comparisons_with_nan(device):
    x = tc.tensor([math.nan, 1.0])
    assert (x == x).tolist() == [False, True]
    assert (x != x).tolist() == [True, False]
    assert (x < 2).tolist() == (x <= 1).tolist() == (x >= 1).tolist() == [False, True]
    assert math.isnan(tc.maximum(x, tc.zeros(2))[0].item())
    assert math.isnan(tc.minimum(tc.zeros(2), x)[0].item())


@pytest.mark.parametrize("function", [f.bitwise_and, f.bitwise_or, f.bitwise_xor])
def test_bits_of_floats_are_refused(device, function):
    with pytest.raises(DtypeError):
        function(tc.ones(2), tc.ones(2))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_of_floats(device, numbers, make, near, dtype):
    x, a = numbers(dtype, 0.2, 3)
    y, b = numbers(dtype, -2, 2, seed=1)
    near(x**y, a**b, dtype=dtype)
    for n in (0, 1, 2, 3, -1, -2, 0.5, 2.5):
        near(x**n, a**n, dtype=dtype, scale=4)
        near(n**y if n > 0 else tc.zeros(1), n**b if n > 0 else np.zeros(1), scale=4)
    near(make([-2.0, -2.0, 0.0, 0.0]) ** make([3.0, 2.0, 0.0, 2.0]), [-8.0, 4.0, 1.0, 0.0])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_powers_of_integers(device, make, near, dtype):
    base = np.array([0, 1, 2, 3, 5], dtype)
    for n in range(7):
        with np.errstate(over="ignore"):
            near(make(base, dtype) ** n, base ** np.array(n, dtype), dtype=dtype)
    if dtype != "uint8":
        assert (make([1, -1, -1, 2, -3], dtype) ** make([-3, -3, -2, -1, -2], dtype)).tolist() == [1, -1, 1, 0, 0]
        assert (make([-1, -1, 1, 0], dtype) ** 101).tolist() == [-1, -1, 1, 0]


@pytest.mark.parametrize("layout", ["transposed", "sliced", "expanded", "zero-dim", "empty"])
def test_layouts(device, near, layout):
    values = np.arange(12.0).reshape(3, 4)
    cut = {
        "transposed": lambda x: x.T,
        "sliced": lambda x: x[1:, ::2],
        "expanded": lambda x: x[:, :1] + x * 0 if isinstance(x, np.ndarray) else x[:, :1].expand(3, 4),
        "zero-dim": lambda x: x[1, 2],
        "empty": lambda x: x[:0],
    }[layout]
    x, a = cut(tc.tensor(values)), np.asarray(cut(values))
    near(x * x + 1, a * a + 1)
    near(f.exp(x / 12), np.exp(a / 12))
    near(x > 3, a > 3)
    near(x.relu(), np.maximum(a, 0))


def test_large_tensors_take_generated_kernels(near):
    if not tc.is_available("cpu"):
        pytest.skip("no backend with two paths is installed")
    values = np.random.default_rng(3).uniform(-3, 3, (70, 1001)).astype(np.float32)
    x = tc.tensor(values, device="cpu")
    wide = values.astype(np.float64)
    near(x.exp(), np.exp(wide))
    near(x.t() * 2 + x.t(), wide.T * 3)
    near((x > 0) & (x < 1), (wide > 0) & (wide < 1))
    near(x.double().to(tc.int32), np.trunc(wide).astype(np.int32))
    x.mul_(x)
    near(x, wide * wide)


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_sign_of_zero_does_not_depend_on_how_often_an_operator_was_called(dtype, monkeypatch):
    pytest.importorskip("tensocket_cpu")
    monkeypatch.setattr(native, "_CALLS", 2)
    clear_tables()
    for shape in ((), (3,), (40, 3)):
        zero = tc.zeros(shape, dtype=getattr(tc, dtype), device="cpu")
        for _ in range(5):
            # Of equal numbers, the second; zero itself has no sign.
            assert tc.signbit(tc.maximum(zero, -zero)).all()
            assert tc.signbit(tc.minimum(zero, -zero)).all()
            assert not tc.signbit(tc.maximum(-zero, zero)).any()
            assert not tc.signbit(tc.minimum(-zero, zero)).any()
            assert not tc.signbit((-zero).relu()).any()
