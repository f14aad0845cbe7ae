"""Scripts over what calls give back and leave behind: fresh objects, identities, aliases, changes in place, errors."""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import functools
import os
import threading
import types
import weakref
from pathlib import Path
from unittest.mock import patch

import numpy as np

import tensocket as torch

from .scripts import CALLS, calls, outcome, told, vector


def results_are_fresh_objects(compiled):
    @dataclasses.dataclass
    class Pair:
        first: object
        items: list
    makers = (lambda x: [x * 2, [1]], lambda x: {"a": x * 2, "b": [1]}, lambda x: Pair(x * 2, [1]),
              lambda x: (x * 2, [1, {"a": 2}]), lambda x: types.SimpleNamespace(y=x * 2, items=[1]))
    for make in makers:
        run = compiled(make)
        held = []
        for _ in range(CALLS):
            found = run(vector())
            yield any(found is each for each in held)
            held.append(found)
            inner = (found[1] if isinstance(found, (list, tuple)) else found["b"] if isinstance(found, dict)
                     else found.items)
            yield told(inner)
            inner.append(5)
            if isinstance(found, list):
                found.append(7)


def results_of_other_kinds(compiled):
    makers = (lambda x: bytearray(b"ab"), lambda x: {1, 2}, lambda x: np.ones(2), lambda x: iter([x * 2]),
              lambda x: functools.partial(torch.mul, x * 2), lambda x: (lambda y: y + x * 2), lambda x: object(),
              lambda x: (k for k in (x, x * 2)), lambda x: slice(x.shape[0], [1]), lambda x: map(torch.sin, [x]),
              lambda x: memoryview(bytearray(b"ab")), lambda x: type("Made", (), {"k": x * 2}))
    for make in makers:
        run = compiled(make)
        held = []
        for _ in range(CALLS):
            found = run(vector())
            yield any(found is each for each in held), type(found).__name__
            held.append(found)
            if isinstance(found, (bytearray, set, np.ndarray)):
                yield told(found) if isinstance(found, np.ndarray) else repr(found)
                found.clear() if hasattr(found, "clear") else found.fill(7)
            elif hasattr(found, "__next__"):
                yield told([*found])
            elif callable(found) and not isinstance(found, type):
                yield outcome(found, torch.ones(4))
            elif isinstance(found, type):
                yield told(found.k)


def results_that_are_state(compiled):
    box, w = [1, 2], vector()
    table = {"a": w}
    run = compiled(lambda x: (x * 2, box, table, w, w[1:]))
    for k in range(2 * CALLS):
        _, found, other, same, view = run(vector())
        yield found is box, other is table, same is w, view._base is w, told([found, other, view])
        if k == CALLS:
            found.append(3)
            other["b"] = 5
            view.zero_()


def one_result_several_times(compiled):
    def f(x):
        y = x * 2
        items = [y, y[1:], y]
        return items, items, (y, items)
    run = compiled(f)
    for _ in range(2 * CALLS):
        first, second, (y, third) = run(vector())
        yield first is second, second is third, first[0] is y, first[2] is y, first[1]._base is y
        first.append(1)
        y.add_(1)
        yield told([second, third])


def argument_in_a_result(compiled):
    run = compiled(lambda x, items: (items, x, [x, items], x.view(2, 2), x.detach()))
    for _ in range(2 * CALLS):
        x, items = vector(), [torch.ones(2), 3]
        found = run(x, items)
        yield found[0] is items, found[1] is x, found[2][0] is x, found[2][1] is items, found[3]._base is x
        found[4].zero_()
        yield told(found)


def list_that_holds_itself(compiled):
    run = compiled(lambda given: given[0] * 2)
    for _ in range(CALLS):
        given = [vector()]
        given.append(given)
        yield outcome(run, given)


def arguments_of_odd_kinds(compiled):
    class Own(dict):
        pass

    class Count(int):
        def __mul__(self, other):
            return 7

        __rmul__ = __mul__
    run = compiled(lambda x, given: x * 2 + len(repr(type(given))))
    for make in (lambda: {1, 2}, lambda: frozenset([1]), lambda: bytearray(b"a"), lambda: iter([1]), lambda: range(3),
                 lambda: slice(1, 2), lambda: np.float32(2), lambda: torch.float32, lambda: torch.device("cpu"),
                 lambda: Own(a=1), lambda: Count(2), lambda: (k for k in [1]), lambda: Path("a"), lambda: None,
                 lambda: torch.Size([2]), lambda: ..., lambda: 2j, lambda: b"a", lambda: int, lambda: len):
        for _ in range(4):
            yield outcome(run, vector(), make())
    run = compiled(lambda x, k: x * (3 * k))
    for k in (2, Count(2), True, Count(3), 3):
        for _ in range(4):
            yield outcome(run, vector(), k)


