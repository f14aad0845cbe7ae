"""Scripts over state in Python objects: cells, classes, descriptors, caches, iterators, enumerations, arrays."""

from __future__ import annotations

import abc
import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import operator
import types
import typing
import weakref

import numpy as np

import tensocket as torch

from .scripts import CALLS, calls, outcome, told, vector


def counter_in_a_cell(compiled):
    n = 0

    def f(x):
        nonlocal n
        n += 1
        return x * n
    run = compiled(f)
    yield from calls(run)
    n = 100
    yield from calls(run)
    yield n


def counter_that_matters_late(compiled):
    n = 0

    def f(x):
        nonlocal n
        n += 1
        return x * 2 if n < 7 else x * 3
    run = compiled(f)
    yield from calls(run)
    yield from calls(run)


def cell_deleted_and_made_again(compiled):
    k = 2.0

    def f(x):
        return x * k
    run = compiled(f)
    yield from calls(run)
    del k
    yield from calls(run)
    k = 3.0
    yield from calls(run)


def cell_written_from_outside(compiled):
    k = 2.0

    def f(x):
        return x * k
    run = compiled(f)
    yield from calls(run)
    f.__closure__[0].cell_contents = 5.0
    yield from calls(run)


def default_that_collects(compiled):
    def f(x, seen=[]):  # noqa: B006
        seen.append(1)
        return x * len(seen)
    run = compiled(f)
    yield from calls(run)
    f.__defaults__ = ([1, 2, 3],)
    yield from calls(run)


def default_tensor_replaced(compiled):
    def f(x, w):
        return x * w
    f.__defaults__ = (vector(),)
    run = compiled(f)
    yield from calls(run)
    f.__defaults__ = (torch.ones(4) * 3,)
    yield from calls(run)
    f.__defaults__[0].mul_(2)
    yield from calls(run)


def slots_with_fallback(compiled):
    class Local:
        __slots__ = ("k",)

        def __getattr__(self, name):
            return 7.0
    thing = Local()
    run = compiled(lambda x: x * thing.k)
    yield from calls(run)
    thing.k = 2.0
    yield from calls(run)
    del thing.k
    yield from calls(run)


def slot_and_dict(compiled):
    class Base:
        __slots__ = ("k",)

    class Local(Base):
        pass
    thing = Local()
    thing.k, thing.j = 2.0, 3.0
    run = compiled(lambda x: x * thing.k + thing.j)
    yield from calls(run)
    thing.j = 4.0
    yield from calls(run)
    Local.k = 9.0
    yield from calls(run)


def property_that_counts(compiled):
    class Local:
        n = 0

        @property
        def k(self):
            type(self).n += 1
            return self.n
    thing = Local()
    run = compiled(lambda x: x * thing.k)
    yield from calls(run)
    Local.n = 50
    yield from calls(run)


def property_replaced_by_a_value(compiled):
    class Local:
        @property
        def k(self):
            return 2.0
    thing = Local()
    run = compiled(lambda x: x * thing.k)
    yield from calls(run)
    thing.__dict__["k"] = 5.0
    yield from calls(run)
    del Local.k
    yield from calls(run)


def descriptor_with_a_weak_table(compiled):
    class Stored:
        def __init__(self):
            self.table = weakref.WeakKeyDictionary()

        def __get__(self, owner, kind):
            return self.table.get(owner, 2.0)

        def __set__(self, owner, value):
            self.table[owner] = value

    class Local:
        k = Stored()
    thing = Local()
    run = compiled(lambda x: x * thing.k)
    yield from calls(run)
    thing.k = 3.0
    yield from calls(run)


def descriptor_with_a_counter(compiled):
    class Counted:
        count = 0

        def __get__(self, owner, kind):
            self.count += 1
            return self.count

    class Local:
        k = Counted()
    run = compiled(lambda x: x * Local().k)
    yield from calls(run)
    vars(Local)["k"].count = 0
    yield from calls(run)


def descriptor_gets_a_setter(compiled):
    class Plain:
        def __get__(self, owner, kind):
            return 2.0

    class Local:
        k = Plain()
    thing = Local()
    thing.__dict__["k"] = 5.0
    run = compiled(lambda x: x * thing.k)
    yield from calls(run)
    Plain.__set__ = lambda self, owner, value: None
    yield from calls(run)


