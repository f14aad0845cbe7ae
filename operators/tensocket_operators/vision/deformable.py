"""``deform_conv2d``: convolution whose kernel reads at displaced positions, and its gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensocket_plugins.contract.dtypes import int64
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError

from .. import functions
from .regions import computed
from .taps import PART, Taps, add_transposed, steps, weighted_sums


@dataclass(frozen=True)
class Convolution:
    """The sizes of one call.

    Attributes:
        input: The input's shape.
        weight: The weight's shape.
        stride: Vertical and horizontal steps of the kernel.
        padding: Zeros around the input.
        dilation: Distances of the kernel's elements.
        groups: Groups of channels of the convolution.
        offset_groups: Groups of channels with the same displacements.
    """

    input: tuple[int, int, int, int]
    weight: tuple[int, int, int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    offset_groups: int

    @property
    def kernel(self) -> int:
        """Elements of the kernel."""
        return self.weight[2] * self.weight[3]

    @property
    def output(self) -> tuple[int, int]:
        """Height and width of the result."""
        high, wide = (
            (self.input[axis + 2] + 2 * self.padding[axis] - (self.dilation[axis] * (self.weight[axis + 2] - 1) + 1))
            // self.stride[axis] + 1 for axis in (0, 1))
        return high, wide

    @property
    def images(self) -> int:
        """Images that are computed at once."""
        return max(PART // max(self.input[1] * self.kernel * self.output[0] * self.output[1] * 4, 1), 1)

    def table(self, input: Any) -> Any:
        """Return the input as rows of the channels of an offset group: for each image, group, row and column."""
        images, channels, height, width = input.shape
        share = channels // self.offset_groups
        return input.reshape(images, self.offset_groups, share, height * width).permute(0, 1, 3, 2).reshape(
            -1, share).contiguous()

    def image(self, table: Any) -> Any:
        """Return what ``table`` made: rows of channels as images."""
        _, channels, height, width = self.input
        return table.reshape(-1, self.offset_groups, height * width, table.shape[1]).permute(0, 1, 3, 2).reshape(
            -1, channels, height, width)

    def neighbours(self, offset: Any) -> Neighbours:
        """Return what is read for displacements [images, 2 * groups * kernel, rows, columns]."""
        images, (rows, columns) = offset.shape[0], self.output
        moved = offset.reshape(images, self.offset_groups, self.kernel, 2, rows, columns)
        axes = []
        for axis in (0, 1):
            at = steps(self.output[axis], offset, offset.dtype) * self.stride[axis] - self.padding[axis]
            element = steps(self.weight[axis + 2], offset, offset.dtype) * self.dilation[axis]
            at = at.reshape((-1, 1) if axis == 0 else (1, -1))
            element = element.repeat_interleave(self.weight[3]) if axis == 0 else element.repeat(self.weight[2])
            axes.append(_axis(at + element[:, None, None] + moved[:, :, :, axis], self.input[axis + 2]))
        base = steps(images * self.offset_groups, offset, int64) * (self.input[2] * self.input[3])
        base = base.reshape(images, self.offset_groups, 1, 1, 1, 1, 1)
        index = axes[0].index[..., :, None] * self.input[3] + axes[1].index[..., None, :] + base
        return Neighbours(index.flatten(-2), axes[0].weight, axes[1].weight, axes[0].slope, axes[1].slope)


@dataclass(frozen=True)
class Axis:
    """The two neighbours of positions along an axis: index, weight, and the weight's derivative; [..., 2]."""

    index: Any
    weight: Any
    slope: Any


@dataclass(frozen=True)
class Neighbours:
    """The four elements around each position.

    Attributes:
        index: Their rows in the table, [images, groups, kernel, rows, columns, 4].
        high: Weights along the vertical axis, [..., 2].
        wide: Weights along the horizontal axis.
        high_slope: Derivatives of ``high`` by the position.
        wide_slope: Derivatives of ``wide``.
    """

    index: Any
    high: Any
    wide: Any
    high_slope: Any
    wide_slope: Any

    def taps(self, mask: Any) -> Taps:
        """Return the taps of interpolated elements, times a factor [images, groups, kernel, rows, columns]."""
        weight = _outer(self.high, self.wide)
        return Taps(self.index, weight if mask is None else weight * mask.unsqueeze(-1))


def _outer(high: Any, wide: Any) -> Any:
    return (high[..., :, None] * wide[..., None, :]).flatten(-2)


def _axis(position: Any, size: int) -> Axis:
    """Return the neighbours of positions; those outside of the axis are zeros."""
    known = (position > -1) & (position < size)
    position = functions.where(known, position, 0)
    low = position.floor()
    share = position - low
    index = low.to(int64)
    index = functions.stack([index, index + 1], -1)
    inside = (index >= 0) & (index < size) & known.unsqueeze(-1)
    weight = functions.stack([1 - share, share], -1) * inside
    return Axis(index.clamp(0, size - 1), weight, inside * (steps(2, share, share.dtype) * 2 - 1))


