"""Convolution and pooling keep what they launch by shapes and strides; every call has to give its own result.

The references are sums, largest elements and means of windows in float64.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tensocket as torch
import tensocket.nn.functional as F

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.float16: 4e-3, torch.bfloat16: 4e-2}


def windows(x, size, stride, padding, value=0.0):
    """[B, C, outputs, outputs, size, size] of images."""
    x = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)], constant_values=value)
    return np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))[:, :, ::stride, ::stride]


def spread(parts, shape, stride, padding):
    """Add the parts of windows up to images of ``shape``."""
    batch, channels, height, width = shape
    total = np.zeros((batch, channels, height + 2 * padding, width + 2 * padding))
    size = parts.shape[-1]
    for i, j in np.ndindex(parts.shape[2:4]):
        total[:, :, i * stride:i * stride + size, j * stride:j * stride + size] += parts[:, :, i, j]
    return total[:, :, padding:padding + height, padding:padding + width]


class Convolution:
    """A convolution and what of it is compared."""

    def __init__(self, size, stride, padding):
        self.geometry = size, stride, padding

    def operands(self, x, rng):
        """A weight for an image."""
        return (rng.standard_normal((6, x.shape[1], self.geometry[0], self.geometry[0])),)

    def run(self, x, w):
        return F.conv2d(x, w, None, *self.geometry[1:])

    def expected(self, x, w):
        return np.einsum("bchwij,ocij->bohw", windows(x, *self.geometry), w)

    def gradients(self, x, w, upstream):
        parts = np.einsum("bohw,ocij->bchwij", upstream, w)
        return (spread(parts, x.shape, *self.geometry[1:]),
                np.einsum("bohw,bchwij->ocij", upstream, windows(x, *self.geometry)))


class Pooling(Convolution):
    """Largest elements, or means."""

    def __init__(self, function, *geometry):
        super().__init__(*geometry)
        self.function = function

    def operands(self, x, rng):
        return ()

    def run(self, x):
        return self.function(x, *self.geometry)

    def expected(self, x):
        if self.function is F.avg_pool2d:
            return windows(x, *self.geometry).mean((4, 5))
        return windows(x, *self.geometry, -np.inf).max((4, 5))

    def gradients(self, x, upstream):
        if self.function is F.avg_pool2d:
            share = np.full((self.geometry[0],) * 2, 1 / self.geometry[0] ** 2)
        else:
            share = windows(x, *self.geometry, -np.inf) == self.expected(x)[..., None, None]
        return (spread(upstream[..., None, None] * share, x.shape, *self.geometry[1:]),)


OPERATORS = {
    "convolution": Convolution(3, 1, 1), "strided convolution": Convolution(3, 2, 1), "wide": Convolution(5, 1, 2),
    "largest": Pooling(F.max_pool2d, 2, 2, 0), "largest of overlapping": Pooling(F.max_pool2d, 3, 2, 1),
    "mean": Pooling(F.avg_pool2d, 2, 2, 0), "mean of overlapping": Pooling(F.avg_pool2d, 3, 2, 1),
}
#: Images that are not contiguous, by what makes them of [4, 6, 10, 12] elements.
LAYOUTS = {
    "contiguous": lambda x: x,
    "channels last": lambda x: x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2),
    "turned": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "part": lambda x: torch.cat([x, x], 3)[..., :12],
    "every other": lambda x: torch.stack([x, x], 4).flatten(3)[..., ::2],
    "one image": lambda x: x[:1].expand(4, 6, 10, 12),
    "one element": lambda x: x[:, :, :1, :1].expand(4, 6, 10, 12),
}


def call(operator, x, rng, gradients=True):
    """Run on an image and compare with the reference, forward and backward."""
    others = [torch.from_numpy(w).to(x.dtype) for w in operator.operands(x, rng)]
    leaves = [t.detach().requires_grad_(gradients) for t in (x, *others)]
    found = operator.run(*leaves)
    wide = [t.detach().double().numpy() for t in leaves]
    check(found, operator.expected(*wide))
    assert found.requires_grad is gradients
    if not gradients:
        return
    upstream = torch.from_numpy(rng.standard_normal(found.shape)).to(x.dtype)
    grads = torch.autograd.grad(found, leaves, upstream)
    for grad, expected in zip(grads, operator.gradients(*wide, upstream.double().numpy()), strict=True):
        check(grad, expected)


def check(found, expected):
    scale = 1 + np.abs(expected).max()
    assert tuple(found.shape) == expected.shape
    assert np.abs(found.detach().double().numpy() - expected).max() < TOLERANCE[found.dtype] * scale


def image(rng, *shape, dtype=torch.float32):
    """Distinct elements, so that each window has one that is largest; few enough for 16 bits of precision."""
    x = rng.permutation(np.prod(shape)).reshape(shape) - np.prod(shape) // 2
    return torch.from_numpy(x / 128).to(dtype)


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.fixture(params=OPERATORS)
def operator(request):
    return OPERATORS[request.param]


def test_other_values(operator, rng):
    for _ in range(4):
        call(operator, image(rng, 2, 5, 9, 11), rng)


def test_other_shapes_in_turns(operator, rng):
    for _ in range(2):
        for shape in ((2, 5, 9, 11), (2, 5, 11, 9), (5, 2, 9, 11), (1, 5, 9, 11), (2, 1, 9, 11), (3, 4, 24, 16)):
            call(operator, image(rng, *shape), rng)


def test_other_layouts_in_turns(operator, rng):
    for _ in range(2):
        for name, turn in LAYOUTS.items():
            x = turn(image(rng, 4, 6, 10, 12))
            assert x.shape == (4, 6, 10, 12)
            assert x.is_contiguous() == (name == "contiguous")
            if name == "one element" and getattr(operator, "function", None) is F.max_pool2d:
                call(operator, x, rng, gradients=False)  # all elements of a window are the largest
            else:
                call(operator, x, rng)


def test_other_dtypes_in_turns(operator, rng):
    for _ in range(2):
        for dtype in TOLERANCE:
            # So few elements that those of bfloat16 are distinct, too.
            call(operator, image(rng, 1, 2, 8, 8, dtype=dtype), rng)


def test_with_and_without_gradients(operator, rng):
    for gradients in (False, True, False, True):
        call(operator, image(rng, 2, 3, 12, 10), rng, gradients)
    with torch.no_grad():
        x = image(rng, 2, 3, 12, 10).requires_grad_()
        others = operator.operands(x, rng)
        found = operator.run(x, *(torch.from_numpy(w).float() for w in others))
        assert not found.requires_grad
        check(found, operator.expected(x.detach().double().numpy(), *others))


def test_after_memory_went_back(operator, rng):
    for _ in range(3):
        call(operator, image(rng, 4, 8, 40, 40), rng)
        torch.cpu.empty_cache()


def test_from_many_threads(operator):
    def work(seed):
        own = np.random.default_rng(seed)
        for turn in range(3):
            for shape in ((2, 5, 9, 11), (3, 4, 24, 16), (2, 3, 9, 10 + turn)):
                call(operator, image(own, *shape), own)

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(work, seed) for seed in range(8)]:
            done.result()
