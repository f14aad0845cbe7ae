"""Tensors filled with random numbers, in place: every distribution is a formula of uniform or normal numbers."""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, UndefinedDtype

from ..creation import check_range
from ..execute.math import arithmetic_dtype
from ..ops.choices import true_somewhere
from .distributions import BERNOULLI, INT_RANGE, NORMAL, NORMAL_SCALED, UNIFORM, UNIFORM_SCALED
from .draws import drawn_in_place, floats, whole_numbers
from .generator import Generator

#: Whole numbers up to which a float dtype holds all.
_EXACT: Final = {dtypes.float16: 1 << 11, dtypes.bfloat16: 1 << 8, dtypes.float32: 1 << 24, dtypes.float64: 1 << 53}


def check_floats(operator: str, dtype: DType) -> None:
    """Refuse dtypes that hold no real floats.

    Raises:
        UndefinedDtype: It is one.
    """
    if not dtype.is_floating_point:
        raise UndefinedDtype(operator, f"dtype {dtype.name}", "the distribution is one of real floats",
                             "use a float dtype")


def uniforms(input: Any, generator: Generator | None) -> Any:
    """Uniform numbers in [0, 1) of a tensor's shape, in the dtype that its device computes in; float32 for integers."""
    work = arithmetic_dtype(input.dtype) if input.dtype.is_floating_point else dtypes.float32
    return floats("rand", UNIFORM, tuple(input.shape), work, input._entry, generator)


def uniform_(input: Any, a: float = 0.0, b: float = 1.0, *, generator: Generator | None = None,
             **bounds: float) -> Any:
    """Uniform numbers in [a, b), in place; the bounds are called ``from`` and ``to``, too, as in PyTorch."""
    a, b = bounds.pop("from", a), bounds.pop("to", b)
    if bounds:
        raise ArgumentTypeError("uniform_", f"arguments {sorted(bounds)}", "the bounds are called from and to",
                                "pass these")
    if a > b:
        raise ArgumentError("uniform_", f"a={a}, b={b}", "a is not greater than b", "exchange them")
    if drawn_in_place("uniform_", UNIFORM_SCALED, input, generator, (b - a, a)):
        return input
    drawn = floats("rand", UNIFORM, tuple(input.shape), input.dtype, input._entry, generator)
    return input.copy_(drawn * (b - a) + a)


