"""Branches around instructions that few vectors need."""

from __future__ import annotations

from collections.abc import Callable

from .llvm_writer import Writer


def where_any(w: Writer, needed: str, lanes: int, kind: str, known: str, other: Callable[[], str]) -> str:
    """Return ``known`` or, if ``needed`` holds, in any lane of a vector, the value that ``other`` prints.

    Args:
        w: Writes the instructions.
        needed: A truth value, or a vector of them.
        lanes: Elements of this vector; 0 for a truth value.
        kind: Type of the two values.
        known: A value that is there already.
        other: Prints the other value and returns it.
    """
    if lanes:
        bits = w.op(f"bitcast <{lanes} x i1> {needed} to i{lanes}")
        needed = w.op(f"icmp ne i{lanes} {bits}, 0")
    before, far, after = (w.fresh(stem) for stem in ("near", "far", "after"))
    w.do(f"br label %{before}")
    w.start(before)
    w.do(f"br i1 {needed}, label %{far}, label %{after}")
    w.start(far)
    state = w.enter_condition()
    value = other()
    w.leave_condition(state)
    end = w.label
    w.do(f"br label %{after}")
    w.start(after)
    return w.op(f"phi {kind} [ {known}, %{before} ], [ {value}, %{end} ]")
