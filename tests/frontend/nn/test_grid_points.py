"""Images read at points of grids, and their gradients, against NumPy in double precision, with all channels and points
that vectors do not fill.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import tensocket as torch
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.registry import COMPOSITES

F = torch.nn.functional


def rng():
    return np.random.default_rng(9)


def linear(image, places):
    """[C, points] of [C, sizes..] at places [points, dims], whose order is that of the sizes; zeros outside."""
    out = np.zeros((image.shape[0], len(places)))
    for number, place in enumerate(places):
        for corner in itertools.product((0, 1), repeat=len(place)):
            at = [math.floor(x) + side for x, side in zip(place, corner, strict=True)]
            if all(0 <= k < n for k, n in zip(at, image.shape[1:], strict=True)):
                share = math.prod(1 - abs(x - k) for x, k in zip(place, at, strict=True))
                out[:, number] += share * image[(slice(None), *at)]
    return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("sizes", "points"), [((5, 7), 1), ((5, 7), 16), ((9, 4), 37), ((3, 4, 5), 21)])
def test_linear_samples(dtype, sizes, points):
    image, grid = rng().standard_normal((2, 3, *sizes)), rng().uniform(-1.4, 1.4, (2, points, len(sizes)))
    grid = grid.astype(np.float32).astype(np.float64)
    shape = (2, *(1,) * (len(sizes) - 1), points, len(sizes))
    got = F.grid_sample(torch.tensor(image, dtype=dtype), torch.tensor(grid.reshape(shape), dtype=dtype),
                        align_corners=True)
    assert got.shape == (2, 3, *shape[1:-1])
    places = (grid[..., ::-1] + 1) / 2 * (np.array(sizes) - 1)
    wanted = np.stack([linear(x, p) for x, p in zip(image, places, strict=True)])
    bound = 2e-6 if dtype is torch.float32 else 1e-13
    np.testing.assert_allclose(got.numpy().reshape(wanted.shape), wanted, rtol=0, atol=bound)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("count", [1, 4, 16])
def test_sums_at_points_and_their_gradients(dtype, count):
    """Of the operator that all modes use; -1 stands for no element, though it be infinite."""
    flat, weights, grad = (rng().standard_normal(s) for s in ((2, 5, 11), (2, count, 35), (2, 5, 35)))
    index = rng().integers(-1, 11, (2, count, 35))
    tensors = [torch.tensor(x, dtype=dtype) for x in (flat, weights)]
    for tensor in tensors:
        tensor.requires_grad_()
    out = call(COMPOSITES["gather_points"], *tensors, torch.tensor(index), 11)
    out.backward(torch.tensor(grad, dtype=dtype))
    total, placed, slopes = np.zeros((2, 5, 35)), np.zeros((2, 5, 11)), np.zeros((2, count, 35))
    for b, k, p in itertools.product(range(2), range(count), range(35)):
        if (at := index[b, k, p]) >= 0:
            total[b, :, p] += flat[b, :, at] * weights[b, k, p]
            placed[b, :, at] += grad[b, :, p] * weights[b, k, p]
            slopes[b, k, p] = (grad[b, :, p] * flat[b, :, at]).sum()
    bound = 1e-4 if dtype is torch.float32 else 1e-12
    for got, want in ((out, total), (tensors[0].grad, placed), (tensors[1].grad, slopes)):
        np.testing.assert_allclose(got.detach().numpy(), want, rtol=0, atol=bound)


def test_elements_outside_take_no_part():
    image = torch.full((1, 1, 2, 2), float("inf"))
    grid = torch.tensor([[[[-5.0, 0.0], [5.0, 5.0]]]])
    for mode in ("bilinear", "nearest", "bicubic"):
        assert F.grid_sample(image, grid, mode=mode, align_corners=False).tolist() == [[[[0.0, 0.0]]]]


def test_a_place_that_is_no_number_has_no_value():
    grid = torch.tensor([[[[float("nan"), 0.0]]]])
    assert F.grid_sample(torch.ones(1, 1, 2, 2), grid, align_corners=False).isnan().all()
    assert F.grid_sample(torch.ones(1, 1, 2, 2), grid, mode="nearest", align_corners=False).item() == 0


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_half_precision_and_strided_images(mode):
    image = torch.tensor(rng().standard_normal((1, 4, 6, 6))).permute(0, 1, 3, 2)[:, ::2]
    grid = torch.tensor(rng().uniform(-1, 1, (1, 3, 5, 2)))
    exact = F.grid_sample(image.contiguous(), grid, mode=mode, align_corners=True)
    np.testing.assert_array_equal(F.grid_sample(image, grid, mode=mode, align_corners=True).numpy(), exact.numpy())
    whole = torch.tensor([[[[-1.0, -1.0], [1.0, 1.0], [-0.2, 0.6]]]])  # elements, where halves are exact
    half = F.grid_sample(image.half(), whole.half(), mode="nearest", align_corners=True)
    np.testing.assert_array_equal(half.double().numpy(), F.grid_sample(
        image.half().double(), whole.half().double(), mode="nearest", align_corners=True).numpy())


def test_under_transforms():
    images = torch.tensor(rng().standard_normal((3, 1, 2, 4, 4)))
    grid = torch.tensor(rng().uniform(-1, 1, (1, 2, 3, 2)))

    def sample(x):
        return F.grid_sample(x, grid, align_corners=False)

    together = torch.func.vmap(sample)(images)
    for image, got in zip(images, together, strict=True):
        np.testing.assert_allclose(got.numpy(), sample(image).numpy(), rtol=1e-14)
    _, slope = torch.func.jvp(sample, (images[0],), (images[1],))
    np.testing.assert_allclose(slope.numpy(), sample(images[1]).numpy(), rtol=1e-14)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", ["border", "reflection"])
def test_coordinates_that_are_not_numbers_are_the_first_place(mode, padding):
    image = torch.arange(1.0, 10.0).reshape(1, 1, 3, 3)
    grid = torch.tensor([[math.nan, 0.0], [0.0, math.nan], [math.nan, math.nan]]).reshape(1, 1, 3, 2)
    found = F.grid_sample(image, grid, mode=mode, padding_mode=padding, align_corners=True)
    assert found.flatten().tolist() == [4.0, 2.0, 1.0]


def test_points_of_a_volume_without_a_place_are_outside():
    grid = torch.tensor([[math.nan, 0.0, 0.0], [0.0, 0.0, math.inf], [0.0, 0.0, 0.0]]).reshape(1, 1, 1, 3, 3)
    found = F.grid_sample(torch.ones(1, 1, 3, 3, 3), grid, align_corners=True)
    assert found.flatten().tolist() == [0.0, 0.0, 1.0]
