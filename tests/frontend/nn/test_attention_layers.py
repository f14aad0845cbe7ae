"""Attention and transformers against NumPy."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import ArgumentError, ShapeError
from tensocket.nn import functional as F

RNG = np.random.default_rng(10)
QUERY, MEMORY = RNG.normal(size=(5, 3, 8)), RNG.normal(size=(6, 3, 8))
CAUSAL = np.triu(np.ones((5, 5), bool), 1)
PADDING = np.zeros((3, 6), bool)
PADDING[1, 4:] = True


def t(values):
    return torch.tensor(values)


def close(result, expected):
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-9, atol=1e-10)


def weights_of(module):
    """The module's parameters, with zeros for biases that it has not."""
    found = {name: value.numpy() for name, value in module.state_dict().items()}
    return lambda name: found.get(name, 0.0)


def attention(p, prefix, query, memory, heads, blocked):
    """Attention of (L, N, E) to (S, N, E); ``blocked`` broadcasts to (N, heads, L, S)."""
    weight, bias = p(f"{prefix}in_proj_weight"), p(f"{prefix}in_proj_bias") + np.zeros(24)
    q, k, v = (x @ w.T + b for x, w, b in zip((query, memory, memory), np.split(weight, 3), np.split(bias, 3),
                                              strict=True))
    q, k, v = (x.reshape(*x.shape[:2], heads, -1).transpose(1, 2, 0, 3) for x in (q, k, v))
    scores = np.where(blocked, -np.inf, q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]))
    seen = np.exp(scores - scores.max(-1, keepdims=True))
    seen /= seen.sum(-1, keepdims=True)
    joined = (seen @ v).transpose(2, 0, 1, 3).reshape(query.shape)
    return joined @ p(f"{prefix}out_proj.weight").T + p(f"{prefix}out_proj.bias"), seen


