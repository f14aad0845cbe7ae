"""Every large allocation of a program fails once: a typed error, nothing leaked, nothing changed, and life goes on."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import tensocket as torch
import tensocket.nn.functional as F
from tensocket_core.device import open_device

N = 400
ALLOCATOR = open_device("cpu").runtime.allocator


RNG = np.random.default_rng(0)


def numbers(*shape):
    return torch.from_numpy(RNG.standard_normal(shape).astype(np.float32)).clone()


X, W, IMAGE, KERNEL = numbers(N, N), numbers(N, N), numbers(4, 8, 40, 40), numbers(8, 8, 3, 3)
IDS = torch.from_numpy(RNG.integers(0, N, (N, N))).clone()
W.requires_grad_()
KERNEL.requires_grad_()


def backward():
    F.gelu(X @ W).softmax(-1).pow(2).sum().backward()


def backward_of_images():
    F.max_pool2d(F.relu(F.conv2d(IMAGE, KERNEL)), 2).sum().backward()


def twice():
    backward()
    backward()


def gradients(function, *operands):
    """A function and its gradients by all operands."""
    leaves = [x.detach().requires_grad_() for x in operands]
    found = function(*leaves)
    return torch.autograd.grad(found, leaves, torch.ones_like(found))


HEADS, TILED = [numbers(2, 4, 120, 64) for _ in range(3)], (numbers(4, 64, 30, 30), numbers(64, 64, 3, 3))
LSTM, WORDS = torch.nn.LSTM(40, 64, 2), numbers(30, 16, 40)


def recurrent():
    return torch.autograd.grad(LSTM(WORDS)[0].sum(), LSTM.parameters())


def steps():
    """Many parameters with few kernels."""
    for kind in ("SGD", "AdamW", "Adadelta", "Adafactor"):
        parameters = [x.clone().requires_grad_() for x in (X, X[:100], X[0], IMAGE)]
        for parameter in parameters:
            parameter.grad = parameter.detach() * 2
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        getattr(torch.optim, kind)(parameters, lr=0.01).step()


def on_a_stream():
    stream = torch.cpu.Stream()
    try:
        with stream:
            return (X @ X).softmax(1).sort(1).values
    finally:
        stream.synchronize()  # queued work holds memory until it has run


PROGRAMS = {
    "convolution by tiles": lambda: gradients(lambda x, w: F.conv2d(x, w, None, 1, 1), *TILED),
    "direct convolution": lambda: (
        gradients(lambda x, w: F.conv2d(x, w, None, 2, 2), IMAGE, numbers(16, 8, 5, 5)),
        gradients(lambda x, w: F.conv_transpose2d(x, w, None, 2), IMAGE, KERNEL),
        gradients(lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 8), IMAGE, KERNEL[:, :1])),
    "attention's gradients": lambda: (
        gradients(F.scaled_dot_product_attention, *HEADS),
        gradients(lambda *a: F.scaled_dot_product_attention(*a, attn_mask=X[:120, :120] > 0, dropout_p=0.1), *HEADS)),
    "gradients of sequences": lambda: [gradients(f, X) for f in (
        lambda x: x.sort(0).values, lambda x: x.topk(90, 1).values, lambda x: x.cumsum(0), lambda x: x.cumprod(1),
        lambda x: x.logcumsumexp(1))],
    "gradients of normalisations": lambda: [gradients(f, X) for f in (
        lambda x: F.layer_norm(x, (N,)), lambda x: F.batch_norm(x, None, None, training=True),
        lambda x: F.group_norm(x, 5), lambda x: F.log_softmax(x, 0), lambda x: F.cross_entropy(x, IDS[0]))],
    "recurrent": recurrent, "optimizers": steps, "stream": on_a_stream,
    "pointwise": lambda: (X * 2 + X.exp()).sigmoid() - X,
    "where": lambda: torch.where(X > 0, X, -X),
    "matmul": lambda: X @ X + X.T @ X,
    "rows": lambda: (F.layer_norm(X, (N,)), F.batch_norm(X, None, None, training=True), F.cross_entropy(X, IDS[0])),
    "attention": lambda: F.scaled_dot_product_attention(*[X.view(1, 8, 50, N)] * 3),
    "backward": backward, "backward twice": twice, "images": backward_of_images,
    "double backward": lambda: torch.autograd.grad(
        torch.autograd.grad((W * X).sigmoid().sum(), W, create_graph=True)[0].sum(), W),
    "indexing": lambda: (X[IDS[0]], X[X > 0], X.gather(1, IDS), torch.cat([X, X], 1), X.nonzero()),
    "in place": lambda: X.clone().add_(1).mul_(X).copy_(X.T),
    "assignment": lambda: X.clone().__setitem__(IDS[0], X),
    "scatter": lambda: (X.scatter_add(1, IDS, X), X.index_add(0, IDS[0], X)),
    "sequences": lambda: (X.sort(1), X.topk(100, 1), X.cumsum(0), X.unique()),
    "host": lambda: (torch.linalg.inv(X), torch.linalg.qr(X), torch.fft.fft(X)),
    "conversion": lambda: X.double().to(torch.bfloat16).half().int(),
    "random": lambda: (torch.randn(N, N), torch.randperm(N * N), torch.empty(N, N).normal_(), F.dropout(X)),
    "creation": lambda: (torch.zeros(N, N), torch.arange(N * N), torch.linspace(0, 1, N * N), torch.eye(N)),
}


def attempt(program, number):
    """Run with one refused allocation; the error, or None where there are fewer."""
    ALLOCATOR.refuse_after(number)
    try:
        program()
    except torch.OutOfMemoryError as error:
        return str(error)
    finally:
        ALLOCATOR.refuse_after(0)
    return None


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_allocation_may_fail(name):
    program, refused = PROGRAMS[name], 0
    program()  # builds kernels and fills caches
    W.grad = KERNEL.grad = None
    gc.collect()
    before, versions = X.clone(), (X._version, W._version)
    held = ALLOCATOR.stats().allocated
    while True:
        message = attempt(program, refused + 1)
        W.grad = KERNEL.grad = None
        if message is None:
            break
        refused += 1
        assert message.startswith("[")
        assert "bytes are in use" in message
        assert "use smaller tensors, or delete some first" in message
        if ALLOCATOR.stats().allocated != held:
            gc.collect()  # memory in reference cycles of an error
        assert ALLOCATOR.stats().allocated == held
        assert (X._version, W._version) == versions
        assert torch.equal(X, before)
        assert torch.ones(100, 100).sum().item() == 10000  # a smaller one works
    assert refused > 0


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_an_optimizer_step_that_fails_can_be_repeated(kind):
    """Parameters and state are those of a run in which nothing failed."""
    def trained(fail):
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(N, N), torch.nn.ReLU(), torch.nn.Linear(N, N))
        optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.01)
        F.mse_loss(model(X), X).backward()
        refused = 0
        while fail and attempt(optimizer.step, refused + 1) is not None:
            refused += 1
        if not fail:
            optimizer.step()
        return [p.detach() for p in model.parameters()], refused

    expected, _ = trained(False)
    found, _ = trained(True)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


def test_the_limit_of_a_real_program():
    stats = ALLOCATOR.stats()
    ALLOCATOR.empty_cache()
    ALLOCATOR.set_limit(stats.allocated + (4 << 20))
    try:
        with pytest.raises(torch.OutOfMemoryError, match=r"the limit is \d+ bytes — use smaller tensors"):
            [torch.ones(1 << 18) for _ in range(10)]
        assert torch.ones(1 << 18).sum().item() == 1 << 18
    finally:
        ALLOCATOR.set_limit(None)


def test_statistics_by_name():
    torch.cpu.reset_peak_memory_stats()
    before = torch.cpu.memory_stats()
    kept = torch.ones(1 << 20)
    stats = torch.cpu.memory_stats()
    assert stats["allocated_bytes.all.current"] - before["allocated_bytes.all.current"] == 4 << 20
    assert stats["allocation.all.allocated"] == before["allocation.all.allocated"] + 1
    assert stats["allocated_bytes.all.peak"] >= stats["allocated_bytes.all.current"] == torch.cpu.memory_allocated()
    assert torch.cpu.max_memory_allocated() == stats["allocated_bytes.all.peak"]
    assert torch.cpu.max_memory_reserved() >= torch.cpu.memory_reserved() >= torch.cpu.memory_allocated()
    assert "allocated_bytes.all.peak" in torch.cpu.memory_summary()
    del kept
    torch.cpu.empty_cache()
    assert torch.cpu.memory_reserved() == torch.cpu.memory_allocated() == before["allocated_bytes.all.current"]


def test_a_part_of_the_memory():
    try:
        torch.cpu.set_per_process_memory_fraction(0.0)
        with pytest.raises(torch.OutOfMemoryError, match="the limit is 0 bytes"):
            torch.ones(1 << 24)
    finally:
        torch.cpu.set_per_process_memory_fraction(1.0)
    assert torch.ones(1 << 24).numel() == 1 << 24
    with pytest.raises(torch.errors.ArgumentError, match=r"fraction=1.5 — a fraction lies between 0 and 1"):
        torch.cpu.set_per_process_memory_fraction(1.5)
