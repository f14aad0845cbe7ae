"""Batching rules of operators over windows.

Most take any leading dimensions. Convolutions take examples as images, or as groups of channels if each example has its
own weight.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tensocket_core.dispatch.call import call
from tensocket_core.transforms.batching import Info, batching_rule, spread


@batching_rule("resample", "fold_columns", "unfold_columns", "pool_max", "pool_max_gradient", "constant_pad", "border",
               "triangle", "with_part", "fractional_pool", "nearest_copies", "placed", "vector_product",
               "mode_position")
def _leading(info: Info, in_dims: Any, *args: Any) -> Any:
    """Run an operator that takes any leading dimensions; the last dimensions are those of one example."""
    values = [spread(info, x, d) if hasattr(x, "_key") else x for x, d in zip(args, in_dims, strict=True)]
    result = call(info.operator, *values)
    return result, tuple(0 for _ in result) if isinstance(result, tuple) else 0


def _as_images(x: Any) -> Any:
    """Reshape [examples, images, ..] to [examples * images, ..]."""
    return x.reshape((x.shape[0] * x.shape[1], *x.shape[2:]))


def _as_channels(info: Info, x: Any, dim: int | None) -> Any:
    """Reshape the images of all examples to images with the channels of all examples."""
    x = spread(info, x, dim).transpose(0, 1)
    return x.reshape((x.shape[0], x.shape[1] * x.shape[2], *x.shape[3:]))


def _of_channels(info: Info, x: Any) -> Any:
    return x.reshape((x.shape[0], info.batch_size, x.shape[1] // info.batch_size, *x.shape[2:])).transpose(0, 1)


def _of_images(info: Info, x: Any) -> Any:
    return x.reshape((info.batch_size, x.shape[0] // info.batch_size, *x.shape[1:]))


@batching_rule("convolve", "convolve_input")
def _convolve(info: Info, in_dims: Any, image: Any, weight: Any, window: Any, *sizes: Any) -> Any:
    if in_dims[1] is None:
        return _of_images(info, call(info.operator, _as_images(image), weight, window, *sizes)), 0
    grouped = replace(window, groups=window.groups * info.batch_size)
    result = call(info.operator, _as_channels(info, image, in_dims[0]), _as_images(weight), grouped, *sizes)
    return _of_channels(info, result), 0


@batching_rule("convolve_weight")
def _convolve_weight(info: Info, in_dims: Any, upstream: Any, input: Any, window: Any, kernel: Any) -> Any:
    grouped = replace(window, groups=window.groups * info.batch_size)
    images = [_as_channels(info, x, d) for x, d in zip((upstream, input), in_dims, strict=False)]
    return _of_images(info, call(info.operator, *images, grouped, kernel)), 0
