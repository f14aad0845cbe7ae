"""Words of memory and the facts behind them: renewal, single entries, effects, order of reads."""

from __future__ import annotations

import threading
import types

import numpy as np
import pytest

import tensocket as torch
from tensocket_compiler.capture import closure, watch
from tensocket_compiler.capture.closure import find_guards
from tensocket_compiler.capture.guards import Guards, check, read_words
from tensocket_compiler.capture.layout import LAYOUT, find_layout
from tensocket_compiler.capture.object_words import TensorPart
from tensocket_compiler.capture.offsets import entry_places, read_word
from tensocket_compiler.capture.watch import observe
from tensocket_compiler.capture.words import (
    MISSING,
    CellPart,
    ItemsPart,
    ListPart,
    NamesPart,
    Raw,
    SetPart,
    is_same,
    pretty,
)

from .judge import guard

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is observed without a known layout")
X = torch.arange(1.0, 5.0)
NAN = float("nan")


@pytest.mark.parametrize(("old", "new", "same"), [
    (1, 1, True), (10 ** 20, 10 ** 20 + 0, True), (1, 1.0, False), (1, True, False), (0.0, -0.0, False),
    (float("nan"), float("nan"), False), ("ab", "".join(["a", "b"]), True), ((1, (2.5,)), (1, (2.5,)), True),
    ((1,), (1, 2), False), ([1], [1], False), (None, None, True), (None, 0, False), (Raw(5), Raw(5), True),
    (Raw(5), Raw(6), False), (1j, 1j, True), (range(3), range(3), True), ({}, {}, False),
    (range(0, 3, 2), range(0, 4, 2), False), (NAN, NAN, True),
])
def test_values_that_stand_for_each_other(old, new, same):
    assert is_same(old, new) is same


def test_identities_count_on_request():
    assert is_same(int("1000"), int("1000"))
    assert not is_same(int("1000"), int("1000"), exact=True)
    assert is_same(Raw(5), Raw(5), exact=True)


def test_paths_of_members_read_like_programs():
    assert pretty("m._modules['net']._modules['0']._parameters['weight'].grad") == "m.net[0].weight.grad"
    assert pretty("m._buffers['mean']") == "m.mean"
    assert pretty("table['weight']") == "table['weight']"


def test_words_are_read_and_compared():
    values = np.array([3, 5, 7], np.uint64)
    start = values.ctypes.data
    addresses = np.array([start, start + 16], np.uint64)
    assert read_words(addresses).tolist() == [3, 7]
    assert check(addresses, np.array([3, 7], np.uint64))
    values[2] = 8
    assert not check(addresses, np.array([3, 7], np.uint64))


def parts_after(part, write):
    """Whether guards over a part see a write, and the number of words."""
    guards = Guards([part])
    count = len(guards.addresses)
    assert guards.changed() is None
    write()
    return guards, guards.changed(), count


def test_a_namespace_is_one_word_until_a_false_alarm():
    table = {"a": 1.0, "b": 2.0}
    guards, found, count = parts_after(NamesPart(table, "t", frozenset({"a"})), lambda: table.update(b=3.0))
    assert (found, count) == (None, 1)
    table["b"] = 4.0
    assert guards.check()
    assert len(guards.addresses) > 1
    table["c"] = 4.0
    assert not guards.check()
    assert guards.changed() is None
    assert guards.check()
    table["a"] = 5.0
    assert guards.changed() == ("t.a", 1.0, 5.0)


def test_entries_follow_a_resized_dict():
    table = {"a": 1.0}
    guards = Guards([NamesPart(table, "t", frozenset({"a", "z"}), by_entries=True)])
    for k in range(2000):
        table[f"k{k}"] = k
        if k % 400 == 0:
            assert guards.changed() is None
    table["z"] = 1
    assert guards.changed() == ("t.z", MISSING, 1)


def test_an_entry_deleted_and_another_added():
    table = {"a": 1.0, "b": 2.0}
    guards = Guards([NamesPart(table, "t", frozenset({"a", "z"}), by_entries=True)])
    del table["b"]
    table["z"] = 2.0
    assert guards.changed() == ("t.z", MISSING, 2.0)


