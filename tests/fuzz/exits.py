"""Programs that end while much is alive: threads, blocks, hooks, cycles, entries, workers; in every way of ending."""

from __future__ import annotations

import atexit
import builtins
import concurrent.futures
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

import tensocket as torch
from fuzz.work import Rng, do

F = torch.nn.functional
#: Objects that live until the end of the process.
KEPT: Final[list[Any]] = []


@contextmanager
def plainly() -> Iterator[None]:
    """As at the start of a program, whatever blocks this thread is in."""
    with torch.inference_mode(False), torch.enable_grad(), torch.autocast("cpu", enabled=False):
        yield


class Late:
    """Computes when it dies."""

    def __init__(self, cyclic: bool) -> None:
        self.tensor = torch.ones(3, requires_grad=True) * 2
        self.itself = self if cyclic else None

    def __del__(self) -> None:
        if not sys.is_finalizing():
            with plainly():
                try:
                    (self.tensor + 1).sum().backward()
                except RuntimeError as error:
                    if "functorch transform" not in str(error):  # which it may die in, and where this is refused
                        raise
        self.tensor = None


class Ending(torch.autograd.Function):  # type: ignore[misc]
    """Ends the process in its backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Any, status: int) -> Any:
        ctx.status = status
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x = grad.detach().requires_grad_()
        with torch.enable_grad():
            y = x * 2
            y.register_hook(lambda _: sys.exit(ctx.status))
            y.sum().backward()


class Watching(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
    """Ends the process at the first call that it sees."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        sys.exit(self.status)


def _blocks() -> Any:
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), torch.inference_mode():
        yield torch.ones(2)


def _endless(seed: int) -> None:
    rng = np.random.default_rng(seed)
    while True:
        do(rng)


def _for_a_while(seed: int) -> None:
    rng = np.random.default_rng(seed)
    end = time.monotonic() + 0.1
    while time.monotonic() < end:
        do(rng)


