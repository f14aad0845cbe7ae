"""Views of arrays of one layout, in wrappers, as built-in functions of the interpreter.

A table holds the layouts of array and view; one function of machine code, the same for all tables, checks the array,
makes the view and the object around it. Both objects share one counter of changes. It hands arrays of other layouts to
the next path.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.plans import ViewPlan

from ..code.pointers import address_of
from .entries import Words, make_method
from .layout import WRITEABLE, Layout
from .wrappers import open_wrapper, slot_offsets
from .writer import Text

if TYPE_CHECKING:
    from ..code.compiler import Compiler

Array = Any
_NAME: Final = "tensocket_view"
_EMPTY: Final = ()
#: Bits of an array's flags that a view takes over: writeable and aligned.
_KEPT: Final = WRITEABLE | 0x0100
_MASK: Final = (1 << 64) - 1


class _Head(IntEnum):
    """Words at the beginning of a table, in order; the values of the slots follow."""

    NEXT_PATH = 0
    DTYPE = 1
    RANK = 2
    SIZES = 3
    STRIDES = 4
    VIEW_DTYPE = 5
    VIEW_RANK = 6
    VIEW_SIZES = 7
    VIEW_STRIDES = 8
    SHIFT = 9


def make_view(compiler: Compiler, layout: Layout, plan: ViewPlan, next_path: Callable[..., Any]
              ) -> Callable[..., Any] | None:
    """Compile a view; return None if the machine code does not make the same view."""
    offsets = slot_offsets(plan.wrapper)
    if offsets is None or plan.base not in offsets or plan.wrapper.counter not in offsets or not (
            hasattr(plan.wrapper.kind, plan.mark)):
        return None
    w = Text()
    w.addresses = [0] * (len(_Head) + len(plan.wrapper.slots))
    text = _text(w, layout, plan, offsets)
    address, library = compiler.compile_once(text, _NAME)
    source, view = plan.array, plan.view
    sizes = [np.array([*x.shape, *x.strides, 0], np.int64) for x in (source, view)]
    places = [(address_of(x), address_of(x) + 8 * y.ndim) for x, y in zip(sizes, (source, view), strict=True)]
    words = [id(next_path), id(source.dtype), source.ndim, *places[0], id(view.dtype), view.ndim, *places[1],
             address_of(view) - address_of(source)]
    values = [value if view.ndim else value_0d for _, value, value_0d in plan.wrapper.slots]
    table = Words(len(w.addresses), np.uint64)
    table[:] = [word & _MASK for word in (*words, *map(id, values), *w.addresses[len(words) + len(values):])]
    table.alive = next_path, plan.mark, sizes, source.dtype, view.dtype, values, library, plan.wrapper
    made = make_method(_NAME, address, table)
    return made if _agrees(made, plan) else None


def _agrees(made: Callable[..., Any], plan: ViewPlan) -> bool:
    """Whether calls make the plan's view, of an object that has no counter yet, and of a view of it."""
    wrapper = plan.wrapper
    first: Any = object.__new__(wrapper.kind)
    second: Any = object.__new__(wrapper.kind)
    for given, base in ((first, None), (second, first)):
        for name, value, _ in wrapper.slots:
            setattr(given, name, value)
        setattr(given, wrapper.array, plan.array)
        setattr(given, plan.base, base)
        setattr(given, wrapper.counter, None if base is None else getattr(first, wrapper.counter))
        views = [made(given), made(given)]
        counter = getattr(first, wrapper.counter)
        if counter != [0] or not all(
                type(x) is wrapper.kind and getattr(x, wrapper.counter) is counter and getattr(x, plan.base) is first
                and _same(getattr(x, wrapper.array), plan.view)
                and all(getattr(x, name) is (value if plan.view.ndim else value_0d)
                        for name, value, value_0d in wrapper.slots if name not in (wrapper.counter, plan.base))
                for x in views):
            return False
    return True


def _same(x: Array, y: Array) -> bool:
    base: Any = y
    while type(base.base) is np.ndarray:
        base = base.base
    return type(x) is np.ndarray and x.base is base and address_of(x) == address_of(y) and (
        x.dtype, x.shape, x.strides, x.flags.num) == (y.dtype, y.shape, y.strides, y.flags.num)