def test_objects_as_keys_run_no_code():
    class Key:
        def __hash__(self):
            calls.append(1)
            return 1

        def __eq__(self, other):
            calls.append(1)
            return self is other
    calls: list[int] = []
    table = {Key(): 1.0}
    calls.clear()
    guards = Guards([ItemsPart(table, "t")])
    assert guards.changed() is None
    key = next(iter(table))
    table[key] = 2.0
    calls.clear()
    assert guards.changed().new == (key, 2.0)
    assert not calls


def test_order_of_items():
    table = {"a": 1, "b": 2}
    guards = Guards([ItemsPart(table, "t")])
    table["a"] = table.pop("a")
    assert guards.changed() == ("t", "items in their order", "the same items in another order")


@pytest.mark.parametrize(("part", "write", "path"), [
    (lambda o: ListPart(o, "l"), lambda o: o.__setitem__(1, 9), "l[1]"),
    (lambda o: ListPart(o, "l"), lambda o: o.append(9), "l[3]"),
    (lambda o: ListPart(o, "l"), lambda o: o.clear(), "l[0]"),
])
def test_lists(part, write, path):
    items = [1, 2, 3]
    assert parts_after(part(items), lambda: write(items))[1].path == path


def test_a_list_that_moved_is_not_read():
    """The items' words lie in freed memory once the list has grown; the pointer to them is read first."""
    items = list(range(20_000))
    guards = Guards([ListPart(items, "l")])
    assert guards.stable == 2
    items.extend(range(300_000))
    assert guards.changed().path == "l[20000]"


def test_sets_and_cells():
    members = {1, 2}
    assert parts_after(SetPart(members, "s"), lambda: members.add(3))[1].new == 3
    cell = types.CellType(1)
    assert parts_after(CellPart(cell, "c"), lambda: setattr(cell, "cell_contents", 2))[1] == ("c", 1, 2)
    empty = types.CellType()
    assert parts_after(CellPart(empty, "c"), lambda: setattr(empty, "cell_contents", 2))[1] == ("c", MISSING, 2)


def test_a_false_alarm_hides_no_change_of_another_part():
    """A base class changes the versions of derived classes as well, whose own attributes stay the same."""
    class Base:
        k = 2.0

    class Derived(Base):
        pass
    guards = guard(lambda x: x * Derived.k, (X,))[0]
    Base.k = 3.0
    assert guards.changed().path.endswith("Base.k")


def test_a_word_of_two_parts_alarms_both():
    table = {"a": 1, "b": 2}
    guards = Guards([NamesPart(table, "first", frozenset({"a"})), NamesPart(table, "second", frozenset({"b"}))])
    table["b"] = 3
    assert guards.changed() == ("second.b", 2, 3)


def test_equal_values_are_renewed_unless_identities_may_matter():
    box = types.SimpleNamespace(k=1000)
    guards = guard(lambda x: x * box.k, (X,))[0]
    box.k = int("1000")
    assert guards.changed() is None
    guards = guard(lambda x: x * 2 if box.k is X else x, (X,))[0]
    box.k = int("1000")
    assert guards.changed() == ("box.k", 1000, 1000)


def test_values_that_come_again_leave_words_where_they_are():
    table = {"k": 1000, "other": 1.5}
    guards = Guards([ItemsPart(table, "t")])
    renewed = []
    guards.on_renewal = lambda: renewed.append(1)
    for _ in range(5):
        table["k"] = int("1000")
        assert not guards.compare()
        assert guards.changed() is None
        assert guards.compare()
    assert len(renewed) == 1  # for single entries in place of the version of the dict
    table["k"] = 1001
    assert guards.changed() == ("t['k']", ("k", 1000), ("k", 1001))


def test_blocks_without_gradients_leave_words_as_they_are():
    with torch.no_grad():
        guards = guard(lambda x: x * 2, (X,))[0]
        assert guards.compare() or guards.changed() is None
    assert guards.changed().path.startswith("state.")
    for _ in range(3):
        with torch.no_grad():
            assert guards.compare()


def test_effects_have_places_and_values():
    box = types.SimpleNamespace(count=0, k=2.0)
    table = {"n": 0}
    items = [0]

    def f(x):
        box.count += 1
        table["n"] += 1
        items[0] += 1
        return x * box.k
    guards, effects = guard(f, (X,))
    assert {(effect.path, effect.label) for effect in effects} == {
        ("box.count", ".count"), ("table['n']", "['n']"), ("items[0]", "[0]")}
    owners = {"box.count": vars(box), "table['n']": table, "items[0]": items}
    assert all(effect.owner is owners[effect.path] for effect in effects)
    assert {(effect.old, effect.new) for effect in effects if effect.owner is not table} == {(3, 4)}
    for _ in range(12):
        f(X)
        assert guards.changed() is None
    box.k = 3.0
    assert guards.changed() == ("box.k", 2.0, 3.0)


