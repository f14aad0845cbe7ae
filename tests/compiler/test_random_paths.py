"""Random paths through objects to a number: a change anywhere on the path is caught, and changes beside it are not."""

from __future__ import annotations

import collections
import functools
import random
import types

import pytest

import tensocket as torch
from tensocket_compiler.capture.layout import LAYOUT

from .judge import guard, writes

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is observed without a known layout")
X = torch.ones(2)


class Instance:
    """An object with a dict."""


class Slotted:
    """An object with slots."""

    __slots__ = ("a", "b")


class WithProperty:
    """An object whose property reads another attribute."""

    @property
    def a(self):
        return self._a


def attribute(kind):
    """A step through an attribute ``a``, beside which ``b`` may change."""
    def make(value):
        thing = kind()
        thing.a = value
        return thing, "{}.a", lambda new: setattr(thing, "a", new), lambda: setattr(thing, "b", object())
    return make


def as_member(value):
    """A value as a class attribute that does not become a method."""
    return staticmethod(value) if isinstance(value, types.FunctionType) else value


def class_attribute(value):
    kind = type("Made", (), {"a": as_member(value)})
    return kind(), "{}.a", lambda new: setattr(kind, "a", new), lambda: setattr(kind, "b", object())


def inherited_attribute(value):
    base = type("Base", (), {"a": as_member(value)})
    kind = type("Made", (base,), {})
    return kind, "{}.a", lambda new: setattr(base, "a", new), lambda: setattr(kind, "b", object())


def property_value(value):
    thing = WithProperty()
    thing._a = value
    return thing, "{}.a", lambda new: setattr(thing, "_a", new), lambda: setattr(thing, "b", object())


def list_item(value):
    items = [0, value]
    return items, "{}[1]", lambda new: items.__setitem__(1, new), lambda: None


def queue_item(value):
    items = collections.deque([0, value])
    return items, "{}[1]", lambda new: items.__setitem__(1, new), lambda: None


def dict_item(value):
    table = {"k": value, 3: 0}
    return table, "{}['k']", lambda new: table.update(k=new), lambda: table.update({3: sum([0])})


def ordered_item(value):
    table = collections.OrderedDict(k=value)
    return table, "{}['k']", lambda new: table.update(k=new), lambda: list(table)


def tuple_item(value):
    """A tuple does not change; the object that holds it gets another one."""
    return (0, value), "{}[1]", None, lambda: None


def method_result(value):
    thing = Instance()
    thing.a = value
    thing.get = types.MethodType(lambda self: self.a, thing)
    return thing, "{}.get()", lambda new: setattr(thing, "a", new), lambda: setattr(thing, "b", object())


def cell_content(value):
    def get():
        return value

    def put(new):
        nonlocal value
        value = new
    return get, "{}()", put, lambda: None


def default_value(value):
    def get(k=value):
        return k
    return get, "{}()", lambda new: setattr(get, "__defaults__", (new,)), lambda: setattr(get, "mark", object())


def partial_value(value):
    box = [value]
    return functools.partial(lambda b: b[0], box), "{}()", lambda new: box.__setitem__(0, new), lambda: None


def computed_attribute(value):
    thing = Instance()
    thing.a = value
    return thing, "getattr({}, 'abc'[0])", lambda new: setattr(thing, "a", new), lambda: setattr(thing, "b", object())


def module_attribute(value):
    module = types.ModuleType("made")
    module.a = value
    return module, "{}.a", lambda new: setattr(module, "a", new), lambda: setattr(module, "b", object())


STEPS = (attribute(Instance), attribute(Slotted), attribute(types.SimpleNamespace), class_attribute,
         inherited_attribute, property_value, list_item, queue_item, dict_item, ordered_item, tuple_item,
         method_result, cell_content, default_value, partial_value, computed_attribute, module_attribute)


def make_path(rng):
    """A root object, the code of a path to a number, and writers: (write a new number, set beside), innermost first."""
    value, code, writers = 2.0, "{}", []
    for step in rng.choices(STEPS, k=rng.randint(1, 6)):
        inner_code = code
        value, outer_code, write, beside = step(value)
        code = inner_code.replace("{}", outer_code)
        writers.append((write, beside, inner_code))
    return value, code, writers


def rebuilt(code, number):
    """An object for which the rest of a path gives the number: containers, attributes and calls of one kind each."""
    class Answer:
        def __getattr__(self, name):
            return Answer()

        def __getitem__(self, key):
            return Answer()

        def __call__(self):
            return Answer()

        def __float__(self):
            return number
    return number if code == "{}" else Answer()


@pytest.mark.filterwarnings("ignore:functools.partial will be:FutureWarning")  # since Python 3.13
@pytest.mark.parametrize("seed", range(200))
def test_a_random_path(seed):
    rng = random.Random(seed)
    root, code, writers = make_path(rng)
    scope: dict[str, object] = {"root": root, "__name__": "random_path"}
    exec(f"def f(x):\n    return x * float({code.replace('{}', 'root')})", scope)
    function = scope["f"]
    guards, effects = guard(function, (X,))
    assert not guards.refusals, (code, str(guards.refusals[0]))
    assert not writes(effects)
    for _ in range(4):
        assert function(X).tolist() == [2.0, 2.0]
        for _, beside, _ in writers:
            beside()
        assert guards.changed() is None, code
    write, _, rest = rng.choice([writer for writer in writers if writer[0] is not None] or [(None, None, "")])
    if write is None:
        scope["root"] = rebuilt(code, 3.0)
    else:
        write(rebuilt(rest, 3.0))
    assert guards.changed() is not None, code
    assert function(X).tolist() == [3.0, 3.0]
