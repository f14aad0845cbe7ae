"""Images with channels last give results with channels last, also where memory has gaps."""

from __future__ import annotations

import pytest

import tensocket as torch
from tensocket.nn import functional as F

OPERATORS = {
    "bilinear": lambda x: F.interpolate(x, size=(6, 5), mode="bilinear"),
    "smooth": lambda x: F.interpolate(x, size=(3, 4), mode="bicubic", antialias=True),
    "nearest": lambda x: F.interpolate(x, size=(6, 5)),
    "pooling": lambda x: F.max_pool2d(x, 2),
    "mean": lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
    "convolution": lambda x: F.conv2d(x, torch.ones(4, 3, 2, 2)),
    "reflected": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
}


def last(*shape):
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape).contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("cut", [lambda x: x, lambda x: x[:, :, 1:-1, 1:-1], lambda x: x[:, :, ::2, ::2]],
                         ids=["dense", "sliced", "strided"])
def test_channels_stay_last(name, cut):
    given = cut(last(2, 3, 10, 10))
    result = OPERATORS[name](given)
    assert result.is_contiguous(memory_format=torch.channels_last)
    expected = OPERATORS[name](given.contiguous())
    assert expected.is_contiguous()
    torch.testing.assert_close(result, expected, check_stride=False)


@pytest.mark.parametrize("name", ["bilinear", "smooth", "nearest"])
def test_a_new_batch_dimension_hides_channels_last(name):
    """``unsqueeze`` gives the new dimension a stride that is less than those of the channels: row-major in doubt."""
    given = last(1, 3, 10, 10)[0][None]
    assert given.stride() == (3, 1, 30, 3)
    assert OPERATORS[name](given).is_contiguous()
    assert torch.cat([given, given]).is_contiguous()


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear"])
def test_images_of_integers_are_bytes(mode):
    with pytest.raises(NotImplementedError, match="interpolation is for floating-point images and uint8"):
        F.interpolate(torch.ones(1, 1, 2, 2, dtype=torch.int32), size=(4, 4), mode=mode)
    assert F.interpolate(torch.ones(1, 1, 2, 2, dtype=torch.uint8), size=(4, 4), mode=mode).sum().item() == 16


@pytest.mark.parametrize("compute", [lambda x: x.double(), lambda x: x.clone()])
def test_gaps_go_and_the_new_dimension_keeps_its_place_in_memory(compute):
    """PyTorch sorts dimensions by stride: the new one, of stride 3, lies between channels and columns."""
    given = last(1, 3, 10, 10)[:, :, 1:-1, 1:-1][0][None]
    assert given.stride() == (3, 1, 30, 3)
    assert compute(given).stride() == (3, 1, 24, 3)
