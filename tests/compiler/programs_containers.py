"""Programs whose state lies in containers, iterators and arrays."""

from __future__ import annotations

import array
import collections
import functools
import itertools
import types

import numpy as np

import tensocket as torch


def list_item():
    items = [1.0, 2.0]
    yield (lambda x: x * items[1]), lambda: items.__setitem__(1, 3.0)


def list_appended():
    items = [1.0, 2.0]
    yield (lambda x: x * len(items)), lambda: items.append(3.0)


def list_grown_and_cut():
    items = [1.0, 2.0]

    def change():
        items.extend(range(100))
        del items[2:]
        items[0] = 9.0
    yield (lambda x: x * items[0]), change


def list_emptied():
    items = [1.0]
    yield (lambda x: x * 2 if items else x), items.clear


def list_reversed():
    items = [1.0, 2.0]
    yield (lambda x: x * items[0]), items.reverse


def nested_list():
    items = [[1.0], [2.0]]
    yield (lambda x: x * items[1][0]), lambda: items[1].__setitem__(0, 5.0)


def list_subclass():
    class Items(list):
        pass
    items = Items([1.0])
    yield (lambda x: x * items[0]), lambda: items.__setitem__(0, 5.0)


def list_in_tuple():
    items = ([1.0],)
    yield (lambda x: x * items[0][0]), lambda: items[0].__setitem__(0, 5.0)


def list_in_itself():
    items = [2.0]
    items.append(items)
    yield (lambda x: x * items[1][1][0]), lambda: items.__setitem__(0, 5.0)


def list_written():
    items = []

    def f(x):
        items.append(1.0)
        return x * len(items)
    yield f, lambda: None


def list_of_tensors_written():
    items = [torch.ones(4)]

    def f(x):
        items[0] = x + 1
        return items[0]
    yield f, lambda: None


def list_sorted_in_place():
    items = [3.0, 1.0]

    def f(x):
        items.sort()
        return x * items[0]
    yield f, lambda: items.append(0.5)


def dict_item():
    table = {"a": 1.0}
    yield (lambda x: x * table["a"]), lambda: table.update(a=2.0)


def dict_item_added():
    table = {"a": 1.0}
    yield (lambda x: x * len(table)), lambda: table.update(b=2.0)


def dict_item_of_missing():
    table = {"a": 1.0}
    yield (lambda x: x * table.get("b", 1.0)), lambda: table.update(b=2.0)


def dict_item_deleted():
    table = {"a": 2.0}
    yield (lambda x: x * table.get("a", 1.0)), lambda: table.pop("a")


def dict_order():
    table = {"a": 1.0, "b": 2.0}

    def change():
        table["a"] = table.pop("a")
    yield (lambda x: x * next(iter(table.values()))), change


def dict_with_numbers():
    table = {1: 2.0, 2: 3.0}
    yield (lambda x: x * table[2]), lambda: table.update({2: 9.0})


def dict_with_object_keys():
    class Key:
        pass
    key = Key()
    table = {key: 2.0}
    yield (lambda x: x * table[key]), lambda: table.update({key: 9.0})


def dict_keys_replaced():
    table = {1: 2.0}

    def change():
        table.clear()
        table[1.0] = 2.0
    yield (lambda x: (x.int() * next(iter(table)))), change


def dict_grown_and_shrunk():
    table = {"a": 1.0}

    def change():
        for k in range(1000):
            table[str(k)] = 1.0
        for k in range(1000):
            del table[str(k)]
        table["a"] = 5.0
    yield (lambda x: x * table["a"]), change


def dict_subclass():
    class Table(dict):
        def __missing__(self, key):
            return self["a"] * 2
    table = Table(a=1.0)
    yield (lambda x: x * table["b"]), lambda: table.update(a=3.0)


def dict_subclass_missing_replaced():
    class Table(dict):
        def __missing__(self, key):
            return 2.0
    table = Table()
    yield (lambda x: x * table["b"]), lambda: setattr(Table, "__missing__", lambda self, key: 7.0)


def dict_written():
    table = {}

    def f(x):
        table[len(table)] = 1
        return x * len(table)
    yield f, lambda: None


def dict_memo():
    """A cache that the first calls fill."""
    memo = {}

    def f(x):
        if "k" not in memo:
            memo["k"] = 2.0
        return x * memo["k"]
    yield f, lambda: memo.update(k=3.0)


def dict_merged():
    first, second = {"a": 1.0}, {"a": 2.0}
    yield (lambda x: x * (first | second)["a"]), lambda: second.pop("a")


def dict_unpacked_into_arguments():
    options = {"k": 2.0}

    def g(x, k=1.0):
        return x * k
    yield (lambda x: g(x, **options)), lambda: options.clear()


def ordered_dict_moved():
    table = collections.OrderedDict(a=1.0, b=2.0)
    yield (lambda x: x * next(iter(table.values()))), lambda: table.move_to_end("a")


def ordered_dict_item():
    table = collections.OrderedDict(a=1.0, b=2.0)
    yield (lambda x: x * table["a"]), lambda: table.update(a=5.0)


