"""Assertions on tensors, numbers and containers of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import tensocket
from tensocket_operators import Tensor, promote_types
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError

#: Relative and absolute tolerance of each dtype; all others are compared exactly.
_TOLERANCES: Final = {
    dtypes.float16: (1e-3, 1e-5), dtypes.bfloat16: (1.6e-2, 1e-5), dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7), dtypes.complex32: (1e-3, 1e-5), dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.complex128: (1e-7, 1e-7),
}


@dataclass(frozen=True)
class Checks:
    """Tolerances, and what is compared."""

    rtol: float | None
    atol: float | None
    equal_nan: bool
    device: bool
    dtype: bool
    layout: bool
    stride: bool

    def tolerances(self, *kinds: DType) -> tuple[float, float]:
        """Return the given tolerances, or the largest of dtypes."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        pairs = [_TOLERANCES.get(kind, (0.0, 0.0)) for kind in kinds]
        return max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)


def assert_close(actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None,
                 atol: float | None = None, equal_nan: bool = False, check_device: bool = True,
                 check_dtype: bool = True, check_layout: bool = True, check_stride: bool = False,
                 msg: str | Callable[[str], str] | None = None) -> None:
    """Assert that tensors, numbers, arrays, or containers of them are equal within tolerances.

    Two numbers are close if ``|actual - expected| <= atol + rtol * |expected|``.

    Args:
        actual: The value under test.
        expected: The correct value.
        allow_subclasses: Whether tensors of different classes may be compared.
        rtol: Relative tolerance; by default that of the dtypes, like ``atol``.
        atol: Absolute tolerance.
        equal_nan: Whether two NaN are equal.
        check_device: Whether devices must be equal.
        check_dtype: Whether dtypes must be equal.
        check_layout: Whether layouts must be equal.
        check_stride: Whether strides must be equal.
        msg: A custom message, or a function from the message to one.

    Raises:
        AssertionError: The values differ.
        ArgumentError: Only one of the tolerances is given.
    """
    if (rtol is None) != (atol is None):
        raise ArgumentError("assert_close", f"rtol={rtol}, atol={atol}", "both tolerances are given, or none",
                            "pass the other one, too")
    checks = Checks(rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride)
    for place, left, right in _finite(_pairs(actual, expected, "")):
        problem = left if right is _PROBLEM else _difference(left, right, checks, allow_subclasses)
        if problem:
            text = f"{problem}\n\nThe failure occurred for item {place}" if place else problem
            raise AssertionError(text if msg is None else msg(text) if callable(msg) else msg)


_PROBLEM: Final = object()
#: The types of numbers; the first one is not compared within tolerances.
NUMBERS: Final = (bool, int, float, complex)


def _finite(pairs: Iterator[tuple[str, Any, Any]]) -> Iterator[tuple[str, Any, Any]]:
    try:
        yield from pairs
    except RecursionError:
        raise ArgumentError("assert_close", "containers that hold themselves", "maximum recursion depth exceeded: "
                            "nested containers end in values", "compare their parts") from None


