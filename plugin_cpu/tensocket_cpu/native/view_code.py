"""The machine code of views: one function that looks a call up in a table and makes new objects on the same memory."""

from __future__ import annotations

from enum import IntEnum

from tensocket_plugins.contract.plans import ViewPlan

from .builder import NULL, Function, Value
from .call_code import OTHER, CallCode, Head, Record
from .call_words import CallDescription
from .layout import Layout
from .resources import new_array
from .wrappers import Wrapper, new_counter

#: Outcomes of calls: that of the next path, the first argument, one view, or a tuple of views.
Kind = IntEnum("Kind", "OTHER SAME VIEW VIEWS", start=OTHER)
#: Words of one result.
Result = IntEnum("Result", "DTYPE RANK SHAPE STRIDES OFFSET FLAGS KEY MARK", start=0)


class ViewCode(CallCode):
    """The function that makes views; of the plan, only the names of slots matter."""

    def __init__(self, layout: Layout, plan: ViewPlan, wrapper: Wrapper) -> None:
        super().__init__(layout, "tensocket_views", CallDescription(wrapper))
        self.plan, self.wrapper = plan, wrapper
        self.require(self.table.pointer(Head.OVERRIDES).field("length") == 0, self.count >= 1)
        self._answer(self.find())
        self.end()

    def _answer(self, record: Value) -> None:
        """Return the outcome in the record; go to ``slow`` where the next path has to act."""
        source, kind = self.args.pointer(0), record[Record.KIND]
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
