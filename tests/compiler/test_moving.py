"""Tensors that a program replaces between calls or in them: graphs take them from their places, and put them there."""

from __future__ import annotations

import types

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket_compiler.calls.moving import ROUNDS, MovingPlaces
from tensocket_compiler.capture.layout import LAYOUT
from tensocket_compiler.capture.places import Place
from tensocket_compiler.capture.words import MISSING

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")
CALLS = 14


def box(**values):
    """An object with attributes."""
    return types.SimpleNamespace(**values)


def state_of(value):
    """All that a program can see of a value, as far as two runs have it in common."""
    if isinstance(value, torch.Tensor):
        return (value.detach().numpy().copy(), value._version, value.requires_grad, value.is_leaf,
                tuple(value.stride()), type(value).__name__, state_of(value.grad) if value.is_leaf else None)
    if isinstance(value, (list, tuple)):
        return [state_of(x) for x in value]
    return repr(value)


def assert_same(found, wanted):
    """Compare states: sums may be added up in another order."""
    if isinstance(wanted, np.ndarray):
        np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)
    elif isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_same(one, other)
    else:
        assert found == wanted


def run(program, compile):
    """Call a program's function, with what runs between calls; return the states, and the calls that graphs served.

    A program returns the function, what runs before call k, the arguments of call k, and what can be seen.
    """
    torch.manual_seed(0)
    function, between, arguments, seen = program()
    call, found, served = compile(function), [], []
    for k in range(CALLS):
        between(k)
        result = call(*arguments(k))
        found.append(state_of([result, *seen()]))
        served.append(sum(v.hits for v in call._compiled.variants) if compile is not plain else 0)
    return found, served, call


def plain(function):
    return function


def nothing(*_):
    return ()


# ------------------------------------------------------------------------------------------------ memory of parameters

def data_in_a_step():
    p, x = nn.Parameter(torch.randn(3)), torch.randn(3)

    def step():
        p.grad = None
        loss = (p * x - 1).square().sum()
        loss.backward()
        p.data = p.data - 0.1 * p.grad
        return loss.detach()
    return step, nothing, nothing, lambda: [p]


def data_between_calls():
    p = nn.Parameter(torch.randn(3))

    def change(k):
        p.data = p.data * 1.5 + k
    return (lambda x: (p * x).sum().detach()), change, lambda k: (torch.full((3,), float(k)),), lambda: [p]


def data_between_calls_with_gradients():
    p, q = nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(3))

    def change(k):
        for each in (p, q):
            if each.grad is not None:
                each.data = each.data - 0.1 * each.grad
                each.grad = None

    def step(x):
        return (p * x).tanh() * q
    def train():
        found.append(step(torch.ones(3)))
    found = []
    return step, change, lambda k: (torch.full((3,), float(k)),), lambda: [p, q]


def data_written_in_place():
    p = nn.Parameter(torch.randn(4))

    def step():
        with torch.no_grad():
            p.mul_(1.25)
            p[1:].add_(1)
        return (p * 2).detach()

    def change(k):
        p.data = p.data + k
    return step, change, nothing, lambda: [p]


def data_assigned_and_written():
    p = torch.ones(3)

    def step():
        p.data = p.data * 2
        p.add_(1)
        return p * 3
    return step, nothing, nothing, lambda: [p]


def data_of_zeros():
    p = torch.ones(3)

    def step(x):
        y = p * 2
        p.data = torch.zeros(3)
        p.add_(x)
        return y
    return step, nothing, lambda k: (torch.full((3,), float(k)),), lambda: [p]


def views_of_the_old_memory():
    p, old = torch.ones(4), []

    def step():
        p.data = p.data * 2
        return p + 1

    def keep(k):
        old.append(p.data[1:])
        old.append(p.detach())
    return step, keep, nothing, lambda: [p, list(old)]


def swapped_data():
    p, q = torch.ones(3), torch.zeros(3)

    def step():
        return p * 2 - q

    def change(k):
        p.data, q.data = q.data + k, p.data
    return step, change, nothing, lambda: [p, q]


