"""The routine: it divides a product into blocks of columns and of terms, and decides which operands to pack.

A *panel* is as many columns of the right matrix as a tile has, and up to ``_DEPTH`` terms. A *group* is as many rows of
the left matrix as a panel has columns, a *strip* as many as a tile has. Packed panels of a block stay in the
second-level cache while all groups are multiplied by them.

Packing costs more than it brings, as long as tiles can read the matrices where they are. Rows of the left matrix may
have any steps. Panels need contiguous columns, so transposed right matrices are packed, and so is a last panel that is
not whole. Otherwise the code packs only what the caches would not hold.
"""

from __future__ import annotations

from string import Template
from typing import Final

from .blocking import WORDS, block_text, places, stored
from .microkernel import finish, tile
from .packing import copies, turns
from .shapes import Shape

#: The names of the routine, and of the word that must hold the address of the library's.
NAME: Final = "gemm"
LIBRARY: Final = "library"
#: The most terms of a block: if only the right matrix is transposed, and otherwise, when a group of the packed left
#: matrix or a panel that is read in place fills most of the first-level cache. The number depends on nothing else,
#: because it decides the order of sums, which must not change with the part of a product that a thread computes.
_DEPTH: Final = 512
_SHALLOW: Final = 256
#: The bytes of stack for panels, and the most bytes of other memory for them, half of a second-level cache.
_STACK: Final = 1 << 16
_MOST: Final = 1 << 19
#: Plain right matrices are packed for so many rows or more, if they have more bytes than a second-level cache, or if
#: the distance of their rows is a multiple of so many bytes, because then a panel's rows share places of the caches.
_ROWS: Final = 48
_LARGE: Final = 1 << 20
_DISTANCE: Final = 1 << 9
#: Transposed left matrices are packed for more panels than this, because tiles read only parts of their cache lines.
_PANELS: Final = 2
#: Up to so many multiplications, OpenBLAS has code without any packing for all layouts but that of ``x @ weight.T``.
SMALL: Final = 1_000_000
#: The fewest rows and columns of such a product for which packing pays, and the columns, or the elements of the left
#: matrix, from one of which on it does.
_FEW_ROWS: Final = 12
_FEW_COLUMNS: Final = 8
_WIDE: Final = 32
_TALL: Final = 4096


def packs_right(rows: int, terms: int, distance: int) -> bool:
    """Return whether the routine packs a right matrix that is not transposed.

    Args:
        rows: The rows of the left matrix.
        terms: The rows of the right matrix.
        distance: The bytes between them.
    """
    return rows >= _ROWS and (terms * distance > _LARGE or not distance % _DISTANCE)


def routine_text(shape: Shape, small: int = SMALL) -> str:
    """Return the LLVM IR of the routine ``gemm`` with Fortran's interface and integers of 64 bits.

    Args:
        shape: The shape of tiles.
        small: The multiplications up to which the library's routine may serve.
    """
    slack = shape.lanes * shape.bytes  # ``turn`` writes up to a vector of terms too many
    text = _ROUTINE.substitute(
        element=shape.element, size=shape.size, wide=shape.bytes, columns=shape.columns, last=shape.columns - 1,
        depth=_DEPTH, shallow=_SHALLOW, group=_SHALLOW * shape.bytes, stack=_STACK, room=_STACK + slack,
        most=_MOST, extra=slack + 64, rows=_ROWS, large=_LARGE, distance=_DISTANCE - 1, panels=_PANELS, small=small,
        few_rows=_FEW_ROWS, few_columns=_FEW_COLUMNS, wide_enough=_WIDE, tall=_TALL, words=len(WORDS),
        places=places(*WORDS), stored=stored(
            shape, "a.far", "a.row", "a.term", "a.turned", "a.packed", "group", "rows", "b.far", "b.panel", "b.turned",
            "panels", "slot", "c.row", "alpha"),
        columns_stored=stored(shape, "columns", "in.place", "c"),
        terms_stored=stored(shape, "left", "right", "terms", "beta"))
    variants = [(shape, rows) for rows in shape.heights] + [(narrow, shape.rows) for narrow in shape.narrow]
    tiles = [tile(*variant, adds=number == 0) for number, variant in enumerate(variants)]
    return "".join([copies(shape), turns(shape), finish(shape), *tiles, block_text(shape), text,
                    *(_declared(each) for each in (shape, shape.narrow[0])), _DECLARED])


