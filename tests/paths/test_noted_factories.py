"""Factories whose calls are noted: every call returns what the first one returns, in memory of its own."""

from __future__ import annotations

import math
import struct
import threading
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket.overrides import TorchFunctionMode
from tensocket_operators.creation import noted
from tensocket_operators.signal import signal_windows
from tensocket_plugins.contract.errors import ArgumentError, ShapeError, TensocketError

#: Calls after which calls are noted, and some more.
CALLS = noted._CALLS + 8


def model() -> Any:
    return torch.ones(2, 3)


#: A call by the device, and the values that it makes.
CASES: dict[str, tuple[Any, Any]] = {
    "arange": (lambda d: torch.arange(1, 4, 0.5, device=d), [1, 1.5, 2, 2.5, 3, 3.5]),
    "arange of float64": (lambda d: torch.arange(3, dtype=torch.float64, device=d), [0, 1, 2]),
    "linspace": (lambda d: torch.linspace(0, 1, 5, device=d), [0, 0.25, 0.5, 0.75, 1]),
    "linspace of tensors": (lambda d: torch.linspace(torch.tensor(0.0), torch.tensor(1.0), 3, device=d), [0, 0.5, 1]),
    "logspace of tensors": (lambda d: torch.logspace(torch.tensor(0), torch.tensor(2.0), 3, device=d), [1, 10, 100]),
    "logspace": (lambda d: torch.logspace(0, 2, 3, device=d), [1, 10, 100]),
    "eye": (lambda d: torch.eye(2, 3, device=d), [[1, 0, 0], [0, 1, 0]]),
    "scalar_tensor": (lambda d: torch.scalar_tensor(2.5, device=d), 2.5),
    "full_like": (lambda d: torch.full_like(model(), -1.0, device=d), [[-1, -1, -1], [-1, -1, -1]]),
    "new_full": (lambda d: model().new_full((2,), 7, device=d), [7, 7]),
    "general_cosine": (lambda d: signal_windows.general_cosine(3, a=[0.5, 0.25, 2], device=d), [2.25, 2.75, 2.25]),
    "hann_window": (lambda d: torch.hann_window(4, device=d), [0, 0.5, 1, 0.5]),
}


