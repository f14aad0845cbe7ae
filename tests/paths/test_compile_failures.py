"""Kernels that do not compile: every family of operators gives its results all the same, with one warning."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import tensocket as torch
import tensocket.nn.functional as F
from tensocket_core.device import open_device
from tensocket_core.dispatch.registry import clear_tables
from tensocket_core.launch import copies as copying
from tensocket_core.launch import plan as launch_plan
from tensocket_plugins.contract.errors import KernelError

N = 150


def numbers(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


X, W, IMAGE = numbers(N, N), numbers(N, N, seed=1), numbers(2, 4, 30, 30)
IDS = torch.from_numpy(np.random.default_rng(2).integers(0, N, (N, N)))


def gradients():
    w = W.clone().requires_grad_()
    loss = F.cross_entropy(F.gelu(X @ w) + X.softmax(0), IDS[0])
    (grad,) = torch.autograd.grad(loss, w)
    return torch.stack([grad, loss.detach().expand(N, N)])


def trained():
    p = W.clone().requires_grad_()
    optimizer = torch.optim.Adam([p], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (p * X).sum().backward()
        optimizer.step()
    return p.detach()


def gradients_of(function, *shapes):
    """The result of a function and all gradients, as one vector."""
    leaves = [numbers(*shape, seed=k).requires_grad_() for k, shape in enumerate(shapes)]
    found = function(*leaves)
    grads = torch.autograd.grad(found, leaves, numbers(*found.shape, seed=9))
    return torch.cat([t.detach().reshape(-1) for t in (found, *grads)])


def recurrent():
    torch.manual_seed(0)
    layer = torch.nn.LSTM(6, 8)
    found = layer(numbers(5, 3, 6))[0]
    return torch.cat([t.reshape(-1) for t in (found.detach(), *torch.autograd.grad(found.sum(), layer.parameters()))])


def often():
    """More calls than what makes an operator native elsewhere; ``exp`` is native from the start."""
    x = torch.arange(6.0).reshape(2, 3)
    for _ in range(6000):
        y = x.view(3, 2).view(2, 3) + x
    y.add_(1)
    return torch.cat([y.exp(), (x.softmax(-1) @ y.t() + y.sum()).relu()], 1)


def many_parameters():
    parameters = [numbers(30, k + 1, seed=k).requires_grad_() for k in range(5)]
    optimizer = torch.optim.AdamW(parameters, lr=0.1)
    for parameter in parameters:
        parameter.grad = parameter.detach() * 2
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    return torch.cat([p.detach().reshape(-1) for p in parameters])


FAMILIES = {
    "pointwise": lambda: (X * 2 + X.exp()).sigmoid(),
    "strided": lambda: X.t() * W + X[:1],
    "where": lambda: torch.where(X > 0, X, W),
    "conversion": lambda: X.double().to(torch.bfloat16),
    "in place": lambda: X.clone().mul_(W),
    "reduction": lambda: torch.stack([X.sum(0), X.amax(1), X.var(0)]),
    "rows": lambda: X.softmax(-1) + F.layer_norm(X, (N,)),
    "copy": lambda: X.t().contiguous(),
    "cat": lambda: torch.cat([X, W], 1),
    "gather": lambda: X.gather(1, IDS) + X[IDS[0]],
    "scatter": lambda: X.scatter_add(1, IDS, W),
    "scan": lambda: X.cumsum(1),
    "matmul": lambda: X @ W,
    "convolution": lambda: F.conv2d(IMAGE, W.reshape(-1)[:72].reshape(2, 4, 3, 3)),
    "pooling": lambda: F.max_pool2d(IMAGE, 2) + F.avg_pool2d(IMAGE, 2),
    "embedding": lambda: F.embedding(IDS[:2], W),
    "random": lambda: torch.randn(N, N, generator=torch.Generator().manual_seed(5)),
    "gradients": gradients,
    "optimizer": trained,
    "tiles of a convolution": lambda: F.conv2d(numbers(1, 16, 4, 4), numbers(16, 16, 3, 3), None, 1, 1),
    "strided convolution": lambda: gradients_of(lambda x, w: F.conv2d(x, w, None, 2, 1), (1, 2, 5, 5), (2, 2, 3, 3)),
    "attention": lambda: gradients_of(F.scaled_dot_product_attention, *[(1, 1, 9, 8)] * 3),
    "normalisations": lambda: gradients_of(lambda x, w: F.layer_norm(x, (40,), w) + F.group_norm(x, 4) + F.batch_norm(
        x, None, None, training=True), (60, 40), (40,)),
    "sort": lambda: torch.cat([X.sort(1).values, X.topk(7, 0).indices.t(), X.argsort(0)], 1),
    "recurrent": recurrent, "native entries": often, "many parameters": many_parameters,
}


#: Operators that need no kernel of this size.
NOT_COMPILED = ("cat", "matmul", "embedding")


@pytest.fixture
def broken(monkeypatch):
    """The CPU, on which nothing compiles any more."""
    state = open_device("cpu")

    def fail(program, *rest):
        name = getattr(getattr(program, "program", program), "name", "of a plan")
        raise KernelError("compile", f"program {name}", "injected", "none")

    for name in ("compile_ir", "compile_plan"):
        monkeypatch.setattr(state.runtime, name, fail)
    failures = state.runtime.build_stats.failures
    forget(state)
    yield failures
    forget(state)


def forget(state):
    """Let closures and programs be made anew."""
    runtime = state.runtime
    for cache in (state.programs, state.native_entries, runtime.build_stats.failures, runtime.own_programs,
                  copying._FLAT, launch_plan._LAUNCHES):
        cache.clear()
    for owner in gc.get_objects():  # operators and kernels that keep what they launch
        if str(type(owner).__module__).startswith("tensocket_"):  # some types have a descriptor there
            for name in ("_plans", "_calls"):
                if isinstance(found := getattr(owner, name, None), dict):
                    found.clear()
    clear_tables()


@pytest.mark.parametrize("name", FAMILIES)
def test_results_are_the_same(broken, monkeypatch, name):
    state = open_device("cpu")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = FAMILIES[name]()
    assert len(seen) == (1 if broken else 0)
    assert bool(broken) is (name not in NOT_COMPILED)
    if broken:
        assert "injected" in str(seen[0].message)
        assert "build_stats('cpu').failures" in str(seen[0].message)
        assert all("injected" in reason for reason in torch.build_stats("cpu").failures.values())
    monkeypatch.undo()
    forget(state)
    expected = FAMILIES[name]()
    assert found.dtype is expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.double().numpy(), expected.double().numpy(), rtol=2e-5, atol=2e-6)


def test_what_is_generated_is_recorded(broken):
    with pytest.warns(RuntimeWarning, match="injected"):
        (X * 2).exp().softmax(0)
    assert {"mul", "exp"} <= {name.split("(")[0] for name in broken}


def test_a_machine_without_llvm():
    code = """