def _text(w: Text, layout: Layout, plan: ViewPlan, offsets: dict[str, int]) -> str:
    """Return the function's LLVM IR."""
    wrapper = plan.wrapper
    w.do(f"  %table = load ptr, ptr {w.op(f'getelementptr i8, ptr %self, i64 {layout.data}')}")
    w.branch([w.op("icmp eq ptr %names, null"), w.op("icmp eq i64 %count, 1")])
    item = w.item("%args", 0, "ptr")
    array = open_wrapper(w, layout, wrapper, offsets[wrapper.array], item)
    counter, base = (w.field(item, offsets[name], "ptr") for name in (wrapper.counter, plan.base))
    rank = w.op(f"sext i32 {w.field(array, layout.rank, 'i32')} to i64")
    w.branch([w.op(f"icmp ne ptr {counter}, null"), w.op(f"icmp ne ptr {base}, null"),
              w.op(f"icmp eq ptr {w.field(array, layout.type, 'ptr')}, {w.known(id(np.ndarray))}"),
              w.op(f"icmp eq ptr {w.field(array, layout.dtype, 'ptr')}, {w.item('%table', _Head.DTYPE, 'ptr')}"),
              w.op(f"icmp eq i64 {rank}, {w.item('%table', _Head.RANK, 'i64')}")])
    for field, head in ((layout.shape, _Head.SIZES), (layout.strides, _Head.STRIDES)):
        _compare(w, w.field(array, field, "ptr"), w.item("%table", head, "ptr"), rank)
    base = _base(w, layout, plan, base, item)
    _make(w, layout, array)
    _wrap(w, layout, plan, offsets, item, base)
    w.do("slow:")
    answer = w.op(f"call ptr {w.known(layout.call)}(ptr {w.item('%table', _Head.NEXT_PATH, 'ptr')}, ptr %args, "
                  "i64 %count, ptr %names)")
    w.do(f"ret ptr {answer}")
    return "\n".join([f"define ptr @{_NAME}(ptr %self, ptr %args, i64 %count, ptr %names) {{", "entry:",
                      "  %axis.at = alloca i64", *w.lines, "}", ""])


def _compare(w: Text, found: str, wanted: str, count: str) -> None:
    """Go to ``slow`` unless the words at two addresses are equal."""
    following, body, done = w.label(), w.label(), w.label()
    w.do("store i64 0, ptr %axis.at")
    w.do(f"br label %{following}")
    w.do(f"{following}:")
    axis = w.op("load i64, ptr %axis.at")
    w.do(f"br i1 {w.op(f'icmp slt i64 {axis}, {count}')}, label %{body}, label %{done}")
    w.do(f"{body}:")
    w.branch([w.op(f"icmp eq i64 {w.item(found, axis, 'i64')}, {w.item(wanted, axis, 'i64')}")])
    w.do(f"store i64 {w.op(f'add i64 {axis}, 1')}, ptr %axis.at")
    w.do(f"br label %{following}")
    w.do(f"{done}:")


def _base(w: Text, layout: Layout, plan: ViewPlan, base: str, item: str) -> str:
    """Return the base of a view of ``item``; go to ``slow`` if ``item`` is a view that has a mark."""
    none, own, other, ready = w.known(id(None)), w.label(), w.label(), w.label()
    w.do(f"br i1 {w.op(f'icmp eq ptr {base}, {none}')}, label %{own}, label %{other}")
    w.do(f"{own}:")
    w.do(f"br label %{ready}")
    w.do(f"{other}:")
    mark = w.op(f"call ptr {w.known(layout.get_attribute)}(ptr {item}, ptr {w.known(id(plan.mark))})")
    w.branch([w.op(f"icmp ne ptr {mark}, null")], otherwise="failed")
    w.do(f"call void {w.known(layout.release)}(ptr {mark})")
    unmarked = w.label()
    w.branch([w.op(f"icmp eq ptr {mark}, {none}")], unmarked)
    w.do(f"br label %{ready}")
    w.do(f"{ready}:")
    return w.op(f"phi ptr [{item}, %{own}], [{base}, %{unmarked}]")


