"""A comparison of words of memory with the values that they must have, as one built-in function.

Words of Python objects may change only while the interpreter's lock is free, so the function holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.plans import WordsPlan

from ..code.pointers import address_of
from .entries import make_builtin
from .layout import Layout
from .writer import Text

if TYPE_CHECKING:
    from ..code.compiler import Compiler

_NAME: Final = "tensocket_words"
#: A loop over words; ``differs`` is the comparison that ends it.
_LOOP: Final = """\
{name}:
  %{name}.k = phi i64 [0, %{before}], [%{name}.next, %{name}.same]
  %{name}.more = icmp slt i64 %{name}.k, {count}
  br i1 %{name}.more, label %{name}.look, label %{after}
{name}.look:
  %{name}.place.at = getelementptr i64, ptr {places}, i64 %{name}.k
  %{name}.wanted.at = getelementptr i64, ptr {values}, i64 %{name}.k
  %{name}.place = load ptr, ptr %{name}.place.at
  %{name}.found = load i64, ptr %{name}.place
  %{name}.wanted = load i64, ptr %{name}.wanted.at
  %{name}.differs = icmp {differs} i64 %{name}.found, %{name}.wanted
  br i1 %{name}.differs, label %changed, label %{name}.same
{name}.same:
  %{name}.next = add i64 %{name}.k, 1
  br label %{name}
"""


def make_words(compiler: Compiler, layout: Layout, plan: WordsPlan) -> Callable[[], bool]:
    """Compile a comparison: ``check() -> bool``."""
    arrays = [np.ascontiguousarray(x, np.uint64) for x in (
        plan.addresses, plan.values, plan.unequal_addresses, plan.unequal_values)]
    w = Text()
    w.do(f"  %table = load ptr, ptr {w.op(f'getelementptr i8, ptr %self, i64 {layout.data}')}")
    places, values, others, forbidden = (w.known(address_of(x) if x.size else 0) for x in arrays)
    counts = [w.op(f"ptrtoint ptr {w.known(x.size)} to i64") for x in (arrays[0], arrays[2])]
    retain, yes, no = w.known(layout.retain), w.known(id(True)), w.known(id(False))
    w.do("br label %equal")
    text = "\n".join([
        f"define ptr @{_NAME}(ptr %self, ptr %args, i64 %count, ptr %names) {{", "entry:", *w.lines,
        _LOOP.format(name="equal", before="entry", after="rest", count=counts[0], places=places, values=values,
                     differs="ne"),
        "rest:", "  br label %unequal",
        _LOOP.format(name="unequal", before="rest", after="all", count=counts[1], places=others, values=forbidden,
                     differs="eq"),
        "all:", f"  call void {retain}(ptr {yes})", f"  ret ptr {yes}",
        "changed:", f"  call void {retain}(ptr {no})", f"  ret ptr {no}", "}", ""])
    address, library = compiler.compile_once(text, _NAME)
    check: Callable[[], Any] = make_builtin(_NAME, address, w, (library, arrays))
    return check