import sys, warnings
sys.modules["llvmlite"] = None
import tensocket as torch
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    x = torch.arange(40000.0).reshape(200, 200)
    y = (x * 2 + 1).sum(0)
    z = torch.randn(200, 200).softmax(-1).sum()
    small = torch.ones(3).exp() + 1
assert y[0].item() == 2 * sum(range(0, 40000, 200)) + 200
assert abs(z.item() - 200) < 1e-2
assert len(seen) == 1, [str(s.message) for s in seen]
assert "LLVM cannot be loaded" in str(seen[0].message)
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True,
                   env={**os.environ, "TENSOCKET_CACHE_DIR": ""})


def test_an_unknown_interpreter_or_numpy():
    """Without the layouts of objects, nothing native runs, NumPy's memory is its own, and results are the same."""
    code = """
import numpy as np
from tensocket_cpu.code import pointers
pointers.POINTER_FIELD = None                # before other modules import it
from tensocket_cpu.memory import arena
from tensocket_cpu import native
from tensocket_cpu.native import layout
assert native.LAYOUT is not None
layout.LAYOUT = native.LAYOUT = None
arena._SET_HANDLER = 305
import tensocket as torch
import tensocket.nn.functional as F
torch.manual_seed(0)
x = torch.arange(1.0, 7.0).reshape(2, 3)
for _ in range(9000):                        # more than what makes an operator native elsewhere
    y = x + x
assert y.tolist() == [[2, 4, 6], [8, 10, 12]]
np.testing.assert_allclose(x.exp().softmax(-1).sum(-1).numpy(), [1, 1], rtol=1e-6)
big = torch.randn(300, 300)
np.testing.assert_allclose((big @ big).numpy(), big.double().numpy() @ big.double().numpy(), rtol=1e-3, atol=1e-3)
np.testing.assert_allclose(F.gelu(big).sum(0).numpy(), F.gelu(big.double()).sum(0).numpy(), rtol=1e-4, atol=1e-4)
model = torch.nn.Sequential(torch.nn.Linear(300, 20), torch.nn.ReLU(), torch.nn.Linear(20, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
losses = []
for _ in range(20):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(big), torch.arange(300) % 5)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < 0.7 * losses[0]
from tensocket_core.device import open_device
device = open_device("cpu").runtime
assert device.allocator._arena is None and device.allocator.stats().allocations > 0
assert not device.build_stats.failures
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
