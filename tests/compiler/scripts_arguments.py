"""Scripts over arguments: containers, numbers, layouts, modes of tensors, and gradients through calls."""

from __future__ import annotations

import math
import typing
from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import numpy as np

import tensocket as torch
from tensocket import nn

from .scripts import CALLS, calls, outcome, told, vector


def number_changes_type(compiled):
    run = compiled(lambda x, k: x * k)
    for k in (2, 2.0, True, np.float64(2), np.float32(2), np.int64(2), 2 + 0j):
        yield from calls(run, vector().int(), k)


def negative_zero_as_argument(compiled):
    run = compiled(lambda x, k: (x - x) * k)
    for k in (0.0, -0.0, math.nan):
        yield from calls(run, vector(), k)


def text_argument(compiled):
    run = compiled(lambda x, mode: getattr(torch, mode)(x))
    for mode in ("sin", "cos", "".join(["s", "in"])):
        yield from calls(run, vector(), mode)


def list_argument_grows(compiled):
    given = [vector()]
    run = compiled(lambda values: sum(values) * len(values))
    yield from calls(run, given)
    given.append(vector())
    yield from calls(run, given)
    given[0] = torch.ones(4)
    yield from calls(run, given)


def list_argument_written(compiled):
    def f(values, x):
        values.append(x * 2)
        return sum(values)
    run = compiled(f)
    given = []
    for _ in range(2 * CALLS):
        yield outcome(run, given, vector()), len(given)


def dict_argument_in_another_order(compiled):
    def f(given):
        first, *_ = given
        return given[first] * 2 + given["b"]
    run = compiled(f)
    yield from calls(run, {"a": vector(), "b": vector() + 1})
    yield from calls(run, {"b": vector() + 1, "a": vector()})
    yield from calls(run, OrderedDict(b=vector() + 1, a=vector()))


def named_tuple_argument(compiled):
    Pair = namedtuple("Pair", "a b")
    run = compiled(lambda pair: pair.a * 2 - pair[1])
    yield from calls(run, Pair(vector(), vector() + 1))
    Pair.a, Pair.b = Pair.b, Pair.a
    yield from calls(run, Pair(vector(), vector() + 1))


def named_tuple_with_a_method(compiled):
    class Pair(typing.NamedTuple):
        a: torch.Tensor
        k: float = 2.0

        def scaled(self):
            return self.a * self.k
    run = compiled(lambda pair: pair.scaled())
    yield from calls(run, Pair(vector()))
    Pair.scaled = lambda self: self.a - self.k
    yield from calls(run, Pair(vector()))
    Pair.__new__.__defaults__ = (5.0,)
    yield from calls(run, Pair(vector()))


def data_class_argument(compiled):
    @dataclass
    class Batch:
        x: torch.Tensor
        scale: float = 2.0
    run = compiled(lambda batch: batch.x * batch.scale)
    batch = Batch(vector())
    yield from calls(run, batch)
    batch.scale = 3.0
    yield from calls(run, batch)
    batch.x = torch.ones(4)
    yield from calls(run, batch)
    for k in range(CALLS):
        yield outcome(run, Batch(vector(), float(k)))


def object_argument_of_another_instance(compiled):
    class Local:
        def __init__(self, k):
            self.k = k
    run = compiled(lambda x, thing: x * thing.k)
    things = [Local(2.0), Local(3.0)]
    for k in range(2 * CALLS):
        yield outcome(run, vector(), things[k % 2])
    things[0].k = 7.0
    for k in range(CALLS):
        yield outcome(run, vector(), things[k % 2])


def callable_argument(compiled):
    run = compiled(lambda x, g: g(x) * 2)
    k = 2.0

    def scaled(x):
        return x * k
    yield from calls(run, vector(), torch.sin)
    yield from calls(run, vector(), scaled)
    k = 3.0
    yield from calls(run, vector(), scaled)
    for k in range(CALLS):
        yield outcome(run, vector(), lambda x, k=k: x + k)


def array_argument(compiled):
    run = compiled(lambda x, array: x * torch.from_numpy(array) + float(array[0]))
    array = np.ones(4, np.float32)
    yield from calls(run, vector(), array)
    array[:] = 5
    yield from calls(run, vector(), array)


def arrays_inside_of_arguments(compiled):
    run = compiled(lambda x, given: x * float(given["a"][0][0]))
    array = np.ones(4)
    yield from calls(run, vector(), {"a": [array]})
    array[0] = 5
    yield from calls(run, vector(), {"a": [array]})


def tensor_over_an_array_that_changes(compiled):
    array = np.ones(4, np.float32)
    w = torch.from_numpy(array)
    run = compiled(lambda x: x * w)
    yield from calls(run)
    array[:] = 3
    yield from calls(run)
    array += 1
    yield from calls(run)


def parameter_as_argument(compiled):
    run = compiled(lambda w, x: (w * x).sum())
    w = nn.Parameter(vector())
    for k in range(2 * CALLS):
        loss = run(w, vector())
        loss.backward()
        yield told(loss), told(w.grad)
        if k == CALLS:
            w = nn.Parameter(vector() * 2)


