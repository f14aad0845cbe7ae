"""The layout of low-precision numbers as words, and the building blocks of their products' LLVM IR."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import Template
from typing import Final

from .arithmetic import Arithmetic
from .blocking import WORDS

#: The words of a vector, and the columns of a panel.
LANES: Final = 16
WIDE: Final = 2 * LANES
#: The rows of a strip: with two vectors each, they leave just enough of the 32 registers for the operands.
TALL: Final = 14
#: The words along the sum in a panel: 32 KiB, two thirds of the first-level cache.
CHUNK: Final = 256
#: The panels that a single row is multiplied by at a time.
MANY: Final = 16
#: The strips that are multiplied by one panel; if a panel does not hold all terms, their sums wait in 70 KiB of stack.
MOST: Final = 40
#: The bytes after a strip's words, because the code writes whole vectors.
SLACK: Final = 64


def filled(text: Template, arithmetic: Arithmetic, **more: str) -> str:
    """Return a template filled with the names that all templates share, and with ``more``."""
    loads = [f"  %{name}.word = getelementptr i64, ptr %args, i64 {place}\n  %{name} = load i64, ptr %{name}.word"
             for place, name in enumerate(WORDS)]
    return text.substitute(more, item=arithmetic.item, sums=arithmetic.sums, size=arithmetic.size, lanes=LANES,
                           terms=arithmetic.terms, more=arithmetic.terms - 1, wide=WIDE, tall=TALL,
                           many=MANY, row_bytes=WIDE * 4, chunk=CHUNK * arithmetic.terms, strip_sums=TALL * WIDE * 4,
                           hidden=_HIDDEN, loads="\n".join(loads))


def mask(name: str, count: int, limit: str) -> str:
    """Return the code of the mask ``%name``: which of ``count`` lanes are below ``%limit``."""
    numbers = ", ".join(f"i32 {lane}" for lane in range(count))
    return f"""  %{name}.near = call i64 @llvm.smin.i64(i64 %{limit}, i64 {count})
  %{name}.limit = trunc i64 %{name}.near to i32
  %{name}.one = insertelement <{count} x i32> poison, i32 %{name}.limit, i32 0
  %{name}.all = shufflevector <{count} x i32> %{name}.one, <{count} x i32> poison, <{count} x i32> zeroinitializer
  %{name} = icmp slt <{count} x i32> <{numbers}>, %{name}.all"""


def widen(arithmetic: Arithmetic, count: int, source: str, target: str) -> str:
    """Return the code that converts elements to parts of words."""
    return Template(arithmetic.widen).substitute(count=count, part=arithmetic.part, v=source, w=target)


def shuffle(target: str, count: int, kind: str, first: str, second: str, order: Sequence[int]) -> str:
    """Return the code that shuffles the elements of two vectors into one."""
    places = [f"i32 {place}" for place in order]
    return (f"  {target} = shufflevector <{count} x {kind}> {first}, <{count} x {kind}> {second}, "
            f"<{len(places)} x i32> <{', '.join(places)}>")


def joined(arithmetic: Arithmetic) -> str:
    """Return the code of words ``%word0`` and ``%word1`` of up to 32 adjacent lanes, from ``%row`` and, if ``%has``,
    ``%below``.
    """
    lines = [filled(_FIRST_ROW, arithmetic)]
    if arithmetic.terms == 1:
        return "\n".join([*lines, widen(arithmetic, WIDE, "%v0", "%w"), *(
            shuffle(f"%word{side}", WIDE, "i32", "%w", "poison", [LANES * side + lane for lane in range(LANES)])
            for side in range(2))])
    lines += [filled(_SECOND_ROW, arithmetic), widen(arithmetic, WIDE, "%v0", "%w0"),
              widen(arithmetic, WIDE, "%v1", "%w1")]
    for side in range(2):
        pairs = [LANES * side + place // 2 + WIDE * (place % 2) for place in range(WIDE)]
        lines += [shuffle(f"%pairs{side}", WIDE, "i16", "%w0", "%w1", pairs),
                  f"  %word{side} = bitcast <32 x i16> %pairs{side} to <16 x i32>"]
    return "\n".join(lines)


def across(arithmetic: Arithmetic) -> str:
    """Return the code that packs up to 32 adjacent lanes; a table adds an offset to the address of each row."""
    return filled(_ACROSS, arithmetic, words=joined(arithmetic), some=mask("some", WIDE, "lanes"))


def along(arithmetic: Arithmetic) -> str:
    """Return the code that packs up to 16 lanes, each contiguous along the sum: it transposes squares of words."""
    lines = [line for lane in range(LANES) for line in read(arithmetic, lane, f"%s{LANES}.{lane}")]
    lines += _transposed()
    for lane in range(LANES):
        lines += [f"  store <16 x i32> %s1.{lane}, ptr %to{lane}, align 4",
                  f"  %to{lane + 1} = getelementptr i8, ptr %to{lane}, i64 %pitch"]
    return over_rows(_ALONG, arithmetic, lines, True) + _declared(arithmetic)


def line(arithmetic: Arithmetic) -> str:
    """Return the code of ``along`` for a single lane."""
    count = LANES * arithmetic.terms
    return filled(_LINE, arithmetic, lines="\n".join(read(arithmetic, 0, "%words")), count=str(count),
                  some=mask("some", count, "left")) + _declared(arithmetic)


def _declared(arithmetic: Arithmetic) -> str:
    """Return the declaration of loads of fewer than 32 elements, if the code has any."""
    return "" if arithmetic.terms == 2 else filled(_DECLARED_LOAD, arithmetic)


def read(arithmetic: Arithmetic, lane: int, target: str) -> list[str]:
    """Return the code that reads the words of one lane from ``%k`` on."""
    count, item = LANES * arithmetic.terms, arithmetic.item
    return [f"  %p{lane} = getelementptr {item}, ptr %r{lane}, i64 %k",
            f"  %v{lane} = call <{count} x {item}> @llvm.masked.load.v{count}{item}.p0(ptr %p{lane}, i32 1, "
            f"<{count} x i1> %some, <{count} x {item}> zeroinitializer)",
            widen(arithmetic, count, f"%v{lane}", f"%w{lane}"),
            f"  {target} = bitcast <{count} x {arithmetic.part}> %w{lane} to <16 x i32>"]


def over_rows(text: Template, arithmetic: Arithmetic, lines: list[str], placed: bool, **more: str) -> str:
    """Return a loop that reads up to 16 rows of memory; rows beyond the last repeat the last.

    Args:
        text: The function.
        arithmetic: The arithmetic whose operands the loop reads.
        lines: The instructions that use the operands.
        placed: Whether a table adds an offset to the address of each row.
        more: Further parts of the function's text.
    """
    count, place, near = LANES * arithmetic.terms, "", "%steps"
    if placed:
        place, near = f"{_PLACE}\n", "%where"
    pointers = [text for lane in range(LANES) for text in (f"  %r{lane}.at = getelementptr ptr, ptr %rows, i64 {lane}",
                                                           f"  %r{lane} = load ptr, ptr %r{lane}.at")]
    return filled(text, arithmetic, rows=filled(_ROWS, arithmetic, place=place, near=near),
                  lines="\n".join([*pointers, *lines]), count=str(count), some=mask("some", count, "left"), **more)


def _transposed() -> Iterator[str]:
    """Yield the code that transposes ``%s16.0`` up to ``%s16.15`` to ``%s1.0`` up to ``%s1.15``.

    It transposes squares of 4 x 4 words, one in each quarter of a vector, and then the quarters. Such shuffles need no
    operand for their order, and every port that shuffles can run them. An opaque step between the two keeps LLVM from
    looking for other shuffles.
    """
    words = [[4 * quarter + place + LANES * side for quarter in range(4) for place in (low, low + 1) for side in (0, 1)]
             for low in (0, 2)]
    pairs = [[4 * quarter + low + place + LANES * side for quarter in range(4) for side in (0, 1) for place in (0, 1)]
             for low in (0, 2)]
    quarters = [[4 * quarter + place + LANES * side for side in (0, 1) for quarter in (low, low + 2)
                 for place in range(4)] for low in (0, 1)]
    for row in range(0, LANES, 2):
        yield from _both(16, (row, row + 1), 8, (row, row + 1), words)
    for row in range(0, LANES, 4):
        for k in range(2):
            yield from _both(8, (row + k, row + k + 2), 5, (row + 2 * k, row + 2 * k + 1), pairs)
    yield from (f'  %s4.{row} = call <16 x i32> asm "", "=v,0"(<16 x i32> %s5.{row})' for row in range(LANES))
    for row in range(4):
        for half in (0, 8):
            yield from _both(4, (half + row, half + row + 4), 2, (half + row, half + row + 4), quarters)
    for row in range(4):
        for odd in range(2):
            yield from _both(2, (4 * odd + row, 4 * odd + row + 8), 1, (4 * odd + row, 4 * odd + row + 8), quarters)


def _both(before: int, given: tuple[int, int], after: int, made: tuple[int, int], orders: list[list[int]]
          ) -> Iterator[str]:
    """Yield the code that shuffles two vectors into two others."""
    for target, order in zip(made, orders, strict=True):
        yield shuffle(f"%s{after}.{target}", LANES, "i32", f"%s{before}.{given[0]}", f"%s{before}.{given[1]}", order)


# This is no instruction at all, but LLVM does not know that. Otherwise it searches for better addresses of 16 rows,
# which takes as long as compiling the rest of the code.
_HIDDEN: Final = '  %k = call i64 asm "", "=r,0"(i64 %k.known)'
_FIRST_ROW: Final = Template("""\
  %v0 = call <32 x $item> @llvm.masked.load.v32$item.p0(ptr %row, i32 1, <32 x i1> %some,
    <32 x $item> zeroinitializer)""")
_SECOND_ROW: Final = Template("""\
  %second = select i1 %has, ptr %below, ptr %row
  %v1.any = call <32 x $item> @llvm.masked.load.v32$item.p0(ptr %second, i32 1, <32 x i1> %some,
    <32 x $item> zeroinitializer)
  %v1 = select i1 %has, <32 x $item> %v1.any, <32 x $item> zeroinitializer""")

# Prefetch the elements after the columns of a panel for the next panel; the processor itself would load them too late.
_ACROSS: Final = Template("""\
define internal void @across(ptr %source, i64 %step, ptr %table, i64 %entry, i64 %lanes, i64 %count, ptr %target,
                             i64 %pitch) noinline {
start:
$some
  %both = icmp sgt i64 %lanes, $lanes
  %hop = mul i64 %step, $terms
  br label %next
next:
  %k = phi i64 [0, %start], [%k.next, %after]
  %line = phi ptr [%source, %start], [%line.next, %after]
  %to = phi ptr [%target, %start], [%to.next, %after]
  %k1 = add i64 %k, 1
  %has = icmp slt i64 %k1, %count
  %other.k = select i1 %has, i64 %k1, i64 %k
  %entry0 = mul i64 %k, %entry
  %entry1 = mul i64 %other.k, %entry
  %entry0.at = getelementptr i8, ptr %table, i64 %entry0
  %entry1.at = getelementptr i8, ptr %table, i64 %entry1
  %place0 = load i64, ptr %entry0.at
  %place1 = load i64, ptr %entry1.at
  %row = getelementptr i8, ptr %line, i64 %place0
  %line.below = getelementptr i8, ptr %line, i64 %step
  %below = getelementptr i8, ptr %line.below, i64 %place1
  %ahead = getelementptr i8, ptr %row, i64 64
  %below.ahead = getelementptr i8, ptr %below, i64 64
  call void @llvm.prefetch.p0(ptr %ahead, i32 0, i32 3, i32 1)
  call void @llvm.prefetch.p0(ptr %below.ahead, i32 0, i32 3, i32 1)
$words
  store <16 x i32> %word0, ptr %to, align 4
  br i1 %both, label %other, label %after
other:
  %beside = getelementptr i8, ptr %to, i64 64
  store <16 x i32> %word1, ptr %beside, align 4
  br label %after
after:
  %k.next = add i64 %k, $terms
  %line.next = getelementptr i8, ptr %line, i64 %hop
  %to.next = getelementptr i8, ptr %to, i64 %pitch
  %more = icmp slt i64 %k.next, %count
  br i1 %more, label %next, label %out
out:
  ret void
}
declare <32 x $item> @llvm.masked.load.v32$item.p0(ptr, i32, <32 x i1>, <32 x $item>)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare i64 @llvm.smin.i64(i64, i64)
""")
_ALONG: Final = Template("""\
define internal void @along(ptr %source, i64 %step, ptr %table, i64 %entry, i64 %lanes, i64 %count, ptr %target,
                            i64 %pitch) noinline {
start:
$rows
  br label %next
next:
  %k.known = phi i64 [0, %begin], [%k.next, %next]
  %to0 = phi ptr [%target, %begin], [%to16, %next]
$hidden
  %left = sub i64 %count, %k
$some
$lines
  %k.next = add i64 %k, $count
  %more = icmp slt i64 %k.next, %count
  br i1 %more, label %next, label %out
out:
  ret void
}
""")
# The addresses of 16 rows, more than a processor has registers.
_ROWS: Final = Template("""\
  %rows = alloca [16 x ptr], align 64
  %last = sub i64 %lanes, 1
  br label %each
