"""Scripts over the calls themselves: arguments, memory that they share, changes in place, and errors at some call."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np

import tensocket as torch
from tensocket import nn

from .scripts import CALLS, calls, outcome, told, vector


def argument_twice(compiled):
    run = compiled(lambda x, y: (x * 2 + y, x is y))
    yield from calls(run, vector(), vector() + 1)
    x = vector()
    yield from calls(run, x, x)


def argument_written_that_is_also_read(compiled):
    def f(x, y):
        x.add_(1)
        return x * y
    run = compiled(f)
    for _ in range(CALLS):
        x, y = vector(), vector()
        yield outcome(run, x, y), told(x), told(y), x._version
    for _ in range(CALLS):
        x = vector()
        yield outcome(run, x, x), told(x), x._version


def arguments_overlap(compiled):
    run = compiled(lambda x, y: x.cumsum(0) + y)
    base = torch.arange(8.0)
    yield from calls(run, base[:4], base[4:])
    for k in range(CALLS):
        yield outcome(run, base[:4], base[k % 4: k % 4 + 4])


def argument_is_what_is_captured(compiled):
    w = vector()

    def f(x):
        w.mul_(2)
        return x + w
    run = compiled(f)
    yield from calls(run, vector())
    w.fill_(1.0)
    yield from calls(run, w)
    yield told(w)


def argument_overlaps_what_is_captured(compiled):
    base = torch.arange(8.0)
    w = base[2:6]

    def f(x):
        w.add_(1)
        return x * w
    run = compiled(f)
    yield from calls(run, vector())
    for k in range(CALLS):
        yield outcome(run, base[k % 3: k % 3 + 4]), told(base)


def result_written_by_the_caller(compiled):
    w = vector()
    run = compiled(lambda x: (x * w, x + w))
    held = []
    for k in range(2 * CALLS):
        first, second = run(vector() + k)
        held.append((first, second))
        yield told((first, second))
        first.zero_()
        second.add_(first)
    yield told([list(pair) for pair in held])


def result_is_the_argument(compiled):
    run = compiled(lambda x, flag: x if flag else x * 2)
    for k in range(2 * CALLS):
        x = vector()
        y = run(x, k < CALLS)
        yield y is x, told(y)
        y.zero_()
        yield told(x)


def result_views_the_argument(compiled):
    run = compiled(lambda x: x[1:].t() if x.dim() > 1 else x[1:])
    for k in range(2 * CALLS):
        x = torch.arange(6.0).reshape((6,) if k < CALLS else (2, 3))
        y = run(x)
        y.mul_(3)
        yield told(x), told(y), y._base is x


def result_feeds_the_next_call(compiled):
    run = compiled(lambda x, h: torch.tanh(x * h) + h.cumsum(0))
    h = vector() / 10
    for k in range(2 * CALLS):
        h = run(vector() if k < CALLS else vector().double(), h)
        yield told(h)


def results_of_changing_structure(compiled):
    keys = ["a"]
    run = compiled(lambda x: {key: x * k for k, key in enumerate(keys, 2)})
    yield from calls(run)
    keys.append("b")
    yield from calls(run)
    keys[:] = ["b", "a"]
    yield from calls(run)


def shape_of_gradient(compiled):
    run = compiled(lambda x: x.detach() * x.grad.dim())
    for _ in range(2 * CALLS):
        x = torch.arange(1.0, 5.0).requires_grad_()
        x.grad = torch.ones(4)
        yield outcome(run, x)
    for _ in range(CALLS):
        x = torch.arange(1.0, 5.0).reshape(2, 2).requires_grad_()
        x.grad = torch.ones(2, 2)
        yield outcome(run, x)


def kind_of_gradient(compiled):
    run = compiled(lambda x: x.detach() * 2 if x.grad.stride()[0] == 1 else x.detach())
    for k in range(2 * CALLS):
        x = torch.ones(2, 2, requires_grad=True)
        x.grad = torch.ones(2, 2).t() if k >= CALLS else torch.ones(2, 2)
        yield outcome(run, x)


def gradient_of_an_argument_is_read(compiled):
    run = compiled(lambda x: x.detach() * x.grad)
    x = vector().requires_grad_()
    x.grad = torch.ones(4)
    yield from calls(run, x)
    x.grad = torch.full((4,), 3.0)
    yield from calls(run, x)
    x.grad.mul_(2)
    yield from calls(run, x)


def node_of_an_argument(compiled):
    w = torch.ones(4, requires_grad=True)
    run = compiled(lambda x: x.detach() * (2 if x.grad_fn.name().startswith("Mul") else 3))
    for _ in range(CALLS):
        yield outcome(run, w * 2)
    for _ in range(CALLS):
        yield outcome(run, w.exp())


def edges_of_the_node_of_an_argument(compiled):
    w = torch.ones(4, requires_grad=True)
    run = compiled(lambda x: x.detach() * len(x.grad_fn.next_functions))
    for _ in range(CALLS):
        yield outcome(run, w.exp())
    for _ in range(CALLS):
        yield outcome(run, torch.cat([w[:1], w[1:2], w[2:]]))


def base_of_an_argument(compiled):
    run = compiled(lambda x: x * x._base.numel())
    for k in range(2 * CALLS):
        base = torch.arange(8.0) if k < CALLS else torch.arange(16.0)
        yield outcome(run, base[2:6])


def number_of_output_of_an_argument(compiled):
    w = torch.arange(8.0, requires_grad=True)
    run = compiled(lambda x: x.detach() * (1 + x.output_nr))
    for k in range(2 * CALLS):
        yield outcome(run, (w * 1).chunk(2)[k >= CALLS])


def hook_on_an_argument(compiled):
    run = compiled(lambda x: (x * 3).relu())
    for k in range(2 * CALLS):
        x = vector().requires_grad_()
        if k >= CALLS:
            x.register_hook(lambda g: g * 10)
        run(x).sum().backward()
        yield told(x.grad)


def retained_gradient_of_an_argument(compiled):
    run = compiled(lambda x: (x * 3).relu())
    for k in range(2 * CALLS):
        leaf = vector().requires_grad_()
        x = leaf * 2
        if k >= CALLS:
            x.retain_grad()
        run(x).sum().backward()
        yield told(leaf.grad), told(x.grad) if k >= CALLS else None


def elements_through_dlpack(compiled):
    run = compiled(lambda x: x * float(np.from_dlpack(x)[0]))
    for k in range(2 * CALLS):
        yield outcome(run, vector() + k)


def elements_through_numpy(compiled):
    run = compiled(lambda x: x * float(x.numpy().max()))
    for k in range(2 * CALLS):
        yield outcome(run, vector() + k)


def elements_through_array_protocol(compiled):
    run = compiled(lambda x: x * float(np.asarray(x)[1]))
    for k in range(2 * CALLS):
        yield outcome(run, vector() + k)


def elements_through_the_storage(compiled):
    run = compiled(lambda x: x * float(x.untyped_storage().tolist()[3]))
    for k in range(2 * CALLS):
        yield outcome(run, vector() + k)


def elements_through_pickle(compiled):
    run = compiled(lambda x: x * len(pickle.dumps(x).rstrip(b"\0x")) + pickle.loads(pickle.dumps(x)))
    for k in range(2 * CALLS):
        yield outcome(run, vector() + k)


def elements_through_copy(compiled):
    run = compiled(lambda x: copy.deepcopy(x) * 2 + copy.copy(x))
    for k in range(2 * CALLS):
        yield outcome(run, vector() + k)


def elements_through_text(compiled):
    run = compiled(lambda x: x * len(f"{x}"))
    for k in range(2 * CALLS):
        yield outcome(run, vector() * 10 ** (k % 5))


def elements_through_equal(compiled):
    w = vector()
    run = compiled(lambda x: x * (2 if torch.equal(x, w) else 3))
    yield from calls(run)
    yield from calls(run, vector() + 1)


def elements_through_membership(compiled):
    w = [vector(), vector() + 1]
    run = compiled(lambda x: x * (2 if x[0] in w[1] else 3))
    yield from calls(run)
    yield from calls(run, vector() + 1)


def elements_as_a_range(compiled):
    n = torch.tensor(2)
    run = compiled(lambda x: x * len(range(n)))
    yield from calls(run)
    n.fill_(3)
    yield from calls(run)


def elements_as_an_index_of_a_list(compiled):
    table, k = [2.0, 3.0], torch.tensor(0)
    run = compiled(lambda x: x * table[k])
    yield from calls(run)
    k.fill_(1)
    yield from calls(run)


def elements_as_a_size(compiled):
    n = torch.tensor(2)
    run = compiled(lambda x: torch.zeros(n, 2) + x[:1])
    yield from calls(run)
    n.fill_(3)
    yield from calls(run)


def elements_as_a_slice(compiled):
    n = torch.tensor(2)
    run = compiled(lambda x: x[:n] * 2)
    yield from calls(run)
    n.fill_(3)
    yield from calls(run)


def elements_as_a_number(compiled):
    n = torch.tensor(2.0)
    run = compiled(lambda x: torch.add(x, x, alpha=n) + math.sqrt(n))
    yield from calls(run)
    n.fill_(3)
    yield from calls(run)


def shapes_that_follow_from_values(compiled):
    run = compiled(lambda x: (x[x > 2] * 2, x.nonzero(), x.unique(), torch.where(x > 2)[0]))
    yield from calls(run)
    yield from calls(run, vector() * 2)


def bins(compiled):
    run = compiled(lambda x: torch.bincount(x) * 2)
    yield from calls(run, torch.tensor([1, 2, 2]))
    yield from calls(run, torch.tensor([1, 5, 2]))


def classes_of_one_hot(compiled):
    run = compiled(lambda x: nn.functional.one_hot(x) * 2)
    yield from calls(run, torch.tensor([1, 2, 2]))
    yield from calls(run, torch.tensor([1, 5, 2]))


def index_out_of_range(compiled):
    table, seen = vector(), torch.zeros(())

    def f(index):
        seen.add_(1)
        y = table[index] * 2
        seen.add_(10)
        return y
    run = compiled(f)
    yield from calls(run, torch.tensor([0, 3]))
    yield told(seen)
    for k in range(CALLS):
        yield outcome(run, torch.tensor([0, 3 + k % 2])), told(seen), seen._version


def captured_index_out_of_range(compiled):
    index = torch.tensor([0, 2])
    table = nn.Embedding(3, 2)
    run = compiled(lambda x: table(index) * x[:2])
    with torch.no_grad():
        table.weight.copy_(torch.arange(6.0).reshape(3, 2))
    yield from calls(run)
    index[1] = 7
    yield from calls(run)
    index[1] = 1
    yield from calls(run)


def division_of_integers_by_zero(compiled):
    seen = torch.zeros(())

    def f(x, y):
        seen.add_(1)
        z = x // y
        seen.add_(10)
        return z
    run = compiled(f)
    for k in range(2 * CALLS):
        yield outcome(run, torch.tensor([4, 5]), torch.tensor([2, 1 if k < CALLS else k % 2])), told(seen)


def matrix_that_is_not_positive(compiled):
    seen, later = torch.zeros(3), torch.zeros(3)

    def f(x):
        seen.add_(x[0])
        y = torch.linalg.cholesky(x)
        later.add_(x[0])
        seen.mul_(2)
        return y * 2
    run = compiled(f)
    for k in range(2 * CALLS):
        yield outcome(run, torch.eye(3) * (1 if k < CALLS or k % 2 else -1)), told(seen), told(later), later._version


def singular_matrix(compiled):
    seen = torch.zeros(3)

    def f(x):
        y = torch.linalg.inv(x)
        seen.add_(x[0])
        return y @ x
    run = compiled(f)
    for k in range(2 * CALLS):
        yield outcome(run, torch.eye(3) * (2 if k < CALLS or k % 2 else 0)), told(seen)


def probabilities_out_of_range(compiled):
    seen = torch.zeros(4)

    def f(x):
        y = torch.bernoulli(x)
        seen.add_(1)
        return y
    run = compiled(f)
    for k in range(2 * CALLS):
        torch.manual_seed(k)
        yield outcome(run, torch.full((4,), 0.5 if k < CALLS or k % 2 else 1.5)), told(seen)
        yield told(torch.rand(2))


def no_probabilities(compiled):
    seen = torch.zeros(4)

    def f(x):
        y = torch.multinomial(x, 2)
        seen.add_(1)
        return y
    run = compiled(f)
    for k in range(2 * CALLS):
        torch.manual_seed(k)
        yield outcome(run, torch.ones(4) * (1 if k < CALLS or k % 2 else -1)), told(seen)
        yield told(torch.rand(2))


def raises_at_the_nth_call(compiled):
    count, seen = [0], torch.zeros(())

    def f(x):
        count[0] += 1
        seen.add_(1)
        if count[0] % 5 == 0:
            raise ValueError(f"call {count[0]}")
        return x * seen
    run = compiled(f)
    for _ in range(2 * CALLS):
        yield outcome(run, vector()), told(seen)


def raises_on_values(compiled):
    def f(x):
        y = x * 2
        if not torch.isfinite(y).all():
            raise ArithmeticError(f"{float(y[0])}")
        return y
    run = compiled(f)
    for k in range(2 * CALLS):
        yield outcome(run, vector() * (math.inf if k in (5, 15, 16) else k))


def raises_for_a_shape(compiled):
    run = compiled(lambda x, y: x @ y)
    for k in range(2 * CALLS):
        yield outcome(run, torch.ones(2, 3), torch.ones(4 if k in (7, 14) else 3, 2))


def exception_caught_inside(compiled):
    w = vector()

    def f(x):
        try:
            return x @ w
        except RuntimeError as error:
            return x.sum() * len(str(error))
    run = compiled(f)
    yield from calls(run)
    yield from calls(run, torch.ones(3))
    yield from calls(run)


def exception_with_partial_writes(compiled):
    state, flag = torch.zeros(4), [False]

    def f(x):
        state.add_(x)
        if flag[0]:
            raise KeyError("late")
        state.mul_(2)
        return state + 1
    run = compiled(f)
    yield from calls(run)
    flag[0] = True
    yield from calls(run)
    yield told(state), state._version
    flag[0] = False
    yield from calls(run)