def written_arguments_of_odd_kinds(compiled):
    def f(x, given):
        given["n"] = given.get("n", 0) + 1
        return x * given["n"]
    run, given = compiled(f), {}
    for _ in range(CALLS):
        yield outcome(run, vector(), given), told(given)
    run = compiled(lambda x, given: x * next(given))
    numbers = iter(range(100))
    yield from calls(run, vector(), numbers)
    run = compiled(lambda x, given: x * given[0])
    for given in (bytearray(b"\x02"), np.array([2.0]), np.array([(2.0, 1)], [("a", "f8"), ("b", "i4")])[0]):
        yield from calls(run, vector(), given)
        given[0] = 3
        yield from calls(run, vector(), given)


def range_as_an_argument(compiled):
    run = compiled(lambda x, span: x * span.stop)
    for span in (range(0, 3, 2), range(0, 4, 2), range(0), range(5, 5), range(0, 3, 2)):
        yield from calls(run, vector(), span)


def views_written_in_a_chain(compiled):
    def f(x):
        y = x.view(2, 2)
        y[0].add_(1)
        z = y.t()
        z.mul_(2)
        z[1, 0] = 7
        x[::2].sub_(y[:, 1])
        return y.sum(), z, x._version
    run = compiled(f)
    for k in range(2 * CALLS):
        x = vector() if k < CALLS else torch.arange(8.0)[4:]
        yield outcome(run, x), told(x), x._version