def default_dict():
    table = collections.defaultdict(float, a=2.0)
    yield (lambda x: x * table["a"]), lambda: table.update(a=5.0)


def default_dict_factory():
    table = collections.defaultdict(int)
    yield (lambda x: x * 2 if table.default_factory is int else x), lambda: setattr(table, "default_factory", float)


def default_dict_inserts():
    table = collections.defaultdict(lambda: 2.0)
    yield (lambda x: x * table[len(table)]), lambda: None


def counter():
    table = collections.Counter("aab")
    yield (lambda x: x * table["a"]), lambda: table.update("a")


def chain_map():
    first, second = {}, {"a": 2.0}
    table = collections.ChainMap(first, second)
    yield (lambda x: x * table["a"]), lambda: first.update(a=5.0)


def read_only_view():
    table = {"a": 2.0}
    view = types.MappingProxyType(table)
    yield (lambda x: x * view["a"]), lambda: table.update(a=5.0)


def dict_keys_view():
    table = {"a": 2.0}
    view = table.keys()
    yield (lambda x: x * len(view)), lambda: table.update(b=5.0)


def set_member():
    members = {1, 2}
    yield (lambda x: x * 2 if 2 in members else x), lambda: members.remove(2)


def set_member_exchanged():
    members = {"a", "b"}

    def change():
        members.remove("b")
        members.add("c")
    yield (lambda x: x * 2 if "b" in members else x), change


def large_set():
    members = set(range(500))
    yield (lambda x: x * 2 if 400 in members else x), lambda: members.remove(400)


def set_grown():
    members = {1}
    yield (lambda x: x * len(members)), lambda: members.update(range(100))


def set_written():
    members = set()

    def f(x):
        members.add(len(members))
        return x * len(members)
    yield f, lambda: None


def set_subclass():
    class Members(set):
        pass
    members = Members({1, 2})
    yield (lambda x: x * len(members)), lambda: members.add(3)


def frozen_set_of_objects():
    class Thing:
        def __init__(self):
            self.k = 2.0
    thing = Thing()
    things = frozenset({thing})
    yield (lambda x: x * next(iter(things)).k), lambda: setattr(thing, "k", 3.0)


def double_ended_queue():
    queue = collections.deque([1.0, 2.0])
    yield (lambda x: x * queue[0]), lambda: queue.__setitem__(0, 5.0)


def double_ended_queue_rotated():
    queue = collections.deque([1.0, 2.0])
    yield (lambda x: x * queue[0]), lambda: queue.rotate(1)


def double_ended_queue_written():
    queue = collections.deque([1.0], maxlen=3)

    def f(x):
        queue.append(queue[-1] + 1.0)
        return x * sum(queue)
    yield f, lambda: None


def double_ended_queue_of_many_blocks():
    queue = collections.deque(range(1000))
    queue.rotate(100)
    yield (lambda x: x * queue[700]), lambda: queue.__setitem__(700, 5000)


def double_ended_queue_subclass():
    class Items(collections.deque):
        pass
    queue = Items([[1.0], [2.0]])
    yield (lambda x: x * queue[1][0]), lambda: queue[1].__setitem__(0, 5.0)


def cached_result_that_changes():
    @functools.lru_cache(maxsize=4)
    def k(n):
        return [n]
    yield (lambda x: x * k(2.0)[0]), lambda: k(2.0).__setitem__(0, 5.0)


def cached_result_evicted():
    state = [2.0]

    @functools.lru_cache(maxsize=2)
    def k(n):
        return state[0] * n

    def change():
        state[0] = 5.0
        k(2.0), k(3.0), k(4.0)
    yield (lambda x: x * k(1.0)), change


def cached_result_hides_state():
    """The state does not matter while the result is in the cache, whether guards know or not."""
    state = [2.0]

    @functools.cache
    def k():
        return state[0]

    def change():
        k.cache_clear()
        state[0] = 3.0
    yield (lambda x: x * k()), change


def cache_statistics():
    k = functools.cache(lambda: 2.0)
    yield (lambda x: x * k() * k.cache_info().hits), lambda: None


def iterator():
    values = iter([1.0] * 50)
    yield (lambda x: x * next(values)), lambda: None


def iterator_in_a_loop():
    values = iter(range(100))

    def f(x):
        for k in values:
            return x * k
        return x
    yield f, lambda: None


def generator():
    def numbers():
        k = 0
        while True:
            k += 1
            yield k
    values = numbers()
    yield (lambda x: x * next(values)), lambda: None


def counting():
    count = itertools.count()
    yield (lambda x: x * next(count)), lambda: None


def cycle():
    turns = itertools.cycle([1.0, 2.0])
    yield (lambda x: x * next(turns)), lambda: None


def chained_iterator():
    values = itertools.chain([1.0] * 30, [2.0])
    yield (lambda x: x * next(values)), lambda: None


def zipped():
    pairs = zip(range(100), range(100), strict=True)
    yield (lambda x: x * next(pairs)[0]), lambda: None


