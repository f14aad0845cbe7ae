"""The machine code of products of narrow numbers: floats of 16 bits, integers of up to 32.

A product goes through *words* of 32 bits: a pair of 16-bit terms that follow each other along the sum, or one term that
was widened. Instructions multiply a vector of 16 words by 16 others and add to 16 sums, in float32 or int32. The left
matrix is laid out in *strips* of up to 14 rows, once; of the right one, 32 columns at a time are laid out in a *panel*
that stays in the first cache, for as many terms as fit there. A *tile* of up to 14 x 32 sums stays in registers while
it meets these terms, and is rounded once, after the last of them. Terms are added in their order, so that no number
depends on how a product is divided, nor on the other rows and columns. But where a single row meets columns that are
contiguous, none of which is read twice, vectors of words of each column are added up, and their lanes at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import Template
from typing import Final

from .narrow_arithmetic import Arithmetic
from .narrow_loops import OUTER, WORDS

#: Words of a vector, and columns of a panel.
LANES: Final = 16
WIDE: Final = 2 * LANES
#: Rows of a strip: with two vectors for each, they fill the 32 registers but for the operands.
TALL: Final = 14
#: Rows of the code for the last strip: the least that holds the rows that are left.
_HEIGHTS: Final = (1, 4, 8, TALL)
#: Words along the sum that a panel holds: 32 KiB, two thirds of the first cache.
CHUNK: Final = 256
#: Strips that meet a panel, whose sums wait in 70 KiB of the stack where there are more terms than in a panel.
MOST: Final = 40
#: Bytes that a strip is longer than its words, because whole vectors are written.
SLACK: Final = 64


def program_text(arithmetic: Arithmetic) -> str:
    """LLVM IR with three functions over ranges: ``strips``, ``blocks`` behind it, and ``whole``, which is both."""
    return "".join((_across(arithmetic), _along(arithmetic), _dots(arithmetic),
                    *(_tile(arithmetic, rows) for rows in _HEIGHTS),
                    _finish(arithmetic), _filled(OUTER, arithmetic), arithmetic.declared))


def _filled(text: Template, arithmetic: Arithmetic, **more: str) -> str:
    loads = [f"  %{name}.word = getelementptr i64, ptr %args, i64 {place}\n  %{name} = load i64, ptr %{name}.word"
             for place, name in enumerate(WORDS)]
    return text.substitute(more, item=arithmetic.item, sums=arithmetic.sums, size=arithmetic.size, lanes=LANES,
                           terms=arithmetic.terms, more=arithmetic.terms - 1, wide=WIDE, tall=TALL,
                           panel_bytes=CHUNK * WIDE * 4, sums_bytes=MOST * TALL * WIDE * 4, row_bytes=WIDE * 4,
                           chunk=CHUNK * arithmetic.terms, strip_sums=TALL * WIDE * 4, loads="\n".join(loads))


def _mask(name: str, count: int, limit: str) -> str:
    """``%name``: which of ``count`` lanes are below ``%limit``."""
    numbers = ", ".join(f"i32 {lane}" for lane in range(count))
    return f"""  %{name}.near = call i64 @llvm.smin.i64(i64 %{limit}, i64 {count})
  %{name}.limit = trunc i64 %{name}.near to i32
  %{name}.one = insertelement <{count} x i32> poison, i32 %{name}.limit, i32 0
  %{name}.all = shufflevector <{count} x i32> %{name}.one, <{count} x i32> poison, <{count} x i32> zeroinitializer
  %{name} = icmp slt <{count} x i32> <{numbers}>, %{name}.all"""


def _widen(arithmetic: Arithmetic, count: int, source: str, target: str) -> str:
    return Template(arithmetic.widen).substitute(count=count, part=arithmetic.part, v=source, w=target)


def _shuffle(target: str, count: int, kind: str, first: str, second: str, order: Sequence[int]) -> str:
    places = [f"i32 {place}" for place in order]
    return (f"  {target} = shufflevector <{count} x {kind}> {first}, <{count} x {kind}> {second}, "
            f"<{len(places)} x i32> <{', '.join(places)}>")


def _across(arithmetic: Arithmetic) -> str:
    """Words of up to 32 lanes that lie side by side."""
    if arithmetic.terms == 1:
        lines = [_widen(arithmetic, WIDE, "%v0", "%w"),
                 *(_shuffle(f"%word{side}", WIDE, "i32", "%w", "poison", [16 * side + lane for lane in range(LANES)])
                   for side in range(2))]
    else:
        lines = [_filled(_SECOND_ROW, arithmetic), _widen(arithmetic, WIDE, "%v0", "%w0"),
                 _widen(arithmetic, WIDE, "%v1", "%w1")]
        for side in range(2):
            pairs = [LANES * side + place // 2 + WIDE * (place % 2) for place in range(WIDE)]
            lines += [_shuffle(f"%pairs{side}", WIDE, "i16", "%w0", "%w1", pairs),
                      f"  %word{side} = bitcast <32 x i16> %pairs{side} to <16 x i32>"]
    return _filled(_ACROSS, arithmetic, words="\n".join(lines), some=_mask("some", WIDE, "lanes"))


def _along(arithmetic: Arithmetic) -> str:
    """Words of up to 16 lanes, each of which lies along the sum: squares of words are transposed."""
    lines = [line for lane in range(LANES) for line in _read(arithmetic, lane, f"%s{LANES}.{lane}")]
    lines += _transposed()
    for lane in range(LANES):
        lines += [f"  store <16 x i32> %s1.{lane}, ptr %to{lane}, align 4",
                  f"  %to{lane + 1} = getelementptr i8, ptr %to{lane}, i64 %pitch"]
    return _over_rows(_ALONG, arithmetic, lines) + (
        "" if arithmetic.terms == 2 else _filled(_DECLARED_LOAD, arithmetic))


def _dots(arithmetic: Arithmetic) -> str:
    """A row of words times up to 16 lanes, each of which lies along the sum."""
    kind, phis, lines, done = f"<16 x {arithmetic.sums}>", [], [], []
    for lane in range(LANES):
        phis.append(f"  %d{lane} = phi {kind} [zeroinitializer, %start], [%t{lane}, %next]")
        lines += [*_read(arithmetic, lane, f"%b{lane}"), Template(arithmetic.multiply).substitute(
            a="%a", b=f"%b{lane}", s=f"%d{lane}", t=f"%t{lane}")]
        done += [f"  %e{lane} = getelementptr i8, ptr %square, i64 {64 * lane}",
                 f"  store {kind} %t{lane}, ptr %e{lane}, align 64"]
    total = _TOTAL_FLOAT if arithmetic.sums == "float" else _TOTAL_INTEGER
    return _over_rows(_DOTS, arithmetic, lines, phis="\n".join(phis), done="\n".join(done), total=total)


def _read(arithmetic: Arithmetic, lane: int, target: str) -> list[str]:
    """The words from ``%k`` on of one lane."""
    count, item = LANES * arithmetic.terms, arithmetic.item
    return [f"  %p{lane} = getelementptr {item}, ptr %r{lane}, i64 %k",
            f"  %v{lane} = call <{count} x {item}> @llvm.masked.load.v{count}{item}.p0(ptr %p{lane}, i32 1, "
            f"<{count} x i1> %some, <{count} x {item}> zeroinitializer)",
            _widen(arithmetic, count, f"%v{lane}", f"%w{lane}"),
            f"  {target} = bitcast <{count} x {arithmetic.part}> %w{lane} to <16 x i32>"]


def _over_rows(text: Template, arithmetic: Arithmetic, lines: list[str], **more: str) -> str:
    """A loop that reads up to 16 rows of memory; what lies beyond the last is the last again."""
    count, rows = LANES * arithmetic.terms, []
    for lane in range(LANES):
        rows += [f"  %l{lane} = call i64 @llvm.smin.i64(i64 {lane}, i64 %last)",
                 f"  %o{lane} = mul i64 %l{lane}, %step",
                 f"  %r{lane} = getelementptr i8, ptr %source, i64 %o{lane}"]
    return _filled(text, arithmetic, rows="\n".join(rows), lines="\n".join(lines), count=str(count),
                   some=_mask("some", count, "left"), **more)


def _transposed() -> Iterator[str]:
    """From ``%s16.0`` up to ``%s16.15`` to ``%s1.0`` up to ``%s1.15``.

    First squares of 4 x 4 words, one in each quarter of a vector, then the quarters: such steps take no operand for
    their order, and every port that shuffles at all can do them.
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
            yield from _both(8, (row + k, row + k + 2), 4, (row + 2 * k, row + 2 * k + 1), pairs)
    for row in range(4):
        for half in (0, 8):
            yield from _both(4, (half + row, half + row + 4), 2, (half + row, half + row + 4), quarters)
    for row in range(4):
        for odd in range(2):
            yield from _both(2, (4 * odd + row, 4 * odd + row + 8), 1, (4 * odd + row, 4 * odd + row + 8), quarters)


