"""Averages over bins of boxes: ``roi_align``, ``ps_roi_align``, ``ps_roi_pool`` and their gradients.

Boxes are rows ``(image, x1, y1, x2, y2)``. The position-sensitive forms give each bin channels of its own: channel
``(c * bins_high + row) * bins_wide + column`` of the input belongs to channel ``c`` of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tensocket_plugins.contract.dtypes import float32, int32, int64

from .. import functions
from .checks import check_boxes, check_channels, check_images, check_maps, check_same_dtype
from .taps import Taps, add_transposed, averaged, contained, interpolated, joined, parts, product, steps, weighted_sums

#: Vertical and horizontal taps, and the divisor of the sums, which broadcasts to [boxes, bins, bins].
Bins = tuple[Taps, Taps, Any]


def computed(tensor: Any) -> Any:
    """Return the tensor in the dtype of the computation: float32 for shorter floats."""
    return tensor.to(float32) if tensor.dtype.itemsize < 4 else tensor


@dataclass(frozen=True)
class Pooling:
    """Averages over the bins of boxes.

    Attributes:
        shape: Images, channels, height and width of the maps.
        bins: Bins per box, vertical and horizontal.
        positional: Whether each bin has channels of its own.
        sizes: The largest number of positions along an axis that a bin of each box reads; or one number for all.
        bins_of: The bins of boxes, read with at most so many positions along an axis.
    """

    shape: tuple[int, int, int, int]
    bins: tuple[int, int]
    positional: bool
    sizes: Any
    bins_of: Callable[[Any, int], Bins]

    @property
    def channels(self) -> int:
        """Channels of the result."""
        return self.shape[1] // (self.bins[0] * self.bins[1]) if self.positional else self.shape[1]

    def average(self, operator: str, maps: Any, boxes: Any) -> Any:
        """Return the averages, [boxes, channels, bins, bins].

        Raises:
            ArgumentError: A box belongs to an image that does not exist.
        """
        number, (high, wide) = boxes.shape[0], self.bins
        dtype, table = maps.dtype, self._table(computed(maps))
        boxes = computed(boxes)
        check_images(operator, boxes, self.shape[0])
        selections, results = [], []
        for selection, size in parts(self.sizes, number, high * wide * self.channels):
            taps, divisor = self._taps(boxes[selection], size)
            results.append(weighted_sums(table, taps) / divisor.unsqueeze(-1))
            selections.append(selection)
        return joined(selections, results).permute(0, 3, 1, 2).to(dtype).contiguous()

    def gradient(self, operator: str, grad: Any, boxes: Any) -> Any:
        """Return the gradient with respect to the maps.

        Raises:
            ArgumentError: A box belongs to an image that does not exist.
        """
        images, channels, height, width = self.shape
        high, wide = self.bins
        dtype, grad = grad.dtype, computed(grad).permute(0, 2, 3, 1)
        boxes = computed(boxes)
        check_images(operator, boxes, images)
        table = grad.new_zeros((images * height * width * channels // self.channels, self.channels))
        for selection, size in parts(self.sizes, boxes.shape[0], high * wide * self.channels):
            taps, divisor = self._taps(boxes[selection], size)
            # A divisor of 0 belongs to a bin that reads nothing.
            divisor = functions.where(divisor == 0, 1, divisor)
            add_transposed(table, grad[selection] / divisor.unsqueeze(-1), taps)
        if self.positional:
            table = table.reshape(images, high, wide, height, width, self.channels).permute(0, 5, 1, 2, 3, 4)
        else:
            table = table.reshape(images, height, width, channels).permute(0, 3, 1, 2)
        return table.reshape(self.shape).to(dtype).contiguous()

    def _table(self, maps: Any) -> Any:
        """Return the maps as rows of channels: for each image, bin (if positional), row and column."""
        if not self.positional:
            return maps.permute(0, 2, 3, 1).reshape(-1, self.channels).contiguous()
        images, _, height, width = self.shape
        return maps.reshape(images, self.channels, *self.bins, height, width).permute(0, 2, 3, 4, 5, 1).reshape(
            -1, self.channels).contiguous()

    def _taps(self, boxes: Any, size: int) -> tuple[Taps, Any]:
        """Return the rows of the table that each bin reads, and the divisor of their sums."""
        rows, columns, divisor = self.bins_of(boxes, size)
        _, _, height, width = self.shape
        high, wide = self.bins
        image = boxes[:, 0].to(int64)[:, None, None]
        map_ = image * (high * wide) + steps(high * wide, boxes, int64).reshape(high, wide) if self.positional else (
            image)
        return product(rows, columns, map_ * (height * width), width), divisor


# ----------------------------------------------------------------------------------------------- interpolated samples


def sampled(shape: Any, bins: tuple[int, int], boxes: Any, scale: float, ratio: int, aligned: bool,
            positional: bool) -> Pooling:
    """Return averages over a grid of interpolated samples in each bin.

    Args:
        shape: The maps' shape.
        bins: Bins per box, vertical and horizontal.
        boxes: The boxes.
        scale: A factor for their coordinates.
        ratio: Samples per bin and axis; if not positive, one for each element that the bin spans.
        aligned: Whether coordinates are moved by half an element; otherwise, boxes have a side of 1 at least.
        positional: Whether each bin has channels of its own.
    """
    def extents(rois: Any) -> Any:
        """Return where boxes begin and how long they are: two tensors, columns y and x."""
        corners = rois[:, 1:].reshape(-1, 2, 2).flip(2) * scale - (0.5 if aligned else 0.0)
        begin, side = corners[:, 0], corners[:, 1] - corners[:, 0]
        return begin, side if aligned else side.clamp_min(1)

    def counts(side: Any) -> Any:
        return functions.stack([(side[:, axis] / bins[axis]).ceil() for axis in (0, 1)], 1)

    def bins_of(rois: Any, size: int) -> Bins:
        begin, side = extents(rois)
        number = side.new_full(side.shape, ratio) if ratio > 0 else counts(side)
        taps = []
        for axis in (0, 1):
            length, count = (side[:, axis] / bins[axis])[:, None, None], number[:, axis, None, None]
            step = steps(size, rois, rois.dtype)
            # Samples that a box does not have repeat its last one, with weight 0.
            place = (step.minimum(count - 1) + 0.5) * length / count
            start = begin[:, axis, None, None] + steps(bins[axis], rois, rois.dtype)[None, :, None] * length
            read = interpolated if ratio > 0 else averaged
            taps.append(read(start + place, step < count, shape[axis + 2]))
        divisor = number[:, 0] * number[:, 1]
        # The aligned form of ps_roi_align divides by 0 where a box has no samples, as PyTorch does.
        return taps[0], taps[1], (divisor if positional else divisor.clamp_min(1))[:, None, None]

    sizes = ratio if ratio > 0 else counts(extents(computed(boxes))[1]).nan_to_num(0, 0, 0).clamp_min(0).amax(1).to(
        int64)
    return Pooling(tuple(shape), bins, positional, sizes, bins_of)


def roi_align(input: Any, rois: Any, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int,
              aligned: bool) -> Any:
    """Return averages of interpolated samples in each bin of boxes: [boxes, channels, bins, bins].

    Raises:
        ShapeError: The maps are not [images, channels, height, width], or the boxes not [boxes, 5].
        DtypeError: Maps and boxes have different dtypes, or are not floats.
        ArgumentError: A box belongs to an image that does not exist, or there are no bins.
    """
    _check("roi_align", input, rois, pooled_height, pooled_width)
    bins = (pooled_height, pooled_width)
    if not (input.numel() and rois.shape[0]):
        return input.new_zeros((rois.shape[0], input.shape[1], *bins))
    pooling = sampled(input.shape, bins, rois, spatial_scale, sampling_ratio, aligned, False)
    return pooling.average("roi_align", input, rois)


def roi_align_backward(grad: Any, rois: Any, spatial_scale: float, pooled_height: int, pooled_width: int,
                       batch_size: int, channels: int, height: int, width: int, sampling_ratio: int,
                       aligned: bool) -> Any:
    """Return the gradient of ``roi_align`` with respect to the maps."""
    shape = (batch_size, channels, height, width)
    check_same_dtype("_roi_align_backward", "grad", grad, rois)
    if not grad.numel():
        return grad.new_zeros(shape)
    pooling = sampled(shape, (pooled_height, pooled_width), rois, spatial_scale, sampling_ratio, aligned, False)
    return pooling.gradient("_roi_align_backward", grad, rois)


def ps_roi_align(input: Any, rois: Any, spatial_scale: float, pooled_height: int, pooled_width: int,
                 sampling_ratio: int) -> Any:
    """Return averages of samples in each bin, which has channels of its own, and the channel that each bin reads.

    Raises:
        ShapeError: As ``roi_align``, or the channels are not a multiple of the bins.
        DtypeError: As ``roi_align``.
        ArgumentError: As ``roi_align``.
    """
    bins = (pooled_height, pooled_width)
    _check("ps_roi_align", input, rois, *bins)
    check_channels("ps_roi_align", input, bins)
    mapping = _channel_mapping(input, rois, bins)
    if not (input.numel() and rois.shape[0]):
        return input.new_zeros(mapping.shape), mapping
    pooling = sampled(input.shape, bins, rois, spatial_scale, sampling_ratio, True, True)
    return pooling.average("ps_roi_align", input, rois), mapping


def ps_roi_align_backward(grad: Any, rois: Any, channel_mapping: Any, spatial_scale: float, pooled_height: int,
                          pooled_width: int, sampling_ratio: int, batch_size: int, channels: int, height: int,
                          width: int) -> Any:
    """Return the gradient of ``ps_roi_align`` with respect to the maps."""
    shape = (batch_size, channels, height, width)
    check_same_dtype("_ps_roi_align_backward", "grad", grad, rois)
    if not grad.numel():
        return grad.new_zeros(shape)
    pooling = sampled(shape, (pooled_height, pooled_width), rois, spatial_scale, sampling_ratio, True, True)
    return pooling.gradient("_ps_roi_align_backward", grad, rois)


# ------------------------------------------------------------------------------------------------- whole elements


def rounded(values: Any) -> Any:
    """Return whole numbers, int64; halves are rounded away from zero, as C does."""
    whole = values.trunc()
    return (whole + ((values - whole).abs() >= 0.5) * values.sign()).to(int64)


def bin_edges(rois: Any, bins: tuple[int, int], scale: float, limits: tuple[int, int],
              closed: bool) -> list[tuple[Any, Any]]:
    """Return the first element of each bin and the one after its last, vertically and horizontally: [boxes, bins].

    Args:
        rois: The boxes.
        bins: Bins per box, vertical and horizontal.
        scale: A factor for their coordinates.
        limits: Bounds of the edges.
        closed: Whether boxes contain their last elements.
    """
    corners = rounded(rois[:, 1:] * scale).reshape(-1, 2, 2).flip(2)
    begin = corners[:, 0]
    side = (corners[:, 1] - begin + int(closed)).clamp_min(1).to(rois.dtype)
    edges = []
    for axis in (0, 1):
        length = (side[:, axis] / bins[axis])[:, None]
        step = steps(bins[axis], rois, rois.dtype)
        start, end = (step * length).floor().to(int64), ((step + 1) * length).ceil().to(int64)
        offset = begin[:, axis, None]
        edges.append(((start + offset).clamp(0, limits[axis]), (end + offset).clamp(0, limits[axis])))
    return edges


def largest_bins(edges: list[tuple[Any, Any]]) -> Any:
    """Return the largest number of elements along an axis of each box's bins; int64."""
    return functions.stack([(end - start).amax(1) for start, end in edges], 1).amax(1).clamp_min(0)


