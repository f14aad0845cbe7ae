"""Images: sampling at places, boxes, columns, decoding."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

import tensocket as torch
from tensocket.errors import MissingPackage
from tensocket.nn import functional as F

from .table import operator
from .values import device_of, ints, number, text, to_array, to_value


@operator("AffineGrid")
def affine_grid(theta: Any, size: Any, align_corners: int = 0) -> Any:
    """Return the places that an affine map gives the elements of an image."""
    return F.affine_grid(theta, ints(size), bool(align_corners))


@operator("GridSample")
def grid_sample(x: Any, grid: Any, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros") -> Any:
    """Return an image, read at places from -1 to 1."""
    word = {"linear": "bilinear", "cubic": "bicubic"}.get(text(mode), text(mode))
    return F.grid_sample(x, grid, word, text(padding_mode), bool(align_corners))


@operator("Col2Im")
def fold_columns(x: Any, image_shape: Any, block_shape: Any, dilations: Any = None, pads: Any = None,
                 strides: Any = None) -> Any:
    """Return an image that is the sum of columns, each of which holds the elements of a block."""
    sizes, block = ints(image_shape), ints(block_shape)
    n = len(sizes)
    gaps, steps, widths = ints(dilations) or [1] * n, ints(strides) or [1] * n, ints(pads) or [0] * 2 * n
    full = [s + widths[k] + widths[k + n] for k, s in enumerate(sizes)]
    counts = [(full[k] - gaps[k] * (block[k] - 1) - 1) // steps[k] + 1 for k in range(n)]
    place = torch.zeros([1] * 2 * n, dtype=torch.int64, device=x.device)
    for k in range(n):
        taps = torch.arange(block[k], device=x.device) * gaps[k]
        starts = torch.arange(counts[k], device=x.device) * steps[k]
        line = (taps.reshape(-1, 1) + starts).reshape(
            [block[k] if d == k else counts[k] if d == n + k else 1 for d in range(2 * n)])
        place = place * full[k] + line
    channels = x.shape[1] // torch.Size(block).numel()
    values = x.reshape(x.shape[0] * channels, -1)
    made = torch.zeros(values.shape[0], torch.Size(full).numel(), dtype=x.dtype, device=x.device)
    made = made.index_add(1, place.reshape(-1), values).reshape(x.shape[0], channels, *full)
    for k in range(n):
        made = made.narrow(2 + k, widths[k], sizes[k])
    return made


def _corners(boxes: Any, centred: int) -> Any:
    """Return boxes as y1, x1, y2, x2 with y1 <= y2 and x1 <= x2."""
    if centred:
        x, y, w, h = np.moveaxis(boxes, -1, 0)
        return np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], -1)
    one, other = boxes[..., :2], boxes[..., 2:]
    return np.concatenate([np.minimum(one, other), np.maximum(one, other)], -1)


def _overlap(box: Any, others: Any) -> Any:
    """Return the area of the intersections of a box with others, over that of the unions."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    inner = np.prod(np.maximum(high - low, 0), 1)
    areas = np.prod(others[:, 2:] - others[:, :2], 1) + np.prod(box[2:] - box[:2]) - inner
    return np.where(areas > 0, inner / np.where(areas > 0, areas, 1), 0)


@operator("NonMaxSuppression")
def non_max_suppression(boxes: Any, scores: Any, max_output_boxes_per_class: Any = None, iou_threshold: Any = None,
                        score_threshold: Any = None, center_point_box: int = 0) -> Any:
    """Return [batch, class, box] of boxes with high scores that do not overlap much, computed on the host."""
    limit, allowed = int(number(max_output_boxes_per_class, 0)), float(number(iou_threshold, 0))
    corners, all_scores = _corners(to_array(boxes), center_point_box), to_array(scores)
    chosen = []
    for batch in range(all_scores.shape[0]):
        for label in range(all_scores.shape[1]):
            line = all_scores[batch, label]
            order = np.argsort(-line, kind="stable")
            if score_threshold is not None:
                order = order[line[order] > number(score_threshold)]
            picked: list[int] = []
            while len(order) and len(picked) < limit:
                best, order = order[0], order[1:]
                picked.append(best)
                order = order[_overlap(corners[batch, best], corners[batch, order]) <= allowed]
            chosen += [[batch, label, box] for box in picked]
    return torch.tensor(np.array(chosen, dtype=np.int64).reshape(-1, 3).tolist(), dtype=torch.int64,
                        device=device_of(boxes)).reshape(-1, 3)


