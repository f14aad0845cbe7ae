"""Filling tensors with initial values, in place and outside of the gradient graph."""

# The operators of the core are generated and typed Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import math
from typing import Final, Literal

from tensocket.errors import ArgumentError, ShapeError
from tensocket_core import Generator, Tensor, no_grad, random

FanMode = Literal["fan_in", "fan_out"]

#: Standard deviation gained by a nonlinearity, for those that take no parameter.
_GAINS: Final[dict[str, float]] = {
    **dict.fromkeys(("linear", "sigmoid", "identity"), 1.0),
    **{f"conv{kind}{n}d": 1.0 for kind in ("", "_transpose") for n in (1, 2, 3)},
    "tanh": 5.0 / 3.0,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4.0,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The recommended gain of a nonlinearity.

    Args:
        nonlinearity: Its name in ``nn.functional``.
        param: The negative slope of ``leaky_relu``; 0.01 if not given.

    Raises:
        ArgumentError: The nonlinearity is unknown.
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ArgumentError("calculate_gain", f"negative slope {slope!r}", "the slope is a number", "pass a float")
        return math.sqrt(2.0 / (1 + slope**2))
    gain = _GAINS.get(nonlinearity)
    if gain is None:
        raise ArgumentError("calculate_gain", f"nonlinearity {nonlinearity!r}", "a gain is known for "
                            f"{', '.join(sorted([*_GAINS, 'leaky_relu']))}", "pass one of these names")
    return gain


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with values from the uniform distribution on [a, b)."""
    with no_grad():
        return random.uniform_(tensor, a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with values from the normal distribution."""
    with no_grad():
        return random.normal_(tensor, mean, std, generator=generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with ``val``."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return constant_(tensor, 0.0)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with uniform values whose variance is ``gain² · 2 / (fan_in + fan_out)``.

    Raises:
        ShapeError: ``tensor`` has fewer than two dimensions.
    """
    fan_in, fan_out = calculate_fans(tensor)
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / (fan_in + fan_out))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with normal values whose variance is ``gain² · 2 / (fan_in + fan_out)``.

    Raises:
        ShapeError: ``tensor`` has fewer than two dimensions.
    """
    fan_in, fan_out = calculate_fans(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / (fan_in + fan_out)), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: FanMode = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill with uniform values that keep the variance through layers of the given nonlinearity.

    Args:
        tensor: At least two-dimensional, (fan_out, fan_in, ...).
        a: Negative slope of the rectifier (for ``leaky_relu``).
        mode: Whether the variance is kept in the forward (``fan_in``) or the backward pass (``fan_out``).
        nonlinearity: Its name, as for ``calculate_gain``.
        generator: Source of randomness; the device's default one if not given.

    Raises:
        ShapeError: ``tensor`` has fewer than two dimensions.
        ArgumentError: The mode or nonlinearity is unknown.
    """
    if 0 in tensor.shape:
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0.0,
    mode: FanMode = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """The normal counterpart of ``kaiming_uniform_``."""
    if 0 in tensor.shape:
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def calculate_fans(tensor: Tensor) -> tuple[int, int]:
    """Inputs and outputs of one unit of a layer with this weight of shape (outputs, inputs, *receptive field).

    Raises:
        ShapeError: ``tensor`` has fewer than two dimensions.
    """
    shape = tuple(tensor.shape)
    if len(shape) < 2:
        raise ShapeError("init", f"a tensor of shape {shape}", "fan in and fan out need at least two dimensions",
                         "use uniform_ or normal_ for vectors and scalars")
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ArgumentError("init", f"mode {mode!r}", "mode is 'fan_in' or 'fan_out'", "pass one of the two")
    fan = calculate_fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


__all__ = [
    "calculate_fans",
    "calculate_gain",
    "constant_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]
