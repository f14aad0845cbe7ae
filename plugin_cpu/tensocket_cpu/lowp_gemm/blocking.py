"""The outer loops of low-precision products: over strips, over blocks of the result, and over panels of terms."""

from __future__ import annotations

from string import Template
from typing import Final

#: The names of the arguments; each is a word of 64 bits, and steps are in bytes.
WORDS: Final = (
    "x", "x_step", "x_across", "x_inner", "x_outer_by", "x_inner_by", "m", "k", "strip_bytes", "strips", "a", "a_outer",
    "a_inner", "y", "y_step", "y_across", "y_outer", "y_inner", "n", "panels", "c", "c_step", "c_outer", "c_inner",
    "inner", "blocks", "tall", "bias", "bias_step", "table", "items")

#: The head of a loop over ``%u`` from ``%begin`` to ``%end``; its body is at ``%one`` and ends at ``%done``.
EACH: Final = """\
  br label %next
next:
  %u = phi i64 [%begin, %start], [%u.next, %done]
  %more = icmp slt i64 %u, %end
  br i1 %more, label %one, label %out
one:"""
#: The head of a loop over up to 32 columns. An iteration takes ``%lanes`` columns from ``%column`` on, whose terms are
#: at ``%lines``; it ends with the test for ``%more``.
HALF: Final = Template("""\
  br label %half
half:
  %column = phi i64 [0, %start], [$lanes, %half]
  %rest = sub i64 %columns, %column
  %lanes = call i64 @llvm.smin.i64(i64 %rest, i64 $lanes)
  %more = icmp sgt i64 %rest, $lanes
  %lines.at = mul i64 %column, %step
  %lines = getelementptr i8, ptr %source, i64 %lines.at""")

#: Computes ``%height``, the rows of the code variant for ``%rows`` rows.
HEIGHT: Final = Template("""\
  %over4 = icmp sgt i64 %rows, 4
  %over8 = icmp sgt i64 %rows, 8
  %few = select i1 %over4, i64 8, i64 4
  %height = select i1 %over8, i64 $tall, i64 %few""")
#: The head of a loop over blocks of the result: some strips times a panel each.
BLOCKS: Final = Template("""\
; Blocks of the result.
define void @blocks(ptr %args, i64 %begin, i64 %end) {
start:
$memory
$loads
  %is.across = icmp ne i64 %y_across, 0
  %column.step = select i1 %is.across, i64 $size, i64 %y_step
  %y.ptr = inttoptr i64 %y to ptr
  %a.ptr = inttoptr i64 %a to ptr
  %c.ptr = inttoptr i64 %c to ptr
  %bias.ptr = inttoptr i64 %bias to ptr
$each
  %number = srem i64 %u, %panels
  %q = sdiv i64 %u, %panels
  %block = srem i64 %q, %blocks
  %matrix = sdiv i64 %q, %blocks
  %outer.i = sdiv i64 %matrix, %inner
  %inner.i = srem i64 %matrix, %inner
  %column = mul i64 %number, $wide
  %columns.left = sub i64 %n, %column
  %columns = call i64 @llvm.smin.i64(i64 %columns.left, i64 $wide)
  %first = mul i64 %block, %tall
  %until.any = add i64 %first, %tall
  %until = call i64 @llvm.smin.i64(i64 %until.any, i64 %strips)
  %y.1 = mul i64 %outer.i, %y_outer
  %y.2 = mul i64 %inner.i, %y_inner
  %y.3 = mul i64 %column, %column.step
  %y.12 = add i64 %y.1, %y.2
  %y.at = add i64 %y.12, %y.3
  %right = getelementptr i8, ptr %y.ptr, i64 %y.at
  %a.1 = mul i64 %outer.i, %a_outer
  %a.2 = mul i64 %inner.i, %a_inner
  %a.at = add i64 %a.1, %a.2
  %left = getelementptr i8, ptr %a.ptr, i64 %a.at
  %c.1 = mul i64 %outer.i, %c_outer
  %c.2 = mul i64 %inner.i, %c_inner
  %c.3 = mul i64 %column, $size
  %c.12 = add i64 %c.1, %c.2
  %c.at = add i64 %c.12, %c.3
  %result = getelementptr i8, ptr %c.ptr, i64 %c.at
  %bias.at = mul i64 %number, %bias_step
  %sums.start = getelementptr i8, ptr %bias.ptr, i64 %bias.at""")

