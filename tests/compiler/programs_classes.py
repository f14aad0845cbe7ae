"""Programs whose state lies in classes, special methods, data classes and enums."""

from __future__ import annotations

import abc
import collections.abc
import dataclasses
import enum
import sys
import types
import typing
import weakref


class Config:
    factor = 2.0

    def __init__(self):
        self.scale = 2.0


def metaclass_attribute():
    class Meta(type):
        k = 2.0

    class Local(metaclass=Meta):
        pass
    yield (lambda x: x * Local.k), lambda: setattr(Meta, "k", 3.0)


def metaclass_property():
    class Meta(type):
        value = 2.0

        @property
        def k(cls):
            return cls.value

    class Local(metaclass=Meta):
        pass
    yield (lambda x: x * Local.k), lambda: setattr(Local, "value", 3.0)


def metaclass_call():
    class Meta(type):
        k = 2.0

        def __call__(cls, x):
            return x * cls.k

    class Local(metaclass=Meta):
        pass
    yield (lambda x: Local(x)), lambda: setattr(Local, "k", 3.0)


def metaclass_instancecheck():
    class Meta(type):
        wanted = True

        def __instancecheck__(cls, instance):
            return cls.wanted

    class Local(metaclass=Meta):
        pass
    yield (lambda x: x * 2 if isinstance(3, Local) else x), lambda: setattr(Meta, "wanted", False)


def operator_method():
    class Number:
        def __init__(self, k):
            self.k = k

        def __mul__(self, x):
            return x * self.k
    number = Number(2.0)
    yield (lambda x: number * x), lambda: setattr(Number, "__mul__", lambda self, x: x * 7)


def operator_method_added():
    class Left:
        def __add__(self, other):
            return 2.0

    class Right(Left):
        pass
    left, right = Left(), Right()
    yield (lambda x: x * (left + right)), lambda: setattr(Right, "__radd__", lambda self, other: 3.0)


def equality():
    class Local:
        def __init__(self, k):
            self.k = k

        def __eq__(self, other):
            return self.k == other.k

        def __hash__(self):
            return 1
    first, second = Local(1), Local(1)
    yield (lambda x: x * 2 if first == second else x), lambda: setattr(second, "k", 2)


def equality_replaced():
    class Local:
        def __eq__(self, other):
            return True
    first, second = Local(), Local()
    yield (lambda x: x * 2 if first == second else x), lambda: setattr(Local, "__eq__", lambda self, other: False)


def hash_of_key():
    class Key:
        def __init__(self):
            self.k = 1

        def __hash__(self):
            return self.k

        def __eq__(self, other):
            return True
    key = Key()
    table = {1: 2.0}
    yield (lambda x: x * table.get(key, 1.0)), lambda: setattr(key, "k", 2)


def truth():
    class Local:
        def __bool__(self):
            return True
    thing = Local()
    yield (lambda x: x * 2 if thing else x), lambda: setattr(Local, "__bool__", lambda self: False)


def length():
    class Local:
        def __init__(self):
            self.n = 2

        def __len__(self):
            return self.n
    thing = Local()
    yield (lambda x: x * len(thing)), lambda: setattr(thing, "n", 3)


def iteration():
    class Local:
        def __init__(self):
            self.values = (1.0, 2.0)

        def __iter__(self):
            return iter(self.values)
    thing = Local()
    yield (lambda x: sum(x * v for v in thing)), lambda: setattr(thing, "values", (1.0, 5.0))


def containment():
    class Local:
        def __init__(self):
            self.values = (1, 2)

        def __contains__(self, value):
            return value in self.values
    thing = Local()
    yield (lambda x: x * 2 if 2 in thing else x), lambda: setattr(thing, "values", (1,))


def context_manager():
    class Local:
        def __init__(self):
            self.k = 2.0

        def __enter__(self):
            return self.k

        def __exit__(self, *error):
            return None
    thing = Local()

    def f(x):
        with thing as k:
            return x * k
    yield f, lambda: setattr(thing, "k", 3.0)


def callable_object():
    class Local:
        def __init__(self):
            self.k = 2.0

        def __call__(self, x):
            return x * self.k
    thing = Local()
    yield thing, lambda: setattr(thing, "k", 3.0)


