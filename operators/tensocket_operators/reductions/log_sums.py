"""The logarithm of a sum of exponentials: one pass over rows, and the composition for complex numbers."""

from __future__ import annotations

import math
from functools import reduce
from operator import add
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.geometry import normalize_axes
from tensocket_core.promotion import number_dtype

from ..kinds.composite import composite
from ..kinds.normalized_row import RowOperator
from ..unrolled.recomputed import Recomputed
from .reductions import count_of
from .value_checks import promoted_for_arithmetic


def _log_total(row: Any, x: Any) -> tuple[Any, ...]:
    m, top = row.m, row.amax(x)
    top = m.where(m.eq(m.abs(top), math.inf), 0.0, top)
    (total,) = row.sums(lambda j: m.exp(x(j) - top))
    return m.log(total) + top, top, total


def _log_total_gradient(grads: Any, input: Any, result1: Any, result2: Any) -> Any:
    """Return the gradient by sum and largest element, as the logarithm of a large sum is too coarse."""
    factors = [g for g in (None if grads[0] is None else grads[0] / result2, grads[2]) if g is not None]
    return reduce(add, factors) * (input - result1.detach()).exp() if factors else None


#: With the largest element ``top`` and the sum of ``exp(input - top)``.
log_total: Final = RowOperator(
    "log_total(Tensor input, int[] dims) -> (Tensor, Tensor, Tensor)",
    "log(sum(exp(input))) of rows of floats, without overflow.",
    _log_total, ("row", "row", "row"), lambda: functions, "logsumexp", method=False, function=False,
    derivative=Derivative(input=_log_total_gradient))


@composite("logsumexp(Tensor input, int[] dim, bool keepdim=False) -> Tensor", recomputed=Recomputed(saved=("input",)))
def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Any:
    """log(sum(exp(input))), without overflow."""
    axes = normalize_axes("logsumexp", dim, input.ndim)
    if input.dtype.category < 2:
        input = input.to(number_dtype(2))
    shape = tuple(input.shape)
    if not input.dtype.is_complex and count_of(shape, axes) and axes:
        result = call(log_total, input, tuple([k - input.ndim for k in axes]))[0].to(input.dtype)
    else:
        dtype, input = promoted_for_arithmetic(input)
        top: Any = 0
        if count_of(shape, axes):
            top = (input.real if input.dtype.is_complex else input).detach().amax(axes, True)
            top = top.masked_fill(top.abs() == math.inf, 0)
        result = ((input - top).exp().sum(axes, True).log() + top).to(dtype)
    return result if keepdim else result.reshape(tuple([n for k, n in enumerate(shape) if k not in axes]))
