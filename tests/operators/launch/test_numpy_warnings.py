"""NumPy's floating-point warnings never reach users, whatever their settings; results are PyTorch's."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators.functions import cross_entropy, hardtanh

pytest.importorskip("tensocket_cpu")


def gradient_of_a_product() -> Any:
    x, y = torch.ones(1, requires_grad=True), torch.full((1,), 1e30, requires_grad=True)
    (x * y * y).backward(torch.full((1,), 1e30))
    return x.grad


CASES: dict[str, tuple[Callable[[], Any], list[float]]] = {
    "exp": (lambda: torch.tensor([1e3, 0.0]).exp(), [math.inf, 1.0]),
    "exp of a number": (lambda: torch.tensor(1e3).exp().reshape(1), [math.inf]),
    "mul": (lambda: torch.tensor([3e38]) * torch.tensor([10.0]), [math.inf]),
    "mul by a number": (lambda: torch.tensor([3e38]) * 10.0, [math.inf]),
    "in place": (lambda: torch.tensor([3e38, 1.0]).mul_(10.0), [math.inf, 10.0]),
    "in place by a tensor": (lambda: torch.tensor([3e38, 1.0]).mul_(torch.tensor([10.0, 2.0])), [math.inf, 2.0]),
    "div": (lambda: torch.tensor([1.0, -1.0]) / torch.tensor([0.0, 0.0]), [math.inf, -math.inf]),
    "log": (lambda: torch.tensor([0.0]).log(), [-math.inf]),
    "sum": (lambda: torch.tensor([3e38, 3e38] * 20).sum().reshape(1), [math.inf]),
    "softmax": (lambda: torch.softmax(torch.tensor([-math.inf, 0.0]), 0), [0.0, 1.0]),
    "log_softmax": (lambda: torch.log_softmax(torch.tensor([-math.inf, 0.0]), 0), [-math.inf, 0.0]),
    "matmul": (lambda: (torch.tensor([[3e38]]) @ torch.tensor([[10.0]]))[0], [math.inf]),
    "of every other element": (lambda: torch.tensor([1e3, 5.0, 0.0])[::2].exp(), [math.inf, 1.0]),
    "a sum of every other element": (lambda: torch.tensor([3e38, 5.0, 3e38])[::2].sum().reshape(1), [math.inf]),
    "in place of half precision": (lambda: torch.tensor([6e4, 1.0], dtype=torch.float16).mul_(2), [math.inf, 2.0]),
    "bfloat16 of a larger number": (lambda: torch.tensor([1e300], dtype=torch.float64).to(torch.bfloat16), [math.inf]),
    "floor of a signaling NaN": (
        lambda: torch.tensor([0x7F800001], dtype=torch.int32).view(torch.float32).floor().isnan(), [True]),
    "a backward pass": (lambda: gradient_of_a_product().reshape(1), [math.inf]),
    "a loss of classes": (lambda: cross_entropy(
        torch.tensor([[-3e38, 3e38]]), torch.tensor([0])).reshape(1), [math.inf]),
}


@pytest.fixture(autouse=True)
def on_cpu() -> Iterator[None]:
    torch.set_default_device("cpu")
    yield
    torch.set_default_device(None)


@pytest.mark.parametrize("name", CASES)
def test_where_warnings_are_errors(name: str) -> None:
    run, expected = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run().tolist() == expected


@pytest.mark.parametrize("name", CASES)
def test_where_all_warnings_are_shown(name: str) -> None:
    run, expected = CASES[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert run().tolist() == expected
    assert [str(each.message) for each in caught] == []


@pytest.mark.parametrize("name", CASES)
def test_where_numpy_raises(name: str) -> None:
    run, expected = CASES[name]
    with np.errstate(all="raise"):
        assert run().tolist() == expected
        assert set(np.geterr().values()) == {"raise"}


@pytest.mark.parametrize("name", CASES)
def test_where_numpy_calls_a_function(name: str) -> None:
    run, expected = CASES[name]
    called: list[object] = []
    with np.errstate(all="call", call=lambda *args: called.append(args)):
        assert run().tolist() == expected
    assert called == []


def test_where_calls_are_tried_with_other_numbers_to_keep_their_launches() -> None:
    x = torch.tensor([0.5, 7.0, -3.0] * 35, dtype=torch.float16).reshape(5, 3, 7)
    called: list[object] = []
    with np.errstate(all="call", call=lambda *args: called.append(args)):
        for _ in range(12):
            assert hardtanh(x).flatten().tolist() == [0.5, 1.0, -1.0] * 35
    assert called == []


def test_on_a_stream() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with torch.Stream("cpu") as stream:
            result = torch.tensor([3e38, 0.0]) * torch.tensor([10.0, 1.0])
        stream.synchronize()
        assert result.tolist() == [math.inf, 0.0]
    assert [str(each.message) for each in caught] == []


def test_where_nothing_is_set() -> None:
    program = ("import numpy as np, tensocket_operators as torch\n"
               "x = torch.tensor([3e38], device='cpu')\n"
               "assert (x * 10.0).item() == np.inf and x.exp().item() == np.inf\n"
               "np.array([3e38], np.float32) * np.float32(10)\n")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    # NumPy's own code still warns, and only that.
    assert done.stderr.count("RuntimeWarning") == 1
    assert "<string>:4: RuntimeWarning" in done.stderr
