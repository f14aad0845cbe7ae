"""Forms of linked objects: one function of machine code that interprets the steps of a ``FormPlan``.

A step loads an object from a slot, or from a tuple, of an object that earlier steps have tested, and tests it. Nothing
that the function calls runs code of the program, so that references need not be counted on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.plans import FormPlan, FormStep, FormTest, WrapperLayout

from ..code.pointers import address_of
from .builder import NULL, Value
from .builtin import Builtin, Code
from .guards import checked_array
from .layout import Layout
from .wrappers import slot_offsets

if TYPE_CHECKING:
    from ..code.compiler import Compiler

#: The most objects of a form.
OBJECTS: Final = 2048
#: The words of a step: test, source, byte offset in it, value, number, first; their positions have these names.
_TEST, _SOURCE, _OFFSET, _VALUE, _NUMBER, _FIRST, _WORDS = range(7)
#: Words at the beginning of a table.
_Head = IntEnum("_Head", "ARGUMENTS STEPS STEP_PLACE RESULTS RESULT_PLACE", start=0)
#: Tests whose value is a number.
_NUMBERED: Final = (FormTest.KNOWN, FormTest.LENGTH, FormTest.VERSION, FormTest.LARGER, FormTest.MEMBER)
_EQUAL: Final = 2  # Python's Py_EQ


class FormCompiler:
    """Compiles forms; their machine code is the same for all."""

    def __init__(self, compiler: Callable[[], Compiler], layout: Layout) -> None:
        self._compiler, self._layout = compiler, layout
        self._code: Code | None = None
        self._offsets: dict[type, dict[str, int] | None] = {}

    def compile(self, plan: FormPlan) -> Callable[..., Any] | None:
        """Return the test; None if slots of a class have no known offsets, or there are too many objects."""
        words: list[int] = []
        alive: list[Any] = [plan]
        for step in plan.steps:
            if max(step.number, step.source) >= OBJECTS or not self._add(step, words, alive):
                return None
        if self._code is None:
            f = _FormCode(self._layout)
            self._code = f.compile(self._compiler(), f.name)
        table = self._code.table()
        steps, results = np.array(words, np.uint64), np.array(plan.results, np.uint64)
        table.alive = table.alive, alive, steps, results
        table[_Head.ARGUMENTS] = plan.arguments
        table[_Head.STEPS], table[_Head.STEP_PLACE] = len(plan.steps), address_of(steps)
        table[_Head.RESULTS], table[_Head.RESULT_PLACE] = len(plan.results), address_of(results)
        return self._code.method(table)

    def _add(self, step: FormStep, words: list[int], alive: list[Any]) -> bool:
        """Append the words of a step, and the owners of addresses in them; return whether all offsets are known."""
        offset = self._offset(step.place)
        other = 0 if step.other is None else self._offset(step.other)
        if offset is None or other is None:
            return False
        value, number = step.value, step.number
        if step.test is FormTest.SHAPE:
            sizes = np.array(value, np.int64)
            alive.append(sizes)
            value, number = address_of(sizes), sizes.size
        elif step.test not in _NUMBERED:
            value = id(value)
        words += [int(step.test), step.source, offset, value, number, step.first or other]
        return True

    def _offset(self, place: tuple[type, str] | int) -> int | None:
        if isinstance(place, int):
            return self._layout.items + 8 * place
        kind, name = place
        if kind not in self._offsets:
            first, *names = [slot for base in kind.__mro__ for slot in base.__dict__.get("__slots__", ())
                             if not slot.startswith("__")]
            self._offsets[kind] = slot_offsets(WrapperLayout(kind, first, tuple([(n, None, None) for n in names]), ""))
        found = self._offsets[kind]
        return None if found is None else found[name]


class _FormCode(Builtin):
    """The function that runs the steps in a table."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout, "tensocket_form", len(_Head))
        self.objects = self.stack(OBJECTS, "ptr")
        self.require(self.names == NULL, self.count == self.table[_Head.ARGUMENTS])
        with self.loop(self.count) as k:
            self.objects[k] = self.args.pointer(k)
        first = self.table.pointer(_Head.STEP_PLACE)
        with self.loop(self.table[_Head.STEPS]) as number:
            self._step(first + number * (8 * _WORDS))
        self._answer()
        self.label("slow")
        self.returns(self.retain(self.object(None)))

    def _step(self, record: Value) -> None:
        source = self.objects.pointer(record[_SOURCE])
        item = source.load(record[_OFFSET])
        self.require(item != NULL)
        tests: dict[FormTest, Callable[[Value, Value, Value], None]] = {
            FormTest.SAME: self._test_same, FormTest.EQUAL: self._test_equal, FormTest.KNOWN: self._test_known,
            FormTest.KIND: self._test_kind, FormTest.LENGTH: self._test_length, FormTest.SHAPE: self._test_shape,
            FormTest.VERSION: self._test_version, FormTest.LARGER: self._test_larger,
            FormTest.UNMARKED: self._test_unmarked, FormTest.MEMBER: self._test_member}
        for test, write in tests.items():
            with self.when(record[_TEST] == int(test)):
                write(source, item, record)

    def _test_same(self, source: Value, item: Value, record: Value) -> None:
        self.require(item == record.pointer(_VALUE))

    def _test_equal(self, source: Value, item: Value, record: Value) -> None:
        value = record.pointer(_VALUE)
        with self.when(item != value):
            self.require(item.field("type") == value.field("type"))
            with self.when(item.field("type") == self.object(tuple)), self.loop(item.field("length")) as k:
                self.require(item.items().pointer(k).field("type") == self.object(int))
            with self.when(item.field("type") == self.object(float)):
                self.require(item.field("number", "i64") == value.field("number", "i64"))
            with self.otherwise():
                self._require_equal(item, value)

    def _require_equal(self, item: Value, value: Value) -> None:
        """Compare two ints, or tuples of ints."""
        self.require(self.api("PyObject_RichCompareBool", item, value, self.constant(_EQUAL, "i32")) == 1)

    def _test_known(self, source: Value, item: Value, record: Value) -> None:
        self.require(item == self.objects.pointer(record[_VALUE]))

    def _test_kind(self, source: Value, item: Value, record: Value) -> None:
        self.require(item.field("type") == record.pointer(_VALUE))
        number, first = record[_NUMBER], record[_FIRST]
        with self.loop(number - first) as k:
            self.require(self.objects.pointer(first + k) != item)
        self.objects[number] = item

    def _test_length(self, source: Value, item: Value, record: Value) -> None:
        self.require(item.field("type") == self.object(tuple))
        self.require(item.field("length") == record[_VALUE])
        self.objects[record[_NUMBER]] = item

    def _test_shape(self, source: Value, item: Value, record: Value) -> None:
        array, sizes, rank = checked_array(item), record.pointer(_VALUE), record[_NUMBER]
        self.require(array.field("rank").cast("sext", "i64") == rank)
        own = array.field("shape")
        with self.loop(rank) as axis:
            self.require(own[axis] == sizes[axis])

    def _test_version(self, source: Value, item: Value, record: Value) -> None:
        counter = self.objects.pointer(record[_VALUE]).load(record[_FIRST])
        self.require(counter != NULL)
        with self.when(counter == self.object(None)):
            self.require(item == self.object(0))
        with self.otherwise():
            self.require(counter.field("type") == self.object(list))
            count = counter.items().pointer(0)
            with self.when(item != count):
                self.require(item.field("type") == self.object(int), count.field("type") == self.object(int))
                self._require_equal(item, count)

    def _test_larger(self, source: Value, item: Value, record: Value) -> None:
        other = self.objects.pointer(record[_VALUE]).load(record[_OFFSET])
        numbers = [self.api("PyLong_AsLongLongAndOverflow", x, self.stack(1, "i32")) for x in (item, other)]
        self.require(numbers[0] > numbers[1])

    def _test_unmarked(self, source: Value, item: Value, record: Value) -> None:
        mark = self.api("PyObject_GetAttr", source, record.pointer(_VALUE))
        self.require(mark != NULL, otherwise="failed")
        self.release(mark)  # an attribute of the source, or of its class
        self.require(mark == self.object(None))

    def _test_member(self, source: Value, item: Value, record: Value) -> None:
        members = self.objects.pointer(record[_VALUE])
        self.require(members.field("type") == self.object(tuple))
        found = self.variable(0)
        with self.loop(members.field("length")) as k:
            is_source = members.items().pointer(k) == source
            found.value = found.value | is_source.cast("zext", "i64")
        self.require(found.value != 0)

    def _answer(self) -> None:
        """Return the results as a tuple."""
        count = self.table[_Head.RESULTS]
        made = self.api("PyTuple_New", count)
        self.require(made != NULL, otherwise="failed")
        numbers = self.table.pointer(_Head.RESULT_PLACE)
        with self.loop(count) as k:
            self.api("PyTuple_SetItem", made, k, self.retain(self.objects.pointer(numbers[k])))
        self.returns(made)
