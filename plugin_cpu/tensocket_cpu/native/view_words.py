"""The words that describe a call of a view: the types of its arguments, their values, and the layouts of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from tensocket_plugins.contract.plans import ViewPlan

from .layout import WRITEABLE, Layout
from .writer import Text

#: The most words that describe a call; the most arguments; the most dimensions, and items of a tuple or list.
WORDS: Final = 192
_ARGUMENTS: Final = 8
_RANKS: Final = 8
#: Words that one argument may take at most, a tuple of slices in a tuple: types, counts, and three numbers for each.
_ROOM: Final = 4 + 7 * _RANKS
#: An odd number, whose bits mix those of a product.
_MIX: Final = 0x9E3779B97F4A7C15
#: Functions that write words at ``%out`` and return the address behind them; null for numbers that no word holds, and
#: for sequences of many items or dimensions.
_HELPERS: Final = """\
define internal ptr @array(ptr %array, ptr %out, ptr %known) {{
entry:
  %type.at = getelementptr i8, ptr %array, i64 {type}
  %type = load ptr, ptr %type.at
  %is.array = icmp eq ptr %type, %known
  br i1 %is.array, label %open, label %no
open:
  %rank.at = getelementptr i8, ptr %array, i64 {rank}
  %rank.32 = load i32, ptr %rank.at
  %rank = sext i32 %rank.32 to i64
  %flags.at = getelementptr i8, ptr %array, i64 {flags}
  %flags.32 = load i32, ptr %flags.at
  %flag.32 = and i32 %flags.32, {writeable}
  %flag = sext i32 %flag.32 to i64
  %both = or i64 %rank, %flag
  %few = icmp sle i64 %rank, {ranks}
  br i1 %few, label %write, label %no
write:
  %dtype.at = getelementptr i8, ptr %array, i64 {dtype}
  %dtype = load i64, ptr %dtype.at
  store i64 %dtype, ptr %out
  %out.1 = getelementptr i64, ptr %out, i64 1
  store i64 %both, ptr %out.1
  %out.2 = getelementptr i64, ptr %out, i64 2
  %out.3 = getelementptr i64, ptr %out.2, i64 %rank
  %end = getelementptr i64, ptr %out.3, i64 %rank
  %shape.at = getelementptr i8, ptr %array, i64 {shape}
  %shape = load ptr, ptr %shape.at
  %strides.at = getelementptr i8, ptr %array, i64 {strides}
  %strides = load ptr, ptr %strides.at
  br label %next
next:
  %k = phi i64 [0, %write], [%k.next, %body]
  %more = icmp slt i64 %k, %rank
  br i1 %more, label %body, label %yes
body:
  %size.at = getelementptr i64, ptr %shape, i64 %k
  %size = load i64, ptr %size.at
  %size.to = getelementptr i64, ptr %out.2, i64 %k
  store i64 %size, ptr %size.to
  %step.at = getelementptr i64, ptr %strides, i64 %k
  %step = load i64, ptr %step.at
  %step.to = getelementptr i64, ptr %out.3, i64 %k
  store i64 %step, ptr %step.to
  %k.next = add i64 %k, 1
  br label %next
yes:
  ret ptr %end
no:
  ret ptr null
}}
define internal ptr @number(ptr %item, ptr %out, ptr %int, ptr %convert, ptr %beyond) {{
entry:
  %type.at = getelementptr i8, ptr %item, i64 {type}
  %type = load ptr, ptr %type.at
  store ptr %type, ptr %out
  %second = getelementptr i64, ptr %out, i64 1
  %end = getelementptr i64, ptr %out, i64 2
  %is.int = icmp eq ptr %type, %int
  br i1 %is.int, label %convert.item, label %other
convert.item:
  %value = call i64 %convert(ptr %item, ptr %beyond)
  %lost = load i32, ptr %beyond
  %exact = icmp eq i32 %lost, 0
  br i1 %exact, label %store, label %no
store:
  store i64 %value, ptr %second
  ret ptr %end
other:
  store ptr %item, ptr %second
  ret ptr %end
no:
  ret ptr null
}}
define internal ptr @slice(ptr %item, ptr %out, ptr %int, ptr %convert, ptr %beyond) {{
entry:
  %parts = getelementptr i8, ptr %item, i64 {length}
  br label %next
next:
  %k = phi i64 [0, %entry], [%k.next, %written]
  %to = phi ptr [%out, %entry], [%to.next, %written]
  %part.at = getelementptr ptr, ptr %parts, i64 %k
  %part = load ptr, ptr %part.at
  %to.next = call ptr @number(ptr %part, ptr %to, ptr %int, ptr %convert, ptr %beyond)
  %known = icmp ne ptr %to.next, null
  br i1 %known, label %written, label %no
written:
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, 3
  br i1 %more, label %next, label %yes
yes:
  ret ptr %to.next
no:
  ret ptr null
}}
define internal ptr @items(ptr %items, i64 %count, ptr %out, ptr %int, ptr %slice, ptr %convert, ptr %beyond) {{
entry:
  %few = icmp sle i64 %count, {ranks}
  br i1 %few, label %next, label %no
next:
  %k = phi i64 [0, %entry], [%k.next, %written]
  %to = phi ptr [%out, %entry], [%to.next, %written]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %body, label %yes
body:
  %item.at = getelementptr ptr, ptr %items, i64 %k
  %item = load ptr, ptr %item.at
  %type.at = getelementptr i8, ptr %item, i64 {type}
  %type = load ptr, ptr %type.at
  %is.slice = icmp eq ptr %type, %slice
  br i1 %is.slice, label %range, label %single
range:
  store ptr %type, ptr %to
  %parts = getelementptr i64, ptr %to, i64 1
  %after.range = call ptr @slice(ptr %item, ptr %parts, ptr %int, ptr %convert, ptr %beyond)
  br label %done
single:
  %after.single = call ptr @number(ptr %item, ptr %to, ptr %int, ptr %convert, ptr %beyond)
  br label %done
done:
  %to.next = phi ptr [%after.range, %range], [%after.single, %single]
  %known = icmp ne ptr %to.next, null
  br i1 %known, label %written, label %no
written:
  %k.next = add i64 %k, 1
  br label %next
yes:
  ret ptr %to
no:
  ret ptr null
}}
define internal ptr @sequence(ptr %given, ptr %out, ptr %int, ptr %list, ptr %tuple, ptr %slice, ptr %convert,
                              ptr %subtype, ptr %beyond) {{
entry:
  br label %open
open:
  %item = phi ptr [%given, %entry], [%first, %inner]
  %place = phi ptr [%out, %entry], [%deep, %inner]
  %is.outer = phi i1 [true, %entry], [false, %inner]
  %type.at = getelementptr i8, ptr %item, i64 {type}
  %type = load ptr, ptr %type.at
  %is.list = icmp eq ptr %type, %list
  %count.at = getelementptr i8, ptr %item, i64 {length}
  %count = load i64, ptr %count.at
  store i64 %count, ptr %place
  %after = getelementptr i64, ptr %place, i64 1
  %items.at = getelementptr i8, ptr %item, i64 {items}
  %items.list = load ptr, ptr %items.at
  %items = select i1 %is.list, ptr %items.list, ptr %items.at
  %is.one = icmp eq i64 %count, 1
  %may.nest = and i1 %is.one, %is.outer
  br i1 %may.nest, label %one, label %flat
one:
  %first = load ptr, ptr %items
  %first.type.at = getelementptr i8, ptr %first, i64 {type}
  %first.type = load ptr, ptr %first.type.at
  %is.number = icmp eq ptr %first.type, %int
  br i1 %is.number, label %flat, label %kind
kind:
  store ptr %first.type, ptr %after
  %deep = getelementptr i64, ptr %after, i64 1
  %nests.list = icmp eq ptr %first.type, %list
  br i1 %nests.list, label %inner, label %ask
ask:
  %heir = call i32 %subtype(ptr %first.type, ptr %tuple)
  %nests.tuple = icmp ne i32 %heir, 0
  br i1 %nests.tuple, label %inner, label %flat
inner:
  br label %open
flat:
  %end = call ptr @items(ptr %items, i64 %count, ptr %after, ptr %int, ptr %slice, ptr %convert, ptr %beyond)
  ret ptr %end
}}
"""


def helpers(layout: Layout) -> str:
    """Return the functions that ``describe`` calls."""
    return _HELPERS.format(type=layout.type, rank=layout.rank, shape=layout.shape, strides=layout.strides,
                           dtype=layout.dtype, flags=layout.flags, length=layout.length, items=layout.items,
                           writeable=WRITEABLE, ranks=_RANKS)


def describe(w: Text, layout: Layout, plan: ViewPlan, offsets: dict[str, int]) -> None:
    """Write the words of the call; set ``%size``, their number, and ``%hash``. Go to ``slow`` for unknown arguments."""
    known = {name: w.known(address) for name, address in (
        ("int", id(int)), ("tuple", id(tuple)), ("list", id(list)), ("slice", id(slice)),
        ("none", id(None)), ("kind", id(plan.wrapper.kind)),
        ("array", id(np.ndarray)), ("convert", layout.as_integer), ("subtype", layout.is_subtype),
        ("named", layout.tuple_size))}
    w.do("%unnamed = icmp eq ptr %names, null")
    w.do("br i1 %unnamed, label %counted, label %with.names")
    w.do("with.names:")
    w.do(f"%extra = call i64 {known['named']}(ptr %names)")
    w.do("br label %counted")
    w.do("counted:")
    w.do("%more = phi i64 [0, %begin], [%extra, %with.names]")
    w.do("%total = add i64 %count, %more")
    w.do("store i64 %count, ptr %words")
    w.do("%after.0 = getelementptr i64, ptr %words, i64 1")
    w.branch([w.op(f"icmp sle i64 %total, {_ARGUMENTS}")], "describe")
    # Names are one object in the whole process.
    loop(w, "name", "%more", "describe", "%after.0", lambda: w.do(
        f"%name.out.next = {_next_word(w, '%name.out', w.item(_items(w, layout, '%names'), '%name.k', 'ptr'))}"))
    w.do(f"%limit = getelementptr i64, ptr %words, i64 {WORDS - _ROOM}")
    loop(w, "argument", "%total", "name.done", "%name.out", lambda: _argument(w, layout, known, offsets[
        plan.wrapper.array]))
    w.do("%begin.i = ptrtoint ptr %words to i64")
    w.do("%end.i = ptrtoint ptr %argument.out to i64")
    w.do("%bytes = sub i64 %end.i, %begin.i")
    w.do("%size = lshr i64 %bytes, 3")

    def mix() -> None:
        word = w.item("%words", "%mix.k", "i64")
        product = w.op(f"mul i64 {w.op(f'xor i64 %mix.out, {word}')}, {_MIX - (1 << 64)}")
        w.do(f"%mix.out.next = xor i64 {product}, {w.op(f'lshr i64 {product}, 29')}")

    loop(w, "mix", "%size", "argument.done", "0", mix, "i64")


def _next_word(w: Text, out: str, value: str, kind: str = "ptr") -> str:
    """Store a word, and return the instruction that makes the address behind it."""
    w.do(f"store {kind} {value}, ptr {out}")
    return f"getelementptr i64, ptr {out}, i64 1"


def _items(w: Text, layout: Layout, sequence: str) -> str:
    """Return the address of a tuple's items."""
    return w.op(f"getelementptr i8, ptr {sequence}, i64 {layout.items}")


