"""The layout of objects in each version of the interpreter: what must be known, and that wrong offsets are noticed."""

from __future__ import annotations

import sys
import sysconfig
import types
from dataclasses import replace

import pytest

import tensocket as torch
from tensocket_compiler.capture import layout, proofs, watch
from tensocket_compiler.capture.layout import LAYOUT, find_layout
from tensocket_compiler.capture.object_words import ClassPart
from tensocket_compiler.capture.offsets import order_places, read_byte, read_word
from tensocket_compiler.capture.watch import _Profile, observe
from tensocket_compiler.capture.words import NamesPart

X = torch.arange(1.0, 4.0)
VERSION = sys.version_info[:2]
#: Another version's offsets of the function in a frame and of split values, for each version that is known.
OTHERS = {(3, 11): ((3, 12),), (3, 12): ((3, 11), (3, 13)), (3, 13): ((3, 11), (3, 12))}
known = pytest.mark.skipif(LAYOUT is None, reason="nothing is observed without a known layout")


class Local:
    def __init__(self):
        self.a, self.b = 1.5, 2.5


@pytest.mark.skipif(VERSION not in OTHERS or sys.implementation.name != "cpython", reason="not a known interpreter")
@pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")) or hasattr(sys, "getobjects"),
                    reason="other object headers")
def test_layouts_of_known_versions_are_found():
    assert find_layout() is not None


@known
@pytest.mark.parametrize("number", range(2))
def test_offsets_of_another_version_are_noticed(number, monkeypatch):
    others = OTHERS[VERSION]
    other = others[number % len(others)]
    monkeypatch.setitem(layout._FRAMES, VERSION, layout._FRAMES[other])
    assert find_layout() is None


@known
def test_a_wrong_offset_of_the_function_in_a_frame_is_noticed():
    wrong = replace(LAYOUT, function=8 if LAYOUT.function else 32)
    assert proofs.functions_are_right(LAYOUT)
    assert not proofs.functions_are_right(wrong)


@known
def test_the_word_of_a_class_follows_it_and_holds_a_version():
    place = id(Local) + LAYOUT.type_version
    assert ClassPart(Local, "Local", None).has_version()
    before = read_word(place)
    Local.field = 1
    assert read_word(place) & 0xFFFFFFFF == 0
    assert ClassPart(Local, "Local", None).has_version()
    assert read_word(place) != before
    del Local.field


@known
def test_words_of_a_split_dict_hold_the_order_of_its_items():
    thing = Local()
    table = vars(thing)
    before = [read_word(place) for place in order_places(table, LAYOUT)]
    held = thing.a
    del thing.a
    thing.a = held
    assert list(table) == ["b", "a"]
    assert [read_word(place) for place in order_places(table, LAYOUT)] != before


@known
def test_words_of_attributes_change_with_each_write():
    thing = Local()
    part = NamesPart(vars(thing), "thing", frozenset({"a", "c"}))
    for write in (lambda: setattr(thing, "a", 7.25), lambda: delattr(thing, "a"), lambda: setattr(thing, "c", 8.25)):
        words = list(part.words())
        before = [read_word(address) for _, address in words]
        write()
        assert [read_word(address) for _, address in words] != before


@known
@pytest.mark.skipif(LAYOUT is not None and LAYOUT.stamped, reason="attributes change the version of their dict")
def test_attributes_that_change_no_version_are_watched_by_entries():
    table = vars(Local())
    addresses = {address for _, address in NamesPart(table, "thing", None).words()}
    assert id(table) + LAYOUT.version not in addresses
    assert {id(table) + LAYOUT.used, id(table) + LAYOUT.keys, id(table) + LAYOUT.values} < addresses


@known
def test_a_class_without_a_version_never_holds(monkeypatch):
    part = ClassPart(Local, "Local", None)
    assert not list(part.unequal())
    monkeypatch.setattr(ClassPart, "has_version", lambda self: False)
    (address, value), = part.unequal()
    assert read_word(address) == value
    assert id(Local) + LAYOUT.type_version not in {address for _, address in part.words()}


@known
@pytest.mark.skipif(sys.version_info < (3, 12), reason="the interpreter has no monitoring")
def test_calls_that_a_tool_monitors_are_not_observed():
    sys.monitoring.use_tool_id(sys.monitoring.DEBUGGER_ID, "test")
    try:
        seen = observe(lambda x: x * 2, (X,))
    finally:
        sys.monitoring.free_tool_id(sys.monitoring.DEBUGGER_ID)
    assert "profiler or debugger" in seen.refusals[0].reason
    assert not observe(lambda x: x * 2, (X,)).refusals


@known
def test_returns_without_a_call_refuse_the_capture(monkeypatch):
    real = _Profile.__call__

    def lose(self, frame, event, function):
        if event != "call" or frame.f_code.co_name != "lost":
            real(self, frame, event, function)
    monkeypatch.setattr(_Profile, "__call__", lose)

    def lost():
        return 2
    seen = observe(lambda x: x * lost(), (X,))
    assert "the interpreter did not report all of its calls and returns" in str(seen.refusals[-1])
    assert seen.result.tolist() == [2.0, 4.0, 6.0]


@known
def test_functions_in_frames_of_generators_are_known():
    def numbers():
        yield 2.0
        yield 3.0
    seen = observe(lambda x: x * sum(numbers()), (X,))
    found = [each for code, each in seen.functions.items() if code.co_name == "numbers"]
    assert found == [numbers]
    assert all(each is None or type(each) is types.FunctionType for each in seen.functions.values())


def test_calls_under_unknown_interpreters_stay_eager(monkeypatch):
    monkeypatch.setattr(watch, "LAYOUT", None)
    seen = observe(lambda x: x * 2, (X,))
    assert seen.result.tolist() == [2.0, 4.0, 6.0]
    assert [each.reason for each in seen.refusals] == [
        "the memory layout of this interpreter is not known, so that nothing can be guarded; graphs need CPython "
        "3.11, 3.12 or 3.13 with the interpreter's lock"]


def test_bytes_are_read():
    assert read_byte(id(X) + object.__basicsize__ - 8) == read_word(id(X) + object.__basicsize__ - 8) & 0xFF
