"""Images without elements, layouts that come from weights, and functions at the ends of their domain."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.nn import functional as F


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_images_of_no_channels_have_results_of_none_and_gradients_of_0(dims: int, transposed: bool) -> None:
    x = torch.ones(2, 0, *[6] * dims, requires_grad=True)
    weight = torch.ones(*((0, 4) if transposed else (4, 0)), *[3] * dims, requires_grad=True)
    bias = torch.ones(4, requires_grad=True)
    function = getattr(F, f"conv{'_transpose' if transposed else ''}{dims}d")
    for image in (x, x[0]):
        for _ in range(2):  # the second call knows the shapes
            result = function(image, weight, bias)
        assert result.shape[-dims - 1] == 0
        assert result.shape[-1] == (8 if transposed else 4)
        gradients = torch.autograd.grad(result.sum(), (x, weight, bias), allow_unused=True)
        assert all(g is not None and not g.any() for g in gradients)


@pytest.mark.parametrize("function", ["conv2d", "conv_transpose2d"])
@pytest.mark.parametrize("image", [True, False])
@pytest.mark.parametrize("filters", [True, False])
@pytest.mark.parametrize("size", [1, 3])
def test_channels_are_last_where_those_of_the_image_or_the_weight_are(function: str, image: bool, filters: bool,
                                                                        size: int) -> None:
    x, weight = torch.randn(2, 4, 5, 6), torch.randn(4, 4, size, size)
    wanted = getattr(F, function)(x, weight)
    if image:
        x = x.contiguous(memory_format=torch.channels_last)
    if filters and size > 1:
        weight = weight.contiguous(memory_format=torch.channels_last)
    if filters and size == 1:  # strides of sizes of 1 say which layout is meant
        weight = weight.to(memory_format=torch.channels_last)
        assert weight.stride() == (4, 1, 4, 4)
        assert weight.to(memory_format=torch.contiguous_format).stride() == (4, 1, 1, 1)
    result = getattr(F, function)(x, weight)
    last = image or filters
    assert result.is_contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
    torch.testing.assert_close(result, wanted, rtol=1e-5, atol=1e-5)


def test_conv_tbc() -> None:
    rng = np.random.default_rng(0)
    x, weight, bias = rng.standard_normal((5, 2, 3)), rng.standard_normal((3, 3, 4)), rng.standard_normal(4)
    padded = np.pad(x, ((1, 1), (0, 0), (0, 0)))
    wanted = np.stack([sum(padded[t + k] @ weight[k] for k in range(3)) + bias for t in range(5)])
    given = [torch.tensor(a, requires_grad=True) for a in (x, weight, bias)]
    np.testing.assert_allclose(F.conv_tbc(*given, 1).detach().numpy(), wanted, rtol=1e-12)
    assert torch.autograd.gradcheck(lambda *a: torch.conv_tbc(*a, pad=2), given)
    with pytest.raises(RuntimeError, match=re.escape("they are [T, B, C], [K, C, O] and [O]")):
        F.conv_tbc(given[0], given[1], given[1])


def test_a_linear_layer_with_a_vector_has_gradients() -> None:
    for shape in ((3,), (5, 3), (2, 5, 3)):
        given = [torch.randn(*shape, dtype=torch.float64, requires_grad=True),
                 torch.randn(3, dtype=torch.float64, requires_grad=True)]
        assert torch.autograd.gradcheck(F.linear, given)
        assert torch.autograd.gradgradcheck(F.linear, given)


def test_integers_are_padded_with_a_float() -> None:
    assert F.pad(torch.tensor([1, 2]), (1, 0), "constant", 1.0).tolist() == [1, 1, 2]
    assert F.pad(torch.tensor([1, 2], dtype=torch.uint8), (0, 1), value=7.0).tolist() == [1, 2, 7]


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_only_batches_may_be_empty_where_borders_are_made_of_elements(mode: str, dims: int) -> None:
    assert F.pad(torch.empty(0, 3, *[6] * dims), (1, 1) * dims, mode).shape == (0, 3, *[8] * dims)
    rule = f"a {dims + 1}D or {dims + 2}D (batch mode) tensor has no size of 0 but that of its batch"
    with pytest.raises(RuntimeError, match=re.escape(rule)):
        F.pad(torch.empty(3, 0, *[6] * dims), (1, 1) * dims, mode)


@pytest.mark.parametrize(("function", "at_nan", "inside"), [
    (F.hardtanh, 1.0, 1.0), (F.relu6, 1.0, 1.0), (F.hardsigmoid, 0.0, 1 / 6)])
def test_slopes_of_limits_at_nan(function: Any, at_nan: float, inside: float) -> None:
    x = torch.tensor([float("nan"), 0.5, -9.0], requires_grad=True)
    slopes = torch.autograd.grad(function(x).sum(), x)[0]
    np.testing.assert_allclose(slopes.numpy(), [at_nan, inside, 0.0], rtol=1e-6)


def test_empty_batches_leave_running_statistics_alone() -> None:
    layer = nn.BatchNorm2d(3)
    result = layer(torch.empty(0, 3, 2, 2, requires_grad=True))
    result.sum().backward()
    assert result.shape == (0, 3, 2, 2)
    assert layer.running_mean.tolist() == [0.0] * 3
    assert layer.running_var.tolist() == [1.0] * 3
    assert layer.weight.grad.tolist() == [0.0] * 3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("mode", "scale"), [("nearest", 20), ("nearest", 0.4), ("nearest-exact", 7.5)])
def test_gradients_of_nearest_elements_are_rounded_once(dtype: Any, mode: str, scale: float) -> None:
    x = torch.zeros(1, 2, 11, 7, dtype=dtype, requires_grad=True)
    result = F.interpolate(x, scale_factor=scale, mode=mode)
    upstream = torch.randn(result.shape, dtype=dtype)
    exact = torch.zeros(1, 2, 11, 7, dtype=torch.float64)
    shift = 0.5 if mode == "nearest-exact" else 0.0
    rows = [min(int((k + shift) / scale), 10) for k in range(result.shape[2])]
    columns = [min(int((k + shift) / scale), 6) for k in range(result.shape[3])]
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            exact[:, :, row, column] += upstream[:, :, i, j].double()
    found = torch.autograd.grad(result, x, upstream)[0]
    assert found.dtype is dtype
    limit = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}[dtype]
    assert ((found.double() - exact).abs() <= limit * exact.abs() + 1e-5).all()


def test_nearest_elements_differentiate_twice() -> None:
    x = torch.randn(1, 1, 3, 4, dtype=torch.float64, requires_grad=True)
    function = lambda a: F.interpolate(a * a, (5, 2), mode="nearest")
    assert torch.autograd.gradcheck(function, x)
    assert torch.autograd.gradgradcheck(function, x)


def test_grids_of_images_without_channels_and_of_nearest_points() -> None:
    assert F.grid_sample(torch.empty(2, 0, 3, 4), torch.zeros(2, 5, 6, 2), align_corners=False).shape == (2, 0, 5, 6)
    grid = torch.zeros(2, 5, 6, 2, requires_grad=True)
    result = F.grid_sample(torch.randn(2, 3, 4, 4), grid, mode="nearest", align_corners=False)
    slope = torch.autograd.grad(result.sum(), grid)[0]
    assert slope.shape == grid.shape
    assert not slope.any()


def test_affine_grids_go_back_twice_and_warn_of_single_points() -> None:
    theta = torch.randn(2, 2, 3, dtype=torch.float64, requires_grad=True)
    for align in (False, True):
        assert torch.autograd.gradcheck(lambda a: F.affine_grid(a, [2, 1, 3, 4], align_corners=align), theta)  # noqa: B023
        assert torch.autograd.gradgradcheck(
            lambda a: F.affine_grid(a, [2, 1, 3, 4], align_corners=align), theta)  # noqa: B023
    grid = F.affine_grid(theta, [2, 1, 3, 4], align_corners=False)
    first = torch.autograd.grad(grid, theta, torch.ones_like(grid))[0]  # nothing was saved that could be freed
    assert torch.equal(first, torch.autograd.grad(grid, theta, torch.ones_like(grid))[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        F.affine_grid(theta, [2, 1, 3, 1], align_corners=False)
    with pytest.warns(UserWarning, match="See the documentation of affine_grid"):
        F.affine_grid(theta, [2, 1, 3, 1], align_corners=True)


def test_gradients_of_gradients_of_empty_results_are_checked() -> None:
    layer = nn.Conv1d(4, 5, 3).double()
    x = torch.empty(0, 4, 10, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(layer, x)


@pytest.mark.parametrize("function", [
    lambda r: F.mse_loss(torch.zeros(2), torch.zeros(2), reduction=r),
    lambda r: F.cross_entropy(torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64), reduction=r),
    lambda r: F.huber_loss(torch.zeros(2), torch.zeros(2), reduction=r),
    lambda r: F.gaussian_nll_loss(torch.zeros(2), torch.zeros(2), torch.ones(2), reduction=r),
])
def test_functions_take_reductions_by_name_only(function: Any) -> None:
    function("sum")
    with pytest.raises(ValueError, match="'none', 'mean' or 'sum'"):
        function(1)


def test_samples_of_fractional_pooling_have_any_float_dtype() -> None:
    samples = torch.rand(2, 4, 3, dtype=torch.float64)
    x = torch.randn(2, 4, 5, 5, 5)
    result = F.fractional_max_pool3d(x, 2, output_ratio=0.5, _random_samples=samples)
    torch.testing.assert_close(result, F.fractional_max_pool3d(x, 2, output_ratio=0.5, _random_samples=samples.float()))


@pytest.mark.parametrize("kind", ["adaptive_avg_pool", "adaptive_max_pool"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_pooling_to_nothing_has_no_way_back(kind: str, dims: int) -> None:
    function = getattr(F, f"{kind}{dims}d")
    x = torch.ones(2, 3, *[4] * dims, requires_grad=True)
    result = function(x, 0)
    assert result.shape == (2, 3, *[0] * dims)
    with pytest.raises(RuntimeError, match="Expected grad_output to have non-zero size for non-batch dimensions"):
        result.sum().backward()
    assert function(torch.empty(0, *[4] * dims), 2).shape == (0, *[2] * dims)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_slope_of_silu_is_rounded_once(dtype: Any) -> None:
    x = torch.arange(-8, 8, 1 / 64).to(dtype).requires_grad_()
    wide = x.detach().double().numpy()
    s = 1 / (1 + np.exp(-wide))
    found = torch.autograd.grad(torch.nn.functional.silu(x).sum(), x)[0].double().numpy()
    step = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}[dtype]
    np.testing.assert_allclose(found, s * (1 + wide * (1 - s)), rtol=step * 1.01, atol=3e-7)


def test_second_gradients_of_silu() -> None:
    x = torch.linspace(-4, 4, 9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(F.silu, x)


def test_activations_write_to_out() -> None:
    x, out = torch.tensor([-2.0, 0.25, 3.0]), torch.empty(3)
    assert F.softshrink(x, 0.5, out=out) is out
    np.testing.assert_allclose(out.numpy(), [-1.5, 0, 2.5])
    assert F.softplus(x, out=out) is out
    np.testing.assert_allclose(out.numpy(), np.log1p(np.exp(x.numpy())), rtol=1e-6)
    assert F.logsigmoid(x, out=out) is out
    np.testing.assert_allclose(out.numpy(), -np.log1p(np.exp(-x.numpy())), rtol=1e-6)
    wide = torch.randn(1, 6).expand(6, 6)
    with pytest.raises(RuntimeError):
        F.softshrink(wide, out=wide)


@pytest.mark.parametrize("make", [
    lambda x, w, b: F.layer_norm(x, (4,), w, b),
    lambda x, w, b: F.group_norm(x, 2, w, b),
    lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
    lambda x, w, b: F.instance_norm(x.unsqueeze(-1).expand(3, 4, 2), weight=w, bias=b),
])
def test_parameters_of_normalisation_have_the_dtype_of_the_input(make: Any) -> None:
    x, weight, bias = torch.randn(3, 4), torch.ones(4), torch.zeros(4)
    wanted = make(x.bfloat16(), weight.bfloat16(), bias.bfloat16())
    mixed = make(x.bfloat16(), weight, bias)
    assert mixed.dtype is torch.bfloat16
    torch.testing.assert_close(mixed, wanted)
    rule = "parameters have the input's dtype, or are float32 for an input in half precision"
    for pair in ((weight.double(), bias.double()), (weight, bias.double()), (weight.int(), None)):
        with pytest.raises(RuntimeError, match=rule):
            make(x, *pair)


def test_statistics_of_a_batch_alone() -> None:
    x = np.random.default_rng(0).standard_normal((4, 3, 5))
    mean, var = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    found = torch.batch_norm_update_stats(torch.tensor(x), mean, var, 0.25)
    np.testing.assert_allclose(found[0].numpy(), x.mean((0, 2)))
    np.testing.assert_allclose(found[1].numpy(), x.var((0, 2)))
    np.testing.assert_allclose(mean.numpy(), 0.25 * x.mean((0, 2)))
    np.testing.assert_allclose(var.numpy(), 0.75 + 0.25 * x.var((0, 2), ddof=1))
    with pytest.raises(RuntimeError, match="the input has at least one element"):
        torch.batch_norm_update_stats(torch.empty(0, 3), mean[:3].float(), None, 0.1)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_the_last_bag_goes_to_the_end(mode: str) -> None:
    table, index = torch.randn(9, 3), torch.tensor([0, 1, 2, 3])
    wanted = F.embedding_bag(index, table, torch.tensor([0, 3]), mode=mode)
    for last in (3, 4):
        found = F.embedding_bag(index, table, torch.tensor([0, 3, last]), mode=mode, include_last_offset=True)
        assert torch.equal(found, wanted)


def test_samples_of_fractional_pooling_may_be_for_more_images() -> None:
    samples, x = torch.rand(2, 4, 3), torch.randn(4, 5, 5, 5)
    found = F.fractional_max_pool3d(x, 2, output_ratio=0.5, _random_samples=samples)
    assert torch.equal(found, F.fractional_max_pool3d(x, 2, output_ratio=0.5, _random_samples=samples[:1]))
    with pytest.raises(RuntimeError, match="there are 3 random numbers for each image and channel"):
        F.fractional_max_pool3d(x, 2, output_ratio=0.5, _random_samples=samples[:, :2])


def test_a_row_takes_one_of_its_own_elements() -> None:
    x = torch.arange(6).reshape(2, 3)
    x[1] = x[1][2]
    x[0] = x[0, 1]
    assert x.tolist() == [[1, 1, 1], [5, 5, 5]]


def test_the_mean_loss_of_no_probabilities_is_nan() -> None:
    assert F.cross_entropy(torch.empty(0, 3), torch.empty(0, 3)).isnan().item()
    assert F.cross_entropy(torch.empty(0, 3), torch.empty(0, 3), reduction="sum").item() == 0


def test_states_of_spectral_normalisation_have_a_version() -> None:
    layer = nn.utils.spectral_norm(nn.Linear(3, 5))
    x = torch.randn(2, 3)
    layer(x)
    state = layer.state_dict()
    assert state._metadata[""]["spectral_norm"] == {"weight.version": 1}
    old = state.copy()
    old._metadata = {"": {"version": 1}}
    old["weight"] = layer.weight.detach().clone()
    del old["weight_v"]
    wanted = layer.eval()(x)
    other = nn.utils.spectral_norm(nn.Linear(3, 5))
    other.load_state_dict(old)
    torch.testing.assert_close(other.eval()(x), wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError, match="weight_u"):
        other.load_state_dict({k: v for k, v in old.items() if k != "weight_u"})
    plain = nn.utils.remove_spectral_norm(other)
    assert set(plain.state_dict()) == {"weight", "bias"}
    assert "spectral_norm" not in plain.state_dict()._metadata[""]
    twice = nn.utils.spectral_norm(plain)
    twice._register_state_dict_hook(next(iter(twice._state_dict_hooks.values())))
    with pytest.raises(RuntimeError, match="a state has one version of each weight"):
        twice.state_dict()
