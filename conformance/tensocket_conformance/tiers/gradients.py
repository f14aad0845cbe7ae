"""Tier T4: gradients on the device against central differences of the operators' float64 references."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from ..case import Case
from ..numerics import FORMATS, Failure, HostArray, Metric
from ..ops import operators
from ..record import Draw, Given, Operator, Sample
from ..subject import Subject, format_of

#: Samples that are small enough for differences: those of pointwise operators, then by operator with checked gradients.
_POINTWISE: Final = ("prime#0", "transposed#0")
_BINARY: Final = ("prime#0", "broadcast#0")
CHECKED: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("neg", "abs", "square", "sqrt", "rsqrt", "reciprocal", "exp", "expm1", "log", "log1p", "sin",
                     "cos", "tanh", "erf", "sigmoid", "relu", "gelu", "silu", "clamp"), _POINTWISE),
    **dict.fromkeys(("add", "sub", "mul", "div", "pow", "maximum", "minimum", "where"), _BINARY),
    "masked_fill": ("prime#0", "broadcast#0"),
    **dict.fromkeys(("sum", "mean", "prod", "amax", "amin", "var", "std"), ("dim#0", "dim#2", "transposed#0")),
    **dict.fromkeys(("max", "min"), ("prime#0",)),
    **dict.fromkeys(("max.dim", "min.dim"), ("dim#0", "step#0")),
    "mm": ("prime#0", "transposed#1"), "bmm": ("prime#0",), "linear": ("prime#0", "batch#0"),
    "matmul": ("prime#0", "broadcast#1", "vector#0", "vector#1", "vector#2"),
    **dict.fromkeys(("reshape", "transpose", "permute", "t", "expand", "unsqueeze", "select", "slice", "basic_index",
                     "split", "flip", "clone", "contiguous"), ("prime#0", "transposed#0")),
    "squeeze": ("prime#0",), "cat": ("prime#0", "dim#0"), "stack": ("prime#0",),
    "index": ("prime#0", "negative#0"), "index_select": ("prime#0", "dim#0"), "gather": ("prime#0", "dim#0"),
    "index.mask": ("prime#0",), "embedding": ("prime#0",), "scatter_add": ("prime#0",),
    "index_put.accumulate": ("prime#0",),
    "softmax": ("prime#0", "dim#0"), "log_softmax": ("prime#0", "dim#0"), "logsumexp": ("prime#0", "dim#1"),
    **dict.fromkeys(("conv1d", "conv2d", "conv_transpose2d", "avg_pool2d", "adaptive_avg_pool2d", "unfold.columns",
                     "interpolate.bilinear", "interpolate.bicubic", "pixel_shuffle"), ("prime#0",)),
    "pad": ("prime#0", "prime#1"),
    "nll_loss": ("prime#0", "prime#2"), "cross_entropy": ("prime#0", "prime#1"), "mse_loss": ("prime#0", "prime#1"),
}
#: Operators that are defined, or smooth enough for differences, only away from zero.
_POSITIVE: Final = frozenset({"sqrt", "rsqrt", "reciprocal", "log", "log1p", "div", "pow"})
#: Relative step of the differences, and by element type the allowed relative error.
_STEP: Final = 1e-5
_ALLOWED: Final = {"f32": 2e-4, "f64": 1e-7}


def cases(declared: tuple[str, ...]) -> Iterator[Case]:
    """Yield the cases of tier T4 for a device that declares the element types ``declared``."""
    for record in operators():
        for label in CHECKED.get(record.name, ()):
            for short in (name for name in _ALLOWED if name in declared and name in record.dtypes):
                yield _case(record, short, label)


def _case(record: Operator, short: str, label: str) -> Case:
    case_id = f"T4.grad.{record.name}/{short}/{label}"

    def check(subject: Subject) -> Metric | None:
        rng = subject.rng(case_id)
        sample = in_domain(record, record.samples[label](Draw(rng, FORMATS[short])))
        return check_sample(subject, record, sample, short, rng)

    return Case(case_id, check, (f"T2.op.{record.name}/{short}/{label}",), short)


def in_domain(record: Operator, sample: Sample) -> Sample:
    """Return a sample whose values the operator is smooth at."""
    if record.name not in _POSITIVE:
        return sample
    return Sample(tuple(Given((np.abs(a.array) + a.array.dtype.type(0.5)).astype(a.array.dtype), a.short, a.layout)
                        if isinstance(a, Given) else a for a in sample.args), sample.kwargs)


def check_sample(subject: Subject, record: Operator, sample: Sample, short: str,
                 rng: np.random.Generator) -> Metric | None:
    """Compare the gradients of a weighted sum of a result with differences of the reference."""
    leaves = [subject.place(a.array, a.short, a.layout).detach().requires_grad_(_is_float(a)) if isinstance(a, Given)
              else a for a in sample.args]
    result = record.call(*leaves, **sample.kwargs)
    first = result[0] if isinstance(result, tuple | list) else result
    weights = rng.uniform(0.5, 1.5, tuple(first.shape)).astype(FORMATS[short].numpy)
    (first * subject.put(weights, short)).sum().backward()
    worst: Metric | None = None
    for position, (given, leaf) in enumerate(zip(sample.args, leaves, strict=True)):
        if isinstance(given, Given) and _is_float(given):
            metric = _compare(subject, leaf, _differences(record, sample, position, weights), position, short)
            worst = metric if worst is None or metric.error > worst.error else worst
    return worst


def _is_float(given: Given) -> bool:
    return FORMATS[given.short].kind == "float"


def _differences(record: Operator, sample: Sample, position: int, weights: HostArray) -> HostArray:
    """Return the derivatives of the weighted sum of the result with respect to each element of one argument."""
    arrays: list[Any] = [(a.array.astype(np.float64) if _is_float(a) else a.array) if isinstance(a, Given) else a
                         for a in sample.args]
    values = np.array(arrays[position])
    gradient = np.zeros_like(values)

    def result(index: tuple[int, ...], value: float) -> HostArray:
        moved = values.copy()
        moved[index] = value
        found = record.reference(*arrays[:position], moved, *arrays[position + 1 :], **sample.kwargs)
        return np.asarray(found[0] if isinstance(found, tuple) else found, np.float64)

    with np.errstate(all="ignore"):
        for index in np.ndindex(*values.shape):
            step = _STEP * (abs(values[index]) + 1e-2)
            high, low = values[index] + step, values[index] - step
            # Take differences before the sum, so that unchanged terms cancel exactly.
            gradient[index] = np.sum((result(index, high) - result(index, low)) * weights) / (high - low)
    return gradient


def _compare(subject: Subject, leaf: Any, expected: HostArray, position: int, short: str) -> Metric:
    if leaf.grad is None:
        raise Failure(f"argument {position} got no gradient")
    if tuple(leaf.grad.shape) != expected.shape or format_of(leaf.grad).short != short:
        raise Failure(f"the gradient of argument {position} is {leaf.grad.dtype} {list(leaf.grad.shape)}, expected "
                      f"{FORMATS[short].name} {list(expected.shape)}")
    got = subject.get(leaf.grad).astype(np.float64)
    allowed = _ALLOWED[short] * (np.abs(expected) + 0.1 * float(np.max(np.abs(expected), initial=0.0))) + 1e-12
    ratio = np.nan_to_num(np.abs(got - expected) / allowed, nan=np.inf)
    if ratio.size == 0:
        return Metric(0.0, 0.0, None, 0.0, 0.0)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(ratio)), ratio.shape))
    metric = Metric(float(ratio[index]), 0.0, index, float(got[index]), float(expected[index]))
    if metric.error > 1.0:
        raise Failure(f"the gradient of argument {position} is off: element {list(index)} is {metric.got!r}, expected "
                      f"{metric.expected!r} within {float(allowed[index]):.2g}", metric)
    return metric
