"""Programs of tier T5 over operators that passes and schedules change: repeated, shifted, gathered and many ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import tensocket as ts
from tensocket import nn
from tensocket.nn import functional

from .stateful import CALLS, Stateful, World, call
from .stateful_programs import gradients


def _broadcast_gradients(world: World) -> Iterator[Any]:
    w, bias = world.floats(3, 4).requires_grad_(), world.floats(4).requires_grad_()
    run = world.compile(lambda x: functional.layer_norm(x @ w.t() @ w + bias, (4,)).softmax(-1))
    for _ in range(2 * CALLS):
        x = world.floats(2, 5, 4).requires_grad_()
        (run(x) * world.floats(2, 5, 4)).sum().backward()
        yield gradients(x, w, bias)


def _repeated_expressions(world: World) -> Iterator[Any]:
    """Tell of equal expressions, with and without a change of their operands between them."""
    w = world.floats(4)

    def f(x: Any) -> Any:
        first = (x * 2).exp()
        second = (x * 2).exp()
        ts.rand(2, device=world.device)  # draws, although nothing needs the numbers
        made = x + 1
        third = (made * w).exp()
        made.add_(1)
        fourth = (made * w).exp()
        w.mul_(0.5)
        fifth = (made * w).exp()
        one, other = x - 1, x - 1
        other.mul_(3)
        return first, second, third, fourth, fifth, one.exp(), other.exp(), x * 1.0, x * True, x.sum() * 2, x.sum() * 2

    run = world.compile(f)
    for _ in range(2 * CALLS):
        found = run(world.floats(4))
        yield found, w
        found[0].zero_()
        yield found


def _constants(world: World) -> Iterator[Any]:
    """Tell of constants, some of which are written, also after their last use, and products with ones."""
    device = world.device

    def f(x: Any) -> Any:
        rows = ts.arange(4, device=device)
        mask = rows[:, None] >= rows
        ramp = ts.linspace(0, 3, 4, device=device).floor()
        product = ramp * ramp + ramp
        ramp += product
        made = ts.zeros(4, device=device)
        before = made + 1
        made[1:3] = x[:2]
        half = ts.full((4,), 0.5, device=device)
        one = ts.ones(4, device=device)
        factors = x * one, x / 1, one * half, -x * 1
        return x.masked_fill(~mask, 0), product, before, made, factors, ts.ones(4, device=device)

    run = world.compile(f)
    for _ in range(2 * CALLS):
        found = run(world.floats(4))
        yield found
        found[-1].zero_()


def _identities(world: World) -> Iterator[Any]:
    """Tell of products with one of tensors that are then written, and sums with zeros of both signs."""
    w = world.floats(4)

    def f(x: Any) -> Any:
        same = (x + 1) * 1
        kept = w * 1
        w.add_(1)
        kept = kept.neg()
        other = (x + 1) / 1
        other.mul_(2)
        whole = (x > 0) * 1
        return same, kept, other, whole, (x * 0) + 0, (x * 0) * 1, (-x).abs() * -0.0

    run = world.compile(f)
    for _ in range(2 * CALLS):
        yield run(world.floats(4)), w


def _copies(world: World) -> Iterator[Any]:
    """Tell of copies and transposes whose sources are read again, or are the results of products."""
    def f(x: Any, y: Any) -> Any:
        product = x @ y
        turned = product.t().contiguous()
        again = (y.t() @ x.t()).t().clone()
        made = x * 2
        copy = made.clone()
        made.add_(1)
        return turned, again.contiguous(), copy, made, (x + 1).t().clone()

    run = world.compile(f)
    for _ in range(2 * CALLS):
        yield run(world.floats(3, 5), world.floats(5, 4))


def _shifts(world: World) -> Iterator[Any]:
    """Tell of reads of neighbours of what was just computed or written, and overlapping copies."""
    def f(x: Any) -> Any:
        y = x * 2
        shifted = y[1:] + y[:-1]
        z = y.clone()
        z[1:] += z[:-1].clone()
        z[:3].mul_(2)
        square = x[:4].reshape(2, 2) * 2
        turned = y.reshape(2, 3)
        turned = turned.t() + turned.t().flip(0)
        down = (z + 1).reshape(3, 2)
        down[:, 0] = down[:, 1] * 2
        return shifted, z, z * 3, turned, down, down * 2, y[::2] * y[1::2], square + square.t()

    run = world.compile(f)
    for _ in range(2 * CALLS):
        yield run(world.floats(6))


def _rows(world: World) -> Iterator[Any]:
    """Tell of values of rows and of elements in one kernel, in several orders."""
    w = world.floats(5)

    def f(x: Any) -> Any:
        top = x.amax(-1, keepdim=True)
        e = (x - top).exp()
        p = e / e.sum(-1, keepdim=True)
        mean = (p * w).mean(-1)
        centred = p - mean[:, None]
        spread = centred.square().sum(-1)
        first = x[:, 0] * 2
        sums = x.sum(0), spread.sum(), p.t().contiguous()
        return first, first[:, None] * x, p, mean * 2, centred * spread[:, None], spread.sqrt(), sums

    run = world.compile(f)
    for _ in range(CALLS):
        yield run(world.floats(4, 5))
    for _ in range(CALLS):
        yield run(world.floats(7, 5))
    for _ in range(CALLS):
        yield run(world.floats(1, 5))


def _gathers(world: World) -> Iterator[Any]:
    """Tell of indices, computed ones and ones out of range, and gradients of gathers."""
    table = world.floats(6, 3).requires_grad_()

    def f(index: Any, column: Any) -> Any:
        rows = functional.embedding(index, table)
        picked = rows.gather(-1, column)
        return rows * 2, picked, ts.stack([rows, rows + 1])[0]

    run = world.compile(f)
    for k in range(3 * CALLS):
        index = world.integers(6, 4)
        if k >= 2 * CALLS and k % 2:
            index[0] = 6 + k % 3
        found = call(run, index, world.integers(3, 4, 1))
        yield found
        if isinstance(found[0], ts.Tensor):
            (found[0].sum() + found[1].sum()).backward()
            yield gradients(table)


def _losses(world: World) -> Iterator[Any]:
    classes = 12  # rows that are longer than those whose kernels take several at once
    model = world.module(nn.Linear(4, classes))
    run = world.compile(lambda x, target: functional.cross_entropy(model(x), target, ignore_index=2))
    for k in range(2 * CALLS):
        target = world.integers(classes, 6)
        if k >= CALLS and k % 3 == 0:
            target[1] = classes
        loss = call(run, world.floats(6, 4), target)
        if isinstance(loss, ts.Tensor):
            loss.backward()
        yield loss, gradients(*model.parameters())


def _many_temporaries(world: World) -> Iterator[Any]:
    """Tell of values of many lifetimes, with products between them, and results that are kept."""
    w, held = world.floats(6, 6) / 4, []

    def f(x: Any) -> Any:
        values = [x]
        for _ in range(6):
            values.append((values[-1] @ w).tanh() + values[max(len(values) - 3, 0)])
        return values[-1], (values[2] - values[4]).sum(0), values[3] @ values[5].t()

    run = world.compile(f)
    for k in range(2 * CALLS):
        found = run(world.floats(4 if k < CALLS else 4 + k % 3, 6))
        held.append(found)
        yield found
    yield held


def _rates(world: World) -> Iterator[Any]:
    """Tell of steps whose rate a schedule inside of them sets, or the program between calls, and one that is read."""
    model = world.module(nn.Linear(4, 2))
    optimizer = ts.optim.Adam(model.parameters(), lr=0.1)
    scheduler = ts.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.9**epoch)

    def step(x: Any, scheduled: bool) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        if scheduled:
            scheduler.step()
        return loss.detach()

    run = world.compile(step)
    for _ in range(2 * CALLS):
        yield run(world.floats(3, 4), True), *model.parameters(), optimizer.param_groups[0]["lr"], scheduler.last_epoch
    for k in range(2 * CALLS):
        optimizer.param_groups[0]["lr"] = 0.1 / (k + 1)
        yield run(world.floats(3, 4), False), *model.parameters()
    other = world.compile(lambda x: x * optimizer.param_groups[0]["lr"])
    for k in range(CALLS):
        optimizer.param_groups[0]["lr"] = 0.5 / (k + 1)
        yield other(world.floats(3))


#: The programs by name.
PROGRAMS: Final[dict[str, Stateful]] = {
    "broadcast_gradients": Stateful(_broadcast_gradients, 8),
    "repeated_expressions": Stateful(_repeated_expressions, 8), "constants": Stateful(_constants, 8),
    "identities": Stateful(_identities, 8), "copies": Stateful(_copies, 8), "shifts": Stateful(_shifts, 8),
    "rows": Stateful(_rows, 7), "gathers": Stateful(_gathers, 10), "losses": Stateful(_losses, 6),
    "many_temporaries": Stateful(_many_temporaries, 5), "rates": Stateful(_rates, 10),
}
