"""Threads that work beside each other: with known results of their own, and on tensors that another thread changes."""

from __future__ import annotations

import gc
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import numpy as np

import tensocket as torch
from fuzz.work import Rng, do

F = torch.nn.functional
#: Seconds that the threads of a scene go on.
LONG: Final = 1.5
#: Errors that operators on a tensor that another thread changes may raise: never one that shows a confused runtime.
FAIR: Final = (torch.errors.TensocketError,)
SHAPES: Final = ((30, 40), (3, 4), (40, 3), (2, 2), (100, 2), (2, 100), (5, 40))
#: Operators on a matrix that may have another geometry at any moment.
OPERATORS: Final[tuple[Callable[[Any], Any], ...]] = (
    lambda x: F.softmax(x, -1), lambda x: torch.sort(x, 0), lambda x: x.sum(-1), lambda x: x.mean(), lambda x: x + x,
    lambda x: x.amax(0), lambda x: x.var(-1), lambda x: x.exp(), lambda x: torch.where(x > 0.5, x, x * 2),
    lambda x: x.cumsum(-1), lambda x: F.layer_norm(x, x.shape[-1:]), lambda x: x @ x.t(), lambda x: x.topk(2),
    lambda x: x.clone(), lambda x: x.t().contiguous(), lambda x: x.double(), lambda x: torch.cat([x, x]),
    lambda x: x.flip(0), lambda x: x[[0, 0]], lambda x: x[x > 0.5], lambda x: x.tolist(), lambda x: x[0, 0].item(),
    lambda x: repr(x), lambda x: F.max_pool2d(x[None, None], 2), lambda x: F.pad(x, (1, 2)), lambda x: x.unique(),
    lambda x: F.conv2d(x[None, None], torch.ones(1, 1, 2, 2)), lambda x: x.median(-1), lambda x: x.nonzero(),
    lambda x: x.view(-1).sum(), lambda x: x.as_strided((2, 2), (1, 1)).sum(), lambda x: x.add_(1), lambda x: x.mul_(x),
    lambda x: x.fill_(2), lambda x: x.__setitem__(0, 1.0), lambda x: x.uniform_(), lambda x: x.normal_(),
    lambda x: torch.add(x, x, out=torch.empty(0)), lambda x: x.untyped_storage().nbytes(), lambda x: x.repeat(2, 2),
    lambda x: x.index_select(1, torch.tensor([0, 1])), lambda x: torch.cdist(x, x), lambda x: x.masked_fill(x > 0, 0),
    lambda x: F.gelu(x), lambda x: F.log_softmax(x, 0), lambda x: x.logsumexp(0), lambda x: x.tril(),
    lambda x: x.gather(0, torch.zeros(1, 1, dtype=torch.int64)), lambda x: torch._foreach_add([x, x], 1.0),
    lambda x: (x.detach().requires_grad_() * 2).sum().backward(), lambda x: x.data.sum(), lambda x: x.copy_(x.clone()),
    lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]), lambda x: F.batch_norm(x, None, None, None,
                                                                                            None, True),
    lambda x: x.numpy().sum(), lambda x: F.interpolate(x[None, None], scale_factor=2), lambda x: x.prod(),
)


class Scene:
    """The objects that the threads of a scene share.

    Attributes:
        moving: Tensors whose contents, geometry and memory change all the time.
        weight: A leaf, into whose gradient several threads add.
        graph: A result of it that all of them go back through.
        passes: How many gradients were added.
    """

    def __init__(self, rng: Rng, leaf: bool) -> None:
        self.end = time.monotonic() + LONG
        self.moving = [torch.rand(SHAPES[0]), torch.nn.Parameter(torch.rand(SHAPES[1])) if leaf else torch.rand(3, 4)]
        self.datas = [x for s in SHAPES for x in (torch.rand(s), torch.rand(s[::-1]).t(),
                                                  torch.rand(2 * s[0], 2 * s[1])[::2, ::2])]
        self.weight = torch.arange(1.0, 31.0, requires_grad=True)
        self.graph = ((self.weight * 2).reshape(5, 6).t() + self.weight[0]).sum()
        self.slope = 2 + 30.0 * (np.arange(30) == 0)
        self.passes: list[int] = []
        self.failures: list[str] = []
        self.calls = 0

    def alive(self) -> bool:
        """Whether threads go on."""
        return time.monotonic() < self.end and not self.failures


