"""The machine code of the pool of large blocks: the functions of an allocator, as LLVM IR.

A block begins with a header of 64 bytes: its size, its list, the next free block, the system's pointer, the requested
size. Small blocks come from the system and return to it; the size 0 in their header marks them.
"""

from __future__ import annotations

from string import Template
from typing import Final

#: The words of the state by name; the heads of the lists of free blocks follow.
FIELDS: Final = ("lock", "limit", "keep", "allocated", "reserved", "peak_allocated", "peak_reserved", "allocations",
                 "frees", "countdown", "refused")
_LISTS: Final = 16
#: The words of the state and its lists.
WORDS: Final = _LISTS + 512
#: The functions, in the order of NumPy's handlers; the last one returns unused blocks to the system.
NAMES: Final = ("arena_malloc", "arena_calloc", "arena_realloc", "arena_free", "arena_trim")


def arena_text(pooled: int) -> str:
    """Return LLVM IR with the functions ``NAMES``.

    Args:
        pooled: The bytes from which a block is pooled.
    """
    numbers = {name: str(place) for place, name in enumerate(FIELDS)}
    return _TEXT.substitute(numbers, lists=str(_LISTS), last=str(WORDS), pooled=str(pooled))


_TEXT: Final = Template("""\
declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @madvise(ptr, i64, i32)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal void @lock(ptr %state) {
entry:
  br label %try
try:
  %got = cmpxchg ptr %state, i64 0, i64 1 acquire monotonic
  %mine = extractvalue { i64, i1 } %got, 1
  br i1 %mine, label %held, label %try
held:
  ret void
}
define internal void @unlock(ptr %state) {
  store atomic i64 0, ptr %state release, align 8
  ret void
}
define internal i64 @get(ptr %state, i64 %field) {
  %at = getelementptr i64, ptr %state, i64 %field
  %v = load i64, ptr %at
  ret i64 %v
}
define internal void @set(ptr %state, i64 %field, i64 %v) {
  %at = getelementptr i64, ptr %state, i64 %field
  store i64 %v, ptr %at
  ret void
}
define internal i64 @add(ptr %state, i64 %field, i64 %by) {
  %v = call i64 @get(ptr %state, i64 %field)
  %n = add i64 %v, %by
  call void @set(ptr %state, i64 %field, i64 %n)
  ret i64 %n
}
define internal void @peak(ptr %state, i64 %field, i64 %v) {
  %old = call i64 @get(ptr %state, i64 %field)
  %new = call i64 @llvm.umax.i64(i64 %old, i64 %v)
  call void @set(ptr %state, i64 %field, i64 %new)
  ret void
}
define internal i64 @width(i64 %n) {
  %z = call i64 @llvm.ctlz.i64(i64 %n, i1 false)
  %shift = sub i64 60, %z
  ret i64 %shift
}
define internal i64 @rounded(i64 %n) {
  %shift = call i64 @width(i64 %n)
  %step = shl i64 1, %shift
  %mask = sub i64 %step, 1
  %up = add i64 %n, %mask
  %not = xor i64 %mask, -1
  %r = and i64 %up, %not
  ret i64 %r
}
define internal i64 @list(i64 %size) {
  %shift = call i64 @width(i64 %size)
  %eighth = lshr i64 %size, %shift
  %low = and i64 %eighth, 7
  %high = shl i64 %shift, 3
  %sum = or i64 %high, %low
  %place = add i64 %sum, $lists
  ret i64 %place
}
define internal ptr @fresh(i64 %size, i64 %place, i64 %asked) {
entry:
  %more = add i64 %size, 128
  %raw = call ptr @malloc(i64 %more)
  %none = icmp eq ptr %raw, null
  br i1 %none, label %end, label %made
made:
  %address = ptrtoint ptr %raw to i64
  %behind = add i64 %address, 127
  %aligned = and i64 %behind, -64
  %data = inttoptr i64 %aligned to ptr
  %head = getelementptr i8, ptr %data, i64 -64
  %is_small = icmp eq i64 %place, 0
  %kept = select i1 %is_small, i64 0, i64 %size
  store i64 %kept, ptr %head
  call void @set(ptr %head, i64 1, i64 %place)
  call void @set(ptr %head, i64 3, i64 %address)
  call void @set(ptr %head, i64 4, i64 %asked)
  %huge = icmp uge i64 %size, 4194304
  br i1 %huge, label %advise, label %end
advise:
  %page = add i64 %address, 4095
  %begin = and i64 %page, -4096
  %from = inttoptr i64 %begin to ptr
  %ignored = call i32 @madvise(ptr %from, i64 %size, i32 14)
  br label %end
end:
  %r = phi ptr [ null, %entry ], [ %data, %made ], [ %data, %advise ]
  ret ptr %r
}
define internal void @discard(ptr %head) {
  %at = getelementptr i64, ptr %head, i64 3
  %raw = load ptr, ptr %at
  call void @free(ptr %raw)
  ret void
}
define internal void @release(ptr %state) {
entry:
  br label %lists
lists:
  %k = phi i64 [ $lists, %entry ], [ %next, %done ]
  %place = getelementptr i64, ptr %state, i64 %k
  br label %blocks
blocks:
  %head = load ptr, ptr %place
  %none = icmp eq ptr %head, null
  br i1 %none, label %done, label %one
one:
  %link = getelementptr i64, ptr %head, i64 2
  %after = load ptr, ptr %link
  store ptr %after, ptr %place
  %size = load i64, ptr %head
  %minus = sub i64 0, %size
  %left = call i64 @add(ptr %state, i64 $reserved, i64 %minus)
  call void @discard(ptr %head)
  br label %blocks
done:
  %next = add i64 %k, 1
  %go = icmp ult i64 %next, $last
  br i1 %go, label %lists, label %end
end:
  ret void
}
define void @arena_trim(ptr %state) {
  call void @lock(ptr %state)
  call void @release(ptr %state)
  call void @unlock(ptr %state)
  ret void
}
define internal ptr @reserve(ptr %state, i64 %size, i64 %place, i64 %asked) {
entry:
  %limit = call i64 @get(ptr %state, i64 $limit)
  %held = call i64 @get(ptr %state, i64 $reserved)
  %then = add i64 %held, %size
  %fits = icmp ule i64 %then, %limit
  br i1 %fits, label %first, label %trim
first:
  %made = call ptr @fresh(i64 %size, i64 %place, i64 %asked)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %trim, label %count
trim:
  call void @release(ptr %state)
  %less = call i64 @get(ptr %state, i64 $reserved)
  %now = add i64 %less, %size
  %fit = icmp ule i64 %now, %limit
  br i1 %fit, label %second, label %none
second:
  %again = call ptr @fresh(i64 %size, i64 %place, i64 %asked)
  %never = icmp eq ptr %again, null
  br i1 %never, label %none, label %count
count:
  %block = phi ptr [ %made, %first ], [ %again, %second ]
  %total = call i64 @add(ptr %state, i64 $reserved, i64 %size)
  call void @peak(ptr %state, i64 $peak_reserved, i64 %total)
  ret ptr %block
none:
  ret ptr null
}
define internal i1 @denied(ptr %state) {
entry:
  %left = call i64 @get(ptr %state, i64 $countdown)
  %off = icmp eq i64 %left, 0
  br i1 %off, label %no, label %down
down:
  %now = call i64 @add(ptr %state, i64 $countdown, i64 -1)
  %zero = icmp eq i64 %now, 0
  ret i1 %zero
no:
  ret i1 false
}
define ptr @arena_malloc(ptr %state, i64 %asked) {
entry:
  %n = call i64 @llvm.umax.i64(i64 %asked, i64 1)
  %small = icmp ult i64 %n, $pooled
  br i1 %small, label %system, label %pool
system:
  %little = call ptr @fresh(i64 %n, i64 0, i64 %n)
  ret ptr %little
pool:
  %size = call i64 @rounded(i64 %n)
  %place = call i64 @list(i64 %size)
  %at = getelementptr i64, ptr %state, i64 %place
  call void @lock(ptr %state)
  %no = call i1 @denied(ptr %state)
  br i1 %no, label %refuse, label %look
look:
  %head = load ptr, ptr %at
  %none = icmp eq ptr %head, null
  br i1 %none, label %make, label %reuse
reuse:
  %link = getelementptr i64, ptr %head, i64 2
  %after = load ptr, ptr %link
  store ptr %after, ptr %at
  call void @set(ptr %head, i64 4, i64 %n)
  %old = getelementptr i8, ptr %head, i64 64
  br label %give
make:
  %new = call ptr @reserve(ptr %state, i64 %size, i64 %place, i64 %n)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %refuse, label %give
give:
  %data = phi ptr [ %old, %reuse ], [ %new, %make ]
  %used = call i64 @add(ptr %state, i64 $allocated, i64 %size)
  call void @peak(ptr %state, i64 $peak_allocated, i64 %used)
  %count = call i64 @add(ptr %state, i64 $allocations, i64 1)
  call void @unlock(ptr %state)
  ret ptr %data
refuse:
  call void @set(ptr %state, i64 $refused, i64 %n)
  call void @unlock(ptr %state)
  ret ptr null
}
define void @arena_free(ptr %state, ptr %data, i64 %ignored) {
entry:
  %null = icmp eq ptr %data, null
  br i1 %null, label %end, label %some
some:
  %head = getelementptr i8, ptr %data, i64 -64
  %size = load i64, ptr %head
  %small = icmp eq i64 %size, 0
  br i1 %small, label %system, label %pool
system:
  call void @discard(ptr %head)
  ret void
pool:
  %minus = sub i64 0, %size
  call void @lock(ptr %state)
  %used = call i64 @add(ptr %state, i64 $allocated, i64 %minus)
  %count = call i64 @add(ptr %state, i64 $frees, i64 1)
  %held = call i64 @get(ptr %state, i64 $reserved)
  %unused = sub i64 %held, %used
  %keep = call i64 @get(ptr %state, i64 $keep)
  %many = icmp ugt i64 %unused, %keep
  br i1 %many, label %return, label %store
return:
  %less = call i64 @add(ptr %state, i64 $reserved, i64 %minus)
  call void @unlock(ptr %state)
  call void @discard(ptr %head)
  ret void
store:
  %place = call i64 @get(ptr %head, i64 1)
  %at = getelementptr i64, ptr %state, i64 %place
  %first = load ptr, ptr %at
  %link = getelementptr i64, ptr %head, i64 2
  store ptr %first, ptr %link
  store ptr %head, ptr %at
  call void @unlock(ptr %state)
  ret void
end:
  ret void
}
define ptr @arena_calloc(ptr %state, i64 %count, i64 %each) {
entry:
  %n = mul i64 %count, %each
  %data = call ptr @arena_malloc(ptr %state, i64 %n)
  %none = icmp eq ptr %data, null
  br i1 %none, label %end, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %data, i8 0, i64 %n, i1 false)
  br label %end
end:
  ret ptr %data
}
define ptr @arena_realloc(ptr %state, ptr %data, i64 %n) {
entry:
  %new = call ptr @arena_malloc(ptr %state, i64 %n)
  %none = icmp eq ptr %new, null
  %null = icmp eq ptr %data, null
  %nothing = or i1 %none, %null
  br i1 %nothing, label %end, label %move
move:
  %head = getelementptr i8, ptr %data, i64 -64
  %had = call i64 @get(ptr %head, i64 4)
  %bytes = call i64 @llvm.umin.i64(i64 %had, i64 %n)
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %data, i64 %bytes, i1 false)
  call void @arena_free(ptr %state, ptr %data, i64 %had)
  br label %end
end:
  ret ptr %new
}
""")
