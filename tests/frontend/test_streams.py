"""Streams of the CPU: operators are queued, results are those of the default stream, errors surface later."""

from __future__ import annotations

import pickle
import threading
import time

import numpy as np
import pytest

import tensocket as torch
import tensocket.nn.functional as F
from tensocket_plugins.contract.errors import LinAlgError, ShapeError


@pytest.fixture
def stream():
    made = torch.cpu.Stream()
    yield made
    made.synchronize()


@pytest.fixture
def stuck(stream):
    """The stream, standing still until ``stuck.set()``; not for ever, because reports of failures print its tensors."""
    event = threading.Event()
    stream._stream.submit("waiting", lambda: event.wait(20))
    stream.set = event.set
    yield stream
    event.set()


def numbers(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


X, W = numbers(40, 30), numbers(30, 30, seed=1)
#: Operators of every kind, as functions of X and W.
CALLS = {
    "pointwise": lambda: (X * 2 + X.exp()).clamp(-1, 5),
    "broadcast": lambda: X + X[:, :1],
    "comparison": lambda: X > 0,
    "where": lambda: torch.where(X > 0, X, -X),
    "reduction": lambda: X.sum(0),
    "extremes": lambda: torch.stack([X.amax(1), X.amin(1), X.var(1)]),
    "rows": lambda: F.softmax(X, -1) + F.log_softmax(X, 0),
    "matmul": lambda: X @ W,
    "linear": lambda: F.linear(X, W, W[0]),
    "views": lambda: X.reshape(30, 40).t()[3:7, ::2],
    "flattened view": lambda: X.t().reshape(-1) * 3,
    "cat": lambda: torch.cat([X, X.relu(), X], 1),
    "gather": lambda: X.gather(1, torch.zeros(40, 3, dtype=torch.int64)),
    "indices": lambda: X[torch.tensor([5, 1, 1])],
    "masked": lambda: X[X > 0],
    "nonzero": lambda: torch.nonzero(X > 1),
    "unique": lambda: torch.unique(X.round()),
    "sort": lambda: torch.sort(X, 1).values,
    "topk": lambda: torch.topk(X, 3).indices,
    "cumsum": lambda: X.cumsum(1),
    "conv": lambda: F.conv2d(X.reshape(1, 3, 20, 20), W.reshape(-1)[:54].reshape(2, 3, 3, 3)),
    "pool": lambda: F.max_pool2d(X.reshape(1, 3, 20, 20), 2),
    "norm": lambda: F.layer_norm(X, (30,)),
    "solve": lambda: torch.linalg.solve(W + 10 * torch.eye(30), X.t()),
    "svd": lambda: torch.linalg.svdvals(W),
    "fft": lambda: torch.fft.rfft(X).real,
    "conversion": lambda: X.to(torch.float64).to(torch.bfloat16).to(torch.int32),
    "transposed result": lambda: X.t() * 2,
    "einsum": lambda: torch.einsum("ij,jk->ki", X, W),
    "embedding": lambda: F.embedding(torch.tensor([[1, 2], [3, 3]]), W),
    "cross entropy": lambda: F.cross_entropy(X, torch.arange(40) % 30),
    "factories": lambda: torch.ones(3, 3) + torch.arange(3) + torch.full((3,), 2.5),
    "split": lambda: sum(torch.split(X, 10)),
    "expanded": lambda: X[:, :1].expand(40, 5) * 2,
    "clone": lambda: X.t().clone(),
    "scatter": lambda: torch.zeros(40, 30).scatter_add(1, torch.zeros(40, 30, dtype=torch.int64), X),
    "out": lambda: torch.add(X, X, out=torch.empty(40, 30)),
    "list": lambda: torch._foreach_add([X, W], 1.0)[1],
}


@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_the_default_stream(stream, name):
    expected = CALLS[name]()
    with stream:
        found = CALLS[name]()
    stream.synchronize()
    assert found.dtype is expected.dtype
    assert found.shape == expected.shape
    assert found.stride() == expected.stride()
    # Shortcuts for small arrays, which streams do not take, may round differently.
    np.testing.assert_allclose(found.double().numpy(), expected.double().numpy(), rtol=2e-6, atol=1e-6)


def test_the_caller_goes_on_while_the_stream_stands_still(stuck):
    with torch.cpu.stream(stuck):
        assert torch.cpu.current_stream() == stuck
        y = (X @ W).relu()
        y.add_(1)
        part = y[3:5]
    assert torch.cpu.current_stream() != stuck
    assert not stuck.query()
    assert y.shape == (40, 30)
    assert y._version == 1
    stuck.set()
    stuck.synchronize()
    np.testing.assert_allclose(part.numpy(), np.maximum(X.numpy() @ W.numpy(), 0)[3:5] + 1, rtol=1e-5, atol=1e-5)


def test_arguments_are_taken_as_they_are_when_the_call_is_made(stuck):
    x = torch.ones(3)
    with stuck:
        y = x + 1
        x.unsqueeze_(0)
    stuck.set()
    stuck.synchronize()
    assert x.shape == (1, 3)
    assert y.shape == (3,)
    assert y.tolist() == [2, 2, 2]


@pytest.mark.parametrize("read", [
    lambda x: x.tolist(), lambda x: x.numpy().tolist(), lambda x: np.asarray(x).tolist(),
    lambda x: [v.item() for v in x], lambda x: np.from_dlpack(x).tolist(),
    lambda x: pickle.loads(pickle.dumps(x)).tolist(), lambda x: eval(repr(x)[7:-1]),
    lambda x: [float(x[0]), float(x[1])],
])
def test_reading_values_waits(stream, read):
    with stream:
        stream._stream.submit("slow", lambda: time.sleep(0.02))
        y = torch.ones(2) * 3
    assert read(y) == [3.0, 3.0]


def test_functions_that_are_no_operators_wait(stream):
    with stream:
        stream._stream.submit("slow", lambda: time.sleep(0.02))
        y = torch.ones(1000) * 3
        y.uniform_(10, 11)
        z = torch.clone(y)
    stream.synchronize()
    assert bool((y >= 10).all())
    assert bool((z == y).all())


def test_in_place_operators_keep_their_order(stream):
    with stream:
        a = torch.zeros(50_000)
        for k in range(20):
            a.add_(1)
            a[k] = -5
            a.mul_(1.5)
    stream.synchronize()
    expected = np.zeros(50_000, np.float32)
    for k in range(20):
        expected += np.float32(1)
        expected[k] = -5
        expected *= np.float32(1.5)
    np.testing.assert_array_equal(a.numpy(), expected)
    assert a._version == 60


def test_shapes_are_checked_at_once_and_values_later(stream):
    with stream:
        with pytest.raises(ShapeError, match=r"^\[matmul\] shapes"):
            X @ X
        inverse = torch.linalg.inv(torch.zeros(3, 3))
        after = inverse + 1
    assert after.shape == (3, 3)
    with pytest.raises(LinAlgError, match=r"^\[linalg.inv\]"):
        stream.synchronize()
    with stream:
        y = X + 1
    stream.synchronize()
    assert y.tolist() == (X + 1).tolist()


def test_events_order_streams(stuck):
    other, event = torch.cpu.Stream(), torch.cpu.Event()
    with stuck:
        y = X * 2
    event.record(stuck)
    other.wait_event(event)
    with other:
        z = y + 1
    assert not event.query()
    assert not other.query()
    stuck.set()
    event.synchronize()
    other.synchronize()
    assert z.tolist() == (X * 2 + 1).tolist()


def test_wait_stream_and_the_default_stream(stuck):
    with stuck:
        y = X * 2
    threading.Timer(0.02, stuck.set).start()
    torch.cpu.current_stream().wait_stream(stuck)
    assert stuck.query()
    assert (y + 1).tolist() == (X * 2 + 1).tolist()


def gradients(context, backward_inside):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(30, 50), torch.nn.ReLU(), torch.nn.BatchNorm1d(50),
                                torch.nn.Linear(50, 10))
    with context:
        loss = F.cross_entropy(model(X), torch.arange(40) % 10)
        if backward_inside:
            loss.backward()
    if not backward_inside:
        loss.backward()
    torch.cpu.synchronize()
    return [p.grad.numpy() for p in model.parameters()]


