"""Filling tensors with initial values, in place and outside of the gradient graph."""

# The operators of the core are generated and typed Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, Literal

from tensocket.errors import ArgumentError, ShapeError
from tensocket.linalg import qr
from tensocket_operators import (
    Generator,
    Tensor,
    bool_,
    empty,
    empty_like,
    no_grad,
    ones_like,
    random,
    randperm,
    where,
)
from tensocket_operators import eye as identity

FanMode = Literal["fan_in", "fan_out"]

#: Gain of the standard deviation for nonlinearities without a parameter.
_GAINS: Final[dict[str, float]] = {
    **dict.fromkeys(("linear", "sigmoid", "identity"), 1.0),
    **{f"conv{kind}{n}d": 1.0 for kind in ("", "_transpose") for n in (1, 2, 3)},
    "tanh": 5.0 / 3.0,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4.0,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the recommended gain of a nonlinearity.

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
        mode: Whether the forward (``fan_in``) or the backward pass (``fan_out``) keeps the variance.
        nonlinearity: Its name, as for ``calculate_gain``.
        generator: Source of randomness; the device's default one if not given.

    Raises:
        ShapeError: ``tensor`` has fewer than two dimensions.
        ArgumentError: The mode or nonlinearity is unknown.
    """
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", UserWarning, stacklevel=2)
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
    """Fill with normal values that keep the variance, like ``kaiming_uniform_``."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", UserWarning, stacklevel=2)
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def calculate_fans(tensor: Tensor) -> tuple[int, int]:
    """Return the inputs and outputs of one unit of a layer with this weight (outputs, inputs, *receptive field).

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
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill with normal values within [a, b]; values outside are drawn again."""
    if not a - 2 * std <= mean <= b + 2 * std:
        warnings.warn("mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be "
                      "incorrect.", stacklevel=2)
    if tensor.is_meta:
        return tensor
    nearest = (min(max(mean, a), b) - mean) / std
    low, high = (math.erf((bound - mean) / (std * math.sqrt(2.0))) for bound in (a, b))
    # The ratio of the acceptance rates of uniform and normal proposals: above 1 far from the mean or in a narrow range.
    advantage = std * math.sqrt(2 * math.pi) * math.exp(nearest * nearest / 2) / (b - a)
    with no_grad():
        waiting = ones_like(tensor, dtype=bool_)
        while waiting.any().item():
            values = empty_like(tensor)
            if advantage > 1 or high <= low:
                random.uniform_(values, a, b, generator=generator)
                chance = random.uniform_(empty_like(tensor), 0.0, 1.0, generator=generator)
                accepted = chance <= (nearest * nearest / 2 - ((values - mean) / std).square() / 2).exp()
            else:
                random.normal_(values, mean, std, generator=generator)
                accepted = (values >= a) & (values <= b)
            tensor.copy_(where(waiting & accepted, values, tensor))
            waiting = waiting & ~accepted
    return tensor


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity.

    Raises:
        ShapeError: ``tensor`` is not a matrix.
    """
    _check_dimensions("eye_", tensor, (2,), "Only tensors with 2 dimensions are supported")
    with no_grad():
        return tensor.copy_(identity(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def _check_dimensions(name: str, tensor: Tensor, allowed: tuple[int, ...], rule: str) -> None:
    if tensor.dim() not in allowed:
        raise ShapeError(name, f"a tensor of shape {tuple(tensor.shape)}", rule, "pass a tensor with these dimensions")


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill the weight of a convolution so that it passes on as many channels as possible unchanged.

    Args:
        tensor: Of shape (channels out, channels in, *kernel), with 3 to 5 dimensions.
        groups: Groups of channels, each of which passes on its own.

    Raises:
        ShapeError: It has another number of dimensions, or ``groups`` does not divide the channels.
    """
    _check_dimensions("dirac_", tensor, (3, 4, 5), "Only tensors with 3, 4, or 5 dimensions are supported")
    outputs, inputs, *kernel = tensor.shape
    if outputs % groups:
        raise ShapeError("dirac_", f"{outputs} channels in {groups} groups", "dim 0 must be divisible by groups",
                         "pass a divisor of the channels")
    middle = tuple(size // 2 for size in kernel)
    size = outputs // groups
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(size, inputs)):
                tensor[(group * size + channel, channel, *middle)] = 1
    return tensor


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fill with a (semi-)orthogonal matrix times ``gain``; the dimensions after the first count as one.

    The matrix is Q of the QR decomposition of a normal one, with the signs that make the diagonal of R positive, which
    makes it uniformly distributed.

    Raises:
        ShapeError: ``tensor`` has fewer than two dimensions.
    """
    if tensor.dim() < 2:
        raise ShapeError("orthogonal_", f"a tensor of shape {tuple(tensor.shape)}", "Only tensors with 2 or more "
                         "dimensions are supported", "pass a matrix")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    flat = empty(rows, tensor.numel() // rows, dtype=tensor.dtype, device=tensor.device)
    with no_grad():
        random.normal_(flat, 0.0, 1.0, generator=generator)
        wide = rows < flat.shape[1]
        q, r = qr(flat.t() if wide else flat)
        q = q * r.diagonal().sign()
        return tensor.copy_((q.t() if wide else q).reshape(tensor.shape) * gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fill a matrix with normal values, then set a fraction of each column to zero.

    Args:
        tensor: A matrix.
        sparsity: The fraction.
        std: Standard deviation of the other values.
        generator: Source of randomness; the device's default one if not given.

    Raises:
        ShapeError: ``tensor`` is not a matrix.
    """
    _check_dimensions("sparse_", tensor, (2,), "Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        random.normal_(tensor, 0.0, std, generator=generator)
        for column in range(columns):
            tensor[randperm(rows, device=tensor.device, generator=generator)[:zeros], column] = 0
    return tensor


#: The name that programs for PyTorch use.
_calculate_fan_in_and_fan_out = calculate_fans


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """Return the fan that a mode chooses."""
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ArgumentError("init", f"mode {mode!r}", "mode is 'fan_in' or 'fan_out'", "pass one of the two")
    return calculate_fans(tensor)[mode == "fan_out"]


def _older(current: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function under its older name, without the underscore."""
    name = str(getattr(current, "__name__", ""))

    @wraps(current)
    def older(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(f"nn.init.{name.rstrip('_')} is deprecated; use nn.init.{name}", FutureWarning, stacklevel=2)
        return current(*args, **kwargs)

    return older


uniform, normal, constant, dirac, eye = (_older(f) for f in (uniform_, normal_, constant_, dirac_, eye_))
xavier_uniform, xavier_normal = _older(xavier_uniform_), _older(xavier_normal_)
kaiming_uniform, kaiming_normal = _older(kaiming_uniform_), _older(kaiming_normal_)
orthogonal, sparse = _older(orthogonal_), _older(sparse_)

__all__ = [
    "calculate_fans",
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]
#: The same under the names of the parts of PyTorch's functions.
_no_grad_uniform_, _no_grad_normal_, _no_grad_trunc_normal_ = uniform_, normal_, trunc_normal_
_no_grad_fill_, _no_grad_zero_ = constant_, zeros_
