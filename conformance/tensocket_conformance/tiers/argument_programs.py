"""Programs of tier T5 over arguments and results: shared memory, layouts, containers, and gradients through them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import tensocket as ts

from .stateful import CALLS, Stateful, World, call
from .stateful_programs import gradients


def _arguments_share(world: World) -> Iterator[Any]:
    """Tell of arguments that are the same tensor, overlap, or overlap with a captured one that the function writes."""
    state = world.floats(8)
    part = state[2:6]

    def f(x: Any, y: Any) -> Any:
        part.add_(x)
        return (x * 2 + y, x is y, part * y)

    def around(x: Any, y: Any) -> Any:
        before = x * 2
        part.add_(y)
        return before, x * 3

    run, other, base = world.compile(f), world.compile(around), world.floats(8)
    for _ in range(CALLS):
        yield run(world.floats(4), world.floats(4)), other(world.floats(8)[4:], world.floats(8)[:4]), state
    for k in range(3):
        yield other(state[k + 1: k + 5], base[:4]), state
        yield call(other, base[:4], state[k: k + 4]), state
        yield other(base[:4], base[k: k + 4]), state
    for _ in range(CALLS):
        yield call(run, base[:4], base[:4]), state
        x = world.floats(4)
        yield run(x, x), state
        yield run(base[:4], base[2:6]), state
        yield call(run, state[:4], base[:4]), state
        yield call(run, base[:4], state[4:]), state
        yield run(part, base[:4]), state


def _arguments_change(world: World) -> Iterator[Any]:
    """Tell of arguments of other sizes, strides and dtypes, and numbers that are equal and of other types."""
    run = world.compile(lambda x, k: (x * k, x.sum(-1), x.transpose(0, -1) + k))
    given = [world.floats(3, 4), world.floats(4, 3).t(), world.floats(3, 8)[:, ::2], world.floats(2, 4),
             world.integers(9, 3, 4), world.floats(1, 4).expand(3, 4), world.floats(3, 4) > 0, world.floats(3, 4)]
    for x in given:
        for k in (2, 2.0, True, 1, 1.0, 0.0, -0.0):
            yield call(run, x, k)
    for x in given:
        for k in (2, 2.0, True, 1, 1.0, 0.0, -0.0):
            for _ in range(2):
                yield call(run, x, k)
    for _ in range(CALLS):
        yield run(given[0], 2.0)


def _arguments_with_graphs(world: World) -> Iterator[Any]:
    """Tell of arguments that require gradients, that are results of operators, or that have a gradient."""
    def f(x: Any) -> Any:
        return (x * 2).tanh(), x.is_leaf, x.requires_grad, x.grad is None

    run, weight = world.compile(f), world.floats(4).requires_grad_()
    for k in range(4 * CALLS):
        x = world.floats(4).requires_grad_(k >= CALLS)
        if k >= 3 * CALLS:
            x = weight * x
        elif k >= 2 * CALLS:
            x.grad = world.floats(4)
        y = run(x)
        if k >= CALLS:
            y[0].sum().backward()
            yield gradients(weight) if k >= 3 * CALLS else gradients(x)
        yield y


def _several_outputs(world: World) -> Iterator[Any]:
    """Tell of gradients through some of the results, through none, through one twice, and of gradients."""
    w = world.floats(4).requires_grad_()
    frozen = world.floats(4)

    def f(x: Any) -> Any:
        y = x * w
        return y.exp(), (y * frozen).sum(), frozen * 2, y.detach(), x

    run = world.compile(f)
    for k in range(3 * CALLS):
        x = world.floats(4).requires_grad_()
        first, second, third, fourth, same = run(x)
        yield first, second, third, fourth, same is x
        if k % 3 == 0:
            first.sum().backward()
        elif k % 3 == 1:
            (2 * second).backward(retain_graph=True)
            second.backward()
            yield call(second.backward)[0]
        else:
            one, = ts.autograd.grad(first.sum() + second, x, create_graph=True)
            one.square().sum().backward()
            yield one.detach()
        yield gradients(x, w)


def _changes_before_backward(world: World) -> Iterator[Any]:
    """Tell of captured tensors, arguments and results that change between a call and its backward pass."""
    w = world.floats(4).requires_grad_()
    run = world.compile(lambda x: (x * w).exp())
    for k in range(3 * CALLS):
        x = world.floats(4).requires_grad_()
        y = run(x)
        with ts.no_grad():
            (w, x, y)[k % 3].mul_(1) if k >= CALLS else None
        error = call(y.sum().backward)
        yield error if error is None else error[0], gradients(x, w) if error is None else None
        x.grad = w.grad = None


def _results(world: World) -> Iterator[Any]:
    """Tell of results of all kinds: containers, numbers, arguments, captured tensors, the same tensor twice."""
    w = world.floats(3)

    def f(x: Any, y: Any) -> Any:
        made = x * 2
        return {"made": made, "again": [made + 0, (y, 3, None, "text")], "w": w, "shape": made.shape[0]}

    run = world.compile(f)
    for _ in range(2 * CALLS):
        x, y = world.floats(3), world.floats(2)
        found = run(x, y)
        yield found, found["again"][1][0] is y, found["w"] is w
        found["made"].zero_()
        yield found


def _sizes_by_turns(world: World) -> Iterator[Any]:
    w = world.floats(4).requires_grad_()
    run = world.compile(lambda x: ((x * w).sum(-1) / len(x)).cumsum(0))
    for rows in (3, 3, 3, 3, 5, 5, 5, 3, 5, 1, 1, 1, 7, 7, 7, 3, 5, 1, 7, 3):
        y = run(world.floats(rows, 4))
        y.sum().backward()
        yield y, gradients(w)


def _recursive_calls(world: World) -> Iterator[Any]:
    """Tell of a graph that runs inside of a backward pass, between the two passes of another call of itself."""
    w = world.floats(4).requires_grad_()
    run = world.compile(lambda x: (x * w).tanh())
    for k in range(2 * CALLS):
        x, other = world.floats(4).requires_grad_(), world.floats(4)
        first, second = run(x), run(other)
        if k >= CALLS:
            first.register_hook(lambda g, other=other: g + run(other).detach())
        (first * 2).sum().backward()
        second.sum().backward()
        yield first, second, gradients(x, w)
        w.grad = None


def _arguments_in_containers(world: World) -> Iterator[Any]:
    run = world.compile(lambda given, scale: (given["a"][0] * 2 + given["a"][1] * scale, len(given["a"])))
    base = world.floats(6)
    for k in range(2 * CALLS):
        x, y = world.floats(4), world.floats(4)
        yield run({"a": [x, y]}, scale=2.0)
        if k >= CALLS:
            yield run({"a": [x, x]}, scale=2.0), run({"a": [base[:4], base[2:]]}, scale=2.0)
            yield run({"a": [x, y, x]}, scale=2.0), run({"a": [x, y]}, scale=2), run({"a": [x, y]}, scale=3.0)


#: The programs by name.
def _views(world: World) -> Iterator[Any]:
    """Tell of results that are views of an argument or of a captured tensor, with changes through them."""
    kept = world.floats(3, 4)
    run = world.compile(lambda x: (x[0], x.t(), kept[1], x.unbind(), x * 2))
    for _ in range(2 * CALLS):
        x = world.floats(3, 4)
        row, turned, part, rows, new = run(x)
        row.add_(1)
        kept.mul_(0.5)
        yield x, turned, part, rows, new, x._version, turned._version, kept, part._version
    through = world.compile(lambda x: (x[1], x.T))
    halves, changed = world.compile(lambda x: x.chunk(2)), world.compile(lambda x: x.mul_(2)[0])
    for _ in range(2 * CALLS):
        x = world.floats(3, 4).requires_grad_()
        one, other = through(x)
        (one.sum() + (other * other).sum()).backward()
        yield gradients(x), one, other
        y = x * 2
        yield call(lambda y: halves(y)[0].add_(1), y)
        changed(y).sum().backward()
        yield gradients(x), y


PROGRAMS: Final[dict[str, Stateful]] = {
    "arguments_share": Stateful(_arguments_share, 3, quick=True), "arguments_change": Stateful(_arguments_change, 10),
    "arguments_with_graphs": Stateful(_arguments_with_graphs, 10), "several_outputs": Stateful(_several_outputs, 12),
    "changes_before_backward": Stateful(_changes_before_backward, 12), "results": Stateful(_results, 8),
    "sizes_by_turns": Stateful(_sizes_by_turns, 5), "recursive_calls": Stateful(_recursive_calls, 18),
    "arguments_in_containers": Stateful(_arguments_in_containers, 8, quick=True), "views": Stateful(_views, 5),
}
