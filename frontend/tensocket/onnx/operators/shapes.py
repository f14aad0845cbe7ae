"""Shapes: views, joins, splits, padding, creation from shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensocket as torch
from tensocket.errors import ArgumentError
from tensocket.nn import functional as F
from tensocket_operators import Tensor

from .table import operator, results
from .values import DTYPES, NUMBERS, axes_in, axis_in, dtype_of, ints, number, on_host, text, to_value

#: Elements of the largest tensor that a file may ask for by a shape.
LARGEST = 1 << 40


def checked(name: str, shape: list[int]) -> list[int]:
    """Return a shape that a file gives.

    Raises:
        ArgumentError: A tensor of this shape is too large for any memory.
    """
    size = 1
    for n in shape:
        size *= max(n, 0)
    if size > LARGEST or min(shape, default=0) < -1:
        raise ArgumentError(name, f"the shape {shape}", "sizes are not negative, and a tensor has at most 2 ** 40 "
                            "elements", "check the file: it may be damaged")
    return shape


@operator("Reshape", host=(1,))
def reshape(x: Any, shape: Any, allowzero: int = 0) -> Any:
    """Return x with another shape; 0 copies a size of x unless ``allowzero`` is set."""
    wanted = [x.shape[k] if n == 0 and not allowzero else n for k, n in enumerate(ints(shape))]
    return x.reshape(wanted)


@operator("Flatten")
def flatten(x: Any, axis: int = 1) -> Any:
    """Return x as a matrix: dimensions before ``axis``, and the others."""
    axis = axis_in(axis, x.dim())
    return x.reshape(torch.Size(x.shape[:axis]).numel(), torch.Size(x.shape[axis:]).numel())


@operator("Squeeze", host=(1,))
def squeeze(x: Any, axes: Any = None) -> Any:
    """Return x without dimensions of size 1: the given ones, or all."""
    dims = [d for d, n in enumerate(x.shape) if n == 1] if axes is None else axes_in(axes, len(x.shape))
    return x.reshape([n for d, n in enumerate(x.shape) if d not in dims or n != 1])


@operator("Unsqueeze", host=(1,))
def unsqueeze(x: Any, axes: Any) -> Any:
    """Return x with dimensions of size 1 at places of the result."""
    dims = axes_in(axes, len(x.shape) + len(ints(axes)))
    sizes = iter(x.shape)
    return x.reshape([1 if d in dims else next(sizes) for d in range(len(x.shape) + len(dims))])


@operator("Transpose")
def transpose(x: Any, perm: Any = None) -> Any:
    """Return x with dimensions in another order, by default the reverse one."""
    order = perm or list(range(len(x.shape)))[::-1]
    return x.permute(order) if isinstance(x, Tensor) else x.transpose(order)


@operator("Shape")
def shape_of(x: Any, start: int = 0, end: int | None = None) -> Any:
    """Return the sizes of x."""
    return torch.tensor(list(x.shape)[start:end], dtype=torch.int64, device=getattr(x, "device", None))


@operator("Size")
def size_of(x: Any) -> Any:
    """Return the number of elements of x."""
    return torch.tensor(int(np.prod(x.shape, dtype=int)), device=getattr(x, "device", None))


@operator("Concat")
def concat(*values: Any, axis: int = 1) -> Any:
    """Return tensors, joined along an axis."""
    if not isinstance(values[0], Tensor):
        return np.concatenate(values, axis)
    return torch.cat(values, axis)


@operator("Split", counts=True, host=(1,))
def split(x: Any, split: Any = None, axis: int = 0, num_outputs: int | None = None, outputs: int = 1) -> Any:
    """Return parts of x along an axis: of given sizes, or equal ones, of which the last may be smaller."""
    return results(_parts(x, split, axis, num_outputs or outputs), outputs)


def _parts(x: Any, sizes: Any, axis: int, count: int) -> Any:
    given = ints(sizes)
    if given is None:
        length = -(-x.shape[axis] // count)
        given = [max(min(length, x.shape[axis] - k * length), 0) for k in range(count)]
    return torch.split(x, given, axis)


@operator("Expand", host=(1,))
def expand(x: Any, shape: Any) -> Any:
    """Return x, broadcast with a shape."""
    wanted = checked("Expand", ints(shape))
    return x.expand(torch.broadcast_shapes(tuple(x.shape), tuple(wanted)))


@operator("Tile")
def tile_once(x: Any, tiles: Any, axis: Any) -> Any:
    """Return copies of x along one axis, as in version 1."""
    return torch.cat([x] * int(number(tiles)), int(number(axis)))


@operator("Tile", since=6, host=(1,))
def tile(x: Any, repeats: Any) -> Any:
    """Return copies of x along all dimensions."""
    counts = ints(repeats)
    checked("Tile", [n * r for n, r in zip(x.shape, counts, strict=True)])
    return x.repeat(counts)


@operator("Slice", host=(1, 2, 3, 4))
def slice_of(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    """Return elements from starts to ends along axes; steps may be negative."""
    begin, stop = ints(starts), ints(ends)
    dims = list(range(len(begin))) if axes is None else axes_in(axes, len(x.shape))
    for dim, first, last, step in zip(dims, begin, stop, ints(steps) or [1] * len(begin), strict=True):
        x = _sliced(x, dim, slice(first, last, step))
    return x


def _sliced(x: Any, dim: int, part: slice) -> Any:
    places = range(*part.indices(x.shape[dim]))
    if not isinstance(x, Tensor):
        return np.take(x, list(places), dim)
    if not places:
        return x.narrow(dim, 0, 0)
    if places.step > 0:
        return x[(slice(None),) * dim + (slice(places.start, places.stop, places.step),)]
    low = places[-1]
    return x[(slice(None),) * dim + (slice(low, places.start + 1, -places.step),)].flip(dim)


@operator("Pad", host=(1, 3))
def pad(x: Any, pads: Any = None, constant_value: Any = None, axes: Any = None, mode: str = "constant",
        value: float | None = None, paddings: Any = None) -> Any:
    """Return x with elements added, or removed, before and after each dimension."""
    given = ints(paddings if pads is None else pads)
    dims = axes_in(axes, x.dim())
    before, after = [0] * x.dim(), [0] * x.dim()
    for k, dim in enumerate(dims):
        before[dim], after[dim] = given[k], given[k + len(dims)]
    fill = number(constant_value, value) or 0
    mode = text(mode)
    if mode == "constant":
        widths = [w for pair in reversed(list(zip(before, after, strict=True))) for w in pair]
        if x.dtype is torch.bool:
            return F.pad(x.to(torch.uint8), widths, value=int(fill)).to(torch.bool)
        return F.pad(x, widths, value=fill)
    for dim in range(x.dim()):
        x = _bordered(x, dim, before[dim], after[dim], mode)
    return x


def _bordered(x: Any, dim: int, before: int, after: int, mode: str) -> Any:
    """Return x with a border along one dimension that repeats elements of x."""
    size = x.shape[dim]
    if not before and not after:
        return x
    places = torch.arange(-before, size + after, device=x.device)
    if mode == "wrap":
        places = places % size
    elif mode == "reflect" and size > 1:
        places = places % (2 * size - 2)
        places = torch.where(places < size, places, 2 * size - 2 - places)
    else:
        places = places.clamp(0, size - 1)
    return x.index_select(dim, places)


@operator("CenterCropPad", host=(1,))
def center_crop_pad(x: Any, shape: Any, axes: Any = None) -> Any:
    """Return the centre of x, or x in the centre of zeros."""
    dims = axes_in(axes, x.dim())
    for dim, wanted in zip(dims, checked("CenterCropPad", ints(shape)), strict=True):
        size = x.shape[dim]
        if wanted < size:
            x = x.narrow(dim, (size - wanted) // 2, wanted)
        elif wanted > size:
            first = (wanted - size) // 2
            widths = [0, 0] * (x.dim() - dim - 1) + [first, wanted - size - first]
            x = F.pad(x, widths)
    return x


@operator("DepthToSpace")
def depth_to_space(x: Any, blocksize: int, mode: str = "DCR") -> Any:
    """Return blocks of channels as blocks of rows and columns."""
    n, c, h, w = x.shape
    size, inner = blocksize, c // blocksize ** 2
    if text(mode) == "DCR":
        y = x.reshape(n, size, size, inner, h, w).permute(0, 3, 4, 1, 5, 2)
    else:
        y = x.reshape(n, inner, size, size, h, w).permute(0, 1, 4, 2, 5, 3)
    return y.reshape(n, inner, h * size, w * size)


@operator("SpaceToDepth")
def space_to_depth(x: Any, blocksize: int, mode: str = "DCR") -> Any:
    """Return blocks of rows and columns as channels."""
    n, c, h, w = x.shape
    size = blocksize
    order = (0, 3, 5, 1, 2, 4) if text(mode) == "DCR" else (0, 1, 3, 5, 2, 4)
    y = x.reshape(n, c, h // size, size, w // size, size).permute(order)
    return y.reshape(n, c * size * size, h // size, w // size)


@operator("ReverseSequence")
def reverse_sequence(x: Any, sequence_lens: Any, batch_axis: int = 1, time_axis: int = 0) -> Any:
    """Return sequences with their first elements in reverse order, of each as many as its length."""
    steps = torch.arange(x.shape[time_axis], device=x.device).reshape(-1, 1)
    lengths = sequence_lens.to(torch.int64).reshape(1, -1)
    places = torch.where(steps < lengths, lengths - 1 - steps, steps)
    if batch_axis < time_axis:
        places = places.t()
    places = places.reshape(*places.shape, *[1] * (x.dim() - 2)).expand(x.shape)
    return torch.gather(x, time_axis, places)


@operator("ConstantOfShape")
def constant_of_shape(shape: Any, value: Any = None) -> Any:
    """Return a tensor of one value, by default 0 of float32."""
    wanted = checked("ConstantOfShape", ints(shape))
    device = getattr(shape, "device", None)
    if value is None:
        return torch.zeros(wanted, device=device)
    if not isinstance(value, Tensor):
        return to_value(np.full(wanted, value.reshape(())))
    return value.reshape([1] * len(wanted)).expand(wanted).clone()


@operator("Range")
def arange(start: Any, limit: Any, delta: Any) -> Any:
    """Return numbers from start to limit, without it."""
    first, last, step = number(start), number(limit), number(delta)
    if step == 0:
        raise ArgumentError("Range", "a step of 0", "the step is not 0", "check the file: it may be damaged")
    checked("Range", [max(int(np.ceil((last - first) / step)), 0)])
    return on_host(lambda a, b, d: np.arange(a.reshape(()), b.reshape(()), d.reshape(()), dtype=a.dtype), start, limit,
                   delta)


@operator("EyeLike")
def eye_like(x: Any, dtype: int | None = None, k: int = 0) -> Any:
    """Return a matrix like x with 1 on a diagonal."""
    kind = x.dtype if dtype is None else dtype_of("EyeLike", dtype)
    rows = torch.arange(x.shape[0], device=x.device).reshape(-1, 1)
    return (torch.arange(x.shape[1], device=x.device) - rows == k).to(kind)


@operator("BitCast")
def bit_cast(x: Any, to: int) -> Any:
    """Return the bits of x as another dtype of the same size."""
    if to not in DTYPES or not isinstance(x, Tensor):
        import onnx

        return on_host(lambda a: a.view(onnx.helper.tensor_dtype_to_np_dtype(to)), x)
    return x.view(DTYPES[to])


def number_of(dtype: Any) -> int:
    """Return the number of a tensor's dtype in ONNX."""
    return NUMBERS[dtype]
