"""Programs that reach state by detours: through C functions that call others, aliases, and the standard library."""

from __future__ import annotations

import bisect
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import heapq
import itertools
import json
import operator
import pickle
import random
import re
import statistics
import string
import struct
import time
import types
import typing

import tensocket as torch
from tensocket import nn


class Config:
    def __init__(self):
        self.scale = 2.0


def time_of(values):
    return len(values)


_get_attribute = object.__getattribute__
_Getter = operator.attrgetter


def clock_in_partial():
    now = functools.partial(time.time)
    yield (lambda x: x * now()), lambda: None


def clock_in_partial_made_inside():
    yield (lambda x: x * functools.partial(time.time)()), lambda: None


def clock_in_iterator():
    yield (lambda x: x * next(iter(time.time, None))), lambda: None


def random_numbers_in_map():
    yield (lambda x: x * sum(map(random.uniform, (0, 1), (1, 2)))), lambda: None


def bound_random_method_in_map():
    yield (lambda x: x * sum(map(random.getrandbits, (3, 4)))), lambda: None


def random_numbers_in_starmap():
    yield (lambda x: x * sum(itertools.starmap(random.random, [()]))), lambda: None


def clock_in_defaultdict():
    yield (lambda x: x * collections.defaultdict(time.time)["a"]), lambda: None


def clock_in_substitution():
    yield (lambda x: x * len(re.sub("a", lambda match: str(time.time()), "aa"))), lambda: None


def clock_in_class():
    class Local:
        now = time.time
    yield (lambda x: x * Local.now()), lambda: None


def clock_as_factory_of_field():
    @dataclasses.dataclass
    class Local:
        at: float = dataclasses.field(default_factory=time.time)
    yield (lambda x: x * Local().at), lambda: None


def clock_in_list():
    functions = [time.time]
    yield (lambda x: x * sum(f() for f in functions)), lambda: None


def clock_in_tree_map():
    yield (lambda x: x * len(torch.utils._pytree.tree_map(time.ctime, [1.0])[0]) * time_of([0])), lambda: None


def random_bits_by_the_runtime():
    yield (lambda x: x * torch.utils._pytree.tree_map(random.getrandbits, [8])[0]), lambda: None


def own_builtins():
    table = {"k": 2.0}
    space = {"__builtins__": table}
    g = types.FunctionType((lambda x: x * k).__code__, space)  # noqa: F821
    yield (lambda x: g(x)), lambda: table.update(k=3.0)


def partial_set_again():
    g = functools.partial(lambda k, x: x * k, 2.0)
    yield (lambda x: g(x)), lambda: g.__setstate__((g.func, (3.0,), {}, {}))


def property_initialized_again():
    read = property(lambda self: 2.0)
    kind = type("Local", (), {"k": read})
    yield (lambda x: x * kind().k), lambda: read.__init__(lambda self: 3.0)


def static_method_initialized_again():
    method = staticmethod(lambda x: x * 2)
    kind = type("Local", (), {"run": method})
    yield (lambda x: kind.run(x)), lambda: method.__init__(lambda x: x * 3)


def handled_exception():
    import sys
    yield (lambda x: x * 2 if sys.exc_info()[0] else x), lambda: None


def offset_of_view():
    w = torch.arange(8.0)[2:6]
    yield (lambda x: x * w.storage_offset()), lambda: None


def print_not_reached():
    c = Config()
    c.verbose = False

    def f(x):
        if c.verbose:
            print("x")
        return x * c.scale
    yield f, lambda: setattr(c, "scale", 3.0)


def getattr_in_partial():
    c = Config()
    get = functools.partial(getattr, c)
    yield (lambda x: x * get("sc" + "ale")), lambda: setattr(c, "scale", 3.0)


def getattr_in_map():
    c = Config()
    yield (lambda x: x * sum(map(getattr, [c], ["sc" + "ale"]))), lambda: setattr(c, "scale", 3.0)


def getattr_by_alias():
    c = Config()
    get = getattr
    yield (lambda x: x * get(c, "sc" + "ale")), lambda: setattr(c, "scale", 3.0)


def getter_by_alias():
    c = Config()
    yield (lambda x: x * _Getter("sc" + "ale")(c)), lambda: setattr(c, "scale", 3.0)


def attribute_function_by_alias():
    c = Config()
    yield (lambda x: x * _get_attribute(c, "sc" + "ale")), lambda: setattr(c, "scale", 3.0)


def dict_by_computed_name():
    c = Config()
    yield (lambda x: x * getattr(c, "__di" + "ct__")["sc" + "ale"]), lambda: setattr(c, "scale", 3.0)


def identity_in_map():
    c = Config()
    mark = 1000
    c.scale = mark
    yield ((lambda x: x * 2 if any(map(operator.is_, [c.scale], [mark])) else x),
           lambda: setattr(c, "scale", int("1000")))


def item_getter():
    table = {"a": 2.0}
    get = operator.itemgetter("a")
    yield (lambda x: x * get(table)), lambda: table.update(a=3.0)


