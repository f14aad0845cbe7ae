"""Functions that fill tensors with random numbers in place: a distribution is a formula of uniforms or normals."""

from __future__ import annotations

import math
import warnings
from typing import Any, Final

from tensocket_core.geometry import is_integer
from tensocket_core.limits import finfo
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, UndefinedDtype
from tensocket_plugins.ir.build.math import arithmetic_dtype

from ..reductions.value_checks import value_range
from .distributions import BERNOULLI, EXACT, INT_RANGE, NORMAL, NORMAL_SCALED, UNIFORM, UNIFORM_SCALED
from .draws import drawn_in_place, floats, whole_numbers
from .generator import Generator

#: A bound that was not given.
_ABSENT: Final = object()


def check_floats(operator: str, dtype: DType) -> None:
    """Refuse dtypes that do not hold real floats.

    Raises:
        UndefinedDtype: The dtype does not hold real floats.
    """
    if not dtype.is_floating_point:
        raise UndefinedDtype(operator, f"dtype {dtype.name}", "the distribution is one of real floats",
                             "use a float dtype")


def uniforms(input: Any, generator: Generator | None) -> Any:
    """Draw uniforms in [0, 1) of a tensor's shape, in the dtype that its device computes in; float32 for integers."""
    work = arithmetic_dtype(input.dtype) if input.dtype.is_floating_point else dtypes.float32
    return floats("rand", UNIFORM, tuple(input.shape), work, input._device_state, generator)


def uniform_(input: Any, a: float = 0.0, b: float = 1.0, *, generator: Generator | None = None,
             **bounds: float) -> Any:
    """Fill with uniform numbers in [a, b); the bounds may also be passed as ``from`` and ``to``, as in PyTorch."""
    a, b = bounds.pop("from", a), bounds.pop("to", b)
    if bounds:
        raise ArgumentTypeError("uniform_", f"arguments {sorted(bounds)}", "the bounds are called from and to",
                                "pass these")
    if a > b:
        raise ArgumentError("uniform_", f"a={a}, b={b}", "a is not greater than b", "exchange them")
    if input.dtype.is_floating_point and (a, b) != (0.0, 1.0):
        largest = finfo(input.dtype).max
        if not (-largest <= a <= largest and -largest <= b <= largest and b - a <= largest):
            raise ArgumentError("uniform_", f"a={a}, b={b} for {input.dtype.name}",
                                "the bounds and their distance are finite numbers of the dtype", "use a wider dtype")
    if drawn_in_place("uniform_", UNIFORM_SCALED, input, generator, (b - a, a)):
        return input
    drawn = floats("rand", UNIFORM, tuple(input.shape), input.dtype, input._device_state, generator)
    return input.copy_(drawn * (b - a) + a)


