"""Graphs that run at the same time, in several threads or inside of each other, have memory of their own."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tensocket as torch
from tensocket_compiler.calls.function import CompiledFunction
from tensocket_compiler.capture.layout import LAYOUT
from tensocket_compiler.execute import runner
from tensocket_compiler.execute import steps as kernels
from tensocket_plugins.contract.errors import KernelError

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")
THREADS = 4


def chain(x, w):
    """A function whose graph has temporaries that several steps read."""
    y = torch.relu(x @ w)
    z = torch.tanh(y @ w) + y
    return (z @ w) * (y @ w) + z


def wanted(x, w):
    """The same in NumPy's float64."""
    x, w = x.detach().double().numpy(), w.detach().double().numpy()
    y = np.maximum(x @ w, 0)
    z = np.tanh(y @ w) + y
    return (z @ w) * (y @ w) + z


def compiled(function, *args):
    """Compile a function for arguments, and return it with its only variant."""
    f = torch.compile(function)
    for _ in range(4):
        f(*args)
    (variant,) = f._compiled.variants
    assert variant.hits
    return f, variant


def in_threads(work):
    """Call ``work(k)`` in threads that begin together."""
    barrier = threading.Barrier(THREADS)

    def begin(k):
        barrier.wait()
        return work(k)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))


def close(found, expected):
    np.testing.assert_allclose(found, expected, 2e-4, 2e-5 * np.abs(expected).max())


@pytest.fixture
def outside():
    """A list with the Python code of an operator, which graphs call between their tapes."""
    inner = [lambda x: x + 1]
    with torch.library._scoped_library("tensocket_threads", "DEF") as library:
        library.define("outside(Tensor x) -> Tensor")
        library.impl("outside", lambda x: inner[0](x), "CPU")
        library.impl("outside", torch.empty_like, "Meta")
        yield inner


def broken_chain(x):
    """A function whose temporaries are read behind a step in Python."""
    y = torch.relu(x @ x)
    z = torch.ops.tensocket_threads.outside(x)
    return (y + z) @ y


def broken_wanted(x):
    """The same in NumPy's float64."""
    x = x.double().numpy()
    y = np.maximum(x @ x, 0)
    return (y + x + 1) @ y


def test_threads_run_one_graph_at_the_same_time(outside):
    inputs = [torch.randn(32, 32) for _ in range(THREADS)]
    _, variant = compiled(broken_chain, inputs[0])

    def wait(x):
        time.sleep(1e-3)
        return x + 1

    outside[0] = wait
    found = in_threads(lambda k: [variant.runner([inputs[k]._array])[0].copy() for _ in range(10)])
    for x, results in zip(inputs, found, strict=True):
        for result in results:
            close(result, broken_wanted(x))


def test_a_run_inside_of_a_run_leaves_it_alone(outside):
    x, other = torch.randn(16, 16), torch.randn(16, 16)
    _, variant = compiled(broken_chain, x)
    runs = []

    def again(given):
        outside[0] = lambda value: value + 1
        runs.append(variant.runner([other._array])[0])
        return given + 1

    outside[0] = again
    close(variant.runner([x._array])[0], broken_wanted(x))
    close(runs[0], broken_wanted(other))


def test_threads_call_a_compiled_function():
    torch.manual_seed(0)
    w = torch.randn(64, 64) / 8
    f = torch.compile(lambda x: chain(x, w))
    inputs = [torch.randn(64, 64) for _ in range(THREADS)]
    found = in_threads(lambda k: [f(inputs[k]).numpy().copy() for _ in range(30)])
    for x, results in zip(inputs, found, strict=True):
        expected = wanted(x, w)
        for result in results:
            close(result, expected)


def test_threads_run_backward_passes_of_one_function():
    torch.manual_seed(0)
    w = torch.randn(64, 64) / 8
    f, _ = compiled(lambda x: chain(x, w), torch.randn(64, 64, requires_grad=True))
    inputs = [[torch.randn(64, 64, requires_grad=True) for _ in range(10)] for _ in range(THREADS)]
    losses = [[f(x).sum() for x in row] for row in inputs]
    in_threads(lambda k: [loss.backward() for loss in losses[k]])
    for row in inputs:
        for x in row:
            plain = x.detach().requires_grad_()
            chain(plain, w).sum().backward()
            close(x.grad.numpy(), plain.grad.double().numpy())


def call_until_captured(compiled, x, wanted):
    """Call a function until it has a graph."""
    for _ in range(2000):
        np.testing.assert_allclose(compiled(x).numpy(), wanted, 1e-5)
        if compiled.variants:
            return
        time.sleep(0.002)
    raise AssertionError("no call was captured")


def test_a_thread_compiles_while_calls_stay_eager(monkeypatch):
    threads = []

    def compile_kernel(*args):
        threads.append(threading.current_thread().name)
        return kernels.compile_kernel(*args)
    monkeypatch.setattr(runner, "compile_kernel", compile_kernel)
    compiled = CompiledFunction(lambda x: ((x * 3).tanh().exp() - x.cos()).sum(-1), background=True)
    x = torch.linspace(-1, 1, 60).reshape(6, 10)
    numbers = x.double().numpy()
    wanted = (np.exp(np.tanh(numbers * 3)) - np.cos(numbers)).sum(-1)
    call_until_captured(compiled, x, wanted)
    assert threads == ["tensocket-compile"]
    assert not compiled.reasons
    for _ in range(3):
        np.testing.assert_allclose(compiled(x).numpy(), wanted, 1e-5)
    assert compiled.variants[0].hits == 3


def test_kernels_that_a_thread_cannot_compile_are_left_to_the_capture(monkeypatch):
    def fail(*args):
        raise KernelError("compile", "a program", "a device compiles it", "report this")
    monkeypatch.setattr(runner, "compile_kernel", fail)
    compiled = CompiledFunction(lambda x: (x.sin() * 5).exp() - x.cos(), background=True)
    for _ in range(500):
        assert compiled(torch.zeros(3)).tolist() == [0.0] * 3
        if compiled._compilation is not None and not compiled._compilation.is_running:
            break
        time.sleep(0.002)
    monkeypatch.undo()
    compiled.background = False
    call_until_captured(compiled, torch.zeros(3), np.zeros(3))
    assert not compiled.reasons


def test_the_option_for_a_thread_reaches_parts():
    f = torch.compile(lambda x: x, options={"background": True})
    assert f._compiled.background
    assert f._compiled.parts._compile.keywords["background"]