def norm(p, name, x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * p(f"{name}.weight") + p(f"{name}.bias")


def forward(p, prefix, x, activation):
    hidden = activation(x @ p(f"{prefix}linear1.weight").T + p(f"{prefix}linear1.bias"))
    return hidden @ p(f"{prefix}linear2.weight").T + p(f"{prefix}linear2.bias")


def relu(x):
    return np.maximum(x, 0)


def gelu(x):
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def residuals(p, prefix, x, blocks, norm_first):
    for number, block in enumerate(blocks, 1):
        name = f"{prefix}norm{number}"
        x = x + block(norm(p, name, x)) if norm_first else norm(p, name, x + block(x))
    return x


def encoder_layer(p, prefix, x, blocked, activation=relu, norm_first=False):
    return residuals(p, prefix, x, [lambda x: attention(p, f"{prefix}self_attn.", x, x, 2, blocked)[0],
                                    lambda x: forward(p, prefix, x, activation)], norm_first)


def decoder_layer(p, prefix, x, memory, blocked, padding, activation=relu, norm_first=False):
    return residuals(p, prefix, x, [
        lambda x: attention(p, f"{prefix}self_attn.", x, x, 2, blocked)[0],
        lambda x: attention(p, f"{prefix}multihead_attn.", x, memory, 2, padding)[0],
        lambda x: forward(p, prefix, x, activation)], norm_first)


def randomised(module):
    """Other values for all parameters, norms and biases included."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(t(RNG.normal(size=tuple(parameter.shape)) * 0.5))
    return module.double()


@pytest.mark.parametrize("bias", [True, False])
def test_attention_of_several_heads(bias):
    layer = randomised(nn.MultiheadAttention(8, 2, bias=bias, dtype=torch.float64))
    expected, seen = attention(weights_of(layer), "", QUERY, MEMORY, 2, PADDING[:, None, None])
    given = t(QUERY), t(MEMORY), t(MEMORY)
    output, weights = layer(*given, key_padding_mask=t(PADDING))
    close(output, expected)
    close(weights, seen.mean(1))
    output, weights = layer(*given, key_padding_mask=t(PADDING), average_attn_weights=False)
    close(weights, seen)
    output, weights = layer(*given, key_padding_mask=t(PADDING), need_weights=False)
    close(output, expected)
    assert weights is None
    alone = layer(t(QUERY[:, 0]), t(MEMORY[:, 0]), t(MEMORY[:, 0]))[0]
    close(alone, attention(weights_of(layer), "", QUERY, MEMORY, 2, False)[0][:, 0])


def test_masks_of_attention():
    layer = randomised(nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64))
    x = t(QUERY.swapaxes(0, 1).copy())
    expected = attention(weights_of(layer), "", QUERY, QUERY, 2, CAUSAL)[0].swapaxes(0, 1)
    scores = np.where(CAUSAL, -np.inf, 0.0)
    for mask in (t(CAUSAL), t(scores), t(np.broadcast_to(CAUSAL, (6, 5, 5)).copy())):
        for causal in (False, True):
            close(layer(x, x, x, attn_mask=mask, is_causal=causal)[0], expected)
    with pytest.raises(ArgumentError, match="is_causal says what attn_mask is"):
        layer(x, x, x, is_causal=True)


def test_keys_and_values_of_other_sizes():
    layer = nn.MultiheadAttention(8, 2, kdim=3, vdim=5)
    assert list(layer.state_dict()) == ["q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias",
                                        "out_proj.weight", "out_proj.bias"]
    # With the identity before it, a layer of equal sizes does the same.
    same = nn.MultiheadAttention(8, 2)
    pieces = [F.pad(w, (0, 8 - w.shape[1])) for w in (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)]
    state = layer.state_dict()
    same.load_state_dict({"in_proj_weight": torch.cat(pieces), **{k: state[k] for k in list(state)[3:]}})
    query, key, value = torch.randn(5, 2, 8), torch.randn(6, 2, 3), torch.randn(6, 2, 5)
    wide = same(query, F.pad(key, (0, 5)), F.pad(value, (0, 3)))[0]
    np.testing.assert_allclose(layer(query, key, value)[0].detach().numpy(), wide.detach().numpy(), rtol=1e-4,
                               atol=1e-5)


def test_further_keys():
    layer = nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True)
    assert list(layer.state_dict()) == ["in_proj_weight", "in_proj_bias", "bias_k", "bias_v", "out_proj.weight",
                                        "out_proj.bias"]
    x = torch.randn(5, 3, 8)
    weights = layer(x, x, x)[1]
    assert weights.shape == (3, 5, 7)
    np.testing.assert_allclose(weights.sum(-1).detach().numpy(), 1, rtol=1e-5)
    plain = nn.MultiheadAttention(8, 2)
    assert (plain.bias_k, plain.bias_v) == (None, None)


def test_both_masks_as_one():
    layer = nn.MultiheadAttention(8, 2)
    query, square, padding = torch.zeros(3, 5, 8), t(CAUSAL), t(np.array([[False] * 4 + [True]] * 3))
    assert layer.merge_masks(None, None, query) == (None, None)
    assert layer.merge_masks(None, padding, query)[1] == 1
    merged, kind = layer.merge_masks(square, padding, query)
    assert kind == 2
    expected = CAUSAL | padding.numpy()[:, None, None]
    np.testing.assert_array_equal(merged.numpy(), np.broadcast_to(expected, (3, 2, 5, 5)))
    assert layer.merge_masks(square.expand(6, 5, 5), None, query)[0].shape == (3, 2, 5, 5)


def test_sizes_of_heads():
    with pytest.raises(AssertionError, match="embed_dim must be divisible by num_heads"):
        nn.MultiheadAttention(4, 3)
    with pytest.raises(ArgumentError, match="embed_dim and num_heads must be greater than 0"):
        nn.MultiheadAttention(0, 3)


def test_initial_values():
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(32, 4)
    bound = math.sqrt(6 / (32 + 96))
    assert 0.98 * bound < layer.in_proj_weight.abs().max().item() <= bound
    assert not layer.in_proj_bias.any()
    assert not layer.out_proj.bias.any()


STYLES = [({}, relu, False), ({"activation": "gelu", "norm_first": True}, gelu, True),
          ({"activation": F.gelu, "bias": False}, gelu, False)]


@pytest.mark.parametrize(("options", "activation", "norm_first"), STYLES)
def test_layers_of_encoders(options, activation, norm_first):
    layer = randomised(nn.TransformerEncoderLayer(8, 2, 7, 0.3, **options)).eval()
    close(layer(t(QUERY), t(CAUSAL)), encoder_layer(weights_of(layer), "", QUERY, CAUSAL, activation, norm_first))
    close(layer(t(MEMORY), src_key_padding_mask=t(PADDING)),
          encoder_layer(weights_of(layer), "", MEMORY, PADDING[:, None, None], activation, norm_first))


@pytest.mark.parametrize(("options", "activation", "norm_first"), STYLES)
def test_layers_of_decoders(options, activation, norm_first):
    layer = randomised(nn.TransformerDecoderLayer(8, 2, 7, batch_first=True, **options)).eval()
    expected = decoder_layer(weights_of(layer), "", QUERY, MEMORY, CAUSAL, PADDING[:, None, None], activation,
                             norm_first)
    result = layer(t(QUERY.swapaxes(0, 1).copy()), t(MEMORY.swapaxes(0, 1).copy()), t(CAUSAL),
                   memory_key_padding_mask=t(PADDING), tgt_is_causal=True)
    close(result, expected.swapaxes(0, 1))


def test_transformers_are_encoders_and_decoders():
    model = randomised(nn.Transformer(8, 2, 2, 2, 7)).eval()
    p = weights_of(model)
    memory = MEMORY
    for number in range(2):
        memory = encoder_layer(p, f"encoder.layers.{number}.", memory, PADDING[:, None, None])
    memory, x = norm(p, "encoder.norm", memory), QUERY
    for number in range(2):
        x = decoder_layer(p, f"decoder.layers.{number}.", x, memory, CAUSAL, PADDING[:, None, None])
    mask = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    np.testing.assert_array_equal(mask.numpy(), np.where(CAUSAL, -np.inf, 0))
    result = model(t(MEMORY), t(QUERY), tgt_mask=mask, src_key_padding_mask=t(PADDING),
                   memory_key_padding_mask=t(PADDING))
    close(result, norm(p, "decoder.norm", x))


def test_copies_of_layers_start_alike():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 7), 3)
    first, _, last = (layer.state_dict() for layer in encoder.layers)
    assert all(first[name].equal(last[name]) for name in first)
    assert encoder.layers[0].linear1.weight is not encoder.layers[1].linear1.weight
    copied = copy.deepcopy(encoder)
    assert copied.layers[0].activation is F.relu


def test_layers_are_told_whether_a_mask_is_causal():
    class Spy(nn.Module):
        def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=None):
            told.append(is_causal)
            return src

    told = []
    encoder = nn.TransformerEncoder(Spy(), 1)
    encoder(t(QUERY), t(CAUSAL))
    encoder(t(QUERY), t(np.where(CAUSAL, -np.inf, 0.0)))
    encoder(t(QUERY), t(~CAUSAL))
    encoder(t(QUERY))
    encoder(t(QUERY), t(CAUSAL), is_causal=False)
    assert told == [True, True, False, False, False]


def test_dropout_of_layers():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 7, 0.5)
    assert not layer(t(QUERY).float()).equal(layer(t(QUERY).float()))
    assert layer.eval()(t(QUERY).float()).equal(layer(t(QUERY).float()))


def test_what_transformers_refuse():
    model = nn.Transformer(8, 2, 1, 1, 7)
    with pytest.raises(ShapeError, match="the batch number of src and tgt must be equal"):
        model(torch.ones(4, 3, 8), torch.ones(4, 2, 8))
    with pytest.raises(ShapeError, match="the feature number of src and tgt must be equal to d_model"):
        model(torch.ones(4, 2, 8), torch.ones(4, 2, 6))
    with pytest.raises(RuntimeError, match="activation should be relu/gelu, or a function"):
        nn.TransformerEncoderLayer(8, 2, activation="tanh")


def test_static_keys_exclude_further_ones_and_shapes_are_asserted():
    x = torch.ones(2, 1, 4)
    given = (4, 2, torch.ones(12, 4), torch.ones(12))
    rest = (False, 0.0, torch.ones(4, 4), torch.ones(4))
    extra, static = torch.ones(1, 1, 4), torch.ones(2, 2, 2)
    with pytest.raises(AssertionError, match="bias cannot be added to static keys or values"):
        torch.nn.functional.multi_head_attention_forward(x, x, x, *given, extra, extra, *rest, static_k=static)
    with pytest.raises(AssertionError, match="the heads divide E"):
        torch.nn.functional.multi_head_attention_forward(x, x[0], x, *given, None, None, *rest)
    with pytest.raises(AssertionError, match=r"a mask is \(L, S\)"):
        torch.nn.functional.multi_head_attention_forward(x, x, x, *given, None, None, *rest, attn_mask=torch.ones(3))
