"""Programs whose state lies in cells, defaults, globals and functions."""

from __future__ import annotations

import builtins
import functools
import math
import operator
import sys
import types

import tensocket as torch

SCALE = 2.0
FLAG = True
TABLE = {"a": 1.0, "b": 2.0}
COUNTER = 0
MARK = 1000
LR = 0.5


def helper(x):
    return x * 2


def helper_with_default(x, factor=2.0, *, shift=1.0):
    return x * factor + shift


class Holder:
    factor = 3.0


holder = Holder()
space = types.ModuleType("space_of_programs")
space.factor = 2.0
sys.modules["space_of_programs"] = space


def cell():
    scale = 1.0

    def f(x):
        return x * scale

    def change():
        nonlocal scale
        scale = 2.0
    yield f, change


def cell_of_inner_function():
    scale = 1.0

    def outer(x):
        def inner():
            return x * scale
        return inner()

    def change():
        nonlocal scale
        scale = 2.0
    yield outer, change


def cell_of_closure_made_before():
    def make(k):
        return lambda x: x * k
    first, second = make(2.0), make(3.0)
    box = [first]

    def f(x):
        return box[0](x)
    yield f, lambda: box.__setitem__(0, second)


def cell_of_stored_closure():
    def make():
        k = 2.0

        def g(x):
            return x * k

        def set_k(v):
            nonlocal k
            k = v
        return g, set_k
    g, set_k = make()
    yield (lambda x: g(x) + 1), lambda: set_k(5.0)


def empty_cell():
    def f(x):
        try:
            return x * late
        except NameError:
            return x

    def change():
        nonlocal late
        late = 3.0
    if f is None:
        late = 1.0
    yield f, change


def list_comprehension_over_cell():
    parts = [1.0, 2.0]
    yield (lambda x: sum([x * p for p in parts])), lambda: parts.append(3.0)


def generator_expression_over_cell():
    parts = (1.0, 2.0)

    def f(x):
        return sum(x * p for p in parts)

    def change():
        nonlocal parts
        parts = (1.0, 3.0)
    yield f, change


def default():
    def f(x, k=2.0):
        return x * k
    yield f, lambda: setattr(f, "__defaults__", (3.0,))


def default_of_helper():
    def g(x, k=2.0):
        return x * k
    yield (lambda x: g(x)), lambda: setattr(g, "__defaults__", (3.0,))


def default_list():
    def f(x, k=[2.0]):  # noqa: B006
        return x * k[0]
    yield f, lambda: f.__defaults__[0].__setitem__(0, 4.0)


def keyword_default():
    def f(x, *, k=2.0):
        return x * k
    yield f, lambda: f.__kwdefaults__.update(k=3.0)


def keyword_defaults_replaced():
    def f(x, *, k=2.0):
        return x * k
    yield f, lambda: setattr(f, "__kwdefaults__", {"k": 3.0})


def code_replaced():
    def f(x):
        return x * 2
    yield f, lambda: setattr(f, "__code__", (lambda x: x * 3).__code__)


def code_of_helper_replaced():
    def g(x):
        return x * 2
    yield (lambda x: g(x)), lambda: setattr(g, "__code__", (lambda x: x * 3).__code__)


def attribute_of_function():
    def f(x):
        return x * f.scale
    f.scale = 2.0
    yield f, lambda: setattr(f, "scale", 3.0)


def new_attribute_of_function():
    def f(x):
        return x * getattr(f, "scale", 1.0)
    yield f, lambda: setattr(f, "scale", 3.0)


def global_number():
    def change():
        global SCALE
        SCALE = 3.0
    yield (lambda x: x * SCALE), change
    globals()["SCALE"] = 2.0


def global_flag():
    def change():
        global FLAG
        FLAG = False
    yield (lambda x: x * 2 if FLAG else x), change
    globals()["FLAG"] = True


def global_deleted():
    globals()["PASSING"] = 1.0

    def f(x):
        try:
            return x * PASSING
        except NameError:
            return x * 9
    yield f, lambda: globals().pop("PASSING")
    globals().pop("PASSING", None)


def global_created():
    def f(x):
        try:
            return x * ABSENT
        except NameError:
            return x
    yield f, lambda: globals().update(ABSENT=7.0)
    globals().pop("ABSENT")


