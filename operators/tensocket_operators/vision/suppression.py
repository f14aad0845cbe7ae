"""``nms``: non-maximum suppression of boxes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.dtypes import float32, int64
from tensocket_plugins.contract.errors import DtypeError, ShapeError

from .. import functions
from .regions import computed

#: Boxes that are compared with each other at once, and then with all later ones. 5000 random boxes took 270 ms with
#: 128, 200 with 256, 160 with 512 and 180 with 1024, on two busy cores.
BLOCK: Final = 512


def nms(dets: Any, scores: Any, iou_threshold: float) -> Any:
    """Return the positions of boxes (x1, y1, x2, y2) that overlap no chosen box of a higher score, int64.

    They are in the order of their scores; of equal scores, the first comes first. A box is suppressed if its
    intersection over union with a chosen one exceeds the threshold.

    Raises:
        ShapeError: The boxes are not [boxes, 4], or the scores not [boxes].
        DtypeError: Boxes and scores have different dtypes, or are not floats.
    """
    _check("nms", dets, scores)
    threshold = _threshold(iou_threshold, dets.dtype)
    order = scores.sort(descending=True, stable=True)[1]
    boxes = computed(dets).index_select(0, order)
    chosen = []
    while boxes.shape[0]:
        block, later = boxes[:BLOCK], boxes[BLOCK:]
        stays = _resolve(_overlaps(block, block, threshold).triu(1)).nonzero().squeeze(1)
        chosen.append(order[:BLOCK].index_select(0, stays))
        free = _unsuppressed(block.index_select(0, stays), later, threshold)
        boxes, order = later.index_select(0, free), order[BLOCK:].index_select(0, free)
    return functions.cat(chosen) if chosen else scores.new_zeros((0,), dtype=int64)


def _threshold(value: float, dtype: Any) -> float:
    """Return the largest number of the computation's dtype up to a threshold.

    The kernel of PyTorch compares in float64; comparisons with this number have the same results.
    """
    if dtype.itemsize > 4:
        return value
    rounded = np.float32(value)
    return float(np.nextafter(rounded, np.float32(-np.inf)) if float(rounded) > value else rounded)


def _overlaps(first: Any, second: Any, threshold: float) -> Any:
    """Whether boxes of two lists overlap by more than the threshold: [first, second]."""
    def area(boxes: Any) -> Any:
        return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])

    a, b = first[:, None], second[None]
    wide = (a[..., 2].minimum(b[..., 2]) - a[..., 0].maximum(b[..., 0])).clamp_min(0)
    high = (a[..., 3].minimum(b[..., 3]) - a[..., 1].maximum(b[..., 1])).clamp_min(0)
    common = wide * high
    return common / (area(first)[:, None] + area(second)[None] - common) > threshold


def _resolve(overlaps: Any) -> Any:
    """Return which boxes of a block are chosen, given which later ones each would suppress.

    A choice is repeated with the suppressions of the last one until it stays as it is; at least one more box is final
    after each round, and one round per link of the longest chain of suppressions is enough.
    """
    weights = overlaps.to(float32)
    chosen = weights.new_ones((1, weights.shape[0]))
    while True:
        following = (chosen @ weights == 0).to(float32)
        if functions.equal(following, chosen):
            return chosen.squeeze(0)
        chosen = following


def _unsuppressed(chosen: Any, later: Any, threshold: float) -> Any:
    """Return the positions of later boxes that no chosen one suppresses."""
    count = max(BLOCK * BLOCK * 8 // max(chosen.shape[0], 1), 1)
    suppressed = [_overlaps(chosen, later[begin:begin + count], threshold).any(0)
                  for begin in range(0, later.shape[0], count)]
    if not suppressed:
        return later.new_zeros((0,), dtype=int64)
    return functions.cat(suppressed).logical_not().nonzero().squeeze(1)


def _check(operator: str, boxes: Any, scores: Any) -> None:
    if boxes.dim() != 2 or boxes.shape[1] != 4:
        raise ShapeError(operator, f"boxes {list(boxes.shape)}", "boxes should be a 2d tensor with 4 elements in "
                         "dimension 1", "pass x1, y1, x2 and y2 in each row")
    if scores.dim() != 1 or scores.shape[0] != boxes.shape[0]:
        raise ShapeError(operator, f"{boxes.shape[0]} boxes and scores {list(scores.shape)}",
                         "boxes and scores should have same number of elements in dimension 0, and scores no other",
                         "pass one score for each box")
    if boxes.dtype is not scores.dtype or boxes.dtype.kind != "float":
        raise DtypeError(operator, f"boxes of {boxes.dtype.name} and scores of {scores.dtype.name}",
                         "dets should have the same type as scores, a float dtype", "convert them")
