"""Programs whose state lies in attributes of objects and classes."""

from __future__ import annotations

import functools
import operator
import typing


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


def attribute_instead_of_another():
    class Local:
        k = 2.0
    thing = Local()
    thing.count = 0

    def idle():
        thing.count += 1

    def change():
        del thing.count
        thing.k = 3.0
    yield (lambda x: x * thing.k), change, idle


def order_of_attributes():
    c = Config()
    c.other = 3.0

    def f(x):
        for name, value in vars(c).items():
            x = x * value if name == "scale" else x + value
        return x

    def change():
        scale = c.scale
        del c.scale
        c.scale = scale
    yield f, change


def order_of_attributes_of_a_class():
    class Local:
        a, b = 2.0, 3.0

    def f(x):
        for name, value in vars(Local).items():
            if name in ("a", "b"):
                x = x * value if name == "a" else x + value
        return x

    def change():
        held = Local.a
        del Local.a
        Local.a = held
    yield f, change


def class_with_many_versions():
    class Local:
        k, other = 2.0, 0

    def idle():
        for _ in range(200):  # more versions, all in all, than Python 3.13 gives to a class
            Local.other += 1
    yield (lambda x: x * Local.k), lambda: setattr(Local, "k", 3.0), idle


def type_parameters_of_a_function():
    def g():
        return 2.0
    g.__type_params__ = (int,)

    def change():
        g.__type_params__ = ()
    yield (lambda x: x * (g() + len(g.__type_params__))), change


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


#: Programs that write to what they read, or read what nothing can watch.
REFUSED = frozenset({
    "class_attribute_counted_by_instances"})