def data_becomes_that_of_another():
    p, q = torch.ones(3), torch.zeros(3)

    def step():
        with torch.no_grad():
            p.add_(1)
        return p * 2 - q

    def change(k):
        p.data = q.data if k in (9, 10) else p.data * 2
    return step, change, nothing, lambda: [p, q]


def data_becomes_the_argument():
    p = torch.ones(3)

    def step(x):
        with torch.no_grad():
            p.mul_(2)
        return p * 2 - x

    def argument(k):
        x = torch.full((3,), float(k))
        if k in (9, 10):
            p.data = x
        return (x,)

    def change(k):
        p.data = p.data + 0.5
    return step, change, argument, lambda: [p]


def data_of_another_shape():
    p = torch.ones(3)

    def change(k):
        p.data = torch.full((3 if k < 9 else 5,), float(k))
    return (lambda: (p * 2).sum() + len(p)), change, nothing, lambda: [p]


# ------------------------------------------------------------------------------------------------ tensors in objects

def attribute_in_a_step():
    b, x = box(average=torch.zeros(3)), torch.randn(3)

    def step():
        b.average = b.average * 0.9 + x
        return b.average * 2
    return step, nothing, nothing, lambda: [b.average]


def attribute_returned():
    b, x = box(average=torch.zeros(3)), torch.randn(3)

    def step():
        b.average = b.average * 0.9 + x
        return b.average

    def check(k):
        b.same = k
    return step, check, nothing, lambda: [b.average]


def buffer_of_a_module():
    m = nn.Linear(3, 3)
    m.register_buffer("average", torch.zeros(3))

    def step(x):
        m.average = m.average * 0.5 + x.mean(0)
        return m(x) + m.average

    def change(k):
        if k == 9:
            m.average = torch.ones(3)
    return step, change, lambda k: (torch.full((2, 3), float(k)),), lambda: [m.average, *m.parameters()]


def items_of_containers():
    state, values = {"mean": torch.zeros(3), 0: torch.ones(3)}, [torch.zeros(3), torch.ones(3)]

    def step(x):
        state["mean"] = state["mean"] * 0.5 + x
        values[1] = values[0] + state[0]
        values[0] = values[0] + 1
        return state["mean"] * values[1]
    return step, nothing, lambda k: (torch.full((3,), float(k)),), lambda: [*state.values(), *values]


def cell():
    h, x = torch.zeros(3), torch.randn(3)

    def step():
        nonlocal h
        h = (h + x).tanh()
        return h * 2
    return step, nothing, nothing, lambda: [h]


def slot():
    class Slotted:
        __slots__ = ("h",)
    s, x = Slotted(), torch.randn(3)
    s.h = torch.zeros(3)

    def step():
        s.h = s.h * 0.5 + x
        return s.h + 1
    return step, nothing, nothing, lambda: [s.h]


def hidden_state_with_a_graph():
    w, b = nn.Parameter(torch.randn(3, 3)), box(h=torch.zeros(3))

    def step(x):
        b.h = (w @ b.h + x).tanh()
        return (b.h * b.h).sum()

    def change(k):
        b.h = b.h.detach()
    return step, change, lambda k: (torch.full((3,), 0.1 * k),), lambda: [b.h, w]


def gradient_between_calls():
    p = nn.Parameter(torch.ones(3))

    def step():
        with torch.no_grad():
            p.sub_(0.1 * p.grad)

    def change(k):
        p.grad = torch.full((3,), float(k))
    return step, change, nothing, lambda: [p]


def accumulated_gradients():
    m, x = nn.Linear(3, 2), torch.randn(4, 3)

    def step():
        loss = m(x).square().sum()
        loss.backward()
        return loss.detach()

    def change(k):
        if k % 3 == 0:
            m.zero_grad()
    return step, change, nothing, lambda: [*m.parameters()]


