"""Operators whose launches are kept, called often: other values, shapes, strides, dtypes, modes, and replacements."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket import library
from tensocket_core.device import open_device
from tensocket_core.dispatch.call import call
from tensocket_core.launch import replay as kept
from tensocket_operators.indexing.gather_scatter import sum_at
from tensocket_plugins.contract.backend import OpenDevice

F = torch.nn.functional
pytestmark = [pytest.mark.native, pytest.mark.usefixtures("fresh_tables")]
#: Calls until launches are kept, and some more.
CALLS = 6


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w + b


def rms_norm(x: Any, w: Any, b: Any) -> Any:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w


def group_norm(x: Any, w: Any, b: Any) -> Any:
    rows = x.reshape(x.shape[0], 2, -1)
    rows = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    return rows.reshape(x.shape) * w[:, None] + b[:, None]


def known_norm(x: Any, w: Any, b: Any) -> Any:
    mean, var = np.arange(len(w))[:, None] / 4, 1 + np.arange(len(w))[:, None] / 8
    return (x - mean) / np.sqrt(var + 1e-5) * w[:, None] + b[:, None]


def batch_norm(x: Any, w: Any, b: Any) -> Any:
    steps = torch.arange(len(w), dtype=x.dtype)
    return F.batch_norm(x, steps / 4, 1 + steps / 8, w, b, False)


def attention(x: Any, w: Any, b: Any) -> Any:
    keys = x * w
    scores = np.exp(np.einsum("bhle,bhse->bhls", x, keys) / np.sqrt(x.shape[-1]))
    return np.einsum("bhls,bhse->bhle", scores / scores.sum(-1, keepdims=True), x + b)


Case = tuple[Callable[..., Any], Callable[..., Any], list[tuple[tuple[int, ...], int]]]
#: The call, the reference, and shapes with the size of weight and bias.
CASES: dict[str, Case] = {
    "layer_norm": (lambda x, w, b: F.layer_norm(x, tuple(w.shape), w, b, 1e-5), layer_norm,
                   [((4, 12), 12), ((3, 12), 12), ((2, 3, 12), 12), ((4, 5), 5)]),
    "rms_norm": (lambda x, w, b: F.rms_norm(x, tuple(w.shape), w, 1e-5), rms_norm, [((4, 12), 12), ((2, 3, 7), 7)]),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), group_norm, [((3, 4, 5), 4), ((2, 6, 3), 6)]),
    "batch_norm": (batch_norm, known_norm, [((3, 4, 5), 4), ((2, 6, 3), 6)]),
    "attention": (lambda x, w, b: F.scaled_dot_product_attention(x, x * w, x + b), attention,
                  [((2, 2, 5, 4), 4), ((1, 2, 3, 6), 6)]),
}
TOLERANCES = {"float64": 1e-12, "float32": 2e-5, "float16": 2e-2, "bfloat16": 1e-1}


def tensors(shape: tuple[int, ...], size: int, dtype: str, seed: int) -> list[Any]:
    """Values, factors and shifts, each of which a multiple of 1/8, so that all dtypes hold them."""
    rng = np.random.default_rng(seed)
    return [torch.tensor(np.round(rng.standard_normal(n) * 8) / 8, dtype=getattr(torch, dtype))
            for n in (shape, (size,), (size,))]


def exact(x: Any) -> Any:
    return x.detach().double().numpy()


def close(found: Any, expected: Any) -> None:
    tolerance = TOLERANCES[str(found.dtype).removeprefix("torch.").removeprefix("tensocket.")]
    np.testing.assert_allclose(exact(found), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_values_shapes_and_strides_change_between_calls(name: str, dtype: str, asked: list[bool]) -> None:
    run, reference, shapes = CASES[name]
    for seed in range(CALLS):
        for shape, size in shapes:
            x, w, b = tensors(shape, size, dtype, seed)
            close(run(x, w, b), reference(*map(exact, (x, w, b))))
            turned = x.transpose(0, -1).contiguous().transpose(0, -1)
            close(run(turned, w, b), reference(*map(exact, (x, w, b))))
            apart = torch.stack([w, b], 1)
            close(run(x, apart[:, 0], apart[:, 1]), reference(*map(exact, (x, w, b))))
    assert any(asked) or (name == "batch_norm" and dtype.endswith("16"))  # partly computed in float32 by NumPy


@pytest.mark.parametrize("name", CASES)
def test_gradients_come_and_go(name: str) -> None:
    """Against differences of the reference; leaves that need gradients take turns."""
    run, reference, shapes = CASES[name]
    (shape, size), step = shapes[0], 1e-6
    for seed in range(CALLS):
        arguments = tensors(shape, size, "float64", seed)
        for wanted in ((), (0,), (0, 1, 2), (1,)):
            leaves = [x.clone().requires_grad_(k in wanted) for k, x in enumerate(arguments)]
            result = run(*leaves)
            assert result.requires_grad == bool(wanted)
            upstream = np.cos(np.arange(result.numel())).reshape(result.shape)
            close(result, reference(*map(exact, arguments)))
            if not wanted:
                continue
            result.backward(torch.tensor(upstream))
            for k, leaf in enumerate(leaves):
                if k not in wanted or (name == "rms_norm" and k == 2):
                    assert leaf.grad is None
                    continue
                along = np.sin(np.arange(leaf.numel())).reshape(leaf.shape)
                ends = [[exact(x) + (sign * step * along if j == k else 0) for j, x in enumerate(arguments)]
                        for sign in (1, -1)]
                slope = ((reference(*ends[0]) - reference(*ends[1])) * upstream).sum() / (2 * step)
                np.testing.assert_allclose((exact(leaf.grad) * along).sum(), slope, rtol=1e-5, atol=1e-6)


def test_arguments_that_are_no_tensors() -> None:
    x = tensors((4, 12), 12, "float64", 0)[0]
    for _ in range(CALLS):
        for eps in (1e-5, 0.5, 1):
            for shape in ((12,), [12], torch.Size([12])):
                found = F.layer_norm(x, shape, eps=eps)
                values = exact(x)
                expected = (values - values.mean(-1, keepdims=True)) / np.sqrt(values.var(-1, keepdims=True) + eps)
                close(found, expected)
        close(F.layer_norm(x, (4, 12), eps=1e-5), layer_norm(exact(x).reshape(1, -1), 1.0, 0.0).reshape(4, 12))


def test_numbers_of_other_types_are_refused_as_before() -> None:
    image, weight = tensors((1, 2, 5, 5), 1, "float64", 0)[0], tensors((3, 2, 3, 3), 1, "float64", 1)[0]
    for _ in range(CALLS):
        assert F.conv2d(image, weight, stride=2).shape == (1, 3, 2, 2)
        assert F.max_pool2d(image, (2, 2)).shape == (1, 2, 2, 2)
        with pytest.raises((TypeError, ValueError)):
            F.conv2d(image, weight, stride=2.0)


def test_results_are_new_and_plain() -> None:
    x, w, b = tensors((4, 12), 12, "float32", 0)
    found = [F.layer_norm(x, (12,), w, b) for _ in range(CALLS)]
    before = found[-2].clone()
    found[-1].add_(1.0)
    assert (found[-2] == before).all().item()
    assert found[-1]._version == 1
    assert not found[-1]._is_view()
    assert type(F.layer_norm(torch.nn.Parameter(x), (12,), w, b)) is torch.Tensor


def test_without_gradients_in_a_mode(asked: list[bool]) -> None:
    x, w, b = tensors((4, 12), 12, "float64", 0)
    w.requires_grad_()
    for _ in range(CALLS):
        with torch.no_grad():
            found = F.layer_norm(x, (12,), w, b)
        assert not found.requires_grad
        close(found, layer_norm(*map(exact, (x, w, b))))
        with torch.inference_mode():
            found = F.layer_norm(x, (12,), w, b)
        assert found.is_inference()
        assert F.layer_norm(x, (12,), w, b).requires_grad
    assert any(asked)


def test_modes_and_replaced_kernels_see_what_is_called() -> None:
    x = tensors((3, 4, 5), 4, "float64", 0)[0]
    for _ in range(CALLS):
        F.layer_norm(x, (5,))
        F.rms_norm(x, (5,))
    with torch.dispatch.trace(collect=True) as calls:
        F.layer_norm(x, (5,))
    assert any("normalize_rows" in str(call) for call in calls)
    patch = library.Library("aten", "IMPL")
    try:
        patch.impl("normalize_rms", lambda x, *args: (torch.zeros_like(x), None), "CPU")
        assert not F.rms_norm(x, (5,)).any().item()
    finally:
        patch._destroy()


def test_a_device_that_compiles_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = open_device("cpu").runtime
    monkeypatch.setattr(runtime, "compile_plan", partial(OpenDevice.compile_plan, runtime))
    for seed in range(CALLS):
        x, w, b = tensors((4, 12), 12, "float64", seed)
        close(F.layer_norm(x, (12,), w, b), layer_norm(*map(exact, (x, w, b))))


def test_many_shapes_begin_anew(monkeypatch: pytest.MonkeyPatch, asked: list[bool]) -> None:
    monkeypatch.setattr(kept, "_RECORDED", 2)
    for rows in range(1, 9):
        for seed in range(CALLS):
            x, w, b = tensors((rows, 6), 6, "float64", seed)
            close(F.layer_norm(x, (6,), w, b), layer_norm(*map(exact, (x, w, b))))
    assert len(asked) >= 8


@pytest.mark.parametrize("momentum", [0.1, 1.0])
def test_running_statistics_move_in_every_call(momentum: float) -> None:
    mean, var = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    views = mean.view(3), var[:]
    wanted = np.zeros(3), np.ones(3)
    for seed in range(2 * CALLS):
        x = tensors((4, 3, 2), 3, "float64", seed)[0].requires_grad_(bool(seed % 2))
        F.batch_norm(x, mean, var, training=True, momentum=momentum)
        values = exact(x).transpose(1, 0, 2).reshape(3, -1)
        wanted = tuple([old * (1 - momentum) + new * momentum for old, new in zip(
            wanted, (values.mean(1), values.var(1, ddof=1)), strict=True)])
        for running, view, expected in zip((mean, var), views, wanted, strict=True):
            close(running, expected)
            close(view, expected)
            assert running._version == seed + 1
            assert not running.requires_grad


POOLS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), lambda w: w.max((-1, -2))),
    "max_pool2d_with_indices": (lambda x: F.max_pool2d(x, 2, return_indices=True)[0], lambda w: w.max((-1, -2))),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), lambda w: w.mean((-1, -2))),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (2, 3)), lambda w: w.max((-1, -2))),
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_windows(name: str, dtype: str) -> None:
    run, reference = POOLS[name]
    for seed in range(CALLS):
        x = tensors((2, 3, 4, 6), 1, dtype, seed)[0]
        for laid in (x, x.contiguous(memory_format=torch.channels_last), x.transpose(0, 1), x[:1], x[:, ::2]):
            for wanted in (False, True):
                leaf = laid.detach().requires_grad_(wanted)
                found = run(leaf)
                windows = np.lib.stride_tricks.sliding_window_view(exact(leaf), (2, 2), (2, 3))[:, :, ::2, ::2]
                close(found, reference(windows))
                if wanted:
                    found.sum().backward()
                    np.testing.assert_allclose(exact(leaf.grad).sum((-1, -2)), 6.0, rtol=TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_convolutions(dtype: str) -> None:
    for seed in range(CALLS):
        x, w, b = (tensors(shape, 3, dtype, seed)[k] for shape, k in (((2, 2, 5, 4), 0), ((3, 2, 2, 2), 0), ((1,), 1)))
        for image in (x, x.contiguous(memory_format=torch.channels_last), x[:1]):
            for bias in (None, b):
                windows = np.lib.stride_tricks.sliding_window_view(exact(image), (2, 2), (2, 3))
                expected = np.einsum("bchwij,ocij->bohw", windows, exact(w))
                expected = expected if bias is None else expected + exact(b)[:, None, None]
                leaves = [t.detach().requires_grad_() for t in (image, w, *([] if bias is None else [bias]))]
                close(F.conv2d(image, w, bias), expected)
                found = F.conv2d(*leaves)
                close(found, expected)
                found.sum().backward()
                close(leaves[1].grad, np.broadcast_to(windows.sum((0, 2, 3)), w.shape))
                if bias is not None:
                    close(leaves[2].grad, np.full(3, float(expected[0, 0].size * len(expected))))


def test_activations_with_arguments() -> None:
    erf = np.vectorize(math.erf)
    for seed in range(CALLS):
        x = tensors((3, 5), 1, "float64", seed)[0]
        values = exact(x)
        for laid, wanted in ((x, values), (x.t(), values.T), (x[:, ::2], values[:, ::2]), (x[0], values[0])):
            close(F.gelu(laid), 0.5 * wanted * (1 + erf(wanted / math.sqrt(2))))
            for slope in (0.25, 1, 2.0):
                close(F.leaky_relu(laid, slope), np.where(wanted > 0, wanted, slope * wanted))
            close(F.softplus(laid, 2.0), np.log1p(np.exp(2 * wanted)) / 2)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_sums_at_positions(dtype: str, rows: int) -> None:
    """Gradients of embeddings and gathers: sums of what was taken from each position."""
    for seed in range(CALLS):
        rng = np.random.default_rng(seed)
        table = tensors((rows, 5), 1, dtype, seed)[0]
        upstream = tensors((4, 5), 1, dtype, seed + 1)[0]
        for index in (rng.integers(0, rows, 4), np.zeros(4, np.int64)):
            expected = np.zeros((rows, 5))
            np.add.at(expected, index, exact(upstream))
            places = torch.tensor(index)
            for kind in (torch.int64, torch.int32):
                leaf = table.detach().requires_grad_()
                F.embedding(places.to(kind), leaf).backward(upstream)
                close(leaf.grad, expected)
            leaf = table.detach().requires_grad_()
            leaf.index_select(0, places).backward(upstream)
            close(leaf.grad, expected)
            leaf = table.detach().requires_grad_()
            leaf.t().index_select(1, places).backward(upstream.t())
            close(leaf.grad, expected)
            leaf = table.detach().requires_grad_()
            leaf.gather(0, places[:, None].expand(4, 5)[:, :3]).backward(upstream[:, :3])
            close(leaf.grad, np.concatenate([expected[:, :3], np.zeros((rows, 2))], 1))


def softmax(x: Any, dim: int) -> Any:
    terms = np.exp(x)
    return terms / terms.sum(dim, keepdims=True)


ROWS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "softmax": (torch.softmax, softmax, lambda x, g, d: softmax(x, d) * (
        g - (g * softmax(x, d)).sum(d, keepdims=True))),
    "log_softmax": (torch.log_softmax, lambda x, d: np.log(softmax(x, d)), lambda x, g, d: (
        g - softmax(x, d) * g.sum(d, keepdims=True))),
    "cumsum": (torch.cumsum, np.cumsum, lambda x, g, d: np.flip(np.cumsum(np.flip(g, d), d), d)),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_rows_and_their_gradients(name: str, dtype: str) -> None:
    run, reference, gradient = ROWS[name]
    for seed in range(CALLS):
        for shape in ((4, 6), (3, 6), (2, 3, 4), (1, 1)):
            x, upstream = tensors(shape, 1, dtype, seed)[0], tensors(shape, 1, dtype, seed + 1)[0]
            for dim in (-1, 0, 1):
                for wanted in (True, False):
                    leaf = x.detach().requires_grad_(wanted)
                    found = run(leaf, dim)
                    close(found, reference(exact(x), dim))
                    close(run(x.transpose(0, 1), dim), reference(exact(x).swapaxes(0, 1), dim))
                    if wanted:
                        found.backward(upstream)
                        close(leaf.grad, gradient(exact(x), exact(upstream), dim))


def test_scans_of_integers_and_scalars() -> None:
    for seed in range(CALLS):
        values = np.random.default_rng(seed).integers(-9, 9, (3, 5))
        for kind in (torch.int32, torch.int64, torch.uint8):
            x = torch.tensor(np.abs(values)).to(kind)
            assert (x.cumsum(1).numpy() == np.cumsum(np.abs(values), 1)).all()
        assert torch.tensor(float(seed)).cumsum(0).item() == seed
        assert torch.zeros(0, 3).cumsum(0).shape == (0, 3)
        assert torch.cummax(torch.tensor(values), 1).indices.shape == (3, 5)


def test_sums_at_positions_of_a_batch() -> None:
    grads = tensors((3, 4, 2), 1, "float64", 0)[0]
    index = torch.tensor([[1, 0, 1, 4]] * 3).unsqueeze(-1).expand(3, 4, 2)
    found = torch.vmap(lambda g, i: call(sum_at, g, i, 0, (5, 2), False))(grads, index)
    expected = np.zeros((3, 5, 2))
    for k in range(3):
        np.add.at(expected[k], [1, 0, 1, 4], exact(grads)[k])
    close(found, expected)
