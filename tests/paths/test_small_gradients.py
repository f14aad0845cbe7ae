"""Gradients of small arrays, which are computed on the arrays themselves, against closed forms and the general way."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket_core.autograd import array_backward
from tensocket_core.recording import OVERRIDDEN_KERNELS

Gradients = list[Any]


@pytest.fixture(autouse=True)
def on_arrays() -> Iterator[None]:
    """As if no test before had replaced a kernel."""
    before = OVERRIDDEN_KERNELS[:]
    OVERRIDDEN_KERNELS.clear()
    yield
    OVERRIDDEN_KERNELS[:] = before


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the nodes that ran on arrays."""
    names: list[str] = []
    outputs = array_backward._outputs

    def spy(node: Any, *args: Any) -> Any:
        made = outputs(node, *args)
        if made is not None:
            names.append(node.name())
        return made

    monkeypatch.setattr(array_backward, "_outputs", spy)
    return names


def leaves(*shapes: tuple[int, ...], dtype: Any = None) -> list[Any]:
    random = np.random.default_rng(len(shapes))
    return [torch.tensor(random.standard_normal(shape), dtype=dtype or torch.float64, requires_grad=True)
            for shape in shapes]


CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "sum": (lambda x: x.sum(), ((3, 4),)),
    "numbers": (lambda x: ((2.0 - x * 3) * 0.5 + 1).sum(), ((3,),)),
    "both sides": (lambda x, y: (x * y - y * x * x).sum(), ((2, 3), (2, 3))),
    "the same twice": (lambda x: (x * x + x).sum(), ((4,),)),
    "broadcast": (lambda x, y, z: (x * y + z).sum(), ((2, 3), (3,), ())),
    "negative": (lambda x: (-x - 1).sum(), ((2, 2),)),
    "linear": (lambda x, w, b: torch.nn.functional.linear(x, w, b).relu().sum(), ((3, 5), (4, 5), (4,))),
    "batched linear": (lambda x, w: torch.nn.functional.linear(x, w).sum(), ((2, 3, 5), (4, 5))),
    "sum of columns": (lambda x: (x.sum(0) * x.sum(1, True)).sum(), ((3, 3),)),
    "a node between": (lambda x: ((x * 2).exp() * 3).sum(), ((3,),)),
    "no dimensions": (lambda x: x * x + x * 0.5, ((),)),
}


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_the_general_way(case: str, ran: list[str]) -> None:
    function, shapes = CASES[case]
    given = leaves(*shapes)
    function(*given).backward()
    assert ran
    del ran[:]
    general = torch.autograd.grad(function(*given), given, create_graph=True)
    assert not ran
    for leaf, wanted in zip(given, general, strict=True):
        assert leaf.grad.shape == leaf.shape
        assert leaf.grad.dtype is leaf.dtype
        assert leaf.grad.grad_fn is None
        np.testing.assert_allclose(leaf.grad.numpy(), wanted.detach().numpy(), rtol=1e-12)


def test_a_layer_against_its_closed_form(ran: list[str]) -> None:
    x, w, b = leaves((3, 5), (4, 5), (4,), dtype=torch.float32)
    torch.nn.functional.linear(x, w, b).relu().sum().backward()
    upstream = (x.detach().numpy() @ w.detach().numpy().T + b.detach().numpy() > 0).astype(np.float64)
    np.testing.assert_allclose(w.grad.numpy(), upstream.T @ x.detach().numpy(), rtol=1e-5)
    np.testing.assert_allclose(x.grad.numpy(), upstream @ w.detach().numpy(), rtol=1e-5)
    np.testing.assert_array_equal(b.grad.numpy(), upstream.sum(0))
    assert ran == ["SumBackward0", "ReluBackward0", "LinearBackward0"]


def test_gradients_add_up_in_place() -> None:
    (x,) = leaves((3,))
    (x * 2.0).sum().backward()
    first = x.grad
    version = first._version
    (x * 3.0).sum().backward()
    assert x.grad is first
    assert first.tolist() == [5.0] * 3
    assert first._version == version + 1


