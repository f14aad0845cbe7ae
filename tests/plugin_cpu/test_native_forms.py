"""Forms of linked objects: which objects a compiled form accepts, and the references that it returns."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tensocket_cpu.native import LAYOUT
from tensocket_plugins.contract.plans import FormPlan, FormStep, FormTest

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="this interpreter's objects are unknown")


class Node:
    __slots__ = ("counter", "down", "items", "number")

    def __init__(self, down=None, items=(), number=0, counter=None):
        self.down, self.items, self.number, self.counter = down, items, number, counter


class Heir(Node):
    __slots__ = ()


class Marked(Node):
    mark = None


def fresh(*numbers):
    """Return a tuple that no constant of the module is."""
    return tuple(np.array(numbers).tolist())


DOWN, ITEMS, NUMBER = ((Node, name) for name in ("down", "items", "number"))


@pytest.fixture
def match(device):
    """Return the compiled form of steps on one argument."""
    def compiled(*steps, arguments=1, results=(0,)):
        return device.compile_plan(FormPlan(arguments, steps, results), None)

    return compiled


def accepts(form, *arguments):
    return form(*arguments) is not None


def test_objects_by_identity(match):
    other = object()
    form = match(FormStep(FormTest.SAME, 0, DOWN, other))
    assert form(Node(other))[0].down is other
    assert not accepts(form, Node(object()))
    assert not accepts(form, Node(None))


@pytest.mark.parametrize(("value", "equal", "unequal"), [
    (7, [7], [8, 7.0, True, "7"]),
    (1 << 70, [(1 << 70) + int("0")], [1 << 71, 1]),
    ((20, 300), [fresh(20, 300)], [(20, 301), (20,), (20, 300, 1), [20, 300], (20.0, 300), (20, (300,))]),
    ((1, 0), [fresh(1, 0)], [(True, 0), (1, False)]),
    ((), [()], [(0,), None]),
    (0.5, [float("0.5")], [0.25, 1, np.float64(0.5)]),
    (0.0, [float("0")], [-0.0, 0, False]),
    (float("nan"), [float("nan")], [float("inf")]),
])
def test_equal_numbers(match, value, equal, unequal):
    form = match(FormStep(FormTest.EQUAL, 0, NUMBER, value))
    assert all(accepts(form, Node(number=x)) for x in equal)
    assert not any(accepts(form, Node(number=x)) for x in unequal)


def test_kinds_are_exact_and_objects_distinct(match):
    form = match(FormStep(FormTest.LENGTH, 0, ITEMS, 2, 3), FormStep(FormTest.KIND, 3, 0, Node, 1, 1),
                 FormStep(FormTest.KIND, 3, 1, Node, 2, 1), results=(1, 2))
    first, second = Node(), Node()
    assert form(Node(items=(first, second))) == (first, second)
    assert not accepts(form, Node(items=(first, first)))
    assert not accepts(form, Node(items=(first, Heir())))
    assert not accepts(form, Node(items=(first,)))
    assert not accepts(form, Node(items=[first, second]))


def test_known_objects(match):
    form = match(FormStep(FormTest.KIND, 0, DOWN, Node, 1, 1), FormStep(FormTest.KNOWN, 1, DOWN, 0))
    top = Node()
    top.down = Node(top)
    assert accepts(form, top)
    top.down = Node(Node())
    assert not accepts(form, top)


def test_shapes_of_arrays(match):
    form = match(FormStep(FormTest.SHAPE, 0, DOWN, (2, 3)))
    assert accepts(form, Node(np.zeros((2, 3))))
    assert accepts(form, Node(np.zeros((3, 2), np.int8).T))
    for other in (np.zeros((3, 2)), np.zeros((2, 3, 1)), np.zeros(()), np.float32(1), [[0] * 3] * 2):
        assert not accepts(form, Node(other))
    assert accepts(match(FormStep(FormTest.SHAPE, 0, DOWN, ())), Node(np.zeros(())))


@pytest.mark.parametrize(("counter", "right", "wrong"), [
    (None, 0, 1), ([0], 0, 1), ([3], 3, 2), ([1000], int("1000"), 999), ([1000], int("1000"), 1000.0)])
def test_versions(match, counter, right, wrong):
    form = match(FormStep(FormTest.KIND, 0, DOWN, Node, 1, 1),
                 FormStep(FormTest.VERSION, 0, NUMBER, 1, other=(Node, "counter")))
    assert accepts(form, Node(Node(counter=counter), number=right))
    assert not accepts(form, Node(Node(counter=counter), number=wrong))


def test_order(match):
    form = match(FormStep(FormTest.KIND, 0, DOWN, Node, 1, 1), FormStep(FormTest.LARGER, 0, NUMBER, 1))
    assert accepts(form, Node(Node(number=1000), number=1001))
    assert not accepts(form, Node(Node(number=1000), number=1000))
    assert not accepts(form, Node(Node(number=1001), number=1000))


def test_marks(match):
    form = match(FormStep(FormTest.KIND, 0, DOWN, Marked, 1, 1), FormStep(FormTest.UNMARKED, 1, DOWN, "mark"))
    below = Marked()
    assert accepts(form, Node(below))
    below.mark = 1
    assert not accepts(form, Node(below))
    with pytest.raises(AttributeError):
        match(FormStep(FormTest.UNMARKED, 0, DOWN, "mark"))(Node())


def test_members(match):
    form = match(FormStep(FormTest.KIND, 0, DOWN, Node, 2, 2), FormStep(FormTest.MEMBER, 2, DOWN, 1), arguments=2)
    below = Node()
    assert accepts(form, Node(below), (Node(), below))
    assert not accepts(form, Node(below), (Node(),))
    assert not accepts(form, Node(below), ())
    assert not accepts(form, Node(below), None)


def test_empty_slots_and_numbers_of_arguments(match):
    form = match(FormStep(FormTest.SAME, 0, DOWN, None))
    empty = object.__new__(Node)
    assert not accepts(form, empty)
    assert form() is None
    assert form(empty, empty) is None


def test_references(match):
    form = match(FormStep(FormTest.KIND, 0, DOWN, Node, 1, 1), FormStep(FormTest.EQUAL, 1, NUMBER, (5, 6)),
                 results=(0, 1, 1))
    below = Node(number=fresh(5, 6))
    top = Node(below)
    before = [sys.getrefcount(x) for x in (None, top, below, below.number)]
    for _ in range(100):
        found = form(top)
        assert found == (top, below, below)
        assert form(below) is None
    del found
    assert [sys.getrefcount(x) for x in (top, below, below.number)] == before[1:]
    assert abs(sys.getrefcount(None) - before[0]) < 20


def test_too_many_objects(match):
    assert match(FormStep(FormTest.KIND, 0, DOWN, Node, 2048, 2048)) is None
