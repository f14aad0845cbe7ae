"""Complex values in the IR: arithmetic and functions of pairs against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest

from tensocket_plugins.contract.dtypes import complex64, complex128, float32, float64, int32
from tensocket_plugins.ir.complex import Complex, choose, convert, equal, unequal
from tensocket_plugins.ir.decompose import decompose
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.math import complexes
from tensocket_plugins.ir.nodes import (
    Buffer,
    Expr,
    IRError,
    Kernel,
    Load,
    LoopKind,
    Program,
    Scalar,
    Store,
    Var,
    cast,
    const,
    loop,
)
from tensocket_plugins.ir.target import Target
from tensocket_plugins.ir.verify import verify

PARTS = {float32: np.float32, float64: np.float64}


def log1p(z):
    """NumPy's own adds 1 first."""
    return 0.5 * np.log1p(z.real * (z.real + 2) + z.imag**2) + 1j * np.arctan2(z.imag, z.real + 1)


FUNCTIONS = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": log1p, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "abs": np.abs, "angle": np.angle,
    "conj": np.conj, "sgn": np.sign,
}


def evaluate(formula, *values, part=float64):
    """A formula over complex operands, interpreted; ``values`` are complex arrays of one length."""
    n, i = Var("n", int32), Var("i", int32)
    arrays = [np.ascontiguousarray(v, np.result_type(PARTS[part], np.complex64)).view(PARTS[part]) for v in values]
    operands = [Complex(Load(f"x{k}", i * 2, part), Load(f"x{k}", i * 2 + 1, part)) for k in range(len(arrays))]
    result = formula(*operands)
    pair = (result.re, result.im) if isinstance(result, Complex) else (cast(result, part), const(0.0, part))
    stores = [Store("out", i * 2 + k, value) for k, value in enumerate(pair)]
    inputs = [Buffer(f"x{k}", part) for k in range(len(arrays))]
    params = (Buffer("out", part, writable=True), *inputs, Scalar("n", int32))
    program = Program("formula", params, (Kernel("formula", (loop(i, n, stores, LoopKind.PARALLEL),)),))
    verify(program)
    program = decompose(program, Target(kind="interpreter"))
    verify(program)
    out = np.zeros_like(arrays[0])
    interpret(program, [out, *arrays], [len(values[0])])
    return out.view(np.result_type(PARTS[part], np.complex64))


@pytest.fixture(params=[float32, float64], ids=["f32", "f64"])
def part(request):
    return request.param


def points(part, count=400):
    rng = np.random.default_rng(0)
    sizes = np.exp(rng.uniform(-6, 1.5, count))
    values = sizes * np.exp(1j * rng.uniform(-np.pi, np.pi, count))
    values[:8] = [1, -1, 1j, -1j, 0.5 + 0j, -0.5 + 0j, 1e-9j, 3 - 1e-9j]
    return values.astype(complex64.numpy if part is float32 else complex128.numpy)