def contained_elements(shape: Any, bins: tuple[int, int], boxes: Any, scale: float) -> Pooling:
    """Return averages over the elements in each bin, which has channels of its own.

    As in PyTorch's kernel, no bin reads the last row and the last column of a map.
    """
    limits = (shape[2] - 1, shape[3] - 1)

    def bins_of(rois: Any, size: int) -> Bins:
        (top, bottom), (left, right) = bin_edges(rois, bins, scale, limits, False)
        area = (bottom - top)[:, :, None] * (right - left)[:, None, :]
        return (contained(top, bottom, size, rois.dtype), contained(left, right, size, rois.dtype),
                area.clamp_min(1).to(rois.dtype))

    return Pooling(tuple(shape), bins, True, largest_bins(bin_edges(computed(boxes), bins, scale, limits, False)),
                   bins_of)


def ps_roi_pool(input: Any, rois: Any, spatial_scale: float, pooled_height: int, pooled_width: int) -> Any:
    """Return averages of the elements in each bin, which has channels of its own, and the channel that each bin reads.

    Raises:
        ShapeError: As ``ps_roi_align``.
        DtypeError: As ``roi_align``.
        ArgumentError: As ``roi_align``.
    """
    bins = (pooled_height, pooled_width)
    _check("ps_roi_pool", input, rois, *bins)
    check_channels("ps_roi_pool", input, bins)
    mapping = _channel_mapping(input, rois, bins)
    if not (input.numel() and rois.shape[0]):
        return input.new_zeros(mapping.shape), mapping
    return contained_elements(input.shape, bins, rois, spatial_scale).average("ps_roi_pool", input, rois), mapping


def ps_roi_pool_backward(grad: Any, rois: Any, channel_mapping: Any, spatial_scale: float, pooled_height: int,
                         pooled_width: int, batch_size: int, channels: int, height: int, width: int) -> Any:
    """Return the gradient of ``ps_roi_pool`` with respect to the maps."""
    shape = (batch_size, channels, height, width)
    check_same_dtype("_ps_roi_pool_backward", "grad", grad, rois)
    if not grad.numel():
        return grad.new_zeros(shape)
    pooling = contained_elements(shape, (pooled_height, pooled_width), rois, spatial_scale)
    return pooling.gradient("_ps_roi_pool_backward", grad, rois)


def _channel_mapping(input: Any, rois: Any, bins: tuple[int, int]) -> Any:
    """Return the channel of the input that each element of the result reads; int32."""
    channels = steps(input.shape[1], input, int32).reshape(-1, *bins)
    return channels.expand(rois.shape[0], *channels.shape).contiguous()


def _check(operator: str, maps: Any, boxes: Any, high: int, wide: int) -> None:
    check_maps(operator, maps)
    check_boxes(operator, boxes, (high, wide))
    check_same_dtype(operator, "input", maps, boxes)
