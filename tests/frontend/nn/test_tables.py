"""Tables of vectors, bilinear layers and small helpers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import ArgumentError, ShapeError
from tensocket.nn.modules import utils

RNG = np.random.default_rng(12)
TABLE = RNG.normal(size=(6, 4))
BAGS = np.array([[0, 2, 2], [5, 1, 0]])
REDUCE = {"sum": lambda x: x.sum(1), "mean": lambda x: x.mean(1), "max": lambda x: x.max(1)}


def t(values):
    return torch.tensor(values)


def test_rows_are_limited_when_they_are_looked_up():
    layer = nn.Embedding.from_pretrained(t(TABLE.copy()), max_norm=1.0, norm_type=1.0)
    found = layer(t([0, 3])).numpy()
    norms = np.abs(TABLE).sum(1, keepdims=True)
    expected = TABLE * np.where(norms > 1, 1 / norms, 1)
    np.testing.assert_allclose(found, expected[[0, 3]], rtol=1e-5)
    np.testing.assert_allclose(layer.weight.numpy()[[0, 3]], expected[[0, 3]], rtol=1e-5)
    np.testing.assert_array_equal(layer.weight.numpy()[1], TABLE[1])


def test_gradients_by_frequency_and_without_padding():
    layer = nn.Embedding(6, 4, padding_idx=2, scale_grad_by_freq=True)
    layer(t([0, 0, 1, 2, 2])).sum().backward()
    assert layer.weight.grad[:, 0].tolist() == [1, 1, 0, 0, 0, 0]


@pytest.mark.parametrize("mode", [None, "sum", "mean"])
def test_sparse_gradients_hold_the_rows_that_were_used(mode):
    factors = RNG.normal(size=(*BAGS.shape, 4) if mode is None else (2, 4))
    found = []
    for sparse in (True, False):
        kind, options = (nn.Embedding, {}) if mode is None else (nn.EmbeddingBag, {"mode": mode})
        layer = kind(6, 4, padding_idx=5, sparse=sparse, _weight=t(TABLE.copy()), **options)
        (layer(t(BAGS)) * t(factors)).sum().backward()
        assert layer.weight.grad.is_sparse == sparse
        found.append(layer.weight.grad)
    np.testing.assert_allclose(found[0].to_dense().numpy(), found[1].numpy(), rtol=1e-12)
    assert found[0].coalesce().indices().tolist()[0][:3] == [0, 1, 2]
    optimizer = torch.optim.SparseAdam([sparse := nn.Embedding(6, 4, sparse=True).weight], 0.1)
    before = sparse.detach().clone()
    nn.functional.embedding(t([1, 1, 4]), sparse, sparse=True).sum().backward()
    optimizer.step()
    assert (sparse != before).any(1).tolist() == [False, True, False, False, True, False]


def test_given_tables():
    layer = nn.Embedding(6, 4, _weight=t(TABLE), _freeze=True, padding_idx=1)
    assert not layer.weight.requires_grad
    np.testing.assert_array_equal(layer.weight.numpy(), TABLE)
    assert nn.Embedding.from_pretrained(t(TABLE), freeze=False).weight.requires_grad
    with pytest.raises(ShapeError, match="Shape of weight must match num_embeddings and embedding_dim"):
        nn.Embedding(3, 4, _weight=t(TABLE))
    with pytest.raises(ShapeError, match=r"\[EmbeddingBag.from_pretrained\] .* the table has two dimensions"):
        nn.EmbeddingBag.from_pretrained(t(TABLE[0]))


@pytest.mark.parametrize("mode", REDUCE)
def test_bags(mode):
    layer = nn.EmbeddingBag.from_pretrained(t(TABLE), mode=mode)
    expected = REDUCE[mode](TABLE[BAGS])
    np.testing.assert_allclose(layer(t(BAGS)).numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(layer(t(BAGS.reshape(-1)), t([0, 3])).numpy(), expected, rtol=1e-12)
    ended = nn.EmbeddingBag.from_pretrained(t(TABLE), mode=mode, include_last_offset=True)
    np.testing.assert_allclose(ended(t(BAGS.reshape(-1)), t([0, 3, 6])).numpy(), expected, rtol=1e-12)
    assert not layer.weight.requires_grad


def test_bags_with_weights_and_padding():
    weights = RNG.normal(size=(2, 3))
    layer = nn.EmbeddingBag.from_pretrained(t(TABLE), mode="sum")
    found = layer(t(BAGS), per_sample_weights=t(weights)).numpy()
    np.testing.assert_allclose(found, (TABLE[BAGS] * weights[..., None]).sum(1), rtol=1e-10)
    padded = nn.EmbeddingBag.from_pretrained(t(TABLE), freeze=False, padding_idx=-1)
    np.testing.assert_allclose(padded(t(BAGS))[1].detach().numpy(), TABLE[[1, 0]].mean(0), rtol=1e-10)
    padded(t(BAGS)).sum().backward()
    assert not padded.weight.grad[5].any()
    fresh = nn.EmbeddingBag(6, 4, padding_idx=2)
    assert not fresh.weight[2].any()
    with pytest.raises(ArgumentError, match=r"\[EmbeddingBag\] padding_idx=6 for 6 rows — padding_idx is one of the"):
        nn.EmbeddingBag(6, 4, padding_idx=6)


@pytest.mark.parametrize(("layer", "text"), [
    (nn.Embedding(4, 3, -1, 1.0, 1, True, True),
     "Embedding(4, 3, padding_idx=3, max_norm=1.0, norm_type=1, scale_grad_by_freq=True, sparse=True)"),
    (nn.EmbeddingBag(4, 3), "EmbeddingBag(4, 3, mode='mean')"),
    (nn.EmbeddingBag(4, 3, 1.0, mode="sum", padding_idx=0),
     "EmbeddingBag(4, 3, max_norm=1.0, mode='sum', padding_idx=0)"),
    (nn.Bilinear(2, 3, 4, False), "Bilinear(in1_features=2, in2_features=3, out_features=4, bias=False)")])
def test_printing(layer, text):
    assert repr(layer) == text


@pytest.mark.parametrize("bias", [True, False])
def test_bilinear_layers(bias):
    torch.manual_seed(0)
    layer = nn.Bilinear(4, 3, 5, bias, dtype=torch.float64)
    x, y = RNG.normal(size=(2, 4)), RNG.normal(size=(2, 3))
    expected = np.einsum("ni,kij,nj->nk", x, layer.weight.detach().numpy(), y)
    expected = expected + layer.bias.detach().numpy() if bias else expected
    np.testing.assert_allclose(layer(t(x), t(y)).detach().numpy(), expected, rtol=1e-10)
    assert 0.9 / math.sqrt(4) < layer.weight.abs().max().item() <= 1 / math.sqrt(4)
    with pytest.raises(ArgumentError, match="in1_features must be > 0"):
        nn.Bilinear(0, 3, 5)


def test_sizes_given_as_one_number():
    assert utils._pair(3) == (3, 3)
    assert utils._single([4]) == (4,)
    assert utils._triple((1, 2, 3)) == (1, 2, 3)
    assert utils._quadruple("abcd") == ("a", "b", "c", "d")
    assert utils._ntuple(2)(0.5) == (0.5, 0.5)
    assert utils._reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
    assert utils._list_with_default((None, 3), (7, 8, 9)) == [8, 3]
    assert utils._list_with_default(3, (7,)) == 3
    with pytest.raises(ShapeError, match="Input dimension should be at least one more than the sizes"):
        utils._list_with_default((3, 3), (7, 8))


def test_prefixes_of_states():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    wrapped = nn.Module()
    wrapped.module = model
    state = wrapped.state_dict()
    utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == list(model.state_dict())
    assert state._metadata["1"] == {"version": 2}
    model.load_state_dict(state)


def test_modules_are_where_programs_look_for_them():
    places = {"activation": "MultiheadAttention", "batchnorm": "_BatchNorm", "conv": "_ConvNd", "dropout": "_DropoutNd",
              "instancenorm": "_InstanceNorm", "linear": "NonDynamicallyQuantizableLinear", "loss": "_WeightedLoss",
              "normalization": "GroupNorm", "padding": "_ConstantPadNd", "pooling": "_MaxPoolNd", "rnn": "RNNCellBase",
              "sparse": "EmbeddingBag", "transformer": "_get_clones", "upsampling": "Upsample", "utils": "_pair",
              "adaptive": "AdaptiveLogSoftmaxWithLoss", "fold": "Fold", "container": "Sequential"}
    for module, name in places.items():
        assert hasattr(getattr(nn.modules, module), name), module
    assert issubclass(nn.Conv2d, nn.modules.conv._ConvNd)
    assert isinstance(nn.LazyBatchNorm2d(), nn.modules.batchnorm._BatchNorm)
    assert isinstance(nn.ReLU6(), nn.Hardtanh)
