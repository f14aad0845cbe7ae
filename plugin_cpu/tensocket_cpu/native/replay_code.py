"""The machine code of replays: one function that interprets a table (``replay``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Final

import numpy as np

from tensocket_plugins.contract.plans import WrapperLayout

from ..memory.allocator import POOLED
from .layout import Layout
from .resources import Resources, resources_text
from .writer import Text

NAME: Final = "tensocket_replay"
#: The most results of a call; below, the most arrays.
RESULTS: Final = 8
_EMPTY: Final = ()
_ARRAYS: Final = 24
#: The number of words of a record. Operand: position, dtype (0: None), rank, address of sizes and strides. Result:
#: dtype, rank, addresses of sizes and of strides, bytes; then the slots' values. Patch: address to write, number of the
#: array, bytes after its first element. Kernel: function, slots, iterations, pieces. Trailing argument: position,
#: object. Range: number of the operand, count of its elements, smallest value, count of values from there on, one other
#: value. Zero: address, mask of the bits.
_OPERAND, _RESULT, _PATCH, _KERNEL, _TRAILING, _RANGE, _ZERO = 4, 5, 3, 4, 2, 5, 2


class Head(IntEnum):
    """Words at the beginning of a table: for each kind of record their number, followed by their address."""

    OPERANDS = 0
    RESULTS = 2
    PATCHES = 4
    KERNELS = 6
    TRAILING = 8
    ARGUMENTS = 10
    IS_TUPLE = 11
    RANGES = 12
    ZEROS = 14
    OPERAND_PLACE = 1
    RESULT_PLACE = 3
    PATCH_PLACE = 5
    KERNEL_PLACE = 7
    TRAILING_PLACE = 9
    RANGE_PLACE = 13
    ZERO_PLACE = 15
    NEXT_PATH = 16
    DIVIDED = 17


class _Loops:
    """Loops over records. Their counters are in memory, which LLVM promotes to registers."""

    def __init__(self, w: Text) -> None:
        self.w = w
        self.places: list[str] = []

    @contextmanager
    def over(self, count: str) -> Iterator[str]:
        """Put a loop around the lines of a ``with`` block; yield its counter, which starts at 0."""
        w = self.w
        name = w.label()
        self.places.append(f"  %{name}.at = alloca i64")
        w.do(f"store i64 0, ptr %{name}.at")
        w.do(f"br label %{name}.next")
        w.do(f"{name}.next:")
        number = w.op(f"load i64, ptr %{name}.at")
        w.do(f"br i1 {w.op(f'icmp slt i64 {number}, {count}')}, label %{name}.body, label %{name}.done")
        w.do(f"{name}.body:")
        yield number
        w.do(f"store i64 {w.op(f'add i64 {number}, 1')}, ptr %{name}.at")
        w.do(f"br label %{name}.next")
        w.do(f"{name}.done:")

    @contextmanager
    def records(self, head: Head, words: int) -> Iterator[tuple[str, str]]:
        """Put a loop over records of the table around a ``with`` block; yield number and address of the record."""
        w = self.w
        first = w.item("%table", head + 1, "ptr")
        with self.over(w.item("%table", head, "i64")) as number:
            yield number, w.op(f"getelementptr i64, ptr {first}, i64 {w.op(f'mul i64 {number}, {words}')}")


def replay_text(w: Text, layout: Layout, resources: Resources, wrapper: WrapperLayout, offsets: dict[str, int]) -> str:
    """Return the function's LLVM IR.

    Args:
        w: A text without lines; its addresses are the head.
        layout: The byte offsets of fields.
        resources: Memory and threads.
        wrapper: The layout of operands and results; only its class and the names of its slots matter.
        offsets: The byte offsets of its slots.
    """
    loops = _Loops(w)
    w.do(f"  %table = load ptr, ptr {w.op(f'getelementptr i8, ptr %self, i64 {layout.data}')}")
    w.do(f"  %block = bitcast ptr {w.known(resources.address)} to ptr")
    w.branch([w.op("icmp eq ptr %names, null"),
              w.op(f"icmp sge i64 %count, {w.item('%table', Head.ARGUMENTS, 'i64')}")])
    with loops.records(Head.TRAILING, _TRAILING) as (_, record):
        given = w.item("%args", w.item(record, 0, "i64"), "ptr")
        w.branch([w.op(f"icmp eq ptr {given}, {w.item(record, 1, 'ptr')}")])
    _check_workers(w)
    _check(w, loops, layout, wrapper, offsets)
    _check_ranges(w, loops)
    _make(w, loops, layout, _RESULT + len(wrapper.slots))
    with loops.records(Head.PATCHES, _PATCH) as (_, record):
        address = w.item("%data", w.item(record, 1, "i64"), "i64")
        w.do(f"store i64 {w.op(f'add i64 {address}, ' + w.item(record, 2, 'i64'))}, ptr {w.item(record, 0, 'ptr')}")
    with loops.records(Head.KERNELS, _KERNEL) as (_, record):
        w.do(f"call void @divide(ptr %block, ptr {w.item(record, 0, 'ptr')}, ptr {w.item(record, 1, 'ptr')}, "
             f"i64 {w.item(record, 2, 'i64')}, i64 {w.item(record, 3, 'i64')})")
    _check_zeros(w, loops, layout)
    _answer(w, loops, layout, wrapper, offsets)
    w.do("slow:")
    answer = w.op(f"call ptr {w.known(layout.call)}(ptr {w.item('%table', Head.NEXT_PATH, 'ptr')}, ptr %args, "
                  "i64 %count, ptr %names)")
    w.do(f"ret ptr {answer}")
    head = f"define ptr @{NAME}(ptr %self, ptr %args, i64 %count, ptr %names) {{"
    return "\n".join([resources_text(POOLED), head, "entry:",
                      f"  %data = alloca [{_ARRAYS} x i64]", f"  %made = alloca [{RESULTS} x ptr]", *loops.places,
                      *w.lines, "}", ""])


def _check_workers(w: Text) -> None:
    """Go to ``slow`` if no worker runs, but threads may divide a kernel."""
    look, ready = w.label(), w.label()
    alone = w.op(f"icmp eq i64 {w.item('%table', Head.DIVIDED, 'i64')}, 0")
    w.do(f"br i1 {alone}, label %{ready}, label %{look}")
    w.do(f"{look}:")
    w.branch([w.op("call i1 @ready(ptr %block)")], ready)


def _check(w: Text, loops: _Loops, layout: Layout, wrapper: WrapperLayout, offsets: dict[str, int]) -> None:
    """Compare operands with their records, and store the addresses of their elements."""
    kind, arrays, none = w.known(id(wrapper.kind)), w.known(id(np.ndarray)), w.known(id(None))
    with loops.records(Head.OPERANDS, _OPERAND) as (number, record):
        item = w.item("%args", w.item(record, 0, "i64"), "ptr")
        dtype = w.item(record, 1, "ptr")
        missing, given, fits = w.label(), w.label(), w.label()
        w.do(f"br i1 {w.op(f'icmp eq ptr {dtype}, null')}, label %{missing}, label %{given}")
        w.do(f"{missing}:")
        w.branch([w.op(f"icmp eq ptr {item}, {none}")], fits + ".none")
        w.do(f"br label %{fits}")
        w.do(f"{given}:")
        array = _opened(w, layout, kind, offsets[wrapper.array], item)
        w.branch([w.op(f"icmp eq ptr {w.field(array, layout.type, 'ptr')}, {arrays}")])
        rank = w.op(f"sext i32 {w.field(array, layout.rank, 'i32')} to i64")
        w.branch([w.op(f"icmp eq ptr {w.field(array, layout.dtype, 'ptr')}, {dtype}"),
                  w.op(f"icmp eq i64 {rank}, {w.item(record, 2, 'i64')}")])
        sizes, strides = w.field(array, layout.shape, "ptr"), w.field(array, layout.strides, "ptr")
        wanted = w.item(record, 3, "ptr")
        with loops.over(rank) as axis:
            behind = w.op(f"add i64 {axis}, {rank}")
            w.branch([w.op(f"icmp eq i64 {w.item(sizes, axis, 'i64')}, {w.item(wanted, axis, 'i64')}"),
                      w.op(f"icmp eq i64 {w.item(strides, axis, 'i64')}, {w.item(wanted, behind, 'i64')}")])
        place = w.op(f"getelementptr i64, ptr %data, i64 {number}")
        w.do(f"store i64 {w.field(array, layout.data, 'i64')}, ptr {place}")
        w.do(f"br label %{fits}")
        w.do(f"{fits}:")


def _check_ranges(w: Text, loops: _Loops) -> None:
    """Compare the values of operands that have ranges: all of them without a branch, as vectors."""
    bad = f"%{w.label()}.at"
    loops.places.append(f"  {bad} = alloca i64")
    w.do(f"store i64 0, ptr {bad}")
    with loops.records(Head.RANGES, _RANGE) as (_, record):
        elements = w.item("%data", w.item(record, 0, "i64"), "ptr")
        low, span, other = (w.item(record, k, "i64") for k in (2, 3, 4))
        with loops.over(w.item(record, 1, "i64")) as k:
            value = w.item(elements, k, "i64")
            outside = w.op(f"icmp uge i64 {w.op(f'sub i64 {value}, {low}')}, {span}")
            wrong = w.op(f"and i1 {outside}, {w.op(f'icmp ne i64 {value}, {other}')}")
            before, more = w.op(f"load i64, ptr {bad}"), w.op(f"zext i1 {wrong} to i64")
            w.do(f"store i64 {w.op(f'or i64 {before}, {more}')}, ptr {bad}")
    w.branch([w.op(f"icmp eq i64 {w.op(f'load i64, ptr {bad}')}, 0")])


def _check_zeros(w: Text, loops: _Loops, layout: Layout) -> None:
    """Test the elements that the function tests; if one is not zero, release the results and go to ``slow``."""
    with loops.records(Head.ZEROS, _ZERO) as (_, record):
        found = w.op(f"load i64, ptr {w.item(record, 0, 'ptr')}, align 1")
        bits = w.op(f"and i64 {found}, {w.item(record, 1, 'i64')}")
        fits, lost = w.label(), w.label()
        w.do(f"br i1 {w.op(f'icmp eq i64 {bits}, 0')}, label %{fits}, label %{lost}")
        w.do(f"{lost}:")
        _release(w, loops, layout, "0", w.item("%table", Head.RESULTS, "i64"))
        w.do("br label %slow")
        w.do(f"{fits}:")


def _opened(w: Text, layout: Layout, kind: str, offset: int, item: str) -> str:
    """Return the array in a wrapper; go to ``slow`` if the object is of another class, or its slot is empty."""
    own = w.field(item, layout.type, "ptr")
    heir, ready = w.label(), w.label()
    w.do(f"br i1 {w.op(f'icmp eq ptr {own}, {kind}')}, label %{ready}, label %{heir}")
    w.do(f"{heir}:")
    answer = w.op(f"call i32 {w.known(layout.is_subtype)}(ptr {own}, ptr {kind})")
    w.branch([w.op(f"icmp ne i32 {answer}, 0")], ready)
    array = w.field(item, offset, "ptr")
    w.branch([w.op(f"icmp ne ptr {array}, null")])
    return array


def _make(w: Text, loops: _Loops, layout: Layout, words: int) -> None:
    """Allocate the results."""
    given = w.item("%table", Head.OPERANDS, "i64")
    with loops.records(Head.RESULTS, words) as (number, record):
        dtype = w.item(record, 0, "ptr")
        rank = w.op(f"trunc i64 {w.item(record, 1, 'i64')} to i32")
        made = w.op(f"call ptr @allocate(ptr %block, ptr {dtype}, i32 {rank}, ptr {w.item(record, 2, 'ptr')}, "
                    f"ptr {w.item(record, 3, 'ptr')}, i64 {w.item(record, 4, 'i64')})")
        there, lost = w.label(), w.label()
        w.do(f"br i1 {w.op(f'icmp ne ptr {made}, null')}, label %{there}, label %{lost}")
        w.do(f"{lost}:")
        _release(w, loops, layout, "0", number)
        w.do("br label %slow")
        w.do(f"{there}:")
        w.do(f"store ptr {made}, ptr {w.op(f'getelementptr ptr, ptr %made, i64 {number}')}")
        place = w.op(f"getelementptr i64, ptr %data, i64 {w.op(f'add i64 {given}, {number}')}")
        w.do(f"store i64 {w.field(made, layout.data, 'i64')}, ptr {place}")


def _release(w: Text, loops: _Loops, layout: Layout, first: str, end: str) -> None:
    """Release the results from ``first`` up to, but not including, ``end``."""
    count = w.op(f"sub i64 {end}, {first}")
    with loops.over(count) as k:
        held = w.item("%made", w.op(f"add i64 {first}, {k}"), "ptr")
        w.do(f"call void {w.known(layout.release)}(ptr {held})")


def _answer(w: Text, loops: _Loops, layout: Layout, wrapper: WrapperLayout, offsets: dict[str, int]) -> None:
    """Return the results in wrappers: one, or a tuple."""
    count = w.item("%table", Head.RESULTS, "i64")
    words = _RESULT + len(wrapper.slots)
    with loops.records(Head.RESULTS, words) as (number, record):
        made = w.op(f"call ptr {w.known(layout.new_object)}(ptr {w.known(id(wrapper.kind))}, "
                    f"ptr {w.known(id(_EMPTY))}, ptr null)")
        there, lost = w.label(), w.label()
        w.do(f"br i1 {w.op(f'icmp ne ptr {made}, null')}, label %{there}, label %{lost}")
        w.do(f"{lost}:")
        _release(w, loops, layout, "0", count)  # earlier results are wrappers by now
        w.do("ret ptr null")
        w.do(f"{there}:")
        place = w.op(f"getelementptr ptr, ptr %made, i64 {number}")
        _store(w, made, offsets[wrapper.array], w.op(f"load ptr, ptr {place}"))
        for k, (name, _, _) in enumerate(wrapper.slots):
            value = w.item(record, _RESULT + k, "ptr")
            w.do(f"call void {w.known(layout.retain)}(ptr {value})")
            _store(w, made, offsets[name], value)
        w.do(f"store ptr {made}, ptr {place}")
    w.branch([w.op(f"icmp eq i64 {w.item('%table', Head.IS_TUPLE, 'i64')}, 0")], "single", "several")
    w.do(f"ret ptr {w.item('%made', 0, 'ptr')}")
    w.do("several:")
    answer = w.op(f"call ptr {w.known(layout.tuple_new)}(i64 {count})")
    there, lost = w.label(), w.label()
    w.do(f"br i1 {w.op(f'icmp ne ptr {answer}, null')}, label %{there}, label %{lost}")
    w.do(f"{lost}:")
    _release(w, loops, layout, "0", count)
    w.do("ret ptr null")
    w.do(f"{there}:")
    with loops.over(count) as place:
        w.op(f"call i32 {w.known(layout.tuple_set)}(ptr {answer}, i64 {place}, ptr {w.item('%made', place, 'ptr')})")
    w.do(f"ret ptr {answer}")


def _store(w: Text, base: str, offset: int, value: str) -> None:
    w.do(f"store ptr {value}, ptr {w.op(f'getelementptr i8, ptr {base}, i64 {offset}')}")
