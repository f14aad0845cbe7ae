"""Replayed launches give the values of each call: nothing of the recorded call, its numbers or its state is left."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket_core.device import open_device
from tensocket_core.dispatch.registry import clear_tables
from tensocket_core.launch import replay as kept
from tensocket_core.launch.arguments import frozen, identical
from tensocket_operators.explain import explain
from tensocket_plugins.contract.launch_recorder import forbid_replay, is_recording

F = torch.nn.functional
pytestmark = pytest.mark.usefixtures("fresh_tables")
#: Calls until launches are replayed, and some more.
CALLS = 8


def convolved(x: Any, w: Any, dilation: int) -> Any:
    """A convolution of integers in integers."""
    dims = x.ndim - 2
    sizes = [n - dilation * (k - 1) for n, k in zip(x.shape[2:], w.shape[2:], strict=True)]
    total = np.zeros((x.shape[0], w.shape[0], *sizes), x.dtype)
    for place in np.ndindex(w.shape[2:]):
        cut = tuple(slice(dilation * p, dilation * p + n) for p, n in zip(place, sizes, strict=True))
        total += np.einsum("bc...,oc->bo...", x[(..., *cut)], w[(..., *place)])
    assert total.ndim == dims + 2
    return total


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
@pytest.mark.parametrize("dilation", [1, 2])
def test_convolutions_of_integers(dims: int, dtype: str, dilation: int) -> None:
    rng = np.random.default_rng(dims)
    run = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    info = np.iinfo(dtype)
    for _ in range(CALLS):
        x = rng.integers(info.min, info.max, (1, 2, *(5,) * dims), dtype, endpoint=True)
        w = rng.integers(info.min, info.max, (2, 2, *(3 if dilation == 1 else 2,) * dims), dtype, endpoint=True)
        b = rng.integers(info.min, info.max, 2, dtype, endpoint=True)
        found = run(torch.from_numpy(x), torch.from_numpy(w), torch.from_numpy(b), dilation=dilation)
        with np.errstate(over="ignore"):
            expected = convolved(x, w, dilation) + b.reshape(2, *(1,) * dims)
        np.testing.assert_array_equal(found.numpy(), expected)


def test_a_convolution_of_integers_with_one_result() -> None:
    """Of so few products that zeros and ones may give the recorded result by chance."""
    w, b = torch.ones(1, 1, 3, dtype=torch.int64), torch.ones(1, dtype=torch.int64)
    for k in range(CALLS):
        x = torch.arange(k, k + 5).reshape(1, 1, 5)
        assert F.conv1d(x, w, b, dilation=2).item() == 3 * k + 7


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("wrong", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_stays_in_its_windows(dtype: Any, wrong: float) -> None:
    """The gradient of a weight adds up rows with zeros in between, which would spread what is not finite."""
    for seed in range(CALLS):
        values = np.arange(2.0 * 3 * 5 * 5).reshape(2, 3, 5, 5)
        if seed % 2:
            values[0, 0, 0, 4] = wrong
        x = torch.tensor(values, dtype=dtype)
        w = torch.ones(2, 3, 2, 2, dtype=dtype, requires_grad=True)
        F.conv2d(x, w).sum().backward()
        windows = np.lib.stride_tricks.sliding_window_view(values, (2, 2), (2, 3))
        np.testing.assert_array_equal(w.grad.double().numpy(), np.broadcast_to(windows.sum((0, 2, 3)), w.shape))


X = [-1.0, 0.5, 2.0, 0.0]
#: Calls with a number, and what they give for -1, 1/2, 2 and 0; floats tell zeros apart by their signs.
NUMBERS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[float], list[float]]]] = {
    "threshold": (lambda x, n: F.threshold(x, 1.0, n), lambda n: [n, n, 2.0, n]),
    "pad": (lambda x, n: F.pad(x, (1, 1), value=n), lambda n: [n, *X, n]),
    "hardtanh": (lambda x, n: F.hardtanh(x - 4, n, 1.0), lambda n: [n] * 4),
    "nan_to_num": (lambda x, n: torch.nan_to_num(x * math.nan, n), lambda n: [n] * 4),
    "leaky_relu": (lambda x, n: F.leaky_relu(x.abs().neg(), n), lambda n: [-n * abs(v) for v in X]),
    "where": (lambda x, n: torch.where(x > 9, x, n), lambda n: [n] * 4),
    "full": (lambda x, n: torch.full((4,), n, dtype=torch.float32), lambda n: [n] * 4),
    "full_like": (torch.full_like, lambda n: [n] * 4),
    "fill_": (lambda x, n: x.clone().fill_(n), lambda n: [n] * 4),
    "masked_fill": (lambda x, n: x.masked_fill(x < 9, n), lambda n: [n] * 4),
    "clamp": (lambda x, n: (x - 4).clamp(min=n), lambda n: [n] * 4),
    "mul": (lambda x, n: x.abs() * n, lambda n: [n * abs(v) for v in X]),
    "new_full": (lambda x, n: x.new_full((4,), n), lambda n: [n] * 4),
    "constant_pad_nd": (lambda x, n: torch.constant_pad_nd(x, (0, 1), n), lambda n: [*X, n]),
    "copysign": (torch.copysign, lambda n: [math.copysign(v, n) for v in X]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_zeros_of_both_signs_among_the_arguments(name: str) -> None:
    run, expected = NUMBERS[name]
    x = torch.tensor(X)
    for number in (0.0, -0.0, 0.0, -0.0, 1.0, -0.0):
        for _ in range(CALLS):
            found = run(x, number).double().numpy()
            wanted = np.array(expected(number))
            np.testing.assert_array_equal(found, wanted)
            np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_complex_numbers_whose_imaginary_parts_are_zeros_of_both_signs() -> None:
    x = torch.tensor([complex(1, -0.0)])
    for factor, negative in ((1.0, False), (complex(1, -0.0), True), (complex(1, 0.0), False)):
        for _ in range(3):
            assert torch.signbit((x * factor).imag).tolist() == [negative]


def test_numbers_of_several_types_each_have_launches(asked: list[bool]) -> None:
    x = torch.tensor(X)
    for _ in range(2 * CALLS):
        for slope in (1, 1.0, np.float64(1.0), 0.25):
            assert F.leaky_relu(x, slope).tolist() == [-float(slope), 0.5, 2.0, 0.0]
    assert len(asked) <= 16
    assert sum(asked) in (0, 3, 4)  # none without native entries


def test_identical_arguments() -> None:
    same = (0.0, 1, True, 1.0, (1, 2.0), None, "a", torch.float32, complex(1, -0.0), math.nan, np.float32(2), (),
            torch.Size([2]))
    for x in same:
        assert identical(x, x)
        assert frozen(x) == frozen(x)
    assert identical(float("nan"), float("nan"))
    assert identical((1, (2.0, "x")), (1, (2.0, "x")))
    assert identical(slice(1, None, 2), slice(1, None, 2))
    for x, y in [(slice(1, 3), slice(1.0, 3)), (slice(1, 3), slice(True, 3)), (slice(1), slice(torch.ones(()))),
                 (slice(torch.ones(())), slice(torch.ones(())))]:
        assert not identical(x, y)
    for x, y in ((0.0, -0.0), (1, True), (1, 1.0), (1.0, np.float64(1)), (complex(1, 0.0), complex(1, -0.0)),
                 (1.0, 1 + 0j), ((0.0,), (-0.0,)), ((1,), (True,)), ((2,), torch.Size([2])),
                 (np.float32(0.0), np.float32(-0.0)),
                 (math.nan, -math.nan), (None, False), ((1, 2), (1,))):
        assert not identical(x, y)
        assert frozen(x) != frozen(y)
    with pytest.raises(TypeError):
        frozen(([],))


def test_equal_arguments_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    closure = kept.replayed(open_device("cpu"), [0], 2, lambda x, sizes: x.sum(sizes))
    compared: list[Any] = []

    def counted(x: Any, y: Any) -> bool:
        compared.append(x)
        return identical(x, y)

    x, first, other, third = torch.ones(2, 3), (0,), tuple(range(1)), (False,)
    monkeypatch.setattr(kept, "identical", counted)
    for sizes in (first, other, other, other, first, other):
        assert closure(x, sizes).tolist() == [2.0] * 3
    assert first is not other
    assert compared == [other]
    with pytest.raises(TypeError):
        x.sum(third)
    with pytest.raises(TypeError):  # equal, but not identical
        closure(x, third)


DRAWING: dict[str, Callable[[Any], Any]] = {
    "dropout": lambda x: F.dropout(x, 0.5),
    "rrelu": lambda x: F.rrelu(x - 0.5, training=True),
    "fractional_max_pool2d": lambda x: F.fractional_max_pool2d(x.reshape(1, 1, 4, 9), 2, output_size=(2, 4)),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5),
    "multi_head_attention": lambda x: F.multi_head_attention_forward(
        x, x, x, 6, 2, torch.ones(18, 6) / 7, torch.zeros(18), None, None, False, 0.5, torch.ones(6, 6) / 5,
        torch.zeros(6))[0],
    "gumbel_softmax": lambda x: F.gumbel_softmax(x),
}


@pytest.mark.parametrize("name", DRAWING)
def test_draws_are_those_of_a_process_that_records_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.arange(36.0).reshape(6, 6) / 36

    def run() -> list[Any]:
        clear_tables()
        torch.manual_seed(7)
        found = [DRAWING[name](x).numpy().copy() for _ in range(CALLS)]
        return [*found, torch.rand(3).numpy()]

    found = run()
    monkeypatch.setattr(kept, "CALLS", 1 << 30)
    np.testing.assert_array_equal(np.concatenate([x.ravel() for x in found]),
                                  np.concatenate([x.ravel() for x in run()]))
    assert len({x.tobytes() for x in found[:CALLS]}) > 1


def test_windows_at_drawn_distances_are_those_of_given_ones() -> None:
    """Replays take drawn numbers without a look at them, and look at given ones."""
    given = torch.full((2, 3, 2), 3.25)
    for seed in range(2 * CALLS):
        x = torch.from_numpy(np.random.default_rng(seed).standard_normal((2, 3, 9, 8)))
        torch.manual_seed(seed)
        found = F.fractional_max_pool2d(x, 3, output_size=(4, 2), return_indices=True)
        torch.manual_seed(seed)
        samples = torch.rand(2, 3, 2, dtype=torch.float64)
        wanted = F.fractional_max_pool2d(x, 3, output_size=(4, 2), return_indices=True, _random_samples=samples)
        assert torch.equal(found[0], wanted[0])
        assert torch.equal(found[1], wanted[1])
        whole, fraction = (F.fractional_max_pool2d(x, 2, 4, _random_samples=s) for s in (given, given - 3))
        assert torch.equal(whole, fraction)


@pytest.mark.native
def test_windows_at_drawn_distances_are_replayed() -> None:
    x = torch.ones(1, 2, 9, 8)
    for _ in range(CALLS):
        F.fractional_max_pool2d(x, 3, output_size=2)
    found = {item.operator: item.path for item in explain(F.fractional_max_pool2d, x, 3, output_size=2)}
    assert (found["fractional_max_pool2d"], found["fractional_pool"]) == ("unrolled", "replay")


def test_an_operator_that_draws_is_not_kept_and_draws_once(asked: list[bool]) -> None:
    state = open_device("cpu")
    closure = kept.replayed(state, [0], 1, lambda x: x + torch.rand(3))
    torch.manual_seed(3)
    found = [closure(torch.zeros(3)).tolist() for _ in range(CALLS)]
    torch.manual_seed(3)
    assert found == [torch.rand(3).tolist() for _ in range(CALLS)]
    assert not any(asked)


@pytest.mark.native
def test_a_thread_that_forbids_replay_while_another_one_records() -> None:
    """It does not record: its own launches are replayed afterwards."""
    state, looks, refused = open_device("cpu"), threading.Event(), threading.Event()

    def waiting(x: Any) -> Any:
        if is_recording():
            looks.set()
            refused.wait(10)
        return F.softplus(x)

    def look() -> None:
        closure = kept.replayed(state, [0], 1, waiting)
        for _ in range(3):
            closure(torch.ones(3))

    looker = threading.Thread(target=look)
    looker.start()
    assert looks.wait(10)
    assert not is_recording()
    forbid_replay()
    refused.set()
    looker.join()
    calls: list[Any] = []

    def counted(x: Any) -> Any:
        calls.append(x)
        return F.leaky_relu(x, 0.25)

    closure = kept.replayed(state, [0], 1, counted)
    for _ in range(3):
        assert closure(torch.full((3,), -1.0)).tolist() == [-0.25] * 3
    before = len(calls)
    for _ in range(3):
        assert closure(torch.full((3,), -1.0)).tolist() == [-0.25] * 3
    assert len(calls) == before


def test_errors_for_other_values_stay_inside() -> None:
    calls: list[Any] = []

    def strict(x: Any) -> Any:
        calls.append(x)
        if not math.isfinite(x.sum().item()):
            raise KeyError("never seen by the caller")
        return F.softplus(x)

    closure = kept.replayed(open_device("cpu"), [0], 1, strict)
    for _ in range(CALLS):
        assert closure(torch.zeros(2)).shape == (2,)
    assert sum(not x.any().item() for x in calls) >= CALLS
