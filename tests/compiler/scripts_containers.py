"""Scripts over caches, iterators, containers and arrays that change between calls, or by calls."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import types
import warnings

import numpy as np

import tensocket as torch

from .scripts import CALLS, calls, outcome, told, vector


def cached_function_of_state(compiled):
    k = [2.0]

    @functools.cache
    def scale():
        return k[0]
    run = compiled(lambda x: x * scale())
    yield from calls(run)
    k[0] = 3.0
    yield from calls(run)
    scale.cache_clear()
    yield from calls(run)


def cached_function_with_many_keys(compiled):
    table = {"key": 0}

    @functools.lru_cache(maxsize=2)
    def scale(key):
        table["count"] = table.get("count", 0) + 1
        return key + table["count"]
    run = compiled(lambda x: x * scale(table["key"]))
    for k in range(2 * CALLS):
        table["key"] = k % 3 if k >= CALLS else 0
        yield outcome(run, vector())


def cached_tensor(compiled):
    @functools.cache
    def positions(n):
        return torch.arange(n) * 1.0
    run = compiled(lambda x: x + positions(x.shape[0]))
    yield from calls(run)
    positions(4).mul_(5)
    yield from calls(run)
    positions.cache_clear()
    yield from calls(run)


def cached_property_dropped(compiled):
    class Local:
        k = 2.0

        @functools.cached_property
        def scale(self):
            return self.k * 2
    thing = Local()
    run = compiled(lambda x: x * thing.scale)
    yield from calls(run)
    thing.k = 3.0
    yield from calls(run)
    del thing.scale
    yield from calls(run)


def partial_with_changing_keywords(compiled):
    g = functools.partial(lambda x, k: x * k, k=2.0)
    run = compiled(lambda x: g(x))
    yield from calls(run)
    g.keywords["k"] = 3.0
    yield from calls(run)


def partial_over_a_list(compiled):
    values = [2.0]
    g = functools.partial(lambda values, x: x * values[0], values)
    run = compiled(g)
    yield from calls(run)
    values[0] = 3.0
    yield from calls(run)


def wrapped_function_exchanged(compiled):
    def inner(x):
        return x * 2

    @functools.wraps(inner)
    def outer(x):
        return outer.__wrapped__(x) + 1
    run = compiled(outer)
    yield from calls(run)
    outer.__wrapped__ = lambda x: x * 3
    yield from calls(run)


def iterator_consumed_by_calls(compiled):
    values = iter([float(k) for k in range(1, 9)])
    run = compiled(lambda x: x * next(values, 100.0))
    yield from calls(run)
    values = iter([50.0])
    yield from calls(run)


def count_in_an_attribute(compiled):
    class Local:
        ids = itertools.count(1)
    run = compiled(lambda x: x * next(Local.ids))
    yield from calls(run)
    Local.ids = itertools.count(100)
    yield from calls(run)


def cycle_in_a_list(compiled):
    box = [itertools.cycle([2.0, 3.0, 5.0])]
    run = compiled(lambda x: x * next(box[0]))
    yield from calls(run)
    box[0] = itertools.repeat(7.0)
    yield from calls(run)


def generator_that_receives(compiled):
    def running():
        total = 0.0
        while True:
            total += yield total
    state = running()
    next(state)
    run = compiled(lambda x: x * state.send(1.0))
    yield from calls(run)
    state = running()
    next(state)
    yield from calls(run)


def generator_made_in_each_call(compiled):
    values = [1.0, 2.0]

    def pieces(x):
        for k in values:
            yield x * k
    run = compiled(lambda x: sum(pieces(x)))
    yield from calls(run)
    values.append(3.0)
    yield from calls(run)


def generator_delegating(compiled):
    values = {"a": [1.0, 2.0]}

    def inner():
        yield from values["a"]

    def outer():
        result = yield from inner()
        return result
    run = compiled(lambda x: x * sum(outer()))
    yield from calls(run)
    values["a"] = (5.0,)
    yield from calls(run)


def coroutine_driven_by_hand(compiled):
    k = [2.0]

    async def scale():
        return k[0]

    def f(x):
        try:
            scale().send(None)
        except StopIteration as stop:
            return x * stop.value
    run = compiled(f)
    yield from calls(run)
    k[0] = 3.0
    yield from calls(run)


def queue_rotated_by_calls(compiled):
    values = collections.deque([1.0, 2.0, 3.0])

    def f(x):
        values.rotate(1)
        return x * values[0]
    run = compiled(f)
    yield from calls(run)
    values.appendleft(9.0)
    yield from calls(run)


def stack_emptied_by_calls(compiled):
    values = [1.0] * 5
    run = compiled(lambda x: x * (values.pop() if values else 9.0))
    yield from calls(run)
    values.append(2.0)
    yield from calls(run)


def set_emptied_by_calls(compiled):
    values = {1.0, 2.0}
    run = compiled(lambda x: x * len(values) if not values else x * values.pop())
    yield from calls(run)
    values |= {4.0}
    yield from calls(run)


def dict_with_a_factory(compiled):
    table = collections.defaultdict(lambda: len(table) + 1.0)
    keys = ["a"]
    run = compiled(lambda x: x * table[keys[0]])
    yield from calls(run)
    keys[0] = "b"
    yield from calls(run)
    table.default_factory = None
    keys[0] = "c"
    yield from calls(run)


def counter_updated_by_calls(compiled):
    seen = collections.Counter()

    def f(x):
        seen[x.shape] += 1
        return x * seen[x.shape]
    run = compiled(f)
    yield from calls(run)
    yield from calls(run, torch.ones(2))


def bytes_written(compiled):
    data = bytearray(b"\x02\x03")
    view = memoryview(data)
    run = compiled(lambda x: x * data[0] + view[1])
    yield from calls(run)
    data[0] = 9
    yield from calls(run)
    view[1] = 7
    yield from calls(run)


def array_written_between_calls(compiled):
    array = np.array([2.0, 3.0])
    run = compiled(lambda x: x * float(array[0]) + float(array.sum()))
    yield from calls(run)
    array[0] = 5
    yield from calls(run)
    array[1:] = -1
    yield from calls(run)
    array = np.zeros(3)
    yield from calls(run)


def array_written_by_calls(compiled):
    array = np.zeros(1)

    def f(x):
        array[0] += 1
        return x * float(array[0])
    run = compiled(f)
    yield from calls(run)
    array[0] = 100
    yield from calls(run)


def view_of_an_array_written(compiled):
    base = np.arange(6.0)
    view = base[::2]
    run = compiled(lambda x: x * float(view[1]))
    yield from calls(run)
    base[2] = 9
    yield from calls(run)


def array_reshaped_in_place(compiled):
    array = np.arange(6.0)
    run = compiled(lambda x: x * array.shape[0] + len(array))
    yield from calls(run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # NumPy 2.5 advises against it
        array.shape = (2, 3)
    yield from calls(run)
    array.flags.writeable = False
    yield from calls(run)


def structured_array(compiled):
    array = np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])
    run = compiled(lambda x: x * float(array["b"][0]) + int(array[0]["a"]))
    yield from calls(run)
    array["b"] = 5
    yield from calls(run)


def zero_dimensional_array(compiled):
    array = np.array(2.0)
    run = compiled(lambda x: x * float(array))
    yield from calls(run)
    array[...] = 3
    yield from calls(run)


def array_of_texts(compiled):
    array = np.array(["ab", "c"])
    run = compiled(lambda x: x * len(array[0]))
    yield from calls(run)
    array[0] = "c"
    yield from calls(run)


def options_for_printing_arrays(compiled):
    array = np.array([1 / 3, 2 / 3])
    run = compiled(lambda x: x * len(str(array)))
    yield from calls(run)
    with np.printoptions(precision=2):
        yield from calls(run)
    yield from calls(run)


def namespace_of_names(compiled):
    space = types.SimpleNamespace(k=2.0)
    run = compiled(lambda x: x * space.k * len(vars(space)))
    yield from calls(run)
    space.j = 1
    yield from calls(run)
    del space.k
    yield from calls(run)


def stack_of_contexts(compiled):
    scales = [1.0]

    @contextlib.contextmanager
    def scaled(k):
        scales.append(k)
        try:
            yield
        finally:
            scales.pop()

    def f(x):
        with scaled(3.0):
            y = x * scales[-1]
        return y + scales[-1]
    run = compiled(f)
    yield from calls(run)
    scales[0] = 7.0
    yield from calls(run)
    with scaled(5.0):
        yield from calls(run)


def tensors_in_a_list_that_changes(compiled):
    values = [vector(), vector() + 1]
    run = compiled(lambda x: x * sum(values))
    yield from calls(run)
    values[0] = torch.ones(4)
    yield from calls(run)
    values[1].mul_(2)
    yield from calls(run)
    values.append(vector())
    yield from calls(run)
    values.reverse()
    values.pop()
    yield from calls(run)


def tensors_in_a_dict_by_key(compiled):
    table = {"a": vector(), "b": vector() + 1}
    key = ["a"]
    run = compiled(lambda x: x * table[key[0]])
    yield from calls(run)
    key[0] = "b"
    yield from calls(run)
    table["b"] = torch.ones(4)
    yield from calls(run)


def tensor_kept_from_the_last_call(compiled):
    class Local:
        last = torch.zeros(4)

    def f(x):
        y = x + Local.last
        Local.last = y * 0.5
        return y
    run = compiled(f)
    yield from calls(run)
    Local.last = torch.ones(4)
    yield from calls(run)
    yield told(Local.last)


def tensor_attribute_that_is_also_the_result(compiled):
    class Local:
        pass
    thing = Local()
    thing.h = torch.zeros(4)

    def f(x):
        thing.h = torch.tanh(x + thing.h)
        return thing.h
    run = compiled(f)
    held = []
    for k in range(2 * CALLS):
        y = run(vector())
        held.append(y)
        yield told(y), y is thing.h
        if k % 4 == 3:
            thing.h.zero_()
    yield told(held)


def history_in_a_list(compiled):
    history = []

    def f(x):
        history.append(x * 2)
        return sum(history[-3:])
    run = compiled(f)
    yield from calls(run)
    history.clear()
    yield from calls(run)
    yield told(history)
