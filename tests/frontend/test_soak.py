"""Memory does not grow: everything at once, for seconds, or as many as ``TENSOCKET_SOAK`` says (``make soak``)."""

from __future__ import annotations

import gc
import itertools
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tensocket as torch
import tensocket.nn.functional as F
from tensocket_core.device import open_device

SECONDS = float(os.environ.get("TENSOCKET_SOAK", "4"))
STATM = Path("/proc/self/statm")
ALLOCATOR = open_device("cpu").runtime.allocator
#: Sizes that come again, so that a pool can serve them.
SIZES = (33, 128, 200, 257)


class Worker:
    """One thread's program: training, views, indexing, host kernels, streams, errors."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.model = torch.nn.Sequential(torch.nn.Linear(128, 64), torch.nn.BatchNorm1d(64), torch.nn.GELU(),
                                         torch.nn.Dropout(0.1), torch.nn.Linear(64, 10))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.images = torch.nn.Conv2d(3, 8, 3)

    def numbers(self, *shape: int) -> torch.Tensor:
        return torch.from_numpy(self.rng.standard_normal(shape).astype(np.float32))

    def train(self) -> None:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(self.numbers(256, 128)), torch.arange(256) % 10)
        loss.backward()
        self.optimizer.step()

    def convolve(self) -> None:
        self.images.zero_grad()
        F.max_pool2d(self.images(self.numbers(4, 3, 40, 40)).relu(), 2).sum().backward()

    def index(self) -> None:
        n = int(self.rng.choice(SIZES))
        x = self.numbers(n, n)
        x[x > 0] = 1
        x[torch.randperm(n)][:, ::2].t().contiguous()
        torch.cat([x, x.sort(1).values, x.cumsum(0)]).unique()

    def compute(self) -> None:
        n = int(self.rng.choice(SIZES))
        torch.linalg.solve(self.numbers(n, n) + n * torch.eye(n), torch.fft.fft(self.numbers(n, n)).real)

    def stream(self) -> None:
        side = torch.cpu.Stream()
        x = self.numbers(200, 200)
        with side:
            y = (x @ x).softmax(-1).sum()
        torch.cpu.current_stream().wait_stream(side)
        assert abs(y.item() - 200) < 1e-2

    def fail(self) -> None:
        x = self.numbers(128, 128).requires_grad_()
        with pytest.raises(RuntimeError):
            (x @ x.exp())[:, :5] @ x
        cycle = [x.exp()]
        cycle.append(cycle)

    def once(self) -> None:
        for step in (self.train, self.convolve, self.index, self.compute, self.stream, self.fail):
            step()


def resident() -> int:
    """Bytes of this process in memory."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not STATM.exists(), reason="the system does not tell how much memory a process has")
def test_memory_does_not_grow():
    workers = [Worker(seed) for seed in range(2)]
    errors: list[BaseException] = []
    samples: list[tuple[int, int]] = []
    for worker in workers:
        for _ in range(3):
            worker.once()
    end = time.monotonic() + SECONDS

    def run(worker: Worker) -> None:
        try:
            while time.monotonic() < end:
                worker.once()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(min(0.05, SECONDS / 50))
        samples.append((resident(), ALLOCATOR.stats().reserved))
    for thread in threads:
        thread.join()
    assert errors == []
    gc.collect()
    half = len(samples) // 2
    early, late = samples[half // 2: half], samples[half:]
    for k, what in enumerate(("resident", "reserved")):
        highest = max(sample[k] for sample in early)
        assert max(sample[k] for sample in late) < 1.1 * highest + (32 << 20), what


def test_nothing_is_in_use_when_everything_is_gone():
    allocated = []
    for _ in range(5):
        worker = Worker(9)
        for _ in range(2):
            worker.once()
        del worker
        gc.collect()
        allocated.append(ALLOCATOR.stats().allocated)
    # A call that has run often enough is recorded, and its recording keeps constants; what a round leaks, each leaks.
    assert 0 in [after - before for before, after in itertools.pairwise(allocated)]