def _both(before: int, given: tuple[int, int], after: int, made: tuple[int, int], orders: list[list[int]]
          ) -> Iterator[str]:
    """Two vectors to two others."""
    for target, order in zip(made, orders, strict=True):
        yield _shuffle(f"%s{after}.{target}", LANES, "i32", f"%s{before}.{given[0]}", f"%s{before}.{given[1]}", order)


def _tile(arithmetic: Arithmetic, rows: int) -> str:
    """The products of a strip and a panel, added to sums in registers."""
    kind = f"<16 x {arithmetic.sums}>"
    begin, phis, body, done = [], [], [], []
    for row in range(rows):
        begin += [f"  %from{row + 1} = getelementptr i8, ptr %from{row}, i64 %from_step"]
        body += [f"  %a{row}.at = getelementptr i32, ptr %left, i64 {row}", f"  %a{row}.one = load i32, ptr %a{row}.at",
                 f"  %a{row}.in = insertelement <16 x i32> poison, i32 %a{row}.one, i32 0",
                 _shuffle(f"%a{row}", LANES, "i32", f"%a{row}.in", "poison", [0] * LANES)]
        for side in range(2):
            at = f"{row}.{side}"
            begin += [f"  %from{at}.at = getelementptr i8, ptr %from{row}, i64 {64 * side}",
                      f"  %i{at} = load {kind}, ptr %from{at}.at, align 4"]
            phis.append(f"  %s{at} = phi {kind} [%i{at}, %start], [%t{at}, %next]")
            body.append(Template(arithmetic.multiply).substitute(a=f"%a{row}", b=f"%b{side}", s=f"%s{at}",
                                                                 t=f"%t{at}"))
            done += [f"  %d{at} = getelementptr i8, ptr %sums, i64 {4 * WIDE * row + 64 * side}",
                     f"  store {kind} %t{at}, ptr %d{at}, align 64"]
    return _filled(_TILE, arithmetic, rows=str(rows), hop=str(4 * rows), begin="\n".join(begin), phis="\n".join(phis),
                   body="\n".join(body), done="\n".join(done))


