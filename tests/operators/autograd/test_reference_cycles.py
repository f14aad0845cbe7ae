"""Memory is returned without the garbage collector: there are no reference cycles."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tensocket_operators as torch
from tensocket_core.autograd.node import Node
from tensocket_core.tensor import Tensor
from tensocket_operators import functions as F
from tensocket_plugins.contract.errors import OutOfMemoryError, ShapeError


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    """Without the collector, what is in a cycle stays."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive() -> tuple[int, int]:
    """Tensors and nodes that exist."""
    found = [type(x) for x in gc.get_objects()]
    return sum(issubclass(kind, Tensor) for kind in found), sum(kind is Node for kind in found)


def step(weights: list[Any], x: Any, target: Any) -> None:
    hidden = (x @ weights[0] + weights[1]).relu()
    logits = F.layer_norm(hidden @ weights[2], (3,))
    loss = F.cross_entropy(logits, target)
    loss.backward()
    for w in weights:
        with torch.no_grad():
            w.sub_(w.grad * 0.1)
        w.grad = None


def network() -> tuple[list[Any], Any, Any]:
    torch.manual_seed(0)
    weights = [torch.randn(*shape, requires_grad=True) for shape in ((4, 5), (5,), (5, 3))]
    return weights, torch.randn(6, 4), torch.randint(3, (6,))


def test_training_steps_leave_no_tensor_or_node(device: str) -> None:
    weights, x, target = network()
    step(weights, x, target)
    before, memory = alive(), torch.memory_allocated(device)
    for _ in range(5):
        step(weights, x, target)
    assert alive() == before
    assert torch.memory_allocated(device) == memory


def test_the_count_of_living_objects_notices_leaks() -> None:
    before = alive()
    kept = torch.ones(2, requires_grad=True) * 2
    tensors, nodes = alive()
    assert tensors > before[0]
    assert nodes == before[1] + 1
    del kept
    assert alive() == before


@pytest.mark.parametrize("body", [
    lambda x: (x * x).sum(),
    lambda x: x.exp().tanh().sum(),  # results save themselves
    lambda x: x.softmax(0).sum(),
    lambda x: F.cat([x, x]).sum(),
    lambda x: x[1:].mul(2)[[0, 1]].sum(),
    lambda x: (x * 1).mul_(2).exp_().sum(),
    lambda x: x.reshape(2, 2).t().matmul(x.view(2, 2)).sum(),
], ids=range(7))
def test_graphs_are_freed_with_their_last_tensor(body: Callable[[Any], Any]) -> None:
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    body(x)
    before = alive()
    result = body(x)
    result.backward(retain_graph=True)
    node = weakref.ref(result.grad_fn)
    assert node() is not None
    del result
    assert node() is None
    x.grad = None
    assert alive() == before


def test_views_changed_in_place_make_no_cycle() -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    before = alive()
    base = x * 1
    view = base[1:]
    view.mul_(2)
    base.add_(1)
    base.sum().backward()
    x.grad = None
    del base, view
    assert alive() == before


def test_double_backward_makes_no_cycle() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    before = alive()
    for function in (torch.Tensor.exp, torch.Tensor.tanh, lambda t: t * t * t):
        first = torch.autograd.grad(function(x).sum(), x, create_graph=True)[0]
        torch.autograd.grad(first.sum(), x)
        del first
    del function
    assert alive() == before


def test_hooks_and_retained_gradients_make_no_cycle() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    before = alive()
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda grad: grad * 2)
    y.sum().backward()
    reference = weakref.ref(y)
    x.grad = None
    del y
    assert reference() is None
    assert alive() == before


def test_backward_frees_saved_values() -> None:
    x = torch.ones(1000, requires_grad=True)
    before = torch.memory_allocated()
    y = x.exp().exp().sum()
    assert torch.memory_allocated() >= before + 8000
    y.backward()
    assert torch.memory_allocated() <= before + 4000 + 8  # the gradient and the sum


def test_a_view_keeps_the_memory_of_its_deleted_parent(device: str) -> None:
    parent = torch.arange(12).reshape(3, 4)
    view, turned = parent[1], parent.t()[1:]
    del parent
    other = torch.zeros(12)
    assert view.tolist() == [4, 5, 6, 7]
    assert turned.tolist() == [[1, 5, 9], [2, 6, 10], [3, 7, 11]]
    assert other.sum().item() == 0


def test_statistics_return_to_where_they_were() -> None:
    torch.zeros(1) + 1
    before = torch.memory_stats()
    torch.reset_peak_memory_stats()
    tensors = [torch.zeros(1000) for _ in range(3)]
    during = torch.memory_stats()
    assert during["allocated"] == before["allocated"] + 12_000
    assert during["allocations"] == before["allocations"] + 3
    del tensors
    after = torch.memory_stats()
    assert after["allocated"] == before["allocated"]
    assert after["frees"] - before["frees"] == after["allocations"] - before["allocations"]
    assert after["peak_allocated"] == before["allocated"] + 12_000


def test_failed_operators_keep_nothing() -> None:
    x = torch.ones(3)
    before, memory = alive(), torch.memory_allocated()
    for _ in range(3):
        with pytest.raises(ShapeError):
            x + torch.ones(2)
    gc.collect()  # tracebacks refer to frames
    assert alive() == before
    assert torch.memory_allocated() == memory


def test_too_large_tensors_are_refused_and_the_device_goes_on() -> None:
    memory = torch.memory_allocated()
    with pytest.raises(OutOfMemoryError, match=r"^\[\w+\] \d+ bytes on ref:0 — .* — free tensors") as caught:
        torch.empty(1 << 40)
    assert isinstance(caught.value, RuntimeError)
    del caught
    assert torch.memory_allocated() == memory
    assert (torch.ones(2) + 1).tolist() == [2.0, 2.0]
