"""Scripts over state in Python objects: cells, classes, descriptors, caches, iterators, enumerations, arrays."""

from __future__ import annotations

import abc
import collections
import dataclasses
import enum
import functools
import operator
import typing
import weakref

import tensocket as torch

from .scripts import CALLS, calls, told, vector


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
