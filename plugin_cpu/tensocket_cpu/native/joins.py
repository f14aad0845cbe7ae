"""Joins of dense arrays as built-in functions: the result is made and filled without NumPy's iterators.

Guard: a list or tuple of dense arrays of one dtype that fit each other, an int in range, a result that is not large and
has no zeros among its sizes. Work: a new array, and copies of contiguous bytes. All other calls go to the next path,
with the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.plans import JoinPlan

from ..memory.allocator import POOLED
from .entries import call_next_path, make_builtin
from .layout import DENSE, Layout
from .resources import Resources, resources_text
from .wrappers import new_wrapper, open_wrapper, python_int, slot_offsets
from .writer import Text

if TYPE_CHECKING:
    from ..code.compiler import Compiler

_NAME: Final = "tensocket_join"
#: The most dimensions of a result.
_RANKS: Final = 8
#: Results with fewer dimensions have one memory format.
_FORMATS_FROM: Final = 4
#: The most bytes of a result; threads may share the copies of larger ones.
_BYTES: Final = 1 << 20
#: The most copies of less than ``_SHORT`` bytes on average. On two columns, NumPy is as fast from 128 float32 elements
#: on; on rows of four elements, it takes twice as long at all sizes (``timeit`` of ``cat`` along the last dimension).
_COPIES: Final = 256
_SHORT: Final = 16


def make_join(compiler: Compiler, layout: Layout, resources: Resources, plan: JoinPlan,
              next_path: Callable[..., Any]) -> Callable[..., Any] | None:
    """Compile a native entry for ``cat``, or for ``stack``.

    Args:
        compiler: The compiler of the machine code.
        layout: The byte offsets of fields.
        resources: Memory and threads.
        plan: The plan.
        next_path: Serves calls that do not fit the plan, with the same arguments.

    Returns:
        The function; None for a wrapper of an unknown layout.
    """
    offsets = slot_offsets(plan.wrapper)
    if offsets is None:
        return None
    w, dtype = Text(), np.dtype(plan.dtype.numpy)
    text = _text(w, layout, resources, plan, dtype, offsets, next_path)
    (address,), code = compiler.compile_text(_NAME, text, [_NAME])
    return make_builtin("stack" if plan.new_dim else "cat", address, w, (code, dtype, plan, next_path))


def _text(w: Text, layout: Layout, resources: Resources, plan: JoinPlan, dtype: np.dtype[Any],
          offsets: dict[str, int], next_path: Callable[..., Any]) -> str:
    """Return the LLVM IR. It holds no references of its own: no Python code runs between its first check and the last
    copy, because only objects with references to others start a garbage collection, and NumPy's arrays are not such.
    """
    w.do(f"%table = load ptr, ptr {w.op(f'getelementptr i8, ptr %self, i64 {layout.data}')}")
    at = offsets[plan.wrapper.array]
    dim = _arguments(w, layout)
    first = open_wrapper(w, layout, plan.wrapper, at, w.item("%items", 0, "ptr"))
    w.branch([w.op(f"icmp eq ptr {w.field(first, layout.type, 'ptr')}, {w.known(id(np.ndarray))}")])
    rank = w.field(first, layout.rank, "i32")
    w.do(f"%shape = load ptr, ptr {w.op(f'getelementptr i8, ptr {first}, i64 {layout.shape}')}")
    _axis(w, plan, rank, python_int(w, layout, w.field(dim, layout.type, "ptr"), dim))
    _measure(w, plan)
    _check(w, layout, plan, dtype, at, rank)
    made = _allocate(w, resources, dtype)
    _copy(w, layout, plan, at, made)
    w.do(f"ret ptr {new_wrapper(w, layout, plan.wrapper, offsets, made, '1')}")
    call_next_path(w, layout, next_path)
    head = f"define ptr @{_NAME}(ptr %self, ptr %args, i64 %count, ptr %names) {{"
    return "\n".join([resources_text(POOLED), head, "entry:",
                      f"  %sizes = alloca [{_RANKS} x i64]", "  %beyond = alloca i32", *w.lines, "}",
                      "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)", ""])


def _arguments(w: Text, layout: Layout) -> str:
    """Check number and kinds of the arguments; set ``%items`` and ``%many``, and return the dimension."""
    w.branch([w.op("icmp eq ptr %names, null"), w.op("icmp sge i64 %count, 1"), w.op("icmp sle i64 %count, 2")])
    tensors = w.item("%args", 0, "ptr")
    kind = w.field(tensors, layout.type, "ptr")
    is_list, is_tuple = (w.op(f"icmp eq ptr {kind}, {w.known(id(known))}") for known in (list, tuple))
    w.branch([w.op(f"or i1 {is_list}, {is_tuple}")])
    w.do(f"%many = load i64, ptr {w.op(f'getelementptr i8, ptr {tensors}, i64 {layout.length}')}")
    w.branch([w.op("icmp sge i64 %many, 1")])
    inside = w.op(f"getelementptr i8, ptr {tensors}, i64 {layout.items}")
    w.do(f"%items = select i1 {is_list}, ptr {w.op(f'load ptr, ptr {inside}')}, ptr {inside}")
    last = w.item("%args", w.op("sub i64 %count, 1"), "ptr")
    return w.op(f"select i1 {w.op('icmp eq i64 %count, 2')}, ptr {last}, ptr {w.known(id(0))}")


def _axis(w: Text, plan: JoinPlan, rank: str, dim: str) -> None:
    """Set ``%rank``, the rank of the operands, ``%ranks``, that of the result, and ``%axis``."""
    w.do(f"%rank = sext i32 {rank} to i64")
    w.do(f"%ranks = add i64 %rank, {int(plan.new_dim)}")
    lowest = w.op("sub i64 0, %ranks")
    w.branch([w.op("icmp sge i64 %ranks, 1"), w.op(f"icmp sle i64 %ranks, {_RANKS}"),
              w.op(f"icmp sge i64 {dim}, {lowest}"), w.op(f"icmp slt i64 {dim}, %ranks")], "placed")
    negative = w.op(f"icmp slt i64 {dim}, 0")
    w.do(f"%axis = add i64 {dim}, {w.op(f'select i1 {negative}, i64 %ranks, i64 0')}")


def _measure(w: Text, plan: JoinPlan) -> None:
    """Fill ``%sizes`` with the result's sizes except that of the axis. Set ``%outer``, the product of the sizes before
    the axis, ``%inner``, the bytes of one step along it, and ``%area``, their product.
    """
    w.do("br label %measure")
    w.do("measure:")
    w.do("%k = phi i64 [0, %placed], [%k.next, %measure.size]")
    w.do("%outer = phi i64 [1, %placed], [%outer.next, %measure.size]")
    w.do(f"%inner = phi i64 [{plan.dtype.itemsize}, %placed], [%inner.next, %measure.size]")
    w.do(f"br i1 {w.op('icmp slt i64 %k, %rank')}, label %measure.size, label %measured")
    w.do("measure.size:")
    size = w.item("%shape", "%k", "i64")
    before = w.op("icmp slt i64 %k, %axis")
    behind = w.op(f"icmp {'sge' if plan.new_dim else 'sgt'} i64 %k, %axis")
    place = w.op(f"add i64 %k, {w.op(f'zext i1 {behind} to i64')}") if plan.new_dim else "%k"
    w.do(f"store i64 {size}, ptr {w.op(f'getelementptr i64, ptr %sizes, i64 {place}')}")
    w.do(f"%outer.next = mul i64 %outer, {w.op(f'select i1 {before}, i64 {size}, i64 1')}")
    w.do(f"%inner.next = mul i64 %inner, {w.op(f'select i1 {behind}, i64 {size}, i64 1')}")
    w.do("%k.next = add i64 %k, 1")
    w.do("br label %measure")
    w.do("measured:")
    w.do("%area = mul i64 %outer, %inner")
    w.branch([w.op("icmp sge i64 %area, 1")], "some")


def _check(w: Text, layout: Layout, plan: JoinPlan, dtype: np.dtype[Any], at: int, rank: str) -> None:
    """Check each operand, and set ``%along.next``, the sum of the sizes along the axis."""
    w.do(f"%one_format = icmp slt i64 %ranks, {_FORMATS_FROM}")
    w.do("br label %check")
    w.do("check:")
    w.do("%i = phi i64 [0, %some], [%i.next, %fits]")
    w.do("%along = phi i64 [0, %some], [%along.next, %fits]")
    array = open_wrapper(w, layout, plan.wrapper, at, w.item("%items", "%i", "ptr"))
    # Types first, because only arrays have the other fields.
    w.branch([w.op(f"icmp eq ptr {w.field(array, layout.type, 'ptr')}, {w.known(id(np.ndarray))}")])
    dense = w.op(f"and i32 {w.field(array, layout.flags, 'i32')}, {DENSE}")
    w.branch([w.op(f"icmp eq ptr {w.field(array, layout.dtype, 'ptr')}, {w.known(id(dtype))}"),
              w.op(f"icmp eq i32 {dense}, {DENSE}"),
              w.op(f"icmp eq i32 {w.field(array, layout.rank, 'i32')}, {rank}")], "same")
    sizes = w.field(array, layout.shape, "ptr")
    _compare(w, plan, sizes, w.field(array, layout.strides, "ptr"))
    size = "1" if plan.new_dim else w.item(sizes, "%axis", "i64")
    w.do(f"%along.next = add i64 %along, {size}")
    nbytes = w.op("mul i64 %along.next, %area")
    w.branch([w.op(f"icmp sge i64 {size}, 1"), w.op(f"icmp sle i64 {nbytes}, {_BYTES}")], "fits")
    w.do("%i.next = add i64 %i, 1")
    w.do(f"br i1 {w.op('icmp slt i64 %i.next, %many')}, label %check, label %checked")
    w.do("checked:")
    copies = w.op("mul i64 %outer, %many")
    few = w.op(f"icmp sle i64 {copies}, {_COPIES}")
    long = w.op(f"icmp sge i64 {nbytes}, {w.op(f'mul i64 {copies}, {_SHORT}')}")
    w.do("%alone = icmp eq i64 %many, 1")
    w.branch([w.op(f"or i1 %alone, {w.op(f'or i1 {few}, {long}')}")])


def _compare(w: Text, plan: JoinPlan, sizes: str, strides: str) -> None:
    """Compare the sizes of an operand with those of the first one, from the last to the first, and go on at
    ``compared``. If results of this rank have several memory formats, strides along sizes of 1 decide it, too.
    """
    w.do("%last = sub i64 %rank, 1")
    w.do("br label %compare")
    w.do("compare:")
    w.do("%j = phi i64 [%last, %same], [%j.next, %equal]")
    w.do(f"%step = phi i64 [{plan.dtype.itemsize}, %same], [%step.next, %equal]")
    w.do(f"br i1 {w.op('icmp sge i64 %j, 0')}, label %compare.size, label %compared")
    w.do("compare.size:")
    size = w.item(sizes, "%j", "i64")
    equal = w.op(f"icmp eq i64 {size}, {w.item('%shape', '%j', 'i64')}")
    if not plan.new_dim:
        equal = w.op(f"or i1 {equal}, {w.op('icmp eq i64 %j, %axis')}")
    packed = w.op(f"icmp eq i64 {w.item(strides, '%j', 'i64')}, %step")
    w.branch([equal, w.op(f"or i1 {packed}, %one_format")], "equal")
    w.do(f"%step.next = mul i64 %step, {size}")
    w.do("%j.next = sub i64 %j, 1")
    w.do("br label %compare")
    w.do("compared:")


def _allocate(w: Text, resources: Resources, dtype: np.dtype[Any]) -> str:
    w.do(f"store i64 %along.next, ptr {w.op('getelementptr i64, ptr %sizes, i64 %axis')}")
    ranks, nbytes = w.op("trunc i64 %ranks to i32"), w.op("mul i64 %along.next, %area")
    made = w.op(f"call ptr @allocate(ptr {w.known(resources.address)}, ptr {w.known(id(dtype))}, i32 {ranks}, "
                f"ptr %sizes, ptr null, i64 {nbytes})")
    w.branch([w.op(f"icmp ne ptr {made}, null")], "allocated")
    return made


def _copy(w: Text, layout: Layout, plan: JoinPlan, at: int, made: str) -> None:
    """Copy the rows of each operand, ``%outer`` runs of contiguous bytes, to their places in the result; a single
    operand is one run.
    """
    row = w.op("mul i64 %along.next, %inner")
    data = w.field(made, layout.data, "ptr")
    w.do("br label %copy")
    w.do("copy:")
    w.do("%p = phi i64 [0, %allocated], [%p.next, %copied]")
    w.do(f"%place = phi ptr [{data}, %allocated], [%place.next, %copied]")
    array = w.field(w.item("%items", "%p", "ptr"), at, "ptr")
    source = w.field(array, layout.data, "ptr")
    size = "1" if plan.new_dim else w.item(w.field(array, layout.shape, "ptr"), "%axis", "i64")
    width = w.op(f"select i1 %alone, i64 {w.op(f'mul i64 {row}, %outer')}, i64 {w.op(f'mul i64 {size}, %inner')}")
    runs = w.op("select i1 %alone, i64 1, i64 %outer")
    w.do("br label %row")
    w.do("row:")
    w.do("%r = phi i64 [0, %copy], [%r.next, %row]")
    w.do(f"%from = phi ptr [{source}, %copy], [%from.next, %row]")
    w.do("%to = phi ptr [%place, %copy], [%to.next, %row]")
    w.do(f"call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 {width}, i1 false)")
    w.do(f"%from.next = getelementptr i8, ptr %from, i64 {width}")
    w.do(f"%to.next = getelementptr i8, ptr %to, i64 {row}")
    w.do("%r.next = add i64 %r, 1")
    w.do(f"br i1 {w.op(f'icmp slt i64 %r.next, {runs}')}, label %row, label %copied")
    w.do("copied:")
    w.do(f"%place.next = getelementptr i8, ptr %place, i64 {width}")
    w.do("%p.next = add i64 %p, 1")
    w.do(f"br i1 {w.op('icmp slt i64 %p.next, %many')}, label %copy, label %joined")
    w.do("joined:")
