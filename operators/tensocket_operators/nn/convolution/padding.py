"""Borders around images, and rearrangements of channels and pixels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.keys import dtype_bit
from tensocket_core.launch.numbers import check_range
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentError, ShapeError

from ...kinds.composite import composite
from ...kinds.view import Custom
from ...shapes.copies import separate
from ...shapes.views import sizes
from . import pad_kernel_cpu
from .windows import constant_pad, laid_like


@composite("constant_pad_nd(Tensor input, any pad, Scalar value=0) -> Tensor", replayable=True, method=False)
def constant_pad_nd(input: Any, pad: Any, value: Any = 0) -> Any:
    """Return a copy padded by ``pad[0]`` and ``pad[1]`` elements in the last dimension, then in the one before it ...

    Raises:
        ArgumentError: The dtype cannot hold the value.
        ShapeError: ``pad`` has an odd length, is for more dimensions, or crops more elements than a dimension has.
    """
    sides = sizes((tuple(pad),))
    if len(sides) % 2 or len(sides) > 2 * input.ndim:
        raise ShapeError("pad", f"pad {list(sides)} for {input.ndim} dimensions",
                         "there are two numbers for each padded dimension", "pass an even number of them")
    check_range("pad", value, input.dtype)
    pairs = [(sides[k], sides[k + 1]) for k in range(0, len(sides), 2)]
    if any(input.shape[-1 - k] + low + high < 0 for k, (low, high) in enumerate(pairs)):
        raise ShapeError("pad", f"pad {list(sides)} for shape {list(input.shape)}",
                         "no more is cut off than there is", "pass larger numbers")
    return call(constant_pad, input, sides, int(value) if input.dtype.kind in ("int", "uint") else value)


_PLACES: Final[dict[str, Callable[[Any, int], Any]]] = {
    "reflect": lambda at, n: n - 1 - np.abs(n - 1 - np.abs(at)),
    "replicate": lambda at, n: at.clip(0, n - 1),
    "circular": lambda at, n: at % n,
}


def _bordered(input: Any, axis: int, low: int, high: int, mode: str) -> Any:
    """Return a tensor with one dimension extended by a border of its own elements."""
    if mode == "circular" and min(low, high) < 0:  # the cropped line wraps around
        input = input.narrow(axis, max(-low, 0), input.shape[axis] - max(-low, 0) - max(-high, 0))
        low, high = max(low, 0), max(high, 0)
    n = input.shape[axis]
    first, last = max(low, 0), max(high, 0)
    places = _PLACES[mode](np.arange(-low, n + high), n).tolist()
    start = max(-low, 0)
    parts = [input.narrow(axis, start, n - start - max(-high, 0))]
    if first:
        parts.insert(0, input.index_select(axis, input.new_tensor(places[:first], dtype=dtypes.int64)))
    if last:
        parts.append(input.index_select(axis, input.new_tensor(places[-last:], dtype=dtypes.int64)))
    return functions.cat(parts, axis) if len(parts) > 1 else parts[0]


@composite("pad(Tensor input, any pad, str mode='constant', Scalar? value=None) -> Tensor", replayable=True,
           method=False,
           namespace="nn.functional", hands_by_name=True)
def pad(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    """Return a tensor with a border.

    Args:
        input: Any tensor; modes other than ``constant`` allow at most two dimensions before the padded ones.
        pad: Two numbers for each padded dimension, from the last one on; negative numbers crop.
        mode: ``constant``, ``reflect`` (without the edge), ``replicate`` (the edge) or ``circular``.
        value: Fill value of ``constant``; 0 if None.

    Raises:
        ArgumentError: The mode is unknown, or does not take a value.
        ShapeError: The border is too wide for the mode.
    """
    sides = sizes((tuple(pad),))
    if mode == "constant":
        return functions.constant_pad_nd(input, sides, 0 if value is None else value)
    if mode not in _PLACES:
        raise ArgumentError("pad", f"mode={mode!r}", "the mode is 'constant', 'reflect', 'replicate' or 'circular'",
                            "pass one of these")
    if value is not None and value != 0:
        raise ArgumentError("pad", f"value={value} with mode={mode!r}", "only constant borders have a value",
                            "leave it out")
    dims = len(sides) // 2
    if len(sides) % 2 or not 1 <= dims <= 3 or input.ndim not in (dims + 1, dims + 2):
        raise ShapeError("pad", f"pad {list(sides)} for a tensor of {input.ndim} dimensions",
                         f"{mode} pads the last 1, 2 or 3 dimensions, of all but the first one or two",
                         "add or remove dimensions")
    if mode != "circular" and 0 in tuple(input.shape)[input.ndim - dims - 1:]:
        raise ShapeError("pad", f"input {list(input.shape)}, mode={mode!r}",
                         f"a {dims + 1}D or {dims + 2}D (batch mode) tensor has no size of 0 but that of its batch",
                         "leave out empty tensors")
    for k in range(dims):
        low, high = sides[2 * k], sides[2 * k + 1]
        n, limit = input.shape[-1 - k], input.shape[-1 - k] - (mode == "reflect")
        if n + low + high < 1 or (mode != "replicate" and max(low, high) > limit) or n == 0:
            raise ShapeError("pad", f"pad {list(sides)} for shape {list(input.shape)}",
                             f"{mode} has an element for every place of the border", "use a smaller border")
    if mode == "circular" or (mode == "reflect" and dims == 3):
        return _with_border(input, sides, mode)
    return call(COMPOSITES["border_of_elements"], input, sides, mode)


def _pad_border(input: Any, sides: tuple[int, ...], mode: str) -> Any:
    result = input
    for k in range(len(sides) // 2):
        result = _bordered(result, input.ndim - 1 - k, sides[2 * k], sides[2 * k + 1], mode)
    return laid_like(result if result is not input else input.clone(), input._array)


def _border(state: Any, input: Any, pad: tuple[int, ...], mode: str) -> Any:
    source, dtype, lead = input._array, input.dtype, input.ndim - len(pad) // 2
    shape = (*source.shape[:lead], *(n + low + high for n, low, high in zip(
        source.shape[lead:], pad[-2::-2], pad[::-2], strict=True)))
    out = state.runtime.empty(shape, dtype, state.stream)
    if 0 not in shape and not pad_kernel_cpu.border_array(state, out, source, pad, mode, None, dtype):
        return _pad_border(input.detach(), pad, mode)
    return wrap(out, state.key | dtype_bit(dtype))


def _border_gradient(grad: Any, pad: tuple[int, ...], mode: str) -> Any:
    """Return the gradient of the padded input: each border element's gradient is added to its source element."""
    for k in range(len(pad) // 2):
        axis, low, high = grad.ndim - 1 - k, pad[2 * k], pad[2 * k + 1]
        n = grad.shape[axis] - low - high
        before, skipped, kept = max(low, 0), max(-low, 0), n + min(low, 0) + min(high, 0)
        total = grad.narrow(axis, before, kept)
        if kept < n:
            total = functions.constant_pad_nd(total, (*(0, 0) * k, skipped, n - kept - skipped), 0)
        for first, extent, behind in ((0, low, False), (before + kept, high, True)):
            if extent > 0:
                start, moved = _border_end_gradient(grad.narrow(axis, first, extent), axis, n, mode, behind)
                total = total + functions.constant_pad_nd(
                    moved, (*(0, 0) * k, start, n - start - moved.shape[axis]), 0)
        grad = total
    return grad


def _border_end_gradient(part: Any, axis: int, n: int, mode: str, behind: bool) -> tuple[int, Any]:
    """Return the gradient of one end of a border, and its first target position in the line of ``n`` elements."""
    extent = part.shape[axis]
    if mode == "reflect":
        return (n - 1 - extent if behind else 1), part.flip(axis)
    if mode == "replicate":
        return (n - 1 if behind else 0), part.sum(axis, True)
    return (0 if behind else n - extent), part


border: Final[Custom] = Custom(
    "border(Tensor input, any pad, str mode) -> Tensor",
    "The tensor with a border of its own elements; ``pad`` is as in ``constant_pad_nd``. Circular borders don't crop.",
    _border,
    method=False,
    function=False,
    replayable=True,
    derivative=Derivative(input=_border_gradient),
)


def _with_border(input: Any, pad: tuple[int, ...], mode: str) -> Any:
    if min(pad) >= 0 or (mode != "circular" and all(
            n + min(low, 0) + min(high, 0) >= 0 for n, low, high in zip(
                tuple(input.shape)[::-1], pad[::2], pad[1::2], strict=False))):
        return call(border, input, pad, mode)
    return _pad_border(input, pad, mode)


@composite("border_of_elements(Tensor input, any pad, str mode) -> Tensor", method=False, function=False)
def border_of_elements(input: Any, pad: tuple[int, ...], mode: str) -> Any:
    """Run the modes of ``pad`` for which autocast has a rule; the arguments are checked."""
    return _with_border(input, pad, mode)


# -------------------------------------------------------------------------------------------------- rearrangements


def _image(operator: str, input: Any, factor: int) -> tuple[tuple[int, ...], int, int, int]:
    """Return leading sizes, channels, height and width.

    Raises:
        ShapeError: The tensor is not an image.
        ArgumentError: The factor is not positive.
    """
    if input.ndim < 3:
        raise ShapeError(operator, f"a tensor of {input.ndim} dimensions", "an image has at least 3", "add dimensions")
    if factor < 1:
        raise ArgumentError(operator, f"factor {factor}", "a factor is positive", "pass 1 or more")
    *lead, channels, height, width = input.shape
    return tuple(lead), channels, height, width


@composite("pixel_shuffle(Tensor input, int upscale_factor) -> Tensor", replayable=True, method=False,
           derivative=Derivative(input=lambda grad, upscale_factor: functions.pixel_unshuffle(grad, upscale_factor)))
def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """Return [.., C * r * r, H, W] as [.., C, H * r, W * r]: groups of r * r channels become squares of pixels."""
    lead, channels, height, width = _image("pixel_shuffle", input, upscale_factor)
    r = upscale_factor
    if channels % (r * r):
        raise ShapeError("pixel_shuffle", f"{channels} channels, upscale_factor={r}",
                         "the channels are a multiple of the squared factor", "choose another factor")
    n = len(lead)
    split = input.reshape((*lead, channels // (r * r), r, r, height, width))
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    shape = (*lead, channels // (r * r), height * r, width * r)
    return separate(laid_like(split.permute(order).reshape(shape), input._array), input)


@composite("pixel_unshuffle(Tensor input, int downscale_factor) -> Tensor", replayable=True, method=False,
           derivative=Derivative(input=lambda grad, downscale_factor: functions.pixel_shuffle(grad, downscale_factor)))
def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """Return [.., C, H * r, W * r] as [.., C * r * r, H, W]: the inverse of ``pixel_shuffle``."""
    lead, channels, height, width = _image("pixel_unshuffle", input, downscale_factor)
    r = downscale_factor
    if height % r or width % r:
        raise ShapeError("pixel_unshuffle", f"an image of {height} x {width}, downscale_factor={r}",
                         "height and width are multiples of the factor", "choose another factor")
    n = len(lead)
    split = input.reshape((*lead, channels, height // r, r, width // r, r))
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    shape = (*lead, channels * r * r, height // r, width // r)
    return separate(laid_like(split.permute(order).reshape(shape), input._array), input)


@composite("channel_shuffle(Tensor input, int groups) -> Tensor", replayable=True, method=False,
           aliases=("native_channel_shuffle",), derivative=Derivative(
               input=lambda grad, groups: functions.channel_shuffle(grad, grad.shape[1] // groups)))
def channel_shuffle(input: Any, groups: int) -> Any:
    """Interleave the channels of [B, C, ..]: the first of every group, then the second of every group ...

    Raises:
        ShapeError: The tensor has fewer than 3 dimensions, or ``groups`` does not divide its channels.
    """
    if input.ndim < 3 or groups < 1 or input.shape[1] % groups:
        raise ShapeError("channel_shuffle", f"input {list(input.shape)}, groups={groups}",
                         "groups divide the channels of a tensor of at least 3 dimensions", "choose another number")
    batch, channels, *rest = input.shape
    split = input.reshape((batch, groups, channels // groups, *rest))
    return separate(laid_like(split.transpose(1, 2).reshape(tuple(input.shape)), input._array), input)
