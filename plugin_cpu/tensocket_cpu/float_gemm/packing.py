"""Packing: copies of adjacent columns, or rows, term by term, and of transposed ones."""

from __future__ import annotations

from collections.abc import Sequence
from string import Template
from typing import Final

from .microkernel import mask, masked_load
from .shapes import Shape

#: The bytes of the parts of a vector within which a shuffle is cheapest.
_PART: Final = 16


def copies(shape: Shape) -> str:
    """Return the code of ``copy``: columns that are adjacent in memory, to panels; a last panel's others become 0."""
    body, masks, last = [], [], []
    for side in range(shape.vectors):
        masks += [f"  %rest{side} = sub i64 %rest, {shape.lanes * side}", mask(shape, f"some{side}", f"rest{side}")]
        body += [f"  %from{side} = getelementptr {shape.vector}, ptr %from, i64 {side}",
                 f"  %v{side} = load {shape.vector}, ptr %from{side}, align {shape.size}",
                 f"  %to{side} = getelementptr {shape.vector}, ptr %to, i64 {side}",
                 f"  store {shape.vector} %v{side}, ptr %to{side}, align {shape.lanes * shape.size}"]
        last += [f"  %last{side} = getelementptr {shape.vector}, ptr %final, i64 {side}",
                 masked_load(shape, f"%w{side}", f"%last{side}", f"%some{side}"),
                 f"  %end{side} = getelementptr {shape.vector}, ptr %to.final, i64 {side}",
                 f"  store {shape.vector} %w{side}, ptr %end{side}, align {shape.lanes * shape.size}"]
    return _COPY.substitute(masks="\n".join(masks), body="\n".join(body), last="\n".join(last), pitch=shape.bytes,
                            columns=shape.columns)


def turns(shape: Shape) -> str:
    """Return the code of ``turn``: up to a vector of columns, each contiguous along the terms; it transposes squares.

    Columns beyond the last repeat the last. The code writes whole squares: up to a vector of terms too many.
    """
    lines, lanes = [], range(shape.lanes)
    for lane in lanes:
        lines += [f"  %p{lane}.at = getelementptr ptr, ptr %rows, i64 {lane}",
                  f"  %p{lane} = load ptr, ptr %p{lane}.at",
                  f"  %q{lane} = getelementptr {shape.element}, ptr %p{lane}, i64 %k",
                  masked_load(shape, f"%v{lane}", f"%q{lane}", "%some")]
    made, names = transposed(shape, [f"%v{lane}" for lane in lanes])
    lines += made
    for lane, name in zip(lanes, names, strict=True):
        lines += [f"  %to{lane}.at = getelementptr i8, ptr %to, i64 {lane * shape.bytes}",
                  f"  store {shape.vector} {name}, ptr %to{lane}.at, align {shape.lanes * shape.size}"]
    return _TURN.substitute(lanes=shape.lanes, some=mask(shape, "some", "left"), body="\n".join(lines),
                            square=shape.lanes * shape.bytes)


