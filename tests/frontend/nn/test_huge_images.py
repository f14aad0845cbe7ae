"""Operators on windows of huge images without data need no memory."""

from __future__ import annotations

import pytest

import tensocket as torch
import tensocket.nn.functional as F


@pytest.mark.parametrize(("run", "shape"), [
    (lambda x: F.interpolate(x, scale_factor=2.0), (1, 1, 1 << 41)),
    (lambda x: F.interpolate(x, size=7, mode="linear"), (1, 1, 7)),
    (lambda x: F.interpolate(x, size=1 << 45, mode="linear"), (1, 1, 1 << 45)),
    (lambda x: F.interpolate(x, size=5, mode="area"), (1, 1, 5)),
    (lambda x: F.adaptive_avg_pool1d(x, 3), (1, 1, 3)),
    (lambda x: F.adaptive_max_pool1d(x, 3), (1, 1, 3)),
    (lambda x: F.avg_pool1d(x, 2), (1, 1, 1 << 39)),
    (lambda x: F.max_pool1d(x, 3, 1, 1), (1, 1, 1 << 40)),
    (lambda x: F.unfold(x.view(1, 1, 1 << 20, 1 << 20), 2), (1, 4, ((1 << 20) - 1) ** 2)),
    (lambda x: F.interpolate(x.view(1, 1, 1 << 20, 1 << 20), scale_factor=2, mode="bicubic"),
     (1, 1, 1 << 21, 1 << 21)),
])
def test_huge_images_without_data_make_no_tables(run, shape):
    # A line of 2**40 elements: its windows would fill 8 TiB.
    x = torch.empty(1, 1, 1 << 40, device="meta", requires_grad=True)
    result = run(x)
    assert tuple(result.shape) == shape
    assert result.requires_grad
    result.sum().backward()
    assert x.grad.shape == x.shape