def _argument(w: Text, layout: Layout, known: dict[str, str], array: int) -> None:
    """Write the words of one argument."""
    w.branch([w.op("icmp ule ptr %argument.out, %limit")])
    item = w.item("%args", "%argument.k", "ptr")
    kind = w.field(item, layout.type, "ptr")
    w.do(f"%out.1 = {_next_word(w, '%argument.out', kind)}")
    ends = []

    def case(name: str, condition: str) -> None:
        w.do(f"br i1 {condition}, label %is.{name}, label %not.{name}")
        w.do(f"is.{name}:")

    def end(name: str, value: str) -> None:
        w.do(f"%end.{name} = getelementptr i8, ptr {value}, i64 0")
        w.do(f"br label %from.{name}")
        w.do(f"from.{name}:")
        w.do("br label %argument.ready")
        ends.append(f"[%end.{name}, %from.{name}]")
        w.do(f"not.{name}:")

    case("kind", w.op(f"icmp eq ptr {kind}, {known['kind']}"))
    end("kind", _tensor(w, layout, known, array, item))
    case("int", w.op(f"icmp eq ptr {kind}, {known['int']}"))
    value = w.op(f"call i64 {known['convert']}(ptr {item}, ptr %beyond)")
    w.branch([w.op(f"icmp eq i32 {w.op('load i32, ptr %beyond')}, 0")])
    end("int", w.op(_next_word(w, "%out.1", value, "i64")))
    is_tuple, is_list = (w.op(f"icmp eq ptr {kind}, {known[name]}") for name in ("tuple", "list"))
    case("several", w.op(f"or i1 {is_tuple}, {is_list}"))
    end("several", _sequence(w, known, item))
    case("slice", w.op(f"icmp eq ptr {kind}, {known['slice']}"))
    parts = w.op(f"call ptr @slice(ptr {item}, ptr %out.1, ptr {known['int']}, ptr {known['convert']}, ptr %beyond)")
    w.branch([w.op(f"icmp ne ptr {parts}, null")])
    end("slice", parts)
    case("none", w.op(f"icmp eq ptr {item}, {known['none']}"))
    end("none", w.op(_next_word(w, "%out.1", item)))
    sizes = w.op(f"call i32 {known['subtype']}(ptr {kind}, ptr {known['tuple']})")
    case("sizes", w.op(f"icmp ne i32 {sizes}, 0"))
    end("sizes", _sequence(w, known, item))
    heir = w.op(f"call i32 {known['subtype']}(ptr {kind}, ptr {known['kind']})")
    case("heir", w.op(f"icmp ne i32 {heir}, 0"))
    end("heir", _tensor(w, layout, known, array, item))
    # The first argument is a tensor.
    w.branch([w.op("icmp ne i64 %argument.k, 0")])
    other = w.op(_next_word(w, "%out.1", item))
    w.do("br label %from.other")
    w.do("from.other:")
    w.do("br label %argument.ready")
    w.do("argument.ready:")
    w.do(f"%argument.out.next = phi ptr {', '.join([*ends, f'[{other}, %from.other]'])}")