def callable_class_replaced():
    class Local:
        def __call__(self, x):
            return x * 2
    thing = Local()
    yield thing, lambda: setattr(Local, "__call__", lambda self, x: x * 3)


def super_call():
    class Base:
        def run(self, x):
            return x * 2

    class Derived(Base):
        def run(self, x):
            return super().run(x) + 1
    thing = Derived()
    yield (lambda x: thing.run(x)), lambda: setattr(Base, "run", lambda self, x: x * 3)


def initializer():
    class Local:
        def __init__(self, k):
            self.k = k
    other = {"k": 9.0}
    yield (lambda x: x * Local(2.0).k), lambda: setattr(Local, "__init__", lambda self, k: vars(self).update(other))


def new_method():
    class Local:
        k = 2.0

        def __new__(cls):
            made = object.__new__(cls)
            made.k = cls.k
            return made
    yield (lambda x: x * Local().k), lambda: setattr(Local, "k", 3.0)


def abstract_registration():
    class Base(abc.ABC):
        @abc.abstractmethod
        def run(self): ...

    class Local:
        pass
    thing = Local()
    yield (lambda x: x * 2 if isinstance(thing, Base) else x), lambda: Base.register(Local)


def abstract_collections():
    class Local:
        pass
    thing = Local()
    yield ((lambda x: x * 2 if isinstance(thing, collections.abc.Mapping) else x),
           lambda: collections.abc.Mapping.register(Local))


def runtime_protocol():
    @typing.runtime_checkable
    class Closing(typing.Protocol):
        def close(self): ...

    class Local:
        pass
    thing = Local()
    yield (lambda x: x * 2 if isinstance(thing, Closing) else x), lambda: setattr(Local, "close", lambda self: None)


def data_class():
    @dataclasses.dataclass
    class Options:
        k: float = 2.0
    options = Options()
    yield (lambda x: x * options.k), lambda: setattr(options, "k", 3.0)


def nested_data_class():
    @dataclasses.dataclass
    class Inner:
        k: float = 2.0

    @dataclasses.dataclass
    class Outer:
        inner: Inner
    outer = Outer(Inner())
    yield (lambda x: x * outer.inner.k), lambda: setattr(outer.inner, "k", 3.0)


def data_class_with_slots():
    @dataclasses.dataclass(slots=True)
    class Options:
        k: float = 2.0
    options = Options()
    yield (lambda x: x * options.k), lambda: setattr(options, "k", 3.0)


def data_class_default():
    @dataclasses.dataclass
    class Options:
        k: float = 2.0
    yield (lambda x: x * Options().k), lambda: setattr(Options.__init__, "__defaults__", (5.0,))


def frozen_data_class_written():
    @dataclasses.dataclass(frozen=True)
    class Options:
        k: float = 2.0
    options = Options()
    yield (lambda x: x * options.k), lambda: object.__setattr__(options, "k", 3.0)


def data_class_fields():
    @dataclasses.dataclass
    class Options:
        a: float = 2.0
        b: float = 3.0
    options = Options()
    yield ((lambda x: x * sum(getattr(options, field.name) for field in dataclasses.fields(options))),
           lambda: setattr(options, "b", 9.0))


def data_class_equality():
    @dataclasses.dataclass
    class Options:
        a: float = 2.0
    first, second = Options(), Options()
    yield (lambda x: x * 2 if first == second else x), lambda: setattr(second, "a", 9.0)


def enum_member():
    class Kind(enum.Enum):
        A = 1
        B = 2
    box = [Kind.A]
    yield (lambda x: x * 2 if box[0] is Kind.A else x), lambda: box.__setitem__(0, Kind.B)


def enum_value():
    class Kind(enum.Enum):
        A = 2.0
    yield (lambda x: x * Kind.A.value), lambda: setattr(Kind.A, "_value_", 3.0)


def int_enum():
    class Kind(enum.IntEnum):
        A = 2
        B = 3
    box = [Kind.A]
    yield (lambda x: x * box[0]), lambda: box.__setitem__(0, Kind.B)


