"""Products and convolutions of C libraries against NumPy: layouts, packed weights, windows, groups, threads."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.export import Dim, compile_c, export
from tensocket.nn import functional as F

from .c_programs import Loaded, needs_compiler

pytestmark = needs_compiler


def convolved(x: Any, weight: Any, stride: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...],
              groups: int) -> np.ndarray[Any, Any]:
    """A convolution in float64, one place of the window after the other."""
    x, weight = x.numpy().astype(np.float64), weight.numpy().astype(np.float64)
    x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in padding]])
    kernel = weight.shape[2:]
    sizes = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)]
    inside, outside = x.shape[1] // groups, weight.shape[0] // groups
    out = np.zeros((x.shape[0], weight.shape[0], *sizes))
    for g in range(groups):
        image, filters = x[:, g * inside:(g + 1) * inside], weight[g * outside:(g + 1) * outside]
        for place in np.ndindex(*kernel):
            cut = tuple([slice(t * d, t * d + (n - 1) * s + 1, s)
                         for t, d, n, s in zip(place, dilation, sizes, stride, strict=True)])
            out[:, g * outside:(g + 1) * outside] += np.einsum(
                "bc...,oc->bo...", image[(slice(None), slice(None), *cut)], filters[(slice(None), slice(None), *place)])
    return out


WINDOWS = {  # channels, filters, sizes, kernel, stride, padding, dilation, groups
    "same": (5, 40, (9, 7), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "strided": (3, 17, (12, 13), (5, 2), (2, 3), (2, 0), (1, 1), 1),
    "dilated": (4, 6, (14, 11), (3, 2), (1, 2), (0, 1), (3, 2), 1),
    "deep": (70, 130, (4, 4), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "large": (3, 8, (40, 33), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "pointwise, strided": (6, 20, (7, 8), (1, 1), (2, 2), (0, 0), (1, 1), 1),
    "pointwise": (6, 20, (7, 8), (1, 1), (1, 1), (0, 0), (1, 1), 1),
    "groups": (12, 24, (8, 8), (3, 3), (1, 1), (1, 1), (1, 1), 3),
    "depthwise": (20, 20, (9, 21), (3, 3), (1, 1), (1, 1), (1, 1), 20),
    "depthwise, strided": (10, 20, (9, 10), (3, 5), (2, 2), (1, 2), (1, 1), 10),
    "few filters": (600, 2, (5, 6), (1, 2), (1, 1), (0, 1), (1, 1), 1),
    "line": (5, 18, (30,), (4,), (3,), (2,), (1,), 1),
    "volume": (3, 9, (5, 6, 7), (2, 3, 2), (1, 2, 1), (1, 0, 1), (2, 1, 1), 1),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_convolutions(name: str, tmp_path: Path) -> None:
    channels, filters, sizes, kernel, stride, padding, dilation, groups = WINDOWS[name]
    model = getattr(nn, f"Conv{len(sizes)}d")(channels, filters, kernel, stride, padding, dilation, groups, bias=False)
    x = torch.randn(3, channels, *sizes)
    compile_c(export(model, (x,), dynamic_shapes=({0: Dim("batch", min=1, max=5)},)), tmp_path, name="net")
    library = Loaded(tmp_path, "net")
    for n in (1, 3, 5):
        x = torch.randn(n, channels, *sizes)
        expected = convolved(x, model.weight.detach(), stride, padding, dilation, groups)
        np.testing.assert_allclose(library.run([n], [x], expected.astype(np.float32)), expected, rtol=1e-4, atol=1e-5)


def test_convolutions_whose_weight_is_an_input_or_channels_last(tmp_path: Path) -> None:
    class Convolutions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(9, 4, 3, 3, dtype=torch.float64))

        def forward(self, x: Any, weight: Any) -> Any:
            image = x.contiguous(memory_format=torch.channels_last)
            turned = self.weight.contiguous(memory_format=torch.channels_last)
            return F.conv2d(x, weight, padding=1).contiguous(), F.conv2d(image, turned).contiguous()

    model = Convolutions()
    x, weight = torch.randn(2, 4, 6, 5, dtype=torch.float64), torch.randn(7, 4, 2, 3, dtype=torch.float64)
    compile_c(export(model, (x, weight)), tmp_path, name="net")
    one, unit = convolved(x, weight, (1, 1), (1, 1), (1, 1), 1), (1, 1)
    two = convolved(x, model.weight.detach(), unit, (0, 0), unit, 1)
    first, second = np.empty_like(one), np.empty_like(two)
    assert Loaded(tmp_path, "net").status([], x.numpy(), weight.numpy(), first, second) == 0
    np.testing.assert_allclose(first, one, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(second, two, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weights", ["source", "file"])
def test_weights_on_both_sides_and_in_batches(weights: Any, tmp_path: Path) -> None:
    class Products(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.right = nn.Parameter(torch.randn(3, 530, 70))
            self.left = nn.Parameter(torch.randn(33, 9))

        def forward(self, x: Any) -> Any:
            return self.left @ (x @ self.right)

    model, x = Products(), torch.randn(2, 3, 9, 530)
    compile_c(export(model, (x,)), tmp_path, name="net", weights=weights)
    right, left = [p.detach().numpy().astype(np.float64) for p in (model.right, model.left)]
    expected = left @ (x.numpy().astype(np.float64) @ right)
    assert "TS_PACKED" in (tmp_path / "net.c").read_text()
    library = Loaded(tmp_path, "net", None if weights == "source" else "net.weights")
    np.testing.assert_allclose(library.run([], [x], expected.astype(np.float32)), expected, rtol=2e-4, atol=2e-3)


def test_units_of_work_may_run_in_any_order(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 70, 3, padding=1), nn.Conv2d(70, 2, 3), nn.Flatten(), nn.Linear(2 * 18 * 20, 90))
    x = torch.randn(2, 3, 20, 22)
    compile_c(export(model.eval(), (x,)), tmp_path, name="net")
    library = Loaded(tmp_path, "net")
    expected = model(x).detach().numpy()
    once = library.run([], [x], expected).copy()
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    counts = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    def backwards(context: Any, work: Any, argument: Any, count: int) -> None:
        counts.append(count)
        for k in reversed(range(count)):
            kind(work)(argument, k, k + 1)

    library.function("set_parallel")(library.model, backwards, None)
    assert np.array_equal(library.run([], [x], expected), once)
    assert max(counts) >= 10  # rows of the first convolution
    np.testing.assert_allclose(once, expected, rtol=1e-4, atol=1e-5)


def pooled(x: np.ndarray[Any, Any], kernel: int, stride: int, padding: int, dilation: int
           ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Largest elements of square windows, and their positions: of equal ones the first, of NaN the last."""
    wide = x.shape[-1]
    count = (wide + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    best, places = np.empty((*x.shape[:2], count, count), x.dtype), np.empty((*x.shape[:2], count, count), np.int64)
    for b, c, i, j in np.ndindex(*best.shape):
        rows, columns = [[k * stride - padding + t * dilation for t in range(kernel)] for k in (i, j)]
        found = [(x[b, c, r, s], r * wide + s) for r in rows for s in columns if 0 <= r < wide and 0 <= s < wide]
        missing = [at for value, at in found if np.isnan(value)]
        values = [value for value, _ in found]
        at = found.index(next(z for z in found if z[1] == missing[-1])) if missing else values.index(max(values))
        best[b, c, i, j], places[b, c, i, j] = found[at]
    return best, places


@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation"), [(2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 2),
                                                                       (4, 3, 2, 1)])
def test_largest_elements_of_windows(kernel: int, stride: int, padding: int, dilation: int, tmp_path: Path) -> None:
    class Pools(nn.Module):
        def forward(self, x: Any) -> Any:
            best, places = F.max_pool2d(x, kernel, stride, padding, dilation, return_indices=True)
            return best, places, F.max_pool2d(x + 0.0, kernel, stride, padding, dilation)

    x = torch.randint(0, 9, (2, 3, 19, 19)).to(torch.float32)
    x[0, 1, 4:6, 4:7], x[1, 0, 5:12, 5:12] = float("nan"), float("-inf")
    compile_c(export(Pools(), (x,)), tmp_path, name="net")
    best, places = pooled(x.numpy(), kernel, stride, padding, dilation)
    first, second, third = np.empty_like(best), np.empty_like(places), np.empty_like(best)
    assert Loaded(tmp_path, "net").status([], x.numpy(), first, second, third) == 0
    np.testing.assert_array_equal(first, best)
    np.testing.assert_array_equal(third, best)
    np.testing.assert_array_equal(second, places)