def state_decides_by_none():
    b = box(h=None)

    def step(x):
        b.h = x * 2 if b.h is None else b.h + x
        return b.h * 3

    def change(k):
        if k in (6, 10):
            b.h = None
    return step, change, lambda k: (torch.full((3,), float(k)),), lambda: [b.h]


def state_decides_by_shape():
    b = box(h=torch.ones(2))

    def step(x):
        b.h = x * 2 if b.h.shape[0] == 2 else x * 3
        return x + 1

    def change(k):
        if k > 8:
            b.h = torch.ones(5)
    return step, change, lambda k: (torch.ones(2),), lambda: [b.h]


def state_decides_by_identity():
    b = box(h=torch.ones(2), last=None)

    def step(x):
        y = x * 2 if b.h is b.last else x * 3
        b.h = b.h + x
        return y

    def change(k):
        b.last = b.h if k > 8 else torch.ones(2)
    return step, change, lambda k: (torch.ones(2),), lambda: [b.h]


def state_is_the_argument():
    b = box(h=torch.ones(2))

    def step(x):
        b.h = b.h * 2 + x
        return b.h - x

    def argument(k):
        return (b.h if k in (8, 9, 12) else torch.ones(2),)
    return step, nothing, argument, lambda: [b.h]


def state_written_in_place():
    b, kept = box(h=torch.ones(4)), []

    def step(x):
        b.h.mul_(0.5)
        b.h[1:].add_(x)
        return b.h * 2

    def change(k):
        if k != 10:
            b.h = torch.full((4,), float(k))
        kept.append(b.h)
    return step, change, lambda k: (torch.full((3,), float(k)),), lambda: [b.h, list(kept)]


def one_new_tensor_in_two_places():
    b, x = box(h=torch.ones(2), last=torch.ones(2)), torch.randn(2)

    def step():
        b.last = b.h = b.h * 0.5 + x
        return b.last

    def check(k):
        assert k < 1 or b.last is b.h
    return step, check, nothing, lambda: [b.h, b.last]


PROGRAMS = [data_in_a_step, data_between_calls, data_between_calls_with_gradients, data_written_in_place,
            data_assigned_and_written, data_of_zeros, views_of_the_old_memory, swapped_data,
            data_becomes_that_of_another, data_becomes_the_argument, data_of_another_shape, attribute_in_a_step,
            attribute_returned, buffer_of_a_module, items_of_containers, cell, slot, hidden_state_with_a_graph,
            gradient_between_calls, accumulated_gradients, state_decides_by_none, state_decides_by_shape,
            state_decides_by_identity, state_is_the_argument, state_written_in_place, one_new_tensor_in_two_places]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_calls_are_equal(program):
    wanted, _, _ = run(program, plain)
    found, served, call = run(program, torch.compile)
    for k, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert_same([k, *one], [k, *other])
    assert served[-1] >= 3, call._compiled.reasons
    assert all("share" in reason for reason in call._compiled.reasons)



def test_memory_that_must_not_be_written():
    b = box(h=torch.ones(2))

    def step():
        b.h.add_(1)
        return b.h * 2
    call = torch.compile(step)
    for k in range(CALLS):
        b.h = torch.full((2,), float(k))
        assert call().tolist() == [2.0 * (k + 1)] * 2
    assert hits(call)
    memory = np.ones(2, np.float32)
    memory.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        b.h = torch.from_numpy(memory)
    with pytest.raises(RuntimeError, match="read-only memory"):
        call()
    assert memory.tolist() == [1.0, 1.0]


def hits(call):
    return sum(v.hits for v in call._compiled.variants)


def test_gradients_of_arguments_are_assigned():
    def step(x):
        x.grad = x.detach() * 2
    call = torch.compile(step)
    for k in range(CALLS):
        x = torch.full((2,), float(k), requires_grad=True)
        x.grad = torch.zeros(2)
        call(x)
        assert x.grad.tolist() == [2.0 * k] * 2
    assert call._compiled.reasons == ["it assigns the gradient of an argument"]