def iterator_in_default():
    def f(x, values=iter(range(100))):  # noqa: B008
        return x * next(values)
    yield f, lambda: None


def iterator_with_next_bound():
    step = iter(range(100)).__next__
    yield (lambda x: x * step()), lambda: None


def iterator_of_function():
    state = [0]

    def tick():
        state[0] += 1
        return state[0]
    values = iter(tick, None)
    yield (lambda x: x * next(values)), lambda: None


def iterators_made_inside():
    table = {"a": 2.0, "b": 3.0}

    def f(x):
        for _, (_, v) in zip(itertools.count(), table.items(), strict=False):
            x = x * v
        return x
    yield f, lambda: table.update(b=4.0)


def generator_made_inside():
    table = [1.0, 2.0]

    def f(x):
        def values():
            yield from table
        return x * sum(values())
    yield f, lambda: table.append(3.0)


def least_recently_used_cache():
    state = [2.0]

    @functools.lru_cache
    def k():
        return state[0]

    def change():
        state[0] = 3.0
        k.cache_clear()
    yield (lambda x: x * k()), change


def single_dispatch():
    @functools.singledispatch
    def g(value):
        return 1.0

    def change():
        g.register(int)(lambda value: 5.0)
    yield (lambda x: x * g(3)), change


def numpy_array():
    values = np.array([2.0, 3.0])
    yield (lambda x: x * float(values[0])), lambda: values.__setitem__(0, 7.0)


def numpy_array_of_bytes():
    values = np.array([2, 3, 4], np.uint8)
    yield (lambda x: x * int(values[2])), lambda: values.__setitem__(2, 7)


def numpy_array_large():
    values = np.zeros(10_000)
    yield (lambda x: x * float(values[7])), lambda: values.__setitem__(7, 7.0)


def numpy_array_of_objects():
    values = np.array([[2.0], [3.0]], object)
    yield (lambda x: x * values[0, 0]), lambda: values.__setitem__((0, 0), 7.0)


def numpy_masked_array():
    values = np.ma.array([2.0, 3.0], mask=[False, True])
    yield (lambda x: x * float(values[0] if values[1] is np.ma.masked else 5.0)), lambda: values.mask.fill(False)


def numpy_masked_constant():
    values = [np.ma.masked]
    yield (lambda x: x * (values[0] is np.ma.masked)), lambda: values.__setitem__(0, 7.0)


def numpy_view():
    values = np.arange(10.0)[::2]
    yield (lambda x: x * float(values[1])), lambda: values.__setitem__(1, 7.0)


def numpy_array_reshaped():
    values = np.arange(6.0)

    def change():
        values.resize((2, 3), refcheck=False)
    yield (lambda x: x * values.shape[0]), change


def numpy_array_written():
    values = np.zeros(3)

    def f(x):
        values[0] += 1
        return x * float(values[0])
    yield f, lambda: None


def numpy_scalar():
    box = [np.float64(2.0)]
    yield (lambda x: x * float(box[0])), lambda: box.__setitem__(0, np.float64(3.0))


def bytes_array():
    values = bytearray(b"abc")
    yield (lambda x: x * values[0]), lambda: values.__setitem__(0, 1)


def memory_view():
    values = memoryview(bytearray(b"abc"))
    yield (lambda x: x * values[0]), lambda: values.__setitem__(0, 1)


def array_of_module_array():
    values = array.array("d", [2.0])
    yield (lambda x: x * values[0]), lambda: values.__setitem__(0, 3.0)


def slice_object():
    box = [slice(0, 2)]
    yield (lambda x: x[box[0]]), lambda: box.__setitem__(0, slice(0, 3))


def range_object():
    box = [range(2)]
    yield (lambda x: x * len(box[0])), lambda: box.__setitem__(0, range(3))


def tuple_equal_but_longer():
    box = [(1.0,)]
    yield (lambda x: x * len(box[0])), lambda: box.__setitem__(0, (1.0, 2.0))


def string_in_list():
    names = ["relu"]
    yield (lambda x: getattr(torch, names[0])(x - 2)), lambda: names.__setitem__(0, "abs")


def user_mapping():
    class Table(collections.UserDict):
        pass
    table = Table(a=2.0)
    yield (lambda x: x * table["a"]), lambda: table.update(a=3.0)


def user_list():
    items = collections.UserList([2.0])
    yield (lambda x: x * items[0]), lambda: items.__setitem__(0, 3.0)


#: Programs that write to what they read, or read what nothing can watch.
REFUSED = frozenset({
    "array_of_module_array", "bytes_array", "cache_statistics", "chained_iterator", "counting", "cycle",
    "default_dict_inserts", "dict_keys_view", "dict_written", "double_ended_queue_written", "generator",
    "iterator", "iterator_in_a_loop", "iterator_in_default", "iterator_of_function", "iterator_with_next_bound",
    "list_of_tensors_written", "list_written", "memory_view", "numpy_array_large", "numpy_array_of_objects",
    "numpy_masked_array", "numpy_masked_constant",
    "numpy_array_written", "numpy_view", "set_written", "single_dispatch", "zipped"})