def normal_(input: Any, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Any:
    """Fill with normal numbers."""
    if std < 0:
        raise ArgumentError(
            "normal_", f"std={std}", "a standard deviation is not negative", "pass a non-negative number"
        )
    if drawn_in_place("normal_", NORMAL_SCALED, input, generator, (std, mean)):
        return input
    return input.copy_(floats("randn", NORMAL, tuple(input.shape), input.dtype, input._device_state,
                              generator) * std + mean)


def log_normal_(input: Any, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Any:
    """Fill with exponentials of normal numbers with this mean and standard deviation."""
    check_floats("log_normal_", input.dtype)
    if std <= 0:
        raise ArgumentError("log_normal_", f"std={std}", "a standard deviation is positive", "pass a positive number")
    work = arithmetic_dtype(input.dtype)
    drawn = floats("randn", NORMAL, tuple(input.shape), work, input._device_state, generator)
    return input.copy_((drawn * std + mean).exp())


def exponential_(input: Any, lambd: float = 1.0, *, generator: Generator | None = None) -> Any:
    """Fill with positive numbers of density lambd * exp(-lambd * x): -log(1 - u) / lambd."""
    check_floats("exponential_", input.dtype)
    if lambd <= 0:
        raise ArgumentError("exponential_", f"lambd={lambd}", "a rate is positive", "pass a positive number")
    return input.copy_((-uniforms(input, generator)).log1p() / -lambd)


def cauchy_(input: Any, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Any:
    """Fill with numbers of density sigma / (pi (sigma**2 + (x - median)**2)): median + sigma tan(pi (u - 1/2))."""
    check_floats("cauchy_", input.dtype)
    if sigma <= 0:
        raise ArgumentError("cauchy_", f"sigma={sigma}", "a width is positive", "pass a positive number")
    return input.copy_(((uniforms(input, generator) - 0.5) * math.pi).tan() * sigma + median)


def geometric_(input: Any, p: float, *, generator: Generator | None = None) -> Any:
    """Fill with numbers of trials up to the first success, at least 1: ceil(log(1 - u) / log(1 - p))."""
    if input.dtype.kind in ("bool", "complex"):
        raise UndefinedDtype("geometric_", f"dtype {input.dtype.name}", "counts are real numbers",
                             "use another dtype")
    if not 0 < p < 1:
        raise ArgumentError("geometric_", f"p={p}", "the probability lies between 0 and 1, both excluded",
                            "pass a number between them")
    trials = (-uniforms(input, generator)).log1p() / math.log1p(-p)
    return input.copy_(trials.ceil().clamp(min=1))


def _last(dtype: DType) -> int:
    """Return the largest number that ``random_`` draws without bounds."""
    if dtype.is_floating_point:
        return EXACT[dtype]
    return 1 if dtype.kind == "bool" else (1 << (8 * dtype.itemsize - (dtype.kind == "int"))) - 1


def random_(input: Any, low: Any = _ABSENT, to: Any = _ABSENT, *, generator: Generator | None = None,
            **bounds: Any) -> Any:
    """Fill with whole numbers: ``random_()``, ``random_(to)`` and ``random_(from, to)`` draw from [from, to).

    Without bounds, the range is from 0 to the largest number of the dtype, and for floats to the largest up to which
    they represent all whole numbers. ``random_(from, None)`` has the same upper bound. The first bound may also be
    passed as ``from``, as in PyTorch.

    Raises:
        ArgumentError: The range is empty, or the dtype cannot represent its bounds.
        ArgumentTypeError: A bound is not an integer.
        UndefinedDtype: The tensor is complex.
    """
    dtype = input.dtype
    if dtype.is_complex or (dtype.is_floating_point and dtype not in EXACT):
        raise UndefinedDtype("random_", f"dtype {dtype.name}", "whole numbers are real", "use another dtype")
    low = bounds.pop("from", low)
    if bounds:
        raise ArgumentTypeError("random_", f"arguments {sorted(bounds)}", "the bounds are called from and to",
                                "pass these")
    first, end = (0, low) if to is _ABSENT else (0 if low is _ABSENT else low, to)
    if end is None or end is _ABSENT:
        end = _last(dtype) + 1
    if not is_integer(first) or not is_integer(end):
        raise ArgumentTypeError("random_", f"from={first!r}, to={end!r}", "bounds are integers", "pass integers")
    return input.copy_(_whole("random_", input, first.__index__(), end.__index__(), generator))


def _whole(operator: str, input: Any, low: int, high: int, generator: Generator | None) -> Any:
    """Draw whole numbers in [low, high), of the input's dtype or int64."""
    dtype = input.dtype
    if high <= low:
        raise ArgumentError(operator, f"from={low}, to={high}", "from is less than to", "exchange them")
    for name, bound in (("from", low), ("to - 1", high - 1)):
        _check_bound(operator, name, bound, dtype)
    if dtype.is_floating_point:
        low, high = _inner_bounds(low, high, EXACT[dtype].bit_length() - 1)
        if high <= low:
            raise ArgumentError(operator, f"from={low}, to={high} in {dtype.name}", "from is less than to",
                                "use a wider dtype")
    return whole_numbers(input._device_state, tuple(input.shape), dtype, low, high, generator)


def _check_bound(operator: str, name: str, bound: int, dtype: DType) -> None:
    """Refuse a bound that the dtype cannot represent; warn of one up to which floats lack some whole numbers."""
    if dtype.is_floating_point:
        most = min(int(finfo(dtype).max), INT_RANGE)
        least = -most
    else:
        most = _last(dtype)
        least = -most - 1 if dtype.kind == "int" else 0
    if not least <= bound <= most:
        raise ArgumentError(operator, f"{name} {bound} for {dtype.name}", f"{name} is out of bounds for {dtype.name}",
                            "use a wider dtype")
    exact = EXACT.get(dtype)
    if exact is not None and not -exact <= bound <= exact:
        digits = exact.bit_length() - 1
        warnings.warn(f"{name} is out of bounds [-(2^{digits}), 2^{digits}]: {dtype.name} holds all whole numbers only "
                      "within this range", UserWarning, stacklevel=6)


def _inner_bounds(low: int, high: int, digits: int) -> tuple[int, int]:
    """Return bounds between which numbers, rounded to ``digits`` binary digits, stay within the given bounds."""
    below, above = _rounded(low + 1, digits), _rounded(high - 1, digits)
    if below < low:
        low = below + (1 << (abs(low + 1).bit_length() - digits))
    if above >= high:
        high = above - (1 << (abs(high - 1).bit_length() - digits))
    return low, high


def _rounded(value: int, digits: int) -> int:
    """Return the nearest integer with at most ``digits`` binary digits, the even one of two."""
    extra = max(0, abs(value).bit_length() - digits)
    whole, rest = divmod(abs(value), 1 << extra)
    half = (1 << extra) >> 1
    whole += extra > 0 and (rest > half or (rest == half and whole & 1 == 1))
    return (whole << extra) * (-1 if value < 0 else 1)


def bernoulli_(input: Any, p: Any = 0.5, *, generator: Generator | None = None) -> Any:
    """Fill with 1 with a probability (a number, or a tensor that broadcasts), else 0."""
    given = p
    while getattr(given, "_level", 0):
        given._transform.check_parameter("bernoulli_")
        given = given._value
    probability = checked_probability("bernoulli_", p)
    if isinstance(p, float) and drawn_in_place("bernoulli_", BERNOULLI, input, generator, (p,)):
        return input
    return input.copy_(uniforms(input, generator) < probability)


def _is_probability(least: float, most: float) -> bool:
    """Whether numbers between these lie between 0 and 1; NaN does not."""
    return least >= 0 and most <= 1


def checked_probability(operator: str, p: Any) -> Any:
    """Return a probability, or a tensor of probabilities without history.

    Raises:
        ArgumentError: A probability is outside of [0, 1].
        UndefinedDtype: A tensor of probabilities does not hold real floats.
    """
    if not hasattr(p, "_key"):
        if not 0 <= p <= 1:
            raise ArgumentError(operator, f"p={p}", "a probability lies between 0 and 1", "pass one")
        return p
    check_floats(operator, p.dtype)
    p = p.detach()
    if p._device_state.holds_data and p.numel() and not _is_probability(*value_range(p)):
        raise ArgumentError(operator, "a tensor with other numbers", "a probability lies between 0 and 1",
                            "pass probabilities")
    return p