def base_and_view_as_arguments(compiled):
    def f(x, y):
        y.mul_(3)
        x.add_(y.sum())
        return x * y[0]
    run = compiled(f)
    for k in range(3 * CALLS):
        x = vector()
        y = (x[1:3], torch.ones(2), x[:2].detach())[k // CALLS]
        yield outcome(run, x, y), told(x), told(y), x._version, y._version


def in_place_on_expanded_memory(compiled):
    def f(x):
        return x.add_(1).sum()
    run = compiled(f)
    yield from calls(run)
    for _ in range(CALLS):
        x = torch.ones(1).expand(4)
        yield outcome(run, x), told(x)
    base = torch.arange(6.0)
    for _ in range(CALLS):
        x = base.as_strided((4,), (1,), 1)
        yield outcome(run, x), told(base)


def in_place_on_leaves(compiled):
    def f(x, w):
        x.mul_(w)
        return x.sum()
    run = compiled(f)
    for k in range(3 * CALLS):
        x = vector().requires_grad_(k // CALLS == 1)
        w = torch.ones(4).requires_grad_(k // CALLS == 2)
        yield outcome(run, x, w), told(x)


def form_of_an_argument_changed(compiled):
    def f(x):
        x.unsqueeze_(0)
        x.t_()
        return x * 2
    run = compiled(f)
    for k in range(2 * CALLS):
        x = vector() if k < CALLS else torch.ones(3)
        yield outcome(run, x), x.shape, x.stride()


def captured_tensor_takes_other_forms(compiled):
    w = torch.arange(4.0).reshape(2, 2)
    run = compiled(lambda x: (w * 2).sum(0).repeat(2) * x if w.dim() == 2 else w.sum() * x)
    changes = (lambda: w.t_(), lambda: w.unsqueeze_(0), lambda: w.squeeze_(), lambda: w.resize_(2, 3).fill_(2),
               lambda: w.set_(torch.ones(2, 2)), lambda: setattr(w, "data", torch.ones(2, 2).double()),
               lambda: w.as_strided_((2, 2), (0, 1)), lambda: setattr(w, "data", torch.ones(4)))
    yield from calls(run)
    for change in changes:
        outcome(change)
        for _ in range(5):
            yield outcome(run, vector())


def captured_tensor_moves_between_forms(compiled):
    w = torch.ones(2, 2)
    run = compiled(lambda x: w.sum(0).repeat(2) * x if w.dim() == 2 else w.sum() * x)
    forms = (torch.ones(2, 2), torch.arange(4.0), torch.ones(2, 3), torch.ones(2, 2).t(), torch.ones(1, 2, 2),
             torch.arange(4.0).double(), torch.ones(4).expand(2, 4))
    for k in range(4 * len(forms)):
        w.data = forms[k % len(forms)].clone() if k % 3 else forms[k % len(forms)]
        for _ in range(2):
            yield outcome(run, vector())


def captured_tensor_is_replaced_before_a_call_replaces_it(compiled):
    class State:
        kept = torch.ones(4)
    state = State()

    def f(x):
        y = state.kept * x
        if x.dim() == 1:
            return y
        state.kept = y.sum(0)
        return y
    run = compiled(f)
    for k in range(3 * CALLS):
        if k % 3 == 0:
            state.kept = torch.full((4,), float(k))
        yield outcome(run, vector() if k < CALLS else torch.ones(2, 4)), told(state.kept)


def captured_tensors_become_one(compiled):
    a, b = vector(), vector()

    def f(x):
        a.add_(1)
        return x * b
    run = compiled(f)
    yield from calls(run)
    b.set_(a)
    yield from calls(run)
    yield told([a, b])
    b.data = vector()
    yield from calls(run)
    a = b
    yield from calls(run)
    yield told([a, b])


def captured_tensor_written_behind_its_version(compiled):
    w = vector()
    run = compiled(lambda x: x * w)
    yield from calls(run)
    w.data.fill_(2)
    yield from calls(run)
    w.detach().numpy()[:] = 3
    yield from calls(run)
    w.untyped_storage().copy_(torch.ones(4).untyped_storage())
    yield from calls(run)


def gradients_set_by_hand(compiled):
    w = vector().requires_grad_()

    def f(x):
        (x * w).sum().backward()
        return w.grad.clone()
    run = compiled(f)
    yield from calls(run)
    w.grad = torch.ones(4)
    yield from calls(run)
    w.grad = None
    yield from calls(run)
    w.grad = w.detach()
    yield from calls(run)
    yield told(w)
    w.grad = torch.ones(2, 4)[0]
    yield from calls(run)


def errors_by_state(compiled):
    class Own(Exception):
        pass
    kinds = [Own]

    def f(x):
        if kinds:
            raise kinds[0]("text", len(kinds))
        return x * 2
    run = compiled(f)
    yield from calls(run)
    kinds[0] = ValueError
    yield from calls(run)
    kinds.clear()
    yield from calls(run)
    kinds.append(KeyError)
    yield from calls(run)


def error_at_the_seventh_call(compiled):
    w, count = torch.zeros(1), [0]

    def f(x):
        w.add_(1)
        count[0] += 1
        try:
            if count[0] % 7 == 0:
                raise RuntimeError(f"call {count[0]}")
            return x * w
        finally:
            w.add_(1)
    run = compiled(f)
    for _ in range(2 * CALLS):
        yield outcome(run, vector()), told(w), count[0]


def notes_and_causes_of_errors(compiled):
    box = ["first"]

    def f(x):
        try:
            x.reshape(3)
        except RuntimeError as error:
            raise ValueError(box[0]) from error
    run = compiled(f)
    for k in range(2 * CALLS):
        box[0] = "first" if k < CALLS else "second"
        try:
            run(vector())
        except ValueError as error:
            yield str(error), type(error.__cause__).__name__, error.__context__ is error.__cause__


def caught_errors_decide(compiled):
    table = {"a": 2.0}

    def f(x):
        try:
            return x * table["a"]
        except KeyError as error:
            return x * len(str(error))
        except TypeError:
            return x - 1
        else:
            return x
    run = compiled(f)
    yield from calls(run)
    del table["a"]
    yield from calls(run)
    table["a"] = {}
    yield from calls(run)


def names_of_python_replaced(compiled):
    def f(x):
        import math
        return x * len([1, 2]) + math.floor(2.5) + sum([1, 2]) + (1 if isinstance(x, torch.Tensor) else 2)
    run = compiled(f)
    yield from calls(run)
    with patch.object(builtins, "len", lambda x: 7):
        yield [outcome(f, vector())]
        yield from calls(run)
    with patch.object(builtins, "isinstance", lambda *given: False):
        yield from calls(run)
    real = builtins.__import__

    def replaced(name, *rest):
        return types.SimpleNamespace(floor=lambda k: 50) if name == "math" else real(name, *rest)
    with patch.object(builtins, "__import__", replaced):
        yield from calls(run)
    yield from calls(run)


def builtins_of_the_globals_replaced(compiled):
    space = {"__builtins__": dict(vars(builtins))}
    exec("def f(x): return x * len([1, 2])", space)
    run = compiled(space["f"])
    yield from calls(run)
    space["__builtins__"]["len"] = lambda x: 5
    yield from calls(run)
    space["__builtins__"] = dict(vars(builtins))
    yield from calls(run)


def environment_read_in_many_ways(compiled):
    name = "TENSOCKET_SCRIPT"
    ways = (lambda x: x * (2 if name in os.environ else 3), lambda x: x * len(os.environ.get(name, "")),
            lambda x: x * len(os.path.expandvars(f"${name}")), lambda x: x * len(dict(os.environ).get(name, "")),
            lambda x: x * len(os.environ.copy().get(name, "")), lambda x: x * len(os.environb.get(name.encode(), b"")))
    for way in ways:
        os.environ.pop(name, None)
        run = compiled(way)
        yield from calls(run)
        os.environ[name] = "abcd"
        yield from calls(run)
        os.environ[name] = "ab"
        yield from calls(run)
    del os.environ[name]


def folder_of_the_process(compiled):
    run = compiled(lambda x: x * len(str(Path.cwd())) + len(os.path.abspath("a")))
    before = Path.cwd()
    yield from calls(run)
    try:
        os.chdir("/")
        yield from calls(run)
    finally:
        os.chdir(before)


def weak_containers(compiled):
    class Local:
        pass
    things = [Local(), Local()]
    alive = weakref.WeakSet(things)
    method = weakref.WeakMethod(torch.nn.Identity().forward)
    run = compiled(lambda x: x * len(alive) + (1 if method() is None else 2))
    yield from calls(run)
    things.pop()
    yield from calls(run)
    values = weakref.WeakValueDictionary(a=things[0])
    run = compiled(lambda x: x * (2 if "a" in values else 3))
    yield from calls(run)
    things.clear()
    yield from calls(run)


def state_of_generators(compiled):
    def count():
        k = 0
        while True:
            k = (yield k) or k + 1
    made = count()
    next(made)
    run = compiled(lambda x: x * made.gi_frame.f_locals["k"])
    yield from calls(run)
    made.send(5)
    yield from calls(run)
    run = compiled(lambda x: x * (2 if made.gi_frame is None else 3))
    yield from calls(run)
    made.close()
    yield from calls(run)


def cells_rebound_by_other_functions(compiled):
    def make():
        k, g = 2.0, lambda x: x + 1

        def f(x):
            return g(x) * k

        def change(value, function):
            nonlocal k, g
            k, g = value, function
        return f, change
    f, change = make()
    run = compiled(f)
    yield from calls(run)
    change(3.0, lambda x: x + 1)
    yield from calls(run)
    change(3.0, lambda x: x - 1)
    yield from calls(run)
    other, _ = make()
    f.__code__ = other.__code__
    yield from calls(run)


def threads_take_turns(compiled):
    box, w = [2.0], vector()
    run = compiled(lambda x: x * box[0] + w)
    turn = threading.Barrier(2)
    found = []

    def work():
        for k in range(CALLS):
            turn.wait()
            box[0] = float(k)
            w.add_(1)
            found.append(outcome(run, vector()))
            turn.wait()
    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(CALLS):
        turn.wait()
        turn.wait()
        yield outcome(run, vector())
    thread.join()
    yield found


def modes_of_other_threads(compiled):
    run = compiled(lambda x: (x @ w, (x * v).requires_grad, torch.ones(1).dtype))
    w, v = torch.ones(4, 4), vector().requires_grad_()
    yield from calls(run)
    found = []

    def work():
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            found.extend(calls(run))
        found.extend(calls(run))
        torch.set_grad_enabled(False)
    thread = threading.Thread(target=work)
    with torch.inference_mode():
        thread.start()
        thread.join()
        yield from calls(run)
    yield found
    yield from calls(run)


def default_dtype_in_all_places(compiled):
    run = compiled(lambda x: (torch.tensor(1.5) * x, torch.arange(2, 4) / 2, torch.full((2,), 1.0), x.new_ones(2) * 2.5,
                              torch.get_default_dtype(), torch.from_numpy(np.ones(2)) * 1.0, torch.zeros(2, 2).sum()))
    yield from calls(run)
    try:
        for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.float32):
            torch.set_default_dtype(dtype)
            yield from calls(run)
    finally:
        torch.set_default_dtype(torch.float32)


def autocast_in_and_around(compiled):
    layer = torch.nn.Linear(4, 4)
    torch.nn.init.ones_(layer.weight)

    def f(x):
        y = layer(x)
        with torch.autocast("cpu", enabled=box[0], dtype=box[1]):
            z = layer(x)
        return y.dtype, z.dtype, z.float()
    box = [True, torch.bfloat16]
    run = compiled(f)
    yield from calls(run)
    box[1] = torch.float16
    yield from calls(run)
    box[0] = False
    yield from calls(run)
    with torch.autocast("cpu", torch.bfloat16):
        yield from calls(run)
        with torch.autocast("cpu", enabled=False):
            yield from calls(run)
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False), contextlib.suppress(Exception):
        layer.weight.data.mul_(2)
        yield from calls(run)


def modes_of_gradients_inside(compiled):
    w, box = vector().requires_grad_(), [torch.no_grad]

    def f(x):
        with box[0]():
            y = x * w
        return y, y.requires_grad, (x * w).is_inference()
    run = compiled(f)
    yield from calls(run)
    for box[0] in (torch.enable_grad, torch.inference_mode, lambda: torch.set_grad_enabled(False)):
        yield from calls(run)
        with torch.no_grad():
            yield from calls(run)
