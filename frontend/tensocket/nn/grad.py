"""Functions that compute only the gradients of convolutions.

In all functions, ``stride``, ``padding``, ``dilation`` and ``groups`` are those of the convolution, and ``grad_output``
is the gradient of its result. The functions differentiate a convolution of zeros, because the gradients do not depend
on the operand itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensocket_operators import Tensor, enable_grad
from tensocket_operators import autograd as engine
from tensocket_operators import functions as ops

Numbers = int | Sequence[int]


def _input(convolve: Callable[..., Tensor], size: Sequence[int], weight: Tensor, grad_output: Tensor,
           *options: Any) -> Tensor:
    zeros: Any = weight.new_zeros(tuple(size)).requires_grad_(True)
    with enable_grad():
        result = convolve(zeros, weight.detach(), None, *options)
    gradient: Tensor = engine.grad([result], [zeros], [grad_output])[0]
    return gradient


def _weight(convolve: Callable[..., Tensor], input: Tensor, size: Sequence[int], grad_output: Tensor,
            *options: Any) -> Tensor:
    zeros: Any = input.new_zeros(tuple(size)).requires_grad_(True)
    with enable_grad():
        result = convolve(input.detach(), zeros, None, *options)
    gradient: Tensor = engine.grad([result], [zeros], [grad_output])[0]
    return gradient


def conv1d_input(input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Numbers = 1,
                 padding: Numbers = 0, dilation: Numbers = 1, groups: int = 1) -> Tensor:
    """Return the gradient of ``conv1d`` with respect to its input of the given size."""
    return _input(ops.conv1d, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Numbers = 1,
                  padding: Numbers = 0, dilation: Numbers = 1, groups: int = 1) -> Tensor:
    """Return the gradient of ``conv1d`` with respect to its weight of the given size."""
    return _weight(ops.conv1d, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Numbers = 1,
                 padding: Numbers = 0, dilation: Numbers = 1, groups: int = 1) -> Tensor:
    """Return the gradient of ``conv2d`` with respect to its input of the given size."""
    return _input(ops.conv2d, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Numbers = 1,
                  padding: Numbers = 0, dilation: Numbers = 1, groups: int = 1) -> Tensor:
    """Return the gradient of ``conv2d`` with respect to its weight of the given size."""
    return _weight(ops.conv2d, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Numbers = 1,
                 padding: Numbers = 0, dilation: Numbers = 1, groups: int = 1) -> Tensor:
    """Return the gradient of ``conv3d`` with respect to its input of the given size."""
    return _input(ops.conv3d, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Numbers = 1,
                  padding: Numbers = 0, dilation: Numbers = 1, groups: int = 1) -> Tensor:
    """Return the gradient of ``conv3d`` with respect to its weight of the given size."""
    return _weight(ops.conv3d, input, weight_size, grad_output, stride, padding, dilation, groups)


__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]
