"""Elementary functions against NumPy in wide precision: values, special values, complex numbers, half precision."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions as f

N = 4000
RNG = np.random.default_rng(3)


def spread(low, high):
    """Numbers of both signs whose logarithms are uniform."""
    return 10 ** RNG.uniform(low, high, N) * RNG.choice([-1, 1], N)


UNARY = {
    "tan": (np.tan, RNG.uniform(-1.5, 1.5, N)), "asin": (np.arcsin, RNG.uniform(-1, 1, N)),
    "acos": (np.arccos, RNG.uniform(-1, 0.99, N)), "atan": (np.arctan, spread(-6, 6)),
    "sinh": (np.sinh, spread(-6, 1.9)), "cosh": (np.cosh, spread(-6, 1.9)), "asinh": (np.arcsinh, spread(-6, 30)),
    "acosh": (np.arccosh, 1 + np.abs(spread(-6, 30))), "atanh": (np.arctanh, RNG.uniform(-1, 1, N)),
    "exp2": (np.exp2, RNG.uniform(-120, 120, N)), "log2": (np.log2, np.abs(spread(-30, 30))),
    "log10": (np.log10, np.abs(spread(-30, 30))),
}
BINARY = {
    "atan2": (np.arctan2, spread(-6, 6), spread(-6, 6)), "hypot": (np.hypot, spread(-6, 6), spread(-6, 6)),
    "logaddexp": (np.logaddexp, RNG.uniform(0, 20, N), RNG.uniform(0, 20, N)),
    "logaddexp2": (np.logaddexp2, RNG.uniform(0, 20, N), RNG.uniform(0, 20, N)),
    "copysign": (np.copysign, spread(-3, 3), spread(-3, 3)),
}


def units_off(tensor, reference):
    got = tensor.detach()._host()
    step = np.spacing(np.abs(reference.astype(got.dtype)))
    return float(np.max(np.abs(got - reference) / step))


@pytest.mark.parametrize("size", [40, N])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", UNARY)
def test_unary_functions_within_four_units(name, dtype, size, device):
    reference, values = UNARY[name]
    values = values[:size].astype(dtype)
    assert units_off(getattr(f, name)(tc.tensor(values)), reference(values.astype(np.longdouble))) <= 4.0


@pytest.mark.parametrize("size", [40, N])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", BINARY)
def test_binary_functions_within_four_units(name, dtype, size, device):
    reference, x, y = BINARY[name]
    x, y = x[:size].astype(dtype), y[:size].astype(dtype)
    expected = reference(x.astype(np.longdouble), y.astype(np.longdouble))
    assert units_off(getattr(f, name)(tc.tensor(x), tc.tensor(y)), expected) <= 4.0


@pytest.mark.parametrize("size", [4, 2000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lengths_are_rounded_to_the_nearest_value(dtype, size, device):
    _, x, y = BINARY["hypot"]
    x, y = x[:size].astype(dtype), y[:size].astype(dtype)
    expected = np.hypot(x.astype(np.longdouble), y.astype(np.longdouble))
    assert units_off(f.hypot(tc.tensor(x), tc.tensor(y)), expected) <= 0.501


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, math.inf, -math.inf, math.nan])


@pytest.mark.parametrize("copies", [1, 400])
@pytest.mark.parametrize("name", UNARY)
def test_special_values_are_those_of_c(name, copies, device, host):
    values = np.tile(SPECIAL, copies)
    with np.errstate(all="ignore"):
        expected = UNARY[name][0](values)
    got = host(getattr(f, name)(tc.tensor(values)))
    np.testing.assert_allclose(got, expected, rtol=1e-14, atol=1e-15)
    np.testing.assert_array_equal(np.signbit(got[expected == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.parametrize("copies", [1, 40])
@pytest.mark.parametrize("name", ["atan2", "hypot", "copysign", "logaddexp"])
def test_pairs_of_special_values(name, copies, device, host):
    x, y = (np.tile(a.ravel(), copies) for a in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        expected = BINARY[name][0](x, y)
    got = host(getattr(f, name)(tc.tensor(x), tc.tensor(y)))
    np.testing.assert_allclose(got, expected, rtol=1e-14, atol=1e-15)
    if name == "atan2":
        np.testing.assert_array_equal(np.signbit(got[expected == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whole_powers_have_whole_logarithms(dtype, device):
    twos = np.ldexp(1.0, np.arange(-30, 31)).astype(dtype)
    assert f.log2(tc.tensor(twos)).tolist() == list(range(-30, 31))
    least = np.finfo(dtype).minexp - np.finfo(dtype).nmant
    every = np.ldexp(1.0, np.arange(least, np.finfo(dtype).maxexp)).astype(dtype)  # also subnormal ones
    assert f.log2(tc.tensor(every)).tolist() == list(range(least, np.finfo(dtype).maxexp))
    tens = (10.0 ** np.arange(0, 11)).astype(dtype)
    assert f.log10(tc.tensor(tens)).tolist() == list(range(11))


@pytest.mark.parametrize("name", ["log2", "log10"])
def test_logarithms_of_any_bits_are_within_two_units(name, device, host):
    numbers = np.arange(1, 1 << 32, 1 << 13, dtype=np.int64).astype(np.uint32).view(np.float32)
    near_one = (np.float32(1).view(np.int32) + np.arange(-3000, 3000, dtype=np.int32)).view(np.float32)
    for values in (numbers, near_one):
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(values.astype(np.float64))
        got = host(getattr(f, name)(tc.tensor(values)))
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(got[~finite], expected[~finite])
        off = np.abs(got - expected)[finite] / np.spacing(np.abs(expected[finite]).astype(np.float32))
        assert off.max() <= 2.0


def test_logarithms_of_subnormal_numbers(device, host):
    values = np.array([2.0**-149, 2.0**-148, 3 * 2.0**-149], np.float32)
    np.testing.assert_allclose(host(f.log10(tc.tensor(values))), np.log10(values.astype(float)), rtol=1e-6)
    np.testing.assert_allclose(host(f.log2(tc.tensor(values))), np.log2(values.astype(float)), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nextafter_is_the_neighbour(dtype, device):
    x = np.array([0.0, -0.0, 0.0, 1.0, 1.0, -1.0, -1.0, 3.0, np.finfo(dtype).max, math.inf, math.nan, 1.0], dtype)
    y = np.array([1.0, -1.0, 0.0, 2.0, 0.0, -2.0, 0.0, 3.0, math.inf, 0.0, 1.0, math.nan], dtype)
    got = np.array(f.nextafter(tc.tensor(x), tc.tensor(y)).tolist(), dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, np.nextafter(x, y))


@pytest.mark.parametrize("towards", [math.inf, -math.inf, 0.0, 1.0])
def test_nextafter_of_every_half(towards, device):
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = x[~np.isnan(x)]
    got = f.nextafter(tc.tensor(x, device=device), tc.tensor(towards, dtype=tc.float16, device=device))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(np.array(got.tolist()), np.nextafter(x, np.float16(towards)).astype(float))


def test_nextafter_of_bfloat16(device):
    if "bfloat16" not in tc.tensor(0.0, device=device)._device_state.runtime.profile.dtypes:
        pytest.skip("the device lacks bfloat16")
    x = tc.tensor([1.0, 1.0, 0.0, -0.0, math.inf, -1.0, 2.0**-133], dtype=tc.bfloat16, device=device)
    y = tc.tensor([2.0, 0.0, 1.0, -1.0, 0.0, -1.0, 0.0], dtype=tc.bfloat16, device=device)
    expected = [1 + 2.0**-7, 1 - 2.0**-8, 2.0**-133, -2.0**-133, (2 - 2.0**-7) * 2.0**127, -1.0, 0.0]
    assert f.nextafter(x, y).tolist() == expected


@pytest.mark.parametrize("copies", [1, 400])
def test_signbit_sees_zeros_and_nan(copies, device):
    values = np.tile(np.array([0.0, -0.0, 1.0, -1.0, -math.inf, np.copysign(math.nan, -1)], np.float32), copies)
    assert f.signbit(tc.tensor(values)).tolist() == np.signbit(values).tolist()
    assert f.signbit(tc.tensor([1, -1, 0])).tolist() == [False, True, False]
    assert f.signbit(tc.tensor([True, False])).tolist() == [False, False]


def test_floor_divide_keeps_the_sign_of_zero(device):
    quotient = f.floor_divide(tc.tensor([-0.0, -0.0, 0.0, -1.0]), tc.tensor([2.0, -2.0, -2.0, -math.inf]))
    assert [math.copysign(1, v) for v in quotient.tolist()] == [-1, 1, -1, 1]


def test_integers_are_computed_in_the_default_dtype(device, near):
    near(f.atan(tc.tensor([1, 2, 3])), np.arctan([1, 2, 3]), dtype="float32")


COMPLEX = ("tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "exp2", "log2", "log10", "expm1")


@pytest.mark.parametrize("size", [40, 30000])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_functions(name, size, host):
    reference = {"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh,
                 "atanh": np.arctanh}.get(name) or getattr(np, name)
    rng = np.random.default_rng(5)
    values = rng.uniform(-3, 3, size) + 1j * rng.uniform(-3, 3, size)
    got = host(getattr(f, name)(tc.tensor(values)))
    np.testing.assert_allclose(got, reference(values), rtol=2e-14)


@pytest.mark.parametrize("values", [[-math.inf + math.inf * 1j, 0j], [complex(math.inf, 0), complex(-math.inf, 1)]])
def test_complex_expm1_of_infinities_is_that_of_exp(values, host):
    with np.errstate(all="ignore"):
        expected = np.exp(np.array(values)) - 1
    np.testing.assert_array_equal(host(f.expm1(tc.tensor(values, dtype=tc.complex128))), expected)


def test_the_next_number_moves_with_the_first_operand_where_they_differ() -> None:
    x = tc.tensor([1.0, 2.0, 3.0], dtype=tc.float64, requires_grad=True)
    y = tc.tensor([1.0, 5.0, 0.0], dtype=tc.float64, requires_grad=True)
    tc.nextafter(x, y).backward(tc.tensor([2.0, 3.0, 4.0], dtype=tc.float64))
    assert x.grad.tolist() == [0.0, 3.0, 4.0]
    assert y.grad.tolist() == [0.0, 0.0, 0.0]