def change(scene: Scene, rng: Rng) -> None:
    """Give tensors other memory, shapes and strides."""
    x = scene.moving[int(rng.integers(len(scene.moving)))]
    data, kind = scene.datas[int(rng.integers(len(scene.datas)))], rng.random()
    if kind < 0.6:
        x.data = data
    elif kind < 0.8:
        with torch.no_grad():
            x.set_(data)
    else:
        x.data = torch.rand(3, 4)
        with suppress(*FAIR):  # memory that another thread has as an array is not resized
            x.data.resize_(SHAPES[int(rng.integers(len(SHAPES)))])


def use(scene: Scene, rng: Rng) -> None:
    """Any operator on such a tensor."""
    x = scene.moving[int(rng.integers(len(scene.moving)))]
    with suppress(*FAIR):
        OPERATORS[int(rng.integers(len(OPERATORS)))](x)


def correct(scene: Scene, rng: Rng) -> None:
    """Work with known results."""
    do(rng)


def backward(scene: Scene, rng: Rng) -> None:
    """Gradients of one graph in all threads, some of which are added into the leaf."""
    if rng.random() < 0.5:
        (slope,) = torch.autograd.grad(scene.graph, scene.weight, retain_graph=True)
        assert np.array_equal(slope.numpy(), scene.slope), slope
    else:
        scene.graph.backward(retain_graph=True)
        scene.passes.append(1)


def modes(scene: Scene, rng: Rng) -> None:
    """Modes of a thread are its own."""
    grad = bool(rng.integers(2))
    with torch.set_grad_enabled(grad), torch.autocast("cpu", torch.bfloat16, enabled=not grad):
        y = scene.weight * 2
        time.sleep(0)
        assert torch.is_grad_enabled() is grad
        assert y.requires_grad is grad
        assert (y[None] @ y[:, None]).dtype is (torch.float32 if grad else torch.bfloat16)
    with torch.device("meta"):
        assert torch.ones(2).device.type == "meta"
    assert torch.ones(2).device.type == "cpu"
    assert torch.is_grad_enabled()


def functions(scene: Scene, rng: Rng) -> None:
    """Levels of transforms are those of a thread."""
    x = torch.tensor([1.0, 2.0, float(rng.integers(3, 6))])
    found = torch.func.vmap(torch.func.grad(lambda v: (v * v * v).sum()))(x)
    assert found.tolist() == [3 * v * v for v in x.tolist()], found
    assert torch.func.hessian(lambda v: (v * v).sum())(x).tolist() == (2 * torch.eye(3)).tolist()


def streams(scene: Scene, rng: Rng) -> None:
    """Operators on a stream of a thread's own."""
    stream = torch.cpu.Stream()
    with torch.cpu.stream(stream):
        x = torch.full((int(rng.integers(1, 300)),), 2.0)
        y = (x * x + 1).sum()
    stream.synchronize()
    assert y.item() == 5.0 * len(x)


def counts(scene: Scene, rng: Rng) -> None:
    """Other numbers of threads."""
    torch.set_num_threads(int(rng.integers(1, 5)))
    time.sleep(0.002)


def rubbish(scene: Scene, rng: Rng) -> None:
    """Cycles of tensors, and the collector."""
    for _ in range(20):
        x = torch.ones(2, requires_grad=True) * 2
        x.itself = [x, scene.weight]
    if rng.random() < 0.2:
        gc.collect()


ACTORS: Final = {f.__name__: f for f in (change, use, correct, backward, modes, functions, streams, counts, rubbish)}


def _act(scene: Scene, name: str, seed: list[int]) -> None:
    rng, calls = np.random.default_rng(seed), 0
    try:
        while scene.alive():
            ACTORS[name](scene, rng)
            calls += 1
    except BaseException:
        scene.failures.append(f"{name}: {traceback.format_exc()}")
    scene.calls += calls


def draw(rng: Rng) -> dict[str, Any]:
    """A scene."""
    actors = [str(name) for name in rng.choice(list(ACTORS), int(rng.integers(2, 6)))]
    if "use" in actors and rng.random() < 0.8:
        actors.append("change")
    return {"kind": "races", "actors": actors, "leaf": bool(rng.integers(2)), "status": 0}


def play(plan: dict[str, Any], rng: Rng, report: Callable[[int], None]) -> None:
    """Run the threads of a scene."""
    sys.setswitchinterval(1e-5)
    scene = Scene(rng, plan["leaf"])
    threads = [threading.Thread(target=_act, args=(scene, name, [*plan["seed"], k]))
               for k, name in enumerate(plan["actors"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report(scene.calls)
    if scene.passes and not scene.failures:
        assert np.array_equal(scene.weight.grad.numpy(), len(scene.passes) * scene.slope), (
            scene.weight.grad, len(scene.passes))
    if scene.failures:
        print("\n".join(scene.failures), file=sys.stderr)
        sys.exit(5)