def normal_(input: Any, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Any:
    """Normal numbers, in place."""
    if std < 0:
        raise ArgumentError(
            "normal_", f"std={std}", "a standard deviation is not negative", "pass a non-negative number"
        )
    if drawn_in_place("normal_", NORMAL_SCALED, input, generator, (std, mean)):
        return input
    return input.copy_(floats("randn", NORMAL, tuple(input.shape), input.dtype, input._entry, generator) * std + mean)


def log_normal_(input: Any, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Any:
    """Exponentials of normal numbers with this mean and standard deviation, in place."""
    check_floats("log_normal_", input.dtype)
    if std <= 0:
        raise ArgumentError("log_normal_", f"std={std}", "a standard deviation is positive", "pass a positive number")
    work = arithmetic_dtype(input.dtype)
    drawn = floats("randn", NORMAL, tuple(input.shape), work, input._entry, generator)
    return input.copy_((drawn * std + mean).exp())


def exponential_(input: Any, lambd: float = 1.0, *, generator: Generator | None = None) -> Any:
    """Positive numbers with density lambd * exp(-lambd * x), in place: -log(1 - u) / lambd."""
    check_floats("exponential_", input.dtype)
    if lambd <= 0:
        raise ArgumentError("exponential_", f"lambd={lambd}", "a rate is positive", "pass a positive number")
    return input.copy_((-uniforms(input, generator)).log1p() / -lambd)


def cauchy_(input: Any, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Any:
    """Numbers with density sigma / (pi (sigma**2 + (x - median)**2)), in place: median + sigma tan(pi (u - 1/2))."""
    check_floats("cauchy_", input.dtype)
    if sigma <= 0:
        raise ArgumentError("cauchy_", f"sigma={sigma}", "a width is positive", "pass a positive number")
    return input.copy_(((uniforms(input, generator) - 0.5) * math.pi).tan() * sigma + median)


def geometric_(input: Any, p: float, *, generator: Generator | None = None) -> Any:
    """Numbers of trials up to the first success, 1 at least, in place: ceil(log(1 - u) / log(1 - p))."""
    if input.dtype.kind in ("bool", "complex"):
        raise UndefinedDtype("geometric_", f"dtype {input.dtype.name}", "counts are real numbers",
                             "use another dtype")
    if not 0 < p < 1:
        raise ArgumentError("geometric_", f"p={p}", "the probability lies between 0 and 1, both excluded",
                            "pass a number between them")
    trials = (-uniforms(input, generator)).log1p() / math.log1p(-p)
    return input.copy_(trials.ceil().clamp(min=1))


def _last(dtype: DType) -> int:
    """The largest number that ``random_`` draws without bounds."""
    if dtype.is_floating_point:
        return _EXACT[dtype]
    return 1 if dtype.kind == "bool" else (1 << (8 * dtype.itemsize - (dtype.kind == "int"))) - 1


def random_(input: Any, low: int | None = None, to: int | None = None, *, generator: Generator | None = None) -> Any:
    """Whole numbers, in place: ``random_()``, ``random_(to)`` and ``random_(from, to)`` draw from [from, to).

    Without bounds, from 0 to the largest number; of floats, up to which they hold all whole numbers.

    Raises:
        ArgumentError: The range is empty, has more than 2 ** 63 numbers, or the dtype does not hold its bounds.
        ArgumentTypeError: A bound is no integer.
        UndefinedDtype: The tensor is complex.
    """
    dtype = input.dtype
    if dtype.is_complex or (dtype.is_floating_point and dtype not in _EXACT):
        raise UndefinedDtype("random_", f"dtype {dtype.name}", "whole numbers are real", "use another dtype")
    if low is None:
        first, end = 0, _last(dtype) + 1 if to is None else to
    else:
        first, end = (0, low) if to is None else (low, to)
    if not hasattr(first, "__index__") or not hasattr(end, "__index__"):
        raise ArgumentTypeError("random_", f"from={first!r}, to={end!r}", "bounds are integers", "pass integers")
    return input.copy_(_whole("random_", input, first.__index__(), end.__index__(), generator))


def _whole(operator: str, input: Any, low: int, high: int, generator: Generator | None) -> Any:
    """Whole numbers in [low, high), of the input's dtype or int64."""
    if high <= low:
        raise ArgumentError(operator, f"from={low}, to={high}", "from is less than to", "exchange them")
    check_range(operator, low, input.dtype)
    check_range(operator, high - 1, input.dtype)
    if high - low > INT_RANGE:
        raise ArgumentError(operator, f"from={low}, to={high}", "a range has at most 2 ** 63 numbers",
                            "pass a smaller range")
    return whole_numbers(input._entry, tuple(input.shape), input.dtype, low, high, generator)


def bernoulli_(input: Any, p: Any = 0.5, *, generator: Generator | None = None) -> Any:
    """1 with a probability (a number, or a tensor that broadcasts), else 0, in place."""
    probability = checked_probability("bernoulli_", p)
    if isinstance(p, float) and drawn_in_place("bernoulli_", BERNOULLI, input, generator, (p,)):
        return input
    return input.copy_(uniforms(input, generator) < probability)


def checked_probability(operator: str, p: Any) -> Any:
    """A probability, or a tensor of them without history.

    Raises:
        ArgumentError: One is outside of [0, 1].
        UndefinedDtype: A tensor of them is not of real floats.
    """
    if not hasattr(p, "_key"):
        if not 0 <= p <= 1:
            raise ArgumentError(operator, f"p={p}", "a probability lies between 0 and 1", "pass one")
        return p
    check_floats(operator, p.dtype)
    p = p.detach()
    if p._entry.holds_data and p.numel() and true_somewhere(~((p >= 0) & (p <= 1))):
        raise ArgumentError(operator, "a tensor with other numbers", "a probability lies between 0 and 1",
                            "pass probabilities")
    return p