def metaclass_with_getattr(compiled):
    class Meta(type):
        def __getattr__(cls, name):
            return cls.__dict__["_" + name] * 2

    class Local(metaclass=Meta):
        _k = 2.0
    run = compiled(lambda x: x * Local.k)
    yield from calls(run)
    Local._k = 3.0
    yield from calls(run)
    Local.k = 1.0
    yield from calls(run)


def metaclass_with_length_and_items(compiled):
    class Meta(type):
        table: typing.ClassVar = [2.0]

        def __len__(cls):
            return len(cls.table)

        def __getitem__(cls, k):
            return cls.table[k]
    Local = Meta("Local", (), {})
    run = compiled(lambda x: x * len(Local) * Local[0])
    yield from calls(run)
    Meta.table.append(3.0)
    yield from calls(run)
    Meta.table[0] = 5.0
    yield from calls(run)


def class_with_getitem(compiled):
    class Local:
        scale: typing.ClassVar = {"a": 2.0}

        def __class_getitem__(cls, key):
            return cls.scale[key]
    run = compiled(lambda x: x * Local["a"])
    yield from calls(run)
    Local.scale["a"] = 3.0
    yield from calls(run)


def class_registered_at_definition(compiled):
    table = []

    class Base:
        def __init_subclass__(cls):
            table.append(cls.k)

    class First(Base):
        k = 2.0
    run = compiled(lambda x: x * sum(table))
    yield from calls(run)

    class Second(Base):
        k = 3.0
    yield from calls(run)
    yield First.k, Second.k


def layout_of_classes_changes(compiled):
    class A:
        k = 2.0

    class B:
        k = 3.0

    class Local(A):
        pass
    thing = Local()
    run = compiled(lambda x: x * thing.k)
    yield from calls(run)
    Local.__bases__ = (B,)
    yield from calls(run)
    thing.__class__ = type("Other", (), {"k": 9.0})
    yield from calls(run)


def dict_of_instance_exchanged(compiled):
    class Local:
        pass
    thing = Local()
    thing.k = 2.0
    run = compiled(lambda x: x * thing.k)
    yield from calls(run)
    thing.__dict__ = {"k": 3.0}
    yield from calls(run)
    thing.__dict__["k"] = 4.0
    yield from calls(run)


def attribute_with_a_computed_name(compiled):
    class Local:
        ab, cd = 2.0, 3.0
    names = ["a", "b"]
    run = compiled(lambda x: x * getattr(Local, "".join(names)))
    yield from calls(run)
    names[:] = ["c", "d"]
    yield from calls(run)
    Local.cd = 5.0
    yield from calls(run)


def attribute_through_a_format(compiled):
    class Local:
        k = 2.0
    thing, text = Local(), "{0." + "k}"
    run = compiled(lambda x: x * float(text.format(thing)))
    yield from calls(run)
    thing.k = 3.0
    yield from calls(run)


def attributes_by_getter_made_from_data(compiled):
    class Local:
        k, j = 2.0, 3.0
    names = ("k", "j")
    run = compiled(lambda x: x * sum(operator.attrgetter(*names)(Local)))
    yield from calls(run)
    Local.j = 5.0
    yield from calls(run)


def finalizer_that_counts(compiled):
    gone = [0]

    class Local:
        def __del__(self):
            gone[0] += 1

    def f(x):
        Local()
        return x * gone[0]
    run = compiled(f)
    yield from calls(run)
    gone[0] = 100
    yield from calls(run)
    yield list(gone)


def finalizer_of_what_is_replaced(compiled):
    log = []

    class Local:
        def __init__(self, k):
            self.k = k

        def __del__(self):
            log.append(self.k)
    box = [Local(2.0)]
    run = compiled(lambda x: x * box[0].k + len(log))
    yield from calls(run)
    box[0] = Local(3.0)
    yield from calls(run)


def death_of_a_result(compiled):
    log = []
    run = compiled(lambda x: x * 2)
    for k in range(2 * CALLS):
        y = run(vector())
        weakref.finalize(y, log.append, k)
        yield told(y), len(log)
        del y
        yield len(log)


