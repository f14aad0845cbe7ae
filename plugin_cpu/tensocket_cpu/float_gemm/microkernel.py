"""The innermost loop of products: a tile of sums in registers, to which each term adds a column times a row."""

from __future__ import annotations

from string import Template
from typing import Final

from .shapes import REGISTER, Shape

#: The bytes of a saved row.
_PITCH: Final = 3 * REGISTER


def mask(shape: Shape, name: str, limit: str) -> str:
    """Return the code of the mask ``%name``: which lanes of a vector are below ``%limit``."""
    lanes = shape.lanes
    numbers = ", ".join(f"i32 {lane}" for lane in range(lanes))
    return f"""\
  %{name}.near = call i64 @llvm.smin.i64(i64 %{limit}, i64 {lanes})
  %{name}.limit = trunc i64 %{name}.near to i32
  %{name}.one = insertelement <{lanes} x i32> poison, i32 %{name}.limit, i32 0
  %{name}.all = shufflevector <{lanes} x i32> %{name}.one, <{lanes} x i32> poison, <{lanes} x i32> zeroinitializer
  %{name} = icmp slt <{lanes} x i32> <{numbers}>, %{name}.all"""


def masked_load(shape: Shape, target: str, place: str, some: str) -> str:
    """Return the code that loads the lanes of a mask, and zeros for the others."""
    return (f"  {target} = call {shape.vector} @llvm.masked.load.{shape.suffix}.p0(ptr {place}, i32 {shape.size}, "
            f"<{shape.lanes} x i1> {some}, {shape.vector} zeroinitializer)")


def tile_name(shape: Shape, rows: int) -> str:
    """Return the name of the code of tiles."""
    return f"tile{rows}x{shape.columns}"


def tile(shape: Shape, rows: int, *, adds: bool = False) -> str:
    """Return the code of tiles of so many rows.

    It writes ``alpha`` times the sums plus ``beta`` times the tile, which it reads only if ``beta`` is not 0.

    Args:
        shape: The shape of tiles.
        rows: The number of rows.
        adds: Whether additions to whole tiles have code of their own, too.
    """
    vector = shape.vector
    parts: dict[str, list[str]] = {name: [] for name in (
        "steps", "places", "fetches", "phis", "loads", "body", "sums", "stores", "saves", "additions")}
    for side in range(shape.vectors):
        parts["loads"] += [f"  %b{side}.at = getelementptr {vector}, ptr %right, i64 {side}",
                           f"  %b{side} = load {vector}, ptr %b{side}.at, align {shape.size}"]
    for row in range(rows):
        if row > 1 and row % 2:
            parts["steps"] += [f"  %far{row} = mul i64 %a_row, {row}",
                               f'  %step{row} = call i64 asm "", "=r,0"(i64 %far{row})']
        parts["places"] += [f"  %c{row}.far = mul i64 %c_row, {row}",
                            f"  %c{row} = getelementptr i8, ptr %c, i64 %c{row}.far"]
        parts["body"] += [*_address(row), f"  %a{row}.one = load {shape.element}, ptr %a{row}.at",
                          f"  %a{row}.in = insertelement {vector} poison, {shape.element} %a{row}.one, i32 0",
                          f"  %a{row} = shufflevector {vector} %a{row}.in, {vector} poison, "
                          f"<{shape.lanes} x i32> zeroinitializer"]
        for side in range(shape.vectors):
            at = f"{row}.{side}"
            parts["places"].append(f"  %c{at} = getelementptr {vector}, ptr %c{row}, i64 {side}")
            parts["fetches"].append(f"  call void @llvm.prefetch.p0(ptr %c{at}, i32 1, i32 3, i32 1)")
            parts["phis"].append(f"  %s{at} = phi {vector} [%t{at}, %next], [zeroinitializer, %start]")
            parts["body"].append(f"  %t{at} = call {vector} @llvm.fma.{shape.suffix}({vector} %a{row}, "
                                 f"{vector} %b{side}, {vector} %s{at})")
            parts["sums"].append(f"  %u{at} = phi {vector} [%t{at}, %next], [zeroinitializer, %start]")
            parts["stores"].append(f"  store {vector} %u{at}, ptr %c{at}, align {shape.size}")
            parts["saves"] += [f"  %v{at} = getelementptr i8, ptr %saved, i64 {_PITCH * row + REGISTER * side}",
                               f"  store {vector} %u{at}, ptr %v{at}, align {shape.lanes * shape.size}"]
            parts["additions"] += [f"  %o{at} = load {vector}, ptr %c{at}, align {shape.size}",
                                   f"  %r{at} = fadd {vector} %o{at}, %u{at}",
                                   f"  store {vector} %r{at}, ptr %c{at}, align {shape.size}"]
    text = {name: "\n".join(lines) for name, lines in parts.items()} | {"element": shape.element}
    return _TILE.substitute(text, name=tile_name(shape, rows), all=shape.columns,
                            rows=rows, room=_PITCH * rows, added=_ADDED.substitute(text) if adds else "add:")


