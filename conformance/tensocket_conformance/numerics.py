"""Tolerances and comparisons of results. The suite defines the tolerances; a backend cannot change them.

The suite compares a result of a floating-point operator with a float64 reference. The allowed error of one element is

    ulp * spacing(reference)  +  factor * eps * condition

where ``condition`` is the conditioning in the operator's record: the sum of the magnitudes of the terms for a sum,
``|x f'(x)|`` for a function near its zeros. For complex results, error and spacing are those of magnitudes. All other
results must be equal to the reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

HostArray = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Format:
    """An element type of the suite.

    Attributes:
        short: Name in case ids.
        name: Name in the public API.
        kind: ``bool``, ``int``, ``float`` or ``complex``.
        numpy: NumPy dtype of host arrays; bfloat16 values travel as float32.
        digits: Binary digits of the significand of a float (or a complex number's parts), including the leading one.
        exponent: Exponent of the smallest normal float.
    """

    short: str
    name: str
    kind: str
    numpy: np.dtype[Any]
    digits: int = 0
    exponent: int = 0

    @property
    def eps(self) -> float:
        """Half the distance from 1 to the next float: the largest relative error of one rounding."""
        return float(2.0 ** -self.digits)

    @property
    def tiny(self) -> float:
        """The smallest normal float."""
        return float(2.0**self.exponent)

    @property
    def largest(self) -> float:
        """The largest finite float."""
        return float((2.0 - 2.0 ** (1 - self.digits)) * 2.0 ** (1 - self.exponent))


_ROWS: Final = (
    Format("b8", "bool", "bool", np.dtype(np.bool_)),
    Format("u8", "uint8", "int", np.dtype(np.uint8)),
    Format("i8", "int8", "int", np.dtype(np.int8)),
    Format("i16", "int16", "int", np.dtype(np.int16)),
    Format("i32", "int32", "int", np.dtype(np.int32)),
    Format("i64", "int64", "int", np.dtype(np.int64)),
    Format("f16", "float16", "float", np.dtype(np.float16), 11, -14),
    Format("bf16", "bfloat16", "float", np.dtype(np.float32), 8, -126),
    Format("f32", "float32", "float", np.dtype(np.float32), 24, -126),
    Format("f64", "float64", "float", np.dtype(np.float64), 53, -1022),
    Format("u16", "uint16", "int", np.dtype(np.uint16)),
    Format("u32", "uint32", "int", np.dtype(np.uint32)),
    Format("u64", "uint64", "int", np.dtype(np.uint64)),
    Format("c64", "complex64", "complex", np.dtype(np.complex64), 24, -126),
    Format("c128", "complex128", "complex", np.dtype(np.complex128), 53, -1022),
)
#: The element types that the suite knows, by the short name used in case ids.
FORMATS: Final[dict[str, Format]] = {row.short: row for row in _ROWS}
#: The same element types by their names in the public API.
BY_NAME: Final[dict[str, Format]] = {row.name: row for row in _ROWS}


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The error that an operator's record allows.

    Attributes:
        ulp: Units in the last place of the result.
        factor: Multiples of ``eps * condition``.
        flush: Whether results below the smallest normal float may have an error as large as it.
    """

    ulp: float = 0.0
    factor: float = 0.0
    flush: bool = False


EXACT: Final = Tolerance()


@dataclass(frozen=True, slots=True)
class Metric:
    """The worst element of a comparison.

    Attributes:
        error: Observed error as a fraction of the allowed error; 1 is the limit.
        ulp: Observed error in units in the last place of the expected value.
        index: Position of the element; None if no elements were compared.
        got: Value of the element.
        expected: Its reference.
    """

    error: float
    ulp: float
    index: tuple[int, ...] | None
    got: float
    expected: float


class Failure(AssertionError):
    """Error: a case found a defect.

    Args:
        message: Description of the defect.
        metric: The worst element, if the case compared values.
    """

    def __init__(self, message: str, metric: Metric | None = None) -> None:
        super().__init__(message)
        self.metric = metric


def to_bfloat16(values: HostArray) -> HostArray:
    """Round float32 values to the nearest bfloat16, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) & np.uint32(0xFFFF0000)
    result = rounded.view(np.float32).reshape(np.shape(values)).copy()
    result[np.isnan(values)] = np.nan
    return result


def to_format(values: HostArray, form: Format) -> HostArray:
    """Round ``values`` to an element type; return the host array that holds it."""
    with np.errstate(all="ignore"):
        cast = np.asarray(values).astype(form.numpy)
    return to_bfloat16(cast) if form.short == "bf16" else cast


def spacing(values: HostArray, form: Format) -> HostArray:
    """Return the distance between adjacent floats of ``form`` around each of ``values`` (float64, finite)."""
    _, exponent = np.frexp(values)
    exponent = np.where(values == 0, form.exponent, np.maximum(exponent - 1, form.exponent))
    return np.asarray(np.ldexp(1.0, exponent - form.digits + 1))


def compare(got: HostArray, reference: HostArray, form: Format, tolerance: Tolerance = EXACT,
            condition: HostArray | float = 0.0) -> Metric:
    """Check a result against its reference.

    Args:
        got: The result, on the host.
        reference: The reference, of the same shape; float64 (not rounded) for floats.
        form: Element type of the result.
        tolerance: The error that the operator's record allows.
        condition: Conditioning of each element; see the module's docstring.

    Raises:
        Failure: Shapes or values differ; the message names the worst element.
    """
    if got.shape != reference.shape:
        raise Failure(f"the result has shape {list(got.shape)}, expected {list(reference.shape)}")
    if got.size == 0:
        return Metric(0.0, 0.0, None, 0.0, 0.0)
    if form.kind == "complex":
        return _compare_complex(got, reference, form, tolerance, np.broadcast_to(np.asarray(condition), got.shape))
    if form.kind != "float":
        return _compare_exactly(got, reference)
    return _compare_floats(got.astype(np.float64), reference.astype(np.float64), form, tolerance,
                           np.broadcast_to(np.asarray(condition, np.float64), got.shape))


def _compare_exactly(got: HostArray, reference: HostArray) -> Metric:
    wrong = np.flatnonzero(got.ravel() != reference.ravel())
    if wrong.size == 0:
        return Metric(0.0, 0.0, None, 0.0, 0.0)
    index = _index(int(wrong[0]), got.shape)
    metric = Metric(float("inf"), float("inf"), index, float(got[index]), float(reference[index]))
    raise Failure(f"{wrong.size} of {got.size} elements differ; element {list(index)} is {got[index]}, "
                  f"expected {reference[index]}", metric)


def _compare_floats(got: HostArray, reference: HostArray, form: Format, tolerance: Tolerance,
                    condition: HostArray) -> Metric:
    finite = np.isfinite(reference)
    step = spacing(np.where(finite, reference, 0.0), form)
    with np.errstate(all="ignore"):
        allowed = tolerance.ulp * step + tolerance.factor * form.eps * np.where(np.isfinite(condition), condition, 0.0)
        if tolerance.flush:
            allowed = np.maximum(allowed, form.tiny)
        rounded = to_format(reference, form).astype(np.float64)
        error = np.abs(got - reference)
        # The result need not account for the rounding of the reference.
        error = np.maximum(error - np.abs(np.where(np.isfinite(rounded), rounded, reference) - reference), 0.0)
        error = np.where(_same_special(got, reference, rounded, allowed, form), 0.0, error)
        error = np.where(np.isnan(error) | np.isinf(error), np.inf, error)
        ratio = np.where(error == 0.0, 0.0, error / allowed)
    worst = int(np.argmax(ratio.ravel()))
    index = _index(worst, got.shape)
    metric = Metric(float(ratio[index]), float(error[index] / step[index]), index, float(got[index]),
                    float(reference[index]))
    if metric.error > 1.0:
        count = int(np.count_nonzero(ratio > 1.0))
        raise Failure(f"{count} of {got.size} elements are off; element {list(index)} is {metric.got!r}, expected "
                      f"{float(rounded[index])!r} within {allowed[index]:.3g} ({metric.ulp:.1f} ULP off)", metric)
    return metric


def _compare_complex(got: HostArray, reference: HostArray, form: Format, tolerance: Tolerance,
                     condition: HostArray) -> Metric:
    """Compare by distances in the plane; if a part is infinite or NaN, both parts must equal the rounded reference."""
    wide = reference.astype(np.complex128)
    rounded = to_format(wide, form)
    finite = np.isfinite(wide) & np.isfinite(rounded)
    step = spacing(np.where(finite, np.abs(wide), 0.0), form)
    with np.errstate(all="ignore"):
        allowed = tolerance.ulp * step + tolerance.factor * form.eps * np.where(np.isfinite(condition), condition, 0.0)
        error = np.maximum(np.abs(got - wide) - np.abs(rounded - wide), 0.0)
        same = ((got.real == rounded.real) | (np.isnan(got.real) & np.isnan(rounded.real))) & (
            (got.imag == rounded.imag) | (np.isnan(got.imag) & np.isnan(rounded.imag)))
        error = np.where(same, 0.0, np.where(finite & np.isfinite(error), error, np.inf))
        ratio = np.where(error == 0.0, 0.0, error / allowed)
    index = _index(int(np.argmax(ratio.ravel())), got.shape)
    metric = Metric(float(ratio[index]), float(error[index] / step[index]), index, float(np.abs(got[index])),
                    float(np.abs(wide[index])))
    if metric.error > 1.0:
        raise Failure(f"{int(np.count_nonzero(ratio > 1.0))} of {got.size} elements are off; element {list(index)} is "
                      f"{complex(got[index])}, expected {complex(rounded[index])} within {allowed[index]:.3g} "
                      f"({metric.ulp:.1f} ULP off)", metric)
    return metric


def _same_special(got: HostArray, reference: HostArray, rounded: HostArray, allowed: HostArray,
                  form: Format) -> HostArray:
    """Whether both are NaN, or equal, or within the bound on different sides of the overflow threshold."""
    same = (np.isnan(got) & np.isnan(reference)) | (got == rounded)
    at_edge = np.abs(reference) + allowed >= form.largest
    overflow = np.isinf(got) & np.isfinite(reference) & at_edge & (np.sign(got) == np.sign(reference))
    stopped = np.isinf(rounded) & np.isfinite(reference) & (np.abs(got) == form.largest) & at_edge
    return np.asarray(same | overflow | (stopped & (np.sign(got) == np.sign(reference))))


def _index(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, shape))
