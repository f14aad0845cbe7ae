"""The operators of images and boxes as loops over float64 numbers, written from their definitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def suppress(boxes: np.ndarray, scores: np.ndarray, threshold: float) -> list[int]:
    """Positions of the boxes that stay, best first."""
    def area(box: Any) -> float:
        return (box[2] - box[0]) * (box[3] - box[1])

    chosen: list[int] = []
    for k in sorted(range(len(boxes)), key=lambda k: -scores[k]):
        for other in chosen:
            a, b = boxes[k], boxes[other]
            common = max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
            union = area(a) + area(b) - common
            if union and common / union > threshold:
                break
        else:
            chosen.append(k)
    return chosen


def bordered(plane: np.ndarray, y: float, x: float) -> float:
    """Linear interpolation; one element around the map continues it, and zeros lie beyond."""
    high, wide = plane.shape
    if y < -1 or y > high or x < -1 or x > wide:
        return 0.0
    y, x = min(max(y, 0.0), high - 1.0), min(max(x, 0.0), wide - 1.0)
    top, left = math.floor(y), math.floor(x)
    bottom, right = min(top + 1, high - 1), min(left + 1, wide - 1)
    v, u = y - top, x - left
    return ((1 - v) * (1 - u) * plane[top, left] + (1 - v) * u * plane[top, right]
            + v * (1 - u) * plane[bottom, left] + v * u * plane[bottom, right])


def padded(plane: np.ndarray, y: float, x: float) -> float:
    """Linear interpolation; zeros lie around the map."""
    total = 0.0
    for row in (math.floor(y), math.floor(y) + 1):
        for column in (math.floor(x), math.floor(x) + 1):
            if 0 <= row < plane.shape[0] and 0 <= column < plane.shape[1]:
                total += (1 - abs(y - row)) * (1 - abs(x - column)) * plane[row, column]
    return total


def align(maps: np.ndarray, boxes: np.ndarray, scale: float, bins: tuple[int, int], ratio: int, aligned: bool,
          positional: bool) -> np.ndarray:
    high, wide = bins
    channels = maps.shape[1] // (high * wide if positional else 1)
    out = np.zeros((len(boxes), channels, high, wide))
    shift = 0.5 if aligned else 0.0
    for k, (image, x1, y1, x2, y2) in enumerate(boxes):
        left, top, width, height = x1 * scale - shift, y1 * scale - shift, (x2 - x1) * scale, (y2 - y1) * scale
        if not aligned:
            width, height = max(width, 1.0), max(height, 1.0)
        rows = ratio if ratio > 0 else math.ceil(height / high)
        columns = ratio if ratio > 0 else math.ceil(width / wide)
        for c, row, column in np.ndindex(channels, high, wide):
            plane = maps[int(image), (c * high + row) * wide + column if positional else c]
            total = sum(bordered(plane, top + (row + (i + 0.5) / rows) * height / high,
                                 left + (column + (j + 0.5) / columns) * width / wide)
                        for i in range(rows) for j in range(columns))
            count = rows * columns if positional else max(rows * columns, 1)
            out[k, c, row, column] = total / count if count else math.nan
    return out


def away(value: float) -> int:
    """The nearest whole number; halves are rounded away from zero."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def edges(box: np.ndarray, scale: float, bins: tuple[int, int], limits: tuple[int, int], closed: int
          ) -> list[list[Any]]:
    """For each axis, the first element of each bin and the one after its last."""
    x1, y1, x2, y2 = (away(value * scale) for value in box[1:])
    found = []
    for first, last, count, limit in ((y1, y2, bins[0], limits[0]), (x1, x2, bins[1], limits[1])):
        step = max(last - first + closed, 1) / count
        bounds = [(math.floor(k * step), math.ceil((k + 1) * step)) for k in range(count)]
        found.append([tuple(min(max(edge + first, 0), limit) for edge in pair) for pair in bounds])
    return found


def largest(maps: np.ndarray, boxes: np.ndarray, scale: float, bins: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    out = np.zeros((len(boxes), maps.shape[1], *bins))
    at = np.full(out.shape, -1)
    for k, box in enumerate(boxes):
        rows, columns = edges(box, scale, bins, maps.shape[2:], 1)
        for c, i, j in np.ndindex(out.shape[1:]):
            (top, bottom), (left, right) = rows[i], columns[j]
            for y in range(top, bottom):
                for x in range(left, right):
                    if at[k, c, i, j] < 0 or maps[int(box[0]), c, y, x] > out[k, c, i, j]:
                        out[k, c, i, j], at[k, c, i, j] = maps[int(box[0]), c, y, x], y * maps.shape[3] + x
    return out, at


def means(maps: np.ndarray, boxes: np.ndarray, scale: float, bins: tuple[int, int]) -> np.ndarray:
    high, wide = bins
    out = np.zeros((len(boxes), maps.shape[1] // (high * wide), high, wide))
    for k, box in enumerate(boxes):
        rows, columns = edges(box, scale, bins, (maps.shape[2] - 1, maps.shape[3] - 1), 0)
        for c, i, j in np.ndindex(out.shape[1:]):
            part = maps[int(box[0]), (c * high + i) * wide + j, slice(*rows[i]), slice(*columns[j])]
            out[k, c, i, j] = part.mean() if part.size else 0.0
    return out


def deform(maps: np.ndarray, weight: np.ndarray, offset: np.ndarray, mask: np.ndarray | None, bias: np.ndarray,
           stride: tuple[int, int], padding: tuple[int, int], dilation: tuple[int, int], offset_groups: int
           ) -> np.ndarray:
    out = np.zeros((maps.shape[0], weight.shape[0], *offset.shape[2:])) + bias[:, None, None]
    share, (high, wide) = weight.shape[1], weight.shape[2:]
    per_group = weight.shape[0] // (maps.shape[1] // share)
    for b, o, y, x in np.ndindex(out.shape):
        for c, i, j in np.ndindex(share, high, wide):
            channel = o // per_group * share + c
            place = (channel // (maps.shape[1] // offset_groups) * high + i) * wide + j
            dy, dx = offset[b, 2 * place, y, x], offset[b, 2 * place + 1, y, x]
            value = padded(maps[b, channel], y * stride[0] - padding[0] + i * dilation[0] + dy,
                           x * stride[1] - padding[1] + j * dilation[1] + dx)
            out[b, o, y, x] += weight[o, c, i, j] * value * (1 if mask is None else mask[b, place, y, x])
    return out
