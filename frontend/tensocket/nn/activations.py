"""Activation functions, with PyTorch's signatures; ``inplace=True`` and a trailing underscore write into the input."""

# The operators of the core are generated and typed Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import warnings

from tensocket_operators import Tensor, is_grad_enabled
from tensocket_operators import dtype as DType
from tensocket_operators import functions as ops
from tensocket_operators.differentiation.delayed import forbid_backward


def _source(input: Tensor, inplace: bool) -> Tensor:
    """Return the operand of an activation; in place, a copy, because most gradients need the values before the call."""
    return input.clone() if inplace and input.requires_grad and is_grad_enabled() else input


def _placed(input: Tensor, result: Tensor, inplace: bool) -> Tensor:
    """Return the result; in place, copy it into the input and return the input."""
    return input.copy_(result) if inplace else result


def _bent(operator: str, input: Tensor, result: Tensor, slope: float, inplace: bool) -> Tensor:
    """Return ``_placed``; in place, a negative slope hides the operand's sign from backward, which then raises."""
    if inplace and not slope >= 0:
        result = forbid_backward(operator, slope, result)
    return _placed(input, result, inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return ``max(0, input) + min(0, alpha * (exp(input / alpha) - 1))``.

    Raises:
        ArgumentError: ``alpha`` is 0.
    """
    return _bent("celu_", input, ops.celu(_source(input, inplace), alpha), alpha, inplace)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Apply ``celu`` in place."""
    return celu(input, alpha, True)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return ``input`` where it is positive, ``alpha * (exp(input) - 1)`` elsewhere."""
    return _bent("elu_", input, ops.elu(_source(input, inplace), alpha), alpha, inplace)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Apply ``elu`` in place."""
    return elu(input, alpha, True)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``1.0507 * elu(input, 1.67326)``, whose outputs keep mean 0 and variance 1."""
    return _placed(input, ops.selu(_source(input, inplace)), inplace)


def selu_(input: Tensor) -> Tensor:
    """Apply ``selu`` in place."""
    return selu(input, True)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return the first half along ``dim`` times the sigmoid of the second.

    Raises:
        ShapeError: The dimension has an odd size.
    """
    return ops.glu(input, dim)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return 0 from ``-lambd`` to ``lambd``, ``input`` elsewhere."""
    return ops.hardshrink(input, lambd)


def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Return ``input`` moved by ``lambd`` towards 0, and 0 from ``-lambd`` to ``lambd``.

    Raises:
        ArgumentError: ``lambd`` is negative.
    """
    return ops.softshrink(input, lambd, out=out)


def tanhshrink(input: Tensor) -> Tensor:
    """Return ``input - tanh(input)``."""
    return ops.tanhshrink(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``min(max(input + 3, 0), 6) / 6``."""
    return _placed(input, ops.hardsigmoid(_source(input, inplace)), inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``input * hardsigmoid(input)``."""
    return _placed(input, ops.hardswish(_source(input, inplace)), inplace)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Return ``input`` limited to the range from ``min_val`` to ``max_val``.

    Raises:
        ArgumentError: ``min_val`` is above ``max_val``.
    """
    return _placed(input, ops.hardtanh(_source(input, inplace), min_val, max_val), inplace)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Apply ``hardtanh`` in place."""
    return hardtanh(input, min_val, max_val, True)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``max(input, 0)``."""
    return input.relu_() if inplace else ops.relu(input)


def relu_(input: Tensor) -> Tensor:
    """Apply ``relu`` in place."""
    return input.relu_()


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``min(max(input, 0), 6)``."""
    return _placed(input, ops.relu6(_source(input, inplace)), inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return ``input`` where it is positive, ``negative_slope * input`` elsewhere."""
    result = ops.leaky_relu(_source(input, inplace), negative_slope)
    return _bent("leaky_relu_", input, result, negative_slope, inplace)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Apply ``leaky_relu`` in place."""
    return leaky_relu(input, negative_slope, True)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Return ``input`` where it is positive, ``weight * input`` elsewhere; one weight for each channel, or one.

    Raises:
        ShapeError: There is another number of weights.
    """
    return ops.prelu(input, weight)


def rrelu(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False,
          inplace: bool = False) -> Tensor:
    """Return ``leaky_relu`` with random slopes while training, with the mean of the bounds else.

    Raises:
        ArgumentError: ``lower`` is above ``upper``.
    """
    result = ops.rrelu(_source(input, inplace), lower, upper, training)
    return _bent("rrelu_", input, result, 0.0 if training else (lower + upper) / 2, inplace)


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """Apply ``rrelu`` in place."""
    return rrelu(input, lower, upper, training, True)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Return ``value`` up to the threshold, ``input`` above."""
    return _placed(input, ops.threshold(_source(input, inplace), threshold, value), inplace)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """Apply ``threshold`` in place."""
    return input.copy_(ops.threshold(_source(input, inplace=True), threshold, value))


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``input * sigmoid(input)``."""
    return _placed(input, ops.silu(_source(input, inplace)), inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``input * tanh(softplus(input))``."""
    return _placed(input, ops.mish(_source(input, inplace)), inplace)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0, *, out: Tensor | None = None) -> Tensor:
    """Return ``log(1 + exp(beta * input)) / beta``; ``input`` where ``beta * input`` is above the threshold."""
    return ops.softplus(input, beta, threshold, out=out)


def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return ``log(sigmoid(input))``, without overflow."""
    return ops.logsigmoid(input, out=out)


def softsign(input: Tensor) -> Tensor:
    """Return ``input / (1 + |input|)``."""
    return ops.softsign(input)


def sigmoid(input: Tensor) -> Tensor:
    """Return ``1 / (1 + exp(-input))``."""
    return ops.sigmoid(input)


def tanh(input: Tensor) -> Tensor:
    """Return the hyperbolic tangent."""
    return ops.tanh(input)


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """Return exponentials along ``dim``, scaled to a sum of one. Without ``dim``, one is guessed with a warning."""
    return ops.softmax(input, _dimension("softmax", input.dim(), dim), dtype=dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """Return ``softmax(-input)``. Without ``dim``, one is guessed with a warning."""
    return ops.softmin(input, _dimension("softmin", input.dim(), dim), dtype=dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """Return the logarithm of ``softmax``, computed without overflow. Without ``dim``, one is guessed with a
    warning.
    """
    return ops.log_softmax(input, _dimension("log_softmax", input.dim(), dim), dtype=dtype)


def _dimension(operator: str, ndim: int, dim: int | None) -> int:
    """Return ``dim``, or the one that PyTorch guesses, with its warning."""
    if dim is not None:
        return dim
    warnings.warn(f"{operator} without dim guesses one, which is deprecated; pass dim", UserWarning, stacklevel=3)
    return 0 if ndim in (0, 1, 3) else 1