@pytest.mark.parametrize("backward_inside", [False, True])
def test_gradients(stream, backward_inside):
    found = gradients(stream, backward_inside)
    expected = gradients(torch.cpu.stream(None), backward_inside)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_training(stream):
    def losses(context):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(30, 20), torch.nn.Tanh(), torch.nn.Dropout(0.1),
                                    torch.nn.Linear(20, 5))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        found = []
        with context:
            for _ in range(5):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(X), torch.arange(40) % 5)
                loss.backward()
                optimizer.step()
                found.append(loss.detach().clone())
        torch.cpu.synchronize()
        return [loss.item() for loss in found]

    np.testing.assert_allclose(losses(stream), losses(torch.cpu.stream(None)), rtol=1e-5)


def test_modes_work_above_streams(stream):
    seen = []

    class Seeing(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func.name)
            return func(*args, **(kwargs or {}))

    with stream, Seeing(), torch.no_grad():
        y = X.exp()
    stream.synchronize()
    assert seen == ["exp"]
    assert y.tolist() == X.exp().tolist()


def test_transforms_and_compiled_precision_on_a_stream(stream):
    def f(x):
        return (x @ W).sin().sum()

    with stream:
        found = torch.func.grad(f)(X)
        batch = torch.func.vmap(lambda row: (row * 2).sum())(X)
        with torch.autocast("cpu"):
            low = F.linear(X, W)
    stream.synchronize()
    np.testing.assert_allclose(found.numpy(), torch.func.grad(f)(X).numpy(), rtol=1e-6)
    np.testing.assert_allclose(batch.numpy(), X.numpy().sum(1) * 2, rtol=1e-4, atol=1e-5)
    assert low.dtype is torch.bfloat16