@pytest.fixture(params=["cpu", None])
def device(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize("name", list(CASES))
def test_repeated_calls_make_equal_tensors_of_their_own(device, name):
    call, wanted = CASES[name]
    made = [call(device) for _ in range(CALLS)]
    for k, x in enumerate(made):
        assert (x.dtype, x.device, x.stride()) == (made[0].dtype, made[0].device, made[0].stride())
        assert np.allclose(x.tolist(), wanted)
        x.fill_(-k)
        assert x._version == 1
    assert all((np.array(x.tolist()) == -k).all() for k, x in enumerate(made))
    assert np.allclose(call(device).tolist(), wanted)


def test_numbers_in_tensors_are_read_by_every_call(device):
    end = torch.tensor(0.0)
    for k in range(CALLS):
        end.fill_(k % 3)
        assert torch.linspace(0, end, 2, device=device).tolist() == [0, k % 3]
        assert torch.logspace(end, end, 1, device=device).tolist() == [10 ** (k % 3)]
    with pytest.raises(ShapeError, match="bounds are numbers"):
        torch.logspace(0, torch.ones(2), 3, device=device)


def bits(x: Any) -> bytes:
    return struct.pack("d", x.item())


def test_numbers_count_by_their_bits():
    for _ in range(CALLS):
        assert bits(torch.full_like(model()[0, 0], 0.0)) == struct.pack("d", 0.0)
        assert bits(torch.full_like(model()[0, 0], -0.0)) == struct.pack("d", -0.0)
        assert [torch.arange(n).dtype for n in (2, 2.0)] == [torch.int64, torch.float32]
        assert math.isnan(torch.scalar_tensor(math.nan).item())


def test_lists_count_by_their_numbers_at_each_call():
    window = signal_windows.general_cosine
    given = [0.5, -0.5]
    for first in (0.5, 0.25, 0.5, 0.25, 0.5):
        given[0] = first
        for _ in range(CALLS):
            assert window(2, a=given).tolist() == [first + 0.5] * 2
            assert window(2, a=tuple(given)).tolist() == [first + 0.5] * 2
    for _ in range(CALLS):
        with pytest.raises(ArgumentError):
            window(2, a=[])
        with pytest.raises(TypeError):
            window(2, a=["a", 1])


def test_a_size_of_another_type_is_still_refused():
    for _ in range(CALLS):
        model().new_full((2, 1), 0.0)
    for size in ((2, 1.0), (2, True)):
        with pytest.raises(TensocketError):
            model().new_full(size, 0.0)


def test_models_count_by_key_and_layout():
    wide, turned = torch.ones(3, 3, dtype=torch.float64), torch.ones(3, 3).t().contiguous().t()
    for _ in range(CALLS):
        assert torch.full_like(wide, 1).dtype is torch.float64
        assert torch.full_like(turned, 1).stride() == (1, 3)
        assert torch.full_like(turned.contiguous(), 1).stride() == (3, 1)
        leaf = torch.full_like(torch.ones(2, requires_grad=True), 1)
        assert not leaf.requires_grad
        assert torch.full_like(leaf, 1, requires_grad=True).requires_grad


def test_defaults_count():
    for _ in range(CALLS):
        for dtype in (torch.float64, torch.float32):
            torch.set_default_dtype(dtype)
            try:
                assert torch.linspace(0, 1, 2).dtype is dtype
                assert torch.eye(2).dtype is dtype
            finally:
                torch.set_default_dtype(torch.float32)
        for place in ("ref:1", "ref:0"):
            with torch.device(place):
                assert str(torch.eye(2).device) == place
                assert torch.linspace(0, 1, 2).device == torch.eye(2).device
    assert torch.eye(2, device="meta").device.type == "meta"


def test_errors_come_from_the_factory():
    for _ in range(CALLS):
        with pytest.raises(ArgumentError, match=r"^\[arange\] start=0, end=3, step=0 — "):
            torch.arange(0, 3, 0)
        with pytest.raises(TensocketError):
            torch.eye(2, device="nowhere")


def test_uninitialised_memory_is_filled_if_results_must_be_reproducible():
    for _ in range(CALLS):
        torch.empty_strided((3,), (1,))
    torch.use_deterministic_algorithms(True)
    try:
        assert all(map(math.isnan, torch.empty_strided((3,), (1,)).tolist()))
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(("size", "stride"), [((3, 2), (2, 1)), ((3, 2), (1, 3)), ((3, 2), (5, 1)), ((0, 2), (7, 1)),
                                              ((2, 1), (1, 9)), ((2, 3), (0, 1))])
def test_strides_are_those_asked_for(size, stride):
    for _ in range(CALLS):
        assert torch.empty_strided(size, stride).stride() == stride
        assert model().new_empty_strided(size, stride).stride() == stride


def test_calls_that_always_differ():
    for n in range(1, CALLS + 1500):
        assert torch.linspace(n, n, 2).tolist() == [n, n]
    for _ in range(3):
        assert torch.linspace(0, 1, 3).tolist() == [0, 0.5, 1]


@pytest.mark.parametrize("call", [
    lambda: torch.zeros(2, 3), lambda: torch.ones((2, 3)), lambda: torch.full((2,), 2), lambda: torch.full((2,), 2.0),
    lambda: torch.full((2,), True), lambda: torch.zeros([2]), lambda: torch.zeros(0, 3), lambda: torch.ones(()),
    lambda: torch.ones(1, 2, 1, 2, 1, 2), lambda: torch.zeros(2, dtype=torch.complex64),
    lambda: torch.ones(2, dtype=torch.bfloat16), lambda: torch.ones(70, 70), lambda: torch.zeros(64, 64),
    lambda: torch.ones_like(model().t()), lambda: torch.zeros_like(model(), memory_format=torch.contiguous_format),
    lambda: torch.ones_like(model().to(torch.int8)), lambda: torch.zeros_like(model()[:, ::2]),
    lambda: torch.ones_like(model().requires_grad_()), lambda: torch.ones_like(model(), requires_grad=True),
    lambda: model().new_zeros(3), lambda: model().new_ones((3, 1)),
    lambda: torch.nn.Parameter(model()).new_ones(2), lambda: torch.empty_like(torch.nn.Parameter(model())).zero_(),
], ids=range(23))
def test_results_have_the_properties_of_first_ones(call):
    made = [call() for _ in range(CALLS)]
    facts = {(type(x), x._key, tuple(x.shape), x.stride(), x._array.dtype, x._array.flags.writeable,
              x.is_leaf, x._version, repr(x.tolist())) for x in made}
    assert len(facts) == 1
    assert len({x.data_ptr() for x in made if x.numel()}) == len([x for x in made if x.numel()])


class Heir(torch.Tensor):
    """A subclass."""


def test_subclasses_and_modes_intercept_noted_calls():
    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    for _ in range(CALLS):
        torch.zeros(2), torch.rand(2)
    with Mode():
        torch.zeros(2), torch.rand(2)
    assert seen == ["zeros", "rand"]
    assert type(torch.ones_like(model().as_subclass(Heir))) is Heir


def test_out_and_wrong_keywords_are_handled_by_the_factory():
    out = torch.ones(2)
    for _ in range(CALLS):
        assert torch.zeros(2, out=out) is out
        assert torch.full_like(model(), torch.tensor(float(CALLS))).sum() == 6 * CALLS
        with pytest.raises(TensocketError):
            torch.zeros(2, unknown=1)
    value = torch.tensor(0.0)
    for k in range(CALLS):
        value.fill_(k)
        assert torch.full_like(out, value).tolist() == [k, k]


def test_threads_get_their_own_tensors(device):
    made: list[Any] = []

    def run() -> None:
        for k in range(200):
            x = torch.linspace(0, 1, 3, device=device)
            made.append((x.tolist(), k))
            x.zero_()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {tuple(values) for values, _ in made} == {(0.0, 0.5, 1.0)}