def weakly_referenced_tensor(compiled):
    w = vector()
    reference = weakref.ref(w)
    run = compiled(lambda x: x * (reference() if reference() is not None else 3))
    yield from calls(run)
    w = torch.ones(4)
    yield from calls(run)
    yield told(w)


def weak_proxy(compiled):
    class Local:
        k = 2.0
    thing = Local()
    proxy = weakref.proxy(thing)
    run = compiled(lambda x: x * proxy.k)
    yield from calls(run)
    thing.k = 3.0
    yield from calls(run)


def enumeration_member_gets_another_value(compiled):
    class Kind(enum.Enum):
        A = 2.0
        B = 3.0
    run = compiled(lambda x: x * Kind.A.value + (Kind("A").value if "A" in Kind.__members__.values() else 1))
    yield from calls(run)
    Kind.A._value_ = 7.0
    yield from calls(run)


def enumeration_with_missing(compiled):
    class Kind(enum.Enum):
        A = 2.0

        @classmethod
        def _missing_(cls, value):
            return cls.A if allowed[0] else None
    allowed = [True]
    run = compiled(lambda x: x * Kind(5).value)
    yield from calls(run)
    allowed[0] = False
    yield from calls(run)


def enumeration_argument(compiled):
    class Kind(enum.IntEnum):
        A = 2
        B = 3
    run = compiled(lambda x, kind: x * (5 if kind is Kind.A else kind))
    yield from calls(run, vector(), Kind.A)
    yield from calls(run, vector(), Kind.B)
    yield from calls(run, vector(), 2)


def frozen_data_class_written(compiled):
    @dataclasses.dataclass(frozen=True)
    class Options:
        k: float = 2.0
        names: list = dataclasses.field(default_factory=lambda: [1])
    options = Options()
    run = compiled(lambda x: x * options.k + len(options.names))
    yield from calls(run)
    object.__setattr__(options, "k", 3.0)
    yield from calls(run)
    options.names.append(1)
    yield from calls(run)


def data_class_made_from_changing_defaults(compiled):
    @dataclasses.dataclass
    class Options:
        k: float = 2.0
    run = compiled(lambda x: x * Options().k)
    yield from calls(run)
    Options.__init__.__defaults__ = (4.0,)
    yield from calls(run)
    Options.k = 5.0
    yield from calls(run)


def data_class_with_post_init(compiled):
    factor = [2.0]

    @dataclasses.dataclass
    class Options:
        k: float = 1.0

        def __post_init__(self):
            self.k = self.k * factor[0]
    run = compiled(lambda x: x * Options().k)
    yield from calls(run)
    factor[0] = 3.0
    yield from calls(run)


def named_tuple_defaults(compiled):
    Pair = collections.namedtuple("Pair", "a b", defaults=(2.0,))
    run = compiled(lambda x: x * Pair(1.0).b)
    yield from calls(run)
    Pair.__new__.__defaults__ = (3.0,)
    yield from calls(run)


def single_dispatch_registered(compiled):
    @functools.singledispatch
    def scale(value):
        return 2.0

    class Local:
        pass
    thing = Local()
    run = compiled(lambda x: x * scale(thing))
    yield from calls(run)
    scale.register(Local, lambda value: 3.0)
    yield from calls(run)


def single_dispatch_method_registered(compiled):
    class Local:
        @functools.singledispatchmethod
        def scale(self, value):
            return 2.0
    thing = Local()
    run = compiled(lambda x: x * thing.scale(1))
    yield from calls(run)
    Local.scale.register(int, lambda self, value: 3.0)
    yield from calls(run)


def abstract_class_registers_later(compiled):
    class Base(abc.ABC):  # noqa: B024
        pass

    class Local:
        pass
    thing = Local()
    run = compiled(lambda x: x * 2 if isinstance(thing, Base) else x)
    yield from calls(run)
    Base.register(Local)
    yield from calls(run)


def protocol_satisfied_later(compiled):
    @typing.runtime_checkable
    class Scaled(typing.Protocol):
        def scale(self): ...

    class Local:
        pass
    thing = Local()
    run = compiled(lambda x: x * 2 if isinstance(thing, Scaled) else x)
    yield from calls(run)
    Local.scale = lambda self: 1
    yield from calls(run)


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
