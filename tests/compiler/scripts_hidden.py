"""Scripts over state behind objects that look as if they had none: aliases, slices, records, descriptions of code."""

from __future__ import annotations

import array
import ctypes
import datetime
import decimal
import inspect
import operator
import sys
import types
import typing
from collections import OrderedDict, UserDict, deque
from fractions import Fraction

import numpy as np

import tensocket as torch

from .scripts import CALLS, calls, outcome, vector


def _local(**values):
    """Return a class with attributes."""
    return type("Local", (), values)


def class_behind_an_alias(compiled):
    for make in (lambda kind: list[kind], lambda kind: kind | None, lambda kind: typing.List[kind],  # noqa: UP006
                 lambda kind: typing.Annotated[int, kind], lambda kind: typing.Callable[[kind], int]):
        kind = _local(k=2.0)
        alias = make(kind)
        del kind

        def f(x, alias=alias):
            found = getattr(alias, "__metadata__", None) or alias.__args__
            return x * next(each.k for each in found if hasattr(each, "k"))
        run = compiled(f)
        yield from calls(run)
        found = getattr(alias, "__metadata__", None) or alias.__args__
        next(each for each in found if hasattr(each, "k")).k = 3.0
        yield from calls(run)


def object_behind_an_annotation(compiled):
    values = [2.0]
    alias = typing.Annotated[int, values]
    run = compiled(lambda x: x * alias.__metadata__[0][0])
    yield from calls(run)
    values[0] = 3.0
    yield from calls(run)


def bound_of_a_type_variable(compiled):
    kind = _local(k=2.0)
    variable = typing.TypeVar("variable", bound=kind)
    run = compiled(lambda x: x * variable.__bound__.k)
    yield from calls(run)
    kind.k = 3.0
    yield from calls(run)


def attribute_of_a_type_variable(compiled):
    variable = typing.TypeVar("variable")
    variable.k = 2.0
    run = compiled(lambda x: x * variable.k)
    yield from calls(run)
    variable.k = 3.0
    yield from calls(run)


def constraint_of_a_type_variable(compiled):
    kind = _local(k=2.0)
    variable = typing.TypeVar("variable", kind, int)
    run = compiled(lambda x: x * variable.__constraints__[0].k)
    yield from calls(run)
    kind.k = 3.0
    yield from calls(run)


def attribute_of_an_alias(compiled):
    alias = typing.List[int]  # noqa: UP006
    object.__setattr__(alias, "k", 2.0)
    run = compiled(lambda x: x * vars(alias)["k"])
    yield from calls(run)
    object.__setattr__(alias, "k", 3.0)
    yield from calls(run)


def list_in_a_slice(compiled):
    values = [2.0]
    part = slice(values, None)
    run = compiled(lambda x: x * part.start[0])
    yield from calls(run)
    values[0] = 3.0
    yield from calls(run)


def object_that_gives_an_index_in_a_slice(compiled):
    class Place:
        at = 1

        def __index__(self):
            return self.at
    part = slice(Place(), None)
    run = compiled(lambda x: x[part] * 2)
    yield from calls(run)
    Place.at = 2
    yield from calls(run)


def list_in_a_getter(compiled):
    class Key:
        at = 0

        def __index__(self):
            return self.at
    get = operator.itemgetter(Key())
    run = compiled(lambda x: x * get([2.0, 3.0]))
    yield from calls(run)
    Key.at = 1
    yield from calls(run)


def record_of_an_array(compiled):
    table = np.zeros(2, [("a", "f8"), ("b", "i4")])
    record = table[0]
    record["a"] = 2.0
    run = compiled(lambda x: x * float(record["a"]))
    yield from calls(run)
    record["a"] = 3.0
    yield from calls(run)
    table["a"] = 5.0
    yield from calls(run)


def record_made_alone(compiled):
    record = np.void((2.0, 1), dtype=[("a", "f8"), ("b", "i4")])
    run = compiled(lambda x: x * float(record[0]))
    yield from calls(run)
    record["a"] = 3.0
    yield from calls(run)


def function_of_arrays_made_of_a_function(compiled):
    values = [2.0]
    scaled = np.frompyfunc(lambda k: k * values[0], 1, 1)
    run = compiled(lambda x: x * float(scaled(1.0)))
    yield from calls(run)
    values[0] = 3.0
    yield from calls(run)


