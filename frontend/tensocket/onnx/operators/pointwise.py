"""Pointwise operators: arithmetic, comparisons, logic, bits, choice."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

import tensocket as torch
from tensocket_operators import Tensor

from .table import add, named, operator, traceable
from .values import axis_in, number, on_host, text

#: Unsigned integers that few operators are defined for; they are computed as 64-bit ones.
_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)


for _name, _function in {
        "Acos": torch.acos, "Acosh": torch.acosh, "Asin": torch.asin, "Asinh": torch.asinh, "Atan": torch.atan,
        "Atanh": torch.atanh, "Ceil": torch.ceil, "Cos": torch.cos, "Cosh": torch.cosh, "Det": torch.linalg.det,
        "Erf": torch.erf, "Exp": torch.exp, "Floor": torch.floor, "IsNaN": torch.isnan, "Log": torch.log,
        "Neg": torch.neg, "Not": torch.logical_not, "Reciprocal": torch.reciprocal, "Round": torch.round,
        "Sin": torch.sin, "Sinh": torch.sinh, "Sqrt": torch.sqrt, "Tan": torch.tan, "Tanh": torch.tanh}.items():
    add(_name, _function)


@operator("Abs")
def absolute(x: Any) -> Any:
    """Return |x|."""
    return x.clone() if x.dtype in _UNSIGNED or x.dtype is torch.uint8 else torch.abs(x)


@operator("Sign")
def sign(x: Any) -> Any:
    """Return the sign of x: -1, 0 or 1."""
    return (x != 0).to(x.dtype) if x.dtype in _UNSIGNED else torch.sign(x)


@operator("Identity")
def identity(x: Any) -> Any:
    """Return x."""
    return x


def aligned(x: Any, y: Any, axis: int | None) -> Any:
    """Return y with dimensions after its own, so that it begins at ``axis`` of x, as before version 7."""
    if axis is None or not isinstance(y, Tensor):
        return y
    return y.reshape(*y.shape, *[1] * (x.dim() - axis_in(axis, x.dim()) - y.dim()))


def _binary(name: str, function: Callable[[Any, Any], Any]) -> None:
    """Add a binary operator, and its form with attributes of the versions before 7."""

    def former(x: Any, y: Any, axis: int | None = None, broadcast: int = 0) -> Any:
        return function(x, aligned(x, y, axis if broadcast else None))

    add(name, named(traceable(former), f"{name}_with_axis"))
    add(name, function, since=7)


def _wide(function: Callable[[Any, Any], Any], name: str) -> Callable[[Any, Any], Any]:
    """Return the function for unsigned integers, too: NumPy computes with them."""

    def compute(x: Any, y: Any) -> Any:
        if isinstance(x, Tensor) and x.dtype not in _UNSIGNED:
            return function(x, y)
        return on_host(_NUMPY[function], x, y)

    return named(traceable(compute), name)


def divide(x: Any, y: Any) -> Any:
    """Return x / y; quotients of integers are truncated."""
    return torch.div(x, y) if x.dtype.is_floating_point else torch.div(x, y, rounding_mode="trunc")


_NUMPY: dict[Any, Any] = {
    torch.add: np.add, torch.sub: np.subtract, torch.mul: np.multiply, divide: np.floor_divide, torch.eq: np.equal,
    torch.gt: np.greater, torch.ge: np.greater_equal, torch.lt: np.less, torch.le: np.less_equal,
    torch.maximum: np.maximum, torch.minimum: np.minimum, torch.bitwise_and: np.bitwise_and,
    torch.bitwise_or: np.bitwise_or, torch.bitwise_xor: np.bitwise_xor}

add_, larger, smaller = _wide(torch.add, "Add"), _wide(torch.maximum, "larger"), _wide(torch.minimum, "smaller")
for _name, _binary_function in {
        "Add": add_, "Sub": _wide(torch.sub, "Sub"), "Mul": _wide(torch.mul, "Mul"), "Div": _wide(divide, "Div"),
        "Equal": _wide(torch.eq, "Equal"), "Greater": _wide(torch.gt, "Greater"), "Less": _wide(torch.lt, "Less"),
        "And": torch.logical_and, "Or": torch.logical_or,
        "Xor": torch.logical_xor}.items():
    _binary(_name, _binary_function)
for _name, _binary_function in {
        "GreaterOrEqual": _wide(torch.ge, "GreaterOrEqual"), "LessOrEqual": _wide(torch.le, "LessOrEqual"),
        "BitwiseAnd": _wide(torch.bitwise_and, "BitwiseAnd"), "BitwiseOr": _wide(torch.bitwise_or, "BitwiseOr"),
        "BitwiseXor": _wide(torch.bitwise_xor, "BitwiseXor")}.items():
    add(_name, _binary_function)


@operator("BitwiseNot")
def bitwise_not(x: Any) -> Any:
    """Return x with all bits inverted."""
    return on_host(np.invert, x) if x.dtype in _UNSIGNED else torch.bitwise_not(x)


@operator("BitShift")
def bit_shift(x: Any, y: Any, direction: str) -> Any:
    """Return x with bits shifted by y."""
    return on_host(np.left_shift if text(direction) == "LEFT" else np.right_shift, x, y)


@traceable
def power(x: Any, y: Any) -> Any:
    """Return x to the power y, in the dtype of x."""
    if x.dtype.is_floating_point and y.dtype.is_floating_point:
        return torch.pow(x, y.to(x.dtype))
    if x.dtype.is_floating_point and y.dtype not in _UNSIGNED:
        return torch.pow(x, y)
    return on_host(lambda a, b: np.power(a, b).astype(a.dtype), x, y)


_binary("Pow", power)


@operator("Mod")
def modulo(x: Any, y: Any, fmod: int = 0) -> Any:
    """Return the remainder, with the sign of y, or with that of x if ``fmod`` is set."""
    if x.dtype in _UNSIGNED:
        return on_host(np.fmod if fmod else np.mod, x, y)
    return torch.fmod(x, y) if fmod else torch.remainder(x, y)


@operator("Where")
def where(condition: Any, x: Any, y: Any) -> Any:
    """Return x where the condition holds, and y elsewhere."""
    if not isinstance(x, Tensor):
        return on_host(np.where, condition, x, y)
    return torch.where(condition, x, y)


@operator("Sum")
def total(*values: Any) -> Any:
    """Return the sum of tensors."""
    return reduce(add_, values)


@operator("Mean")
def mean(*values: Any) -> Any:
    """Return the mean of tensors."""
    return reduce(torch.add, values) / len(values)


@operator("Max")
def maximum(*values: Any) -> Any:
    """Return the largest elements of tensors."""
    return reduce(larger, values)


@operator("Min")
def minimum(*values: Any) -> Any:
    """Return the smallest elements of tensors."""
    return reduce(smaller, values)


@operator("Clip")
def clip(x: Any, min: Any = None, max: Any = None) -> Any:
    """Return x, limited to a range; if it is empty, the upper limit."""
    for limit, function in ((min, larger), (max, smaller)):
        if limit is not None:
            bound = limit if isinstance(limit, Tensor) else torch.tensor(limit, dtype=x.dtype, device=x.device)
            x = function(x, bound.to(x.dtype))
    return x


@operator("IsInf")
def is_inf(x: Any, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    """Return whether elements are infinite, of the given signs."""
    found = torch.isinf(x)
    if not detect_negative:
        found = found & (x > 0)
    return found if detect_positive else found & (x < 0)


@operator("Trilu", host=(1,))
def triangle(x: Any, k: Any = None, upper: int = 1) -> Any:
    """Return the upper or lower triangles of matrices, from a diagonal on."""
    return (torch.triu if upper else torch.tril)(x, int(number(k, 0)))


@operator("CumSum", host=(1,))
def cumulative_sum(x: Any, axis: Any, exclusive: int = 0, reverse: int = 0) -> Any:
    """Return sums of the elements up to each, without it if ``exclusive`` is set."""
    return _scanned(lambda y, d: torch.cumsum(y, d, dtype=x.dtype), x, axis, exclusive, reverse, 0)


@operator("CumProd", host=(1,))
def cumulative_product(x: Any, axis: Any, exclusive: int = 0, reverse: int = 0) -> Any:
    """Return products of the elements up to each, without it if ``exclusive`` is set."""
    return _scanned(lambda y, d: torch.cumprod(y, d, dtype=x.dtype), x, axis, exclusive, reverse, 1)


def _scanned(scan: Callable[[Any, int], Any], x: Any, axis: Any, exclusive: int, reverse: int, first: int) -> Any:
    dim = axis_in(int(number(axis)), x.dim())
    x = x.flip(dim) if reverse else x
    if exclusive:
        start = torch.full_like(x.narrow(dim, 0, 1), first)
        x = torch.cat([start, x.narrow(dim, 0, x.shape[dim] - 1)], dim)
    found = scan(x, dim)
    return found.flip(dim) if reverse else found


@operator("Einsum")
def einsum(*operands: Any, equation: str) -> Any:
    """Return a sum of products by Einstein's convention."""
    return torch.einsum(text(equation), *operands)