def argument_changes_requires_grad(compiled):
    run = compiled(lambda x: x * 2 if x.requires_grad else x * 3)
    for k in range(2 * CALLS):
        yield outcome(run, vector().requires_grad_(k >= CALLS))


def argument_is_no_leaf(compiled):
    run = compiled(lambda x: x.detach() * 2 if x.is_leaf else x.detach() * 3)
    for k in range(2 * CALLS):
        x = vector().requires_grad_()
        yield outcome(run, x if k < CALLS else x * 1)


def argument_in_inference_mode(compiled):
    run = compiled(lambda x: x * 2 if x.is_inference() else x * 3)
    for k in range(2 * CALLS):
        with torch.inference_mode(k >= CALLS):
            x = vector() * 1
        yield outcome(run, x)


def argument_with_an_attribute(compiled):
    run = compiled(lambda x: x * getattr(x, "scale", 2.0))
    for k in range(2 * CALLS):
        x = vector()
        if k >= CALLS:
            x.scale = 5.0
        yield outcome(run, x)


def argument_of_a_subclass(compiled):
    class Own(torch.Tensor):
        scale = 2.0
    run = compiled(lambda x: x.as_subclass(torch.Tensor) * getattr(type(x), "scale", 1.0))
    yield from calls(run)
    yield from calls(run, vector().as_subclass(Own))
    Own.scale = 7.0
    yield from calls(run, vector().as_subclass(Own))


def lazily_negated_argument(compiled):
    run = compiled(lambda x: x * 2 + x.sum())
    z = torch.tensor([1 + 2j, 3 - 1j])
    yield from calls(run, z.clone())
    yield from calls(run, z.conj())
    yield from calls(run, z.conj().imag)


def layouts_by_turns(compiled):
    run = compiled(lambda x: x.cumsum(0) if x.is_contiguous() else x * 2)
    base = torch.arange(16.0).reshape(4, 4)
    for k in range(2 * CALLS):
        yield outcome(run, (base, base.t(), base[::2], base[:, 1:3])[k % 4 if k >= CALLS else 0])


def expanded_argument(compiled):
    run = compiled(lambda x: x * 2 + x.sum(0))
    yield from calls(run, torch.ones(3, 4))
    yield from calls(run, torch.ones(1, 4).expand(3, 4))
    yield from calls(run, torch.ones(1).expand(3, 4))


def empty_and_zero_dimensional_arguments(compiled):
    run = compiled(lambda x: (x * 2).sum(-1) if x.dim() else x * 3)
    for shape in ((4,), (), (0,), (2, 0), (0, 2), (1,), (4,)):
        yield from calls(run, torch.ones(shape))


def defaults_and_names_of_arguments(compiled):
    def f(x, k=2.0, *rest, scale=1.0, **more):
        return x * k * scale + len(rest) + len(more)
    run = compiled(f)
    yield from calls(run)
    yield from calls(run, vector(), k=3.0)
    yield from calls(run, vector(), 3.0, 4, 5)
    yield from calls(run, x=vector(), scale=4.0, other=1)
    f.__kwdefaults__ = {"scale": 9.0}
    yield from calls(run)


def gradient_mode_by_turns(compiled):
    w = vector().requires_grad_()
    run = compiled(lambda x: x * w)
    for k in range(2 * CALLS):
        with torch.set_grad_enabled(k % 3 != 2 if k >= CALLS else True):
            yield outcome(run, vector())


def backward_later_and_twice(compiled):
    w = vector().requires_grad_()
    run = compiled(lambda x: (x * w).tanh())
    held = []
    for _ in range(CALLS):
        held.append(run(vector()))
    for y in held:
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        yield told(w.grad)
        yield outcome(y.sum().backward)[0]


def backward_after_a_change(compiled):
    w = vector().requires_grad_()
    run = compiled(lambda x: (x * w).exp())
    for k in range(2 * CALLS):
        y = run(vector())
        if k >= CALLS:
            with torch.no_grad():
                w.mul_(1.5)
        yield outcome(y.sum().backward), told(w.grad)
        w.grad = None


def second_derivatives(compiled):
    run = compiled(lambda x: (x ** 3).sum())
    for _ in range(2 * CALLS):
        x = vector().requires_grad_()
        first, = torch.autograd.grad(run(x), x, create_graph=True)
        second, = torch.autograd.grad(first.sum(), x)
        yield told(first), told(second)


def hook_on_the_result(compiled):
    w = vector().requires_grad_()
    run = compiled(lambda x: x * w)
    seen = []
    for k in range(2 * CALLS):
        y = run(vector())
        if k >= CALLS:
            y.register_hook(lambda g: seen.append(told(g)) or g * 2)
        y.sum().backward()
        yield told(w.grad), list(seen)
        w.grad = None


def numbers_of_identities(compiled):
    known, other = vector(), vector()
    for number in (id, hash):
        numbers = {number(known)}
        run = compiled(lambda x, number=number, numbers=numbers: x * 2 if number(x) in numbers else x * 3)
        for _ in range(CALLS):
            yield outcome(run, other)
            yield outcome(run, known)
        passed = compiled(lambda x, number=number, numbers=numbers: x * (2 if next(map(number, [x])) in numbers else 3))
        for _ in range(CALLS):
            yield outcome(passed, other)
        yield outcome(passed, known)