def test_nothing_is_left_when_the_stream_is(stream):
    from tensocket_core.dispatch.modes import ACTIVE
    from tensocket_core.recording import RECORDING_SLOW_PATHS

    before = len(ACTIVE), len(RECORDING_SLOW_PATHS)
    with stream:
        assert len(ACTIVE) == before[0] + 1
        X * 2
    assert (len(ACTIVE), len(RECORDING_SLOW_PATHS)) == before


def test_eight_threads_on_streams():
    """Every thread computes on two streams of its own and hands results from one to the other."""
    errors = []

    def work(seed):
        first, second = torch.cpu.Stream(), torch.cpu.Stream()
        x = numbers(200, 200, seed=seed)
        expected = x.numpy()
        for k in range(5):
            with first:
                y = (x * 2 + k).relu()
            second.wait_stream(first)
            with second:
                z = y.sum(1) + y.amax(1)
            second.synchronize()
            wanted = np.maximum(expected * np.float32(2) + np.float32(k), 0)
            if not np.allclose(z.numpy(), wanted.sum(1) + wanted.max(1), rtol=1e-5):
                errors.append((seed, k))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert errors == []


def test_eight_threads_run_every_kind_of_operator_on_streams():
    """Large enough for threads of kernels; every thread hands results from one stream to another by an event."""
    x, w, image = numbers(300, 200), numbers(200, 200, seed=1), numbers(4, 16, 24, 24)
    kernel, heads = numbers(16, 16, 3, 3, seed=2), numbers(2, 4, 60, 32)
    calls = {
        "pointwise": lambda: (x * 2).sigmoid(), "rows": lambda: x.softmax(1), "sums": lambda: x.sum(0) + x.amax(0),
        "product": lambda: x @ w, "scan": lambda: x.cumsum(1), "sort": lambda: x.sort(1).values,
        "norm": lambda: F.layer_norm(x, (200,)), "convolution": lambda: F.conv2d(image, kernel, None, 1, 1),
        "attention": lambda: F.scaled_dot_product_attention(heads, heads, heads),
        "pool": lambda: F.max_pool2d(image, 2), "gather": lambda: x[:, :50].t().contiguous(),
    }
    expected = {name: call() for name, call in calls.items()}
    errors = []

    def work(seed):
        rng = np.random.default_rng(seed)
        streams = [torch.cpu.Stream(), torch.cpu.Stream()]
        for name in [*rng.permutation(list(calls)), *rng.permutation(list(calls))]:
            first = int(rng.integers(2))
            with streams[first]:
                found = calls[name]()
            done = streams[first].record_event()
            streams[1 - first].wait_event(done)
            with streams[1 - first]:
                doubled = found * 2
            streams[1 - first].synchronize()
            # Attention is computed by its parts on a stream, and rounds differently then.
            if not torch.equal(doubled, found * 2) or not torch.allclose(found, expected[name], 1e-5, 1e-6):
                errors.append((seed, name))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert errors == []