def close(actual, expected, part, ulp=8.0):
    """The distance in the plane is at most ``ulp`` units of the larger one's last place."""
    eps = np.finfo(PARTS[part]).eps
    distance = np.abs(actual - expected)
    assert np.all(distance <= ulp * eps * np.abs(expected) + np.finfo(PARTS[part]).tiny), np.max(
        distance / (eps * np.abs(expected))
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_one_value(name, part):
    values = points(part)[1 + (name == "log1p"):]
    reference = FUNCTIONS[name](values.astype(np.clongdouble))
    close(evaluate(complexes.UNARY[name], values, part=part), reference, part)


@pytest.mark.parametrize("shift", [0, "least", "most"])
def test_magnitudes_are_rounded_to_the_nearest_value(part, shift):
    """In the middle of the dtype's exponents, and where squares vanish or overflow."""
    of = np.finfo(PARTS[part])
    power = {0: 0, "least": of.minexp + 12, "most": of.maxexp - 14}[shift]
    values = points(part, 4000)
    values = np.ldexp(values.real, power) + 1j * np.ldexp(values.imag, power)
    actual = evaluate(complexes.absolute, values.astype(np.result_type(PARTS[part], np.complex64)), part=part).real
    reference = np.hypot(values.real.astype(np.longdouble), values.imag.astype(np.longdouble))
    assert np.max(np.abs(actual - reference) / np.spacing(actual)) < 0.501


def test_magnitudes_at_the_edges(part):
    inf, nan, of = np.inf, np.nan, np.finfo(PARTS[part])
    least, most = of.smallest_subnormal, of.max
    parts = [(0, 0), (-0.0, 0), (inf, nan), (nan, -inf), (nan, 1), (1, nan), (-inf, 2), (most, 0), (0, -most),
             (most, most), (least, 0), (3 * least, -4 * least), (of.tiny, least), (nan, nan)]
    values = np.array([complex(*pair) for pair in parts], np.result_type(PARTS[part], np.complex64))
    with np.errstate(over="ignore", invalid="ignore"):
        actual = evaluate(complexes.absolute, values, part=part).real
    expected = [0, 0, inf, inf, nan, nan, inf, most, most, inf, least, 5 * least, of.tiny, nan]
    np.testing.assert_array_equal(actual, np.array(expected, PARTS[part]))


@pytest.mark.parametrize(
    ("formula", "reference"),
    [
        (lambda x, y: x + y, np.add), (lambda x, y: x - y, np.subtract), (lambda x, y: x * y, np.multiply),
        (lambda x, y: x / y, np.divide), (lambda x, y: 2 - x * 3.0 + y / 2, lambda x, y: 2 - x * 3.0 + y / 2),
        (lambda x, y: (1j + x) * 2j - y, lambda x, y: (1j + x) * 2j - y),
        (lambda x, y: x.re * y + y * x.im, lambda x, y: x.real * y + y * x.imag),
        (lambda x, y: 1 / x + 1j / y - x.re, lambda x, y: 1 / x + 1j / y - x.real),
        (lambda x, y: -x - 1j, lambda x, y: -x - 1j), (lambda x, y: 3.0 - y + x.re, lambda x, y: 3 - y + x.real),
        (lambda x, y: choose(x.re < y.re, x, 2j), lambda x, y: np.where(x.real < y.real, x, 2j)),
        (lambda x, y: choose(x.re < y.re, y.im, x), lambda x, y: np.where(x.real < y.real, y.imag, x)),
    ],
)
def test_arithmetic(formula, reference, part):
    x, y = points(part), points(part)[::-1].copy()
    wide = reference(x.astype(np.complex128), y.astype(np.complex128))
    # Sums may cancel: the bound scales with the operands.
    eps = np.finfo(PARTS[part]).eps
    size = np.abs(x) + np.abs(y) + np.abs(x * y) + 1 / np.abs(x) + 1 / np.abs(y) + np.abs(wide) + 8
    assert np.all(np.abs(evaluate(formula, x, y, part=part) - wide) <= 4 * eps * size)


def test_powers(part):
    x, y = points(part), points(part, 400)[::-1].copy() / 2
    close(evaluate(complexes.pow, x, y, part=part), x.astype(np.complex128) ** y.astype(np.complex128), part, 64.0)
    zero = np.zeros(3, np.complex64)
    powers = np.array([0, 2.5, 1 + 1j])
    np.testing.assert_array_equal(evaluate(complexes.pow, zero, powers, part=part), [1, 0, 0])


def test_quotients_do_not_overflow_on_the_way(part):
    big = np.array([2.0 ** (100 if part is float32 else 1000)]) * (1 + 1j)
    close(evaluate(lambda x, y: x / y, big, big * 1j, part=part), np.array([-1j]), part)
    close(evaluate(complexes.absolute, big / 2, part=part), np.abs(big / 2), part)
    np.testing.assert_array_equal(evaluate(lambda x: 1 / x, np.array([0j]), part=part).real, [np.inf])


def test_special_values(part):
    inf, nan = np.inf, np.nan
    values = np.array([complex(inf, nan), complex(nan, -inf), complex(-inf, 1), 0, complex(nan, 1)])
    np.testing.assert_array_equal(evaluate(complexes.absolute, values, part=part).real, [inf, inf, inf, 0, nan])
    np.testing.assert_array_equal(evaluate(complexes.exp, np.array([complex(inf, 0)]), part=part), [complex(inf, 0)])
    root = evaluate(complexes.sqrt, np.array([0, -4, complex(-4, -0.0), complex(1, inf)]), part=part)
    np.testing.assert_array_equal(root, [0, 2j, -2j, complex(inf, inf)])
    np.testing.assert_array_equal(evaluate(complexes.sgn, np.array([0, 3j]), part=part), [0, 1j])
    large = evaluate(complexes.tanh, np.array([300 + 1j, -300 + 1j]), part=part)
    np.testing.assert_allclose(large, [1, -1], atol=1e-30)


@pytest.mark.parametrize("y", [0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan, 1e-30])
def test_arc_tangents_of_every_quadrant(y, part):
    x = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -1e-3, np.inf, -np.inf, np.nan, 1e30])
    actual = _atan2(y, x, part)
    reference = np.arctan2(y, x)
    np.testing.assert_allclose(actual, reference, rtol=3 * np.finfo(PARTS[part]).eps, atol=1e-45)
    known = ~np.isnan(reference)
    np.testing.assert_array_equal(np.signbit(actual)[known], np.signbit(reference)[known])


def _atan2(y, x, part):
    values = np.empty(len(x), np.complex128)
    values.real, values.imag = x, y
    return evaluate(complexes.angle, values, part=part).real


def test_arc_tangents_are_accurate_everywhere(part):
    rng = np.random.default_rng(1)
    values = (rng.standard_normal(20000) + 1j * rng.standard_normal(20000)).astype(
        np.complex64 if part is float32 else np.complex128
    )
    actual = evaluate(complexes.angle, values, part=part).real
    reference = np.arctan2(values.imag.astype(np.longdouble), values.real.astype(np.longdouble))
    assert np.max(np.abs((actual - reference) / np.spacing(np.abs(reference).astype(PARTS[part])))) <= 2.5


