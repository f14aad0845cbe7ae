"""Operators on dtypes that are rare for them: integers with factors of floats, bools, complex numbers, halves."""

from __future__ import annotations

import cmath
import math

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators import functions as F


def test_factors_of_integers_are_cut_off() -> None:
    matrix, vector = torch.tensor([[1, 2], [3, 4]]), torch.tensor([5, 6])
    assert F.addmv(vector, matrix, vector, beta=0.9, alpha=2.6).tolist() == [34, 78]
    assert F.addmm(matrix, matrix, matrix, beta=1.9, alpha=1.2).tolist() == [[8, 12], [18, 26]]
    assert F.baddbmm(matrix[None], matrix[None], matrix[None], alpha=0.5).tolist() == [[[1, 2], [3, 4]]]
    with pytest.raises(RuntimeError):
        F.addr(matrix, vector, vector, alpha=1.5)


def test_whole_steps_start_and_end_with_whole_numbers() -> None:
    assert torch.linspace(4.9, -3.9, 7, dtype=torch.int64).tolist() == [4, 2, 1, 0, 0, -1, -3]
    assert torch.linspace(4.3, -3, 5, dtype=torch.int32).tolist() == [4, 2, 0, -1, -3]
    assert torch.linspace(2.5, 9, 1, dtype=torch.int64).tolist() == [2]
    assert torch.linspace(2.5, 9, 0, dtype=torch.int64).tolist() == []


def test_bools_as_numbers() -> None:
    x = torch.tensor([True, False, True])
    assert (x.square().tolist(), x.square().dtype) == ([1, 0, 1], torch.int64)
    for size, wanted in (((), 2), ((1,), [2])):
        assert (x.sum_to_size(size).tolist(), x.sum_to_size(size).dtype) == (wanted, torch.int64)
    assert (x[0].sum_to_size(()).item(), x[0].sum_to_size(()).dtype) == (1, torch.int64)
    assert (x.sum_to_size(3).tolist(), x.sum_to_size(3).dtype) == ([True, False, True], torch.bool_)
    other = torch.tensor([False, False, True])
    assert (F.clamp_min(x, other).tolist(), F.clamp_max(x, other).tolist()) == (
        [True, False, True], [False, False, True])


@pytest.mark.parametrize(("values", "every", "some"), [([0.5, -2.0], True, True), ([0.0, 3.0], False, True),
                                                       ([0.0, 0.0], False, False)])
def test_sums_and_products_as_bools(values: list[float], every: bool, some: bool) -> None:
    x = torch.tensor([values])
    total, product = x.sum(dtype=torch.bool_), x.prod(1, keepdim=True, dtype=torch.bool_)
    assert (total.item(), total.dtype) == (some, torch.bool_)
    assert (product.tolist(), product.dtype) == ([[every]], torch.bool_)


def test_logarithms_of_sums_of_complex_numbers() -> None:
    x, y = [1 + 2j, 0.5 - 3j, -math.inf + 0j], [0.5 - 3j, 2 + 1j, 1 + 1j]
    got = F.logaddexp(torch.tensor(x, dtype=torch.complex128), torch.tensor(y, dtype=torch.complex128)).tolist()
    for a, b, c in zip(x, y, got, strict=True):
        assert cmath.exp(c) == pytest.approx(cmath.exp(a) + cmath.exp(b))
    tall = F.logaddexp(torch.tensor([1e4 + 0j]), torch.tensor([1e4 + 0j])).item()
    assert tall == pytest.approx(1e4 + math.log(2))
    # The imaginary part stays near that of the larger one, not between -pi and pi.
    assert F.logcumsumexp(torch.tensor([3 + 10j, -50 + 0j]), 0).tolist()[1] == pytest.approx(3 + 10j)


def test_gradient_of_complex_logarithms() -> None:
    x = torch.tensor([0.3 + 0.4j], dtype=torch.complex128, requires_grad=True)
    y = torch.tensor([-0.2 + 1j], dtype=torch.complex128)
    F.logaddexp(x, y).backward(torch.tensor([1 + 0j], dtype=torch.complex128))
    step = 1e-6
    near = [F.logaddexp(x.detach() + s, y).item() for s in (step, -step)]
    assert x.grad.item() == pytest.approx(((near[0] - near[1]) / (2 * step)).conjugate(), rel=1e-6)


def test_root_mean_squares_of_complex_numbers() -> None:
    values = np.array([[1 + 2j, 3], [0.5j, -1 + 1j]])
    wanted = values / np.sqrt((values * values).mean(1, keepdims=True) + 0.5)
    assert np.allclose(F.rms_norm(torch.tensor(values.tolist()), (2,), eps=0.5).tolist(), wanted, rtol=1e-5)


def test_no_complex_draws() -> None:
    assert torch.randn(0, 5, 0, dtype=torch.complex64).shape == (0, 5, 0)
    assert torch.rand(3, 0, dtype=torch.complex128).dtype is torch.complex128


def test_responses_of_integers_are_cut_off() -> None:
    x = torch.tensor([[[1, 2], [4, 5]]])
    windows = np.array([[[0 + 1, 0 + 4], [1 + 16, 4 + 25]]]) // 2
    wanted = np.array([[[1, 2], [4, 5]]]) / (windows * 0.5 + 1.0) ** 0.75
    assert np.allclose(F.local_response_norm(x, 2, alpha=0.5).tolist(), wanted)


def test_points_of_halves_count_beyond_their_precision() -> None:
    """Position 299 has no bfloat16 number; 298 and 300 have."""
    image = torch.arange(300.0).reshape(1, 1, 30, 10).to(torch.bfloat16)
    corner = torch.tensor([[[[1.0, 1.0], [-1.0, -1.0]]]], dtype=torch.bfloat16)
    got = F.grid_sample(image, corner, mode="nearest", align_corners=True)
    assert got.to(torch.float32).tolist() == [[[[300.0, 0.0]]]]
    assert F.grid_sample(image, corner, align_corners=True).to(torch.float32).tolist() == [[[[300.0, 0.0]]]]


def test_one_value_lies_in_the_middle_bin() -> None:
    counts = F.histc(torch.tensor([-8.5], dtype=torch.bfloat16))
    assert counts.dtype is torch.bfloat16
    assert counts.tolist().index(1.0) == 50
