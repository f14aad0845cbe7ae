"""Deformable convolution beside its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators.vision import deformable
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError

from .definitions import deform

RNG = np.random.default_rng(5)
MAPS, BIAS = RNG.standard_normal((3, 4, 5, 6)), RNG.random(6)


def float64(values: Any) -> Any:
    return torch.tensor(values, dtype=torch.float64)


def sample(groups: int, offset_groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A weight, displacements (some by whole elements, some far outside) and factors."""
    offset = RNG.standard_normal((3, 12 * offset_groups, 3, 4)) * 2
    offset[0] = np.round(offset[0])
    offset[1, 0] += 50
    return RNG.standard_normal((6, 4 // groups, 3, 2)), offset, RNG.random((3, 6 * offset_groups, 3, 4))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("groups", "offset_groups"), [(1, 1), (2, 1), (1, 2), (2, 4)])
def test_deformable_convolution(device: str, vision: Any, host: Any, masked: bool, groups: int,
                                offset_groups: int) -> None:
    weight, offset, mask = sample(groups, offset_groups)
    given = mask if masked else np.zeros((3, 1))
    found = vision.deform_conv2d(*map(float64, (MAPS, weight, offset, given, BIAS)), 2, 1, 1, 0, 1, 2, groups,
                                 offset_groups, masked)
    expected = deform(MAPS, weight, offset, mask if masked else None, BIAS, (2, 1), (1, 0), (1, 2), offset_groups)
    np.testing.assert_allclose(host(found), expected, rtol=1e-9, atol=1e-11)


def test_without_displacements_it_is_a_convolution(device: str, vision: Any, host: Any) -> None:
    weight = RNG.standard_normal((6, 4, 3, 3))
    given = [float64(x) for x in (MAPS, weight, np.zeros((3, 18, 5, 6)), np.zeros((3, 1)), BIAS)]
    found = vision.deform_conv2d(*given, 1, 1, 1, 1, 1, 1, 1, 1, False)
    expected = torch.conv2d(given[0], given[1], given[4], padding=1)
    np.testing.assert_allclose(host(found), host(expected), rtol=1e-9, atol=1e-11)


def test_parts_of_a_batch_agree(vision: Any, host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    weight, offset, mask = sample(2, 2)
    given = [*map(float64, (MAPS, weight, offset, mask, BIAS)), 2, 1, 1, 0, 1, 2, 2, 2, True]
    grad = float64(RNG.standard_normal((3, 6, 3, 4)))
    whole = [vision.deform_conv2d(*given), *vision._deform_conv2d_backward(grad, *given)]
    monkeypatch.setattr(deformable, "PART", 1)
    apart = [vision.deform_conv2d(*given), *vision._deform_conv2d_backward(grad, *given)]
    for found, expected in zip(apart, whole, strict=True):
        np.testing.assert_allclose(host(found), host(expected), rtol=1e-9, atol=1e-11)


def test_no_images_and_no_channels(device: str, vision: Any) -> None:
    for images, channels in ((0, 4), (2, 0)):
        given = [torch.zeros((images, channels, 5, 6)), torch.ones((6, channels, 3, 3)),
                 torch.zeros((images, 18, 3, 4)), torch.zeros((images, 1)), torch.ones((6,)),
                 1, 1, 0, 0, 1, 1, 1, 1, False]
        found = vision.deform_conv2d(*given)
        assert found.shape == (images, 6, 3, 4)
        assert found.eq(1).all()
        gradients = vision._deform_conv2d_backward(found, *given)
        assert [x.shape for x in gradients] == [x.shape for x in given[:5]]
        assert gradients[4].tolist() == [images * 12.0] * 6


def test_errors(vision: Any) -> None:
    def run(maps: Any = None, weight: Any = None, offset: Any = None, mask: Any = None, bias: Any = None,
            stride: int = 1, groups: int = 1, offset_groups: int = 1, used: bool = False) -> Any:
        made = [torch.zeros(shape) if given is None else given for given, shape in (
            (maps, (1, 4, 5, 6)), (weight, (2, 4, 3, 3)), (offset, (1, 18, 3, 4)), (mask, (1, 1)), (bias, (2,)))]
        return vision.deform_conv2d(*made, stride, 1, 0, 0, 1, 1, groups, offset_groups, used)

    assert run().shape == (1, 2, 3, 4)
    with pytest.raises(ShapeError, match=(
            r"\[deform_conv2d\] mask \[1, 1\] — "
            r"input, weight, offset and mask have four dimensions")):
        run(used=True)
    with pytest.raises(DtypeError, match=(
            r"\[deform_conv2d\] input of float32 and offset of float64 — "
            r"all tensors have one dtype, of floats")):
        run(offset=float64(np.zeros((1, 18, 3, 4))))
    with pytest.raises(ArgumentError, match=(
            r"\[deform_conv2d\] stride=\(0, 1\).* — "
            r"padding is not negative, and the others are positive")):
        run(stride=0)
    with pytest.raises(ShapeError, match=(
            r"channels are weight\.shape\[1\] \* groups and a multiple of offset_groups, "
            r"and weight\.shape\[0\] is a multiple of groups")):
        run(groups=2)
    with pytest.raises(ShapeError, match=r"the calculated output size \[-3, 4\] is too small"):
        run(weight=torch.zeros((2, 4, 9, 3)))
    with pytest.raises(ShapeError, match=(
            r"\[deform_conv2d\] offset \[1, 18, 3, 4\] — "
            r"offset has the shape \[1, 36, 3, 4\], by the other arguments")):
        run(offset_groups=2)
    with pytest.raises(ShapeError, match=r"\[deform_conv2d\] bias \[3\] — bias has the shape \[2\]"):
        run(bias=torch.zeros((3,)))
