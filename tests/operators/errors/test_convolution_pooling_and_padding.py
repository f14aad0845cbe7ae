"""Errors of convolution, pooling, interpolation, grids and padding: class, form, and a device that works afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tensocket_operators as torch
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_operators import functions as F
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    DtypeError,
    ShapeError,
    TensocketError,
    UndefinedDtype,
)


def f(*shape: int) -> Any:
    return torch.ones(*shape)


def ints(*shape: int) -> Any:
    return torch.zeros(*shape, dtype=torch.int64)


Case = tuple[Callable[[], Any], type[TensocketError], type[Exception], str, str]
X, W = (1, 2, 4, 4), (3, 2, 3, 3)
#: The failing call, the class, PyTorch's class, the operator that the message names, and the rule.
CASES: list[Case] = [
    # convolution
    (lambda: F.conv2d(f(*X), f(*W), stride=(1, 2, 3)), ArgumentError, RuntimeError, "conv2d",
     "there is one number for all, or one for each dimension"),
    (lambda: F.conv2d(f(*X), f(*W), stride=(2.0, 2)), ArgumentTypeError, TypeError, "conv2d",
     "sizes and steps are integers"),
    (lambda: F.conv2d(f(*X), f(*W), groups=1.0), ArgumentTypeError, TypeError, "conv2d",
     "sizes and steps are integers"),
    (lambda: F.max_pool2d(f(*X), (2.0, 2)), ArgumentTypeError, TypeError, "max_pool2d",
     "sizes and steps are integers"),
    (lambda: F.conv2d(f(*X), f(*W), stride=0), ArgumentError, RuntimeError, "conv2d",
     "stride, dilation and groups are positive, padding is not negative"),
    (lambda: F.conv2d(f(4, 4), f(*W)), ShapeError, RuntimeError, "conv2d",
     "the input has 3 dimensions or a batch of these, the weight 4"),
    (lambda: F.conv2d(f(1, 3, 4, 4), f(*W)), ShapeError, RuntimeError, "conv2d",
     "the weight is for 2 input channels, a multiple of groups"),
    (lambda: F.conv2d(f(*X), f(*W), f(2)), ShapeError, RuntimeError, "conv2d",
     "there is a bias for every output channel"),
    (lambda: F.conv2d(f(*X), f(*W).double()), DtypeError, RuntimeError, "conv2d",
     "input, weight and bias have one dtype"),
    (lambda: F.conv2d(f(*X), f(*W), padding="full"), ArgumentError, RuntimeError, "conv2d",
     "a padding's name is 'valid' or 'same'"),
    (lambda: F.conv2d(f(*X), f(*W), stride=2, padding="same"), ArgumentError, RuntimeError, "conv2d",
     "the sizes stay the same only with stride 1"),
    (lambda: F.conv2d(f(*X), f(3, 2, 5, 5)), ShapeError, RuntimeError, "conv2d",
     "the kernel fits into the padded image"),
    (lambda: F.conv_transpose2d(f(*X), f(2, 3, 2, 2), output_padding=1), ArgumentError, RuntimeError,
     "conv_transpose2d", "output padding is smaller than stride or dilation"),
    (lambda: F.conv_transpose2d(f(*X), f(2, 3, 2, 2), padding=4), ShapeError, RuntimeError, "conv_transpose2d",
     "the result has at least one element along each dimension"),
    (lambda: F.convolution(f(*X), f(3, 2), None, 1, 0, 1, False, 0, 1), ShapeError, RuntimeError, "convolution",
     "a weight has two dimensions and spatial ones"),
    (lambda: F.im2col(f(*X), 0), ArgumentError, RuntimeError, "unfold",
     "kernel, stride and dilation are positive, padding is not negative"),
    (lambda: F.im2col(f(*X), 5), ShapeError, RuntimeError, "unfold", "a window fits into the padded image"),
    (lambda: F.col2im(f(1, 8, 8), 4, 2), ShapeError, RuntimeError, "fold",
     "there are 9 columns, of a multiple of 4 rows"),
    # pooling
    (lambda: F.max_pool2d(f(4, 4), 2), ShapeError, RuntimeError, "max_pool2d",
     "the input is an image of 2 dimensions with channels, or a batch of these, not empty"),
    (lambda: F.max_pool2d(f(*X), 0), ArgumentError, RuntimeError, "max_pool2d",
     "kernel, stride and dilation are positive"),
    (lambda: F.max_pool2d(f(*X), 2, padding=2), ArgumentError, RuntimeError, "max_pool2d",
     "padding is at most half of a window"),
    (lambda: F.max_pool2d(f(*X), 5), ShapeError, RuntimeError, "max_pool2d", "a window fits into the padded image"),
    (lambda: OPERATORS["max_pool2d_with_indices_backward"](
        f(1, 2, 3, 3), f(*X), 2, 2, 0, 1, False, ints(1, 2, 2, 2)), ShapeError, RuntimeError,
     "max_pool2d_with_indices_backward", "both have the shape of the result, [1, 2, 2, 2]"),
    (lambda: F.avg_pool2d(f(*X), 2, divisor_override=0), ArgumentError, RuntimeError, "avg_pool2d",
     "a divisor is not zero"),
    (lambda: F.adaptive_avg_pool2d(f(*X), (1, 2, 3)), ArgumentError, RuntimeError, "adaptive_avg_pool2d",
     "there is one size for all, or one for each dimension, not negative"),
    (lambda: F.max_unpool2d(f(*X), ints(*X).int(), 2), DtypeError, RuntimeError, "max_unpool2d", "indices are int64"),
    (lambda: F.max_unpool2d(f(*X), ints(1, 2, 4, 3), 2), ShapeError, RuntimeError, "max_unpool2d",
     "there is an index for every element"),
    (lambda: F.max_unpool2d(f(*X), ints(*X), 2, output_size=(99, 99)), ArgumentError, ValueError, "max_unpool2d",
     "sizes differ from [8, 8] by less than the stride"),
    (lambda: F.adaptive_avg_pool2d(f(*X), 1 << 40), ArgumentError, RuntimeError, "adaptive_avg_pool2d",
     "a result has less than 2 ** 60 elements"),
    (lambda: F.fractional_max_pool2d(f(*X), 2), ArgumentError, ValueError, "fractional_max_pool2d",
     "either output_size or output_ratio is given"),
    (lambda: F.fractional_max_pool2d(f(*X), 3, 3), ShapeError, RuntimeError, "fractional_max_pool2d",
     "output_size + kernel_size - 1 is at most the size"),
    # interpolation
    (lambda: F.interpolate(f(*X), scale_factor=(2.0, 2.0, 2.0)), ArgumentError, ValueError, "interpolate",
     "there is one number for all, or one for each dimension"),
    (lambda: F.interpolate(f(*X)), ArgumentError, ValueError, "interpolate", "either size or scale_factor is given"),
    (lambda: F.interpolate(f(*X), size=2, recompute_scale_factor=True), ArgumentError, ValueError, "interpolate",
     "factors are recomputed only where they are given"),
    (lambda: F.interpolate(f(*X), size=2, mode="new"), ArgumentError, RuntimeError, "interpolate",
     "the mode is one of nearest, nearest-exact, area, linear, bilinear, trilinear, bicubic"),
    (lambda: F.interpolate(f(*X), size=2, mode="linear"), ShapeError, RuntimeError, "interpolate",
     "the input has a batch, channels and the mode's number of spatial dimensions"),
    (lambda: F.interpolate(f(*X), size=2, align_corners=True), ArgumentError, ValueError, "interpolate",
     "align_corners is for linear and cubic modes"),
    (lambda: F.interpolate(f(*X), size=2, antialias=True), ArgumentError, ValueError, "interpolate",
     "antialias is for bilinear and bicubic"),
    (lambda: F.interpolate(f(*X), size=0), ShapeError, RuntimeError, "interpolate", "all sizes are positive"),
    (lambda: F.interpolate(ints(*X), size=2, mode="bilinear"), UndefinedDtype, NotImplementedError, "interpolate",
     "interpolation is for floating-point images and uint8"),
    # grids
    (lambda: F.grid_sample(f(*X), f(2, 1, 1, 2)), ShapeError, RuntimeError, "grid_sample",
     "the input is [B, C, H, W] or [B, C, D, H, W] and the grid [B, .., 2] or [B, .., 3]"),
    (lambda: F.grid_sample(f(1, 1, 2, 2, 2), f(1, 1, 1, 1, 3), "bicubic"), ArgumentError, RuntimeError, "grid_sample",
     "bicubic is for two dimensions"),
    (lambda: F.grid_sample(f(*X), f(1, 1, 1, 2).double()), DtypeError, RuntimeError, "grid_sample",
     "both have one dtype"),
    (lambda: F.grid_sample(f(*X), f(1, 1, 1, 2), "new"), ArgumentError, ValueError, "grid_sample",
     "the mode is one of bilinear, nearest, bicubic"),
    (lambda: F.grid_sample(f(*X), f(1, 1, 1, 2), padding_mode="new"), ArgumentError, ValueError, "grid_sample",
     "the padding mode is one of zeros, border, reflection"),
    (lambda: F.grid_sampler_3d(f(*X), f(1, 1, 1, 2), 0, 0, False), ArgumentError, RuntimeError, "grid_sampler_3d",
     "the input has 3 spatial dimensions, modes are 0, 1 or 2"),
    (lambda: F.affine_grid(ints(1, 2, 3), (1, 1, 2, 2)), DtypeError, RuntimeError, "affine_grid",
     "affine maps are of floats"),
    (lambda: F.affine_grid(f(1, 3, 3), (1, 1, 2, 2)), ShapeError, RuntimeError, "affine_grid",
     "theta is [B, 2, 3] for [B, C, H, W] and [B, 3, 4] for [B, C, D, H, W]"),
    # borders and rearrangements
    (lambda: F.pad(f(*X), (1, 1, 1)), ShapeError, RuntimeError, "pad",
     "there are two numbers for each padded dimension"),
    (lambda: F.pad(f(*X), (-3, -3)), ShapeError, RuntimeError, "pad", "no more is cut off than there is"),
    (lambda: F.pad(f(*X), (1, 1), "new"), ArgumentError, RuntimeError, "pad",
     "the mode is 'constant', 'reflect', 'replicate' or 'circular'"),
    (lambda: F.pad(f(*X), (1, 1, 1, 1), "reflect", 1.0), ArgumentError, RuntimeError, "pad",
     "only constant borders have a value"),
    (lambda: F.pad(f(*X), (1, 1), "reflect"), ShapeError, RuntimeError, "pad",
     "reflect pads the last 1, 2 or 3 dimensions, of all but the first one or two"),
    (lambda: F.pad(f(*X), (4, 4, 1, 1), "reflect"), ShapeError, RuntimeError, "pad",
     "reflect has an element for every place of the border"),
    (lambda: F.pixel_shuffle(f(4, 4), 2), ShapeError, RuntimeError, "pixel_shuffle", "an image has at least 3"),
    (lambda: F.pixel_shuffle(f(*X), 0), ArgumentError, RuntimeError, "pixel_shuffle", "a factor is positive"),
    (lambda: F.pixel_shuffle(f(*X), 2), ShapeError, RuntimeError, "pixel_shuffle",
     "the channels are a multiple of the squared factor"),
    (lambda: F.pixel_unshuffle(f(*X), 3), ShapeError, RuntimeError, "pixel_unshuffle",
     "height and width are multiples of the factor"),
    (lambda: F.channel_shuffle(f(*X), 3), ShapeError, RuntimeError, "channel_shuffle",
     "groups divide the channels of a tensor of at least 3 dimensions"),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{k}-{case[3]}" for k, case in enumerate(CASES)])
def test_class_form_and_what_follows(case: Case, check_error: Callable[[Case], None]) -> None:
    check_error(case)


def test_valid_arguments_that_equal_refused_ones_are_taken() -> None:
    image, weight = f(1, 2, 6, 6), f(3, 2, 3, 3)
    for call in (lambda stride: F.conv2d(image, weight, stride=stride), lambda stride: F.max_pool2d(image, 2, stride)):
        for _ in range(5):
            with pytest.raises(TypeError):
                call((2.0, 2))
            assert call((2, 2)).shape[2:] == call(2).shape[2:]
