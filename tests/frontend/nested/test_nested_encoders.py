"""Attention layers and encoders over nested tensors, against NumPy for each component."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.nested import nested_tensor
from tensocket_plugins.contract.errors import ArgumentError, UnsupportedOperator

WIDTH, HEADS = 8, 2
LENGTHS = (3, 5, 1)
LAYOUTS = [torch.strided, torch.jagged]


def steps(seed=0):
    generator = np.random.default_rng(seed)
    return [generator.standard_normal((n, WIDTH)) for n in LENGTHS]


def made(layer, seed=1):
    generator = np.random.default_rng(seed)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.from_numpy(generator.standard_normal(tuple(parameter.shape)) / 3))
    return layer


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q, k, v, weight, bias, out_weight, out_bias, mask=0.0):
    """Result and weights of attention of several heads, in NumPy."""
    split = [x @ w.T + b for x, w, b in zip((q, k, v), np.split(weight, 3), np.split(bias, 3), strict=True)]
    q, k, v = (x.reshape(len(x), HEADS, -1).transpose(1, 0, 2) for x in split)
    weights = softmax(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]) + mask)
    return (weights @ v).transpose(1, 0, 2).reshape(q.shape[1], -1) @ out_weight.T + out_bias, weights


def parameters(layer):
    return [x.detach().numpy() for x in (layer.in_proj_weight, layer.in_proj_bias, layer.out_proj.weight,
                                         layer.out_proj.bias)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layer_of_attention(layout):
    layer = made(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=torch.float64))
    parts = steps()
    x = nested_tensor([torch.from_numpy(p) for p in parts], layout=layout, requires_grad=True)
    result, weights = layer(x, x, x)
    assert result.layout is layout
    for part, got, weight in zip(parts, result.unbind(), weights, strict=True):
        expected, expected_weight = attention(part, part, part, *parameters(layer))
        np.testing.assert_allclose(got.detach().numpy(), expected)
        np.testing.assert_allclose(weight[:len(part), :len(part)].detach().numpy(), expected_weight.mean(0))
    result.backward(torch.ones_like(result))
    assert x.grad.unbind()[1].shape == (5, WIDTH)
    assert layer(x, x, x, need_weights=False)[1] is None


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("averaged", [False, True])
def test_native_attention(nested, averaged):
    layer = made(nn.MultiheadAttention(WIDTH, HEADS, dtype=torch.float64))
    given = [layer.in_proj_weight, layer.in_proj_bias, layer.out_proj.weight, layer.out_proj.bias]
    parts = steps()
    x = nested_tensor([torch.from_numpy(p) for p in parts])
    mask = None
    if not nested:
        x = x.to_padded_tensor(0.0)
        mask = torch.tensor([[k >= n for k in range(5)] for n in LENGTHS])
    result, weights = torch._native_multi_head_attention(x, x, x, WIDTH, HEADS, *given, mask, True, averaged,
                                                         mask_type=None if nested else 1)
    for part, got, weight in zip(parts, result, weights, strict=True):
        expected, expected_weight = attention(part, part, part, *parameters(layer))
        np.testing.assert_allclose(got[:len(part)].detach().numpy(), expected)
        np.testing.assert_allclose(weight[..., :len(part), :len(part)].detach().numpy(),
                                   expected_weight.mean(0) if averaged else expected_weight)
    assert torch._native_multi_head_attention(x, x, x, WIDTH, HEADS, *given, need_weights=False)[1] is None


@pytest.mark.parametrize("kind", [0, 2])
def test_native_attention_with_scores(kind):
    layer = made(nn.MultiheadAttention(WIDTH, HEADS, dtype=torch.float64))
    given = [layer.in_proj_weight, layer.in_proj_bias, layer.out_proj.weight, layer.out_proj.bias]
    x = np.random.default_rng(3).standard_normal((2, 4, WIDTH))
    added = np.random.default_rng(4).standard_normal((4, 4) if kind == 0 else (2, HEADS, 4, 4))
    dense = torch.from_numpy(x)
    result, _ = torch._native_multi_head_attention(dense, dense, dense, WIDTH, HEADS, *given, torch.from_numpy(added),
                                                   mask_type=kind)
    for k in range(2):
        expected, _ = attention(x[k], x[k], x[k], *parameters(layer), added if kind == 0 else added[k])
        np.testing.assert_allclose(result[k].detach().numpy(), expected)


def test_projections_become_heads():
    qkv = np.random.default_rng(0).standard_normal((3, 4, 3 * WIDTH))
    bias = np.random.default_rng(1).standard_normal(3 * WIDTH)
    found = torch._transform_bias_rescale_qkv(torch.from_numpy(qkv), torch.from_numpy(bias), num_heads=HEADS)
    for k, (got, scale) in enumerate(zip(found, (0.5, 1, 1), strict=True)):
        part = (qkv + bias)[..., k * WIDTH:(k + 1) * WIDTH] * scale
        np.testing.assert_allclose(got.numpy(), part.reshape(3, 4, HEADS, -1).transpose(0, 2, 1, 3))


def encoder(**options):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, batch_first=True, dtype=torch.float64)
    return made(nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(WIDTH, dtype=torch.float64), **options)).eval()


def test_encoders_leave_out_padding():
    model = encoder()
    padded = nested_tensor([torch.from_numpy(p) for p in steps()]).to_padded_tensor(7.0)
    mask = torch.tensor([[k >= n for k in range(5)] for n in LENGTHS])
    recorded = model(padded, src_key_padding_mask=mask).detach().numpy()
    with torch.no_grad():
        result = model(padded, src_key_padding_mask=mask).numpy()
        scores = torch.zeros(3, 5, dtype=torch.float64).masked_fill(mask, -torch.inf)
        np.testing.assert_allclose(model(padded, src_key_padding_mask=scores).numpy(), result)
        alone = [model(torch.from_numpy(p)[None]).numpy()[0] for p in steps()]
    bias = model.norm.bias.detach().numpy()
    for row, other, part, n in zip(result, recorded, alone, LENGTHS, strict=True):
        np.testing.assert_allclose(row[:n], part)
        np.testing.assert_allclose(other[:n], part)
        # Padded steps are zeros before the last normalisation.
        np.testing.assert_allclose(row[n:], np.broadcast_to(bias, row[n:].shape))
    assert not np.allclose(recorded[0, 3:], bias)


def test_encoders_that_keep_padding():
    padded = nested_tensor([torch.from_numpy(p) for p in steps()]).to_padded_tensor(7.0)
    mask = torch.tensor([[k >= n for k in range(5)] for n in LENGTHS])
    model, without = encoder(), encoder(enable_nested_tensor=False)
    with torch.no_grad():
        kept = without(padded, src_key_padding_mask=mask).numpy()
        bias = without.norm.bias.numpy()
        assert not np.allclose(kept[0, 3:], bias)
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            assert not torch.backends.mha.get_fastpath_enabled()
            np.testing.assert_allclose(model(padded, src_key_padding_mask=mask).numpy(), kept)
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
        left = mask.flip(1)
        np.testing.assert_allclose(model(padded, src_key_padding_mask=left).numpy(),
                                   without(padded, src_key_padding_mask=left).numpy())
    odd = nn.TransformerEncoderLayer(9, 3, 4, batch_first=True)
    assert not nn.TransformerEncoder(odd, 1).use_nested_tensor
    assert not nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 4), 1).use_nested_tensor


def test_refusals():
    layer = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=torch.float64)
    x = nested_tensor([torch.from_numpy(p) for p in steps()])
    given = [layer.in_proj_weight, layer.in_proj_bias, layer.out_proj.weight, layer.out_proj.bias]
    with pytest.raises(ArgumentError, match="query, key and value of attention are all nested, or none is"):
        layer(x, x, x.to_padded_tensor(0.0))
    with pytest.raises(ArgumentError, match="attention of nested tensors takes no masks"):
        layer(x, x, x, key_padding_mask=torch.zeros(3, 5, dtype=torch.bool))
    with pytest.raises(ArgumentError, match="the batch of a nested tensor comes first"):
        nn.MultiheadAttention(WIDTH, HEADS, dtype=torch.float64)(x, x, x)
    dense = x.to_padded_tensor(0.0)
    with pytest.raises(ArgumentError, match="mask_type shouldn't be None when mask is not None"):
        torch._native_multi_head_attention(dense, dense, dense, WIDTH, HEADS, *given, torch.zeros(3, 5))
    with pytest.raises(ArgumentError, match="NestedTensor with mask is not supported yet"):
        torch._native_multi_head_attention(x, x, x, WIDTH, HEADS, *given, torch.zeros(3, 5), mask_type=1)
    with pytest.raises(UnsupportedOperator, match="heads of nested projections are not padded"):
        torch._transform_bias_rescale_qkv(x, layer.in_proj_bias, HEADS)
