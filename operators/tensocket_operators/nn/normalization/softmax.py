"""Softmax and its logarithm."""

from __future__ import annotations

from typing import Any, Final

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative

from ...kinds.composite import composite
from ...kinds.row import SoftmaxLike


def _softmax(row: Any, x: Any) -> Any:
    top = row.amax(x)
    power = row.keep(lambda j: row.m.exp(x(j) - top))
    total = row.sum(power)
    return lambda j: power(j) / total


def _log_softmax(row: Any, x: Any) -> Any:
    top = row.amax(x)
    total = row.m.log(row.sum(lambda j: row.m.exp(x(j) - top)))
    return lambda j: (x(j) - top) - total


def _softmax_backward(row: Any, grad: Any, y: Any) -> Any:
    total = row.sum(lambda j: grad(j) * y(j))
    return lambda j: (grad(j) - total) * y(j)


def _log_softmax_backward(row: Any, grad: Any, y: Any) -> Any:
    total = row.sum(grad)
    return lambda j: grad(j) - row.m.exp(y(j)) * total


def _functions() -> Any:
    return functions


softmax_rows: Final = SoftmaxLike(
    "softmax_rows(Tensor input, int dim) -> Tensor",
    "exp(input) / sum(exp(input)) along dim.",
    _softmax,
    _functions,
    method=False,
    function=False,
    derivative=Derivative(input=lambda grad, result, dim: call(softmax_backward, grad, result, dim)),
)
log_softmax_rows: Final = SoftmaxLike(
    "log_softmax_rows(Tensor input, int dim) -> Tensor",
    "log(softmax(input)) along dim.",
    _log_softmax,
    _functions,
    method=False,
    function=False,
    derivative=Derivative(input=lambda grad, result, dim: call(log_softmax_backward, grad, result, dim)),
)
softmax_backward: Final[SoftmaxLike] = SoftmaxLike(
    "softmax_backward(Tensor upstream, Tensor output, int dim) -> Tensor",
    "Gradient of softmax.",
    _softmax_backward,
    _functions,
    method=False,
    function=False,
    derivative=Derivative(
        upstream=lambda grad, output, dim: call(softmax_backward, grad, output, dim),
        output=lambda grad, upstream, output, dim: (
            grad * (upstream - (upstream * output).sum(dim, True)) - upstream * (grad * output).sum(dim, True)
        ),
    ),
)
log_softmax_backward: Final[SoftmaxLike] = SoftmaxLike(
    "log_softmax_backward(Tensor upstream, Tensor output, int dim) -> Tensor",
    "Gradient of log_softmax.",
    _log_softmax_backward,
    _functions,
    method=False,
    function=False,
    derivative=Derivative(
        upstream=lambda grad, output, dim: grad - (grad * output.exp()).sum(dim, True),
        output=lambda grad, upstream, output, dim: -grad * output.exp() * upstream.sum(dim, True),
    ),
)


@composite("softmax(Tensor input, int dim, dtype? dtype=None) -> Tensor", host_path=softmax_rows.public_host_path)
def softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """Return exp(input) / sum(exp(input)) along ``dim``, without overflow."""
    return call(softmax_rows, input if dtype is None else input.to(dtype), dim)


@composite("log_softmax(Tensor input, int dim, dtype? dtype=None) -> Tensor",
           host_path=log_softmax_rows.public_host_path)
def log_softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """Return log(softmax(input)) along ``dim``, accurate for small probabilities."""
    return call(log_softmax_rows, input if dtype is None else input.to(dtype), dim)