def global_dict_item():
    yield (lambda x: x * TABLE["a"]), lambda: TABLE.update(a=5.0)
    TABLE["a"] = 1.0


def global_function_replaced():
    yield (lambda x: helper(x)), lambda: globals().update(helper=lambda x: x * 3)
    globals()["helper"] = _HELPER


def global_function_default():
    yield (lambda x: helper_with_default(x)), lambda: setattr(helper_with_default, "__defaults__", (9.0,))
    helper_with_default.__defaults__ = (2.0,)


def global_function_kwdefault():
    yield (lambda x: helper_with_default(x)), lambda: helper_with_default.__kwdefaults__.update(shift=9.0)
    helper_with_default.__kwdefaults__.update(shift=1.0)


def global_hides_builtin():
    yield (lambda x: x * len([1, 2])), lambda: globals().update(len=lambda given: 7)
    globals().pop("len")


def builtin_replaced():
    before = builtins.ord  # other threads hardly call it in the meantime
    yield (lambda x: x * ord("a")), lambda: setattr(builtins, "ord", lambda given: 7)
    builtins.ord = before


def global_written():
    def f(x):
        global COUNTER
        COUNTER += 1
        return x * COUNTER
    yield f, lambda: None


def global_object_attribute():
    yield (lambda x: x * holder.factor), lambda: setattr(holder, "factor", 9.0)
    vars(holder).clear()


def global_class_attribute():
    yield (lambda x: x * Holder.factor), lambda: setattr(Holder, "factor", 9.0)
    Holder.factor = 3.0


def module_constant():
    yield (lambda x: x * space.factor), lambda: setattr(space, "factor", 3.0)
    space.factor = 2.0


def module_entry_replaced():
    def f(x):
        import space_of_programs
        return x * space_of_programs.factor
    other = types.ModuleType("space_of_programs")
    other.factor = 5.0
    yield f, lambda: sys.modules.update(space_of_programs=other)
    sys.modules["space_of_programs"] = space


def module_constant_of_import():
    def f(x):
        from space_of_programs import factor
        return x * factor
    yield f, lambda: setattr(space, "factor", 3.0)
    space.factor = 2.0


def modules_by_name():
    yield (lambda x: x * sys.modules["space_of_programs"].factor), lambda: setattr(space, "factor", 3.0)
    space.factor = 2.0


def module_through_local_alias():
    def scaled(m, x):
        return x * m.factor

    def f(x):
        m = space
        return scaled(m, x)
    yield f, lambda: setattr(space, "factor", 3.0)
    space.factor = 2.0


def module_class_replaced():
    class Lively(types.ModuleType):
        @property
        def shift(self):
            return 5.0

    def f(x):
        return x + getattr(space, "shift", 1.0)
    yield f, lambda: setattr(space, "__class__", Lively)
    space.__class__ = types.ModuleType


def module_getattr():
    def f(x):
        try:
            return x * space.missing
        except AttributeError:
            return x
    yield f, lambda: setattr(space, "__getattr__", lambda name: 4.0)
    del space.__getattr__


def standard_function_replaced():
    before = math.sqrt
    yield (lambda x: x * math.sqrt(4.0)), lambda: setattr(math, "sqrt", lambda v: 100.0)
    math.sqrt = before


def torch_function_replaced():
    before = torch.relu
    yield (lambda x: torch.relu(x - 2)), lambda: setattr(torch, "relu", lambda v: v)
    torch.relu = before


def functional_replaced():
    before = torch.nn.functional.gelu
    yield (lambda x: torch.nn.functional.gelu(x)), lambda: setattr(torch.nn.functional, "gelu", lambda v: v)
    torch.nn.functional.gelu = before


def method_of_tensor_replaced():
    before = torch.Tensor.exp
    yield (lambda x: x.exp()), lambda: setattr(torch.Tensor, "exp", lambda v: v)
    torch.Tensor.exp = before


def partial_argument():
    box = [2.0]
    g = functools.partial(lambda k, x: x * k[0], box)
    yield (lambda x: g(x)), lambda: box.__setitem__(0, 3.0)


def partial_keyword():
    g = functools.partial(lambda x, k: x * k, k=2.0)
    yield (lambda x: g(x)), lambda: g.keywords.update(k=3.0)


def partial_as_root():
    box = [2.0]
    yield functools.partial(lambda k, x: x * k[0], box), lambda: box.__setitem__(0, 3.0)


