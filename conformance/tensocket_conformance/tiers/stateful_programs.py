"""Programs of tier T5 over state: captured tensors and values that change, arguments that share memory, effects."""

from __future__ import annotations

import random
import types
import warnings
from collections.abc import Iterator
from typing import Any, Final

import tensocket as ts
from tensocket import nn
from tensocket.nn import functional

from .stateful import CALLS, Stateful, World, call


def gradients(*tensors: Any) -> list[Any]:
    """Return the gradients of tensors, copied: whether one is a sum in place, which its version tells, is no matter."""
    return [None if x.grad is None else x.grad.clone() for x in tensors]


def _values_read(world: World) -> Iterator[Any]:
    """Tell of numbers in a cell, an attribute, a list, a dict, a default, a class and a module of the program."""
    cell, thing, items, table = 2.0, types.SimpleNamespace(k=2.0), [2.0], {"k": 2.0}
    module = types.ModuleType("values")
    module.__dict__["k"] = 2.0

    class Kind:
        k = 2.0

    def scaled(x: Any, k: float = 2.0) -> Any:
        return x * k

    def f(x: Any) -> Any:
        factors = cell, thing.k, items[0], table["k"], Kind.k, module.k, len(items)
        return [scaled(x), *[x * k for k in factors]]

    run, x = world.compile(f), world.floats(5)

    def change() -> Iterator[None]:
        nonlocal cell
        yield
        cell = 3.0
        yield
        thing.k = 4.0
        yield
        items[0] = 5.0
        yield
        table["k"] = 6.0
        yield
        scaled.__defaults__ = (7.0,)
        yield
        Kind.k = 8.0
        yield
        module.__dict__["k"] = 9.0
        yield
        items.append(1.0)
        yield

    for _ in change():
        for _ in range(CALLS):
            yield run(x)
    items.reverse()
    yield run(x)


def _tensors_replaced(world: World) -> Iterator[Any]:
    """Tell of a captured tensor that is written, and whose memory, geometry and name are replaced."""
    box = [world.floats(4, 3)]
    run, x = world.compile(lambda x: (x * box[0]).sum(-1) + box[0][0, 0]), world.floats(4, 3)
    for _ in range(CALLS):
        yield run(x)
    box[0].mul_(2)
    yield run(x)
    box[0].data = world.floats(4, 3)
    for _ in range(CALLS):
        yield run(x)
    box[0] = world.floats(4, 3)
    for _ in range(CALLS):
        yield run(x)
    box[0] = world.floats(3, 4).t()
    for _ in range(CALLS):
        yield run(x)
    box[0].requires_grad_()
    for _ in range(CALLS):
        y = run(x)
        y.sum().backward()
        yield y, gradients(box[0])


def _tensors_in_a_list(world: World) -> Iterator[Any]:
    values = [world.floats(4), world.floats(4)]
    run, x = world.compile(lambda x: x * sum(values)), world.floats(4)
    for _ in range(3):
        for _ in range(CALLS):
            yield run(x)
        values.append(world.floats(4))
        yield run(x)
        values[0] = world.floats(4)
        yield run(x)
        values[-1].zero_()


def _module_state(world: World) -> Iterator[Any]:
    """Tell of a module in training or not, whose parameters, layers and hooks are replaced."""
    model = world.module(nn.Sequential(nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2)))
    run, x = world.compile(model), world.floats(5, 4)
    norm = model[1]

    def changes() -> Iterator[None]:
        yield
        model.eval()
        yield
        model[0].weight.data.mul_(2)
        yield
        model.train()
        norm.momentum = 0.5
        yield
        model[3].bias = nn.Parameter(world.floats(2))
        yield
        model[2] = nn.Tanh()
        yield
        handle = model[3].register_forward_hook(lambda module, args, result: result * 2)
        yield
        handle.remove()
        yield
        model[0].weight.requires_grad_(False)
        yield

    for _ in changes():
        for _ in range(CALLS):
            y = run(x)
            y.square().sum().backward()
            yield y, gradients(*model.parameters()), norm.running_mean.data, norm.num_batches_tracked.data
            model.zero_grad()


