"""The loops over a block: panels of the right matrix in the cache, by which all rows of the left one are multiplied.

The functions share a *job*, words in memory that say where the operands of the block are.
"""

from __future__ import annotations

from string import Template
from typing import Final

from .microkernel import tile_name
from .shapes import Shape

#: The words of a job, with their types; ``element`` stands for the matrices' own. Steps are in bytes.
#:
#: ``left``: the left matrix from the block's first term on. ``a.far``: between its rows, or columns if it is
#: transposed. ``a.row``, ``a.term``: between rows and terms as tiles read them. ``a.turned``: whether it is transposed.
#: ``a.packed``: whether groups are packed, at ``group``. ``rows``: of the left matrix.
#:
#: ``right``: the block's columns of the right matrix, from the first term on. ``b.far``: between its rows, or columns.
#: ``b.panel``: between panels in memory. ``b.turned``: whether it is transposed. ``in.place``: the panels to read where
#: they are; the others are packed, at ``panels``, ``slot`` bytes apart. ``columns``: of the block.
#:
#: ``terms``: of the block. ``c``, ``c.row``: the result, and between its rows. ``alpha``, ``beta``: the factors.
WORDS: Final = {
    "left": "ptr", "a.far": "i64", "a.row": "i64", "a.term": "i64", "a.turned": "i64",
    "a.packed": "i64", "group": "ptr", "rows": "i64", "right": "ptr", "b.far": "i64",
    "b.panel": "i64", "b.turned": "i64", "in.place": "i64", "panels": "ptr", "slot": "i64", "columns": "i64",
    "terms": "i64", "c": "ptr", "c.row": "i64", "alpha": "element", "beta": "element"}


def stored(shape: Shape, *names: str) -> str:
    """Return the code that stores values of these names, with ``.now`` at their ends, in the job."""
    return "\n".join(f"  store {_kind(shape, name)} %{name}.now, ptr %{name}.word" for name in names)


def places(*names: str) -> str:
    """Return the code of the addresses of words in the job."""
    order = list(WORDS)
    return "\n".join(f"  %{name}.word = getelementptr i64, ptr %job, i64 {order.index(name)}" for name in names)


def _loaded(shape: Shape, *names: str) -> str:
    return "\n".join([places(*names), *(f"  %{name} = load {_kind(shape, name)}, ptr %{name}.word" for name in names)])


def _kind(shape: Shape, name: str) -> str:
    return shape.element if WORDS[name] == "element" else WORDS[name]


def block_text(shape: Shape) -> str:
    """Return the code of ``pack`` and ``multiply``, which take a job."""
    common = {"columns": shape.columns, "size": shape.size, "wide": shape.bytes, "last": shape.columns - 1}
    pack = _PACK.substitute(common, halves=_halves(shape), loads=_loaded(
        shape, "right", "b.far", "b.panel", "b.turned", "in.place", "panels", "slot", "columns", "terms"))
    multiply = _MULTIPLY.substitute(
        common, lanes=shape.lanes, part=shape.lanes - 1, few=shape.lanes // 2, loads=_loaded(
        shape, "left", "a.far", "a.turned", "a.packed", "group", "rows", "right", "b.far",
        "b.panel", "in.place", "panels", "slot", "columns", "terms", "c", "c.row"))
    half, single, double = (f"@{tile_name(narrow, shape.rows)}" for narrow in shape.narrow)
    whole = [f"@{tile_name(shape, rows)}" for rows in shape.heights]
    strips = _STRIPS.substitute(
        common, element=shape.element, lanes=shape.lanes, few=shape.lanes // 2, two=2 * shape.lanes, tall=shape.rows,
        half=half, single=single, double=double, whole=whole[0], height=_height(shape), loads=_loaded(
            shape, "a.row", "a.term", "terms", "c.row", "alpha", "beta"))
    return pack + strips + multiply


