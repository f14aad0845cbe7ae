"""One value has one result: small and large arrays, strided ones, numbers and in-place forms give the same bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators import functions as F

pytestmark = pytest.mark.skipif(not torch.is_available("cpu"), reason="the CPU backend is not installed")
COUNT = 1260
#: More elements than one thread takes.
REPEATED = 60

UNARY = ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
         "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid", "silu", "erf", "erfc", "erfinv", "lgamma", "digamma",
         "sqrt", "rsqrt", "reciprocal", "square", "softplus", "gelu", "logsigmoid", "mish", "i0", "sinc"]
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "pow": F.pow, "atan2": F.atan2, "hypot": F.hypot, "logaddexp": F.logaddexp, "xlogy": F.xlogy, "div": F.div,
    "remainder": F.remainder}
WITH_NUMBER: dict[str, Callable[[Any], Any]] = {
    **{f"pow({n})": partial(F.pow, exponent=n) for n in (2, 3, 4, -1, -2, 0.5, -0.5, 1.7)},
    "left pow": lambda x: 1.7 ** x, "mul": lambda x: x * 1.1, "left div": lambda x: 1.1 / x, "xlogy": lambda x: F.xlogy(
        x, 1.7), "left xlogy": lambda x: F.xlogy(1.7, x)}


def tensor(dtype: str, seed: int = 0) -> Any:
    values = np.random.default_rng(seed).uniform(0.05, 0.95, COUNT)
    if dtype == "complex64":
        values = values + 1j * values[::-1]
    return torch.tensor(values.tolist(), device="cpu").to(getattr(torch, dtype))


def strided(x: Any) -> Any:
    wide = torch.zeros(2 * x.numel(), dtype=x.dtype, device="cpu")
    wide[::2] = x
    return wide[::2]


def bits(x: Any) -> Any:
    return np.ascontiguousarray(x._host()).reshape(-1).view(np.uint8)


def check(function: Callable[..., Any], operands: list[Any]) -> None:
    """A function of dense operands of moderate size against the same elements in other forms."""
    expected = function(*operands)
    forms: dict[str, tuple[Any, Any]] = {
        "strided": (function(*map(strided, operands)), expected),
        "transposed": (function(*[x.reshape(30, 42).t().contiguous().t() for x in operands]), expected),
        "many": (function(*[x.repeat(REPEATED) for x in operands]), expected.repeat(REPEATED)),
    }
    for size in (1, 7, 40):
        forms[f"{size} elements"] = function(*[x[:size] for x in operands]), expected[:size]
        forms[f"{size} elements, strided"] = function(*[strided(x)[:size] for x in operands]), expected[:size]
    forms["0-d"] = function(*[x[3] for x in operands]), expected[3:4]
    for name, (found, wanted) in forms.items():
        assert np.array_equal(bits(found), bits(wanted)), name


DTYPES = ["float32", "float64", "float16", "bfloat16"]


@pytest.mark.parametrize(("name", "dtype"), [
    *((name, dtype) for name in UNARY for dtype in ("float32", "float64")),
    *((name, dtype) for name in ("exp", "log", "sigmoid", "tanh") for dtype in ("float16", "bfloat16"))])
def test_functions_of_one_operand(name: str, dtype: str) -> None:
    x = tensor(dtype)
    x = x + 1 if name == "acosh" else x
    check(getattr(F, name), [x])


@pytest.mark.parametrize("name", ["exp", "log", "sin", "tanh", "sqrt", "square", "reciprocal", "abs"])
def test_functions_of_complex_numbers(name: str) -> None:
    check(getattr(F, name), [tensor("complex64")])


@pytest.mark.parametrize("dtype", [*DTYPES, "complex64"])
def test_products_and_quotients(dtype: str) -> None:
    for function in (F.mul, F.div):
        check(function, [tensor(dtype), tensor(dtype, 1)])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_operands(name: str, dtype: str) -> None:
    check(BINARY[name], [tensor(dtype), tensor(dtype, 1)])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", WITH_NUMBER)
def test_functions_of_a_number(name: str, dtype: str) -> None:
    check(WITH_NUMBER[name], [tensor(dtype)])


@pytest.mark.parametrize("size", [5, 40, COUNT])
@pytest.mark.parametrize("dtype", DTYPES)
def test_in_place_forms_and_out(dtype: str, size: int) -> None:
    x = tensor(dtype)[:size]
    for name in ("exp", "sigmoid", "tanh", "log", "square"):
        expected = bits(getattr(F, name)(x))
        assert np.array_equal(bits(getattr(x.clone(), f"{name}_")()), expected), name
        assert np.array_equal(bits(getattr(strided(x), f"{name}_")()), expected), name
        out = torch.empty_like(x)
        getattr(F, name)(x, out=out)
        assert np.array_equal(bits(out), expected), name
    for number in (2, -2, 1.7):
        expected = bits(x ** number)
        assert np.array_equal(bits(x.clone().pow_(number)), expected)
        assert np.array_equal(bits(F.pow(x, number, out=torch.empty_like(x))), expected)


def test_results_do_not_depend_on_how_often_an_operator_was_called() -> None:
    for function, dtype in ((lambda x: x ** 3, "float32"), (F.square, "float16"), (lambda x: x * 1.1, "float16")):
        x = tensor(dtype)[:9]
        expected = bits(function(x))
        for _ in range(8200):
            function(x)
        assert np.array_equal(bits(function(x)), expected)