def named_tuple():
    class Pair(typing.NamedTuple):
        a: float
        b: list
    pair = Pair(2.0, [3.0])
    yield (lambda x: x * pair.a * pair.b[0]), lambda: pair.b.__setitem__(0, 4.0)


def simple_namespace():
    space = types.SimpleNamespace(k=2.0)
    yield (lambda x: x * space.k), lambda: setattr(space, "k", 3.0)


def weak_reference():
    c = Config()
    ref = weakref.ref(c)
    box = [c]

    def change():
        nonlocal c
        box.clear()
        del c
    yield (lambda x: x * (1.0 if ref() is None else ref().scale)), change


def weak_reference_to_held_object():
    c = Config()
    ref = weakref.ref(c)
    yield (lambda x: x * ref().scale * c.scale), lambda: setattr(c, "scale", 3.0)


def weak_value_dict():
    c = Config()
    table = weakref.WeakValueDictionary(k=c)
    yield (lambda x: x * table["k"].scale * c.scale), lambda: setattr(c, "scale", 3.0)


def match_by_class():
    class Point:
        __match_args__ = ("u",)

        def __init__(self):
            self.u = 2.0
            self.v = 3.0
    point = Point()

    def f(x):
        match point:
            case Point(k):
                return x * k
        return x
    yield f, lambda: setattr(point, "u", 5.0)


def match_by_class_arguments_replaced():
    class Point:
        __match_args__ = ("u",)

        def __init__(self):
            self.u = 2.0
            self.v = 3.0
    point = Point()

    def f(x):
        match point:
            case Point(k):
                return x * k
        return x
    yield f, lambda: setattr(Point, "__match_args__", ("v",))


def str_subclass():
    class Name(str):
        __slots__ = ("k",)
    name = Name("a")
    name.k = 2.0
    yield (lambda x: x * name.k), lambda: setattr(name, "k", 3.0)


def user_iterator():
    class Count:
        def __init__(self):
            self.n = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.n += 1
            return self.n
    count = Count()
    yield (lambda x: x * next(count)), lambda: None


def state_read_in_repr():
    class Local:
        def __init__(self):
            self.k = 2

        def __repr__(self):
            return str(self.k)
    thing = Local()
    yield (lambda x: x * float(f"{thing!r}")), lambda: setattr(thing, "k", 3)


def class_replaced_in_cell():
    class First:
        k = 2.0

    class Second:
        k = 3.0
    kind = First

    def change():
        nonlocal kind
        kind = Second
    yield (lambda x: x * kind().k), change


def exception_by_state():
    c = Config()
    c.fail = True

    def f(x):
        try:
            if c.fail:
                raise ValueError("no")
        except ValueError:
            return x * 2
        return x
    yield f, lambda: setattr(c, "fail", False)


def exception_attribute():
    class Trouble(Exception):
        pass
    trouble = Trouble()
    trouble.k = 2.0

    def f(x):
        try:
            raise trouble
        except Trouble as error:
            return x * error.k
    yield f, lambda: setattr(trouble, "k", 3.0)


def type_name():
    class Local:
        pass
    thing = Local()
    yield (lambda x: x * len(type(thing).__name__)), lambda: setattr(Local, "__name__", "Longer")


def subclasses_listed():
    class Base:
        pass
    made = []

    def change():
        made.append(type("Derived", (Base,), {}))
    yield (lambda x: x * len(Base.__subclasses__())), change


def deleter_and_setter():
    class Local:
        def __init__(self):
            self._k = 2.0

        @property
        def k(self):
            return self._k

        @k.setter
        def k(self, value):
            self._k = value
    thing = Local()

    def f(x):
        thing.k = 2.0
        return x * thing._k
    other = property(lambda self: 1.0, lambda self, value: vars(self).update(_k=value * 2))
    yield f, lambda: setattr(Local, "k", other)


#: Programs that write to what they read, or read what nothing can watch.
REFUSED = frozenset({
    "exception_attribute", "subclasses_listed", "user_iterator", "weak_reference",
    "weak_reference_to_held_object", "weak_value_dict",
    *(("runtime_protocol",) if sys.version_info >= (3, 12) else ())})  # it reads tables of classes by their getters
