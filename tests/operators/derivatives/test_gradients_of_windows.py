"""Every derivative of operators on images against central differences. A new one without a case fails here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS
from tensocket_operators import functions as f
from tensocket_operators.autograd import gradcheck
from tensocket_operators.nn.convolution import convolution, padding, windows
from tensocket_operators.nn.convolution.im2col import Window, windows_of
from tensocket_operators.nn.pooling import grids, interpolation, points, pooling, resampling, unpooling
from tensocket_operators.nn.pooling.resampling import linear_taps, ordered, resampled

MODULES = (convolution, grids, interpolation, padding, points, pooling, resampling, unpooling, windows)
LINE, IMAGE, CUBE = (1, 1, 3), (1, 1, 3, 2), (1, 1, 2, 2, 2)
WINDOW = Window((2,), (1,), (1,), 1)
WINDOWS = windows_of((4,), (2,), (3,), WINDOW)
PLACES = torch.tensor([[1, 3]], device="ref")
POINTS = torch.tensor([[[1, 0, -1], [2, 2, 1]]], device="ref")
SAMPLES = torch.full((1, 1, 3), 0.4, dtype=torch.float64, device="ref")


def record(name: str, *rest: Any, first: bool = False) -> Callable[..., Any]:
    """A record with its last arguments; of several results the first."""
    operator = OPERATORS[name]
    return lambda *tensors: call(operator, *tensors, *rest)[0] if first else call(operator, *tensors, *rest)


def unpooled(dims: int) -> Callable[..., Any]:
    places = torch.zeros((1, 1, *(1,) * dims), dtype=torch.int64, device="ref") + 1
    return lambda x: getattr(f, f"max_unpool{dims}d")(x, places, 2)


Case = tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]
RECORDS: dict[str, Case] = {
    "resample": (record("resample", -2, linear_taps(3, 4, False, None, True)), (IMAGE,)),
    "grid_points": (lambda g: call(OPERATORS["grid_points"], g.tanh(), (2, 3), "bilinear", "border", False)[0],
                    ((1, 2, 2),)),
    "fold_columns": (record("fold_columns", WINDOWS), ((1, 3, 2),)),
    "unfold_columns": (record("unfold_columns", WINDOWS), ((1, 4),)),
    "pool_max": (record("pool_max", WINDOWS, first=True), ((1, 4),)),
    "pool_max_gradient": (record("pool_max_gradient", PLACES, WINDOWS), ((1, 2),)),
    "max_pool2d_with_indices_backward": (
        lambda g, x: call(OPERATORS["max_pool2d_with_indices_backward"], g, x, 2, 1, 0, 1, False,
                          torch.tensor([[[0], [3]]], device="ref")), ((1, 2, 1), (1, 3, 2))),
    "fractional_pool": (record("fractional_pool", SAMPLES[..., :2], (1, 0), (2, 2), (1, 1), first=True), (IMAGE,)),
    "border": (record("border", (2, 1), "reflect"), (LINE,)),
    "constant_pad": (record("constant_pad", (1, -1, 2, 0), 3.0), (IMAGE,)),
    "add_bias": (record("add_bias"), (IMAGE, (1, 1, 1))),
    "convolve": (record("convolve", WINDOW), (LINE, (2, 1, 2))),
    "convolve_input": (record("convolve_input", WINDOW, (3,)), ((1, 2, 2), (2, 1, 2))),
    "convolve_weight": (record("convolve_weight", WINDOW, (2,)), ((1, 2, 2), LINE)),
}
COMPOSED: dict[str, Case] = {
    "conv_tbc": (lambda x, w, b: f.conv_tbc(x, w, b, 1), ((3, 2, 2), (2, 2, 3), (3,))),
    "nearest_elements": (lambda x: call(COMPOSITES["nearest_elements"], x, (5, 1), (None, None), False), (IMAGE,)),
    "conv1d": (f.conv1d, (LINE, (2, 1, 2), (2,))), "conv2d": (f.conv2d, (IMAGE, (1, 1, 2, 2), (1,))),
    "conv3d": (f.conv3d, (CUBE, (1, 1, 2, 1, 2))),
    "conv_transpose1d": (lambda x, w: f.conv_transpose1d(x, w, None, 2), (LINE, (1, 2, 2))),
    "conv_transpose2d": (f.conv_transpose2d, (IMAGE, (1, 1, 2, 1))),
    "conv_transpose3d": (f.conv_transpose3d, ((1, 1, 1, 2, 1), (1, 1, 1, 2, 2))),
    "convolution": (lambda x, w: f.convolution(x, w, None, (2,), (1,), (1,), True, (1,), 1), (LINE, (1, 1, 3))),
    "_convolution": (lambda x, w, b: f._convolution(x, w, b, (1,), (1,), (1,), False, (0,), 1, False, False, True),
                     (LINE, (2, 1, 2), (2,))),
    "im2col": (lambda x: f.im2col(x, (2, 1), 1, (1, 0)), (IMAGE,)),
    "col2im": (lambda x: f.col2im(x, (3, 2), (2, 1)), ((1, 2, 4),)),
    "resample_maps": (lambda x: resampled(x, ordered([linear_taps(3, 4, False, None, True),
                                                      linear_taps(2, 5, True, None, True)])), (IMAGE,)),
    "max_pool1d": (lambda x: f.max_pool1d(x, 2), (LINE,)), "max_pool2d": (lambda x: f.max_pool2d(x, 2, 1), (IMAGE,)),
    "max_pool3d": (lambda x: f.max_pool3d(x, (1, 2, 2)), (CUBE,)),
    "max_pool1d_with_indices": (lambda x: f.max_pool1d_with_indices(x, 2)[0], (LINE,)),
    "max_pool2d_with_indices": (lambda x: f.max_pool2d_with_indices(x, 2)[0], (IMAGE,)),
    "max_pool3d_with_indices": (lambda x: f.max_pool3d_with_indices(x, 2)[0], (CUBE,)),
    "avg_pool1d": (lambda x: f.avg_pool1d(x, 2, 1, 1), (LINE,)),
    "avg_pool2d": (lambda x: f.avg_pool2d(x, 2, 1, 1, False, False), (IMAGE,)),
    "avg_pool3d": (lambda x: f.avg_pool3d(x, 2, divisor_override=3), (CUBE,)),
    "lp_pool1d": (lambda x: f.lp_pool1d(x.exp(), 2.5, 2), (LINE,)),
    "lp_pool2d": (lambda x: f.lp_pool2d(x.exp(), 3.0, 2), (IMAGE,)),
    "lp_pool3d": (lambda x: f.lp_pool3d(x.exp(), 2.0, 2), (CUBE,)),
    "adaptive_avg_pool1d": (lambda x: f.adaptive_avg_pool1d(x, 2), (LINE,)),
    "adaptive_avg_pool2d": (lambda x: f.adaptive_avg_pool2d(x, 2), (IMAGE,)),
    "adaptive_avg_pool3d": (lambda x: f.adaptive_avg_pool3d(x, 1), (CUBE,)),
    "adaptive_max_pool1d": (lambda x: f.adaptive_max_pool1d(x, 2)[0], (LINE,)),
    "adaptive_max_pool2d": (lambda x: f.adaptive_max_pool2d(x, 2)[0], (IMAGE,)),
    "adaptive_max_pool3d": (lambda x: f.adaptive_max_pool3d(x, 1)[0], (CUBE,)),
    "fractional_max_pool2d": (lambda x: f.fractional_max_pool2d(x, 1, 2, _random_samples=SAMPLES[..., :2]), (IMAGE,)),
    "fractional_max_pool3d": (lambda x: f.fractional_max_pool3d(x, 1, 2, _random_samples=SAMPLES), (CUBE,)),
    "unpooled_lines": (lambda x: call(COMPOSITES["unpooled_lines"], x, PLACES, "max_unpool1d", 4), ((1, 2),)),
    "max_unpool1d": (unpooled(1), ((1, 1, 1),)), "max_unpool2d": (unpooled(2), ((1, 1, 1, 1),)),
    "max_unpool3d": (unpooled(3), ((1, 1, 1, 1, 1),)),
    "interpolate": (lambda x: f.interpolate(x, scale_factor=1.5, mode="bicubic"), (IMAGE,)),
    "grid_sample": (lambda x, g: f.grid_sample(x, g.tanh(), "bilinear", "border"), (IMAGE, (1, 1, 1, 2))),
    "grid_sampler": (lambda x, g: f.grid_sampler(x, g.tanh(), 1, 0, True), (IMAGE, (1, 1, 1, 2))),
    "grid_sampler_2d": (lambda x, g: f.grid_sampler_2d(x, g.tanh(), 2, 2, True), (IMAGE, (1, 1, 1, 2))),
    "grid_sampler_3d": (lambda x, g: f.grid_sampler_3d(x, g.tanh(), 0, 0, False), (CUBE, (1, 1, 1, 1, 3))),
    "grid_slopes": (lambda w, g: call(COMPOSITES["grid_slopes"], w, g.tanh(), (3, 4), "bicubic", "zeros", True),
                    ((1, 16, 1), (1, 1, 2))),
    "gather_points": (lambda x, w: call(COMPOSITES["gather_points"], x, w, POINTS, 3), (LINE, (1, 2, 3))),
    "scatter_points": (lambda g, w: call(COMPOSITES["scatter_points"], g, w, POINTS, 3), (LINE, (1, 2, 3))),
    "point_weight_gradients": (lambda g, x: call(COMPOSITES["point_weight_gradients"], g, x, POINTS, 3), (LINE, LINE)),
    "affine_grid": (lambda t: f.affine_grid(t, (1, 1, 1, 2)), ((1, 2, 3),)),
    "affine_grid_generator": (lambda t: f.affine_grid_generator(t, (1, 1, 2, 1), True), ((1, 2, 3),)),
    "constant_pad_nd": (lambda x: f.constant_pad_nd(x, (1, 0), 2.0), (LINE,)),
    "pad": (lambda x: f.pad(x, (1, 1), "reflect"), (LINE,)),
    "border_of_elements": (lambda x: call(COMPOSITES["border_of_elements"], x, (1, 1), "replicate"), (LINE,)),
    "pixel_shuffle": (lambda x: f.pixel_shuffle(x, 2), ((4, 1, 1),)),
    "pixel_unshuffle": (lambda x: f.pixel_unshuffle(x, 2), ((1, 2, 2),)),
    "channel_shuffle": (lambda x: f.channel_shuffle(x, 2), ((1, 4, 1),)),
}
#: Older names, which warn; below.
#: Its derivative only refuses, which tests of pooling ask for.
ELSEWHERE_RECORDS = {"without_windows"}
ELSEWHERE = {"upsample", "upsample_nearest", "upsample_bilinear"}


@pytest.mark.parametrize("name", [*RECORDS, *COMPOSED])
def test_derivatives(name: str) -> None:
    function, shapes = (RECORDS | COMPOSED)[name]
    rng = np.random.default_rng(1)
    tensors = [torch.tensor(rng.normal(size=shape), requires_grad=True) for shape in shapes]
    assert gradcheck(function, tensors, fast_mode=True)


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_derivatives_of_older_names(name: str) -> None:
    x = torch.tensor(np.arange(4.0).reshape(1, 1, 2, 2), requires_grad=True)
    with pytest.warns(UserWarning, match=f"{name} is deprecated; use interpolate"):
        made = getattr(f, name)(x, scale_factor=2)
    made.sum().backward()
    assert x.grad.sum().item() == pytest.approx(16)


def test_every_one_has_a_case() -> None:
    assert set(RECORDS) | ELSEWHERE_RECORDS == {
        name for name, operator in OPERATORS.items() if operator.derivative is not None
        and any(operator is value for module in MODULES for value in vars(module).values())}
    own = {module.__name__ for module in MODULES}
    assert set(COMPOSED) | ELSEWHERE == {
        name for name, operator in COMPOSITES.items() if operator.body.__module__ in own}
