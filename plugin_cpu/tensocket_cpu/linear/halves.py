"""Conversions of contiguous 16-bit floats to float32 and back, rounded to nearest, in machine code over the workers."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from numpy.typing import NDArray

from ..code.pointers import address_of
from ..threads.pool import Entry, ThreadPool

if TYPE_CHECKING:
    from ..code.compiler import Compiler

Array = NDArray[Any]

_PACK: Final = struct.Struct("=2Q").pack
#: The elements that are worth a second thread.
_GRAIN: Final = 1 << 16

#: For each conversion: the types of an element before and after, and the instructions from ``%x`` to ``%y``.
_BODIES: Final = {
    "widen_float16": ("half", "float", "%y = fpext half %x to float"),
    "narrow_float16": ("float", "half", "%y = fptrunc float %x to half"),
    "widen_bfloat16": ("i16", "i32", "%z = zext i16 %x to i32\n  %y = shl i32 %z, 16"),
    # Add half a unit of the last place, less one bit if the last place is even; NaN keeps its sign and becomes quiet.
    "narrow_bfloat16": ("i32", "i16", """%high = lshr i32 %x, 16
  %odd = and i32 %high, 1
  %half = add i32 %odd, 32767
  %sum = add i32 %x, %half
  %rounded = lshr i32 %sum, 16
  %size = and i32 %x, 2147483647
  %nan = icmp ugt i32 %size, 2139095040
  %quiet = or i32 %high, 64
  %chosen = select i1 %nan, i32 %quiet, i32 %rounded
  %y = trunc i32 %chosen to i16"""),
}


def _function(name: str) -> str:
    before, after, body = _BODIES[name]
    return f"""define void @{name}(ptr %args, i64 %begin, i64 %end) {{
start:
  %source.at = getelementptr ptr, ptr %args, i64 1
  %target = load ptr, ptr %args
  %source = load ptr, ptr %source.at
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %next, label %out
next:
  %k = phi i64 [%begin, %start], [%k1, %next]
  %from = getelementptr {before}, ptr %source, i64 %k
  %to = getelementptr {after}, ptr %target, i64 %k
  %x = load {before}, ptr %from, !alias.scope !1, !noalias !2
  {body}
  store {after} %y, ptr %to, !alias.scope !2, !noalias !1
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k1, %end
  br i1 %more, label %next, label %out
out:
  ret void
}}
"""


_SCOPES: Final = """!0 = distinct !{!0}
!1 = !{!3}
!2 = !{!4}
!3 = distinct !{!3, !0}
!4 = distinct !{!4, !0}
"""


class Halves:
    """Conversions of one 16-bit dtype.

    Args:
        dtype: ``float16`` or ``bfloat16``.
        compiler: Compiles the conversions.
        pool: The threads that divide the work.
    """

    def __init__(self, dtype: str, compiler: Compiler, pool: ThreadPool) -> None:
        names = [f"widen_{dtype}", f"narrow_{dtype}"]
        text = "\n".join([*map(_function, names), _SCOPES])
        addresses, library = compiler.compile_text(f"halves_{dtype}", text, names)
        entries: list[Any] = [ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64)(address)
                              for address in addresses]
        for entry, address in zip(entries, addresses, strict=True):
            entry.address, entry.library = address, library
        self.widen: Callable[[Array, Array], None] = _over(entries[0], pool)
        self.narrow: Callable[[Array, Array], None] = _over(entries[1], pool)


def _over(entry: Entry, pool: ThreadPool) -> Callable[[Array, Array], None]:
    def run(target: Array, source: Array) -> None:
        pool.run(entry, _PACK(address_of(target), address_of(source)), source.size, 2 * source.size // _GRAIN)

    return run