def finish(shape: Shape) -> str:
    """Return the code of ``finish``, which scales the saved sums of a tile and writes its part of the result."""
    vector, end, masks, body = shape.vector, shape.suffix, [], []
    for side in range(shape.vectors):
        masks += [
            f"  %rest{side} = sub i64 %columns, {shape.lanes * side}", mask(shape, f"some{side}", f"rest{side}"),
            f"  %old{side} = select i1 %fresh, <{shape.lanes} x i1> zeroinitializer, <{shape.lanes} x i1> %some{side}"]
        body += [f"  %s{side}.at = getelementptr i8, ptr %from, i64 {REGISTER * side}",
                 f"  %s{side} = load {vector}, ptr %s{side}.at, align {REGISTER}",
                 f"  %c{side} = getelementptr {vector}, ptr %to, i64 {side}",
                 f"  %p{side} = select i1 %fresh, ptr %s{side}.at, ptr %c{side}",
                 masked_load(shape, f"%o{side}", f"%p{side}", f"%old{side}"),
                 f"  %d{side} = fmul {vector} %o{side}, %betas",
                 f"  %r{side} = call {vector} @llvm.fma.{end}({vector} %s{side}, {vector} %alphas, {vector} %d{side})"]
    body += [f"  call void @llvm.masked.store.{end}.p0({vector} %r{side}, ptr %c{side}, i32 {shape.size}, "
             f"<{shape.lanes} x i1> %some{side})" for side in range(shape.vectors)]
    return _FINISH.substitute(element=shape.element, vector=vector, lanes=shape.lanes, pitch=_PITCH,
                              masks="\n".join(masks), body="\n".join(body))


def _address(row: int) -> list[str]:
    """Return the code of the address ``%a{row}.at``; the processor itself multiplies steps by powers of two."""
    if not row:
        return ["  %a0.at = getelementptr i8, ptr %left, i64 0"]
    shift = (row & -row).bit_length() - 1
    odd = row >> shift
    step = "%a_row" if odd == 1 else f"%step{odd}"
    return [f"  %a{row}.far = shl i64 {step}, {shift}", f"  %a{row}.at = getelementptr i8, ptr %left, i64 %a{row}.far"]


# The empty assembly is no instruction, but LLVM does not know that. Otherwise it would look for better addresses of the
# rows, which takes long and fills registers. Whole tiles have ends of their own, because masked stores are slow. One
# function writes all others, because such code in each variant would take long to compile.
_TILE: Final = Template("""\
define internal void @$name(ptr %a, i64 %a_row, i64 %a_term, ptr %b, i64 %b_term, i64 %terms, ptr %c, i64 %c_row,
                            i64 %columns, $element %alpha, $element %beta) noinline {
start:
  %saved = alloca [$room x i8], align 64
$steps
$places
$fetches
  %any = icmp sgt i64 %terms, 0
  br i1 %any, label %next, label %out
next:
  %left.known = phi ptr [%left.next, %next], [%a, %start]
  %right = phi ptr [%right.next, %next], [%b, %start]
  %n = phi i64 [%n.next, %next], [%terms, %start]
$phis
  %left = call ptr asm "", "=r,0"(ptr %left.known)
$loads
$body
  %left.next = getelementptr i8, ptr %left, i64 %a_term
  %right.next = getelementptr i8, ptr %right, i64 %b_term
  %n.next = sub i64 %n, 1
  %more = icmp sgt i64 %n.next, 0
  br i1 %more, label %next, label %out
out:
$sums
  %whole = icmp sge i64 %columns, $all
  %unscaled = fcmp oeq $element %alpha, 1.0
  %direct = and i1 %whole, %unscaled
  br i1 %direct, label %unmasked, label %save
unmasked:
  %fresh = fcmp oeq $element %beta, 0.0
  br i1 %fresh, label %write, label %add
write:
$stores
  ret void
$added
  br label %save
save:
$saves
  call void @finish(ptr %saved, i64 $rows, ptr %c, i64 %c_row, i64 %columns, $element %alpha, $element %beta)
  ret void
}
""")
_ADDED: Final = Template("""\
add:
  %kept = fcmp oeq $element %beta, 1.0
  br i1 %kept, label %increase, label %scaled
increase:
$additions
  ret void
scaled:""")
# Where the tile is not read, its loads go elsewhere, because they would wait for the overlapping store before them.
_FINISH: Final = Template("""\
define internal void @finish(ptr %saved, i64 %rows, ptr %c, i64 %c_row, i64 %columns, $element %alpha, $element %beta
                             ) noinline {
start:
  %fresh = fcmp oeq $element %beta, 0.0
$masks
  %alpha.in = insertelement $vector poison, $element %alpha, i32 0
  %alphas = shufflevector $vector %alpha.in, $vector poison, <$lanes x i32> zeroinitializer
  %beta.in = insertelement $vector poison, $element %beta, i32 0
  %betas = shufflevector $vector %beta.in, $vector poison, <$lanes x i32> zeroinitializer
  br label %next
next:
  %n = phi i64 [%n.next, %next], [%rows, %start]
  %from = phi ptr [%from.next, %next], [%saved, %start]
  %to = phi ptr [%to.next, %next], [%c, %start]
$body
  %from.next = getelementptr i8, ptr %from, i64 $pitch
  %to.next = getelementptr i8, ptr %to, i64 %c_row
  %n.next = sub i64 %n, 1
  %more = icmp sgt i64 %n.next, 0
  br i1 %more, label %next, label %out
out:
  ret void
}
""")