def test_other_entries_stay_guarded_beside_an_effect():
    table = {"n": 0, "k": 2.0}

    def f(x):
        table["n"] += 1
        return x * table["k"]
    guards, effects = guard(f, (X,))
    assert [effect.path for effect in effects] == ["table['n']"]
    assert guards.changed() is None
    table["other"] = 1
    assert guards.changed().path == "table['other']"


def test_objects_behind_an_effect_are_forgotten():
    box = types.SimpleNamespace(last=torch.ones(4))

    def f(x):
        box.last = x * 2
        return box.last
    guards, effects = guard(f, (X,))
    assert [effect.path for effect in effects] == ["box.last"]
    assert "box.last" not in guards.paths
    before = box.last
    assert all(owner is not before for _, owner in guards.tensors)


def test_the_presence_of_a_gradient_is_guarded_where_calls_write_it():
    w = torch.ones(4, requires_grad=True)

    def f(x):
        w.grad = None
        (w * x).sum().backward()
    guards, effects = guard(f, (X,))
    assert [effect.path for effect in effects] == ["w.grad"]
    assert len(guards.unequal_addresses) == 1
    assert guards.changed() is None
    w.grad = torch.zeros(4)
    assert guards.check()
    w.grad = None
    assert not guards.check()
    assert guards.changed() == ("w.grad is None", False, True)


def test_tensors_are_listed_with_paths():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def f(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    guards = guard(f, (X,))[0]
    assert {path for path, _ in guards.tensors} == {"model[0].weight", "model[0].bias"}
    assert len(guards.paths) == len(guards.addresses) == len(guards.values)
    assert "model[0].weight" in guards.paths


def test_guards_hold_in_their_thread_only():
    guards = guard(lambda x: x * 2, (X,))[0]
    found = []
    thread = threading.Thread(target=lambda: found.append(guards.changed()))
    thread.start()
    thread.join()
    assert found[0].path == "state"
    assert guards.changed() is None


def test_a_replaced_check_is_used_by_callers():
    guards = guard(lambda x: x * 2, (X,))[0]
    assert guards.check()
    guards.check = lambda: False
    assert guards.changed() is None


def test_addresses_of_level_0_come_first():
    items = [1.0, 2.0]
    guards = guard(lambda x: x * items[0], (X,))[0]
    place = np.uint64(read_word(id(items) + LAYOUT.items))
    assert list(guards.addresses).index(place) >= guards.stable


def test_large_closures_are_refused(monkeypatch):
    monkeypatch.setattr(closure, "LIMIT", 50)
    guards = find_guards(observe(lambda x: x * len(NUMBERS), (X,)))
    assert any("more than 50 values" in str(refusal) for refusal in guards.refusals)


def test_nothing_is_observed_without_a_layout(monkeypatch):
    monkeypatch.setattr(watch, "LAYOUT", None)
    seen = observe(lambda x: x * 2, (X,))
    assert seen.result.tolist() == [2.0, 4.0, 6.0, 8.0]
    assert "memory layout" in seen.refusals[0].reason
    assert find_guards(seen).refusals == seen.refusals


def test_layouts_of_other_interpreters_are_refused(monkeypatch):
    assert find_layout() is not None
    for version in ((3, 10, 0), (3, 14, 1), (4, 0, 0)):
        monkeypatch.setattr("sys.version_info", version)
        assert find_layout() is None


def test_entries_of_dicts_are_found():
    table = {"a": 1.5, 2: "b", (3,): None}
    places = entry_places(table, LAYOUT)
    assert [read_word(places[id(key)]) for key in table] == [id(value) for value in table.values()]


def test_tensor_parts_do_not_guard_elements():
    w = torch.ones(4)
    guards = Guards([TensorPart(w, "w")])
    w.add_(1)
    w[0] = 5.0
    assert guards.changed() is None
    w.data = torch.zeros(4)
    assert guards.changed().path == "w.data"


NUMBERS = [[k] for k in range(100)]