class Squares(torch.utils.data.Dataset):  # type: ignore[misc]
    """Squares of whole numbers."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, k: int) -> Any:
        return torch.tensor(float(k)) ** 2


# ---------------------------------------------------------------------------------------------------- what is alive


def daemon(rng: Rng) -> None:
    threading.Thread(target=_endless, args=(int(rng.integers(1 << 30)),), daemon=True).start()


def worker(rng: Rng) -> None:
    threading.Thread(target=_for_a_while, args=(int(rng.integers(1 << 30)),)).start()


def pool(rng: Rng) -> None:
    executor = concurrent.futures.ThreadPoolExecutor(2)
    KEPT.append([executor.submit(_for_a_while, int(rng.integers(1 << 30))) for _ in range(3)])


def blocks(rng: Rng) -> None:
    KEPT.append(_blocks())
    next(KEPT[-1])
    KEPT.append(torch.set_grad_enabled(True))


def at_exit(rng: Rng) -> None:
    seed = int(rng.integers(1 << 30))

    def late() -> None:
        with plainly():
            do(np.random.default_rng(seed), 3)

    atexit.register(late)


def cycle(rng: Rng) -> None:
    Late(True)


def in_globals(rng: Rng) -> None:
    KEPT.append(Late(bool(rng.integers(2))))
    globals()[f"late{rng.integers(9)}"] = Late(False)


def in_modules(rng: Rng) -> None:
    for place in (sys, builtins, torch, threading, np):
        place.kept = Late(bool(rng.integers(2)))  # type: ignore[union-attr]


def in_threads(rng: Rng) -> None:
    local = threading.local()
    local.late = Late(False)
    KEPT.append(local)


def graph(rng: Rng) -> None:
    x = torch.ones(2, requires_grad=True)
    y = x
    for _ in range(int(rng.choice([10, 3000]))):
        y = y + x
    KEPT.append(y)


def finalizers(rng: Rng) -> None:
    x = torch.ones(2)
    KEPT.append(x)
    weakref.finalize(x, lambda: torch.zeros(2) + 1)


def loader(rng: Rng) -> None:
    made = iter(torch.utils.data.DataLoader(Squares(), 4, num_workers=int(rng.integers(3)),
                                            persistent_workers=False))
    KEPT.append(made)
    next(made)


def streams(rng: Rng) -> None:
    stream = torch.cpu.Stream()
    KEPT.append(stream)
    with torch.cpu.stream(stream):
        KEPT.append([torch.rand(200, 200) @ torch.rand(200, 200) for _ in range(5)])


def shared(rng: Rng) -> None:
    KEPT.append(torch.ones(300).share_memory_())


def errors(rng: Rng) -> None:
    x = torch.ones(2, requires_grad=True) * 1
    x.register_hook(lambda grad: 1 / 0)
    try:
        with torch.no_grad(), torch.enable_grad():
            x.sum().backward()
    except ZeroDivisionError as error:
        KEPT.append(error)


def optimizers(rng: Rng) -> None:
    layer = torch.nn.LayerNorm(4)
    optimizer = torch.optim.Adam(layer.parameters())
    for _ in range(20):
        layer(torch.rand(4)).sum().backward()
        optimizer.step()
    KEPT.append((layer, optimizer))


ALIVE: Final[dict[str, Callable[[Rng], None]]] = {
    f.__name__: f for f in (daemon, worker, pool, blocks, at_exit, cycle, in_globals, in_modules, in_threads, graph,
                            finalizers, loader, streams, shared, errors, optimizers)}

# ------------------------------------------------------------------------------------------------------------ endings


def _raise_late() -> None:
    raise ValueError("in a thread")


def _in_hook(status: int) -> None:
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: sys.exit(status))
    y.sum().backward()


def _in_mode(status: int) -> None:
    with Watching(status):
        torch.ones(2) + 1


def _in_transform(status: int) -> None:
    torch.func.vmap(torch.func.grad(lambda x: sys.exit(status)))(torch.ones(3))


def _in_thread(status: int) -> None:
    thread = threading.Thread(target=lambda: Ending.apply(torch.ones(2, requires_grad=True), status).sum().backward())
    thread.start()
    thread.join()


def _fail() -> None:
    torch.ones(2) @ torch.ones(3)


def _interrupt() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let programs in the background ignore it
    signal.raise_signal(signal.SIGINT)


#: How a program ends, the status that it then has for a number, and whether it says something about it.
ENDINGS: Final[dict[str, tuple[Callable[[int], Any], Callable[[int], int], bool]]] = {
    "end": (lambda n: None, lambda n: 0, False),
    "exit": (sys.exit, lambda n: n, False),
    "_exit": (os._exit, lambda n: n, False),
    "hook": (_in_hook, lambda n: n, False),
    "function": (lambda n: Ending.apply(torch.ones(2, requires_grad=True), n).sum().backward(), lambda n: n, False),
    "mode": (_in_mode, lambda n: n, False),
    "transform": (_in_transform, lambda n: n, False),
    "thread": (_in_thread, lambda n: 0, False),
    "error": (lambda n: _fail(), lambda n: 1, True),
    "thread error": (lambda n: threading.Thread(target=_raise_late).start(), lambda n: 0, True),
    "interrupt": (lambda n: _interrupt(), lambda n: -signal.SIGINT, True),
    "terminated": (lambda n: signal.raise_signal(signal.SIGTERM), lambda n: -signal.SIGTERM, False),
    "atexit": (lambda n: atexit.register(_fail), lambda n: 0, True),
}


def draw(rng: Rng) -> dict[str, Any]:
    """A program."""
    ending = str(rng.choice(list(ENDINGS)))
    number = int(rng.integers(0, 100))
    alive = [str(name) for name in rng.choice(list(ALIVE), int(rng.integers(1, 7)))]
    # Blocks last: in them, others have no gradients.
    return {"kind": "exits", "alive": sorted(alive, key=lambda name: name == "blocks"),
            "work": int(rng.integers(0, 30)), "ending": ending, "number": number,
            "status": ENDINGS[ending][1](number), "loud": ENDINGS[ending][2]}


def play(plan: dict[str, Any], rng: Rng, report: Callable[[int], None]) -> None:
    """Run a program to its end."""
    calls = do(rng, plan["work"])
    for name in plan["alive"]:
        with plainly():
            calls += do(rng, 2)
        ALIVE[name](rng)
    report(calls)
    with plainly():
        ENDINGS[plan["ending"]][0](plan["number"])
