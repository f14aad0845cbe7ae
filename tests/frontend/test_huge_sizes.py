"""Sizes beyond all memory end quickly: in a typed error, or on meta in a result."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensocket as torch
from tensocket.errors import TensocketError

HUGE = 2 ** 62


@pytest.mark.parametrize("make", [
    lambda: torch.zeros(HUGE), lambda: torch.empty(2 ** 40, 2 ** 40), lambda: torch.ones(1).expand(2 ** 45).clone(),
    lambda: torch.linspace(0, 1, HUGE), lambda: torch.linspace(0, 1, 2 ** 45), lambda: torch.logspace(0, 1, HUGE),
    lambda: torch.hann_window(HUGE), lambda: torch.kaiser_window(2 ** 45), lambda: torch.signal.windows.cosine(HUGE),
    lambda: torch.linspace(0, 9, 2 ** 45, dtype=torch.int64), lambda: torch.arange(6).tensor_split(HUGE),
    lambda: torch.combinations(torch.arange(100), 50), lambda: torch.combinations(torch.arange(200), 100),
    lambda: torch.arange(6.0)[torch.zeros(1, dtype=torch.int64).expand(2 ** 46)],
    lambda: torch.gather(torch.arange(6.0), 0, torch.zeros(1, dtype=torch.int64).expand(2 ** 46)),
])  # fmt: skip
def test_more_than_all_memory_is_a_typed_error(make):
    with pytest.raises(TensocketError):
        make()


@pytest.mark.parametrize(("make", "shape"), [
    (lambda: torch.linspace(0, 1, 2 ** 58, device="meta"), (2 ** 58,)),
    (lambda: torch.logspace(0, 1, 2 ** 58, device="meta"), (2 ** 58,)),
    (lambda: torch.hann_window(2 ** 50, device="meta"), (2 ** 50,)),
    (lambda: torch.signal.windows.hann(2 ** 50, device="meta"), (2 ** 50,)),
    (lambda: torch.tril_indices(2 ** 20, 2 ** 20, device="meta"), (2, 2 ** 19 * (2 ** 20 + 1))),
    (lambda: torch.histc(torch.empty(5, device="meta"), 7), (7,)),
])  # fmt: skip
def test_meta_tensors_are_as_large_as_one_asks(make, shape):
    result = make()
    assert (tuple(result.shape), result.device.type) == (shape, "meta")


@pytest.mark.parametrize("rows", [0, 1, 3, 5])
@pytest.mark.parametrize("columns", [0, 1, 4, 6])
@pytest.mark.parametrize("offset", [-7, -2, 0, 1, 3, 9])
def test_triangles_on_meta_have_the_size_of_real_ones(rows, columns, offset):
    ones = np.ones((rows, columns))
    for make, reference in ((torch.tril_indices, np.tril), (torch.triu_indices, np.triu)):
        found = make(rows, columns, offset, device="meta")
        assert tuple(found.shape) == (2, int(reference(ones, offset).sum()))
        assert found.dtype is torch.int64


def test_expanded_indices_are_checked():
    x = torch.arange(6.0)
    assert x[torch.tensor([2]).expand(4)].tolist() == [2.0] * 4
    assert x[torch.tensor([[-1]]).expand(2, 3)].tolist() == [[5.0] * 3] * 2
    assert torch.gather(x, 0, torch.tensor([3]).expand(5)).tolist() == [3.0] * 5
    for wrong in (6, -7):
        with pytest.raises(IndexError):
            x[torch.tensor([wrong]).expand(4)]
        with pytest.raises(RuntimeError):
            torch.gather(x, 0, torch.tensor([wrong]).expand(4))


def test_polygamma_beyond_the_factorials_of_float64():
    x = torch.tensor([0.5, 0.75], dtype=torch.float64)
    assert torch.polygamma(200, x).tolist() == [-math.inf, -math.inf]
    assert torch.polygamma(201, x).tolist() == [math.inf, math.inf]


def test_sections_beyond_all_memory():
    with pytest.raises(ValueError, match=r"sections — a tuple of so many tensors fits no memory"):
        torch.arange(6).tensor_split(HUGE)
