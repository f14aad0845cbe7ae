"""One record per operator: its call, reference, samples and tolerance.

A record yields cases, one per element type and sample. A sample depends only on the random numbers of its case, so that
a single case can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from .case import Case
from .numerics import EXACT, FORMATS, Failure, Format, HostArray, Metric, Tolerance, compare, to_format
from .subject import Subject, format_of

#: Element types by kind; the first ones get all samples, and those in ``MINOR`` get a few.
KINDS: Final[dict[str, tuple[str, ...]]] = {
    "b": ("b8",), "i": ("i64", "i32", "u8", "i8", "i16"), "f": ("f32", "f64", "f16", "bf16"),
    "u": ("u32", "u16", "u64"), "c": ("c64", "c128"),
}
MINOR: Final = frozenset({"u8", "i8", "i16", "f16", "bf16", "u16", "u32", "u64", "c128"})
#: Sample classes that minor element types get.
MINOR_CLASSES: Final = frozenset({"prime", "grid", "transposed", "dim", "square", "values"})


def kinds(letters: str) -> tuple[str, ...]:
    """Return the short names of the element types of some kinds: ``kinds("if")``."""
    return tuple(short for letter in letters for short in KINDS[letter])


@dataclass(frozen=True)
class Given:
    """A tensor argument of a sample: values, element type and memory layout."""

    array: HostArray
    short: str
    layout: str = "plain"


@dataclass(frozen=True)
class Sample:
    """Arguments of one call; a ``Given`` becomes a tensor on the device and an array for the reference."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)


class Draw:
    """Source of the values of one sample.

    Args:
        rng: Random numbers of the case.
        form: Element type of the case.
    """

    def __init__(self, rng: np.random.Generator, form: Format) -> None:
        self.rng = rng
        self.form = form

    def values(self, shape: tuple[int, ...], low: float = -4.0, high: float = 4.0) -> HostArray:
        """Draw uniform values of the element type.

        Floats (and parts of complex numbers) are from the range, integers from ten times the range; bools are any.
        """
        if self.form.kind == "bool":
            return self.rng.integers(0, 2, shape).astype(np.bool_)
        if self.form.kind == "int":
            first = max(int(np.iinfo(self.form.numpy).min), int(low * 10))
            return self.rng.integers(first, int(high * 10) + 1, shape).astype(self.form.numpy)
        if self.form.kind == "complex":
            return to_format(self.rng.uniform(low, high, shape) + 1j * self.rng.uniform(low, high, shape), self.form)
        return to_format(self.rng.uniform(low, high, shape), self.form)

    def given(self, shape: tuple[int, ...], layout: str = "plain", low: float = -4.0, high: float = 4.0) -> Given:
        """Return a tensor argument of uniform values."""
        array = self.values(shape, low, high)
        if layout == "expanded" and array.ndim:
            array = np.broadcast_to(array[:1], shape)
        return Given(array, self.form.short, layout)

    def index(self, shape: tuple[int, ...], size: int) -> Given:
        """Return an int64 tensor argument of indices below ``size``."""
        return Given(self.rng.integers(0, max(size, 1), shape), "i64")


Maker = Callable[[Draw], Sample]


