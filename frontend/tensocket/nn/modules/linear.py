"""Layers that multiply by a matrix."""

from __future__ import annotations

import math
from typing import Any

from tensocket.errors import ArgumentError
from tensocket.nn import functional as F
from tensocket.nn import init
from tensocket.nn.parameter import Parameter, UninitializedParameter, is_lazy
from tensocket_operators import Tensor, empty

from .lazy import LazyModuleMixin
from .module import Module


class Identity(Module):
    """A layer that returns its input; it takes any arguments and ignores them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` itself."""
        return input


class Linear(Module):
    """``input @ weight.T + bias``.

    Args:
        in_features: Size of the last dimension of the input.
        out_features: Size of the last dimension of the output.
        bias: Whether a bias is added.
        device: Device of the parameters.
        dtype: Their dtype.

    The weight is (out_features, in_features); both start uniform in ±1/sqrt(in_features).
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        # With a slope of sqrt(5) the bound of kaiming_uniform_ is 1 / sqrt(in_features).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0.0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """Map (..., in_features) to (..., out_features)."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes of the layer."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """A ``Linear`` under the name that attention layers use."""


class Bilinear(Module):
    """``input1 @ weight[k] @ input2 + bias[k]`` for each output k.

    Args:
        in1_features: Size of the last dimension of the first input.
        in2_features: Size of the last dimension of the second input.
        out_features: Size of the last dimension of the output.
        bias: Whether a bias is added.
        device: Device of the parameters.
        dtype: Their dtype.

    The weight is (out_features, in1_features, in2_features); both start uniform in ±1/sqrt(in1_features).

    Raises:
        ArgumentError: ``in1_features`` is not positive.
    """

    bias: Parameter | None

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ArgumentError("Bilinear", f"in1_features={in1_features}", "in1_features must be > 0",
                                "pass the size of the first input")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(empty(out_features, in1_features, in2_features, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        bound = 1 / math.sqrt(self.in1_features)
        for parameter in self.parameters(recurse=False):
            init.uniform_(parameter, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Map (..., in1_features) and (..., in2_features) to (..., out_features)."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes of the layer."""
        return (f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
                f"out_features={self.out_features}, bias={self.bias is not None}")


class LazyLinear(LazyModuleMixin, Linear):
    """A ``Linear`` whose ``in_features`` is the size of the last dimension of its first input.

    Args:
        out_features: Size of the last dimension of the output.
        bias: Whether a bias is added.
        device: Device of the parameters.
        dtype: Their dtype.
    """

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False, device, dtype)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new initial values if the parameters have shapes already."""
        if not is_lazy(self.weight) and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes and initial values."""
        if not self.has_uninitialized_params():
            self.in_features = self.weight.shape[-1]
            return
        self.in_features = input.shape[-1]
        shape = self.out_features, self.in_features
        for parameter, sizes in ((self.weight, shape), (self.bias, shape[:1])):
            if isinstance(parameter, UninitializedParameter):
                parameter.materialize(sizes)
        self.reset_parameters()


__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]
