"""Processes that fork: before and after first use, while threads run, in trees, with workers and shared memory."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import tensocket as torch
from fuzz.exits import Squares
from fuzz.work import WORK, Rng, close, do

#: Seconds after which an answer of another process is missing.
SLOW: Final = 30


class Scene:
    """The objects that the processes of a tree share when they fork.

    Attributes:
        generator: Goes on in each process as if it were the only one.
        weight: A leaf with a graph that both sides go back through.
        memory: Seen and written by all.
    """

    def __init__(self, rng: Rng) -> None:
        self.seed = int(rng.integers(1 << 30))
        self.generator = torch.Generator().manual_seed(self.seed)
        torch.rand(5, generator=self.generator)
        self.values = rng.standard_normal(2500).astype(np.float32)
        self.weight = torch.from_numpy(self.values.copy()).requires_grad_()
        self.loss = (self.weight.exp() * self.weight).sum()
        self.memory = torch.zeros(64, dtype=torch.int64).share_memory_()
        self.plain = torch.zeros(4)

    def check(self) -> int:
        """Check the values that every process finds, for any number of processes; return the number of checks."""
        other = torch.Generator().manual_seed(self.seed)
        torch.rand(5, generator=other)
        fork = torch.Generator()
        fork.set_state(self.generator.get_state())
        assert torch.equal(torch.randn(40, generator=other), torch.randn(40, generator=fork))
        (slope,) = torch.autograd.grad(self.loss, self.weight, retain_graph=True)
        close(slope, np.exp(self.values) * (1 + self.values), 1e-3)
        close(self.weight, self.values)
        return 8


class _Background:
    """Threads that work in this process until the block ends."""

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.seed, self.stopped, self.threads = count, seed, threading.Event(), []  # type: ignore[var-annotated]

    def _run(self, number: int) -> None:
        rng = np.random.default_rng([self.seed, number])
        while not self.stopped.is_set():
            do(rng)

    def __enter__(self) -> None:
        self.threads = [threading.Thread(target=self._run, args=(k,)) for k in range(self.count)]
        for thread in self.threads:
            thread.start()

    def __exit__(self, *raised: object) -> None:
        self.stopped.set()
        for thread in self.threads:
            thread.join()


def _forked(function: Callable[[], Any]) -> int:
    """Call a function in a forked process; its status, which is 7 where the function failed."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        function()
        status = 0
    except BaseException:
        traceback.print_exc()
        status = 7
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _branch(scene: Scene, tree: list[Any], place: list[int], threads: int, rng: Rng) -> None:
    """Work in this process, then in those forked from it."""
    do(rng, 2)
    scene.check()
    scene.plain.add_(1)
    before = float(scene.plain[0])
    for child in tree:
        mine, place[0] = place[0], place[0] + _size(child)
        with _Background(threads, mine):
            status = _forked(lambda child=child, mine=mine: _child(scene, child, mine, threads, rng))
        assert status == 0, status
        assert scene.memory[mine].item() == mine + 1
        assert float(scene.plain[0]) == before  # a child's memory is its own
    scene.check()
    do(rng, 1)


def _child(scene: Scene, tree: list[Any], mine: int, threads: int, rng: Rng) -> None:
    _branch(scene, tree, [mine + 1], threads, rng)
    scene.memory[mine] = mine + 1


def _size(tree: list[Any]) -> int:
    return 1 + sum(_size(child) for child in tree)


def _tree(rng: Rng, depth: int = 3) -> list[Any]:
    return [_tree(rng, depth - 1) for _ in range(int(rng.integers(0, 3)))] if depth else []


# ---------------------------------------------------------------------------------------------------- multiprocessing


def _server(memory: Any, given: Any, answers: Any) -> None:
    """Answer tensors with their squares until there is None."""
    while (x := given.get()) is not None:
        memory[int(x[0])] += 1
        answers.put(x * x)


def _processes(rng: Rng, method: str, threads: int) -> int:
    """A process of ``multiprocessing`` that is sent tensors, and writes to shared ones."""
    context = torch.multiprocessing.get_context(method)
    memory = torch.zeros(40, dtype=torch.int64).share_memory_()
    given, answers = context.Queue(), context.Queue()
    with _Background(threads, 1):
        child = context.Process(target=_server, args=(memory, given, answers))
        child.start()
        for k in range(20):
            given.put(torch.arange(k, k + 5))
            assert answers.get(timeout=SLOW).tolist() == [n * n for n in range(k, k + 5)]
        given.put(None)
        child.join()
    assert child.exitcode == 0, child.exitcode
    assert memory.tolist() == [1] * 20 + [0] * 20
    return 80


def _loaders(rng: Rng, method: str, threads: int) -> int:
    """Workers that load squares."""
    data = torch.utils.data.DataLoader(Squares(), int(rng.integers(1, 9)), num_workers=int(rng.integers(1, 4)),
                                       shuffle=True, multiprocessing_context=method,
                                       persistent_workers=bool(rng.integers(2)))
    with _Background(threads, 1):
        for _ in range(2):
            found = sorted(float(v) for batch in data for v in batch)
            assert found == [float(k * k) for k in range(40)], found
    return 160


def draw(rng: Rng) -> dict[str, Any]:
    """A scene."""
    way = str(rng.choice(["tree", "processes", "loaders"], p=[0.6, 0.2, 0.2]))
    return {"kind": "forks", "way": way, "method": "spawn" if rng.random() < 0.15 else "fork", "tree": _tree(rng),
            "threads": int(rng.choice([0, 0, 1, 3])), "work": int(rng.choice([0, 0, 2, 20])),
            "first": bool(rng.random() < 0.3), "status": 0}


def play(plan: dict[str, Any], rng: Rng, report: Callable[[int], None]) -> None:
    """Run a scene."""
    if plan["first"]:  # before any use
        assert _forked(lambda: do(np.random.default_rng(plan["seed"]), 3)) == 0
    if plan["threads"]:  # Python itself does not fork well while another thread imports
        report(sum(work(rng) for work in WORK.values()))
    report(do(rng, plan["work"]))
    if plan["way"] == "tree":
        scene = Scene(rng)
        _branch(scene, plan["tree"], [0], plan["threads"], rng)
        report(20 * _size(plan["tree"]))
    else:
        report((_processes if plan["way"] == "processes" else _loaders)(rng, plan["method"], plan["threads"]))
    report(do(rng, 2))