def _buffer_written(world: World) -> Iterator[Any]:
    total = world.floats(4)

    def f(x: Any) -> Any:
        total.mul_(0.5).add_(x)
        return total * 2

    run, x = world.compile(f), world.floats(4)
    for k in range(2 * CALLS):
        y = run(x)
        yield y, total
        y.zero_()
        if k == CALLS:
            total.fill_(1)
            yield total


def _buffer_replaced(world: World) -> Iterator[Any]:
    thing, held = types.SimpleNamespace(last=None, scale=world.floats(4)), []

    def f(x: Any) -> Any:
        thing.last = x * thing.scale
        return x - 1

    run = world.compile(f)
    for k in range(3 * CALLS):
        yield run(world.floats(4)), thing.last
        if k % 3 == 0:
            held.append(thing.last)
        if k % 4 == 1:
            thing.last.zero_()
        if k == CALLS:
            thing.scale = thing.last = world.floats(4)
    yield held


def _cell_assigned(world: World) -> Iterator[Any]:
    last = world.floats(4)

    def f(x: Any) -> Any:
        nonlocal last
        last = x * 2
        return last + 1

    run = world.compile(f)
    for _ in range(2 * CALLS):
        yield run(world.floats(4)), last


def _training(world: World, make: Any, set_to_none: bool = True) -> Iterator[Any]:
    model = world.module(nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)))
    optimizer, held = make(model.parameters()), []

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad(set_to_none=set_to_none)
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = world.compile(step)
    for k in range(4 * CALLS):
        loss = run(world.floats(5, 4), world.floats(5, 2))
        yield loss, list(model.parameters()), gradients(*model.parameters())
        if k % 5 == 4:
            held.append(model[0].weight.grad)
        if k == 2 * CALLS:
            optimizer.param_groups[0]["lr"] = 0.01
        if k == 3 * CALLS:
            with ts.no_grad():
                model[0].weight.mul_(0.5)
    yield held


def _sgd(world: World) -> Iterator[Any]:
    yield from _training(world, lambda parameters: ts.optim.SGD(parameters, lr=0.1, momentum=0.9))


def _sgd_with_zeros(world: World) -> Iterator[Any]:
    yield from _training(world, lambda parameters: ts.optim.SGD(parameters, lr=0.1), set_to_none=False)


def _adam(world: World) -> Iterator[Any]:
    yield from _training(world, lambda parameters: ts.optim.Adam(parameters, lr=0.01))


def _adamw(world: World) -> Iterator[Any]:
    yield from _training(world, lambda parameters: ts.optim.AdamW(parameters, lr=0.01, weight_decay=0.1))


def _gradients_add_up(world: World) -> Iterator[Any]:
    """Tell of gradients that a call accumulates, that the program replaces, shares, and sets to None."""
    v, w = (world.floats(4).requires_grad_() for _ in range(2))

    def f(x: Any) -> Any:
        loss = (v * x + w * w).sum()
        loss.backward()
        return loss

    run, x = world.compile(f), world.floats(4)
    for k in range(4 * CALLS):
        yield run(x).detach(), gradients(v, w)
        if k in (CALLS, 3 * CALLS):
            v.grad = None
        if k == 2 * CALLS:
            w.grad = world.floats(4)


def _gradients_cleared(world: World) -> Iterator[Any]:
    v, w = (world.floats(4).requires_grad_() for _ in range(2))

    def f(x: Any) -> Any:
        v.grad = None
        (w * x).sum().backward()
        return x * 2

    run, kept = world.compile(f), world.floats(4)
    for k in range(3 * CALLS):
        v.grad = kept
        if k % 5 == 4:
            w.grad = None
        yield run(world.floats(4)), gradients(v, w), kept


def _equal_gradients(world: World) -> Iterator[Any]:
    """Tell of parameters that get one gradient, each in memory of its own."""
    v, w = (world.floats(4).requires_grad_() for _ in range(2))
    run = world.compile(lambda x: (v + w + x) * 2)
    for k in range(2 * CALLS):
        run(world.floats(4)).sum().backward()
        yield gradients(v, w)
        if k % 3 == 2:
            v.grad.zero_()
            yield gradients(v, w)


