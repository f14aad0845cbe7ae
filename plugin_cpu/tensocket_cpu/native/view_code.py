"""The machine code of views: one function that looks a call up in a table and makes new objects on the same memory."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from tensocket_plugins.contract.plans import ViewPlan

from .builder import NULL, Value
from .builtin import Builtin
from .layout import Layout
from .resources import new_array
from .view_words import WORDS, add_helpers, describe
from .wrappers import Wrapper, new_counter

#: Number of places in a table.
PLACES: Final = 128
#: Words at the beginning of a table; the addresses that the code uses follow.
Head = IntEnum("Head", "NEXT_PATH MISS PLACES WORDS MISSED_WORDS COUNT HASH MISSES OVERRIDES", start=0)
#: Outcomes of calls: that of the next path, the first argument, one view, or a tuple of views.
Kind = IntEnum("Kind", "OTHER SAME VIEW VIEWS", start=0)
#: Words of the record of one call, and of one result.
Record = IntEnum("Record", "HASH COUNT WORDS KIND RESULTS RESULTS_PLACE OWNER", start=0)
Result = IntEnum("Result", "DTYPE RANK SHAPE STRIDES OFFSET FLAGS KEY MARK", start=0)


def view_code(layout: Layout, plan: ViewPlan, wrapper: Wrapper) -> Builtin:
    """Write and return the function.

    It holds no references until the call is found, because nothing before runs Python code.
    """
    f = Builtin(layout, "tensocket_views", len(Head))
    add_helpers(f, wrapper)
    _add_find(f)
    _add_view(f, plan, wrapper)
    f.require(f.table.pointer(Head.OVERRIDES).field("length") == 0, f.count >= 1)
    words = f.table.pointer(Head.WORDS)
    size, key = describe(f, words)
    record = f.call("find", words, size, key)
    f.require(record != NULL, otherwise="miss")
    _answer(f, plan, wrapper, record)
    f.label("miss")
    _note_miss(f, words, size, key)
    f.return_call(f.table.pointer(Head.MISS))
    f.label("slow")
    f.return_call(f.table.pointer(Head.NEXT_PATH))
    return f


def _add_find(main: Builtin) -> None:
    """Add a function that returns the record of a call, or null."""
    f, (words, size, key) = main.helper("find", "ptr i64 i64")
    places = f.table.pointer(Head.PLACES)
    with f.loop() as k:
        record = places.pointer(key + k & PLACES - 1)
        f.require(record != NULL)
        f.require(record[Record.HASH] == key, record[Record.COUNT] == size, otherwise="other")
        known = record.pointer(Record.WORDS)
        with f.loop(size) as n:
            f.require(words[n] == known[n], otherwise="other")
        f.returns(record)
        f.label("other")


def _note_miss(f: Builtin, words: Value, size: Value, key: Value) -> None:
    """Note the words of the call for the function that adds a record, and count the misses.

    A garbage collection before that function begins may run code with other calls; a count tells whether one missed.
    """
    f.table[Head.COUNT], f.table[Head.HASH] = size, key
    f.table[Head.MISSES] = f.table[Head.MISSES] + 1
    f.copy(f.table.pointer(Head.MISSED_WORDS), words, 8 * WORDS)


def _answer(f: Builtin, plan: ViewPlan, wrapper: Wrapper, record: Value) -> None:
    """Return the outcome in the record; go to ``slow`` where the next path has to act."""
    source, kind = f.args.pointer(0), record[Record.KIND]
    f.require(kind != Kind.OTHER)
    with f.when(kind == Kind.SAME):
        f.returns(f.retain(source))
    owner = f.retain(record.pointer(Record.OWNER))
    base, place = source.load(wrapper.offsets[plan.base]), wrapper.counter_place(source)
    counter = f.variable(place.load())
    f.require(base != NULL, counter.value != NULL, otherwise="drop.slow")
    base = _base(f, plan, source, base)
    with f.when(counter.value == f.object(None)):
        counter.value = new_counter(place, 0, "drop.failed")
    with f.otherwise():
        f.require(counter.value.field("type") == f.object(list), otherwise="drop.slow")
    _results(f, record, (wrapper.slot(source), counter.value, base))
    for outcome in ("slow", "failed"):
        f.label(f"drop.{outcome}")
        f.release(owner)
        f.goto(outcome)


def _base(f: Builtin, plan: ViewPlan, source: Value, base: Value) -> Value:
    """Return the base of the views: that of the first argument if it is a view, else the argument."""
    found = f.variable(base)
    with f.when(base == f.object(None)):
        found.value = source
    with f.otherwise():
        # A mark of a view passes on to its views; the next path does that.
        mark = f.api("PyObject_GetAttr", source, f.object(plan.mark))
        f.require(mark != NULL, otherwise="drop.failed")
        f.release(mark)
        f.require(mark == f.object(None), otherwise="drop.slow")
    return found.value


def _results(f: Builtin, record: Value, shared: tuple[Value, Value, Value]) -> None:
    """Return new views, with the memory, the counter and the base that they share."""
    owner, first = record.pointer(Record.OWNER), record.pointer(Record.RESULTS_PLACE)
    with f.when(record[Record.KIND] == Kind.VIEW):
        view = f.call("view", first, *shared)
        f.release(owner)
        f.returns(view)
    count = record[Record.RESULTS]
    views = f.api("PyTuple_New", count)
    f.require(views != NULL, otherwise="drop.failed")
    with f.loop(count) as k:
        view = f.call("view", first + k * (8 * len(Result)), *shared)
        with f.when(view == NULL):
            f.release(views)
            f.goto("drop.failed")
        f.api("PyTuple_SetItem", views, k, view)
    f.release(owner)
    f.returns(views)


def _add_view(main: Builtin, plan: ViewPlan, wrapper: Wrapper) -> None:
    """Add a function that makes a view; it keeps the memory of the first argument alive."""
    f, (result, memory, counter, base) = main.helper("view", "ptr ptr ptr ptr")
    flags = memory.field("flags") & result[Result.FLAGS].cast("trunc", "i32")
    array = new_array(f, result.pointer(Result.DTYPE), result[Result.RANK].cast("trunc", "i32"),
                      result.pointer(Result.SHAPE), result.pointer(Result.STRIDES),
                      memory.field("data") + result[Result.OFFSET], flags)
    f.require(array != NULL)
    f.retain(memory)
    with f.when(f.api("PyArray_SetBaseObject", array, memory) != 0):
        f.release(array)
        f.returns(NULL)
    held = {wrapper.layout.counter: counter, plan.base: base, plan.key: result.pointer(Result.KEY)}
    view = wrapper.wrap(array, held=held)
    mark = result.pointer(Result.MARK)
    with f.when(mark != NULL), f.when(f.api("PyObject_SetAttr", view, f.object(plan.mark), mark) != 0):
        f.release(view)
        f.returns(NULL)
    f.returns(view)