def _height(shape: Shape) -> str:
    """Return the code of ``%height``, the most rows of a variant that are not more than ``%rest``, and ``%lower``, the
    variant unless it is the tallest.
    """
    lines, height, variant = [], "1", f"@{tile_name(shape, 1)}"
    for rows in reversed(shape.heights[:-1]):
        lines += [f"  %has{rows} = icmp sge i64 %rest, {rows}",
                  f"  %height{rows} = select i1 %has{rows}, i64 {rows}, i64 {height}"]
        height = f"%height{rows}"
        if rows < shape.rows:
            lines.append(f"  %variant{rows} = select i1 %has{rows}, ptr @{tile_name(shape, rows)}, ptr {variant}")
            variant = f"%variant{rows}"
    return "\n".join(lines).replace(height, "%height").replace(f"{variant} ", "%lower ")


def _halves(shape: Shape) -> str:
    """Return the code that packs a panel of transposed columns, a vector of columns at a time.

    Vectors beyond the last column repeat it, because tiles read whole vectors.
    """
    lines = []
    for side in range(shape.vectors):
        lines += [f"  %first{side} = call i64 @llvm.smin.i64(i64 {side * shape.lanes}, i64 %final)",
                  f"  %count{side} = sub i64 %width, %first{side}",
                  f"  %lanes{side} = call i64 @llvm.smin.i64(i64 %count{side}, i64 {shape.lanes})",
                  f"  %begin{side}.at = mul i64 %first{side}, %b.far",
                  f"  %begin{side} = getelementptr i8, ptr %from, i64 %begin{side}.at",
                  f"  %target{side} = getelementptr {shape.element}, ptr %to, i64 {side * shape.lanes}",
                  f"  call void @turn(ptr %begin{side}, i64 %b.far, i64 %lanes{side}, i64 %terms, ptr %target{side})"]
    return "\n".join(lines)


