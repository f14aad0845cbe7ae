"""Programs of tier T5 over state: captured tensors and values that change, arguments that share memory, effects."""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterator
from typing import Any, Final

import tensocket as ts
from tensocket import nn
from tensocket.nn import functional

from .stateful import CALLS, Stateful, World, call


def gradients(*tensors: Any) -> list[Any]:
    """Return the gradients of tensors; whether one is a sum in place, which its version tells, does not matter."""
    return [None if x.grad is None else x.grad.data for x in tensors]


def _values_read(world: World) -> Iterator[Any]:
    """Numbers in a cell, an attribute, a list, a dict, a default, a class and a module of the program."""
    cell, thing, items, table = 2.0, types.SimpleNamespace(k=2.0), [2.0], {"k": 2.0}
    module = types.ModuleType("values")
    module.__dict__["k"] = 2.0

    class Kind:
        k = 2.0

    def scaled(x: Any, k: float = 2.0) -> Any:
        return x * k

    def f(x: Any) -> Any:
        return [x * cell, x * thing.k, x * items[0], x * table["k"], scaled(x), x * Kind.k, x * module.k, x + len(items)]

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
        for _ in range(2):
            yield run(x)
    for _ in range(CALLS):
        yield run(x)
    items.reverse()
    yield run(x)


def _tensors_replaced(world: World) -> Iterator[Any]:
    """A captured tensor that is written, and whose memory, geometry and name are replaced."""
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
    """A module in training or not, whose parameters, layers and hooks are replaced."""
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
    """Gradients that a call accumulates, that the program replaces, shares, and sets to None."""
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


def _arguments_share(world: World) -> Iterator[Any]:
    """Arguments that are the same tensor, overlap, or overlap with a captured one that the function writes."""
    state = world.floats(8)
    part = state[2:6]

    def f(x: Any, y: Any) -> Any:
        part.add_(x)
        return (x * 2 + y, x is y, part * y)

    run, base = world.compile(f), world.floats(8)
    for _ in range(CALLS):
        yield run(world.floats(4), world.floats(4)), state
    for _ in range(CALLS):
        yield call(run, base[:4], base[:4]), state
        x = world.floats(4)
        yield run(x, x), state
        yield run(base[:4], base[2:6]), state
        yield call(run, state[:4], base[:4]), state
        yield call(run, base[:4], state[4:]), state
        yield run(part, base[:4]), state


def _arguments_change(world: World) -> Iterator[Any]:
    """Arguments of other sizes, strides and dtypes, and numbers that are equal and of other types."""
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
    """Arguments that require gradients, that are results of operators, or that have a gradient."""
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
    """Gradients through some of the results, through none, through one twice, and of gradients."""
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
    """Captured tensors, arguments and results that change between a call and its backward pass."""
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


def _broadcast_gradients(world: World) -> Iterator[Any]:
    w, bias = world.floats(3, 4).requires_grad_(), world.floats(4).requires_grad_()
    run = world.compile(lambda x: functional.layer_norm(x @ w.t() @ w + bias, (4,)).softmax(-1))
    for _ in range(2 * CALLS):
        x = world.floats(2, 5, 4).requires_grad_()
        (run(x) * world.floats(2, 5, 4)).sum().backward()
        yield gradients(x, w, bias)


def _repeated_expressions(world: World) -> Iterator[Any]:
    """Equal expressions, with and without a change of their operands between them."""
    w = world.floats(4)

    def f(x: Any) -> Any:
        first = (x * 2).exp()
        second = (x * 2).exp()
        made = x + 1
        third = made * w
        made.add_(1)
        fourth = made * w
        w.mul_(0.5)
        fifth = made * w
        return first, second, third, fourth, fifth, x * 1.0, x * True, x.sum() * 2, x.sum() * 2

    run = world.compile(f)
    for _ in range(2 * CALLS):
        found = run(world.floats(4))
        yield found, w
        found[0].zero_()
        yield found


def _constants(world: World) -> Iterator[Any]:
    """Constants, some of which are written, also after their last use, and products with ones."""
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
        return x.masked_fill(~mask, 0), product, before, made, x * one, x / 1, one * half, -x * 1, ts.ones(4, device=device)

    run = world.compile(f)
    for _ in range(2 * CALLS):
        found = run(world.floats(4))
        yield found
        found[-1].zero_()


def _identities(world: World) -> Iterator[Any]:
    """Products with one of tensors that are then written, and sums with zeros of both signs."""
    w = world.floats(4)

    def f(x: Any) -> Any:
        same = (x + 1) * 1
        kept = w * 1
        w.add_(1)
        other = (x + 1) / 1
        other.mul_(2)
        whole = (x > 0) * 1
        return same, kept, other, whole, (x * 0) + 0, (x * 0) * 1, (-x).abs() * -0.0

    run = world.compile(f)
    for _ in range(2 * CALLS):
        yield run(world.floats(4)), w


