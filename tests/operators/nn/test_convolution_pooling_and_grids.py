"""Convolution, pooling, interpolation, borders and grids against NumPy, with gradients, on every kind of device."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions as f
from tensocket_operators.autograd import gradcheck, gradgradcheck
from tensocket_operators.transforms import vmap

RNG = np.random.default_rng(3)


def convolution(x, w, stride, pad, dilation, groups):
    """Convolution by its definition, for any number of spatial dimensions."""
    dims = w.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in pad]])
    outputs = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(
        x.shape[2:], w.shape[2:], stride, dilation, strict=True)]
    result = np.zeros((x.shape[0], w.shape[0], *outputs))
    rows, taken = w.shape[0] // groups, w.shape[1]
    for o, k in product(range(w.shape[0]), product(*map(range, w.shape[2:]))):
        first = o // rows * taken
        cut = tuple(slice(d * i, d * i + s * (n - 1) + 1, s) for d, i, s, n in zip(
            dilation, k, stride, outputs, strict=True))
        result[:, o] += np.einsum("bc...,c->b...", x[(slice(None), slice(first, first + taken), *cut)],
                                  w[(o, slice(None), *k)])
    assert result.ndim == dims + 2
    return result


CONVOLUTIONS = [
    ((2, 4, 7), (6, 2, 3), (2,), (1,), (1,), 2),
    ((2, 3, 5, 6), (4, 3, 3, 2), (1, 1), (1, 0), (1, 2), 1),
    ((1, 2, 6, 5), (2, 1, 2, 3), (2, 3), (1, 1), (1, 1), 2),
    ((1, 2, 3, 4, 3), (2, 2, 2, 2, 1), (1, 2, 1), (0, 1, 0), (1, 1, 1), 1),
    ((2, 3, 4), (5, 3, 1), (1,), (0,), (1,), 1),
]


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolution_and_its_transpose(case, device, near):
    shape, kernel, stride, pad, dilation, groups = case
    dims = len(kernel) - 2
    x, w = RNG.normal(size=shape), RNG.normal(size=kernel)
    expected = convolution(x, w, stride, pad, dilation, groups)
    image, weight = tc.tensor(x), tc.tensor(w)
    conv, transposed = getattr(f, f"conv{dims}d"), getattr(f, f"conv_transpose{dims}d")
    near(conv(image, weight, None, stride, pad, dilation, groups), expected)
    near(conv(image[0], weight, tc.tensor(np.ones(kernel[0])), stride, pad, dilation, groups), expected[0] + 1)
    # The transpose: <conv(x, w), g> = <x, transposed(g, w)>.
    g = RNG.normal(size=expected.shape)
    missing = tuple(n - ((m - 1) * s - 2 * p + d * (k - 1) + 1) for n, m, s, p, d, k in zip(
        shape[2:], expected.shape[2:], stride, pad, dilation, kernel[2:], strict=True))
    back = transposed(tc.tensor(g), weight, None, stride, pad, missing, groups, dilation)
    assert tuple(back.shape) == shape
    assert (back * image).sum().item() == pytest.approx((expected * g).sum(), rel=1e-9)


@pytest.mark.parametrize("case", [
    ((1, 2, 4), (2, 1, 3), (2,), (1,), (1,), 2),
    ((2, 1, 3, 3), (1, 1, 2, 2), (1, 1), (1, 0), (1, 2), 1),
])
def test_gradients_of_convolution(case):
    shape, kernel, stride, pad, dilation, groups = case
    dims = len(kernel) - 2
    x, w, b = (tc.tensor(RNG.normal(size=n), requires_grad=True) for n in (shape, kernel, kernel[:1]))

    def conv(x, w, b):
        return getattr(f, f"conv{dims}d")(x, w, b, stride, pad, dilation, groups)

    assert gradcheck(conv, (x, w, b))
    if dims == 1:
        assert gradgradcheck(conv, (x, w, b))


def test_a_window_that_only_output_padding_reaches_has_no_gradient():
    x, w = (tc.tensor(RNG.normal(size=n), requires_grad=True) for n in ((1, 1, 3), (1, 1, 2)))
    assert gradcheck(lambda x, w: f.conv_transpose1d(x, w, None, 1, 0, 2, 1, 3), (x, w))


def test_convolution_with_all_arguments(device):
    image, weight = np.arange(6.0), np.array([1.0, 0.0, -2.0])
    x, w = tc.tensor(image[None, None]), tc.tensor(weight[None, None])
    here = f._convolution(x, w, tc.tensor(np.array([0.5])), (1,), (0,), (1,), False, (0,), 1, True, False, True, True)
    assert here.tolist() == [[(np.convolve(image, weight[::-1], "valid") + 0.5).tolist()]]
    back = f._convolution(x, w, None, (1,), (0,), (1,), True, (0,), 1, False, False, True)
    assert back.tolist() == [[np.convolve(image, weight).tolist()]]


def test_same_padding_puts_the_odd_zero_on_the_right(device, near):
    x, w = RNG.normal(size=(1, 1, 5)), RNG.normal(size=(1, 1, 4))
    expected = convolution(np.pad(x, [(0, 0), (0, 0), (1, 2)]), w, (1,), (0,), (1,), 1)
    near(f.conv1d(tc.tensor(x), tc.tensor(w), padding="same"), expected)
    near(f.conv1d(tc.tensor(x), tc.tensor(w), padding="valid"), convolution(x, w, (1,), (0,), (1,), 1))


def test_complex_and_integer_convolution(device, near, supports):
    x, w = RNG.integers(-9, 9, (1, 2, 5, 5)), RNG.integers(-9, 9, (3, 2, 2, 2))
    near(f.conv2d(tc.tensor(x), tc.tensor(w)), convolution(x, w, (1, 1), (0, 0), (1, 1), 1).astype(np.int64))
    if supports("complex128"):
        a, b = (RNG.integers(-9, 9, s) + 1j * RNG.integers(-9, 9, s) for s in ((1, 2, 5), (2, 2, 2)))
        parts = [convolution(p, q, (2,), (0,), (1,), 1) for p in (a.real, a.imag) for q in (b.real, b.imag)]
        near(f.conv1d(tc.tensor(a), tc.tensor(b), stride=2), parts[0] - parts[3] + 1j * (parts[1] + parts[2]))


def test_columns_and_images(device, near):
    x = RNG.normal(size=(2, 2, 4, 5))
    columns = f.im2col(tc.tensor(x), (2, 3), 1, (1, 0), (2, 1))
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2, 3), (2, 3))[:, :, ::2]
    expected = windows.transpose(0, 1, 4, 5, 2, 3).reshape(2, 12, -1)
    near(columns, expected)
    near(f.col2im(columns, (4, 5), (2, 3), 1, (1, 0), (2, 1)), x * np.array(f.col2im(
        f.im2col(tc.ones(2, 2, 4, 5, dtype=tc.float64), (2, 3), 1, (1, 0), (2, 1)), (4, 5), (2, 3), 1, (1, 0),
        (2, 1)).tolist()))


# ------------------------------------------------------------------------------------------------------------ pooling


def pooled(x, kernel, stride, pad, choose):
    """Apply ``choose`` to the elements of every window of a matrix, with their flat positions."""
    rows, columns = x.shape
    result = []
    lines = [range((n + 2 * pad - kernel) // stride + 1) for n in (rows, columns)]
    for i, j in product(*lines):
        inside = [(a, b) for a, b in product(range(i * stride - pad, i * stride - pad + kernel),
                                            range(j * stride - pad, j * stride - pad + kernel))
                  if 0 <= a < rows and 0 <= b < columns]
        result.append(choose([x[p] for p in inside], [a * columns + b for a, b in inside]))
    return np.array(result)


def test_largest_elements_of_windows(device, near):
    x = RNG.integers(0, 5, (7, 6)).astype(np.float64)
    x[3, 2], x[0, 0] = np.nan, -np.inf
    values, places = f.max_pool2d_with_indices(tc.tensor(x[None]), 3, 2, 1)

    def last_nan_or_first_largest(values, places):
        spoiled = [p for v, p in zip(values, places, strict=True) if np.isnan(v)]
        return spoiled[-1] if spoiled else places[int(np.argmax(values))]

    expected = pooled(x, 3, 2, 1, last_nan_or_first_largest)
    assert places.flatten().tolist() == expected.tolist()
    near(values.flatten(), x.flatten()[expected])


def test_gradients_of_pooling_go_to_the_largest(device, near):
    x = RNG.permutation(30.0 * np.arange(30)).reshape(1, 5, 6)
    image = tc.tensor(x, requires_grad=True)
    places = pooled(x[0], 3, 2, 1, lambda values, places: places[int(np.argmax(values))])
    weights = np.arange(1.0, len(places) + 1)
    (f.max_pool2d(image, 3, 2, 1).flatten() * tc.tensor(weights)).sum().backward()
    near(image.grad.flatten(), np.bincount(places, weights, minlength=30))


@pytest.mark.parametrize("count_padding", [True, False])
def test_means_of_windows(count_padding, device, near):
    x = RNG.normal(size=(5, 7))
    size = 9 if count_padding else None
    near(f.avg_pool2d(tc.tensor(x[None]), 3, 2, 1, False, count_padding).flatten(),
         pooled(x, 3, 2, 1, lambda values, places: np.sum(values) / (size or len(values))))
    near(f.avg_pool2d(tc.tensor(x[None]), 3, 2, 1, divisor_override=4).flatten(),
         pooled(x, 3, 2, 1, lambda values, places: np.sum(values) / 4))
    whole = RNG.integers(-9, 9, (5, 7))
    near(f.avg_pool2d(tc.tensor(whole[None]), 3, 2, 1, False, count_padding).flatten(),
         pooled(whole, 3, 2, 1, lambda values, places: int(np.sum(values) / (size or len(values)))))


def test_adaptive_windows_divide_an_image(device, near):
    x = RNG.normal(size=(1, 5, 7))
    cuts = [[(k * n // m, -(-(k + 1) * n // m)) for k in range(m)] for n, m in ((5, 3), (7, 2))]
    parts = [[x[0, a:b, c:d] for c, d in cuts[1]] for a, b in cuts[0]]
    near(f.adaptive_avg_pool2d(tc.tensor(x), (3, 2)), [[[p.mean() for p in row] for row in parts]])
    near(f.adaptive_max_pool2d(tc.tensor(x), (3, 2))[0], [[[p.max() for p in row] for row in parts]])
    assert tuple(f.adaptive_avg_pool2d(tc.tensor(x), (None, 1)).shape) == (1, 5, 1)


def test_windows_beyond_the_image_in_ceil_mode(device, near):
    x = np.arange(6.0)[None]
    near(f.max_pool1d(tc.tensor(x), 2, 4, ceil_mode=True), [[1, 5]])
    near(f.avg_pool1d(tc.tensor(x), 4, 3, ceil_mode=True), [[1.5, 4]])


def test_norms_of_windows(device, near):
    x = RNG.uniform(0.5, 2, (1, 6))
    near(f.lp_pool1d(tc.tensor(x), 3.0, 2), ((x ** 3).reshape(1, 3, 2).sum(-1)) ** (1 / 3))


def test_unpooling_inverts_pooling(device, near):
    x = RNG.permutation(16.0 + np.arange(16)).reshape(1, 4, 4)
    values, places = f.max_pool2d_with_indices(tc.tensor(x), 2)
    back = f.max_unpool2d(values, places, 2)
    largest = x.reshape(2, 2, 2, 2).max((1, 3), keepdims=True)
    near(back, np.where(x.reshape(2, 2, 2, 2) == largest, largest, 0).reshape(1, 4, 4))


def test_fractional_windows_follow_the_samples(device, near):
    x = np.arange(9.0).reshape(1, 1, 9)
    image = tc.tensor(np.broadcast_to(x.reshape(1, 1, 1, 9), (1, 1, 9, 9)).copy())
    # u = 0.5 and a = (9 - 2) / (4 - 1): windows begin at int((k + u) a) - int(u a), the last one at 9 - 2.
    step = (9 - 2) / 3
    starts = [int((k + 0.5) * step) - int(0.5 * step) for k in range(3)] + [7]
    samples = tc.tensor(np.full((1, 1, 2), 0.5))
    values, places = f.fractional_max_pool2d(image, 2, 4, None, True, samples)
    near(values, np.broadcast_to(np.array(starts) + 1.0, (1, 1, 4, 4)))
    assert tuple(f.fractional_max_pool2d(image, 2, output_ratio=0.5).shape) == (1, 1, 4, 4)
    assert places.shape == values.shape


# ------------------------------------------------------------------------------------------------------ interpolation


@pytest.mark.parametrize("align", [True, False])
def test_linear_interpolation(align, device, near):
    x = RNG.normal(size=(1, 1, 5))
    at = np.linspace(0, 4, 8) if align else (np.arange(8) + 0.5) * 5 / 8 - 0.5
    near(f.interpolate(tc.tensor(x), 8, mode="linear", align_corners=align)[0, 0], np.interp(at, np.arange(5), x[0, 0]))


def test_nearest_elements(device, near):
    x = np.arange(6.0).reshape(1, 1, 6)
    near(f.interpolate(tc.tensor(x), 4)[0, 0], [0, 1, 3, 4])
    near(f.interpolate(tc.tensor(x), 4, mode="nearest-exact")[0, 0], [0, 2, 3, 5])
    near(f.interpolate(tc.tensor(x), scale_factor=0.5)[0, 0], [0, 2, 4])


def test_cubic_interpolation_keeps_quadratic_functions(device, near):
    # With a = -0.75, constants are kept everywhere; between elements of a line, the middle is exact for lines.
    x = np.arange(8.0).reshape(1, 1, 8, 1) + np.zeros((1, 1, 8, 8))
    made = f.interpolate(tc.tensor(x), (16, 8), mode="bicubic")
    inner = np.array(made[0, 0, 4:12, 3].tolist())
    assert np.allclose(inner[::2] + inner[1::2], 2 * x[0, 0, 2:6, 0])


def test_shrinking_without_aliasing_averages(device, near):
    x = RNG.normal(size=(1, 1, 4, 4))
    made = f.interpolate(tc.tensor(x), (1, 1), mode="bilinear", antialias=True)
    weights = 1 - np.abs(np.arange(4) - 1.5) / 4
    weights /= weights.sum()
    near(made[0, 0], [[weights @ x[0, 0] @ weights]])
    whole = tc.full((1, 1, 4, 4), 3, dtype=tc.uint8)
    assert f.interpolate(whole, (3, 3), mode="bilinear").tolist() == [[[[3] * 3] * 3]]


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "area", "nearest"])
def test_gradients_of_interpolation(mode):
    x = tc.tensor(RNG.normal(size=(1, 1, 3, 4)), requires_grad=True)
    assert gradcheck(lambda x: f.interpolate(x, (5, 3), mode=mode), (x,))
    assert gradgradcheck(lambda x: f.interpolate(x, (2, 5), mode=mode).sin(), (x,))


# -------------------------------------------------------------------------------------------------- grids and borders


def test_samples_at_corners_are_elements(device, near):
    x = RNG.normal(size=(1, 2, 3, 4))
    theta = tc.tensor([[[1.0, 0, 0], [0, 1.0, 0]]], dtype=tc.float64)
    for align, mode in product((True, False), ("bilinear", "nearest", "bicubic")):
        grid = f.affine_grid(theta, (1, 2, 3, 4), align)
        near(f.grid_sample(tc.tensor(x), grid, mode, align_corners=align), x)
    flipped = f.affine_grid(tc.tensor([[[-1.0, 0, 0], [0, 1.0, 0]]], dtype=tc.float64), (1, 2, 3, 4), True)
    near(f.grid_sample(tc.tensor(x), flipped, align_corners=True), x[..., ::-1])


def test_samples_outside(device, near):
    x = np.arange(4.0).reshape(1, 1, 2, 2)
    grid = tc.tensor(np.array([[[[3.0, -1.0], [np.nan, 0.0]]]]))
    near(f.grid_sample(tc.tensor(x), grid, "nearest", "zeros", True)[0, 0, 0], [0, 0])
    near(f.grid_sample(tc.tensor(x), grid, "bilinear", "border", True)[0, 0, 0, :1], [1])
    near(f.grid_sample(tc.tensor(x), grid, "bilinear", "reflection", True)[0, 0, 0, :1], [0])


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_gradients_of_samples(padding):
    x = tc.tensor(RNG.normal(size=(1, 1, 2, 3)), requires_grad=True)
    grid = tc.tensor([[[[1.2, -0.45]]]], dtype=tc.float64, requires_grad=True)
    if padding == "reflection":
        assert gradcheck(lambda x, grid: f.grid_sample(x, grid, "bicubic", padding), (x, grid))
    cube = tc.tensor(RNG.normal(size=(1, 1, 1, 2, 2)), requires_grad=True)
    points = tc.tensor([[[[[0.3, -0.45, 0.1]]]]], dtype=tc.float64, requires_grad=True)
    assert gradcheck(lambda x, grid: f.grid_sample(x, grid, "bilinear", padding), (cube, points))


MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@pytest.mark.parametrize("mode", sorted(MODES))
def test_borders(mode, device, near):
    x = RNG.normal(size=(2, 3, 4))
    near(f.pad(tc.tensor(x), (1, 2), mode), np.pad(x, [(0, 0), (0, 0), (1, 2)], MODES[mode]))
    near(f.pad(tc.tensor(x), (1, 2, 2, 0), mode), np.pad(x, [(0, 0), (2, 0), (1, 2)], MODES[mode]))
    image = tc.tensor(x, requires_grad=True)
    f.pad(image, (1, 2), mode).sum().backward()
    counts = np.pad(np.arange(4), (1, 2), MODES[mode])
    near(image.grad[0, 0], np.bincount(counts, minlength=4).astype(float))


def test_constant_borders(device, near):
    x = RNG.normal(size=(2, 3, 4))
    expected = np.pad(x[..., :-1], [(0, 0), (0, 2), (1, 0)], constant_values=7)
    near(f.pad(tc.tensor(x), (1, -1, 0, 2), value=7.0), expected)
    assert f.constant_pad_nd(tc.tensor([True]), (1, 1), True).tolist() == [True] * 3


def test_rearrangements(device, near):
    x = np.arange(16.0).reshape(1, 4, 2, 2)
    near(f.pixel_shuffle(tc.tensor(x), 2), [[[[0, 4, 1, 5], [8, 12, 9, 13], [2, 6, 3, 7], [10, 14, 11, 15]]]])
    near(f.pixel_unshuffle(f.pixel_shuffle(tc.tensor(x), 2), 2), x)
    near(f.channel_shuffle(tc.tensor(x), 2), x[:, [0, 2, 1, 3]])


def test_batches_of_windows(near, host):
    x, w = tc.tensor(RNG.normal(size=(3, 1, 2, 5))), tc.tensor(RNG.normal(size=(3, 2, 2, 2)))
    for call, args in ((lambda x: f.conv1d(x, w[0], padding=1), (x,)), (f.conv1d, (x, w)),
                       (lambda w: f.conv1d(x[0], w), (w,)), (lambda x: f.max_pool1d(x, 2), (x,)),
                       (lambda x, w: f.conv_transpose1d(x, w, stride=2), (x, w)),
                       (lambda x: f.interpolate(x, 3, mode="linear"), (x,)), (lambda x: f.pad(x, (1, 1)), (x,))):
        near(vmap(call)(*args), host(f.stack([call(*[a[k] for a in args]) for k in range(3)])))


def test_channels_last_stays(device):
    x = tc.ones(2, 3, 4, 4).contiguous(memory_format=tc.channels_last)
    weight = tc.ones(3, 1, 2, 2)
    for made in (f.max_pool2d(x, 2), f.avg_pool2d(x, 2), f.interpolate(x, (6, 6), mode="bilinear"), f.pad(x, (1, 1)),
                 f.interpolate(x, (6, 6)), f.pad(x, (1, 1, 1, 1), "reflect"), f.channel_shuffle(x, 3),
                 f.pixel_unshuffle(x, 2), f.conv2d(x, weight, groups=3), f.conv_transpose2d(x, weight, stride=2)):
        assert made.is_contiguous(memory_format=tc.channels_last)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("dims", "kernel"), [(1, 1), (2, 1), (2, 3), (3, 1)])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_convolution_owns_its_result_so_that_activations_may_change_it(device, dims, kernel, bias, transposed):
    x = tc.ones((1, 2, *(4,) * dims), device=device)
    weight = tc.full((2, 2, *(kernel,) * dims), -1.0, device=device).requires_grad_()
    with_bias = tc.zeros(2, device=device) if bias else None
    result = getattr(f, f"conv{'_transpose' if transposed else ''}{dims}d")(x, weight, with_bias)
    assert result._base is None
    result.relu_()
    assert result.sum().item() == 0
    result.sum().backward()
    assert weight.grad.abs().sum().item() == 0