def test_comparison_and_conversion():
    x = np.array([1 + 1j, 1 - 1j, complex(np.nan, 0), 2])
    np.testing.assert_array_equal(evaluate(lambda z: cast(equal(z, 1 + 1j), float64), x).real, [1, 0, 0, 0])
    np.testing.assert_array_equal(evaluate(lambda z: cast(unequal(z, z), float64), x).real, [0, 0, 1, 0])
    np.testing.assert_array_equal(evaluate(lambda z: convert(convert(z, complex64), complex128), x[[0, 3]]), x[[0, 3]])
    np.testing.assert_array_equal(evaluate(lambda z: convert(z.im, complex128), x[[0, 3]]), [1, 0])
    assert isinstance(convert(Complex(const(1.0, float32), const(0.0, float32)), int32), Expr)


def test_choosing_between_real_values_is_refused():
    with pytest.raises(IRError, match="use select"):
        choose(Var("c", int32), 1.0, 2.0)


#: Values that C99's annex G prescribes: function, argument, result.
EDGES = [
    ("exp", complex("inf+infj"), complex("inf+nanj")), ("exp", complex("-inf+infj"), 0j),
    ("exp", complex("-inf+nanj"), 0j), ("exp", complex("inf+nanj"), complex("inf+nanj")),
    ("exp", complex(2, np.inf), complex("nan+nanj")), ("expm1", complex(-0.0, 0.0), complex(-0.0, 0.0)),
    ("sinh", complex(0, np.inf), complex(0, np.nan)), ("sinh", complex(-0.0, np.nan), complex(-0.0, np.nan)),
    ("sinh", complex(np.inf, 0), complex(np.inf, 0)), ("sinh", complex("inf+infj"), complex("inf+nanj")),
    ("sinh", complex(np.nan, 0), complex(np.nan, 0)), ("sinh", complex(2, np.inf), complex("nan+nanj")),
    ("cosh", complex(np.inf, 0), complex(np.inf, 0)), ("cosh", complex("inf+nanj"), complex("inf+nanj")),
    ("cosh", complex(-np.inf, np.inf), complex("inf+nanj")), ("cosh", complex(0, np.inf), complex(np.nan, 0)),
    ("sin", complex(0, np.inf), complex(0, np.inf)), ("sin", complex(-0.0, -np.inf), complex(-0.0, -np.inf)),
    ("tanh", complex("inf+infj"), 1 + 0j), ("tanh", complex(-np.inf, np.nan), -1 + 0j),
    ("tanh", complex(0, np.inf), complex(0, np.nan)), ("tanh", complex(np.nan, 0), complex(np.nan, 0)),
    ("asin", complex(0, np.nan), complex(0, np.nan)), ("asin", complex(np.nan, -np.inf), complex(np.nan, -np.inf)),
    ("asinh", complex(np.nan, 0), complex(np.nan, 0)), ("asinh", complex("inf+nanj"), complex("inf+nanj")),
    ("asinh", complex(np.nan, np.inf), complex("inf+nanj")), ("acos", complex(0, np.nan), complex(np.pi / 2, np.nan)),
    ("acos", complex("inf+nanj"), complex(np.nan, -np.inf)), ("acosh", complex("-inf+nanj"), complex("inf+nanj")),
    ("atanh", complex(0, np.nan), complex(0, np.nan)), ("atanh", complex("inf+nanj"), complex(0, np.nan)),
    ("atanh", complex(np.nan, np.inf), complex(0, np.pi / 2)), ("atanh", complex(1, 0), complex(np.inf, 0)),
    ("atanh", complex(np.nan, 3), complex("nan+nanj")),
]


@pytest.mark.parametrize(("name", "value", "expected"), EDGES)
def test_edges(name, value, expected, part):
    result = evaluate(complexes.UNARY[name], np.array([value]), part=part)[0]
    for got, wanted in ((result.real, expected.real), (result.imag, expected.imag)):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
        assert wanted != 0 or np.isnan(result.real) or np.signbit(got) == np.signbit(wanted)


def test_sines_of_large_imaginary_parts_do_not_overflow_on_the_way(part):
    large = 60.0 if part is float32 else 600.0
    values = np.array([complex(0.7, large), complex(0.7, -large)])
    reference = values.astype(np.clongdouble)
    close(evaluate(complexes.sin, values, part=part), np.sin(reference).astype(np.complex128), part)
    close(evaluate(complexes.cos, values, part=part), np.cos(reference).astype(np.complex128), part)
    close(evaluate(complexes.sinh, values * 1j, part=part), np.sinh(reference * 1j).astype(np.complex128), part)


def test_the_inverse_tangent_near_its_pole():
    values = np.array([1 + 1e-200j, -1 + 1e-300j])
    expected = np.array([complex(0.5 * np.log(2e200), np.pi / 4), complex(-0.5 * np.log(2e300), np.pi / 4)])
    close(evaluate(complexes.atanh, values), expected, float64)