@operator("RoiAlign")
def roi_align_of_corners(x: Any, rois: Any, batch_indices: Any, mode: str = "avg", output_height: int = 1,
                         output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0) -> Any:
    """Return RoiAlign of version 10, without half a pixel of shift."""
    return roi_align(x, rois, batch_indices, "output_half_pixel", mode, output_height, output_width, sampling_ratio,
                     spatial_scale)


@operator("RoiAlign", since=16)
def roi_align(x: Any, rois: Any, batch_indices: Any, coordinate_transformation_mode: str = "half_pixel",
              mode: str = "avg", output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0,
              spatial_scale: float = 1.0) -> Any:
    """Return means, or largest elements, of regions cut into bins (He et al., Mask R-CNN, 2017)."""
    half = text(coordinate_transformation_mode) == "half_pixel"
    sizes = (output_height, output_width)
    found = []
    for roi, image in zip((rois * spatial_scale - (0.5 if half else 0.0)).tolist(), ints(batch_indices), strict=True):
        x1, y1, x2, y2 = roi
        extents = [y2 - y1, x2 - x1] if half else [max(y2 - y1, 1.0), max(x2 - x1, 1.0)]
        lines = [_lines(start, extent, count, sampling_ratio, x.shape[2 + k], x)
                 for k, (start, extent, count) in enumerate(zip((y1, x1), extents, sizes, strict=True))]
        found.append(_bins(x[image], lines, text(mode) == "max"))
    if not found:
        return x.new_zeros([0, x.shape[1], *sizes])
    return torch.stack(found)


def _lines(start: float, extent: float, count: int, ratio: int, size: int, x: Any) -> tuple[Any, Any, Any]:
    """Return for samples of one dimension, [bins, samples]: the elements before and after them, and their weights."""
    samples = ratio if ratio > 0 else int(np.ceil(extent / count))
    places = start + (np.arange(count * samples).reshape(count, samples) + 0.5) * extent / count / samples
    inside = (places >= -1.0) & (places <= size)
    places = np.clip(places, 0, size - 1)
    low = np.floor(places).astype(np.int64)
    high = np.minimum(low + 1, size - 1)
    share = np.where(inside, places - low, 0)
    weights = np.stack([np.where(inside, 1 - share, 0), share], -1)
    return (torch.from_numpy(low).to(x.device), torch.from_numpy(high).to(x.device),
            torch.from_numpy(weights).to(x.device, x.dtype))


def _bins(image: Any, lines: list[tuple[Any, Any, Any]], largest: bool) -> Any:
    """Return the mean, or the largest weighted corner, of each bin."""
    corners = []
    for k in range(2):
        for m in range(2):
            rows, columns = lines[0][k], lines[1][m]
            part = image.index_select(1, rows.reshape(-1)).index_select(2, columns.reshape(-1))
            part = part.reshape(image.shape[0], *rows.shape, *columns.shape)
            weight = lines[0][2][..., k].reshape(1, *rows.shape, 1, 1) * lines[1][2][..., m]
            corners.append(part * weight)
    values = torch.stack(corners)
    if largest:
        return values.amax(0).amax((2, 4))
    return values.sum(0).mean((2, 4))


@operator("ImageDecoder")
def decode_image(stream: Any, pixel_format: str = "RGB") -> Any:
    """Return the picture of a file as [H, W, C] of uint8, by Pillow.

    Raises:
        MissingPackage: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise MissingPackage("ImageDecoder", "a model that decodes pictures", "Pillow decodes them, which is not "
                             "installed", "pip install pillow") from error
    with Image.open(io.BytesIO(to_array(stream).tobytes())) as picture:
        if text(pixel_format) == "Grayscale":
            return to_value(np.array(picture.convert("L"))[:, :, None], device_of(stream))
        pixels = np.array(picture.convert("RGB"))
    return to_value(pixels[:, :, ::-1].copy() if text(pixel_format) == "BGR" else pixels, device_of(stream))
