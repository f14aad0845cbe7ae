"""More nonlinearities: rectifiers with slopes, shrinkage, gates."""

from __future__ import annotations

import warnings
from typing import Any

from tensocket.errors import ArgumentError, ShapeError
from tensocket.nn import functional as F
from tensocket.nn import init
from tensocket.nn.parameter import Parameter
from tensocket_operators import Tensor, empty

from ..module import Module


def inplace_of(module: Any) -> str:
    """Return the part of a module's repr that says whether it works in place."""
    return ", inplace=True" if module.inplace else ""


class LeakyReLU(Module):
    """``max(0, input) + negative_slope * min(0, input)``."""

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"negative_slope={self.negative_slope}{inplace_of(self)}"


class Hardtanh(Module):
    """``input`` limited to [min_val, max_val].

    Args:
        min_val: The lower bound.
        max_val: The upper bound, above ``min_val``.
        inplace: Whether the input is overwritten.
        min_value: The older name of ``min_val``.
        max_value: The older name of ``max_val``.

    Raises:
        ArgumentError: The bounds are not in order.
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False,
                 min_value: float | None = None, max_value: float | None = None) -> None:
        super().__init__()
        for name, given in (("min", min_value), ("max", max_value)):
            if given is not None:
                warnings.warn(f"{name}_value is deprecated; pass {name}_val", FutureWarning, stacklevel=2)
        min_val = min_val if min_value is None else min_value
        max_val = max_val if max_value is None else max_value
        if not max_val > min_val:
            raise ArgumentError("Hardtanh", f"bounds {min_val} and {max_val}", "max_val is above min_val",
                                "exchange the bounds")
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"min_val={self.min_val}, max_val={self.max_val}{inplace_of(self)}"


class ReLU6(Hardtanh):
    """``min(max(0, input), 6)``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """Whether it works in place."""
        return "inplace=True" if self.inplace else ""


class RReLU(Module):
    """A leaky rectifier with a random slope while training, and the mean slope in evaluation."""

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"lower={self.lower}, upper={self.upper}{inplace_of(self)}"


class ELU(Module):
    """``input`` where positive, ``alpha * (exp(input) - 1)`` elsewhere."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"alpha={self.alpha}{inplace_of(self)}"


class CELU(Module):
    """``max(0, input) + min(0, alpha * (exp(input / alpha) - 1))``."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"alpha={self.alpha}{inplace_of(self)}"


class SELU(Module):
    """The scaled ``ELU`` that keeps zero mean and unit variance."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.selu(input, self.inplace)

    def extra_repr(self) -> str:
        """Whether it works in place."""
        return "inplace=True" if self.inplace else ""


class GLU(Module):
    """The first half along ``dim`` times the sigmoid of the second half."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape, halved along ``dim``."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"dim={self.dim}"


class Hardshrink(Module):
    """``input`` where its magnitude is above ``lambd``, zero elsewhere."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return str(self.lambd)


class Softshrink(Module):
    """``input`` moved towards zero by ``lambd``; zero within ``lambd`` of zero."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return str(self.lambd)


class Tanhshrink(Module):
    """``input - tanh(input)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.tanhshrink(input)


class Hardsigmoid(Module):
    """``min(max(0, input + 3), 6) / 6``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        """Whether it works in place."""
        return "inplace=True" if self.inplace else ""


class Hardswish(Module):
    """``input`` times its ``Hardsigmoid``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        """Whether it works in place."""
        return "inplace=True" if self.inplace else ""


class Threshold(Module):
    """``input`` where it is above ``threshold``, ``value`` elsewhere."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"threshold={self.threshold}, value={self.value}{inplace_of(self)}"


class Mish(Module):
    """``input * tanh(log(1 + exp(input)))``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.mish(input, self.inplace)

    def extra_repr(self) -> str:
        """Whether it works in place."""
        return "inplace=True" if self.inplace else ""


class Softplus(Module):
    """``log(1 + exp(beta * input)) / beta``; ``input`` itself where that is above ``threshold``."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"beta={self.beta}, threshold={self.threshold}"


class LogSigmoid(Module):
    """``log(1 / (1 + exp(-input)))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.logsigmoid(input)


class Softsign(Module):
    """``input / (1 + |input|)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.softsign(input)


class Softmin(Module):
    """The ``Softmax`` of ``-input``."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.softmin(input, self.dim)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"dim={self.dim}"


class PReLU(Module):
    """A leaky rectifier whose slope is learned.

    Args:
        num_parameters: 1 for one slope, or the number of channels, which are dimension 1.
        init: Initial value of the slopes.
        device: Device of the parameters.
        dtype: Their dtype.
    """

    weight: Parameter

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset all slopes to their initial value."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Return the number of slopes."""
        return f"num_parameters={self.num_parameters}"


class Softmax2d(Module):
    """``Softmax`` over the channels of images, (N, C, H, W) or (C, H, W).

    Raises:
        ShapeError: The input has neither shape.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        if input.dim() not in (3, 4):
            raise ShapeError("Softmax2d", f"input of shape {tuple(input.shape)}", "expected input to be 3D or 4D",
                             "pass (N, C, H, W) or (C, H, W)")
        return F.softmax(input, -3)
