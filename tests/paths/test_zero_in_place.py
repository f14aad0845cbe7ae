"""``zero_`` of small arrays: every dtype and layout, counted changes, and what it refuses."""

from __future__ import annotations

import pytest

import tensocket as ts


@pytest.mark.parametrize("dtype", [ts.float32, ts.float16, ts.bfloat16, ts.int8, ts.bool, ts.complex64])
def test_all_elements_are_zero(dtype: ts.dtype) -> None:
    x = ts.ones(4, 3).to(dtype)
    version = x._version
    assert x.zero_() is x
    assert x._version == version + 1
    assert not x.to(ts.complex64).abs().any()


def test_views_share_the_count_and_other_layouts_are_zeroed() -> None:
    x = ts.ones(4, 6)
    part = x[:, ::2]
    version = x._version
    part.zero_()
    assert x.sum() == 12
    assert x._version == version + 1
    assert ts.ones(1 << 16).zero_().sum() == 0


def test_a_leaf_and_an_inference_tensor_are_refused() -> None:
    with pytest.raises(RuntimeError):
        ts.ones(2, requires_grad=True).zero_()
    with ts.inference_mode():
        x = ts.ones(2)
    with pytest.raises(RuntimeError):
        x.zero_()
    assert x.sum() == 2


def test_a_gradient_of_overwritten_values_is_zero() -> None:
    x = ts.ones(2, requires_grad=True)
    y = x * 3
    y.zero_()
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]