# Plain matrices are read row by row, each as far as the block reaches: what a panel holds of a row is too short for the
# processor to fetch the next in time, and rows of such distances share a few places of the caches.
_PACK: Final = Template("""\
; The panels of a block that tiles cannot or should not read in place.
define internal void @pack(ptr %job) noinline {
start:
$loads
  %is.turned = icmp ne i64 %b.turned, 0
  %begun = mul i64 %in.place, $columns
  %width.all = sub i64 %columns, %begun
  %any = icmp sgt i64 %width.all, 0
  %begin.at = mul i64 %in.place, %b.panel
  %begin = getelementptr i8, ptr %right, i64 %begin.at
  br i1 %any, label %some, label %out
some:
  br i1 %is.turned, label %turned, label %plain
plain:
  call void @copy(ptr %begin, i64 %b.far, i64 %width.all, i64 %terms, ptr %panels, i64 %slot)
  br label %out
turned:
  %from = phi ptr [%begin, %some], [%from.next, %turned]
  %to = phi ptr [%panels, %some], [%to.next, %turned]
  %rest = phi i64 [%width.all, %some], [%rest.next, %turned]
  %width = call i64 @llvm.smin.i64(i64 %rest, i64 $columns)
  %final = sub i64 %width, 1
$halves
  %from.next = getelementptr i8, ptr %from, i64 %b.panel
  %to.next = getelementptr i8, ptr %to, i64 %slot
  %rest.next = sub i64 %rest, $columns
  %more = icmp sgt i64 %rest.next, 0
  br i1 %more, label %turned, label %out
out:
  ret void
}
""")
_STRIPS: Final = Template("""\
; The strips of a group times a panel.
define internal void @strips(ptr %job, ptr %lefts, i64 %count, ptr %panel, i64 %b.term, ptr %result, i64 %width
                             ) noinline {
start:
$loads
  %is.half = icmp sle i64 %width, $few
  %is.single = icmp sle i64 %width, $lanes
  %is.double = icmp sle i64 %width, $two
  %wider = select i1 %is.double, ptr $double, ptr $whole
  %wide = select i1 %is.single, ptr $single, ptr %wider
  %tallest = select i1 %is.half, ptr $half, ptr %wide
  br label %next
next:
  %row = phi i64 [0, %start], [%row.next, %next]
  %left = phi ptr [%lefts, %start], [%left.next, %next]
  %to = phi ptr [%result, %start], [%to.next, %next]
  %rest = sub i64 %count, %row
$height
  %is.tall = icmp sge i64 %rest, $tall
  %tile = select i1 %is.tall, ptr %tallest, ptr %lower
  call void %tile(ptr %left, i64 %a.row, i64 %a.term, ptr %panel, i64 %b.term, i64 %terms, ptr %to, i64 %c.row,
    i64 %width, $element %alpha, $element %beta)
  %row.next = add i64 %row, %height
  %left.at = mul i64 %height, %a.row
  %left.next = getelementptr i8, ptr %left, i64 %left.at
  %to.at = mul i64 %height, %c.row
  %to.next = getelementptr i8, ptr %to, i64 %to.at
  %more = icmp slt i64 %row.next, %count
  br i1 %more, label %next, label %out
out:
  ret void
}
""")
# A last panel of whole vectors and a half is two narrow ones; tiles may read beyond its rows, but write none of that.
_MULTIPLY: Final = Template("""\
; All rows of the left matrix times a block.
define internal void @multiply(ptr %job) noinline {
start:
$loads
  %is.packed = icmp ne i64 %a.packed, 0
  %is.turned = icmp ne i64 %a.turned, 0
  %columns.more = add i64 %columns, $last
  %count = sdiv i64 %columns.more, $columns
  %group.row = select i1 %is.turned, i64 $size, i64 %a.far
  %group.step = mul i64 %group.row, $columns
  %c.group = mul i64 %c.row, $columns
  br label %group.next
group.next:
  %i = phi i64 [0, %start], [%i.next, %group.done]
  %from = phi ptr [%left, %start], [%from.next, %group.done]
  %c.from = phi ptr [%c, %start], [%c.from.next, %group.done]
  %i.next = add i64 %i, $columns
  %from.next = getelementptr i8, ptr %from, i64 %group.step
  %c.from.next = getelementptr i8, ptr %c.from, i64 %c.group
  %rows.rest = sub i64 %rows, %i
  %height = call i64 @llvm.smin.i64(i64 %rows.rest, i64 $columns)
  br i1 %is.packed, label %copied, label %begin
copied:
  call void @copy(ptr %from, i64 %a.far, i64 %height, i64 %terms, ptr %group, i64 0)
  br label %begin
begin:
  %lefts = phi ptr [%from, %group.next], [%group, %copied]
  br label %next
next:
  %j = phi i64 [0, %begin], [%j.next, %done]
  %begun = mul i64 %j, $columns
  %rest = sub i64 %columns, %begun
  %width = call i64 @llvm.smin.i64(i64 %rest, i64 $columns)
  %is.placed = icmp slt i64 %j, %in.place
  %placed.at = mul i64 %j, %b.panel
  %placed = getelementptr i8, ptr %right, i64 %placed.at
  %number = sub i64 %j, %in.place
  %slot.at = mul i64 %number, %slot
  %packed = getelementptr i8, ptr %panels, i64 %slot.at
  %panel = select i1 %is.placed, ptr %placed, ptr %packed
  %b.term = select i1 %is.placed, i64 %b.far, i64 $wide
  %to.at = mul i64 %begun, $size
  %to = getelementptr i8, ptr %c.from, i64 %to.at
  %over = and i64 %width, $part
  %is.over = icmp ne i64 %over, 0
  %is.few = icmp sle i64 %over, $few
  %is.more = icmp sgt i64 %width, $lanes
  %is.end = and i1 %is.over, %is.few
  %is.split = and i1 %is.end, %is.more
  %vectors.width = sub i64 %width, %over
  %first.width = select i1 %is.split, i64 %vectors.width, i64 %width
  call void @strips(ptr %job, ptr %lefts, i64 %height, ptr %panel, i64 %b.term, ptr %to, i64 %first.width)
  br i1 %is.split, label %split, label %done
split:
  %second.at = mul i64 %first.width, $size
  %panel.second = getelementptr i8, ptr %panel, i64 %second.at
  %to.second = getelementptr i8, ptr %to, i64 %second.at
  call void @strips(ptr %job, ptr %lefts, i64 %height, ptr %panel.second, i64 %b.term, ptr %to.second, i64 %over)
  br label %done
done:
  %j.next = add i64 %j, 1
  %more = icmp slt i64 %j.next, %count
  br i1 %more, label %next, label %group.done
group.done:
  %again = icmp slt i64 %i.next, %rows
  br i1 %again, label %group.next, label %out
out:
  ret void
}
""")