def _make(w: Text, layout: Layout, array: str) -> None:
    """Make the view ``%made`` of an array; return null if there is no memory for it."""
    dtype = w.item("%table", _Head.VIEW_DTYPE, "ptr")
    start = w.op(f"add i64 {w.field(array, layout.data, 'i64')}, {w.item('%table', _Head.SHIFT, 'i64')}")
    flags = w.op(f"and i32 {w.field(array, layout.flags, 'i32')}, {_KEPT}")
    rank = w.op(f"trunc i64 {w.item('%table', _Head.VIEW_RANK, 'i64')} to i32")
    w.do(f"call void {w.known(layout.retain)}(ptr {dtype})")
    w.do(f"%made = call ptr {w.known(layout.new_array)}(ptr {w.known(id(np.ndarray))}, ptr {dtype}, i32 {rank}, ptr "
         f"{w.item('%table', _Head.VIEW_SIZES, 'ptr')}, ptr {w.item('%table', _Head.VIEW_STRIDES, 'ptr')}, ptr "
         f"{w.op(f'inttoptr i64 {start} to ptr')}, i32 {flags}, ptr null)")
    w.branch([w.op("icmp ne ptr %made, null")], otherwise="failed")
    w.do(f"call void {w.known(layout.retain)}(ptr {array})")  # which the view takes over
    status = w.op(f"call i32 {w.known(layout.set_base)}(ptr %made, ptr {array})")
    w.branch([w.op(f"icmp eq i32 {status}, 0")], otherwise="drop")


def _wrap(w: Text, layout: Layout, plan: ViewPlan, offsets: dict[str, int], item: str,
          base: str) -> None:
    """Return an object around ``%made`` that shares the counter of ``item``, which gets one if it has none."""
    wrapper, place = plan.wrapper, w.op(f"getelementptr i8, ptr {item}, i64 {offsets[plan.wrapper.counter]}")
    counter, none = w.op(f"load ptr, ptr {place}"), w.known(id(None))
    first, ready = w.label(), w.label()
    w.do(f"br i1 {w.op(f'icmp eq ptr {counter}, {none}')}, label %{first}, label %{ready}")
    w.do(f"{first}:")
    made = w.op(f"call ptr {w.known(layout.list_new)}(i64 1)")
    w.branch([w.op(f"icmp ne ptr {made}, null")], otherwise="drop")
    zero = w.op(f"call ptr {w.known(layout.new_integer)}(i64 0)")  # small integers exist already
    w.op(f"call i32 {w.known(layout.list_set)}(ptr {made}, i64 0, ptr {zero})")
    w.do(f"store ptr {made}, ptr {place}")
    w.do(f"call void {w.known(layout.release)}(ptr {none})")
    w.do(f"br label %{ready}")
    w.do(f"{ready}:")
    answer = w.op(f"call ptr {w.known(layout.new_object)}(ptr {w.known(id(wrapper.kind))}, "
                  f"ptr {w.known(id(_EMPTY))}, ptr null)")
    w.branch([w.op(f"icmp ne ptr {answer}, null")], otherwise="drop")
    held = {name: w.item("%table", len(_Head) + k, "ptr") for k, (name, _, _) in enumerate(wrapper.slots)}
    held |= {wrapper.counter: w.op(f"load ptr, ptr {place}"), plan.base: base}
    for name, value in held.items():
        w.do(f"call void {w.known(layout.retain)}(ptr {value})")
        w.do(f"store ptr {value}, ptr {w.op(f'getelementptr i8, ptr {answer}, i64 {offsets[name]}')}")
    w.do(f"store ptr %made, ptr {w.op(f'getelementptr i8, ptr {answer}, i64 {offsets[wrapper.array]}')}")
    w.do(f"ret ptr {answer}")
    w.do("drop:")
    w.do(f"call void {w.known(layout.release)}(ptr %made)")
    w.do("br label %failed")
    w.do("failed:")
    w.do("ret ptr null")
