"""Operators of boxes beside their definitions: suppression, averages and largest elements in bins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators.vision import suppression, taps
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError

from .definitions import align, largest, means, suppress

RNG = np.random.default_rng(7)
#: Two maps of 8 channels, and boxes that are inside, across borders, outside, small, and at halves of elements.
MAPS = RNG.standard_normal((2, 8, 9, 11))
BOXES = np.array([
    [0, 1.3, 2.1, 8.7, 6.4], [1, -4.0, -3.2, 5.1, 20.0], [1, 2.5, 1.5, 7.5, 6.5], [0, 14.0, 12.0, 19.0, 15.0],
    [0, 3.2, 3.1, 3.5, 3.3], [1, 0.0, 0.0, 10.4, 8.4]])


def float64(values: Any) -> Any:
    return torch.tensor(values, dtype=torch.float64)


# ----------------------------------------------------------------------------------------------------- suppression


def random_boxes(number: int) -> tuple[np.ndarray, np.ndarray]:
    corners = RNG.random((number, 2)) * 30
    return np.concatenate([corners, corners + RNG.random((number, 2)) * 20], 1), RNG.random(number)


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7, 1.0])
def test_suppression(device: str, vision: Any, threshold: float) -> None:
    boxes, scores = random_boxes(60)
    assert vision.nms(float64(boxes), float64(scores), threshold).tolist() == suppress(boxes, scores, threshold)


def test_suppression_in_blocks(vision: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    boxes, scores = random_boxes(80)
    monkeypatch.setattr(suppression, "BLOCK", 7)
    assert vision.nms(float64(boxes), float64(scores), 0.2).tolist() == suppress(boxes, scores, 0.2)


def test_equal_scores_stay_in_order_and_a_chain_is_resolved(device: str, vision: Any) -> None:
    """Each box overlaps its neighbours only: every second one stays."""
    boxes = [[k * 10.0, 0.0, k * 10.0 + 19.0, 1.0] for k in range(9)]
    assert vision.nms(float64(boxes), float64([1.0] * 9), 0.3).tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(("threshold", "count"), [(0.5, 2), (0.4999, 1), (0.1, 1)])
def test_only_larger_overlaps_suppress(device: str, vision: Any, threshold: float, count: int) -> None:
    """The overlap is 1/2; 0.1 as float32 lies above 0.1, so that an overlap of 0.1 in float32 exceeds it."""
    assert len(vision.nms(torch.tensor([[0.0, 0.0, 2.0, 1.0], [0.0, 0.0, 1.0, 1.0]]), torch.tensor([1.0, 0.5]),
                          threshold)) == count
    tenth = torch.tensor([[0.0, 0.0, 10.0, 1.0], [0.0, 0.0, 1.0, 1.0]])
    assert len(vision.nms(tenth, torch.tensor([1.0, 0.5]), 0.1)) == 1


def test_suppression_of_nothing_and_of_boxes_without_area(device: str, vision: Any) -> None:
    none = vision.nms(float64(np.zeros((0, 4))), float64([]), 0.5)
    assert none.tolist() == []
    assert none.dtype is torch.int64
    assert vision.nms(float64([[1.0] * 4] * 2), float64([0.1, 0.2]), 0.5).tolist() == [1, 0]


# ------------------------------------------------------------------------------------------------- averages, largest


@pytest.mark.parametrize("ratio", [-1, 0, 1, 3])
@pytest.mark.parametrize("aligned", [False, True])
def test_roi_align(device: str, host: Any, vision: Any, ratio: int, aligned: bool) -> None:
    found = vision.roi_align(float64(MAPS), float64(BOXES), 0.9, 3, 2, ratio, aligned)
    expected = align(MAPS, BOXES, 0.9, (3, 2), ratio, aligned, False)
    np.testing.assert_allclose(host(found), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("ratio", [-1, 2])
def test_ps_roi_align(device: str, host: Any, vision: Any, ratio: int) -> None:
    found, channels = vision.ps_roi_align(float64(MAPS), float64(BOXES), 0.9, 2, 2, ratio)
    np.testing.assert_allclose(host(found), align(MAPS, BOXES, 0.9, (2, 2), ratio, True, True), rtol=1e-9, atol=1e-12)
    assert channels.dtype is torch.int32
    assert channels.tolist() == np.broadcast_to(np.arange(8).reshape(2, 2, 2), (6, 2, 2, 2)).tolist()


def test_boxes_without_samples(device: str, host: Any, vision: Any) -> None:
    """A box of no size has no samples if their number follows its size; ps_roi_align divides zero by zero."""
    boxes = float64([[0, 3.0, 3.0, 3.0, 3.0]])
    assert not host(vision.roi_align(float64(MAPS), boxes, 1.0, 2, 2, -1, True)).any()
    assert np.isnan(host(vision.ps_roi_align(float64(MAPS), boxes, 1.0, 2, 2, -1)[0])).all()
    grad = float64(np.ones((1, 2, 2, 2)))
    mapping = torch.zeros((1, 2, 2, 2), dtype=torch.int32)
    assert not host(vision._ps_roi_align_backward(grad, boxes, mapping, 1.0, 2, 2, -1, 2, 8, 9, 11)).any()


def test_roi_pool(device: str, host: Any, vision: Any) -> None:
    maps = np.round(MAPS)  # several largest elements: the first counts
    found, at = vision.roi_pool(float64(maps), float64(BOXES), 1.0, 3, 2)
    expected, places = largest(maps, BOXES, 1.0, (3, 2))
    np.testing.assert_array_equal(host(found), expected)
    assert at.tolist() == places.tolist()
    assert at.dtype is torch.int32


def test_ps_roi_pool(device: str, host: Any, vision: Any) -> None:
    found, channels = vision.ps_roi_pool(float64(MAPS), float64(BOXES), 1.0, 2, 2)
    np.testing.assert_allclose(host(found), means(MAPS, BOXES, 1.0, (2, 2)), rtol=1e-9, atol=1e-12)
    assert channels.dtype is torch.int32


def test_parts_of_a_call_agree(vision: Any, host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def results() -> list[Any]:
        given = float64(MAPS), float64(BOXES), 0.9, 2, 2
        return [*(host(vision.roi_align(*given, ratio, False)) for ratio in (2, -1)),
                *map(host, vision.roi_pool(*given)), host(vision.ps_roi_pool(*given)[0]),
                host(vision._roi_align_backward(float64(np.ones((6, 8, 2, 2))), given[1], *given[2:], 2, 8, 9, 11, -1,
                                                True))]

    whole = results()
    for size in (200, 1000):
        monkeypatch.setattr(taps, "PART", size)
        for found, expected in zip(results(), whole, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_no_boxes_and_no_channels(device: str, vision: Any) -> None:
    none, maps = torch.zeros((0, 5)), torch.ones((2, 4, 5, 6))
    assert vision.roi_align(maps, none, 1.0, 2, 2, 2, True).shape == (0, 4, 2, 2)
    assert vision.roi_pool(maps, none, 1.0, 2, 2)[1].shape == (0, 4, 2, 2)
    assert vision.ps_roi_pool(maps, none, 1.0, 2, 2)[0].shape == (0, 1, 2, 2)
    assert vision.ps_roi_align(maps, none, 1.0, 2, 2, 2)[0].shape == (0, 1, 2, 2)
    for name, extra in (("_roi_align_backward", (2, True)), ("_roi_pool_backward", ())):
        argmax = (torch.zeros((0, 4, 2, 2), dtype=torch.int32),) * (not extra)
        grad = getattr(vision, name)(torch.zeros((0, 4, 2, 2)), none, *argmax, 1.0, 2, 2, 2, 4, 5, 6, *extra)
        assert grad.shape == (2, 4, 5, 6)
        assert not grad.any()


def test_halves_are_computed_in_float32(vision: Any, host: Any) -> None:
    boxes = torch.tensor(BOXES[:1]).to(torch.float16)
    found = vision.roi_align(torch.tensor(MAPS).to(torch.float16), boxes, 1.0, 2, 2, 2, True)
    assert found.dtype is torch.float16
    expected = align(MAPS.astype(np.float16).astype(np.float64), host(boxes), 1.0, (2, 2), 2, True, False)
    np.testing.assert_allclose(host(found), expected, rtol=2e-3, atol=1e-3)


# ------------------------------------------------------------------------------------------------------- errors


def test_errors_of_suppression(vision: Any) -> None:
    with pytest.raises(ShapeError, match=(
            r"\[nms\] boxes \[2, 5\] — "
            r"boxes should be a 2d tensor with 4 elements in dimension 1")):
        vision.nms(torch.zeros((2, 5)), torch.zeros((2,)), 0.5)
    with pytest.raises(ShapeError, match=(
            r"\[nms\] 2 boxes and scores \[3\] — "
            r"boxes and scores should have same number of elements in dimension 0, and scores no other")):
        vision.nms(torch.zeros((2, 4)), torch.zeros((3,)), 0.5)
    with pytest.raises(DtypeError, match=(
            r"\[nms\] boxes of float32 and scores of float64 — "
            r"dets should have the same type as scores, a float dtype")):
        vision.nms(torch.zeros((2, 4)), float64([0.0, 0.0]), 0.5)


def test_errors_of_boxes(vision: Any) -> None:
    maps, boxes = torch.ones((2, 4, 5, 6)), torch.tensor([[0.0, 1.0, 1.0, 3.0, 3.0]])
    with pytest.raises(ShapeError, match=(
            r"\[roi_align\] input \[4, 5, 6\] — "
            r"the input is \[images, channels, height, width\]")):
        vision.roi_align(maps[0], boxes, 1.0, 2, 2, 2, True)
    with pytest.raises(DtypeError, match=r"\[roi_pool\] an input of int64 — maps and boxes are floats"):
        vision.roi_pool(maps.long(), boxes, 1.0, 2, 2)
    with pytest.raises(ShapeError, match=(
            r"\[roi_pool\] rois \[1, 4\] — "
            r"rois must have shape as Tensor\[K, 5\]: an image, x1, y1, x2 and y2 in each row")):
        vision.roi_pool(maps, boxes[:, 1:], 1.0, 2, 2)
    with pytest.raises(DtypeError, match=(
            r"\[ps_roi_pool\] input of float32 and rois of float64 — "
            r"input should have the same type as rois")):
        vision.ps_roi_pool(maps, boxes.double(), 1.0, 2, 2)
    with pytest.raises(ShapeError, match=(
            r"\[ps_roi_align\] 4 channels and 3 x 1 bins — "
            r"input channels must be a multiple of pooling height \* pooling width")):
        vision.ps_roi_align(maps, boxes, 1.0, 3, 1, 2)
    with pytest.raises(ArgumentError, match=r"\[roi_align\] 0 x 2 bins — a box has one bin at least"):
        vision.roi_align(maps, boxes, 1.0, 0, 2, 2, True)


@pytest.mark.parametrize("image", [-1.0, 2.0, np.nan])
def test_images_of_boxes_exist(device: str, vision: Any, image: float) -> None:
    maps, boxes = torch.ones((2, 4, 5, 6)), torch.tensor([[image, 1.0, 1.0, 3.0, 3.0]])
    with pytest.raises(ArgumentError, match=(
            r"\[roi_align\] boxes of images .*, where the input has 2 — "
            r"the first column of rois is the number of an image of the input")):
        vision.roi_align(maps, boxes, 1.0, 2, 2, 2, True)
    with pytest.raises(ArgumentError, match=r"\[roi_pool\] boxes of images"):
        vision.roi_pool(maps, boxes, 1.0, 2, 2)