#: The function that packs strips of the left matrices, and the one that runs all loops.
STRIPS: Final = Template("""\
; The table of rows that are where steps lead.
@nothing = internal constant i64 0

; Strips of the left matrices.
define void @strips(ptr %args, i64 %begin, i64 %end) {
start:
$loads
  %is.across = icmp ne i64 %x_across, 0
  %is.single = icmp eq i64 %m, 1
  %row.step = select i1 %is.across, i64 $size, i64 %x_step
  %x.ptr = inttoptr i64 %x to ptr
  %a.ptr = inttoptr i64 %a to ptr
$each
  %matrix = sdiv i64 %u, %strips
  %number = srem i64 %u, %strips
  %outer.i = sdiv i64 %matrix, %x_inner
  %inner.i = srem i64 %matrix, %x_inner
  %row = mul i64 %number, $tall
  %o1 = mul i64 %outer.i, %x_outer_by
  %o2 = mul i64 %inner.i, %x_inner_by
  %o3 = mul i64 %row, %row.step
  %o12 = add i64 %o1, %o2
  %o = add i64 %o12, %o3
  %source = getelementptr i8, ptr %x.ptr, i64 %o
  %t = mul i64 %u, %strip_bytes
  %target = getelementptr i8, ptr %a.ptr, i64 %t
  %rest = sub i64 %m, %row
  %rows = call i64 @llvm.smin.i64(i64 %rest, i64 $tall)
$height
  %strip.pitch = mul i64 %height, 4
  %pitch = select i1 %is.single, i64 4, i64 %strip.pitch
  br i1 %is.across, label %do.across, label %do.along
do.across:
  call void @across(ptr %source, i64 %x_step, ptr @nothing, i64 0, i64 %rows, i64 %k, ptr %target, i64 %pitch)
  br label %done
do.along:
  call void @along(ptr %source, i64 %x_step, ptr @nothing, i64 0, i64 %rows, i64 %k, ptr %target, i64 %pitch)
  br label %done
done:
  %u.next = add i64 %u, 1
  br label %next
out:
  ret void
}

; All strips up to the end, then all blocks.
define void @whole(ptr %args, i64 %begin, i64 %end) {
$loads
  call void @strips(ptr %args, i64 %begin, i64 %end)
  call void @blocks(ptr %args, i64 0, i64 %items)
  ret void
}

""")

#: The blocks of left matrices with several rows.
SEVERAL: Final = Template("""\
; A panel of the right matrix.
define internal void @pack(ptr %source, i64 %step, ptr %table, i64 %entry, i64 %columns, i64 %count, ptr %panel,
                           i1 %is.across) {
  br i1 %is.across, label %do.across, label %start
do.across:
  call void @across(ptr %source, i64 %step, ptr %table, i64 %entry, i64 %columns, i64 %count, ptr %panel,
    i64 $row_bytes)
  ret void
start:
$half
  %entries.at = mul i64 %column, %entry
  %entries = getelementptr i8, ptr %table, i64 %entries.at
  %panel.at = getelementptr i32, ptr %panel, i64 %column
  call void @along(ptr %lines, i64 %step, ptr %entries, i64 %entry, i64 %lanes, i64 %count, ptr %panel.at,
    i64 $row_bytes)
  br i1 %more, label %half, label %out
out:
  ret void
}

$blocks
  %table.given = inttoptr i64 %table to ptr
  %is.table = icmp ne i64 %table, 0
  %table.ptr = select i1 %is.table, ptr %table.given, ptr @nothing
  %entry = select i1 %is.table, i64 8, i64 0
  %term.step = select i1 %is.across, i64 %y_step, i64 $size
  br label %chunk
chunk:
  %k0 = phi i64 [0, %one], [%k0.next, %chunk.done]
  %k.rest = sub i64 %k, %k0
  %count = call i64 @llvm.smin.i64(i64 %k.rest, i64 $chunk)
  %k0.next = add i64 %k0, $chunk
  %final = icmp sge i64 %k0.next, %k
  %rounding = add i64 %count, $more
  %words = sdiv i64 %rounding, $terms
  %word0 = sdiv i64 %k0, $terms
  %part.at = mul i64 %k0, %term.step
  %part = getelementptr i8, ptr %right, i64 %part.at
  %entry.first = select i1 %is.across, i64 %k0, i64 %column
  %entry.at = mul i64 %entry.first, %entry
  %entries = getelementptr i8, ptr %table.ptr, i64 %entry.at
  call void @pack(ptr %part, i64 %y_step, ptr %entries, i64 %entry, i64 %columns, i64 %count, ptr %panel, i1 %is.across)
  %fresh = icmp eq i64 %k0, 0
  %from_step = select i1 %fresh, i64 0, i64 $row_bytes
  br label %strip
strip:
  %s = phi i64 [%first, %chunk], [%s.next, %strip.done]
  %row = mul i64 %s, $tall
  %rest = sub i64 %m, %row
  %rows = call i64 @llvm.smin.i64(i64 %rest, i64 $tall)
$height
  %t.1 = mul i64 %s, %strip_bytes
  %t.2 = mul i64 %word0, %height
  %t.3 = mul i64 %t.2, 4
  %t = add i64 %t.1, %t.3
  %words.at = getelementptr i8, ptr %left, i64 %t
  %place = sub i64 %s, %first
  %sums.at = mul i64 %place, $strip_sums
  %sums = getelementptr i8, ptr %totals, i64 %sums.at
  %from = select i1 %fresh, ptr %sums.start, ptr %sums
  switch i64 %height, label %rows$tall [
    i64 4, label %rows4
    i64 8, label %rows8
  ]
rows4:
  call void @tile4(ptr %words.at, ptr %panel, i64 %words, ptr %from, i64 %from_step, ptr %sums)
  br label %added
rows8:
  call void @tile8(ptr %words.at, ptr %panel, i64 %words, ptr %from, i64 %from_step, ptr %sums)
  br label %added
rows$tall:
  call void @tile$tall(ptr %words.at, ptr %panel, i64 %words, ptr %from, i64 %from_step, ptr %sums)
  br label %added
added:
  br i1 %final, label %write, label %strip.done
write:
  %to.at = mul i64 %row, %c_step
  %to = getelementptr i8, ptr %result, i64 %to.at
  call void @finish(ptr %sums, i64 %rows, i64 %columns, ptr %to, i64 %c_step)
  br label %strip.done
strip.done:
  %s.next = add i64 %s, 1
  %more.strips = icmp slt i64 %s.next, %until
  br i1 %more.strips, label %strip, label %chunk.done
chunk.done:
  br i1 %final, label %done, label %chunk
done:
  %u.next = add i64 %u, 1
  br label %next
out:
  ret void
}
""")

