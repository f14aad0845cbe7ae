"""Row operators on small arrays: softmax, log_softmax and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..contract.kernels import KernelTable

Array = NDArray[Any]

# Bound once; NumPy's type information also lacks some forms of these calls.
_sum: Final[Any] = np.add.reduce
_max: Final[Any] = np.maximum.reduce


def _total(x: Array, axis: int) -> Any:
    """Sum along ``axis``, which remains with size 1."""
    return _sum(x, axis, np.float64, None, True).astype(x.dtype)


def softmax(x: Array, axis: int) -> Array:
    """Compute ``exp(x) / sum(exp(x))`` along ``axis``."""
    if not x.size:
        return x.copy()
    powers = x - _max(x, axis, None, None, True)
    np.exp(powers, powers)
    result: Array = np.divide(powers, _total(powers, axis), powers)
    return result


def log_softmax(x: Array, axis: int) -> Array:
    """Compute ``log(softmax(x))`` along ``axis``."""
    if not x.size:
        return x.copy()
    shifted: Array = x - _max(x, axis, None, None, True)
    result: Array = np.subtract(shifted, np.log(_total(np.exp(shifted), axis)), shifted)
    return result


def softmax_backward(upstream: Array, output: Array, axis: int) -> Array:
    """Return the gradient of softmax, from its output."""
    result: Array = (upstream - _total(upstream * output, axis)) * output
    return result


def log_softmax_backward(upstream: Array, output: Array, axis: int) -> Array:
    """Return the gradient of log_softmax, from its output."""
    result: Array = upstream - np.exp(output) * _total(upstream, axis)
    return result


def _through_float32(function: Callable[..., Array]) -> Callable[..., Array]:
    def run(*args: Any) -> Array:
        *arrays, axis = args
        return function(*[x.astype(np.float32) for x in arrays], axis).astype(np.float16)

    return run


def register_rows(table: KernelTable, *, limit: int) -> None:
    """Register ``kernel(*inputs, axis)`` for arrays of at least one dimension and fewer than ``limit`` elements."""
    rows: dict[str, Callable[..., Array]] = {
        "softmax_rows": softmax, "log_softmax_rows": log_softmax,
        "softmax_backward": softmax_backward, "log_softmax_backward": log_softmax_backward,
    }
    for operator, function in rows.items():
        table.register(operator, function, dtypes=("float32", "float64"), direct=True, limit=limit)
        table.register(operator, _through_float32(function), dtypes=("float16",), direct=True, limit=limit)