def vectorized_function(compiled):
    values = [2.0]
    scaled = np.vectorize(lambda k: k * values[0])
    run = compiled(lambda x: x * float(scaled(np.ones(2)).sum()))
    yield from calls(run)
    values[0] = 3.0
    yield from calls(run)
    scaled.pyfunc = lambda k: k - 7
    yield from calls(run)


def errors_of_arrays(compiled):
    def f(x):
        try:
            with np.errstate():
                return x * float(np.nan_to_num(zero / zero)[0])
        except FloatingPointError:
            return x * 7
    zero = np.zeros(1)
    run = compiled(f)
    before = np.geterr()
    try:
        np.seterr(all="ignore")
        yield from calls(run)
        np.seterr(all="raise")
        yield from calls(run)
    finally:
        np.seterr(**before)


def answer_to_errors_of_arrays(compiled):
    run = compiled(lambda x: x * (2 if np.geterrcall() is None else 3) + np.getbufsize() % 7)
    yield from calls(run)
    before = np.seterrcall(lambda *given: None)
    size = np.setbufsize(16 * 1024)
    try:
        yield from calls(run)
    finally:
        np.seterrcall(before)
        np.setbufsize(size)


def defaults_of_a_function_that_does_not_run(compiled):
    def g(k=2.0, *, j=2.0):
        return k, j
    for read in (lambda x: x * g.__defaults__[0], lambda x: x * g.__kwdefaults__["j"],
                 lambda x: x * inspect.signature(g).parameters["k"].default,
                 lambda x: x * len(inspect.signature(g).parameters),
                 lambda x: x * g.__code__.co_argcount + g.__code__.co_kwonlyargcount):
        g.__defaults__, g.__kwdefaults__ = (2.0,), {"j": 2.0}
        code = g.__code__
        run = compiled(read)
        yield from calls(run)
        g.__defaults__, g.__kwdefaults__ = (3.0,), {"j": 3.0}
        yield from calls(run)
        g.__kwdefaults__["j"] = 4.0
        yield from calls(run)
        g.__code__ = (lambda a, b, c, *, d, e: 1).__code__
        yield from calls(run)
        g.__code__ = code


def cells_of_a_function_that_does_not_run(compiled):
    k = 2.0

    def g():
        return k
    run = compiled(lambda x: x * g.__closure__[0].cell_contents)
    yield from calls(run)
    k = 3.0
    yield from calls(run)
    run = compiled(lambda x: x * inspect.getclosurevars(g).nonlocals["k"])
    k = 5.0
    yield from calls(run)


def globals_of_a_function_that_does_not_run(compiled):
    space = {"k": 2.0}
    exec("def g(): return k", space)
    g = space["g"]
    run = compiled(lambda x: x * g.__globals__["k"])
    yield from calls(run)
    space["k"] = 3.0
    yield from calls(run)


def constants_of_code(compiled):
    def g():
        return 2.0
    run = compiled(lambda x: x * g.__code__.co_consts[1])
    yield from calls(run)
    g.__code__ = g.__code__.replace(co_consts=(None, 3.0))
    yield from calls(run)


def names_in_code(compiled):
    def g():
        return 2.0
    run = compiled(lambda x: x * len(g.__code__.co_filename) + len(g.__code__.co_qualname))
    yield from calls(run)
    g.__code__ = g.__code__.replace(co_filename="a", co_qualname="b")
    yield from calls(run)


def method_of_an_object_that_does_not_run(compiled):
    class Local:
        def run(self, k=2.0):
            return k
    thing = Local()
    read = compiled(lambda x: x * thing.run.__func__.__defaults__[0])
    yield from calls(read)
    Local.run.__defaults__ = (3.0,)
    yield from calls(read)


def property_that_does_not_run(compiled):
    class Local:
        @property
        def k(self, more=2.0):
            return more
    read = compiled(lambda x: x * Local.k.fget.__defaults__[0])
    yield from calls(read)
    Local.k.fget.__defaults__ = (3.0,)
    yield from calls(read)


