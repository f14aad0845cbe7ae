"""Largest elements in bins of boxes: ``roi_pool`` and its gradient."""

from __future__ import annotations

from typing import Any, Final

from tensocket_plugins.contract.dtypes import int32, int64

from .. import functions
from .checks import check_boxes, check_images, check_maps, check_same_dtype
from .regions import bin_edges, computed, largest_bins
from .taps import Taps, contained, joined, parts, product, steps

#: The lower bound of results, as in PyTorch's kernel: that of float32, for all dtypes.
_LOWEST: Final = -3.4028234663852886e38


def roi_pool(input: Any, rois: Any, spatial_scale: float, pooled_height: int, pooled_width: int) -> Any:
    """Return the largest element in each bin of boxes and its position in the map (-1 without one, int32).

    Both are [boxes, channels, bins, bins]. The first of several largest elements counts; an empty bin gives 0.

    Raises:
        ShapeError: The maps are not [images, channels, height, width], or the boxes not [boxes, 5].
        DtypeError: Maps and boxes have different dtypes, or are not floats.
        ArgumentError: A box belongs to an image that does not exist, or there are no bins.
    """
    bins = (pooled_height, pooled_width)
    check_maps("roi_pool", input)
    check_boxes("roi_pool", rois, bins)
    check_same_dtype("roi_pool", "input", input, rois)
    images, channels, height, width = input.shape
    shape = (rois.shape[0], channels, *bins)
    if not (rois.shape[0] and input.numel()):
        return input.new_zeros(shape), input.new_zeros(shape, dtype=int32)
    boxes, maps = computed(rois), computed(input)
    check_images("roi_pool", boxes, images)
    table = maps.permute(0, 2, 3, 1).reshape(-1, channels).contiguous()
    sizes = largest_bins(bin_edges(boxes, bins, spatial_scale, (height, width), True))
    selections, values, positions = [], [], []
    for selection, size in parts(sizes, rois.shape[0], bins[0] * bins[1] * channels):
        taps, base = _bins(boxes[selection], size, bins, spatial_scale, (height, width))
        value, tap = _largest(table, taps)
        found = taps.index.flatten(0, 2).gather(1, tap) - base.reshape(-1, 1).repeat_interleave(bins[0] * bins[1], 0)
        empty = (taps.weight.flatten(0, 2).amax(1) == 0).unsqueeze(1)
        without = empty | (value == _LOWEST)
        values.append(functions.where(empty, 0, value).reshape(-1, *bins, channels))
        positions.append(functions.where(without, -1, found).to(int32).reshape(-1, *bins, channels))
        selections.append(selection)
    result, argmax = (joined(selections, found).permute(0, 3, 1, 2) for found in (values, positions))
    return result.to(input.dtype).contiguous(), argmax.contiguous()


def _bins(boxes: Any, size: int, bins: tuple[int, int], scale: float, limits: tuple[int, int]) -> tuple[Taps, Any]:
    """Return the rows of the table that each bin reads, and the first row of each box's image."""
    (top, bottom), (left, right) = bin_edges(boxes, bins, scale, limits, True)
    base = (boxes[:, 0].to(int64) * (limits[0] * limits[1]))[:, None, None]
    rows, columns = (contained(start, end, size, boxes.dtype) for start, end in ((top, bottom), (left, right)))
    return product(rows, columns, base, limits[1]), base


def _largest(table: Any, taps: Taps) -> tuple[Any, Any]:
    """Return the largest element of each bin and channel, and its tap: [bins, channels]."""
    index, weight = (tensor.flatten(0, 2) for tensor in taps)
    elements = table.index_select(0, index.reshape(-1)).reshape(*index.shape, table.shape[1])
    counts = (weight != 0).unsqueeze(-1) & (elements > _LOWEST)
    value, tap = functions.where(counts, elements, _LOWEST).max(1)
    return value, tap


def roi_pool_backward(grad: Any, rois: Any, argmax: Any, spatial_scale: float, pooled_height: int, pooled_width: int,
                      batch_size: int, channels: int, height: int, width: int) -> Any:
    """Return the gradient of ``roi_pool`` with respect to the maps.

    Raises:
        DtypeError: Gradient and boxes have different dtypes.
        ArgumentError: A box belongs to an image that does not exist.
    """
    check_same_dtype("_roi_pool_backward", "grad", grad, rois)
    shape = (batch_size, channels, height, width)
    if not grad.numel():
        return grad.new_zeros(shape)
    boxes = computed(rois)
    check_images("_roi_pool_backward", boxes, batch_size)
    argmax = argmax.to(int64)
    image = boxes[:, 0].to(int64)[:, None, None, None]
    planes = image * channels + steps(channels, grad, int64)[:, None, None]
    index = planes * (height * width) + argmax.clamp_min(0)
    added = computed(grad).masked_fill(argmax < 0, 0)
    total = added.new_zeros((batch_size * channels * height * width,))
    return total.index_add_(0, index.reshape(-1), added.reshape(-1)).reshape(shape).to(grad.dtype)
