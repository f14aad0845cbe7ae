"""The machine code of views: one function that looks a call up in a table and makes new objects on the same memory."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from tensocket_plugins.contract.plans import ViewPlan

from .builder import NULL, Function, Value
from .builtin import Builtin
from .layout import Layout
from .resources import new_array
from .view_words import WORDS, CallDescription
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


class ViewCode(Builtin):
    """The function that makes views; of the plan, only the names of slots matter.

    It holds no references until the call is found, because nothing before runs Python code.
    """

    def __init__(self, layout: Layout, plan: ViewPlan, wrapper: Wrapper) -> None:
        super().__init__(layout, "tensocket_views", len(Head))
        self.plan, self.wrapper = plan, wrapper
        self.require(self.table.pointer(Head.OVERRIDES).field("length") == 0, self.count >= 1)
        words = self.table.pointer(Head.WORDS)
        size, key = CallDescription(wrapper).write(self, words)
        record = self.call(_find, words, size, key)
        self.require(record != NULL, otherwise="miss")
        self._answer(record)
        self.label("miss")
        self._note_miss(words, size, key)
        self.return_call(self.table.pointer(Head.MISS))
        self.label("slow")
        self.return_call(self.table.pointer(Head.NEXT_PATH))

    def _note_miss(self, words: Value, size: Value, key: Value) -> None:
        """Note the words of the call for the function that adds a record, and count the misses.

        A garbage collection before that function begins may run code with other calls; a count tells whether one
        missed.
        """
        table = self.table
        table[Head.COUNT], table[Head.HASH], table[Head.MISSES] = size, key, table[Head.MISSES] + 1
        self.copy(table.pointer(Head.MISSED_WORDS), words, 8 * WORDS)

    def _answer(self, record: Value) -> None:
        """Return the outcome in the record; go to ``slow`` where the next path has to act."""
        source, kind = self.args.pointer(0), record[Record.KIND]
        self.require(kind != Kind.OTHER)
        with self.when(kind == Kind.SAME):
            self.returns(self.retain(source))
        owner = self.retain(record.pointer(Record.OWNER))
        base, place = source.load(self.wrapper.offsets[self.plan.base]), self.wrapper.counter_place(source)
        counter = self.variable(place.load())
        self.require(base != NULL, counter.value != NULL, otherwise="drop.slow")
        base = self._base(source, base)
        with self.when(counter.value == self.object(None)):
            counter.value = new_counter(place, 0, "drop.failed")
        with self.otherwise():
            self.require(counter.value.field("type") == self.object(list), otherwise="drop.slow")
        self._results(record, (self.wrapper.slot(source), counter.value, base))
        for outcome in ("slow", "failed"):
            self.label(f"drop.{outcome}")
            self.release(owner)
            self.goto(outcome)

    def _base(self, source: Value, base: Value) -> Value:
        """Return the base of the views: that of the first argument if it is a view, else the argument."""
        found = self.variable(base)
        with self.when(base == self.object(None)):
            found.value = source
        with self.otherwise():
            # A mark of a view passes on to its views; the next path does that.
            mark = self.api("PyObject_GetAttr", source, self.object(self.plan.mark))
            self.require(mark != NULL, otherwise="drop.failed")
            self.release(mark)
            self.require(mark == self.object(None), otherwise="drop.slow")
        return found.value

    def _results(self, record: Value, shared: tuple[Value, Value, Value]) -> None:
        """Return new views, with the memory, the counter and the base that they share."""
        owner, first = record.pointer(Record.OWNER), record.pointer(Record.RESULTS_PLACE)
        with self.when(record[Record.KIND] == Kind.VIEW):
            view = self.call(self._view, first, *shared)
            self.release(owner)
            self.returns(view)
        count = record[Record.RESULTS]
        views = self.api("PyTuple_New", count)
        self.require(views != NULL, otherwise="drop.failed")
        with self.loop(count) as k:
            view = self.call(self._view, first + k * (8 * len(Result)), *shared)
            with self.when(view == NULL):
                self.release(views)
                self.goto("drop.failed")
            self.api("PyTuple_SetItem", views, k, view)
        self.release(owner)
        self.returns(views)

    def _view(self, f: Function, result: Value, memory: Value, counter: Value, base: Value) -> None:
        """Write a helper that makes a view; it keeps the memory of the first argument alive."""
        flags = memory.field("flags") & result[Result.FLAGS].cast("trunc", "i32")
        array = new_array(f, result.pointer(Result.DTYPE), result[Result.RANK].cast("trunc", "i32"),
                          result.pointer(Result.SHAPE), result.pointer(Result.STRIDES),
                          memory.field("data") + result[Result.OFFSET], flags)
        f.require(array != NULL)
        f.retain(memory)
        with f.when(f.api("PyArray_SetBaseObject", array, memory) != 0):
            f.release(array)
            f.returns(NULL)
        held = {self.wrapper.layout.counter: counter, self.plan.base: base, self.plan.key: result.pointer(Result.KEY)}
        view, mark = self.wrapper.wrap(array, held=held), result.pointer(Result.MARK)
        with f.when(mark != NULL), f.when(f.api("PyObject_SetAttr", view, f.object(self.plan.mark), mark) != 0):
            f.release(view)
            f.returns(NULL)
        f.returns(view)


def _find(f: Function, words: Value, size: Value, key: Value) -> None:
    """Write a helper that returns the record of a call, or null."""
    places = f.table.pointer(Head.PLACES)
    with f.loop(PLACES) as k:
        record = places.pointer(key + k & PLACES - 1)
        f.require(record != NULL)
        f.require(record[Record.HASH] == key, record[Record.COUNT] == size, otherwise="other")
        known = record.pointer(Record.WORDS)
        with f.loop(size) as n:
            f.require(words[n] == known[n], otherwise="other")
        f.returns(record)
        f.label("other")
