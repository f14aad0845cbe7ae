"""Normalisations against NumPy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(8)
X = {dims: RNG.normal(size=(4, 3, *(5, 4, 3)[:dims])) * 3 + 1 for dims in (0, 1, 2, 3)}


def t(values):
    return torch.tensor(values)


def close(result, expected):
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-9, atol=1e-10)


def standard(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def per_channel(values, x):
    return np.asarray(values).reshape(-1, *[1] * (x.ndim - 2))


def others(x):
    return (0, *range(2, x.ndim))


@pytest.mark.parametrize("dims", [0, 1, 2, 3])
def test_batches_are_standardised_and_remembered(dims):
    kind = getattr(nn, f"BatchNorm{max(dims, 1)}d")
    layer, x = kind(3, momentum=0.2, dtype=torch.float64), X[dims]
    scale, shift = RNG.normal(size=(2, 3))
    layer.load_state_dict({**layer.state_dict(), "weight": t(scale), "bias": t(shift)})
    close(layer(t(x)), standard(x, others(x)) * per_channel(scale, x) + per_channel(shift, x))
    mean, var = 0.2 * x.mean(others(x)), 0.8 + 0.2 * x.var(others(x), ddof=1)
    close(layer.running_mean, mean)
    close(layer.running_var, var)
    assert layer.num_batches_tracked.item() == 1
    kept = (x - per_channel(mean, x)) / np.sqrt(per_channel(var, x) + 1e-5)
    close(layer.eval()(t(x)), kept * per_channel(scale, x) + per_channel(shift, x))
    assert layer.num_batches_tracked.item() == 1
    layer.reset_running_stats()
    assert layer.running_mean.tolist() == [0] * 3
    assert layer.num_batches_tracked.item() == 0


def test_without_momentum_all_batches_count_alike():
    layer = nn.BatchNorm1d(3, momentum=None, dtype=torch.float64)
    batches = RNG.normal(size=(5, 4, 3))
    for batch in batches:
        layer(t(batch))
    close(layer.running_mean, batches.mean((0, 1)))
    close(layer.running_var, batches.var(1, ddof=1).mean(0))


def test_batches_without_statistics_and_learned_values():
    layer = nn.BatchNorm1d(3, track_running_stats=False, affine=False).eval()
    assert list(layer.state_dict()) == []
    assert (layer.weight, layer.running_mean) == (None, None)
    close(layer.double()(t(X[0])), standard(X[0], 0))
    assert list(nn.BatchNorm2d(3, bias=False).state_dict()) == ["weight", "running_mean", "running_var",
                                                                "num_batches_tracked"]


def test_states_of_the_first_version_have_no_number_of_batches():
    layer = nn.Sequential(nn.BatchNorm1d(3))
    state = layer.state_dict()
    del state["0.num_batches_tracked"], state._metadata
    assert layer.load_state_dict(state).missing_keys == []
    state = layer.state_dict()
    del state["0.num_batches_tracked"]
    with pytest.raises(RuntimeError, match="Missing key"):
        layer.load_state_dict(state)


def test_failed_loads_change_no_statistics():
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))
    state = {name: value + 1 for name, value in model.state_dict().items()}
    state["1.weight"] = torch.zeros(5, 5)
    with pytest.raises(RuntimeError, match="size mismatch"):
        model.load_state_dict(state)
    assert model[0].running_mean.tolist() == [0] * 3


@pytest.mark.parametrize(("layer", "shape", "rule"), [
    (nn.BatchNorm1d(2), (2,), "expected 2D or 3D input"), (nn.BatchNorm2d(2), (2, 2), "expected 4D input"),
    (nn.BatchNorm3d(2), (2, 2, 2, 2), "expected 5D input"), (nn.InstanceNorm1d(2), (2,), "expected 2D or 3D input"),
    (nn.SyncBatchNorm(2), (2,), "expected at least 2D input"),
    (nn.InstanceNorm1d(2, affine=True), (1, 3, 4), "expected input's size at dim=1 to match num_features")])
def test_shapes_that_are_refused(layer, shape, rule):
    with pytest.raises(ShapeError, match=rule):
        layer(torch.ones(*shape))


def test_batch_normalisations_become_synchronised():
    model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.BatchNorm1d(3, momentum=0.3), nn.ReLU())).double().eval()
    model[1][0].running_mean += 1
    x = t(X[0])
    expected, state = model(x), model.state_dict()
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert type(converted[1][0]) is nn.SyncBatchNorm
    assert not converted[1][0].training
    assert converted[1][0].momentum == 0.3
    assert list(converted.state_dict()) == list(state)
    assert converted(x).equal(expected)
    alone = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm2d(3), process_group="group")
    assert alone.process_group == "group"
    close(alone.double()(t(X[2])), standard(X[2], (0, 2, 3)))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_instances_are_standardised(dims):
    x = X[dims]
    axes = tuple(range(2, x.ndim))
    kind = getattr(nn, f"InstanceNorm{dims}d")
    layer = kind(3)
    assert list(layer.state_dict()) == []
    close(layer(t(x)), standard(x, axes))
    close(layer.eval()(t(x[0])), standard(x, axes)[0])
    tracked = kind(3, affine=True, track_running_stats=True, dtype=torch.float64)
    close(tracked(t(x)), standard(x, axes))
    mean, var = 0.1 * x.mean(others(x)), 0.9 + 0.1 * x.var(axes, ddof=1).mean(0)
    close(tracked.running_mean, mean)
    close(tracked.eval()(t(x)), (x - per_channel(mean, x)) / np.sqrt(per_channel(var, x) + 1e-5))


def test_numbers_of_channels_are_warned_of_where_they_do_not_matter():
    with pytest.warns(UserWarning, match="which is not used because affine=False"):
        nn.InstanceNorm1d(2)(torch.ones(1, 3, 4))


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("kind", ["Batch", "Instance"])
def test_lazy_normalisations_count_channels(kind, dims):
    lazy = getattr(nn, f"Lazy{kind}Norm{dims}d")(0.1, 0.3).double()
    x = t(X[dims])
    result = lazy(x)
    plain = getattr(nn, f"{kind}Norm{dims}d")(3, 0.1, 0.3, True, True).double()
    assert type(lazy) is type(plain)
    assert repr(lazy) == repr(plain)
    assert lazy.running_mean.dtype is torch.float64
    assert plain(x).equal(result)
    assert [v.tolist() for v in plain.state_dict().values()] == [v.tolist() for v in lazy.state_dict().values()]


def test_lazy_normalisations_with_less():
    assert nn.LazyBatchNorm1d(affine=False, track_running_stats=False)(torch.ones(2, 3)).shape == (2, 3)
    bare = nn.LazyBatchNorm1d(bias=False)
    bare(torch.ones(2, 3))
    assert bare.bias is None
    single = nn.LazyInstanceNorm2d()
    single(torch.ones(3, 4, 5))
    assert single.num_features == 3


def test_groups_of_channels():
    x = RNG.normal(size=(2, 6, 5))
    expected = standard(x.reshape(2, 3, 10), 2).reshape(x.shape)
    close(nn.GroupNorm(3, 6, dtype=torch.float64)(t(x)), expected)
    layer = nn.GroupNorm(3, 6, affine=False, eps=1e-3)
    close(layer(t(x)), standard(x.reshape(2, 3, 10), 2, 1e-3).reshape(x.shape))
    assert repr(layer) == "GroupNorm(3, 6, eps=0.001, affine=False, bias=False)"
    with pytest.raises(ArgumentError, match="num_channels must be divisible by num_groups"):
        nn.GroupNorm(3, 4)


def test_root_mean_squares():
    x = X[1]
    layer = nn.RMSNorm(5, eps=1e-3, dtype=torch.float64)
    close(layer(t(x)), x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3))
    epsilon = np.finfo(np.float64).eps
    close(nn.RMSNorm((3, 5), elementwise_affine=False)(t(x)),
          x / np.sqrt((x**2).mean((1, 2), keepdims=True) + epsilon))
    assert repr(nn.RMSNorm(3)) == "RMSNorm((3,), eps=None, elementwise_affine=True)"


def test_responses_of_neighbouring_channels():
    x = RNG.normal(size=(2, 7, 3, 3))
    wide = np.pad(x**2, [(0, 0), (2, 2), (0, 0), (0, 0)])
    sums = sum(wide[:, k:k + 7] for k in range(5))
    close(nn.LocalResponseNorm(5, 0.3, 0.6, 2.0)(t(x)), x / (2 + 0.3 * sums / 5) ** 0.6)
    # The older layer counts the first channel for all that come after it.
    sums[:, 3:] += x[:, :1] ** 2
    close(nn.CrossMapLRN2d(5, 0.3, 0.6, 2.0)(t(x)), x / (2 + 0.3 * sums / 5) ** 0.6)
    sums = x**2
    sums[:, 1:] += x[:, :1] ** 2
    close(nn.CrossMapLRN2d(2, 0.3)(t(x)), x / (1 + 0.3 * sums / 2) ** 0.75)
    assert repr(nn.LocalResponseNorm(2)) == "LocalResponseNorm(2, alpha=0.0001, beta=0.75, k=1.0)"


def test_dropping_channels():
    torch.manual_seed(0)
    for dims, kind in ((1, nn.Dropout1d), (2, nn.Dropout2d), (3, nn.Dropout3d)):
        layer = kind(0.4)
        dropped = layer(torch.ones(30, 20, *[2] * dims)).flatten(2).numpy()
        assert (dropped == dropped[..., :1]).all()
        assert set(np.unique(dropped)) == {0.0, np.float32(1 / 0.6)}
        assert abs((dropped == 0).mean() - 0.4) < 0.08
        x = torch.ones(2, 2, *[2] * dims)
        assert layer.eval()(x).equal(x)


def test_dropping_keeps_mean_and_variance():
    torch.manual_seed(0)
    x = torch.randn(200, 100)
    for layer in (nn.AlphaDropout(0.3), nn.FeatureAlphaDropout(0.3)):
        result = layer(x)
        assert abs(result.mean().item()) < 0.05
        assert abs(result.std().item() - 1) < 0.05
        assert layer.eval()(x).equal(x)
    assert repr(nn.AlphaDropout(0.3)) == "AlphaDropout(p=0.3, inplace=False)"


def test_nothing_is_warned_of_otherwise():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.InstanceNorm1d(3)(torch.ones(1, 3, 4))


def test_a_size_is_any_integer():
    assert nn.LayerNorm(np.int64(3)).normalized_shape == nn.RMSNorm(np.int32(3)).normalized_shape == (3,)
