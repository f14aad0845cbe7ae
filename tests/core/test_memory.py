"""Memory comes back at once, without the garbage collector, and views keep what they show."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import numpy as np
import pytest
import tensocket_core as tc
from tensocket_core import functions as f


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def living() -> int:
    return sum(isinstance(found, tc.Tensor) for found in gc.get_objects())


def step(x, w, b):
    hidden = f.linear(x, w, b).relu()
    hidden = f.layer_norm(hidden, (3,)) * hidden[:, :1] + f.softmax(hidden, 1)
    loss = f.cross_entropy(hidden.view(2, 3).clamp(-5, 5), tc.tensor([0, 2]))
    loss.backward()


def inplace_step(x, w, b):
    y = x * w[0]
    y[0].mul_(2)
    head = y[:, :2]
    y.add_(1)
    y[y > 0] = 0.5
    (head.sum() + y.sum() + b.sum()).backward()


def hooks_step(x, w, b):
    y = x @ w.t() + b
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    y.sum().backward()
    assert y.grad is not None


def second_order_step(x, w, b):
    y = (f.linear(x, w, b).sigmoid() ** 3).sum()
    (g,) = tc.autograd.grad(y, w, create_graph=True)
    (g * g).sum().backward()


def unused_step(x, w, b):
    y = f.linear(x, w, b).exp()
    y.view(-1)[tc.tensor([0, 1])].sum()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("run", [step, inplace_step, hooks_step, second_order_step, unused_step], ids=lambda run: run.__name__)
def test_graphs_leave_no_cycles(device, run):
    x, w, b = tc.ones(2, 4), tc.rand(3, 4, requires_grad=True), tc.zeros(3, requires_grad=True)
    run(x, w, b)  # caches are filled once
    w.grad = b.grad = None
    before, bytes_before = living(), tc.memory_allocated()
    for _ in range(5):
        run(x, w, b)
        w.grad = b.grad = None
    assert living() == before
    assert tc.memory_allocated() == bytes_before


@pytest.mark.usefixtures("no_collector")
def test_errors_keep_nothing():
    x = tc.ones(3, requires_grad=True)
    before = tc.memory_allocated()
    for _ in range(3):
        y = x * 2
        with pytest.raises(RuntimeError):
            y + tc.ones(2)
        del y
    assert tc.memory_allocated() == before


@pytest.mark.usefixtures("no_collector")
def test_a_view_keeps_the_memory_of_its_parent(device):
    parent = tc.arange(100_000.0)
    view = parent[10:20]
    before = tc.memory_allocated()
    del parent
    assert tc.memory_allocated() == before
    others = [tc.full((100_000,), -1.0) for _ in range(5)]
    assert view.tolist() == list(range(10, 20))
    del others
    del view
    assert tc.memory_allocated() < before


@pytest.mark.skipif(not tc.is_available("cpu"), reason="no backend on the host is installed")
def test_arrays_keep_the_memory_of_their_tensor():
    array = tc.arange(5000.0, device="cpu")[7:9].numpy()
    others = [tc.full((5000,), -1.0, device="cpu") for _ in range(20)]
    assert array.tolist() == [7.0, 8.0]
    del others
    tensor = tc.from_numpy(np.arange(5000.0)[7:9])
    assert tensor.tolist() == [7.0, 8.0]


@pytest.mark.usefixtures("no_collector")
def test_saved_tensors_are_freed_by_backward():
    x = tc.ones(1000, requires_grad=True)
    y = x.exp()
    saved = weakref.ref(y.grad_fn)
    z = (y * y).sum()
    del y
    held = tc.memory_allocated()
    z.backward()
    assert saved() is not None  # the graph lives as long as z
    assert tc.memory_allocated() <= held  # its saved tensors are gone, x.grad has come
    del z
    assert saved() is None


@pytest.mark.usefixtures("no_collector")
def test_tensors_under_no_grad_keep_no_history():
    x = tc.ones(10, requires_grad=True)
    with tc.no_grad():
        y = x * 2
    assert y.grad_fn is None
    before = tc.memory_allocated()
    for _ in range(5):
        with tc.no_grad():
            y = y * 1.5
    assert tc.memory_allocated() == before


def test_peaks_and_counts(device):
    tc.reset_peak_memory_stats()
    before = tc.memory_allocated()
    x = tc.zeros(100_000)
    assert tc.memory_allocated() >= before + 400_000
    del x
    assert tc.memory_allocated() == before
    assert tc.memory_stats()["peak_allocated"] >= before + 400_000
    tc.empty_cache()
    assert tc.memory_allocated() == before
