"""Settings of the process: threads, precision of products, the old default type, seeds that nobody knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tensocket_operators as torch
from tensocket_core.device import open_device
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    precision, dtype, state = torch.get_float32_matmul_precision(), torch.get_default_dtype(), torch.get_rng_state()
    yield
    torch.set_float32_matmul_precision(precision)
    torch.set_default_dtype(dtype)
    torch.set_default_device("ref")
    torch.set_rng_state(state)


def test_threads_are_those_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type(open_device(None).runtime)
    monkeypatch.delattr(kind, "get_num_threads", raising=False)
    monkeypatch.delattr(kind, "set_num_threads", raising=False)
    torch.set_num_threads(3)
    assert torch.get_num_threads() == 1  # has none of its own
    given: list[int] = []
    monkeypatch.setattr(kind, "set_num_threads", lambda self, num: given.append(num), raising=False)
    monkeypatch.setattr(kind, "get_num_threads", lambda self: given[-1], raising=False)
    torch.set_num_threads(3)
    assert torch.get_num_threads() == 3


def test_precision_is_kept() -> None:
    assert torch.get_float32_matmul_precision() == "highest"
    torch.set_float32_matmul_precision("high")
    assert torch.get_float32_matmul_precision() == "high"


@pytest.mark.skipif(not torch.is_available("cpu"), reason="the old default types are on the host")
@pytest.mark.filterwarnings("ignore:set_default_tensor_type is deprecated")
def test_default_type() -> None:
    torch.set_default_tensor_type("torch.DoubleTensor")
    assert torch.ones(1).dtype is torch.float64
    torch.set_default_tensor_type(torch.HalfTensor)
    assert torch.ones(1).dtype is torch.float16
    torch.set_default_tensor_type("torch.meta.FloatTensor")
    assert (torch.ones(1).device.type, torch.ones(1).dtype) == ("meta", torch.float32)
    torch.set_default_tensor_type(torch.FloatTensor)
    assert torch.ones(1).device == open_device(None).device


def test_default_types_are_deprecated() -> None:
    with pytest.warns(UserWarning, match="deprecated as of PyTorch 2.1, please use set_default_dtype"):
        torch.set_default_tensor_type(torch.FloatTensor)


def test_seeds_that_nobody_knows() -> None:
    first = torch.seed()
    assert torch.initial_seed() == first
    drawn = torch.rand(4).tolist()
    assert torch.seed() != first
    torch.manual_seed(first)
    assert torch.rand(4).tolist() == drawn


@pytest.mark.parametrize(("function", "value", "kind", "rule"), [
    (torch.set_num_threads, 2.0, ArgumentTypeError, "a number of threads is an integer"),
    (torch.set_num_threads, 0, ArgumentError, "there is at least one thread"),
    (torch.set_float32_matmul_precision, "low", ArgumentError, "the precision is 'highest', 'high' or 'medium'"),
    (torch.set_default_tensor_type, torch.LongTensor, ArgumentTypeError, "the default type is of real floats"),
    (torch.set_default_tensor_type, 3, ArgumentTypeError, "the default type is of real floats"),
    (torch.set_default_tensor_type, "Float", ArgumentError, "a name is like 'tensocket.FloatTensor'"),
])
@pytest.mark.filterwarnings("ignore:set_default_tensor_type is deprecated")
def test_refusals(function: Any, value: Any, kind: type[Exception], rule: str) -> None:
    with pytest.raises(kind, match=rule):
        function(value)