def _sequence(w: Text, known: dict[str, str], item: str) -> str:
    """Write the words of a list or tuple of integers, or of one that holds such a sequence alone."""
    names = ("int", "list", "tuple", "slice", "convert", "subtype")
    written = w.op(f"call ptr @sequence(ptr {item}, ptr %out.1, {', '.join([f'ptr {known[x]}' for x in names])}, "
                   "ptr %beyond)")
    w.branch([w.op(f"icmp ne ptr {written}, null")])
    return written


def _tensor(w: Text, layout: Layout, known: dict[str, str], array: int, item: str) -> str:
    """Write the words of the array in a tensor; return the address behind them."""
    held = w.field(item, array, "ptr")
    w.branch([w.op(f"icmp ne ptr {held}, null")])
    written = w.op(f"call ptr @array(ptr {held}, ptr %out.1, ptr {known['array']})")
    w.branch([w.op(f"icmp ne ptr {written}, null")])
    return written


def loop(w: Text, name: str, count: str, before: str, start: str, body: Callable[[], None],
          kind: str = "ptr") -> None:
    """Put a loop around lines, with the counter ``%NAME.k`` and a value ``%NAME.out`` that they set to ``.next``."""
    w.do(f"br label %{name}")
    w.do(f"{name}:")
    w.do(f"%{name}.k = phi i64 [0, %{before}], [%{name}.k.next, %{name}.end]")
    w.do(f"%{name}.out = phi {kind} [{start}, %{before}], [%{name}.out.next, %{name}.end]")
    w.do(f"%{name}.more = icmp slt i64 %{name}.k, {count}")
    w.do(f"br i1 %{name}.more, label %{name}.body, label %{name}.done")
    w.do(f"{name}.body:")
    body()
    w.do(f"br label %{name}.end")
    w.do(f"{name}.end:")
    w.do(f"%{name}.k.next = add i64 %{name}.k, 1")
    w.do(f"br label %{name}")
    w.do(f"{name}.done:")