#: The blocks of left matrices with one row: panels; adjacent ones run together.
SINGLE: Final = Template("""\
; A row times up to 32 columns, each of which is contiguous.
define internal void @row_along(ptr %x, ptr %source, i64 %step, i64 %columns, i64 %count, ptr %from, ptr %sums) {
start:
$half
  %from.at = getelementptr i32, ptr %from, i64 %column
  %sums.at = getelementptr i32, ptr %sums, i64 %column
  call void @dots(ptr %x, ptr %lines, i64 %step, i64 %lanes, i64 %count, ptr %from.at, ptr %sums.at)
  br i1 %more, label %half, label %out
out:
  ret void
}

; A row times up to 512 columns, whose rows are contiguous, to a row of the result.
define internal void @row_across(ptr %x, ptr %source, i64 %step, i64 %columns, i64 %count, ptr %from, i64 %from_step,
                                 ptr %sums, ptr %c) {
start:
  br label %begin
begin:
  %p = phi i64 [0, %start], [%p.next, %begin]
  %from.at = mul i64 %p, %from_step
  %from.panel = getelementptr i8, ptr %from, i64 %from.at
  %sums.panel = getelementptr [$row_bytes x i8], ptr %sums, i64 %p
  call void @llvm.memcpy.p0.p0.i64(ptr %sums.panel, ptr %from.panel, i64 $row_bytes, i1 false)
  %p.next = add i64 %p, 1
  %filled = mul i64 %p.next, $wide
  %more = icmp slt i64 %filled, %columns
  br i1 %more, label %begin, label %multiply
multiply:
  call void @spread(ptr %x, ptr %source, i64 %step, i64 %columns, i64 %count, ptr %sums)
  br label %end
end:
  %column = phi i64 [0, %multiply], [%column.next, %end]
  %rest = sub i64 %columns, %column
  %totals = getelementptr i32, ptr %sums, i64 %column
  %result = getelementptr $item, ptr %c, i64 %column
  call void @finish(ptr %totals, i64 1, i64 %rest, ptr %result, i64 0)
  %column.next = add i64 %column, $wide
  %again = icmp slt i64 %column.next, %columns
  br i1 %again, label %end, label %out
out:
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

$blocks
  br i1 %is.across, label %over.columns, label %over.terms
over.columns:
  %panels.left = sub i64 %panels, %number
  %units.left = sub i64 %end, %u
  %most = call i64 @llvm.smin.i64(i64 %panels.left, i64 %units.left)
  %many = call i64 @llvm.smin.i64(i64 %most, i64 $many)
  %many.columns = mul i64 %many, $wide
  %row.columns = call i64 @llvm.smin.i64(i64 %many.columns, i64 %columns.left)
  call void @row_across(ptr %left, ptr %right, i64 %y_step, i64 %row.columns, i64 %k, ptr %sums.start, i64 %bias_step,
    ptr %totals, ptr %result)
  br label %done
over.terms:
  call void @row_along(ptr %left, ptr %right, i64 %y_step, i64 %columns, i64 %k, ptr %sums.start, ptr %totals)
  call void @finish(ptr %totals, i64 1, i64 %columns, ptr %result, i64 %c_step)
  br label %done
done:
  %units = phi i64 [1, %over.terms], [%many, %over.columns]
  %u.next = add i64 %u, %units
  br label %next
out:
  ret void
}
""")
