"""Views of one layout as built-in functions: values, calls that go to the next path, references that stay right."""

from __future__ import annotations

import gc
import sys
import tracemalloc

import numpy as np
import pytest

from tensocket_cpu.native import LAYOUT
from tensocket_plugins.contract.plans import ViewPlan, WrapperLayout

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="this interpreter's objects are unknown")

MARK = object()


class Holder:
    __slots__ = ("__dict__", "array", "base", "counter", "key")
    mark = None

    def __init__(self, array, base=None, counter=None):
        self.array, self.base, self.counter, self.key = array, base, counter, None


class Heir(Holder):
    pass


WRAPPER = WrapperLayout(Holder, "array", (("key", MARK, None), ("counter", None, None), ("base", None, None)),
                        "counter")
VIEWS = {
    "transposed": lambda x: x.T,
    "part": lambda x: x[1:, ::2],
    "row": lambda x: x[1],
    "element": lambda x: x[1, 2, ...],
    "new dimension": lambda x: x[:, None],
    "reversed": lambda x: x[::-1],
    "same": lambda x: x[...],
    "repeated": lambda x: np.ndarray((2, *x.shape), x.dtype, x, 0, (0, *x.strides)),
    "other dtype": lambda x: x.view(np.int32),
}


def declined(*args):
    return ("next", *args)


def compiled(device, array, view):
    return device.compile_plan(ViewPlan(WRAPPER, "base", "mark", array, view(array)), declined)


def arrays():
    owner = np.arange(48, dtype=np.float32).reshape(6, 8)
    return [owner, owner[2:5, 1:5], np.arange(24, dtype=np.float32).reshape(4, 6)]


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("number", range(3))
def test_views_are_numpys(device, name, number):
    view = VIEWS[name]
    first, array = (arrays()[number] for _ in range(2))
    if name in ("other dtype", "repeated") and not first.flags.c_contiguous:
        pytest.skip("NumPy makes this view of contiguous arrays only")
    run = compiled(device, first, view)
    held = Holder(array)
    for kind in (Holder, Heir):
        held = kind(array)
        found, expected = run(held), view(array)
        assert type(found) is Holder
        assert found.base is held
        assert held.counter == [0]
        assert found.counter is held.counter
        assert found.key is (MARK if expected.ndim else None)
        got = found.array
        assert got.ctypes.data == expected.ctypes.data
        assert (got.dtype, got.shape, got.strides, got.flags.num) == (
            expected.dtype, expected.shape, expected.strides, expected.flags.num)
        assert got.base is (array if array.base is None else array.base)


def test_other_layouts_and_objects_go_to_the_next_path(device):
    array = arrays()[0]
    run = compiled(device, array, VIEWS["transposed"])
    for other in (array[:5], array.T, array.astype(np.float64), array.reshape(8, 6), array.view(np.int32),
                  np.asfortranarray(array), np.ma.masked_array(array)):
        held = Holder(other)
        assert run(held) == ("next", held)
        assert held.counter is None
    assert run(array)[0] == "next"
    assert run(Holder(array), 1)[0] == "next"
    assert run()[0] == "next"
    empty = object.__new__(Holder)
    assert run(empty) == ("next", empty)


def test_views_of_views_have_its_base_unless_they_are_marked(device):
    array = arrays()[0]
    run = compiled(device, array, VIEWS["transposed"])
    base = Holder(array, counter=[7])
    inner = Holder(array, base, base.counter)
    assert run(inner).base is base
    assert run(inner).counter is base.counter
    inner.mark = "fixed"
    assert run(inner) == ("next", inner)
    base.mark = "fixed"
    assert run(base).base is base


def test_read_only_memory_stays_read_only(device):
    array = arrays()[0]
    run = compiled(device, array, VIEWS["part"])
    array.flags.writeable = False
    assert not run(Holder(array)).array.flags.writeable


def test_memory_lives_as_long_as_its_views(device):
    array = arrays()[2]
    run = compiled(device, array, VIEWS["part"])
    found = run(Holder(arrays()[2])).array
    gc.collect()
    np.testing.assert_array_equal(found, VIEWS["part"](arrays()[2]))


def test_references_are_balanced(device):
    array = arrays()[2]
    run = compiled(device, array, VIEWS["row"])
    held, inner = Holder(array), None
    run(held)
    inner = Holder(array, held, held.counter)
    things = [array, array.dtype, held, held.counter, MARK, Holder, inner]
    for _ in range(3):
        run(held), run(inner), run(Holder(array)), run(None)
    before = [sys.getrefcount(x) for x in things]
    none = sys.getrefcount(None)
    tracemalloc.start()
    size = tracemalloc.get_traced_memory()[0]
    for _ in range(2000):
        run(held), run(inner), run(Holder(array)), run(None)
    grown = tracemalloc.get_traced_memory()[0] - size
    tracemalloc.stop()
    assert [sys.getrefcount(x) for x in things] == before
    assert abs(sys.getrefcount(None) - none) < 100
    assert grown < 4000


def test_a_class_without_the_attribute_of_the_mark_is_refused(device):
    array = arrays()[0]
    assert device.compile_plan(ViewPlan(WRAPPER, "base", "absent", array, array.T), declined) is None
    assert device.compile_plan(ViewPlan(WRAPPER, "absent", "mark", array, array.T), declined) is None
