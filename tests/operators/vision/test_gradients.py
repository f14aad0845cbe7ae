"""Gradients of the operators of images and boxes against central differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch

from ..differences import check_gradient
from .test_boxes import BOXES, MAPS

CASES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "roi_align": lambda vision, x, boxes: vision.roi_align(x, boxes, 0.9, 3, 2, 2, False),
    "roi_align_adaptive": lambda vision, x, boxes: vision.roi_align(x, boxes, 0.9, 3, 2, -1, True),
    "roi_pool": lambda vision, x, boxes: vision.roi_pool(x, boxes, 1.0, 3, 2)[0],
    "ps_roi_align": lambda vision, x, boxes: vision.ps_roi_align(x, boxes, 0.9, 2, 2, -1)[0],
    "ps_roi_pool": lambda vision, x, boxes: vision.ps_roi_pool(x, boxes, 1.0, 2, 2)[0],
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_pooling(device: str, vision: Any, name: str) -> None:
    boxes = torch.tensor(BOXES, dtype=torch.float64)
    check_gradient(lambda x: CASES[name](vision, x, boxes), [MAPS])


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("groups", "offset_groups"), [(1, 1), (2, 4)])
def test_gradients_of_deformable_convolution(device: str, vision: Any, masked: bool, groups: int,
                                             offset_groups: int) -> None:
    rng = np.random.default_rng(3)
    maps, weight, bias = rng.standard_normal((2, 4, 5, 6)), rng.standard_normal((2, 4 // groups, 3, 2)), rng.random(2)
    offset = rng.standard_normal((2, 12 * offset_groups, 3, 4)) * 2
    mask = rng.random((2, 6 * offset_groups, 3, 4))
    arguments = (2, 1, 1, 0, 1, 2, groups, offset_groups, masked)
    if masked:
        check_gradient(lambda *given: vision.deform_conv2d(*given, *arguments), [maps, weight, offset, mask, bias])
    else:
        unused = torch.zeros((2, 1), dtype=torch.float64)
        check_gradient(lambda x, w, o, b: vision.deform_conv2d(x, w, o, unused, b, *arguments),
                       [maps, weight, offset, bias])
