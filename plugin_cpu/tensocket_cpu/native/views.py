"""Views as built-in functions: the geometry of calls that came before, in a table that machine code looks up.

The function describes a call by words (``view_code``) and looks for a record with the same words. A call without one
goes to the next path; then the plan's function tells what the next path makes of such calls, and a record of that is
compared once with what the machine code makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.plans import RecordedView, ViewPlan

from ..code.pointers import address_of
from .builtin import Code, Words
from .layout import WRITEABLE
from .view_code import PLACES, Head, Kind, Record, Result, ViewCode
from .view_words import WORDS
from .wrappers import find_wrapper

if TYPE_CHECKING:
    from ..code.compiler import Compiler
    from .layout import Layout

#: The most records of a table; when it is full, they go. A third of the places stays free, so that a search is short.
_RECORDS: Final = 80
#: How often a table is emptied; after that, new calls take the next path.
_ROUNDS: Final = 16
#: The most calls that came once, and the most that cannot be noted; after that, new calls take the next path at once.
_ONCE: Final = 1024
_REFUSED: Final = 256


class ViewCompiler:
    """Compiles the functions of views for one device; their machine code is the same for all plans of a class."""

    def __init__(self, compiler: Callable[[], Compiler], layout: Layout) -> None:
        self._compiler, self._layout = compiler, layout
        self._codes: dict[type, Code | None] = {}

    def compile(self, plan: ViewPlan, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return the function; None for a wrapper of an unknown layout."""
        kind = plan.wrapper.kind
        if kind not in self._codes:
            self._codes[kind] = self._code(plan)
        code = self._codes[kind]
        return None if code is None else ViewTable(plan, code, next_path).function

    def _code(self, plan: ViewPlan) -> Code | None:
        wrapper = find_wrapper(plan.wrapper)
        if wrapper is None:
            return None
        f = ViewCode(self._layout, plan, wrapper)
        return f.compile(self._compiler(), f.name, plan.wrapper, plan.mark)


class ViewTable:
    """The records of one function, which the next path serves in all other calls.

    Attributes:
        function: The function.
    """

    def __init__(self, plan: ViewPlan, code: Code, next_path: Callable[..., Any]) -> None:
        self._plan, self._next_path = plan, next_path
        self._words, self._missed = np.zeros((2, WORDS), np.uint64)
        self._places = np.zeros(PLACES, np.uint64)
        self._records: list[Any] = []
        self._once: set[int] = set()
        self._rounds = self._noted = self._refused = 0
        miss = self._miss
        table = self._table = code.table()
        table[Head.NEXT_PATH], table[Head.MISS], table[Head.OVERRIDES] = id(next_path), id(miss), id(plan.overrides)
        table[Head.PLACES], table[Head.WORDS] = address_of(self._places), address_of(self._words)
        table[Head.MISSED_WORDS] = address_of(self._missed)
        table.alive = plan, next_path, miss, code, self._places, self._words, self._missed
        self.function = code.method(table)

    def _miss(self, *args: Any, **named: Any) -> Any:
        """Serve a call without a record, and add one."""
        count, key, misses = [int(self._table[k]) for k in (Head.COUNT, Head.HASH, Head.MISSES)]
        if key not in self._once:  # a call that comes once, such as one of a loop over rows, is not worth a record
            self._once.add(key)
            if len(self._once) > _ONCE:
                self._stop()
            self._noted = misses
            return self._next_path(*args, **named)
        words, is_own = self._missed[:count].copy(), misses != self._noted
        self._noted = misses
        result = self._next_path(*args, **named)
        if is_own:
            self._learn(words, key, args, named)
        return result

    def _stop(self) -> None:
        """Let calls without a record take the next path at once."""
        self._table[Head.MISS] = id(self._next_path)

    def _learn(self, words: Any, key: int, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        plan = self._plan
        found = plan.function(*args, **named)
        if found is NotImplemented:
            self._refused += 1
            if self._refused == _REFUSED:
                self._stop()
            return
        if found is None or found is args[0]:
            record = self._record(words, key, Kind.OTHER if found is None else Kind.SAME, [])
        else:
            source = getattr(args[0], plan.wrapper.array)
            record = self._record(words, key, Kind.VIEWS if isinstance(found, tuple) else Kind.VIEW,
                                  [_result(x, source) for x in _several(found)])
        # Arguments whose identity the words hold stay alive; tensors, and the memory of views, don't.
        kind = plan.wrapper.kind
        record.alive = record.alive, [x for x in (*args, *named.values()) if not isinstance(x, kind)]
        self._insert(key, record)
        if record[Record.KIND] > Kind.SAME and not self._agrees(found, args, named):
            record[Record.KIND] = Kind.OTHER

    def _record(self, words: Any, key: int, kind: Kind, results: Sequence[Any]) -> Words:
        table = Words(len(Record), np.uint64)
        rows = np.array([row for row, _ in results], np.uint64)
        table[:] = [key, len(words), address_of(words), kind, len(results),
                    address_of(rows) if results else 0, id(table)]
        table.alive = words, rows, [owners for _, owners in results]
        return table

    def _insert(self, key: int, record: Words) -> None:
        if len(self._records) == _RECORDS:
            self._places[:] = 0
            self._records = []
            self._rounds += 1
            if self._rounds == _ROUNDS:
                self._stop()
        self._records.append(record)
        place = key % PLACES
        while self._places[place]:
            place = (place + 1) % PLACES
        self._places[place] = address_of(record)

    def _agrees(self, wanted: Any, args: tuple[Any, ...], named: dict[str, Any]) -> bool:
        """Whether the machine code makes the views that the plan's function made."""
        made, plan = self.function(*args, **named), self._plan
        return isinstance(wanted, tuple) == (type(made) is tuple) and all(
            _same(getattr(x, plan.wrapper.array), y.array) and getattr(x, plan.key) == y.key
            for x, y in zip(_several(made), _several(wanted), strict=True))


def _several(views: Any) -> tuple[Any, ...]:
    return views if isinstance(views, tuple) else (views,)


def _result(view: RecordedView, source: Any) -> tuple[list[int], Any]:
    """Return the words of a view's record, and the owners of their addresses."""
    array = view.array
    shape, strides = np.array(array.shape, np.int64), np.array(array.strides, np.int64)
    offset = (address_of(array) - address_of(source)) & (1 << 64) - 1
    words = [id(array.dtype), array.ndim, address_of(shape), address_of(strides), offset,
             WRITEABLE if array.flags.writeable or not source.flags.writeable else 0, id(view.key),
             0 if view.mark is None else id(view.mark)]
    assert len(words) == len(Result)
    return words, (shape, strides, array.dtype, view.key, view.mark)


def _same(found: Any, wanted: Any) -> bool:
    return bool(found.dtype is wanted.dtype and found.shape == wanted.shape and found.strides == wanted.strides
                and address_of(found) == address_of(wanted) and found.flags.writeable == wanted.flags.writeable)