def _finish(arithmetic: Arithmetic) -> str:
    """Rows of sums to rows of the result."""
    narrow = [Template(arithmetic.narrow).substitute(s=f"%s{side}", r=f"%r{side}") for side in range(2)]
    both = _shuffle("%both", LANES, arithmetic.item, "%r0", "%r1", range(WIDE))
    return _filled(_FINISH, arithmetic, narrow="\n".join(narrow), both=both, some=_mask("some", WIDE, "columns"))


_SECOND_ROW: Final = Template("""\
  %k1 = add i64 %k, 1
  %has = icmp slt i64 %k1, %count
  %below = getelementptr i8, ptr %row, i64 %step
  %second = select i1 %has, ptr %below, ptr %row
  %v1.any = call <32 x $item> @llvm.masked.load.v32$item.p0(ptr %second, i32 1, <32 x i1> %some,
    <32 x $item> zeroinitializer)
  %v1 = select i1 %has, <32 x $item> %v1.any, <32 x $item> zeroinitializer
  %below.ahead = getelementptr i8, ptr %below, i64 64
  call void @llvm.prefetch.p0(ptr %below.ahead, i32 0, i32 3, i32 1)""")

# What lies behind the columns of a panel belongs to the next one, for which it would come too late by itself.
_ACROSS: Final = Template("""\
define internal void @across(ptr %source, i64 %step, i64 %lanes, i64 %count, ptr %target, i64 %pitch) noinline {
start:
$some
  %both = icmp sgt i64 %lanes, $lanes
  %hop = mul i64 %step, $terms
  br label %next
next:
  %k = phi i64 [0, %start], [%k.next, %after]
  %row = phi ptr [%source, %start], [%row.next, %after]
  %to = phi ptr [%target, %start], [%to.next, %after]
  %v0 = call <32 x $item> @llvm.masked.load.v32$item.p0(ptr %row, i32 1, <32 x i1> %some, <32 x $item> zeroinitializer)
  %ahead = getelementptr i8, ptr %row, i64 64
  call void @llvm.prefetch.p0(ptr %ahead, i32 0, i32 3, i32 1)
$words
  store <16 x i32> %word0, ptr %to, align 4
  br i1 %both, label %other, label %after
other:
  %beside = getelementptr i8, ptr %to, i64 64
  store <16 x i32> %word1, ptr %beside, align 4
  br label %after
after:
  %k.next = add i64 %k, $terms
  %row.next = getelementptr i8, ptr %row, i64 %hop
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
define internal void @along(ptr %source, i64 %step, i64 %lanes, i64 %count, ptr %target, i64 %pitch) noinline {
start:
  %last = sub i64 %lanes, 1
$rows
  br label %next
next:
  %k = phi i64 [0, %start], [%k.next, %next]
  %to0 = phi ptr [%target, %start], [%to16, %next]
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
_DOTS: Final = Template("""\
define internal void @dots(ptr %x, ptr %source, i64 %step, i64 %lanes, i64 %count, ptr %from, ptr %sums) noinline {
start:
  %square = alloca [16 x <16 x i32>], align 64
  %last = sub i64 %lanes, 1
$rows
  br label %next
next:
  %k = phi i64 [0, %start], [%k.next, %next]
  %words = phi ptr [%x, %start], [%words.next, %next]
$phis
  %left = sub i64 %count, %k
$some
  %a = load <16 x i32>, ptr %words, align 4
$lines
  %k.next = add i64 %k, $count
  %words.next = getelementptr i8, ptr %words, i64 64
  %more = icmp slt i64 %k.next, %count
  br i1 %more, label %next, label %out
out:
$done
  br label %lane
lane:
  %j = phi i64 [0, %out], [%j.next, %lane]
  %at = getelementptr <16 x $sums>, ptr %square, i64 %j
  %parts = load <16 x $sums>, ptr %at, align 64
  %from.at = getelementptr $sums, ptr %from, i64 %j
  %first = load $sums, ptr %from.at
$total
  %sums.at = getelementptr $sums, ptr %sums, i64 %j
  store $sums %sum, ptr %sums.at
  %j.next = add i64 %j, 1
  %again = icmp slt i64 %j.next, %lanes
  br i1 %again, label %lane, label %end
end:
  ret void
}
declare float @llvm.vector.reduce.fadd.v16f32(float, <16 x float>)
declare i32 @llvm.vector.reduce.add.v16i32(<16 x i32>)
""")
# Any order of the lanes will do; LLVM adds halves.
_TOTAL_FLOAT: Final = "  %sum = call reassoc float @llvm.vector.reduce.fadd.v16f32(float %first, <16 x float> %parts)"
_TOTAL_INTEGER: Final = """\
  %whole = call i32 @llvm.vector.reduce.add.v16i32(<16 x i32> %parts)
  %sum = add i32 %whole, %first"""
_DECLARED_LOAD: Final = Template("""\
declare <16 x $item> @llvm.masked.load.v16$item.p0(ptr, i32, <16 x i1>, <16 x $item>)
""")
_TILE: Final = Template("""\
define internal void @tile$rows(ptr %a, ptr %b, i64 %words, ptr %from0, i64 %from_step, ptr %sums) noinline {
start:
$begin
  br label %next
next:
  %word = phi i64 [0, %start], [%word.next, %next]
  %left = phi ptr [%a, %start], [%left.next, %next]
  %right = phi ptr [%b, %start], [%right.next, %next]
$phis
  %b0 = load <16 x i32>, ptr %right, align 64
  %beside = getelementptr i8, ptr %right, i64 64
  %b1 = load <16 x i32>, ptr %beside, align 64
$body
  %word.next = add i64 %word, 1
  %left.next = getelementptr i8, ptr %left, i64 $hop
  %right.next = getelementptr i8, ptr %right, i64 $row_bytes
  %more = icmp slt i64 %word.next, %words
  br i1 %more, label %next, label %out
out:
$done
  ret void
}
""")
_FINISH: Final = Template("""\
define internal void @finish(ptr %sums, i64 %rows, i64 %columns, ptr %c, i64 %c_step) noinline {
start:
$some
  %whole = icmp sge i64 %columns, $wide
  br label %next
next:
  %row = phi i64 [0, %start], [%row.next, %after]
  %at = phi ptr [%sums, %start], [%at.next, %after]
  %to = phi ptr [%c, %start], [%to.next, %after]
  %beside = getelementptr i8, ptr %at, i64 64
  %s0 = load <16 x $sums>, ptr %at, align 64
  %s1 = load <16 x $sums>, ptr %beside, align 64
$narrow
$both
  br i1 %whole, label %all, label %few
all:
  store <32 x $item> %both, ptr %to, align 1
  br label %after
few:
  call void @llvm.masked.store.v32$item.p0(<32 x $item> %both, ptr %to, i32 1, <32 x i1> %some)
  br label %after
after:
  %row.next = add i64 %row, 1
  %at.next = getelementptr i8, ptr %at, i64 $row_bytes
  %to.next = getelementptr i8, ptr %to, i64 %c_step
  %more = icmp slt i64 %row.next, %rows
  br i1 %more, label %next, label %out
out:
  ret void
}
declare void @llvm.masked.store.v32$item.p0(<32 x $item>, ptr, i32, <32 x i1>)
""")