def _pairs(actual: Any, expected: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    """Return values to compare, each with its place; a value without a partner gets a description of the error."""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            missing, more = sorted(map(repr, expected.keys() - actual.keys())), sorted(
                map(repr, actual.keys() - expected.keys()))
            yield place, f"The keys of the mappings do not match: missing {missing}, additional {more}", _PROBLEM
            return
        for key in expected:
            yield from _pairs(actual[key], expected[key], f"{place}[{key!r}]")
    elif is_sequence(actual) and is_sequence(expected):
        if len(actual) != len(expected):
            yield place, f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", _PROBLEM
            return
        for index, (left, right) in enumerate(zip(actual, expected, strict=True)):
            yield from _pairs(left, right, f"{place}[{index}]")
    else:
        yield place, actual, expected


def is_sequence(value: Any, kinds: tuple[type, ...] = (Sequence,)) -> bool:
    """Whether a value is a container of elements in order, and not a text."""
    return isinstance(value, kinds) and not isinstance(value, (str, bytes))


def _difference(actual: Any, expected: Any, checks: Checks, subclasses: bool) -> str:
    """Return a description of the mismatch; empty if the values match.

    Raises:
        ArgumentTypeError: The two values are not comparable.
    """
    if actual is None or expected is None:
        return "" if actual is expected else f"None mismatch: {actual!r} is not {expected!r}"
    kinds = type(actual), type(expected)
    number = all(isinstance(value, (*NUMBERS, np.generic)) for value in (actual, expected))
    related = issubclass(kinds[0], kinds[1]) or issubclass(kinds[1], kinds[0])
    if not number and (not (related if subclasses else kinds[0] is kinds[1]) or isinstance(actual, str) or not all(
            isinstance(value, (Tensor, np.ndarray)) or hasattr(value, "__array__") for value in (actual, expected))):
        raise ArgumentTypeError("assert_close", f"values of types {kinds[0]} and {kinds[1]}", "values are tensors or "
                                "arrays of related classes, numbers, None, or containers of these",
                                "convert them with tensocket.as_tensor")
    if number:
        return compare_numbers(actual, expected, checks)
    left, right = (value if isinstance(value, Tensor) else tensocket.as_tensor(value) for value in (actual, expected))
    return compare_attributes(left, right, checks) or compare_values(left, right, checks)


def compare_numbers(actual: Any, expected: Any, checks: Checks) -> str:
    """Return how two numbers differ; empty if they are close."""
    if checks.dtype and type(actual) is not type(expected):
        return f"The types of the values do not match: {type(actual).__name__} and {type(expected).__name__}"
    left, right = (tensocket.as_tensor(value, dtype=_number_dtype(value)) for value in (actual, expected))
    # The types of numbers are compared above: dtypes that follow from values say nothing.
    return compare_values(left, right, checks, "Scalars")


def _number_dtype(value: Any) -> DType:
    if isinstance(value, (bool, np.bool_)):
        return dtypes.bool_
    if isinstance(value, (int, np.integer)):
        return dtypes.int64
    return dtypes.complex128 if isinstance(value, complex) else dtypes.float64


def compare_attributes(actual: Tensor, expected: Tensor, checks: Checks) -> str:
    """Return which attribute of two tensors differs; empty if they agree."""
    for name, checked, left, right in (
        ("shape", True, tuple(actual.shape), tuple(expected.shape)),
        ("layout", checks.layout, actual.layout, expected.layout),
        ("device", checks.device, actual.device, expected.device),
        ("dtype", checks.dtype, actual.dtype, expected.dtype),
    ):
        if checked and left != right:
            return f"The values for attribute '{name}' do not match: {left} != {right}."
    if checks.stride and actual.layout is tensocket.strided and actual.stride() != expected.stride():
        return f"The values for attribute 'stride()' do not match: {actual.stride()} != {expected.stride()}."
    return ""


def _array(tensor: Tensor, dtype: DType) -> np.ndarray[Any, Any]:
    """Return the values in the widest dtype of their kind, in which differences do not overflow."""
    dense: Any = tensor.detach()
    if tensor.layout is not tensocket.strided:
        dense = dense.to_dense()
    values = dense.cpu().to(dtype)._values()
    return np.asarray(values.astype({"f": np.float64, "c": np.complex128}.get(values.dtype.kind, values.dtype)))


def _sparse(actual: Any, expected: Any) -> str:
    """Return how two sparse tensors differ in their numbers of sparse dimensions and values; empty if they agree."""
    if actual.layout is not tensocket.sparse_coo or expected.layout is not tensocket.sparse_coo:
        return ""
    for name, left, right in (
        ("sparse dimensions", actual.sparse_dim(), expected.sparse_dim()),
        ("specified values", actual._nnz(), expected._nnz()),
    ):
        if left != right:
            return f"The number of {name} in sparse COO tensors does not match: {left} != {right}"
    return ""


def compare_values(actual: Tensor, expected: Tensor, checks: Checks, what: str = "Tensor-likes") -> str:
    """Return how the values of two tensors differ; empty if they are close."""
    different = _sparse(actual, expected)
    if different:
        return different
    if actual.is_meta and expected.is_meta:
        return ""
    rtol, atol = checks.tolerances(actual.dtype, expected.dtype)
    common = promote_types(actual.dtype, expected.dtype)
    left, right = _array(actual, common), _array(expected, common)
    if left.dtype.kind in "biu":
        left, right = left.astype(object), right.astype(object)
    with np.errstate(all="ignore"):
        difference = np.abs(left - right) if left.dtype.kind != "O" else np.abs(left * 1 - right * 1)
        close = (left == right) | np.asarray(difference <= atol + rtol * np.abs(right * 1), dtype=bool)
        if left.dtype.kind in "fc":
            close &= np.isfinite(right) | (left == right)
            if checks.equal_nan:
                close |= np.isnan(left) & np.isnan(right)
    close = np.asarray(close, dtype=bool)
    return "" if close.all() else _report(left, right, difference, close, (rtol, atol), what)


def _report(left: Any, right: Any, difference: Any, close: Any, tolerances: tuple[float, float], what: str) -> str:
    """Return a report of the number and size of differences."""
    rtol, atol = tolerances
    exact = rtol == atol == 0
    if what == "Scalars":
        limits = ("", "") if exact else (f" (up to {atol} allowed)", f" (up to {rtol} allowed)")
        return (f"Scalars are not {'equal' if exact else 'close'}!\n\nExpected {right[()]} but got {left[()]}.\n"
                f"Absolute difference: {difference[()]}{limits[0]}\n"
                f"Relative difference: {_relative(difference, right)[()]}{limits[1]}")
    lines = [f"{what} are not {'equal' if exact else 'close'}!", "",
             f"Mismatched elements: {int((~close).sum())} / {close.size} ({(~close).mean():.1%})"]
    for name, amounts, limit in (("absolute", difference, atol), ("relative", _relative(difference, right), rtol)):
        wrong = np.where(close, -1.0, np.nan_to_num(np.asarray(amounts, dtype=np.float64), nan=np.inf, posinf=np.inf))
        index = np.unravel_index(int(wrong.argmax()), wrong.shape)
        allowed = "" if exact else f" (up to {limit} allowed)"
        lines.append(f"Greatest {name} difference: {np.asarray(amounts)[index]} at index "
                     f"{tuple(map(int, index))}{allowed}")
    return "\n".join(lines)


def _relative(difference: Any, right: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(difference, dtype=np.float64) / np.abs(np.asarray(right * 1, dtype=np.complex128))


def assert_allclose(actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None,
                    equal_nan: bool = True, msg: str = "") -> None:
    """Call ``assert_close`` without checks of devices, dtypes and strides. Deprecated.

    Args:
        actual: The value under test.
        expected: The correct value.
        rtol: Relative tolerance.
        atol: Absolute tolerance.
        equal_nan: Whether two NaN are equal.
        msg: A custom message.
    """
    warnings.warn("assert_allclose is deprecated, use assert_close", FutureWarning, stacklevel=2)
    assert_close(tensocket.as_tensor(actual), tensocket.as_tensor(expected), rtol=rtol, atol=atol,
                 equal_nan=equal_nan, check_device=False, check_dtype=False, check_stride=False, msg=msg or None)
