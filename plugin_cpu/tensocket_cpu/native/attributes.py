"""Attributes of objects around arrays as built-in functions, which read fields where a Python function runs frames.

Guard: an object of the wrapper's class or a subclass, with NumPy's own array, or with an integer among the known ones.
Work: a few loads, and for sizes a new tuple. All other objects go to the next path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.plans import BitsPlan, SizesPlan

from .entries import call_next_path, make_builtin
from .layout import Layout
from .wrappers import open_wrapper, python_int, slot_offsets
from .writer import Text

if TYPE_CHECKING:
    from ..code.compiler import Compiler

_NAME: Final = "tensocket_attribute"
#: The most dimensions of an array of NumPy.
_RANKS: Final = 64
_WORD: Final = 8
_BEYOND: Final = 1 << 63


def make_attribute(compiler: Compiler, layout: Layout, plan: SizesPlan | BitsPlan,
                   next_path: Callable[..., Any]) -> Callable[..., Any] | None:
    """Compile a function of one object.

    Args:
        compiler: The compiler of the machine code.
        layout: The byte offsets of fields.
        plan: The plan.
        next_path: Serves the objects that do not fit the plan.

    Returns:
        The function; None for a wrapper of an unknown layout.
    """
    offsets = slot_offsets(plan.wrapper)
    if offsets is None:
        return None
    w = Text()
    w.do(f"%table = load ptr, ptr {w.op(f'getelementptr i8, ptr %self, i64 {layout.data}')}")
    w.branch([w.op("icmp eq ptr %names, null"), w.op("icmp eq i64 %count, 1")])
    slot = plan.slot if isinstance(plan, BitsPlan) else plan.wrapper.array
    held = open_wrapper(w, layout, plan.wrapper, offsets[slot], w.item("%args", 0, "ptr"))
    if isinstance(plan, BitsPlan):
        _chosen(w, layout, plan, held)
    else:
        _sizes(w, layout, plan, held)
    call_next_path(w, layout, next_path)
    text = "\n".join([f"define ptr @{_NAME}(ptr %self, ptr %args, i64 %count, ptr %names) {{", "entry:",
                      f"  %sizes = alloca [{_RANKS} x i64]", "  %beyond = alloca i32", *w.lines, "}",
                      "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)", ""])
    (address,), code = compiler.compile_text(_NAME, text, [_NAME])
    return make_builtin(_NAME, address, w, (code, plan, next_path))


def _sizes(w: Text, layout: Layout, plan: SizesPlan, array: str) -> None:
    """Return the array's sizes. The tuple is made with empty items, which the garbage collector skips.

    The sizes are copied first: making the tuple may run the collector, and that finalizers, which may free the array.
    """
    w.branch([w.op(f"icmp eq ptr {w.field(array, layout.type, 'ptr')}, {w.known(id(np.ndarray))}")])
    w.do(f"%rank = sext i32 {w.field(array, layout.rank, 'i32')} to i64")
    w.branch([w.op(f"icmp ule i64 %rank, {_RANKS}")])
    given, nbytes = w.field(array, layout.shape, "ptr"), w.op(f"mul i64 %rank, {_WORD}")
    w.do(f"call void @llvm.memcpy.p0.p0.i64(ptr %sizes, ptr {given}, i64 {nbytes}, i1 false)")
    w.do(f"%made = call ptr {w.known(layout.new_items)}(ptr {w.known(id(plan.kind))}, i64 %rank)")
    w.branch([w.op("icmp ne ptr %made, null")], "ready", "failed")
    w.do(f"%items = getelementptr i8, ptr %made, i64 {layout.items}")
    new_integer, release = w.known(layout.new_integer), w.known(layout.release)
    w.do("br label %next")
    w.do("next:")
    w.do("%k = phi i64 [0, %ready], [%k.next, %filled]")
    w.do(f"br i1 {w.op('icmp slt i64 %k, %rank')}, label %fill, label %done")
    w.do("fill:")
    size = w.op(f"call ptr {new_integer}(i64 {w.item('%sizes', '%k', 'i64')})")
    w.branch([w.op(f"icmp ne ptr {size}, null")], "filled", "lost")
    w.do(f"store ptr {size}, ptr {w.op('getelementptr ptr, ptr %items, i64 %k')}")
    w.do("%k.next = add i64 %k, 1")
    w.do("br label %next")
    w.do("done:")
    w.do("ret ptr %made")
    w.do("lost:")
    w.do(f"call void {release}(ptr %made)")
    w.do("br label %failed")
    w.do("failed:")
    w.do("ret ptr null")


def _chosen(w: Text, layout: Layout, plan: BitsPlan, number: str) -> None:
    """Return the value of the integer's bits. Integers beyond a signed word have gone to the next path."""
    known = {bits: value for bits, value in plan.values.items() if 0 <= bits < _BEYOND}
    bits = w.op(f"and i64 {python_int(w, layout, w.field(number, layout.type, 'ptr'), number)}, {plan.mask}")
    retain = w.known(layout.retain)
    cases = " ".join(f"i64 {key}, label %case{k}" for k, key in enumerate(known))
    w.do(f"switch i64 {bits}, label %slow [{cases}]")
    for k, value in enumerate(known.values()):
        w.do(f"case{k}:")
        held = w.known(id(value))
        w.do(f"call void {retain}(ptr {held})")
        w.do(f"ret ptr {held}")