def bound_method_of_builtin():
    table = {"k": 2.0}
    get = table.get
    yield (lambda x: x * get("k")), lambda: table.update(k=3.0)


def bound_method_stored():
    class Thing:
        def __init__(self):
            self.k = 2.0

        def times(self, x):
            return x * self.k
    thing = Thing()
    method = thing.times
    yield (lambda x: method(x)), lambda: setattr(thing, "k", 3.0)


def decorated():
    table = {"k": 2.0}

    def scaled(function):
        @functools.wraps(function)
        def call(x):
            return function(x) * table["k"]
        return call

    @scaled
    def f(x):
        return x + 1
    yield f, lambda: table.update(k=3.0)


def recursion():
    depth = [3]

    def g(x, n):
        return x if n == 0 else g(x * 2, n - 1)
    yield (lambda x: g(x, depth[0])), lambda: depth.__setitem__(0, 2)


def reduced():
    parts = [1.0, 2.0]
    yield (lambda x: functools.reduce(operator.mul, parts, x)), lambda: parts.append(4.0)


def sorted_by_key():
    weights = {"a": 1.0, "b": 2.0}

    def f(x):
        first = sorted(["a", "b"], key=lambda name: weights[name])[0]
        return x * (1.0 if first == "a" else 5.0)
    yield f, lambda: weights.update(a=3.0)


def mapped():
    table = {1: 2.0, 2: 3.0}
    yield (lambda x: sum(map(lambda k: x * table[k], (1, 2)))), lambda: table.update({1: 9.0})  # noqa: C417


def conditional_function():
    flag = [True]

    def a(x):
        return x * 2

    def b(x):
        return x * 3
    yield (lambda x: (a if flag[0] else b)(x)), lambda: flag.__setitem__(0, False)


def function_not_run_yet():
    flag = [False]
    late = [5.0]

    def rare(x):
        return x * late[0]
    yield (lambda x: rare(x) if flag[0] else x), lambda: flag.__setitem__(0, True)


def identity_of_numbers():
    box = types.SimpleNamespace(value=MARK)
    yield (lambda x: x * 2 if box.value is MARK else x), lambda: setattr(box, "value", int("1000"))


def identity_of_objects():
    first, second = object(), object()
    box = [first]
    yield (lambda x: x * 2 if box[0] is first else x), lambda: box.__setitem__(0, second)


def identity_by_function():
    box = types.SimpleNamespace(value=MARK)
    yield (lambda x: x * 2 if operator.is_(box.value, MARK) else x), lambda: setattr(box, "value", int("1000"))


def identity_by_id():
    box = types.SimpleNamespace(value=MARK)
    yield (lambda x: x * 2 if id(box.value) == id(MARK) else x), lambda: setattr(box, "value", int("1000"))


def sign_of_zero():
    box = [0.0]
    yield (lambda x: x * math.copysign(1.0, box[0])), lambda: box.__setitem__(0, -0.0)


def int_for_bool():
    box = [True]
    yield (lambda x: x * 2 if isinstance(box[0], bool) else x), lambda: box.__setitem__(0, 1)


def int_for_float():
    box = [2.0]
    yield (lambda x: (x.int() * box[0])), lambda: box.__setitem__(0, 2)


def dunder_name_of_function():
    def g(x):
        return x
    yield (lambda x: x * len(g.__name__)), lambda: setattr(g, "__name__", "longer")


def annotation():
    def g(x: float) -> float:
        return x
    g.__annotations__ = {"x": 1.0}
    yield (lambda x: x * g.__annotations__["x"]), lambda: g.__annotations__.update(x=2.0)


def wrapped_attribute():
    def g(x):
        return x * 2

    def h(x):
        return x * 3
    g.__wrapped__ = g
    yield (lambda x: g.__wrapped__(x)), lambda: setattr(g, "__wrapped__", h)


def lambda_in_dict():
    table = {"f": lambda x: x * 2}
    yield (lambda x: table["f"](x)), lambda: table.update(f=lambda x: x * 3)


def value_of_global_each_iteration():
    """A script rebinds a global in each iteration, and the function reads it."""
    def change():
        global LR
        LR = 0.25
    yield (lambda x: x * LR), change
    globals()["LR"] = 0.5


_HELPER = helper


#: Programs that write to what they read, or read what nothing can watch.
REFUSED = frozenset({
    "global_written"})