# ------------------------------------------------------------------------------------------------------- operators


def deform_conv2d(input: Any, weight: Any, offset: Any, mask: Any, bias: Any, stride_h: int, stride_w: int, pad_h: int,
                  pad_w: int, dilation_h: int, dilation_w: int, groups: int, offset_groups: int,
                  use_mask: bool) -> Any:
    """Return the convolution of ``input``, read at displaced positions with linear interpolation and zeros outside.

    Args:
        input: [images, channels, height, width].
        weight: [channels of the result, channels / groups, kernel height, kernel width].
        offset: Displacements y and x of each element of the kernel, [images, 2 * offset_groups * kernel, rows,
            columns].
        mask: Factors, [images, offset_groups * kernel, rows, columns]; ignored without ``use_mask``.
        bias: [channels of the result].
        stride_h: Vertical step.
        stride_w: Horizontal step.
        pad_h: Zeros above and below.
        pad_w: Zeros on the left and the right.
        dilation_h: Vertical distance of the kernel's elements.
        dilation_w: Horizontal distance.
        groups: Groups of channels of the convolution.
        offset_groups: Groups of channels with the same displacements.
        use_mask: Whether ``mask`` counts.

    Raises:
        ShapeError: The shapes do not fit each other.
        DtypeError: The tensors have different dtypes, or are not floats.
        ArgumentError: A number is not positive, or a padding is negative.
    """
    sizes = _sizes("deform_conv2d", input, weight, offset, mask, bias, (stride_h, stride_w), (pad_h, pad_w),
                   (dilation_h, dilation_w), groups, offset_groups, use_mask)
    out, dtype = weight.shape[0], input.dtype
    shape = (input.shape[0], out, *sizes.output)
    if not (input.numel() and weight.numel()):
        return input.new_zeros(shape) + bias.reshape(-1, 1, 1)
    input, weight, offset, mask, bias = (computed(x) for x in (input, weight, offset, mask, bias))
    kernels = weight.reshape(groups, out // groups, -1)
    results = []
    for begin in range(0, input.shape[0], sizes.images):
        part = slice(begin, begin + sizes.images)
        columns = _columns(sizes, input[part], offset[part], _factors(sizes, mask[part], use_mask))
        results.append((kernels @ columns).reshape(-1, *shape[1:]))
    return (functions.cat(results) + bias.reshape(-1, 1, 1)).to(dtype)


def _factors(sizes: Convolution, mask: Any, used: bool) -> Any:
    return mask.reshape(mask.shape[0], sizes.offset_groups, sizes.kernel, *sizes.output) if used else None


def _columns(sizes: Convolution, input: Any, offset: Any, mask: Any) -> Any:
    """Return the elements under the kernel: [images, groups, channels * kernel, rows * columns]."""
    sums = weighted_sums(sizes.table(input), sizes.neighbours(offset).taps(mask))
    return sums.permute(0, 1, 5, 2, 3, 4).reshape(input.shape[0], sizes.groups, -1, sizes.output[0] * sizes.output[1])


def deform_conv2d_backward(grad: Any, input: Any, weight: Any, offset: Any, mask: Any, bias: Any, stride_h: int,
                           stride_w: int, pad_h: int, pad_w: int, dilation_h: int, dilation_w: int, groups: int,
                           offset_groups: int, use_mask: bool) -> Any:
    """Return the gradients of ``deform_conv2d`` with respect to input, weight, offset, mask and bias."""
    sizes = _sizes("_deform_conv2d_backward", input, weight, offset, mask, bias, (stride_h, stride_w), (pad_h, pad_w),
                   (dilation_h, dilation_w), groups, offset_groups, use_mask)
    given = (input, weight, offset, mask, bias)
    grad, *wide = (computed(x) for x in (grad, *given))
    if not (grad.numel() and input.numel() and weight.numel()):
        *zeros, _ = (x.new_zeros(x.shape) for x in given)
        return (*zeros, grad.sum((0, 2, 3)).to(bias.dtype))
    results, total = [], wide[1].new_zeros((groups, weight.shape[0] // groups, weight.numel() // weight.shape[0]))
    for begin in range(0, input.shape[0], sizes.images):
        part = slice(begin, begin + sizes.images)
        factors = _factors(sizes, wide[3][part], use_mask)
        apart, share = _part_gradients(sizes, grad[part], wide[0][part], wide[1], wide[2][part], factors)
        results.append(apart)
        total = total + share
    inputs, offsets, masks = ([apart[k] for apart in results] for k in range(3))
    masked = functions.cat(masks).reshape(mask.shape) if use_mask else wide[3].new_zeros(mask.shape)
    made = (functions.cat(inputs), total.reshape(weight.shape), functions.cat(offsets), masked, grad.sum((0, 2, 3)))
    return tuple(x.to(like.dtype).contiguous() for x, like in zip(made, given, strict=True))


def _part_gradients(sizes: Convolution, grad: Any, input: Any, weight: Any, offset: Any,
                    mask: Any) -> tuple[tuple[Any, Any, Any], Any]:
    """Return the gradients of some images' input, offset and mask, and their share of the weight's gradient."""
    images, share = input.shape[0], sizes.input[1] // sizes.offset_groups
    outer = grad.reshape(images, sizes.groups, -1, sizes.output[0] * sizes.output[1])
    kernels = weight.reshape(sizes.groups, weight.shape[0] // sizes.groups, -1)
    found = sizes.neighbours(offset)
    taps, table = found.taps(mask), sizes.table(input)
    columns = weighted_sums(table, taps).permute(0, 1, 5, 2, 3, 4).reshape(images, sizes.groups, -1, outer.shape[-1])
    of_weight = (outer @ columns.mT).sum(0)
    below = (kernels.mT @ outer).reshape(images, sizes.offset_groups, share, sizes.kernel, *sizes.output)
    below = below.permute(0, 1, 3, 4, 5, 2)
    of_table = table.new_zeros(table.shape)
    add_transposed(of_table, below, taps)
    # The gradient of the weight of each tap: the product of the gradient and the element that it reads.
    elements = table.index_select(0, taps.index.reshape(-1)).reshape(-1, 4, share)
    of_taps = (elements @ below.reshape(-1, share, 1)).reshape(taps.index.shape)
    moved = [(of_taps * _outer(found.high_slope, found.wide)).sum(-1),
             (of_taps * _outer(found.high, found.wide_slope)).sum(-1)]
    of_mask = None
    if mask is not None:
        moved = [x * mask for x in moved]
        of_mask = (of_taps * _outer(found.high, found.wide)).sum(-1)
    return (sizes.image(of_table), functions.stack(moved, 3).reshape(offset.shape), of_mask), of_weight


def _sizes(operator: str, input: Any, weight: Any, offset: Any, mask: Any, bias: Any, stride: tuple[int, int],
           padding: tuple[int, int], dilation: tuple[int, int], groups: int, offset_groups: int,
           use_mask: bool) -> Convolution:
    """Return the sizes of a call, whose arguments are valid."""
    for name, tensor in (("input", input), ("weight", weight), ("offset", offset), *((("mask", mask),) * use_mask)):
        if tensor.dim() != 4:
            raise ShapeError(operator, f"{name} {list(tensor.shape)}", "input, weight, offset and mask have four "
                             "dimensions", "add the missing dimensions")
    tensors = {"weight": weight, "offset": offset, "bias": bias, **({"mask": mask} if use_mask else {})}
    other = next((name for name, x in tensors.items() if x.dtype is not input.dtype), None)
    if other is not None or input.dtype.kind != "float":
        name = other or "weight"
        raise DtypeError(operator, f"input of {input.dtype.name} and {name} of {tensors[name].dtype.name}",
                         "all tensors have one dtype, of floats", "convert them")
    if min(*stride, *dilation, groups, offset_groups) < 1 or min(padding) < 0 or min(weight.shape[2:]) < 1:
        raise ArgumentError(operator, f"stride={stride}, padding={padding}, dilation={dilation}, groups={groups}, "
                            f"offset_groups={offset_groups}, kernel {list(weight.shape[2:])}",
                            "padding is not negative, and the others are positive", "correct it")
    sizes = Convolution(tuple(input.shape), tuple(weight.shape), stride, padding, dilation, groups, offset_groups)
    _check_shapes(operator, sizes, offset, mask if use_mask else None, bias)
    return sizes


def _check_shapes(operator: str, sizes: Convolution, offset: Any, mask: Any, bias: Any) -> None:
    channels, out = sizes.input[1], sizes.weight[0]
    if channels != sizes.weight[1] * sizes.groups or out % sizes.groups or channels % sizes.offset_groups:
        raise ShapeError(operator, f"{channels} channels, weight {list(sizes.weight)}, groups={sizes.groups}, "
                         f"offset_groups={sizes.offset_groups}", "channels are weight.shape[1] * groups and a multiple "
                         "of offset_groups, and weight.shape[0] is a multiple of groups", "change one of them")
    if min(sizes.output) < 1:
        raise ShapeError(operator, f"input {list(sizes.input)} and weight {list(sizes.weight)}",
                         f"the calculated output size {list(sizes.output)} is too small", "add padding")
    count = sizes.offset_groups * sizes.kernel
    for name, tensor, number in (("offset", offset, 2 * count), ("mask", mask, count)):
        wanted = [sizes.input[0], number, *sizes.output]
        if tensor is not None and list(tensor.shape) != wanted:
            raise ShapeError(operator, f"{name} {list(tensor.shape)}", f"{name} has the shape {wanted}, by the other "
                             "arguments", "change it")
    if list(bias.shape) != [out]:
        raise ShapeError(operator, f"bias {list(bias.shape)}", f"bias has the shape [{out}]", "change it")