def transposed(shape: Shape, rows: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the code that transposes a square of as many vectors as lanes, and the names of its results.

    It transposes small squares within each part of the vectors, then the parts. Such shuffles need no operand for their
    order, and every port that shuffles can run them. An opaque step between the two keeps LLVM from looking for other
    shuffles.
    """
    lines: list[str] = []
    kind, part = shape.vector, _PART // shape.size

    def shuffle(x: str, y: str, order: Sequence[int]) -> str:
        name = f"%z{len(lines)}"
        lines.append(f"  {name} = shufflevector {kind} {x}, {kind} {y}, <{shape.lanes} x i32> "
                     f"<{', '.join(f'i32 {place}' for place in order)}>")
        return name

    def hidden(x: str) -> str:
        name = f"%z{len(lines)}"
        lines.append(f'  {name} = call {kind} asm "", "=v,0"({kind} {x})')
        return name

    def within(names: Sequence[str], size: int) -> list[str]:
        """Interleave runs of ``size`` elements of both halves of each part, until the runs are half a part."""
        if size == part:
            return list(names)
        orders = [[base + shape.lanes * side + half * part // 2 + run + place for base in range(0, shape.lanes, part)
                   for run in range(0, part // 2, size) for side in (0, 1) for place in range(size)] for half in (0, 1)]
        pairs = [[shuffle(x, y, order) for order in orders] for x, y in zip(names[::2], names[1::2], strict=True)]
        firsts, seconds = ([pair[half] for pair in pairs] for half in (0, 1))
        return within(firsts, 2 * size) + within(seconds, 2 * size)

    def across(names: Sequence[str]) -> list[str]:
        """Collect the even and the odd parts of pairs of vectors, until a vector has one part of each."""
        if len(names) == 1:
            return list(names)
        orders = [[shape.lanes * side + base + place for side in (0, 1)
                   for base in range(odd * part, shape.lanes, 2 * part) for place in range(part)] for odd in (0, 1)]
        evens, odds = ([shuffle(x, y, order) for x, y in zip(names[::2], names[1::2], strict=True)]
                       for order in orders)
        return [name for pair in zip(across(evens), across(odds), strict=True) for name in pair]

    squares = [[hidden(name) for name in within(rows[begin:begin + part], 1)] for begin in range(0, shape.lanes, part)]
    columns = [across(group) for group in zip(*squares, strict=True)]
    return lines, [column[k] for k in range(shape.lanes // part) for column in columns]


_COPY: Final = Template("""\
define internal void @copy(ptr %source, i64 %step, i64 %columns, i64 %terms, ptr %target, i64 %slot) noinline {
start:
  %whole = sdiv i64 %columns, $columns
  %whole.columns = mul i64 %whole, $columns
  %rest = sub i64 %columns, %whole.columns
  %is.part = icmp sgt i64 %rest, 0
  %is.whole = icmp sgt i64 %whole, 0
$masks
  %any = icmp sgt i64 %terms, 0
  br i1 %any, label %next, label %out
next:
  %row = phi ptr [%row.next, %done], [%source, %start]
  %line = phi ptr [%line.next, %done], [%target, %start]
  %n = phi i64 [%n.next, %done], [%terms, %start]
  br i1 %is.whole, label %panel, label %ending
panel:
  %from = phi ptr [%from.next, %panel], [%row, %next]
  %to = phi ptr [%to.next, %panel], [%line, %next]
  %count = phi i64 [%count.next, %panel], [%whole, %next]
$body
  %from.next = getelementptr i8, ptr %from, i64 $pitch
  %to.next = getelementptr i8, ptr %to, i64 %slot
  %count.next = sub i64 %count, 1
  %again = icmp sgt i64 %count.next, 0
  br i1 %again, label %panel, label %ending
ending:
  %final = phi ptr [%row, %next], [%from.next, %panel]
  %to.final = phi ptr [%line, %next], [%to.next, %panel]
  br i1 %is.part, label %part, label %done
part:
$last
  br label %done
done:
  %row.next = getelementptr i8, ptr %row, i64 %step
  %line.next = getelementptr i8, ptr %line, i64 $pitch
  %n.next = sub i64 %n, 1
  %more = icmp sgt i64 %n.next, 0
  br i1 %more, label %next, label %out
out:
  ret void
}
""")
_TURN: Final = Template("""\
define internal void @turn(ptr %source, i64 %step, i64 %columns, i64 %terms, ptr %target) noinline {
start:
  %rows = alloca [$lanes x ptr], align 64
  %last = sub i64 %columns, 1
  br label %each
each:
  %row = phi i64 [%row.next, %each], [0, %start]
  %chosen = call i64 @llvm.smin.i64(i64 %row, i64 %last)
  %far = mul i64 %chosen, %step
  %row.begin = getelementptr i8, ptr %source, i64 %far
  %row.at = getelementptr ptr, ptr %rows, i64 %row
  store ptr %row.begin, ptr %row.at
  %row.next = add i64 %row, 1
  %row.more = icmp slt i64 %row.next, $lanes
  br i1 %row.more, label %each, label %begin
begin:
  %any = icmp sgt i64 %terms, 0
  br i1 %any, label %next, label %out
next:
  %k.known = phi i64 [%k.next, %next], [0, %begin]
  %to = phi ptr [%to.next, %next], [%target, %begin]
  %k = call i64 asm "", "=r,0"(i64 %k.known)
  %left = sub i64 %terms, %k
$some
$body
  %k.next = add i64 %k, $lanes
  %to.next = getelementptr i8, ptr %to, i64 $square
  %more = icmp slt i64 %k.next, %terms
  br i1 %more, label %next, label %out
out:
  ret void
}
""")
