"""Without the garbage collector: recorded operators, failures at every place, views of pooled memory, many steps."""

from __future__ import annotations

import gc
import importlib.util
import sys
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_core.autograd.engine import current_pass
from tensocket_core.autograd.graph import saved_tensors_hooks
from tensocket_core.autograd.node import Node
from tensocket_core.dispatch.modes import ACTIVE, STATE
from tensocket_core.dispatch.overrides import TorchFunctionMode
from tensocket_core.recording import RECORDING_SLOW_PATHS
from tensocket_core.tensor import Tensor
from tensocket_operators import functions as F
from tensocket_operators.autograd import Function
from tensocket_operators.transforms import functionalize, grad, jvp, trace, vmap


def load(path: Path) -> Any:
    """The module of a file."""
    spec = importlib.util.spec_from_file_location(f"cycles_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The cases of test_gradients: one or more of every record that has a derivative.
FOLDER = Path(__file__).parent
cases, tools = load(FOLDER / "test_gradients.py"), load(FOLDER.parent / "differences.py")
RECORDS = [(name, tools.record_function(name), case) for name, found in sorted(cases.RECORDS.items()) for case in found]
COMPOSED = [(name, case[0], case[1:]) for name, found in sorted(cases.COMPOSED.items()) for case in found]
ORDER_TWO = {name for name, _ in cases.TWICE}


@pytest.fixture(scope="module", autouse=True)
def no_collector() -> Iterator[None]:
    """Without the collector, what is in a cycle stays."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive() -> tuple[int, int]:
    """Tensors and nodes that exist."""
    found = [type(x) for x in gc.get_objects()]
    return sum(issubclass(kind, Tensor) for kind in found), sum(issubclass(kind, Node) for kind in found)


def allocated() -> int:
    """Bytes on both devices of ``ref``."""
    return torch.memory_allocated("ref:0") + torch.memory_allocated("ref:1")


def nodes_of(result: Any) -> list[Node]:
    """All nodes of a graph."""
    found: dict[int, Node] = {}
    stack = [result.grad_fn]
    while stack:
        node = stack.pop()
        if isinstance(node, Node) and id(node) not in found:
            found[id(node)] = node
            stack.extend([below for below, _ in node.next_functions])
    return list(found.values())


def drive(function: Callable[..., Any], arguments: Any, twice: bool) -> list[weakref.ref[Any]]:
    """Run forward and back, keeping the graph; references to everything that must go."""
    inputs = tools.tensors_of(tools.leaves(arguments), True)
    result = function(*tools.placed(arguments, iter(inputs)))
    several = result if isinstance(result, (tuple, list)) else (result,)
    roots = [y for y in several if y.requires_grad]
    loss = tools.weighted(roots[0])
    for y in roots[1:]:
        loss = loss + tools.weighted(y)
    references = [weakref.ref(x) for x in (*inputs, *several, *[node for y in roots for node in nodes_of(y)])]
    loss.backward(retain_graph=True)
    if twice:
        gradients = torch.autograd.grad(loss, inputs, create_graph=True, materialize_grads=True)
        again = sum(tools.weighted(g) for g in gradients)
        references += [weakref.ref(g) for g in gradients]
        if again.requires_grad:
            references += [weakref.ref(node) for node in nodes_of(again)]
            again.backward()
    return references


@pytest.mark.parametrize("which", ["records", "composites"])
def test_no_recorded_operator_makes_a_cycle(which: str) -> None:
    kept = []
    for name, function, arguments in RECORDS if which == "records" else COMPOSED:
        twice = which == "records" and name in ORDER_TWO
        drive(function, arguments, twice)  # caches fill
        before = allocated()
        references = drive(function, arguments, twice)
        assert len(references) >= 2
        left = [reference() for reference in references if reference() is not None]
        if left or allocated() != before:
            kept.append((name, [type(x).__name__ for x in left], allocated() - before))
        del left
    assert kept == []


def test_a_cycle_would_be_noticed() -> None:
    def cyclic(x: Any) -> Any:
        y = x.exp()
        y.grad_fn.metadata["result"] = y
        return y

    references = drive(cyclic, (np.array([1.0, 2.0]),), False)
    assert any(reference() is not None for reference in references)
    gc.collect()
    assert all(reference() is None for reference in references)


# ----------------------------------------------------------------------------------------------------------- failures


class Broken(Exception):
    """The exception that the tests raise."""


def fail(*args: Any, **keywords: Any) -> Any:
    raise Broken


class BrokenForward(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x, x * 2)
        fail()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient


class BrokenBackward(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.own = x * 3
        return x * 2, x + 1

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        ctx.saved_tensors[0] * gradients[0]
        fail()


class BrokenMode(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        func(*args, **(kwargs or {}))
        fail()


def in_mode(x: Any) -> None:
    with BrokenMode(), torch.no_grad():
        x * 2


def in_pack(x: Any) -> None:
    with saved_tensors_hooks(fail, lambda value: value):
        x.square().sum()


def in_unpack(x: Any) -> None:
    with saved_tensors_hooks(lambda value: value, fail):
        y = x.square().exp()
    y.sum().backward()


def in_hook(place: str, depth: int, x: Any) -> None:
    results = [x * 2]
    for _ in range(4):
        results.append(results[-1].sin() * x)
    y = results[depth]
    if place == "tensor":
        y.register_hook(fail)
    else:
        (y.grad_fn.register_hook if place == "node" else y.grad_fn.register_prehook)(fail)
    results[-1].sum().backward(retain_graph=depth % 2 == 0)


def in_create_graph(x: Any) -> None:
    y = x.sin()
    y.register_hook(fail)
    torch.autograd.grad((y * y).sum(), x, create_graph=True)


def in_leaf_hook(x: Any) -> None:
    handle = x.register_post_accumulate_grad_hook(fail)
    try:
        (x * x).sum().backward()
    finally:
        handle.remove()


def under(transform: Any, x: Any) -> None:
    def body(t: Any) -> Any:
        y = t.sin() * t
        fail()
        return y

    transform(body)(x.detach())


def in_nested_transforms(x: Any) -> None:
    vmap(grad(lambda t: jvp(lambda u: (u.exp(), fail())[0], (t,), (t,))[0].sum()))(x.detach())


def in_inference(x: Any) -> None:
    with torch.inference_mode(), torch.enable_grad(), torch.device("ref:1"):
        (x * 2).add_(x.new_ones(2, 2, 7))


def in_an_inplace_operator(x: Any) -> None:
    y = x * 1
    view = y[0]
    view.add_(torch.ones(5, 3, dtype=torch.float64))


FAILURES: dict[str, Callable[[Any], Any]] = {
    "shapes": lambda x: x + torch.ones(7),
    "dtypes": lambda x: x.exp() & x,
    "devices": lambda x: x * torch.ones(2, 3, device="ref:1"),
    "matrices": lambda x: x.tanh() @ x,
    "singular": lambda x: F.linalg_inv((x @ x.mT).clone() * 0),
    "indices": lambda x: x.sin()[:, torch.tensor([0, 9])],
    "views": lambda x: (x * 2).view(5),
    "memory": lambda x: x.sin().expand(1 << 33, 2, 3).contiguous(),
    "in place": in_an_inplace_operator,
    "saved": lambda x: [y := x.sin(), z := y.exp(), y.add_(1), z.mul_(2), (y * z).sum().backward()],
    "freed": lambda x: [y := x.exp().sum(), y.backward(), y.backward()],
    "no root": lambda x: (x * 2).backward(),
    "unused": lambda x: torch.autograd.grad((x * 2).sum(), [torch.ones(1, requires_grad=True)]),
    "forward": BrokenForward.apply,
    "backward": lambda x: sum(BrokenBackward.apply(x.sin())).sum().backward(),
    "mode": in_mode, "pack": in_pack, "unpack": in_unpack, "create_graph": in_create_graph, "leaf hook": in_leaf_hook,
    "inference": in_inference, "nested": in_nested_transforms,
    **{f"{place} hook {depth}": partial(in_hook, place, depth) for place in ("tensor", "node", "prehook")
       for depth in (0, 2, 4)},
    **{name: partial(under, transform) for name, transform in {
        "grad": grad, "vmap": vmap, "functionalize": functionalize, "jvp": lambda f: lambda x: jvp(f, (x,), (x,)),
        "trace": trace}.items()},
}


def state() -> tuple[Any, ...]:
    """Return the modes of this thread."""
    return (list(ACTIVE), list(RECORDING_SLOW_PATHS), STATE.include, STATE.exclude, STATE.function_modes,
            STATE.dispatch_modes,
            STATE.transforms, STATE.inference, STATE.overrides_off, current_pass(), str(torch.ones(1).device))


def attempt(body: Callable[[Any], Any], x: Any) -> bool:
    """Whether a body raised; what was raised is gone on return."""
    try:
        body(x)
    except Exception:
        return True
    return False


@pytest.mark.parametrize("name", FAILURES)
def test_failures_leave_nothing_behind(name: str) -> None:
    body = FAILURES[name]
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], dtype=torch.float64, requires_grad=True)
    attempt(body, x)
    x.grad = None
    states, before, memory = state(), alive(), allocated()
    for _ in range(3):
        assert attempt(body, x)
        x.grad = None
    assert state() == states
    assert allocated() == memory
    assert alive() == before
    (x * x).sum().backward()
    assert x.grad.tolist() == (2 * x.detach()).tolist()


# ----------------------------------------------------------------------------------------------------------- transforms

TRANSFORMED: dict[str, Callable[[Any], Any]] = {
    "grad": lambda x: grad(lambda t: (t.sin() * t).sum())(x),
    "tangents": lambda x: jvp(lambda t: (t.cumsum(0), t @ t.mT), (x,), (x,)),
    "tangents of gradients": lambda x: jvp(grad(lambda t: t.softmax(-1).square().sum()), (x,), (x,)),
    "tangents of lists": lambda x: jvp(lambda t: F.cat([t, t.exp()]).sort()[0], (x,), (x,)),
    "batches": lambda x: vmap(lambda row: F.stack([row, row.cumsum(0)]).max(0)[0])(x),
    "batches of gradients": lambda x: vmap(grad(lambda row: (row * row).sum().sqrt()))(x),
    "functionalized": lambda x: functionalize(lambda t: t.clone()[0].add_(1))(x),
    "replayed": lambda x: trace(lambda t: F.cat([t, t * 2]).sum())(x).replay(x),
    "nested": lambda x: vmap(grad(lambda row: jvp(lambda u: u.exp().sum(), (row,), (row,))[1]))(x),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transforms_make_no_cycles(name: str) -> None:
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], dtype=torch.float64)
    TRANSFORMED[name](x)  # caches fill
    gc.collect()
    before = alive(), allocated()
    TRANSFORMED[name](x)
    assert (alive(), allocated()) == before
    assert gc.collect() == 0


# -------------------------------------------------------------------------------------------------------- pooled memory

#: Elements of a tensor that lies in a pool's block.
LARGE = (1 << 10, 1 << 9)
VIEWS: dict[str, Callable[[Any], Any]] = {
    "slice": lambda x: x[5:7],
    "element": lambda x: x[-1, -1],
    "steps": lambda x: x[::300, ::100],
    "transposed": lambda x: x.t()[3:5],
    "view of a view": lambda x: x.view(-1)[1000:][::5000].view(-1, 1),
    "strided": lambda x: x.as_strided((3, 4), (7, 2), 123),
    "windows": lambda x: x[0].unfold(0, 4, 200),
    "expanded": lambda x: x[2:3, :3].expand(2, 4, 3),
    "diagonal": lambda x: x.diagonal()[:4],
    "detached": lambda x: x.detach()[1, :5],
    "other dtype": lambda x: x.view(torch.int32)[4, :4],
    "storage": lambda x: x.new_empty(0).set_(x.untyped_storage(), 77, (5,), (3,)),
    "last of a split": lambda x: x.split(1000)[-1][-2:, :2],
    "saved": lambda x: (x[9:10] * torch.ones(1, requires_grad=True)).grad_fn._saved_self,
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_keeps_its_block(device: str, name: str) -> None:
    if name == "other dtype" and device == "plain":
        pytest.skip("retyping is core's, tested on the others")
    before = torch.memory_allocated(device)
    parent = torch.arange(LARGE[0] * LARGE[1], dtype=torch.float32).reshape(LARGE)
    size = torch.memory_allocated(device) - before
    assert size >= 4 * LARGE[0] * LARGE[1]
    view = VIEWS[name](parent)
    expected = view.tolist()
    del parent
    assert torch.memory_allocated(device) - before >= size
    others = [torch.full(LARGE, -1.0) for _ in range(3)]
    assert view.tolist() == expected
    view.detach().sum()
    del view
    assert torch.memory_allocated(device) - before <= 3 * size
    del others
    assert torch.memory_allocated(device) == before


def test_graphs_keep_blocks_of_saved_views(device: str) -> None:
    """A pass back reads the block of a view whose parent is gone."""
    x = torch.tensor([2.0], requires_grad=True)
    before = torch.memory_allocated(device)
    parent = torch.arange(LARGE[0] * LARGE[1], dtype=torch.float32).reshape(LARGE)
    y = (parent[3, 1:4] * x).sum()
    del parent
    others = [torch.full(LARGE, -1.0) for _ in range(3)]
    y.backward()
    assert x.grad.tolist() == [3.0 * 512 * 3 + 6.0]
    x.grad = None
    del y, others
    assert torch.memory_allocated(device) == before


# ---------------------------------------------------------------------------------------------------------- many steps


class Scaled(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.factor = 2.0
        return x * ctx.factor

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * ctx.factor


def step(weights: list[Any], x: Any, k: int) -> None:
    """Layers, views written to, a function, hooks, transforms, a second derivative, an error."""
    hidden = (x @ weights[0] + weights[1]).tanh() * 1
    hidden[:, 0].mul_(2)
    hidden[[0, 1]] = 0.5
    loss = (F.layer_norm(Scaled.apply(hidden), (4,)).softmax(-1) * hidden.cumsum(1)).sum()
    loss.register_hook(lambda gradient: gradient * 1)
    loss.backward()
    with torch.no_grad():
        for w in weights:
            w.sub_(w.grad * 1e-3)
            w.grad = None
    if k % 5 == 0:
        vmap(grad(lambda row: (row.sin() * row).sum()))(x)
        first = torch.autograd.grad((weights[1].exp() * 2).sum(), weights[1], create_graph=True)[0]
        torch.autograd.grad(first.sum(), weights[1])
        assert attempt(lambda t: t @ t @ t, x)


def test_many_steps_take_no_more_memory(device: str) -> None:
    """Neither in tensors nor in other objects of Python; NumPy and Python themselves keep some small blocks."""
    torch.manual_seed(1)
    weights = [torch.randn(3, 4, requires_grad=True), torch.zeros(4, requires_grad=True)]
    x = torch.randn(5, 3)
    count = 400 if device == "cpu" else 60
    for k in range(3 * count):  # calls are noted when they come for the second time
        step(weights, x, k)
    gc.collect()
    before, memory, grown = alive(), torch.memory_allocated(device), []
    for _ in range(3):
        blocks = sys.getallocatedblocks()
        for k in range(count):
            step(weights, x, k)
        assert alive() == before
        assert torch.memory_allocated(device) == memory
        assert gc.collect() < count  # kernels that are compiled leave a cycle
        grown.append(sys.getallocatedblocks() - blocks)
    assert min(grown) < count  # calls that are noted take memory once
