"""Children of a process that computes in other threads: nothing that these were about stops the child."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest

import tensocket as torch
import tensocket.nn.functional as F

pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork"),
              pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")]
DTYPES = (torch.float64, torch.int32, torch.float16, torch.bfloat16, torch.int8)


def compute(rng):
    """Kernels that were most likely not made before: of a random geometry and dtype."""
    shape, order = [int(n) for n in rng.integers(2, 9, 6)], [int(k) for k in rng.permutation(6)]
    x = torch.randn(*shape).permute(order)
    (x * x + x.sum(order[0], keepdim=True)).tanh()
    x.to(DTYPES[rng.integers(len(DTYPES))]).amax(sorted(order[:3]))
    x.contiguous().softmax(order[1])


def everything():
    """Run operators that use threads, locks and queues, and compare them with NumPy."""
    x = np.random.default_rng(3).standard_normal((300, 300)).astype(np.float32)
    a = torch.from_numpy(x).requires_grad_()
    (F.relu(a @ a)).sum().backward()
    upstream = (x.astype(np.float64) @ x > 0).astype(np.float64)
    np.testing.assert_allclose(a.grad.numpy(), upstream @ x.T + x.T @ upstream, rtol=1e-3, atol=1e-3)
    stream = torch.cpu.Stream()
    with stream:
        y = (a.detach() * 2).exp().sum(0)
    stream.synchronize()
    np.testing.assert_allclose(y.numpy(), np.exp(2 * x.astype(np.float64)).sum(0), rtol=1e-4)
    found = F.conv2d(a.detach()[:, :256].reshape(300, 1, 16, 16), torch.ones(1, 1, 3, 3), padding=1)
    np.testing.assert_allclose(found[:, 0, 1, 1].numpy(),
                               x[:, :256].reshape(300, 16, 16)[:, :3, :3].sum((1, 2)), rtol=1e-4, atol=1e-5)


def test_children_of_a_process_whose_threads_compile_and_compute():
    stop = threading.Event()
    everything()  # imports what it needs: Python itself does not fork well while a thread imports

    def work(seed):
        rng = np.random.default_rng(seed)
        stream = torch.cpu.Stream()
        while not stop.is_set():
            compute(rng)
            with stream:
                torch.ones(100, 100).exp()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    try:
        for seed in range(8):
            child = os.fork()
            if child == 0:
                signal.alarm(60)  # ends a child that waits for ever; its exit status says so
                status = 1
                try:
                    everything()
                    compute(np.random.default_rng(100 + seed))
                    status = 0
                finally:
                    os._exit(status)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    everything()


def test_children_of_a_process_in_which_another_thread_records():
    from tensocket_plugins.contract.launch_recorder import RECORDERS, LaunchRecorder

    inside, stop = threading.Event(), threading.Event()

    def look():
        RECORDERS[threading.get_ident()] = LaunchRecorder()  # as if the fork came in the middle
        inside.set()
        stop.wait()
        RECORDERS.clear()

    thread = threading.Thread(target=look)
    thread.start()
    inside.wait()
    child = os.fork()
    if not child:
        os._exit(1 if RECORDERS else 0)
    stop.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
