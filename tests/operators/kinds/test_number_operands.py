"""Python numbers and zero-dimensional tensors among other operands: how they are rounded, and which do not fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators import functions as F
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, DtypeError

#: Elements for NumPy or native entries, and for generated kernels.
SIZES = [1, 40, 5000]


def narrow(value: float, size: int, dtype: str, device: str) -> Any:
    try:
        return torch.full((size,), value, dtype=getattr(torch, dtype), device=device)
    except torch.errors.UnsupportedDtype:
        pytest.skip("the device lacks the dtype")


def nearest(value: float, dtype: str) -> float:
    """The rounded number, from the definition of the formats."""
    if dtype == "float16":
        return float(np.float16(value))
    if value == 0 or not math.isfinite(value):
        return value
    step = 2.0 ** (math.floor(math.log2(abs(value))) - 7)
    return round(value / step) * step


#: Operators with an element and a number that float16 cannot hold, or not exactly, and the result.
CASES: list[tuple[str, Callable[[Any, Any], Any], float, float, float]] = [
    ("mul", lambda x, n: x * n, 2.0 ** -10, 65536.0 * 1.5, 96.0),
    ("rmul", lambda x, n: n * x, 2.0 ** -10, 65536.0 * 1.5, 96.0),
    ("div", lambda x, n: x / n, 2.0 ** 15, 2.0 ** 17, 0.25),
    ("rdiv", lambda x, n: n / x, 2.0 ** 15, 2.0 ** 17, 4.0),
    ("add", lambda x, n: x + n, -2.0 ** 15, 2.0 ** 16, 2.0 ** 15),
    ("sub", lambda x, n: x - n, 2.0 ** 15, 2.0 ** 16, -2.0 ** 15),
    ("rsub", lambda x, n: n - x, 2.0 ** 15, 2.0 ** 16, 2.0 ** 15),
    ("floor_divide", lambda x, n: x // n, -1024.0, 2.0 ** 17, -1.0),
    ("div floor", lambda x, n: F.div(n, x, rounding_mode="floor"), 2.0 ** 15, 65536.0 * 1.75, 3.0),
    ("div trunc", lambda x, n: F.div(n, x, rounding_mode="trunc"), 2.0 ** 15, 65536.0 * 1.75, 3.0),
    ("remainder", lambda x, n: x % n, -1024.0, 2.0 ** 15 + 1.0, 2.0 ** 15 - 1023.0),
    ("fmod", F.fmod, 2.0 ** 15, 2.0 ** 17, 2.0 ** 15),
    ("rpow", lambda x, n: n ** x, 0.5, 2.0 ** 20, 1024.0),
    ("xlogy", F.xlogy, 2.0 ** -10, 2.0 ** 20, 2.0 ** -10 * 20 * math.log(2)),
    ("mul of a small number", lambda x, n: x * n, 2.0 ** 15, 2.0 ** -30, 2.0 ** -15),
    ("div by a small number", lambda x, n: x / n, 2.0 ** -14, 2.0 ** -28, 2.0 ** 14),
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("name", "function", "element", "number", "expected"), CASES, ids=[c[0] for c in CASES])
def test_numbers_are_not_rounded_before_they_meet_narrow_floats(
        name: str, function: Callable[[Any, Any], Any], element: float, number: float, expected: float, dtype: str,
        size: int, device: str) -> None:
    x = narrow(element, size, dtype, device)
    for given in (number, torch.tensor(number, dtype=torch.float64), torch.tensor(number, device=device)):
        result = function(x, given)
        assert result.dtype is x.dtype
        assert set(result.tolist()) == {nearest(expected, dtype)}


@pytest.mark.parametrize("size", SIZES)
def test_in_place_and_out(size: int, device: str) -> None:
    x = narrow(2.0 ** -10, size, "float16", device)
    assert set(x.clone().mul_(2.0 ** 17).tolist()) == {128.0}
    assert set(x.clone().mul_(torch.tensor(2.0 ** 17)).tolist()) == {128.0}
    assert set((x * 2.0 ** 10).div_(2.0 ** -20).tolist()) == {math.inf}
    out = torch.empty_like(x)
    F.mul(x, 2.0 ** 17, out=out)
    assert set(out.tolist()) == {128.0}


@pytest.mark.parametrize("size", SIZES)
def test_further_operands_and_arguments(size: int, device: str) -> None:
    x, y = narrow(2.0 ** -10, size, "float16", device), narrow(2.0 ** -10, size, "float16", device)
    one = narrow(1.0, size, "float16", device)
    assert set(F.addcmul(one, x, y, value=2.0 ** 20).tolist()) == {2.0}
    assert set(F.addcdiv(one, x, one, value=2.0 ** 20).tolist()) == {1025.0}
    assert set(F.lerp(one * 0, x, 2.0 ** 20).tolist()) == {1024.0}
    assert set(F.lerp(one * 0, x, torch.tensor(2.0 ** 20, device=device)).tolist()) == {1024.0}


@pytest.mark.parametrize("size", SIZES)
def test_comparisons_round_numbers_as_elements_were(size: int, device: str) -> None:
    x = narrow(2048.0, size, "float16", device)
    for number in (2049, 2049.0, torch.tensor(2049.0, dtype=torch.float64)):  # the nearest float16 is 2048
        assert (x == number).all().item()
        assert not (x < number).any().item()
        assert (x >= number).all().item()


#: Calls with a number that must fit; for int8, float16 and float32.
FITTED: dict[str, Callable[[Any, Any], Any]] = {
    "clamp": F.clamp,
    "clamp_max": lambda x, n: F.clamp(x, max=n),
    "clamp_both": lambda x, n: F.clamp(x, 0, n),
    "clamp_": lambda x, n: x.clone().clamp_(max=n),
    "masked_fill": lambda x, n: x.masked_fill(x > 0, n),
    "masked_fill_0d": lambda x, n: x.masked_fill(x > 0, torch.tensor(n, dtype=torch.float64)),
    "fill_": lambda x, n: x.clone().fill_(n),
    "full_like": torch.full_like,
    "alpha": lambda x, n: F.add(x, x, alpha=n),
    "pad": lambda x, n: F.pad(x, (1, 0), value=n),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("dtype", "number"), [("int8", 128), ("int8", -129), ("uint8", 256), ("int32", 1 << 31),
                                               ("float16", 65505.0), ("float32", 3.5e38), ("float32", -1e300)])
@pytest.mark.parametrize("name", FITTED)
def test_numbers_that_do_not_fit_are_refused(name: str, dtype: str, number: float, size: int, device: str) -> None:
    x = narrow(1, size, dtype, device)
    if name == "masked_fill_0d" and device != "cpu":
        return  # asking another device would wait for it
    with pytest.raises(ArgumentError, match=r"the dtype holds numbers up to"):
        FITTED[name](x, number)


@pytest.mark.parametrize("size", SIZES)
def test_numbers_at_the_limits_fit(size: int, device: str) -> None:
    assert set(F.clamp(narrow(1, size, "int8", device), -128, 127).tolist()) == {1}
    assert set(F.clamp(narrow(1, size, "int8", device), max=-128).tolist()) == {-128}
    assert set(F.clamp(narrow(1, size, "float32", device), -math.inf, math.inf).tolist()) == {1.0}
    assert set(narrow(1, size, "uint8", device).masked_fill_(torch.ones(size, device=device) > 0, -1).tolist()) == {255}


@pytest.mark.parametrize(("dtype", "number"), [("uint8", 256), ("int8", 300), ("int64", 1 << 63)])
def test_integers_among_the_operands_that_must_fit(dtype: str, number: int) -> None:
    x = torch.tensor([1, 3], dtype=getattr(torch, dtype))
    for call in (lambda: x ** number, lambda: F.where(x > 0, x, number), lambda: F.addcmul(x, x, x, value=number),
                 lambda: F.threshold(x, 0, number), lambda: F.hardtanh(x, 0, number)):
        with pytest.raises(ArgumentError, match="the dtype holds numbers up to"):
            call()


@pytest.mark.parametrize("size", SIZES)
def test_sums_and_comparisons_wrap_integers(size: int, device: str) -> None:
    x = narrow(100, size, "uint8", device)
    assert set((x + 300).tolist()) == {144}
    assert set((x * 257).tolist()) == {100}
    assert (x == 356).all().item()
    assert set((512 - x).tolist()) == {156}


@pytest.mark.parametrize("divisor", [256, 1 << 40, "0-d"])
def test_divisors_that_wrap_to_zero_are_refused(divisor: Any, device: str) -> None:
    if divisor == "0-d":
        if device != "cpu":
            return  # asking another device would wait for it
        divisor = torch.tensor(256, device=device)
    x = torch.tensor([1, 3], dtype=torch.uint8, device=device)
    for call in (lambda: x % divisor, lambda: x // divisor, lambda: F.fmod(x, divisor)):
        with pytest.raises(DtypeError, match="integers have no quotient by zero"):
            call()


def test_factors_of_sums() -> None:
    small, true = torch.tensor([1], dtype=torch.int8), torch.tensor([True])
    result = F.add(small, true, alpha=2)
    assert result.dtype is torch.int8
    assert result.tolist() == [3]
    assert F.add(true, true, alpha=2).tolist() == [True]
    assert F.sub(small, small, alpha=128).tolist() == [-127]
    with pytest.raises(DtypeError, match="a factor of numbers is a number"):
        F.add(small, small, alpha=False)
    for call in (F.add, F.sub, F.rsub, torch.Tensor.add_, torch.Tensor.sub_):
        for other in (small.clone(), 2):
            with pytest.raises(DtypeError, match="a factor of numbers is a number"):
                call(small.clone(), other, alpha=True)
        with pytest.raises(DtypeError, match="a factor of integers is an integer"):
            call(small.clone(), small.clone(), alpha=1.0)
    assert F.add(true, true, alpha=True).tolist() == [True]
    assert F.add(torch.tensor([0.5]), small, alpha=1.0).tolist() == [1.5]
    assert torch.tensor([0.5]).sub_(small, alpha=1.0).tolist() == [-0.5]
    with pytest.raises(ArgumentError, match="the dtype holds numbers up to"):
        F.addmm(small.reshape(1, 1), small.reshape(1, 1), small.reshape(1, 1), beta=128)


def test_elements_are_set_to_infinity_beyond_narrow_floats() -> None:
    for index in (0, slice(None), torch.tensor([True, False]), torch.tensor([0])):
        x = torch.zeros(2, dtype=torch.float16)
        x[index] = 1e5
        assert x[0].item() == math.inf
        with pytest.raises(ArgumentError, match="the dtype holds numbers up to"):
            torch.zeros(2)[index] = 1e39
    assert torch.tensor([1e5], dtype=torch.float16).tolist() == [math.inf]


def test_zero_dimensional_values_wrap() -> None:
    assert torch.zeros(2, dtype=torch.uint8).fill_(torch.tensor(300)).tolist() == [44, 44]


def test_membership_of_numbers_that_the_dtype_lacks() -> None:
    assert F.isin(torch.tensor([0, 44], dtype=torch.uint8), 300).tolist() == [False, False]
    assert F.isin(torch.tensor([1, 2]), 1.5).tolist() == [False, False]


def test_powers_of_bools() -> None:
    x = torch.tensor([True, False])
    for exponent, expected in ((True, [True, False]), (False, [True, True])):
        result = x ** exponent
        assert result.dtype is x.dtype
        assert result.tolist() == expected
    assert (x ** 2).dtype is torch.int64
    with pytest.raises(NotImplementedError, match="pow is not defined for bool"):
        x ** x


def test_division_has_its_older_names() -> None:
    x = torch.tensor([1.0, 3.0])
    assert x.__div__(2).tolist() == [0.5, 1.5]
    assert x.__rdiv__(3).tolist() == [3.0, 1.0]
    assert x.__idiv__(2) is x
    assert x.tolist() == [0.5, 1.5]


@pytest.mark.parametrize("size", [2, 3000])
def test_factors_may_be_tensors_of_one_number(size: int) -> None:
    two, x, square = torch.tensor(2.0), torch.full((size,), -0.5), torch.ones(2, 2)
    assert F.add(x, x, alpha=two).tolist() == [-1.5] * size
    assert x.clone().add_(x, alpha=-two).tolist() == [0.5] * size
    assert F.sub(x, x, alpha=two).tolist() == [0.5] * size
    assert F.rsub(x, 3, alpha=two).tolist() == [4.0] * size
    assert F.rsub(x, 3, 2).tolist() == [4.0] * size
    assert F.addmm(square, square, square, beta=two, alpha=two).tolist() == [[6.0, 6.0]] * 2
    assert F.addr(square, square[0], square[0], beta=two, alpha=two).tolist() == [[4.0, 4.0]] * 2
    assert x.new_full((1,), two).tolist() == [2.0]
    assert F.leaky_relu(x, two).tolist() == [-1.0] * size
    assert F.threshold(x, two, two).tolist() == [2.0] * size
    assert F.hardtanh(x, two, two + 1).tolist() == [2.0] * size
    assert F.celu(x, two).tolist() == pytest.approx([2 * math.expm1(-0.25)] * size)
    with pytest.raises(DtypeError, match="a factor of integers is an integer"):
        F.add(x.long(), x.long(), alpha=two)
    with pytest.raises(ArgumentTypeError, match="elements are numbers"):
        F.add(x, x, alpha=two.clone().requires_grad_())  # whose gradient would be lost


def test_required_tensors_are_not_left_out() -> None:
    x = torch.ones(2)
    for call in (F.atan2, F.heaviside, F.matmul, F.conv_transpose1d):
        with pytest.raises(ArgumentTypeError, match="an argument of type NoneType"):
            call(x, None)


ON_THE_LEFT: dict[str, Callable[[Any, Any], Any]] = {
    "rsub": lambda n, x: n - x, "rmul": lambda n, x: n * x, "radd": lambda n, x: n + x, "rdiv": lambda n, x: n / x,
    "rmod": lambda n, x: n % x, "less": lambda n, x: n < x, "maximum": lambda n, x: (n > x) | (n != x),
}


@pytest.mark.parametrize("name", ON_THE_LEFT)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("number", [3, 2.5, -0.0, math.inf, math.nan, True])
def test_numbers_on_the_left_of_few_and_of_many_elements(name: str, dtype: str, number: float, device: str) -> None:
    run = ON_THE_LEFT[name]
    values = np.array([1, -2, 3, 7, -5, 100], dtype)
    if number is True and name == "rsub":
        pytest.skip("bools are not subtracted")
    if isinstance(number, float) and dtype == "int64":
        number = 2  # floats decide the dtype
    for some in (values, values[:1].reshape(()), np.resize(values, 20000)):
        made = run(number, torch.tensor(some, device=device))
        with np.errstate(all="ignore"):
            exact = dtype == "int64" and name == "rdiv"
            expected = run(np.asarray(number, np.float32 if exact else dtype), some.astype("f4") if exact else some)
        assert made.shape == some.shape
        np.testing.assert_allclose(np.array(made.tolist()), expected, rtol=1e-6)


def test_numbers_on_the_left_differ_from_call_to_call(device: str) -> None:
    x = torch.tensor([1.5, -2.0], device=device)
    for k in range(200):
        assert (k - x).tolist() == [k - 1.5, k + 2.0]
        assert (k / 8 * x).tolist() == [k / 8 * 1.5, k / 8 * -2.0]
    for _ in range(9):
        assert math.copysign(1, (-0.0 * x[:1]).item()) == -1
        assert math.copysign(1, (0.0 * x[:1]).item()) == 1