def test_the_same_argument_twice():
    call = torch.compile(lambda x, y: (x * 2 + y, x))
    for k in range(CALLS):
        x = torch.full((2,), float(k))
        found, same = call(x, x)
        assert found.tolist() == [3.0 * k] * 2
        assert same is x
    assert hits(call)
    found, same = call(x, torch.zeros(2))
    assert found.tolist() == [2.0 * k] * 2
    assert same is x


def test_gradients_of_gradients_after_a_replacement_say_what_to_do():
    b = box(w=torch.ones(2))
    call = torch.compile(lambda x: (x * b.w).tanh())
    for k in range(CALLS):
        b.w = torch.full((2,), k / CALLS)
        x = torch.ones(2, requires_grad=True)
        y = call(x).sum()
        first, = torch.autograd.grad(y, x, create_graph=True)
        second, = torch.autograd.grad(first.sum(), x)
        w, value = k / CALLS, np.tanh(k / CALLS)
        np.testing.assert_allclose(second.numpy(), -2 * w * w * value * (1 - value ** 2), 1e-4, 1e-6)
    assert hits(call)
    y = call(x).sum()
    b.w = torch.zeros(2)
    with pytest.raises(torch.errors.AutogradError, match="a change of what it read"):
        torch.autograd.grad(y, x, create_graph=True)


def test_a_tensor_replaced_once_is_captured_as_before():
    p = torch.ones(3)
    call = torch.compile(lambda: p * 2)
    for k in range(CALLS):
        if k == 6:
            p.data = torch.zeros(3)
        assert call().tolist() == [0.0 if k >= 6 else 2.0] * 3
    assert len(call._compiled.variants) == 2
    assert not any(variant.guards.moving for variant in call._compiled.variants)


def test_reports_name_moving_tensors():
    b = box(h=torch.ones(2))

    def step():
        b.h = b.h + 1
    call = torch.compile(step)
    for _ in range(CALLS):
        call()
    variant, = call._compiled.variants
    assert variant.guards.moving[0].path == "b.h"
    b.h = torch.ones(5)
    assert str(torch.compiler.compiled(call).why()) == "b.h.shape was (2,), is (5,)"


def test_places_that_no_call_can_assign_to():
    with pytest.raises(ValueError, match=r"it assigns x\.shape"):
        Place(torch.ones(2), ".shape", "x.shape")
    with pytest.raises(ValueError, match="it assigns t"):
        Place({(): 1}, "[tuple at 0x1]", "t", ((), 1))


@pytest.mark.parametrize(("owner", "label", "fact"), [
    (types.SimpleNamespace(k=1).__dict__, ".k", 1), ({"k": 1}, "['k']", ("k", 1)), ([0, 1], "[1]", 1),
    (types.CellType(1), "", 1), (torch.ones(1), ".grad", None)])
def test_places_come_back(owner, label, fact):
    place = Place(owner, label, "x", fact)
    before, x = place.read(), torch.ones(1)
    restore = place.save()
    place.assign(x)
    assert place.read() is x
    restore()
    assert place.read() is before


def test_a_place_without_a_value():
    place = Place({}, ".k", "x.k")
    restore = place.save()
    assert place.read() is MISSING
    place.assign(1)
    restore()
    assert place.read() is MISSING


def test_tables_of_places_end():
    places = MovingPlaces(has_options=True)
    for k in range(ROUNDS):
        assert places.add([Place({}, f".k{k}", "x")])
    assert not places.add([Place({}, ".k", "x")])


@pytest.mark.parametrize("backend", ["tensocket", "eager"])
def test_items_that_a_call_adds(backend):
    history, cache = [], {}

    def step(x):
        history.append(x * 2)
        cache[len(history)] = history[-1] + 1
        return x + 1
    call = torch.compile(step, backend=backend)
    for k in range(CALLS):
        assert call(torch.full((2,), float(k))).tolist() == [k + 1.0] * 2
    assert [x.tolist() for x in history] == [[2.0 * k] * 2 for k in range(CALLS)]
    assert list(cache) == list(range(1, CALLS + 1))
    assert not hits(call)