def partial_that_does_not_run(compiled):
    import functools
    values = [2.0]
    part = functools.partial(print, values, end="")
    read = compiled(lambda x: x * part.args[0][0] + len(part.keywords["end"]))
    yield from calls(read)
    values[0] = 3.0
    yield from calls(read)
    part.keywords["end"] = "abc"
    yield from calls(read)


def numbers_in_c_memory(compiled):
    number = ctypes.c_double(2.0)
    run = compiled(lambda x: x * number.value)
    yield from calls(run)
    number.value = 3.0
    yield from calls(run)
    buffer = (ctypes.c_float * 4)(1, 2, 3, 4)
    run = compiled(lambda x: x * buffer[1] + torch.frombuffer(buffer, dtype=torch.float32))
    yield from calls(run)
    buffer[1] = 7
    yield from calls(run)


def structure_in_c_memory(compiled):
    class Pair(ctypes.Structure):
        _fields_: typing.ClassVar = [("a", ctypes.c_int), ("b", ctypes.c_int)]
    pair = Pair(2, 3)
    run = compiled(lambda x: x * pair.a)
    yield from calls(run)
    pair.a = 5
    yield from calls(run)


def arrays_of_the_standard_library(compiled):
    values = array.array("d", [2.0, 3.0])
    run = compiled(lambda x: x * values[0] + len(values))
    yield from calls(run)
    values[0] = 5.0
    yield from calls(run)
    values.append(1.0)
    yield from calls(run)


def buffer_seen_by_a_memory_view(compiled):
    held = bytearray(b"\x02\x03")
    seen = memoryview(held)[1:]
    run = compiled(lambda x: x * seen[0] + held[0])
    yield from calls(run)
    held[1] = 9
    yield from calls(run)
    held[0] = 4
    yield from calls(run)


def context_of_decimals(compiled):
    one, three = decimal.Decimal(1), decimal.Decimal(3)
    run = compiled(lambda x: x * len(str(one / three)))
    with decimal.localcontext() as context:
        context.prec = 5
        yield from calls(run)
        context.prec = 9
        yield from calls(run)


def fraction_in_a_cell(compiled):
    k = Fraction(1, 2)
    run = compiled(lambda x: x * float(k) + k.numerator)
    yield from calls(run)
    k._numerator = 3
    yield from calls(run)
    k = Fraction(7, 2)
    yield from calls(run)


def zone_of_a_time(compiled):
    class Zone(datetime.tzinfo):
        hours = 2

        def utcoffset(self, when):
            return datetime.timedelta(hours=self.hours)

        def dst(self, when):
            return datetime.timedelta(0)
    when = datetime.datetime(2020, 1, 1, tzinfo=Zone())
    start = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    run = compiled(lambda x: x * ((start - when).total_seconds() / 3600))
    yield from calls(run)
    Zone.hours = 3
    yield from calls(run)


def limit_of_digits(compiled):
    run = compiled(lambda x: x * sys.get_int_max_str_digits())
    before = sys.get_int_max_str_digits()
    try:
        yield from calls(run)
        sys.set_int_max_str_digits(640)
        yield from calls(run)
    finally:
        sys.set_int_max_str_digits(before)
    yield from calls(run)


def container_of_the_user(compiled):
    class Own(UserDict):
        def __missing__(self, key):
            return self.fallback
    table = Own()
    table.fallback = 2.0
    run = compiled(lambda x: x * table["a"])
    yield from calls(run)
    table.fallback = 3.0
    yield from calls(run)
    table["a"] = 5.0
    yield from calls(run)
    table.data = OrderedDict(a=7.0)
    yield from calls(run)
    table.data.move_to_end("a")
    table.data["a"] = 8.0
    yield from calls(run)


def queue_with_a_longest_length(compiled):
    values = deque([1.0, 2.0, 3.0], maxlen=3)
    run = compiled(lambda x: x * values[0] + (values.maxlen or 0))
    for k in range(CALLS):
        values.append(float(k))
        yield outcome(run, vector())


def module_whose_namespace_changes_class(compiled):
    module = types.ModuleType("own")
    module.k = 2.0
    run = compiled(lambda x: x * module.k * len(vars(module)))
    yield from calls(run)
    module.j = 3.0
    yield from calls(run)
    del module.k
    yield from calls(run)
