"""Programs whose state lies in attributes of objects and classes."""

from __future__ import annotations

import abc
import collections.abc
import dataclasses
import enum
import functools
import operator
import types
import typing
import weakref


class Config:
    factor = 2.0

    def __init__(self):
        self.scale = 2.0


def instance_attribute():
    c = Config()
    yield (lambda x: x * c.scale), lambda: setattr(c, "scale", 3.0)


def instance_attribute_many_times():
    c = Config()
    for k in range(60):
        c.scale = 100.0 + k
    yield (lambda x: x * c.scale), lambda: setattr(c, "scale", 3.0)


def instance_hides_class():
    c = Config()
    yield (lambda x: x * c.factor), lambda: setattr(c, "factor", 5.0)


def instance_attribute_deleted():
    c = Config()
    c.factor = 7.0
    yield (lambda x: x * c.factor), lambda: delattr(c, "factor")


def instance_dict_replaced():
    c = Config()
    yield (lambda x: x * c.scale), lambda: setattr(c, "__dict__", {"scale": 4.0})


def instance_dict_written():
    c = Config()
    yield (lambda x: x * c.scale), lambda: c.__dict__.update(scale=4.0)


def instance_dict_read():
    c = Config()
    yield (lambda x: x * c.__dict__["sca" + "le"]), lambda: setattr(c, "scale", 4.0)


def instance_vars_read():
    c = Config()
    yield (lambda x: x * sum(vars(c).values())), lambda: setattr(c, "other", 4.0)


def instance_dir_read():
    c = Config()
    yield (lambda x: x * len(dir(c))), lambda: setattr(c, "other", 4.0)


def shared_keys():
    first, second = Config(), Config()
    second.extra = 1.0

    def change():
        first.extra = 5.0
    yield (lambda x: x * getattr(first, "extra", 1.0)), change


def shared_keys_deleted_and_added():
    c, other = Config(), Config()
    c.a, c.b = 1.0, 2.0
    other.a, other.b, other.c = 1.0, 2.0, 3.0

    def change():
        del c.b
        c.c = 5.0
    yield (lambda x: x * getattr(c, "c", 1.0)), change


def class_of_object_replaced():
    class Other:
        factor = 9.0
    c = Config()
    yield (lambda x: x * c.factor), lambda: setattr(c, "__class__", Other)


def class_attribute():
    class Local:
        k = 2.0
    yield (lambda x: x * Local.k), lambda: setattr(Local, "k", 3.0)


def class_attribute_through_instance():
    class Local:
        k = 2.0
    thing = Local()
    yield (lambda x: x * thing.k), lambda: setattr(Local, "k", 3.0)


def base_class_attribute():
    class Base:
        k = 2.0

    class Derived(Base):
        pass
    thing = Derived()
    yield (lambda x: x * thing.k), lambda: setattr(Base, "k", 3.0)


def bases_replaced():
    class First:
        k = 2.0

    class Second:
        k = 3.0

    class Derived(First):
        pass
    yield (lambda x: x * Derived.k), lambda: setattr(Derived, "__bases__", (Second,))


def derived_attribute_added():
    class Base:
        k = 2.0

    class Derived(Base):
        pass
    yield (lambda x: x * Derived().k), lambda: setattr(Derived, "k", 4.0)


def class_dict_read():
    class Local:
        k = 2.0
    yield (lambda x: x * Local.__dict__["k"]), lambda: setattr(Local, "k", 3.0)


def class_attribute_list():
    class Local:
        sizes: typing.ClassVar = [2.0]
    yield (lambda x: x * Local.sizes[0]), lambda: Local.sizes.__setitem__(0, 3.0)


def class_attribute_counted_by_instances():
    class Local:
        made = 0

        def __init__(self):
            Local.made += 1

    def f(x):
        return x * Local().made
    yield f, lambda: None


def method_replaced():
    class Local:
        def run(self, x):
            return x * 2
    thing = Local()
    yield (lambda x: thing.run(x)), lambda: setattr(Local, "run", lambda self, x: x * 3)


def method_on_instance():
    class Local:
        def run(self, x):
            return x * 2
    thing = Local()
    yield (lambda x: thing.run(x)), lambda: setattr(thing, "run", lambda x: x * 3)


def method_default():
    class Local:
        def run(self, x, k=2.0):
            return x * k
    thing = Local()
    yield (lambda x: thing.run(x)), lambda: setattr(Local.run, "__defaults__", (3.0,))


def static_method():
    class Local:
        @staticmethod
        def run(x):
            return x * 2
    yield (lambda x: Local.run(x)), lambda: setattr(Local, "run", staticmethod(lambda x: x * 3))


def class_method_state():
    class Local:
        k = 2.0

        @classmethod
        def run(cls, x):
            return x * cls.k
    yield (lambda x: Local.run(x)), lambda: setattr(Local, "k", 3.0)


def slot():
    class Local:
        __slots__ = ("k",)
    thing = Local()
    thing.k = 2.0
    yield (lambda x: x * thing.k), lambda: setattr(thing, "k", 3.0)


