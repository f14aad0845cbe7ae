"""LLVM IR of the loops that copy runs of bytes."""

from __future__ import annotations

from typing import Final

_MEMCPY: Final = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
_COPY: Final = "call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %size, i1 false)"
_LINES: Final = """define internal void @copy_lines(ptr noalias %to, ptr noalias %from, i64 %size) nounwind {
start:
  br label %next
next:
  %at = phi i64 [0, %start], [%after, %next]
  %source = getelementptr i8, ptr %from, i64 %at
  %target = getelementptr i8, ptr %to, i64 %at
  %line = load <16 x i32>, ptr %source, align 1
  store <16 x i32> %line, ptr %target, align 64, !nontemporal !0
  %after = add i64 %at, 64
  %more = icmp ult i64 %after, %size
  br i1 %more, label %next, label %out
out:
  ret void
}
!0 = !{i32 1}
"""

_ASK_TO_WRITE: Final = "  call void @llvm.prefetch.p0(ptr %target, i32 1, i32 3, i32 1)\n"
#: Prefetches the cache lines of a run, up to a page, both of the source and of the target.
_ASK: Final = f"""declare void @llvm.prefetch.p0(ptr, i32, i32, i32)

define internal void @ask(ptr %to, ptr %from, i64 %size) nounwind {{
start:
  %short = icmp ult i64 %size, 4096
  %length = select i1 %short, i64 %size, i64 4096
  br label %next
next:
  %at = phi i64 [0, %start], [%after, %next]
  %source = getelementptr i8, ptr %from, i64 %at
  %target = getelementptr i8, ptr %to, i64 %at
  call void @llvm.prefetch.p0(ptr %source, i32 0, i32 3, i32 1)
{_ASK_TO_WRITE}  %after = add i64 %at, 64
  %more = icmp ult i64 %after, %length
  br i1 %more, label %next, label %out
out:
  ret void
}}"""

#: Finds run k in rows of ``inner`` runs. Strides of rows and runs are t0 and t1 in the target, s0 and s1 in the source;
#: the last run may be shorter.
_RUN: Final = ("target source", "run last final inner t0 t1 s0 s1", """  %row = sdiv i64 %k, %inner
  %used = mul i64 %row, %inner
  %column = sub i64 %k, %used
  %ta = mul i64 %row, %t0
  %tb = mul i64 %column, %t1
  %tc = add i64 %ta, %tb
  %to = getelementptr i8, ptr %target, i64 %tc
  %sa = mul i64 %row, %s0
  %sb = mul i64 %column, %s1
  %sc = add i64 %sa, %sb
  %from = getelementptr i8, ptr %source, i64 %sc
  %ends = icmp eq i64 %k, %final
  %size = select i1 %ends, i64 %last, i64 %run
""")
#: Finds run k, the one at the k-th of ``many`` indices, and prefetches the next one, which no processor predicts. Other
#: threads may change indices after they were checked, so an index out of range means the first run.
_INDEXED: Final = ("target source index", "size t s i many", """  %following = add i64 %k, 1
  %last = icmp sge i64 %following, %end
  %then = select i1 %last, i64 %k, i64 %following
  %ib = mul i64 %then, %i
  %there = getelementptr i8, ptr %index, i64 %ib
  %row.next = load i64, ptr %there
  %sb = mul i64 %row.next, %s
  %from.next = getelementptr i8, ptr %source, i64 %sb
  %tb = mul i64 %then, %t
  %to.next = getelementptr i8, ptr %target, i64 %tb
  call void @ask(ptr %to.next, ptr %from.next, i64 %size)
  %ia = mul i64 %k, %i
  %place = getelementptr i8, ptr %index, i64 %ia
  %given = load i64, ptr %place
  %inside = icmp ult i64 %given, %many
  %row = select i1 %inside, i64 %given, i64 0
  %ta = mul i64 %k, %t
  %to = getelementptr i8, ptr %target, i64 %ta
  %sa = mul i64 %row, %s
  %from = getelementptr i8, ptr %source, i64 %sa
""")


#: By function: how to find runs, and whether runs are whole lines of 64 bytes that are written past the caches.
_FUNCTIONS: Final = {"copy_runs": (_RUN, False), "gather_runs": (_INDEXED, False), "gather_lines": (_INDEXED, True)}


def text(name: str) -> str:
    """Return a module with ``void @name(ptr args, i64 begin, i64 end)``, which copies runs ``begin`` to ``end``.

    The slots of ``args`` are addresses, then numbers. For ``copy_runs``: target and source; bytes of a run and of the
    last one, the last one's number, runs in a row, the strides of rows and of runs in the target, and those in the
    source. For the others: target, source and indices; bytes of a run, and the strides of the three. Strides are bytes.

    Args:
        name: ``copy_runs``, ``gather_runs`` or ``gather_lines``.
    """
    (pointers, numbers, body), streamed = _FUNCTIONS[name]
    slots = [(slot, "ptr") for slot in pointers.split()] + [(slot, "i64") for slot in numbers.split()]
    loads = [line for k, (slot, kind) in enumerate(slots) for line in (
        f"  %{slot}.at = getelementptr i64, ptr %args, i64 {k}", f"  %{slot} = load {kind}, ptr %{slot}.at")]
    copy = "call void @copy_lines(ptr %to, ptr %from, i64 %size)" if streamed else _COPY
    return "\n".join([_LINES if streamed else _MEMCPY, _ASK.replace(_ASK_TO_WRITE, "") if streamed else _ASK, "",
        f"define void @{name}(ptr %args, i64 %begin, i64 %end) nounwind {{", "start:", *loads,
        "  %some = icmp slt i64 %begin, %end",
        "  br i1 %some, label %next, label %out",
        "next:",
        "  %k = phi i64 [%begin, %start], [%k1, %next]",
        f"{body}  {copy}",
        "  %k1 = add i64 %k, 1",
        "  %more = icmp slt i64 %k1, %end",
        "  br i1 %more, label %next, label %out",
        "out:",
        *(["  fence seq_cst"] if streamed else []),
        "  ret void", "}", ""])