def _copies(world: World) -> Iterator[Any]:
    """Copies and transposes whose sources are read again, or are the results of products."""
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
    """Reads of neighbours of what was just computed or written, and overlapping copies."""
    def f(x: Any) -> Any:
        y = x * 2
        shifted = y[1:] + y[:-1]
        z = y.clone()
        z[1:] += z[:-1].clone()
        z[:3].mul_(2)
        turned = y.reshape(2, 3)
        turned = turned.t() + turned.t().flip(0)
        down = (z + 1).reshape(3, 2)
        down[:, 0] = down[:, 1] * 2
        return shifted, z, turned, down, down * 2, y[::2] * y[1::2]

    run = world.compile(f)
    for _ in range(2 * CALLS):
        yield run(world.floats(6))


def _rows(world: World) -> Iterator[Any]:
    """Values of rows and of elements in one kernel, in several orders."""
    w = world.floats(5)

    def f(x: Any) -> Any:
        top = x.amax(-1, keepdim=True)
        e = (x - top).exp()
        p = e / e.sum(-1, keepdim=True)
        mean = (p * w).mean(-1)
        centred = p - mean[:, None]
        spread = centred.square().sum(-1)
        return p, mean * 2, centred * spread[:, None], spread.sqrt(), x.sum(0), p.t().contiguous(), spread.sum()

    run = world.compile(f)
    for _ in range(CALLS):
        yield run(world.floats(4, 5))
    for _ in range(CALLS):
        yield run(world.floats(7, 5))
    for _ in range(CALLS):
        yield run(world.floats(1, 5))


def _gathers(world: World) -> Iterator[Any]:
    """Indices, computed ones and ones out of range, and gradients of gathers."""
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
    model = world.module(nn.Linear(4, 5))
    run = world.compile(lambda x, target: functional.cross_entropy(model(x), target, ignore_index=2))
    for k in range(2 * CALLS):
        target = world.integers(5, 6)
        if k >= CALLS and k % 3 == 0:
            target[1] = 5
        loss = call(run, world.floats(6, 4), target)
        if isinstance(loss, ts.Tensor):
            loss.backward()
        yield loss, gradients(*model.parameters())


def _many_temporaries(world: World) -> Iterator[Any]:
    """Values of many lifetimes, with products between them, and results that are kept."""
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


def _random(world: World) -> Iterator[Any]:
    """Random numbers, with seeds set between calls, and drawn by others."""
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
    """Operators that raise for some elements, before and after changes of captured tensors."""
    seen, later = world.floats(2), world.floats(2)

    def divide(x: Any, y: Any) -> Any:
        z = x // y
        later.add_(1)
        return z * 2

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


def _results(world: World) -> Iterator[Any]:
    """Results of all kinds: containers, numbers, arguments, captured tensors, the same tensor twice."""
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
    """A graph that runs inside of a backward pass, between the two passes of another call of itself."""
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


#: The programs by name.
PROGRAMS: Final[dict[str, Stateful]] = {
    "values_read": Stateful(_values_read, 3), "tensors_replaced": Stateful(_tensors_replaced, 8),
    "tensors_in_a_list": Stateful(_tensors_in_a_list, 6), "module_state": Stateful(_module_state, 15),
    "buffer_written": Stateful(_buffer_written, 8, quick=True), "buffer_replaced": Stateful(_buffer_replaced, 10),
    "cell_assigned": Stateful(_cell_assigned, 8), "sgd": Stateful(_sgd, 15),
    "sgd_with_zeros": Stateful(_sgd_with_zeros, 15), "adam": Stateful(_adam, 15, quick=True),
    "adamw": Stateful(_adamw, 15), "gradients_add_up": Stateful(_gradients_add_up, 10),
    "gradients_cleared": Stateful(_gradients_cleared, 0), "views_captured": Stateful(_views_captured, 8),
    "arguments_share": Stateful(_arguments_share, 3, quick=True), "arguments_change": Stateful(_arguments_change, 10),
    "arguments_with_graphs": Stateful(_arguments_with_graphs, 10), "several_outputs": Stateful(_several_outputs, 12),
    "changes_before_backward": Stateful(_changes_before_backward, 12),
    "broadcast_gradients": Stateful(_broadcast_gradients, 8), "repeated_expressions": Stateful(_repeated_expressions, 8),
    "constants": Stateful(_constants, 8), "identities": Stateful(_identities, 8), "copies": Stateful(_copies, 8),
    "shifts": Stateful(_shifts, 8), "rows": Stateful(_rows, 7), "gathers": Stateful(_gathers, 10),
    "losses": Stateful(_losses, 6), "many_temporaries": Stateful(_many_temporaries, 5), "random": Stateful(_random, 12),
    "errors": Stateful(_errors, 20), "warnings": Stateful(_warnings, 8), "modes": Stateful(_modes, 8),
    "results": Stateful(_results, 8), "sizes_by_turns": Stateful(_sizes_by_turns, 5),
    "recursive_calls": Stateful(_recursive_calls, 18), "identity_of_tensors": Stateful(_identity_of_tensors, 5),
    "dtype_of_numbers": Stateful(_dtype_of_numbers, 10),
}