def slot_deleted():
    class Local:
        __slots__ = ("k",)
    thing = Local()
    thing.k = 2.0
    yield (lambda x: x * getattr(thing, "k", 1.0)), lambda: delattr(thing, "k")


def slot_set_first():
    class Local:
        __slots__ = ("k",)
    thing = Local()
    yield (lambda x: x * getattr(thing, "k", 1.0)), lambda: setattr(thing, "k", 3.0)


def slot_of_base_with_equal_values():
    class Base:
        __slots__ = ("a", "b")

    class Local(Base):
        __slots__ = ("c",)
    thing = Local()
    thing.a = thing.b = thing.c = 2.0
    yield (lambda x: x * thing.b), lambda: setattr(thing, "b", 3.0)


def property_of_state():
    class Local:
        def __init__(self):
            self._k = 2.0

        @property
        def k(self):
            return self._k
    thing = Local()
    yield (lambda x: x * thing.k), lambda: setattr(thing, "_k", 3.0)


def property_replaced():
    class Local:
        k = property(lambda self: 2.0)
    thing = Local()
    yield (lambda x: x * thing.k), lambda: setattr(Local, "k", property(lambda self: 3.0))


def property_with_cell():
    k = 2.0

    class Local:
        @property
        def k(self):
            return k

    def change():
        nonlocal k
        k = 4.0
    thing = Local()
    yield (lambda x: x * thing.k), change


def cached_property():
    class Local:
        def __init__(self):
            self.n = 2.0

        @functools.cached_property
        def k(self):
            return self.n + 1
    thing = Local()
    yield (lambda x: x * thing.k), lambda: delattr(thing, "k") or setattr(thing, "n", 9.0)


def descriptor():
    class Field:
        def __init__(self):
            self.value = 2.0

        def __get__(self, owner, kind=None):
            return self.value

    field = Field()

    class Local:
        k = field
    yield (lambda x: x * Local().k), lambda: setattr(field, "value", 3.0)


def descriptor_with_dict():
    class Field:
        def __init__(self):
            self.values = {}

        def __get__(self, owner, kind=None):
            return self.values.get(id(owner), 1.0)

        def __set__(self, owner, value):
            self.values[id(owner)] = value

    class Local:
        k = Field()
    thing = Local()
    thing.k = 2.0
    yield (lambda x: x * thing.k), lambda: setattr(thing, "k", 3.0)


def getattr_hook():
    class Local:
        def __init__(self):
            self.table = {"k": 2.0}

        def __getattr__(self, name):
            return self.table[name]
    thing = Local()
    yield (lambda x: x * thing.k), lambda: thing.table.update(k=3.0)


def getattr_hook_added():
    class Local:
        pass
    thing = Local()
    yield (lambda x: x * getattr(thing, "k", 1.0)), lambda: setattr(Local, "__getattr__", lambda self, name: 5.0)


def getattribute_hook():
    class Local:
        def __init__(self):
            self._k = 2.0

        def __getattribute__(self, name):
            return object.__getattribute__(self, "_" + name)
    thing = Local()
    yield (lambda x: x * thing.k), lambda: object.__setattr__(thing, "_k", 3.0)


def computed_name():
    c = Config()
    names = ["sca", "le"]
    yield (lambda x: x * getattr(c, "".join(names))), lambda: setattr(c, "scale", 3.0)


def computed_name_itself():
    c = Config()
    c.factor = 9.0
    names = ["scale"]
    yield (lambda x: x * getattr(c, names[0])), lambda: names.__setitem__(0, "factor")


def name_from_upper_case():
    c = Config()
    yield (lambda x: x * getattr(c, "SCALE".lower())), lambda: setattr(c, "scale", 3.0)


def hasattr_of_missing():
    c = Config()
    yield (lambda x: x * 2 if hasattr(c, "mark") else x), lambda: setattr(c, "mark", None)


def attrgetter():
    c = Config()
    get = operator.attrgetter("scale")
    yield (lambda x: x * get(c)), lambda: setattr(c, "scale", 3.0)


def attrgetter_made_inside():
    c = Config()
    yield (lambda x: x * operator.attrgetter("sc" + "ale")(c)), lambda: setattr(c, "scale", 3.0)


def nested_attrgetter():
    c = Config()
    c.inner = Config()
    get = operator.attrgetter("inner.scale")
    yield (lambda x: x * get(c)), lambda: setattr(c.inner, "scale", 3.0)


def methodcaller():
    class Local:
        k = 2.0

        def run(self):
            return self.k
    call = operator.methodcaller("run")
    thing = Local()
    yield (lambda x: x * call(thing)), lambda: setattr(thing, "k", 3.0)


def format_of_attribute():
    c = Config()
    yield (lambda x: x * float(f"{c.scale}")), lambda: setattr(c, "scale", 3.0)


def format_of_computed_attribute():
    c = Config()
    parts = ["{0.sc", "ale}"]
    yield (lambda x: x * float("".join(parts).format(c))), lambda: setattr(c, "scale", 3.0)


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
    "class_attribute_counted_by_instances", "exception_attribute", "subclasses_listed", "user_iterator",
    "weak_reference", "weak_value_dict"})