def _gradients_of_gradients(world: World) -> Iterator[Any]:
    """Tell of gradients of gradients behind a function that changes a captured tensor and draws random numbers."""
    w, total = world.floats(4).requires_grad_(), world.floats(4)

    def f(x: Any) -> Any:
        total.add_(1)
        return (x * w).exp() * ts.rand(4, device=world.device)

    run = world.compile(f)
    for _ in range(2 * CALLS):
        x = world.floats(4).requires_grad_()
        first, = ts.autograd.grad(run(x).sum(), x, create_graph=True)
        first.sum().backward()
        yield first.detach(), gradients(x, w), total
        w.grad = None


def _state_read_and_replaced(world: World) -> Iterator[Any]:
    state = types.SimpleNamespace(last=world.floats(4))

    def f(x: Any) -> Any:
        result = x + state.last.sum()
        state.last = x * 2
        return result

    run = world.compile(f)
    for _ in range(2 * CALLS):
        yield run(world.floats(4)), state.last


def _views_captured(world: World) -> Iterator[Any]:
    base = world.floats(8)
    left, right, steps = base[:5], base[3:], base[::2]

    def f(x: Any) -> Any:
        left.add_(x)
        right.mul_(0.5)
        steps.sub_(1)
        return base * 2, left.sum()

    run, x = world.compile(f), world.floats(5)
    for _ in range(2 * CALLS):
        yield run(x), base, left, right


def _random(world: World) -> Iterator[Any]:
    """Tell of random numbers, with seeds set between calls, and drawn by others."""
    def f(x: Any) -> Any:
        kept = functional.dropout(x, 0.5)
        return kept, ts.rand(3, device=world.device), kept.sum() + ts.randn(2, device=world.device)

    run, x = world.compile(f), world.floats(9)
    for k in range(3 * CALLS):
        if k % 4 == 3:
            ts.manual_seed(k)
        yield run(x)
        if k % 5 == 4:
            yield ts.rand(2, device=world.device)


def _errors(world: World) -> Iterator[Any]:
    """Tell of operators that raise for some elements, before and after changes of captured tensors."""
    seen, later = world.floats(2), world.floats(2)

    def divide(x: Any, y: Any) -> Any:
        before = later * 2
        z = x // y
        later.add_(1)
        return z * 2, before

    def behind(x: Any, y: Any) -> Any:
        seen.add_(1)
        z = x // y
        seen.mul_(2)
        return z

    def draw(x: Any, y: Any) -> Any:
        noise = ts.rand(2, device=world.device)
        return noise + x % y

    runs = [world.compile(f) for f in (divide, behind, draw)]
    for k in range(3 * CALLS):
        x, y = world.integers(9, 2), world.integers(3, 2) + 1
        if k >= CALLS and k % 3 == 0:
            y[1] = 0
        yield [call(run, x, y) for run in runs], seen, later, ts.rand(1, device=world.device)


def _warnings(world: World) -> Iterator[Any]:
    def f(x: Any) -> Any:
        warnings.warn("a warning", UserWarning, stacklevel=1)
        return x * 2

    run, x = world.compile(f), world.floats(3)
    actions: tuple[Any, ...] = ("always", "ignore", "error")
    with warnings.catch_warnings(record=True) as seen:
        for action in actions:
            warnings.simplefilter(action)
            for _ in range(CALLS):
                yield call(run, x), [str(each.message) for each in seen]


def _modes(world: World) -> Iterator[Any]:
    w = world.floats(4, 4).requires_grad_()

    def f(x: Any) -> Any:
        with ts.no_grad():
            quiet = x @ w
        return x @ w, quiet, ts.ones(2, device=world.device), ts.is_grad_enabled()

    run, x = world.compile(f), world.floats(3, 4)
    for _ in range(2):
        for _ in range(CALLS):
            yield run(x)
        with ts.no_grad():
            for _ in range(CALLS):
                yield run(x)
        with ts.inference_mode():
            for _ in range(CALLS):
                yield [y.clone() for y in run(x)[:3]]
        with ts.device("meta"):
            yield run(x)


def _identity_of_tensors(world: World) -> Iterator[Any]:
    v, w = world.floats(4), world.floats(4)
    box = [v]

    def f(x: Any) -> Any:
        return x * 2 if box[0] is v else x * 3, x is v

    run = world.compile(f)
    for _ in range(CALLS):
        yield run(world.floats(4))
    box[0] = w
    for _ in range(CALLS):
        yield run(world.floats(4))
    for _ in range(CALLS):
        yield run(v)


