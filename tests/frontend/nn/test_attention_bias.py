"""Causal masks as objects, against attention in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket.nn.attention import SDPBackend
from tensocket.nn.attention.bias import CausalBias, CausalVariant, causal_lower_right, causal_upper_left
from tensocket.nn.functional import scaled_dot_product_attention

RNG = np.random.default_rng(5)


def attention(query, key, value, mask):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    weights = np.exp(np.where(mask, scores, -np.inf))
    return weights / weights.sum(-1, keepdims=True) @ value


@pytest.mark.parametrize(("make", "offset"), [(causal_upper_left, 0), (causal_lower_right, 2)])
def test_attention_with_a_triangle(make, offset):
    query, key, value = (RNG.normal(size=(2, 3, n, 4)) for n in (3, 5, 5))
    bias = make(3, 5)
    assert isinstance(bias, CausalBias)
    assert bias._materialize().tolist() == np.tri(3, 5, offset, dtype=bool).tolist()
    assert repr(bias) == repr(torch.tensor(np.tri(3, 5, offset, dtype=bool)))
    found = scaled_dot_product_attention(*map(torch.tensor, (query, key, value)), attn_mask=bias)
    np.testing.assert_allclose(found.numpy(), attention(query, key, value, np.tri(3, 5, offset)), rtol=1e-9)


def test_more_queries_than_keys_leave_rows_empty():
    with pytest.warns(UserWarning, match="Lower right causal bias will produce NaNs"):
        causal_lower_right(5, 3)


def test_errors():
    x = torch.ones(1, 1, 2, 4)
    with pytest.raises(ValueError, match="there is one mask"):
        scaled_dot_product_attention(x, x, x, causal_upper_left(2, 2), is_causal=True)
    with pytest.raises(TypeError, match="the variant is a CausalVariant"):
        CausalBias(1, 2, 2)
    with pytest.raises(ValueError, match="there is one size for queries and one for keys"):
        causal_upper_left(2)


def test_forms_of_attention_are_no_numbers_but_have_one():
    assert str(SDPBackend.FLASH_ATTENTION) == "SDPBackend.FLASH_ATTENTION"
    assert repr(SDPBackend.MATH) == "<SDPBackend.MATH: 0>"
    assert not isinstance(SDPBackend.MATH, int)
    assert int(SDPBackend.CUDNN_ATTENTION) == 3
    assert [10, 11][SDPBackend.FLASH_ATTENTION] == 11
    assert CausalVariant.UPPER_LEFT == 1
