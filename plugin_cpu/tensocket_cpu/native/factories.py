"""Factories as built-in functions: what calls make that came before, in a table that machine code looks up.

A call without a record goes to the next path; then the plan's function tells what calls like it make. The machine code
makes a copy of an array, or calls a function that draws the numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from tensocket_plugins.contract.plans import FactoryPlan, RecordedCopy

from ..code.pointers import address_of
from ..memory.allocator import POOLED
from .builder import NULL, Value
from .builtin import Code
from .call_code import OTHER, CallCode, Record
from .call_tables import CallTable
from .call_words import CallDescription
from .layout import Layout
from .resources import new_array
from .wrappers import Wrapper, find_wrapper

if TYPE_CHECKING:
    from ..code.compiler import Compiler

#: Outcomes of calls: that of the next path, a copy of an array, or what a function returns.
Kind = IntEnum("Kind", "OTHER COPY CALL", start=OTHER)
#: Words of a copy; the word of a call is the function.
Result = IntEnum("Result", "DTYPE RANK SHAPE STRIDES DATA NBYTES KEY", start=0)


class FactoryCompiler:
    """Compiles the functions of factories for one device; plans that differ in their function alone share the code."""

    def __init__(self, compiler: Callable[[], Compiler], layout: Layout) -> None:
        self._compiler, self._layout = compiler, layout
        self._codes: dict[Any, Code | None] = {}

    def compile(self, plan: FactoryPlan, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return the function; None for a wrapper of an unknown layout."""
        name = plan.wrapper.kind, plan.elements, *map(id, (*plan.context, *plan.overrides))
        if name not in self._codes:
            self._codes[name] = self._code(plan)
        code = self._codes[name]
        return None if code is None else _FactoryTable(plan, code, next_path).function

    def _code(self, plan: FactoryPlan) -> Code | None:
        wrapper = find_wrapper(plan.wrapper)
        if wrapper is None:
            return None
        f = _FactoryCode(self._layout, plan, wrapper)
        return f.compile(self._compiler(), f.name, plan)


class _FactoryCode(CallCode):
    """The function that repeats calls."""

    def __init__(self, layout: Layout, plan: FactoryPlan, wrapper: Wrapper) -> None:
        super().__init__(layout, "tensocket_factory",
                         CallDescription(wrapper, plan.key, plan.context, plan.elements))
        self.require(*[self.object(x).field("length") == 0 for x in plan.overrides])
        self._answer(self.find(), plan, wrapper)
        self.end()

    def _answer(self, record: Value, plan: FactoryPlan, wrapper: Wrapper) -> None:
        """Return a copy, or what the function in the record returns; the record may go while Python code runs."""
        owner, result = self.retain(record.pointer(Record.OWNER)), record.pointer(Record.RESULTS_PLACE)
        with self.when(record[Record.KIND] == Kind.CALL):
            made = self.api("PyObject_Vectorcall", result.pointer(0), NULL, 0, NULL)
            self.release(owner)
            self.returns(made)
        array = new_array(self, result.pointer(Result.DTYPE), result[Result.RANK].cast("trunc", "i32"),
                          result.pointer(Result.SHAPE), result.pointer(Result.STRIDES))
        self.require(array != NULL, otherwise="drop.failed")
        self.copy(array.field("data"), result.pointer(Result.DATA), result[Result.NBYTES])
        made = wrapper.new(self)
        with self.when(made == NULL):
            self.release(array)
            self.goto("drop.failed")
        values = {name: self.object(value) for name, value, _ in plan.wrapper.slots}
        wrapper.fill(made, array, values | {plan.key: result.pointer(Result.KEY)})
        self.release(owner)
        self.returns(made)
        self.label("drop.failed")
        self.release(owner)
        self.goto("failed")


class _FactoryTable(CallTable):
    """The records of one factory."""

    def __init__(self, plan: FactoryPlan, code: Code, next_path: Callable[..., Any]) -> None:
        super().__init__(code, next_path, plan.wrapper.kind, {}, plan)
        self._plan = plan

    def learn(self, words: Any, key: int, args: tuple[Any, ...], named: dict[str, Any]) -> bool:
        """Add a record of what the plan's function makes."""
        found = self._plan.function(*args, **named)
        if found is NotImplemented:
            return False
        if found is None or (isinstance(found, RecordedCopy) and found.array.nbytes >= POOLED):
            self.add(words, key, Kind.OTHER, [], args, named)
        elif isinstance(found, RecordedCopy):
            self.add(words, key, Kind.COPY, [_result(found)], args, named)
        else:
            self.add(words, key, Kind.CALL, [([id(found)], found)], args, named)
        return True


def _result(copy: RecordedCopy) -> tuple[list[int], Any]:
    """Return the words of a copy, and the owners of their addresses."""
    array = copy.array
    shape, strides = np.array(array.shape, np.int64), np.array(array.strides, np.int64)
    words = [id(array.dtype), array.ndim, address_of(shape), 0 if array.flags.c_contiguous else address_of(strides),
             address_of(array), array.nbytes, id(copy.key)]
    assert len(words) == len(Result)
    return words, (shape, strides, array, array.dtype, copy.key)