def _dtype_of_numbers(world: World) -> Iterator[Any]:
    state = types.SimpleNamespace(k=2, dtype=ts.float32)
    run, x = world.compile(lambda x: (x * state.k, x.to(state.dtype) / 2)), world.integers(9, 4)
    for k, dtype in ((2, ts.float32), (2.0, ts.float32), (True, ts.int64), (1, ts.bool), (1.0, ts.float32)):
        state.k, state.dtype = k, dtype
        for _ in range(CALLS):
            yield run(x)


def _elements_read(world: World) -> Iterator[Any]:
    """Tell of functions that branch on elements, or whose results have sizes that follow from elements."""
    def f(x: Any) -> Any:
        return x * 2 if float(x.sum()) > 0 else x * 3

    runs = [world.compile(f), world.compile(lambda x: x[x > 0] * 2), world.compile(lambda x: x * x.tolist()[0])]
    for _ in range(2 * CALLS):
        x = world.floats(3)
        yield [run(x) for run in runs]


def _not_captured(world: World) -> Iterator[Any]:
    """Tell of functions that change or look at their arguments in ways that have no place in a graph."""
    w = world.floats(2, 3)

    def turned(x: Any) -> Any:
        w.t_()
        return x * w.shape[0]

    def added(x: Any) -> Any:
        x.add_(1)
        return x * 2

    runs = [world.compile(f) for f in (
        turned, added, lambda x: x[1:], lambda x: (x * 2).chunk(2), lambda x: x * x._version, lambda x: w[:1])]
    for _ in range(2 * CALLS):
        x = world.floats(4)
        yield [run(x) for run in runs], x, w


def _numbers_of_python(world: World) -> Iterator[Any]:
    """Tell of random numbers and iterators of Python, and functions that tell one number from an equal one."""
    generator, values, state = random.Random(1), iter(range(100)), types.SimpleNamespace(k=0.0)
    runs = [world.compile(lambda x: x * generator.random()), world.compile(lambda x: x * next(values)),
            world.compile(lambda x: 1 / (x * state.k))]
    for k in range(3 * CALLS):
        state.k = -0.0 if k >= CALLS else 0.0
        yield [run(world.floats(2)) for run in runs]


def _two_functions(world: World) -> Iterator[Any]:
    """Tell of two functions over one state, and results of one as arguments of the other."""
    state = world.floats(4)

    def write(x: Any) -> Any:
        state.add_(x)
        return state * 2

    first, second = world.compile(write), world.compile(lambda x: x * state)
    held = []
    for _ in range(2 * CALLS):
        y = first(world.floats(4))
        held += [y, second(y), second(second(y))]
        yield held[-3:]
    yield held


#: The programs by name.
PROGRAMS: Final[dict[str, Stateful]] = {
    "values_read": Stateful(_values_read, 3), "tensors_replaced": Stateful(_tensors_replaced, 8),
    "tensors_in_a_list": Stateful(_tensors_in_a_list, 6), "module_state": Stateful(_module_state, 15),
    "buffer_written": Stateful(_buffer_written, 8, quick=True), "buffer_replaced": Stateful(_buffer_replaced, 10),
    "cell_assigned": Stateful(_cell_assigned, 8), "sgd": Stateful(_sgd, 15),
    "sgd_with_zeros": Stateful(_sgd_with_zeros, 15), "adam": Stateful(_adam, 15, quick=True),
    "adamw": Stateful(_adamw, 15), "gradients_add_up": Stateful(_gradients_add_up, 10),
    "gradients_cleared": Stateful(_gradients_cleared, 0),
    "equal_gradients": Stateful(_equal_gradients, 8), "gradients_of_gradients": Stateful(_gradients_of_gradients, 8),
    "state_read_and_replaced": Stateful(_state_read_and_replaced, 0),
    "views_captured": Stateful(_views_captured, 8),
    "random": Stateful(_random, 12), "errors": Stateful(_errors, 20), "warnings": Stateful(_warnings, 8),
    "modes": Stateful(_modes, 8), "identity_of_tensors": Stateful(_identity_of_tensors, 5),
    "dtype_of_numbers": Stateful(_dtype_of_numbers, 10), "elements_read": Stateful(_elements_read, 0),
    "not_captured": Stateful(_not_captured, 0), "numbers_of_python": Stateful(_numbers_of_python, 8),
    "two_functions": Stateful(_two_functions, 12),
}
