"""Comparison of what a graph computed with what the function computed, within the rounding of both."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from tensocket_core.limits import finfo
from tensocket_core.tensor import Tensor
from tensocket_operators.kinds.inplace import InPlace
from tensocket_operators.kinds.pointwise import Pointwise
from tensocket_plugins.contract.dtypes import complex128, float32, float64

from ..capture.recorder import Operation, Recording

#: Values of a run by names that reports show: copies of tensors, numbers, texts.
Values = dict[str, Any]
#: The largest tolerance.
_COARSE: Final = 0.25
#: How often a difference may be what a change of all operands by the tolerance causes.
_FACTOR: Final = 4.0


class Difference(NamedTuple):
    """A value that a graph computed otherwise than the function.

    Attributes:
        name: The value.
        text: How it differs.
        largest: The largest difference of an element; NaN if the values are not numbers of the same form.
    """

    name: str
    text: str
    largest: float = math.nan

    def __str__(self) -> str:
        return f"{self.name} {self.text}"


def tolerance_of(recording: Recording) -> float:
    """Return the relative error up to which sums in another order may change results of a run.

    It grows with the root of the number of sums in a row, and of the terms of the longest one; accumulators have at
    least the precision of float32.
    """
    kinds = [x.dtype for operation in recording.operations for x in (*operation.reads, *operation.results)]
    found = [finfo(x.to_real()).eps for x in kinds if x.category >= 2]
    if not found:
        return 0.0
    eps = max(found)
    sums = [operation for operation in recording.operations
            if not isinstance(operation.operator, (Pointwise, InPlace)) and operation.reads]
    depth = math.sqrt(1 + len(sums))
    terms = max((terms_of(operation) for operation in sums), default=1.0)
    return min(_COARSE, 4 * eps * depth + 8 * min(eps, finfo(float32).eps) * depth * math.sqrt(terms))


def terms_of(operation: Operation) -> float:
    """Return an estimate of how many numbers an element of the result is a sum of."""
    sizes = sorted((max(1, math.prod(x.shape)) for x in operation.reads), reverse=True)
    results = max(1, min((math.prod(x.shape) for x in operation.results), default=1))
    products = math.sqrt(sizes[0] * sizes[1] / results) if len(sizes) > 1 else 1.0
    return max(1.0, sizes[0] / results, products)


def find_difference(graph: Values, eager: Values, tolerance: float, repeat: Callable[[], Values]) -> Difference | None:
    """Return the first value that differs by more than rounding; None if there is none.

    Args:
        graph: The values that the graph computed.
        eager: Those that the function computed.
        tolerance: See ``tolerance_of``.
        repeat: Runs the function on operands that differ by the tolerance. Values that change there by as much as graph
            and function differ say nothing about the graph: quotients of numbers that are zero but for rounding, say.
    """
    found = []
    for name in {**eager, **graph}:
        if name not in graph or name not in eager:
            return Difference(name, f"is there only after a call of the {'graph' if name in graph else 'function'}")
        text = _other_form(graph[name], eager[name])
        if text is not None:
            return Difference(name, text)
        if isinstance(eager[name], Tensor) and graph[name] is not eager[name]:
            largest = _largest(graph[name], eager[name], tolerance)
            if largest:
                found.append((name, largest))
    repeated = repeat() if found else {}
    for name, largest in found:
        changed = repeated.get(name)
        usual = 0.0 if _other_form(changed, eager[name]) is not None else _largest(changed, eager[name], 0.0)
        if not largest <= _FACTOR * usual:
            return Difference(name, f"differs by up to {largest:.3g}", largest)
    return None


def _other_form(graph: Any, eager: Any) -> str | None:
    """Return how two values differ, unless it is by elements of tensors."""
    if isinstance(graph, Tensor) and isinstance(eager, Tensor):
        forms = [(x.dtype, tuple(x.shape), str(x.device)) for x in (graph, eager)]
        return None if forms[0] == forms[1] else f"is {forms[0]} instead of {forms[1]}"
    if isinstance(graph, Tensor) or isinstance(eager, Tensor) or repr(graph) != repr(eager):
        return f"is {graph!r:.60} instead of {eager!r:.60}"
    return None


def _largest(graph: Any, eager: Any, tolerance: float) -> float:
    """Return the largest difference of elements, 0 if all are equal up to a tolerance; integers must be equal."""
    exact = eager.dtype.category < 2
    if not exact and _are_surely_close(graph, eager, tolerance):
        return 0.0
    a, b = _numbers(graph), _numbers(eager)
    if exact:
        differs = a != b
        apart = np.abs(a[differs].astype(np.float64) - b[differs].astype(np.float64))
        return max(1.0, float(apart.max())) if apart.size else 0.0  # large integers may have the same float
    with np.errstate(all="ignore"):
        difference = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, np.abs(a - b))
        difference[np.isnan(difference)] = math.inf
        size = np.where(np.isfinite(b), np.abs(b), 0)
        limit = tolerance * np.maximum(size, size.mean() if size.size else 0)
    beyond = difference[difference > limit]
    return float(beyond.max()) if beyond.size else 0.0


def _are_surely_close(graph: Any, eager: Any, tolerance: float) -> bool:
    """Whether all elements are finite float32 and differ by less than half of what their mean size allows.

    This takes a few passes in float32, and never contradicts the exact test.
    """
    if eager.dtype is not float32 or not eager.numel():
        return False
    a, b = graph.cpu()._array, eager.cpu()._array
    with np.errstate(all="ignore"):
        largest, size = float(np.abs(a - b).max()), float(np.abs(b).mean())
    return math.isfinite(size) and largest <= 0.5 * tolerance * size


def _numbers(tensor: Any) -> Any:
    """Return the elements of a tensor as a NumPy array: as they are, or as the widest floats."""
    host = tensor.cpu()
    if host.dtype.category >= 2:
        host = host.to(complex128 if host.dtype.kind == "complex" else float64)
    return np.atleast_1d(host._array)