def context_manager_function():
    c = Config()

    @contextlib.contextmanager
    def scaled():
        yield c.scale

    def f(x):
        with scaled() as k:
            return x * k
    yield f, lambda: setattr(c, "scale", 3.0)


def suppressed_exception():
    table = {}

    def f(x):
        with contextlib.suppress(KeyError):
            return x * table["a"]
        return x
    yield f, lambda: table.update(a=3.0)


def exit_stack():
    c = Config()

    def f(x):
        with contextlib.ExitStack() as stack:
            box = []
            stack.callback(lambda: box.append(c.scale))
        return x * box[0]
    yield f, lambda: setattr(c, "scale", 3.0)


def shallow_copy():
    c = Config()
    yield (lambda x: x * copy.copy(c).scale), lambda: setattr(c, "scale", 3.0)


def deep_copy():
    table = {"a": [2.0]}
    yield (lambda x: x * copy.deepcopy(table)["a"][0]), lambda: table["a"].__setitem__(0, 3.0)


def json_text():
    table = {"a": 2.0}
    yield (lambda x: x * len(json.dumps(table))), lambda: table.update(b=3.0)


def pickled():
    table = {"a": 2.0}
    yield (lambda x: x * len(pickle.dumps(table))), lambda: table.update(b=3.0)


def regular_expression():
    c = Config()
    c.pattern = re.compile("a+")
    yield (lambda x: x * len(c.pattern.findall("ab"))), lambda: setattr(c, "pattern", re.compile("[ab]"))


def template():
    text = string.Template("$a")
    table = {"a": "2"}
    yield (lambda x: x * float(text.substitute(table))), lambda: table.update(a="3")


def packed():
    c = Config()
    yield (lambda x: x * struct.unpack("d", struct.pack("d", c.scale))[0]), lambda: setattr(c, "scale", 3.0)


def mean():
    values = [1.0, 2.0]
    yield (lambda x: x * statistics.mean(values)), lambda: values.append(9.0)


def bisected():
    values = [1.0, 2.0]
    yield (lambda x: x * bisect.bisect(values, 1.5)), lambda: values.insert(0, 0.5)


def heap():
    values = [1.0, 2.0]
    yield (lambda x: x * heapq.nsmallest(1, values)[0]), lambda: values.append(0.5)


def fields_replaced():
    @dataclasses.dataclass
    class Options:
        a: float = 2.0
        b: float = 3.0
    options = Options()
    yield (lambda x: x * dataclasses.replace(options, a=1.0).b), lambda: setattr(options, "b", 5.0)


def fields_as_dict():
    @dataclasses.dataclass
    class Options:
        a: float = 2.0
    options = Options()
    yield (lambda x: x * dataclasses.asdict(options)["a"]), lambda: setattr(options, "a", 5.0)


def flags():
    class Kind(enum.Flag):
        A = 1
        B = 2
    box = [Kind.A]
    yield (lambda x: x * 2 if Kind.B in box[0] else x), lambda: box.__setitem__(0, Kind.A | Kind.B)


def ordering_by_comparison():
    weights = {"a": 1, "b": 2}

    def f(x):
        first = sorted("ab", key=functools.cmp_to_key(lambda a, b: weights[a] - weights[b]))[0]
        return x * (2 if first == "a" else 3)
    yield f, lambda: weights.update(a=5)


def total_ordering():
    @functools.total_ordering
    class Local:
        def __init__(self, k):
            self.k = k

        def __eq__(self, other):
            return self.k == other.k

        def __lt__(self, other):
            return self.k < other.k

        __hash__ = None
    a, b = Local(1), Local(2)
    yield (lambda x: x * 2 if b >= a else x), lambda: setattr(a, "k", 5)


def partial_method():
    class Local:
        def run(self, x, k):
            return x * k * self.scale
        double = functools.partialmethod(run, k=2)
    thing = Local()
    thing.scale = 1.0
    yield (lambda x: thing.double(x)), lambda: setattr(thing, "scale", 3.0)


def generic_class():
    T = typing.TypeVar("T")

    class Box(typing.Generic[T]):
        def __init__(self, value):
            self.value = value
    box = Box[float](2.0)
    yield (lambda x: x * box.value), lambda: setattr(box, "value", 3.0)


def attribute_of_generic_alias():
    class Box(typing.Generic[typing.TypeVar("T")]):
        k = 2.0
    alias = Box[int]
    yield (lambda x: x * alias.k), lambda: setattr(Box, "k", 3.0)


def typed_dict():
    class Options(typing.TypedDict):
        a: float
    options = Options(a=2.0)
    yield (lambda x: x * options["a"]), lambda: options.update(a=3.0)


def two_paths_to_one_list():
    items = [2.0]
    c = Config()
    c.items = items
    yield (lambda x: x * c.items[0]), lambda: items.__setitem__(0, 3.0)