each:
  %row = phi i64 [0, %start], [%row.next, %each]
  %chosen = call i64 @llvm.smin.i64(i64 %row, i64 %last)
  %steps = mul i64 %chosen, %step
$place\
  %row.begin = getelementptr i8, ptr %source, i64 $near
  %row.at = getelementptr ptr, ptr %rows, i64 %row
  store ptr %row.begin, ptr %row.at
  %row.next = add i64 %row, 1
  %row.more = icmp slt i64 %row.next, $lanes
  br i1 %row.more, label %each, label %begin
begin:""")
_PLACE: Final = """\
  %entry.at = mul i64 %chosen, %entry
  %place.at = getelementptr i8, ptr %table, i64 %entry.at
  %place = load i64, ptr %place.at
  %where = add i64 %steps, %place"""
_LINE: Final = Template("""\
define internal void @along(ptr %r0, i64 %step, ptr %table, i64 %entry, i64 %lanes, i64 %count, ptr %target,
                            i64 %pitch) noinline {
start:
  br label %next
next:
  %k = phi i64 [0, %start], [%k.next, %next]
  %to = phi ptr [%target, %start], [%to.next, %next]
  %left = sub i64 %count, %k
$some
$lines
  store <16 x i32> %words, ptr %to, align 4
  %to.next = getelementptr i8, ptr %to, i64 64
  %k.next = add i64 %k, $count
  %more = icmp slt i64 %k.next, %count
  br i1 %more, label %next, label %out
out:
  ret void
}
""")
_DECLARED_LOAD: Final = Template("""\
declare <16 x $item> @llvm.masked.load.v16$item.p0(ptr, i32, <16 x i1>, <16 x $item>)
""")
