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
_GATHERS: Final = {"gather_runs": (_INDEXED, False), "gather_lines": (_INDEXED, True)}

#: Copies a run. Most processors call the C library more slowly than they copy short runs: two moves that may overlap.
_MOVE: Final = """define internal void @move(ptr noalias %to, ptr noalias %from, i64 %size) nounwind alwaysinline {
start:
  %long = icmp ugt i64 %size, 64
  br i1 %long, label %library, label %short
library:
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %size, i1 false)
  ret void
short:
  %many32 = icmp uge i64 %size, 32
  br i1 %many32, label %by32, label %below32
$two32below32:
  %many16 = icmp uge i64 %size, 16
  br i1 %many16, label %by16, label %below16
$two16below16:
  %many8 = icmp uge i64 %size, 8
  br i1 %many8, label %by8, label %below8
$two8below8:
  %many4 = icmp uge i64 %size, 4
  br i1 %many4, label %by4, label %below4
$two4below4:
  %some = icmp ne i64 %size, 0
  br i1 %some, label %by1, label %out
by1:
  %at = phi i64 [0, %below4], [%after, %by1]
  %source = getelementptr i8, ptr %from, i64 %at
  %target = getelementptr i8, ptr %to, i64 %at
  %byte = load i8, ptr %source
  store i8 %byte, ptr %target
  %after = add i64 %at, 1
  %more = icmp ult i64 %after, %size
  br i1 %more, label %by1, label %out
out:
  ret void
}"""

#: The first and the last bytes of a run of $n to twice as many bytes.
_TWO: Final = """by$n:
  %back$n = sub i64 %size, $n
  %from$n = getelementptr i8, ptr %from, i64 %back$n
  %to$n = getelementptr i8, ptr %to, i64 %back$n
  %first$n = load <$n x i8>, ptr %from, align 1
  %last$n = load <$n x i8>, ptr %from$n, align 1
  store <$n x i8> %first$n, ptr %to, align 1
  store <$n x i8> %last$n, ptr %to$n, align 1
  ret void
"""

#: The body of a loop over rows of runs, which divides once per call: by function, its slots, the number of runs in a
#: row, and how to find the run in %column of %row.
_ROWS: Final = {
    # Strides of rows and runs are t0 and t1 in the target, s0 and s1 in the source; the last run may be shorter.
    "copy_runs": ("target source", "run last final inner t0 t1 s0 s1", """  %ta = mul i64 %row, %t0
  %tb = mul i64 %column, %t1
  %tc = add i64 %ta, %tb
  %to = getelementptr i8, ptr %target, i64 %tc
  %sa = mul i64 %row, %s0
  %sb = mul i64 %column, %s1
  %sc = add i64 %sa, %sb
  %from = getelementptr i8, ptr %source, i64 %sc
  %ends = icmp eq i64 %k, %final
  %size = select i1 %ends, i64 %last, i64 %run
"""),
    # A table has for each run of a row: the source's address, its stride, bytes after the row's begin, and its bytes.
    "join_runs": ("target table", "inner t0", """  %ta = mul i64 %row, %t0
  %number = shl i64 %column, 2
  %known = getelementptr i64, ptr %table, i64 %number
  %source = load ptr, ptr %known
  %stride.at = getelementptr i64, ptr %known, i64 1
  %stride = load i64, ptr %stride.at
  %place.at = getelementptr i64, ptr %known, i64 2
  %place = load i64, ptr %place.at
  %size.at = getelementptr i64, ptr %known, i64 3
  %size = load i64, ptr %size.at
  %tb = add i64 %ta, %place
  %to = getelementptr i8, ptr %target, i64 %tb
  %sa = mul i64 %row, %stride
  %from = getelementptr i8, ptr %source, i64 %sa
"""),
}


def text(name: str) -> str:
    """Return a module with ``void @name(ptr args, i64 begin, i64 end)``, which copies runs ``begin`` to ``end``.

    The slots of ``args`` are addresses, then numbers; strides are bytes.

    - ``copy_runs``: target and source; bytes of a run and of the last one, the last one's number, runs in a row, the
      strides of rows and of runs in the target, and those in the source.
    - ``join_runs``: target and table; runs in a row, and the stride of rows in the target.
    - ``gather_runs``, ``gather_lines``: target, source and indices; bytes of a run, the strides of the three, and the
      number of rows in the source.
    """
    return _of_rows(name) if name in _ROWS else _of_indices(name)


def _of_rows(name: str) -> str:
    """Return the module of a function that copies rows of runs."""
    pointers, numbers, body = _ROWS[name]
    move = _MOVE
    for size in (32, 16, 8, 4):
        move = move.replace(f"$two{size}below", _TWO.replace("$n", str(size)) + "below")
    return "\n".join([_MEMCPY, move, "", f"define void @{name}(ptr %args, i64 %begin, i64 %end) nounwind {{", "start:",
        *_loads(pointers, numbers),
        "  %row.first = sdiv i64 %begin, %inner",
        "  %column.first = srem i64 %begin, %inner",
        "  %some = icmp slt i64 %begin, %end",
        "  br i1 %some, label %next, label %out",
        "next:",
        "  %k = phi i64 [%begin, %start], [%k1, %next]",
        "  %row = phi i64 [%row.first, %start], [%row.then, %next]",
        "  %column = phi i64 [%column.first, %start], [%column.then, %next]",
        f"{body}  call void @move(ptr %to, ptr %from, i64 %size)",
        "  %k1 = add i64 %k, 1",
        "  %column1 = add i64 %column, 1",
        "  %full = icmp eq i64 %column1, %inner",
        "  %row1 = add i64 %row, 1",
        "  %row.then = select i1 %full, i64 %row1, i64 %row",
        "  %column.then = select i1 %full, i64 0, i64 %column1",
        "  %more = icmp slt i64 %k1, %end",
        "  br i1 %more, label %next, label %out",
        "out:",
        "  ret void", "}", ""])


def _of_indices(name: str) -> str:
    """Return the module of a function that copies a run for each index."""
    (pointers, numbers, body), streamed = _GATHERS[name]
    copy = "call void @copy_lines(ptr %to, ptr %from, i64 %size)" if streamed else _COPY
    return "\n".join([_LINES if streamed else _MEMCPY, _ASK.replace(_ASK_TO_WRITE, "") if streamed else _ASK, "",
        f"define void @{name}(ptr %args, i64 %begin, i64 %end) nounwind {{", "start:", *_loads(pointers, numbers),
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


def _loads(pointers: str, numbers: str) -> list[str]:
    """Return the lines that load the slots of ``args``."""
    slots = [(slot, "ptr") for slot in pointers.split()] + [(slot, "i64") for slot in numbers.split()]
    return [line for k, (slot, kind) in enumerate(slots) for line in (
        f"  %{slot}.at = getelementptr i64, ptr %args, i64 {k}", f"  %{slot} = load {kind}, ptr %{slot}.at")]