@dataclass(frozen=True)
class Operator:
    """The suite's knowledge of one operator.

    Attributes:
        name: Name in case ids.
        call: Calls it on tensors.
        reference: Computes the result from host arrays; floats arrive as float64 and are returned unrounded.
        samples: By sample class and number, such as ``prime#0``, the function that draws the sample.
        dtypes: Short names of the element types that it takes.
        result: Maps an argument's element type to the result's, by short names; a tuple for several results.
        tolerance: Tolerance of each floating-point result.
        condition: Conditioning of the results, from the same arguments as ``reference``.
        mutates: Whether it writes into its first argument and returns it.
        also: Short names of further element types that its samples use.
    """

    name: str
    call: Callable[..., Any]
    reference: Callable[..., Any]
    samples: Mapping[str, Maker]
    dtypes: tuple[str, ...]
    result: Callable[[str], str | tuple[str, ...]]
    tolerance: Tolerance = EXACT
    condition: Callable[..., Any] | None = None
    mutates: bool = False
    also: tuple[str, ...] = ()

    def cases(self, declared: tuple[str, ...]) -> Iterator[Case]:
        """Yield the cases for a device that declares the element types ``declared``."""
        for short in self.dtypes:
            if not {short, *_names(self.result(short)), *self.also} <= set(declared):
                yield self._refusal(short)
                continue
            for label in self.samples:
                if short not in MINOR or label.partition("#")[0] in MINOR_CLASSES or len(self.samples) < 4:
                    yield self._case(short, label)

    def _case(self, short: str, label: str) -> Case:
        case_id = f"T2.op.{self.name}/{short}/{label}"
        return Case(case_id, lambda subject: self._check(subject, case_id, short, label),
                    requires=tuple(dict.fromkeys(map(_roundtrip, (short, *_names(self.result(short)))))), dtype=short)

    def _refusal(self, short: str) -> Case:
        case_id = f"T2.op.{self.name}/{short}/undeclared"
        label = next(iter(self.samples))
        return Case(case_id, lambda subject: self._check(subject, case_id, short, label), dtype=short, refusal=True,
                    requires=("T0.load.open",))

    def _check(self, subject: Subject, case_id: str, short: str, label: str) -> Metric | None:
        sample = self.samples[label](Draw(subject.rng(case_id), FORMATS[short]))
        tensors = [subject.place(a.array, a.short, a.layout) if isinstance(a, Given) else a for a in sample.args]
        got = self.call(*tensors, **sample.kwargs)
        metric = self.check_result(subject, sample, got, short)
        if self.mutates:
            if got is not tensors[0]:
                raise Failure("the in-place operator did not return its first argument")
        else:
            _unchanged(subject, sample, tensors)
        return metric

    def check_result(self, subject: Subject, sample: Sample, got: Any, short: str) -> Metric | None:
        """Compare the result of a call with the reference."""
        arrays = [_exact(a) if isinstance(a, Given) else a for a in sample.args]
        with np.errstate(all="ignore"):
            reference = self.reference(*arrays, **sample.kwargs)
            condition = self.condition(*arrays, **sample.kwargs) if self.condition else 0.0
        return self._compare(subject, got, reference, condition, self.result(short))

    def _compare(self, subject: Subject, got: Any, reference: Any, condition: Any,
                 result: str | tuple[str, ...]) -> Metric | None:
        names = _names(result)
        outputs, references = (tuple(got), reference) if isinstance(result, tuple) else ((got,), (reference,))
        if len(outputs) != len(references):
            raise Failure(f"{len(outputs)} results, expected {len(references)}")
        # A tuple of one name applies to any number of results.
        names = names * len(outputs) if len(names) == 1 else names
        worst: Metric | None = None
        for tensor, expected, short in zip(outputs, references, names, strict=True):
            form = format_of(tensor)
            if form.short != short:
                raise Failure(f"the result has dtype {form.name}, expected {FORMATS[short].name}")
            metric = compare(subject.get(tensor), np.asarray(expected), form, tolerance_for(self.tolerance, form),
                             condition)
            worst = metric if worst is None or metric.error > worst.error else worst
        return worst


def tolerance_for(tolerance: Tolerance, form: Format) -> Tolerance:
    """Return a record's tolerance for one element type.

    Narrow floats are computed in float32 and rounded once, so two units suffice where float32 needs four. For float64,
    the reference has an error, too, half as large again as that of the result.
    """
    if form.short in ("f16", "bf16"):
        return Tolerance(min(tolerance.ulp, 2.0), tolerance.factor, tolerance.flush)
    if form.kind == "complex":
        # A product or quotient rounds several times, relative to its magnitude; the reference is not more precise.
        return Tolerance(4.0 * max(tolerance.ulp, 1.0), tolerance.factor * 4.0)
    if form.short == "f64":
        return Tolerance(tolerance.ulp * 1.5, tolerance.factor * 1.5, tolerance.flush)
    return tolerance


def _exact(given: Given) -> HostArray:
    """Return the reference's argument: floats exactly, as float64 (complex128)."""
    wide = {"float": np.float64, "complex": np.complex128}.get(FORMATS[given.short].kind)
    return given.array if wide is None else given.array.astype(wide)


def _unchanged(subject: Subject, sample: Sample, tensors: list[Any]) -> None:
    for position, (given, tensor) in enumerate(zip(sample.args, tensors, strict=True)):
        if isinstance(given, Given) and given.array.size <= 4096:
            if not np.array_equal(subject.get(tensor), given.array, equal_nan=given.array.dtype.kind in "fc"):
                raise Failure(f"the operator changed its argument {position}")


def _names(result: str | tuple[str, ...]) -> tuple[str, ...]:
    return (result,) if isinstance(result, str) else result


def _roundtrip(short: str) -> str:
    return f"T1.memory.roundtrip/{short}/values"


def same(short: str) -> str:
    """Return the argument's element type for the result."""
    return short


def boolean(short: str) -> str:
    """Return bool as the result's element type."""
    return "b8"


def int64(short: str) -> str:
    """Return int64 as the result's element type."""
    return "i64"


def floating(short: str) -> str:
    """Return the same element type for floats and complex numbers, and float32 for all others."""
    return short if FORMATS[short].kind in ("float", "complex") else "f32"


def magnitude(short: str) -> str:
    """Return the real element type: for complex numbers, that of their parts."""
    return {"c64": "f32", "c128": "f64"}.get(short, short)


def summed(short: str) -> str:
    """Return the same element type for floats and complex numbers, and int64 for all others."""
    return short if FORMATS[short].kind in ("float", "complex") else "i64"
