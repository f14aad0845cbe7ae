"""Entries that write to their first operand: the checks before the kernel, and the count of the change after it."""

from __future__ import annotations

from .layout import WRITEABLE, Layout
from .writer import Text


def check_target(w: Text, layout: Layout, target: str, others: list[str], nbytes: str, counter: str) -> None:
    """Go to ``slow`` if the target is read-only, partly overlaps another operand, or has an unknown kind of counter.

    Args:
        w: The lines so far.
        layout: The byte offsets of fields.
        target: The array that the kernel writes.
        others: The other arrays.
        nbytes: The bytes of each array.
        counter: The counter in the target's object.
    """
    flag = w.op(f"and i32 {w.field(target, layout.flags, 'i32')}, {WRITEABLE}")
    conditions = [w.op(f"icmp ne i32 {flag}, 0"), w.op(f"icmp ne ptr {counter}, null")]
    start = w.field(target, layout.data, "i64")
    for other in others:
        distance = w.op(f"sub i64 {w.field(other, layout.data, 'i64')}, {start}")
        behind, before = w.op(f"icmp sge i64 {distance}, {nbytes}"), w.op(f"add i64 {distance}, {nbytes}")
        apart = w.op(f"or i1 {behind}, {w.op(f'icmp sle i64 {before}, 0')}")
        conditions.append(w.op(f"or i1 {apart}, {w.op(f'icmp eq i64 {distance}, 0')}"))
    w.branch(conditions)
    known, own = w.label(), w.label()
    w.do(f"br i1 {w.op(f'icmp eq ptr {counter}, {w.known(id(None))}')}, label %{known}, label %{own}")
    w.do(f"{own}:")
    w.branch([w.op(f"icmp eq ptr {w.field(counter, layout.type, 'ptr')}, {w.known(id(list))}")], known)


def count_change(w: Text, layout: Layout, counter: str, place: str) -> None:
    """Count a change in the counter, or store a new counter at ``place``; return null if memory runs out."""
    first, again, done = w.label(), w.label(), w.label()
    w.do(f"br i1 {w.op(f'icmp eq ptr {counter}, {w.known(id(None))}')}, label %{first}, label %{again}")
    w.do(f"{first}:")
    made = w.op(f"call ptr {w.known(layout.list_new)}(i64 1)")
    w.branch([w.op(f"icmp ne ptr {made}, null")], otherwise="failed")
    one = w.op(f"call ptr {w.known(layout.new_integer)}(i64 1)")
    w.op(f"call i32 {w.known(layout.list_set)}(ptr {made}, i64 0, ptr {one})")
    w.do(f"store ptr {made}, ptr {place}")
    w.do(f"call void {w.known(layout.release)}(ptr {counter})")
    w.do(f"br label %{done}")
    w.do(f"{again}:")
    old = w.op(f"call ptr {w.known(layout.list_get)}(ptr {counter}, i64 0)")
    w.branch([w.op(f"icmp ne ptr {old}, null")], otherwise="failed")
    count = w.op(f"call i64 {w.known(layout.as_integer)}(ptr {old}, ptr %beyond)")
    new = w.op(f"call ptr {w.known(layout.new_integer)}(i64 {w.op(f'add i64 {count}, 1')})")
    w.branch([w.op(f"icmp ne ptr {new}, null")], otherwise="failed")
    w.op(f"call i32 {w.known(layout.list_set)}(ptr {counter}, i64 0, ptr {new})")
    w.do(f"br label %{done}")
    w.do(f"{done}:")