def _declared(shape: Shape) -> str:
    vector, end, mask = shape.vector, shape.suffix, f"<{shape.lanes} x i1>"
    return f"""\
declare {vector} @llvm.fma.{end}({vector}, {vector}, {vector})
declare {vector} @llvm.masked.load.{end}.p0(ptr, i32, {mask}, {vector})
declare void @llvm.masked.store.{end}.p0({vector}, ptr, i32, {mask})
"""


_DECLARED: Final = """\
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare ptr @malloc(i64)
declare void @free(ptr)
"""
# No operand is read if alpha is 0, as in BLAS: then there are no terms.
_ROUTINE: Final = Template("""\
; The library's routine, for small products.
@library = global ptr null

define void @gemm(ptr %b.letter, ptr %a.letter, ptr %n.at, ptr %m.at, ptr %k.at, ptr %alpha.at, ptr %b, ptr %b.ld,
                  ptr %a, ptr %a.ld, ptr %beta.at, ptr %result, ptr %c.ld, i64 %length.1, i64 %length.2) {
start:
  %stack = alloca [$room x i8], align 64
  %group.now = alloca [$group x i8], align 64
  %job = alloca [$words x i64], align 64
  %n = load i64, ptr %n.at
  %rows.now = load i64, ptr %m.at
  %k.given = load i64, ptr %k.at
  %some.rows = icmp sgt i64 %rows.now, 0
  %some.columns = icmp sgt i64 %n, 0
  %some = and i1 %some.rows, %some.columns
  br i1 %some, label %choice, label %out
choice:
  %b.upper = load i8, ptr %b.letter
  %a.upper = load i8, ptr %a.letter
  %b.lower = or i8 %b.upper, 32
  %a.lower = or i8 %a.upper, 32
  %b.plain = icmp eq i8 %b.lower, 110
  %a.plain = icmp eq i8 %a.lower, 110
  %b.is.turned = xor i1 %b.plain, true
  %area = mul i64 %rows.now, %n
  %work = mul i64 %area, %k.given
  %small = icmp sle i64 %work, $small
  %left.count = mul i64 %rows.now, %k.given
  %is.tall = icmp sgt i64 %left.count, $tall
  %is.wide = icmp sge i64 %n, $wide_enough
  %is.either = or i1 %is.tall, %is.wide
  %enough.rows = icmp sge i64 %rows.now, $few_rows
  %enough.columns = icmp sge i64 %n, $few_columns
  %enough.both = and i1 %enough.rows, %enough.columns
  %enough = and i1 %enough.both, %is.either
  %linear = and i1 %b.is.turned, %a.plain
  %pays = and i1 %linear, %enough
  %pays.not = xor i1 %pays, true
  %foreign = and i1 %small, %pays.not
  br i1 %foreign, label %elsewhere, label %sizes
elsewhere:
  %library = load ptr, ptr @library
  call void %library(ptr %b.letter, ptr %a.letter, ptr %n.at, ptr %m.at, ptr %k.at, ptr %alpha.at, ptr %b, ptr %b.ld,
    ptr %a, ptr %a.ld, ptr %beta.at, ptr %result, ptr %c.ld, i64 1, i64 1)
  ret void
sizes:
  %alpha.now = load $element, ptr %alpha.at
  %beta = load $element, ptr %beta.at
  %b.elements = load i64, ptr %b.ld
  %a.elements = load i64, ptr %a.ld
  %c.elements = load i64, ptr %c.ld
  %b.far.now = mul i64 %b.elements, $size
  %a.far.now = mul i64 %a.elements, $size
  %c.row.now = mul i64 %c.elements, $size
  %k.any = call i64 @llvm.smax.i64(i64 %k.given, i64 0)
  %nothing = fcmp oeq $element %alpha.now, 0.0
  %k = select i1 %nothing, i64 0, i64 %k.any
  %n.more = add i64 %n, $last
  %count = sdiv i64 %n.more, $columns
  ; What is packed.
  %many = icmp sge i64 %rows.now, $rows
  %b.bytes = mul i64 %k, %b.far.now
  %b.large = icmp sgt i64 %b.bytes, $large
  %b.apart = and i64 %b.far.now, $distance
  %b.aliased = icmp eq i64 %b.apart, 0
  %b.bad = or i1 %b.large, %b.aliased
  %b.pays = and i1 %many, %b.bad
  %packed = or i1 %b.is.turned, %b.pays
  %a.several = icmp sgt i64 %count, $panels
  %a.is.turned = xor i1 %a.plain, true
  %a.is.packed = and i1 %a.is.turned, %a.several
  ; Blocks of about equal depth.
  %most = select i1 %linear, i64 $depth, i64 $shallow
  %most.less = sub i64 %most, 1
  %k.more = add i64 %k, %most.less
  %k.some = sdiv i64 %k.more, %most
  %k.blocks = call i64 @llvm.smax.i64(i64 %k.some, i64 1)
  %k.rounding = sub i64 %k.blocks, 1
  %k.sum = add i64 %k, %k.rounding
  %depth = sdiv i64 %k.sum, %k.blocks
  %panel.terms = call i64 @llvm.smax.i64(i64 %depth, i64 1)
  %slot.now = mul i64 %panel.terms, $wide
  %all.bytes = mul i64 %count, %slot.now
  ; One group meets each panel once, while it is in the first-level cache.
  %groups = icmp sgt i64 %rows.now, $columns
  %several = and i1 %packed, %groups
  %all.wanted = select i1 %several, i64 %all.bytes, i64 %slot.now
  %wanted = call i64 @llvm.smin.i64(i64 %all.wanted, i64 $most)
  %fits = icmp sle i64 %wanted, $stack
  br i1 %fits, label %begin, label %allocate
allocate:
  %asked = add i64 %wanted, $extra
  %made = call ptr @malloc(i64 %asked)
  %failed = icmp eq ptr %made, null
  %word = ptrtoint ptr %made to i64
  %word.more = add i64 %word, 63
  %line = and i64 %word.more, -64
  %heap = inttoptr i64 %line to ptr
  %chosen = select i1 %failed, ptr %stack, ptr %heap
  %chosen.bytes = select i1 %failed, i64 $stack, i64 %wanted
  br label %begin
begin:
  %held = phi ptr [null, %sizes], [%made, %allocate]
  %panels.now = phi ptr [%stack, %sizes], [%chosen, %allocate]
  %bytes = phi i64 [$stack, %sizes], [%chosen.bytes, %allocate]
  %fit = sdiv i64 %bytes, %slot.now
  %block = select i1 %packed, i64 %fit, i64 %count
  %block.columns = mul i64 %block, $columns
  %a.packed.now = zext i1 %a.is.packed to i64
  %a.turned.now = zext i1 %a.is.turned to i64
  %b.turned.now = zext i1 %b.is.turned to i64
  %a.down = select i1 %a.plain, i64 $size, i64 %a.far.now
  %a.row.now = select i1 %a.plain, i64 %a.far.now, i64 $size
  %a.term.now = select i1 %a.is.packed, i64 $wide, i64 %a.down
  %b.down = select i1 %b.plain, i64 %b.far.now, i64 $size
  %b.beside = select i1 %b.plain, i64 $size, i64 %b.far.now
  %b.panel.now = mul i64 %b.beside, $columns
$places
$stored
  br label %columns.next
columns.next:
  %j = phi i64 [0, %begin], [%j.next, %columns.done]
  %j.next = add i64 %j, %block.columns
  %rest = sub i64 %n, %j
  %columns.now = call i64 @llvm.smin.i64(i64 %rest, i64 %block.columns)
  %whole = sdiv i64 %columns.now, $columns
  %in.place.now = select i1 %packed, i64 0, i64 %whole
  %c.at = mul i64 %j, $size
  %c.now = getelementptr i8, ptr %result, i64 %c.at
  %b.at = mul i64 %j, %b.beside
  %b.from = getelementptr i8, ptr %b, i64 %b.at
$columns_stored
  br label %terms.next
terms.next:
  %p = phi i64 [0, %columns.next], [%p.next, %terms.next]
  %p.next = add i64 %p, %depth
  %p.rest = sub i64 %k, %p
  %terms.now = call i64 @llvm.smin.i64(i64 %depth, i64 %p.rest)
  %is.first = icmp eq i64 %p, 0
  %beta.now = select i1 %is.first, $element %beta, $element 1.0
  %right.at = mul i64 %p, %b.down
  %right.now = getelementptr i8, ptr %b.from, i64 %right.at
  %left.at = mul i64 %p, %a.down
  %left.now = getelementptr i8, ptr %a, i64 %left.at
$terms_stored
  call void @pack(ptr %job)
  call void @multiply(ptr %job)
  %p.more = icmp slt i64 %p.next, %k
  br i1 %p.more, label %terms.next, label %columns.done
columns.done:
  %j.more = icmp slt i64 %j.next, %n
  br i1 %j.more, label %columns.next, label %end
end:
  call void @free(ptr %held)
  br label %out
out:
  ret void
}
""")
