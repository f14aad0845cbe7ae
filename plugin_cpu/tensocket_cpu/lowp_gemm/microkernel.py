"""The machine code of low-precision products: of 16-bit floats, and of integers of up to 32 bits.

A product goes through *words* of 32 bits: a pair of 16-bit terms that are adjacent along the sum, or one widened term.
Instructions multiply a vector of 16 words by 16 others and add to 16 sums, in float32 or int32. The code packs the left
matrix once, in *strips* of up to 14 rows. Of the right matrix it packs 32 columns at a time in a *panel* that stays in
the first-level cache, with as many terms as fit there. A *tile* of up to 14 x 32 sums stays in registers for all terms
of a panel, and is rounded once, after the last panel. Terms are added in their order, so that no result depends on the
division of a product, nor on other rows and columns.

A single row reads the right matrix once, in memory order: the code adds multiples of its rows to up to 512 sums. If
columns are contiguous, it adds up vectors of words of each column instead, and their lanes at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from string import Template
from typing import Final

from .arithmetic import Arithmetic
from .blocking import BLOCKS, EACH, HALF, HEIGHT, SEVERAL, SINGLE, STRIPS
from .packing import (
    CHUNK,
    LANES,
    MANY,
    MOST,
    TALL,
    WIDE,
    across,
    along,
    filled,
    joined,
    line,
    mask,
    over_rows,
    read,
    shuffle,
)

#: The rows of the code variants for the last strip; the smallest that holds the remaining rows runs.
_HEIGHTS: Final = (4, 8, TALL)


def several_text(arithmetic: Arithmetic) -> str:
    """Return the LLVM IR of products of left matrices with several rows.

    Its functions over ranges are ``strips``, then ``blocks``, and ``whole``, which does both.
    """
    return "".join((across(arithmetic), along(arithmetic), *(_tile(arithmetic, rows) for rows in _HEIGHTS),
                    *_loops(arithmetic, SEVERAL, panel=CHUNK * WIDE * 4, totals=MOST * TALL * WIDE * 4)))


def single_text(arithmetic: Arithmetic) -> str:
    """Return the LLVM IR of products of left matrices with one row."""
    return "".join((across(arithmetic), line(arithmetic), _dots(arithmetic), _spread(arithmetic),
                    *_loops(arithmetic, SINGLE, totals=MANY * WIDE * 4)))


def _loops(arithmetic: Arithmetic, text: Template, **memory: int) -> Iterator[str]:
    """Yield the code around the products; ``memory`` is the number of stack bytes by name."""
    arrays = "\n".join(f"  %{name} = alloca [{size} x i8], align 64" for name, size in memory.items())
    each, height = EACH, filled(HEIGHT, arithmetic)
    yield _finish(arithmetic)
    yield filled(STRIPS, arithmetic, each=each, height=height)
    yield filled(text, arithmetic, height=height, half=filled(HALF, arithmetic),
                 blocks=filled(BLOCKS, arithmetic, each=each, memory=arrays))
    yield arithmetic.declared


def _dots(arithmetic: Arithmetic) -> str:
    """Return the code of a row of words times up to 16 lanes, each contiguous along the sum."""
    kind, phis, lines, done = f"<16 x {arithmetic.sums}>", [], [], []
    for lane in range(LANES):
        phis.append(f"  %d{lane} = phi {kind} [zeroinitializer, %begin], [%t{lane}, %next]")
        lines += [*read(arithmetic, lane, f"%b{lane}"), Template(arithmetic.multiply).substitute(
            a="%a", b=f"%b{lane}", s=f"%d{lane}", t=f"%t{lane}")]
        done += [f"  %e{lane} = getelementptr i8, ptr %square, i64 {64 * lane}",
                 f"  store {kind} %t{lane}, ptr %e{lane}, align 64"]
    total = _TOTAL_FLOAT if arithmetic.sums == "float" else _TOTAL_INTEGER
    return over_rows(_DOTS, arithmetic, lines, False, phis="\n".join(phis), done="\n".join(done), total=total)


def _spread(arithmetic: Arithmetic) -> str:
    """Return the code of a row of words times adjacent lanes, added to sums in memory."""
    products = [Template(arithmetic.multiply).substitute(a="%a", b=f"%word{side}", s=f"%s{side}", t=f"%t{side}")
                for side in range(2)]
    one = shuffle("%a", LANES, "i32", "%x.in", "poison", [0] * LANES)
    return filled(_SPREAD, arithmetic, words=joined(arithmetic), some=mask("some", WIDE, "lanes"), one=one,
                  products="\n".join(products))


def _tile(arithmetic: Arithmetic, rows: int) -> str:
    """Return the code of the products of a strip and a panel, added to sums in registers."""
    kind = f"<16 x {arithmetic.sums}>"
    begin, phis, body, done = [], [], [], []
    for row in range(rows):
        begin += [f"  %from{row + 1} = getelementptr i8, ptr %from{row}, i64 %from_step"]
        body += [f"  %a{row}.at = getelementptr i32, ptr %left, i64 {row}", f"  %a{row}.one = load i32, ptr %a{row}.at",
                 f"  %a{row}.in = insertelement <16 x i32> poison, i32 %a{row}.one, i32 0",
                 shuffle(f"%a{row}", LANES, "i32", f"%a{row}.in", "poison", [0] * LANES)]
        for side in range(2):
            at = f"{row}.{side}"
            begin += [f"  %from{at}.at = getelementptr i8, ptr %from{row}, i64 {64 * side}",
                      f"  %i{at} = load {kind}, ptr %from{at}.at, align 4"]
            phis.append(f"  %s{at} = phi {kind} [%i{at}, %start], [%t{at}, %next]")
            body.append(Template(arithmetic.multiply).substitute(a=f"%a{row}", b=f"%b{side}", s=f"%s{at}",
                                                                 t=f"%t{at}"))
            done += [f"  %d{at} = getelementptr i8, ptr %sums, i64 {4 * WIDE * row + 64 * side}",
                     f"  store {kind} %t{at}, ptr %d{at}, align 64"]
    return filled(_TILE, arithmetic, rows=str(rows), hop=str(4 * rows), begin="\n".join(begin), phis="\n".join(phis),
                   body="\n".join(body), done="\n".join(done))


def _finish(arithmetic: Arithmetic) -> str:
    """Return the code that converts rows of sums to rows of the result."""
    narrow = [Template(arithmetic.narrow).substitute(s=f"%s{side}", r=f"%r{side}") for side in range(2)]
    both = shuffle("%both", LANES, arithmetic.item, "%r0", "%r1", range(WIDE))
    return filled(_FINISH, arithmetic, narrow="\n".join(narrow), both=both, some=mask("some", WIDE, "columns"))


_DOTS: Final = Template("""\
define internal void @dots(ptr %x, ptr %source, i64 %step, i64 %lanes, i64 %count, ptr %from, ptr %sums) noinline {
start:
  %square = alloca [16 x <16 x i32>], align 64
$rows
  br label %next
next:
  %k.known = phi i64 [0, %begin], [%k.next, %next]
  %words = phi ptr [%x, %begin], [%words.next, %next]
$phis
$hidden
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
# The order of the lanes does not matter, so LLVM may add halves.
_TOTAL_FLOAT: Final = "  %sum = call reassoc float @llvm.vector.reduce.fadd.v16f32(float %first, <16 x float> %parts)"
_TOTAL_INTEGER: Final = """\
  %whole = call i32 @llvm.vector.reduce.add.v16i32(<16 x i32> %parts)
  %sum = add i32 %whole, %first"""
_SPREAD: Final = Template("""\
define internal void @spread(ptr %x, ptr %source, i64 %step, i64 %columns, i64 %count, ptr %sums) noinline {
start:
  %hop = mul i64 %step, $terms
  br label %term
term:
  %k = phi i64 [0, %start], [%k.next, %after]
  %line = phi ptr [%source, %start], [%line.next, %after]
  %x.at = phi ptr [%x, %start], [%x.next, %after]
  %x.one = load i32, ptr %x.at
  %x.in = insertelement <16 x i32> poison, i32 %x.one, i32 0
  %k1 = add i64 %k, 1
  %has = icmp slt i64 %k1, %count
$one
  br label %next
next:
  %column = phi i64 [0, %term], [%column.next, %next]
  %row = phi ptr [%line, %term], [%row.next, %next]
  %at = phi ptr [%sums, %term], [%at.next, %next]
  %lanes = sub i64 %columns, %column
  %below = getelementptr i8, ptr %row, i64 %step
$some
$words
  %beside = getelementptr i8, ptr %at, i64 64
  %s0 = load <16 x $sums>, ptr %at, align 64
  %s1 = load <16 x $sums>, ptr %beside, align 64
$products
  store <16 x $sums> %t0, ptr %at, align 64
  store <16 x $sums> %t1, ptr %beside, align 64
  %column.next = add i64 %column, $wide
  %row.next = getelementptr $item, ptr %row, i64 $wide
  %at.next = getelementptr i8, ptr %at, i64 $row_bytes
  %more = icmp slt i64 %column.next, %columns
  br i1 %more, label %next, label %after
after:
  %k.next = add i64 %k, $terms
  %line.next = getelementptr i8, ptr %line, i64 %hop
  %x.next = getelementptr i8, ptr %x.at, i64 4
  %again = icmp slt i64 %k.next, %count
  br i1 %again, label %term, label %out
out:
  ret void
}
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