def test_leaves_have_gradients_of_their_own() -> None:
    x, y = leaves((3,), (3,))
    upstream = torch.ones(3, dtype=torch.float64)
    (x + y).backward(upstream)
    for grad in (x.grad, y.grad):
        assert grad.is_contiguous()
        grad.zero_()
    assert upstream.tolist() == [1.0] * 3
    (x.sum()).backward()
    assert x.grad.tolist() == [1.0] * 3
    x.grad[0] = 5.0
    assert x.grad.tolist() == [5.0, 1.0, 1.0]


def test_a_gradient_that_is_no_dense_array_is_added_to() -> None:
    (x,) = leaves((2, 3))
    x.grad = torch.zeros(3, 2, dtype=torch.float64).t()
    (x * 2.0).sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2


def test_a_graph_is_freed_and_changes_are_noticed() -> None:
    x, y = leaves((3,), (3,))
    product = (x * y).sum()
    product.backward()
    with pytest.raises(RuntimeError, match="second time"):
        product.backward()
    factor = torch.ones(3, dtype=torch.float64)
    scaled = (x * factor).sum()
    factor.add_(1.0)
    with pytest.raises(RuntimeError, match="inplace operation"):
        scaled.backward()


def test_hooks_are_called(ran: list[str]) -> None:
    x, y = leaves((3,), (3,))
    middle = x * 2.0
    seen: Gradients = []
    middle.register_hook(lambda grad: seen.append(("middle", grad.tolist())))
    y.register_hook(lambda grad: grad * 10)
    middle.retain_grad()
    (middle + y).sum().backward()
    assert seen == [("middle", [1.0] * 3)]
    assert middle.grad.tolist() == [1.0] * 3
    assert x.grad.tolist() == [2.0] * 3
    assert y.grad.tolist() == [10.0] * 3
    assert "SumBackward0" in ran


@pytest.mark.parametrize("size", [3, 5000])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.complex64])
def test_other_dtypes_and_sizes(dtype: Any, size: int, ran: list[str]) -> None:
    x = torch.ones(size, dtype=dtype, requires_grad=True)
    (x * 2.0 + 1.0).sum().abs().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full(size, 2, x.detach().numpy().dtype))
    # The gradient of a large sum is a small one that is expanded, in the general way.
    assert ran == (["SumBackward0", "AddBackward0", "MulBackward0"] if dtype is torch.float32 and size == 3 else [])


def test_mixed_dtypes() -> None:
    x = torch.ones(3, requires_grad=True)
    y = torch.full((3,), 0.1, dtype=torch.float64, requires_grad=True)
    (x * y).sum().backward()
    assert x.grad.dtype is torch.float32
    np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 0.1, np.float32))
    assert y.grad.tolist() == [1.0] * 3


def test_replaced_kernels_are_used(ran: list[str]) -> None:
    library = torch.library.Library("aten", "IMPL")
    library.impl("mul", lambda a, b: torch.full((3,), 7.0, dtype=torch.float64), "CPU")
    try:
        (x,) = leaves((3,))
        factor = torch.ones(3, dtype=torch.float64)
        (x * factor).sum().backward()
        assert x.grad.tolist() == [7.0] * 3
        assert not ran
    finally:
        library._destroy()


def test_modes_see_the_operators_of_gradients(ran: list[str]) -> None:
    from tensocket.utils._python_dispatch import TorchDispatchMode

    calls: list[str] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(str(func))
            return func(*args, **(kwargs or {}))

    (x,) = leaves((3,))
    product = (x * torch.ones(3, dtype=torch.float64)).sum()
    with Watch():
        product.backward()
    assert any("mul" in name for name in calls)
    assert not ran


def test_overflow_does_not_warn() -> None:
    x = torch.full((3,), 1e38, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            (x * torch.full((3,), 1e38)).sum().backward(torch.tensor(10.0))
    assert x.grad.tolist() == [float("inf")] * 3
