"""Comparisons of tensors up to tolerances, and tensors of random values."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensocket as torch
from tensocket import errors
from tensocket.testing import assert_allclose, assert_close, make_tensor

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(("actual", "expected"), [
    (torch.tensor([1.0, INF]), torch.tensor([1.0 + 1e-6, INF])),
    (torch.tensor([1, 2]), torch.tensor([1, 2])),
    (torch.tensor(True), torch.tensor(True)),
    (torch.ones(2, dtype=torch.bfloat16), torch.full((2,), 1.01, dtype=torch.bfloat16)),
    (torch.tensor([1 + 2j]), torch.tensor([1 + 2j])),
    ([1.0, (2, None)], [1.0 + 1e-8, (2, None)]),
    ({"a": torch.ones(2), "b": None}, {"b": None, "a": torch.ones(2)}),
    (np.ones(2), np.ones(2)),
    (1, 1), (True, True), (1 + 2j, 1 + 2j),
    (torch.eye(2).to_sparse(), torch.eye(2).to_sparse()),
    (torch.zeros(0), torch.zeros(0)),
], ids=str)
def test_close_values(actual, expected):
    assert_close(actual, expected)


@pytest.mark.parametrize(("actual", "expected", "message"), [
    (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1]), "Mismatched elements: 1 / 2 (50.0%)"),
    (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]), "Greatest absolute difference: 0.5 at index (1,)"),
    (torch.tensor([NAN]), torch.tensor([NAN]), "are not close"),
    (torch.tensor([INF]), torch.tensor([1.0]), "are not close"),
    (torch.tensor([1.0]), torch.tensor([INF]), "are not close"),
    (torch.tensor([1, 2]), torch.tensor([1, 3]), "are not equal"),
    (torch.tensor([1 << 62]), torch.tensor([(1 << 62) + 1]), "are not equal"),
    (torch.ones(2), torch.ones(3), "attribute 'shape' do not match: (2,) != (3,)"),
    (torch.ones(2), torch.ones(2, dtype=torch.float64), "attribute 'dtype' do not match"),
    (torch.ones(2), torch.ones(2, device="ref"), "attribute 'device' do not match"),
    (torch.ones(2, 2).to_sparse(), torch.ones(2, 2), "attribute 'layout' do not match"),
    (1.0, 1.1, "Expected 1.1 but got 1.0"),
    (3, 5, "are not equal!\n\nExpected 5 but got 3.\nAbsolute difference: 2\nRelative difference: 0.4"),
    (1, 1.0, "The types of the values do not match: int and float"),
    ([1, 2], [1], "The length of the sequences mismatch: 2 != 1"),
    ([1, [2]], [1, [3]], "The failure occurred for item [1][0]"),
    ({"a": 1}, {"b": 1}, "missing [\"'b'\"], additional [\"'a'\"]"),
    (None, 1, "None is not 1"),
])
def test_different_values(actual, expected, message):
    with pytest.raises(AssertionError) as caught:
        assert_close(actual, expected)
    assert message in str(caught.value)


def test_what_is_checked_can_be_chosen():
    assert_close(torch.tensor([NAN]), torch.tensor([NAN]), equal_nan=True)
    assert_close(torch.ones(2), torch.ones(2, dtype=torch.float64), check_dtype=False)
    assert_close(torch.ones(2), torch.ones(2, device="ref"), check_device=False)
    assert_close(torch.ones(2, 2).to_sparse(), torch.ones(2, 2), check_layout=False)
    assert_close(torch.tensor(1.0), torch.tensor(1.4), rtol=0, atol=0.5)
    assert_close(torch.ones(2, 3).t(), torch.ones(3, 2))
    with pytest.raises(AssertionError, match="stride"):
        assert_close(torch.ones(2, 3).t(), torch.ones(3, 2), check_stride=True)
    with pytest.raises(AssertionError, match=r"^mine$"):
        assert_close(1, 2, msg="mine")
    with pytest.raises(AssertionError, match="more: Scalars"):
        assert_close(1, 2, msg=lambda text: f"more: {text}")
    with pytest.raises(errors.ArgumentError, match="both tolerances are given, or none"):
        assert_close(1, 1, rtol=0.1)


def test_the_old_name_is_deprecated():
    with pytest.warns(FutureWarning, match="use assert_close"):
        assert_allclose(torch.ones(1), torch.ones(1, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool,
                                   torch.complex64], ids=str)
def test_random_tensors(dtype):
    x = make_tensor(50, 4, dtype=dtype)
    assert (x.dtype, x.shape) == (dtype, (50, 4))
    if not dtype.is_complex:
        low, high = x.float().min().item(), x.float().max().item()
        assert -9 <= low < high <= 10
    assert not make_tensor((3, 4), dtype=dtype, noncontiguous=True).is_contiguous()


def test_random_tensors_as_asked():
    assert make_tensor(100, dtype=torch.int32, low=1, high=3).unique().tolist() == [1, 2]
    assert make_tensor(100, dtype=torch.bool, exclude_zero=True).all()
    assert make_tensor((), dtype=torch.float32, requires_grad=True).requires_grad
    images = make_tensor(2, 3, 4, 4, dtype=torch.float32, memory_format=torch.channels_last)
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert make_tensor(1, dtype=torch.float32, noncontiguous=True).is_contiguous()
    assert make_tensor(9, dtype=torch.uint8, low=250, high=1000).min() >= 250
    assert make_tensor(9, dtype=torch.int8, low=-0.9, high=0.9).tolist() == [0] * 9
    assert make_tensor(99, dtype=torch.float64, low=-1e308, high=1.5e308).isfinite().all()
    with pytest.warns(FutureWarning, match="Passing `low==high` to `torch.testing.make_tensor` for floating"):
        assert make_tensor(2, dtype=torch.complex64, low=1, high=1).tolist() == [1 + 1j] * 2


@pytest.mark.parametrize(("options", "rule"), [
    ({"dtype": torch.int32, "low": 1, "high": 1}, "`low` must be less than `high`"),
    ({"dtype": torch.float32, "low": math.nan}, "`low` and `high` cannot be NaN"),
    ({"dtype": torch.uint8, "low": -3, "high": -2}, "the interval has values of the dtype"),
    ({"dtype": torch.int8, "requires_grad": True},
     "`requires_grad=True` is not supported for boolean and integral dtypes"),
    ({"dtype": torch.float32, "noncontiguous": True, "memory_format": torch.contiguous_format},
     "`noncontiguous` and `memory_format` are mutually exclusive"),
])
def test_random_tensors_that_there_are_not(options, rule):
    with pytest.raises(errors.ArgumentError, match=rule):
        make_tensor(2, 2, **options)


def test_assert_close_takes_values_of_related_classes_only():
    for actual, expected in ((torch.zeros(2), torch.zeros(2).numpy()), ("a", "a"), (torch.zeros(1), 0.0)):
        for pair in ((actual, expected), (expected, actual)):
            with pytest.raises(TypeError, match="values are tensors or arrays of related classes, numbers, None, or "
                                                "containers of these"):
                torch.testing.assert_close(*pair)
    parameter = torch.nn.Parameter(torch.zeros(2))
    torch.testing.assert_close(parameter, torch.zeros(2))
    with pytest.raises(TypeError, match="related classes"):
        torch.testing.assert_close(parameter, torch.zeros(2), allow_subclasses=False)
    with pytest.raises(AssertionError, match="None mismatch"):
        torch.testing.assert_close(None, 1)
    torch.testing.assert_close(None, None)


def test_assert_close_of_meta_tensors_compares_attributes():
    torch.testing.assert_close(torch.empty(2, device="meta"), torch.empty(2, device="meta"))
    with pytest.raises(AssertionError, match="'shape'"):
        torch.testing.assert_close(torch.empty(2, device="meta"), torch.empty(3, device="meta"))


def test_assert_close_of_sparse_tensors_compares_how_they_hold_values():
    one = torch.sparse_coo_tensor([[0, 1], [1, 0]], [1, 2], (2, 2))
    two = torch.sparse_coo_tensor([[0, 1, 1], [1, 0, 0]], [1, 1, 1], (2, 2))
    with pytest.raises(AssertionError, match="number of specified values in sparse COO tensors"):
        torch.testing.assert_close(one, two)
    dense = torch.arange(24.0).reshape(2, 3, 4)
    with pytest.raises(AssertionError, match="number of sparse dimensions in sparse COO tensors"):
        torch.testing.assert_close(dense.to_sparse(), dense.to_sparse(2))