def list_exchanged_for_an_equal_one_then_written():
    c = Config()
    c.items = [2.0]

    def change():
        c.items = [2.0]
        c.items[0] = 3.0
    yield (lambda x: x * c.items[0]), change


def module_of_namespace():
    space = types.ModuleType("made")
    exec("k = 2.0\ndef g(x):\n    return x * k", space.__dict__)
    yield (lambda x: space.g(x)), lambda: setattr(space, "k", 3.0)


def function_with_own_globals():
    table = {"k": 2.0, "__builtins__": {}}
    g = types.FunctionType((lambda x: x * k).__code__, table)  # noqa: F821
    yield (lambda x: g(x)), lambda: table.update(k=3.0)


def function_exchanged_in_a_registry():
    registry = {}

    def register(function):
        registry[function.__name__] = function
        return function

    @register
    def act(x):
        return x * 2

    def change():
        @register
        def act(x):
            return x * 3
    yield (lambda x: registry["act"](x)), change


def late_binding_of_method():
    class Local:
        def run(self, x):
            return self.inner(x)

        def inner(self, x):
            return x * 2
    thing = Local()
    yield (lambda x: thing.run(x)), lambda: setattr(thing, "inner", lambda x: x * 3)


def walrus_and_ternary():
    c = Config()
    yield (lambda x: x * (k if (k := c.scale) > 1 else 1.0)), lambda: setattr(c, "scale", 3.0)


def star_arguments():
    args = [2.0]

    def g(x, *rest):
        return x * rest[0]
    yield (lambda x: g(x, *args)), lambda: args.__setitem__(0, 3.0)


def assertion():
    c = Config()

    def f(x):
        try:
            assert c.scale < 2.5
        except AssertionError:
            return x
        return x * 2
    yield f, lambda: setattr(c, "scale", 3.0)


def match_of_mapping():
    table = {"kind": "a", "k": 2.0}

    def f(x):
        match table:
            case {"kind": "a", "k": k}:
                return x * k
        return x
    yield f, lambda: table.update(kind="b")


def match_of_enum():
    class Kind(enum.Enum):
        A = 1
        B = 2
    c = Config()
    c.kind = Kind.A

    def f(x):
        match c.kind:
            case Kind.A:
                return x * 2
        return x
    yield f, lambda: setattr(c, "kind", Kind.B)


def tree_of_registered_class():
    class Node:
        def __init__(self, value):
            self.value = value
    node = Node(2.0)
    torch.utils._pytree.register_pytree_node(Node, lambda n: ((n.value,), None), lambda c, k: Node(*c))

    def f(x):
        return x * torch.utils._pytree.tree_map(lambda v: v * 2, node).value
    yield f, lambda: setattr(node, "value", 3.0)


def tree_of_class_registered_later():
    class Node:
        def __init__(self, value):
            self.value = value
    node = Node(2.0)

    def change():
        torch.utils._pytree.register_pytree_node(Node, lambda n: ((n.value,), None), lambda c, k: Node(*c))
    yield (lambda x: x * len([1, *torch.utils._pytree.tree_leaves([node, node])]) * (
        2 if torch.utils._pytree.tree_leaves(node)[0] is node else 1)), change


def functional_call():
    m = nn.Linear(4, 4)
    weights = {"weight": torch.ones(4, 4), "bias": torch.ones(4)}
    yield (lambda x: torch.func.functional_call(m, weights, (x,))), lambda: weights.update(bias=torch.zeros(4))


def gradient_by_transform():
    c = Config()
    yield torch.func.grad(lambda x: (x * c.scale).sum()), lambda: setattr(c, "scale", 3.0)


def mapped_by_transform():
    c = Config()
    yield torch.vmap(lambda x: x * c.scale), lambda: setattr(c, "scale", 3.0)


def custom_operator():
    factor = [2.0]

    @torch.library.custom_op("guards_programs::scaled", mutates_args=())
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * factor[0]
    yield (lambda x: scaled(x)), lambda: factor.__setitem__(0, 3.0)


def checkpointed_state():
    c = Config()

    def f(x):
        y = x.clone().requires_grad_()
        torch.utils.checkpoint.checkpoint(lambda z: z * c.scale, y, use_reentrant=False).sum().backward()
        return y.grad
    yield f, lambda: setattr(c, "scale", 3.0)


def weight_norm():
    m = torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
    yield m, lambda: torch.nn.utils.parametrize.remove_parametrizations(m, "weight") and m.requires_grad_(False)


#: Programs that write to what they read, or read what nothing can watch.
REFUSED = frozenset({
    "bound_random_method_in_map", "clock_as_factory_of_field", "clock_in_class", "clock_in_defaultdict",
    "clock_in_iterator", "clock_in_list", "clock_in_partial", "clock_in_partial_made_inside",
    "clock_in_substitution", "clock_in_tree_map", "getattr_by_alias", "handled_exception", "json_text", "mean",
    "offset_of_view", "pickled", "random_bits_by_the_runtime", "random_numbers_in_map",
    "random_numbers_in_starmap", "shallow_copy"})
