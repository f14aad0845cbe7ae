"""One compiled kernel over many sets of arguments, with one call.

A table of slots holds the sets one after the other. A small driver in machine code walks through the table and calls
the kernel's entry for each set. The driver takes a range of the iterations of all sets together, so threads share them
evenly.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from tensocket_plugins.contract.backend import Stream
from tensocket_plugins.ir.nodes import Program, Var
from tensocket_plugins.ir.printers.llvm_calls import slots, split_loop
from tensocket_plugins.kit.plans import ListExecutable

from ..threads.pool import ThreadPool
from .executable import array_slot, grain, make_entry, slot_codes

if TYPE_CHECKING:
    from .compiler import Compiler

_NAME: Final = "tensocket.list"
#: The header before the table: number of sets, slots per set, slot of the number of iterations, the kernel's entry.
_HEAD: Final = struct.Struct("=QQQQ")
_DRIVER: Final = f"""
define void @{_NAME}(ptr noalias readonly %args, i64 %begin, i64 %end) nounwind {{
entry:
  %rows = load i64, ptr %args
  %width.at = getelementptr i64, ptr %args, i64 1
  %width = load i64, ptr %width.at
  %position.at = getelementptr i64, ptr %args, i64 2
  %position = load i64, ptr %position.at
  %kernel.at = getelementptr i64, ptr %args, i64 3
  %kernel = load ptr, ptr %kernel.at
  %table = getelementptr i64, ptr %args, i64 4
  br label %head
head:
  %row = phi i64 [0, %entry], [%row.next, %next]
  %first = phi i64 [0, %entry], [%past, %next]
  %left = icmp ult i64 %row, %rows
  %inside = icmp slt i64 %first, %end
  %more = and i1 %left, %inside
  br i1 %more, label %body, label %done
body:
  %offset = mul i64 %row, %width
  %slots = getelementptr i64, ptr %table, i64 %offset
  %count.at = getelementptr i64, ptr %slots, i64 %position
  %count = load i64, ptr %count.at
  %past = add i64 %first, %count
  %low = sub i64 %begin, %first
  %low.positive = icmp sgt i64 %low, 0
  %from = select i1 %low.positive, i64 %low, i64 0
  %high = sub i64 %end, %first
  %high.small = icmp slt i64 %high, %count
  %to = select i1 %high.small, i64 %high, i64 %count
  %some = icmp slt i64 %from, %to
  br i1 %some, label %run, label %next
run:
  call void %kernel(ptr %slots, i64 %from, i64 %to)
  br label %next
next:
  %row.next = add i64 %row, 1
  br label %head
done:
  ret void
}}
"""


def make_list(compiler: Compiler, program: Program, pool: ThreadPool) -> ListExecutable | None:
    """Return a function ``run(buffers, scalars, stream)`` with a column of arguments for each parameter.

    Args:
        compiler: Makes machine code.
        program: A program that is scheduled for a CPU.
        pool: The threads that large launches are divided over.

    Returns:
        The function; None for a program of several kernels, with temporaries, or without an outermost loop over a
        scalar parameter.
    """
    loop = split_loop(program, program.kernels[0])
    if len(program.kernels) != 1 or program.temporaries or loop is None or not isinstance(loop.stop, Var):
        return None
    addresses, library = compiler.compile(program)
    drivers, driver_library = compiler.compile_text("list", _DRIVER, [_NAME])
    driver = make_entry(drivers[0], (library, driver_library))
    pack = struct.Struct(f"={slot_codes(program)}").pack
    names = [item.name for item in slots(program)]
    position = names.index(loop.stop.name)
    extent, width, kernel = position - len(program.buffers), len(names), addresses[0]
    limit, slot = grain(program.kernels[0]), array_slot

    def run(buffers: Sequence[Sequence[Any]], scalars: Sequence[Iterable[int | float]], stream: Stream) -> None:
        counts: Any = scalars[extent]
        total = sum(counts)
        rows = map(pack, *[map(slot, column) for column in buffers], *scalars)
        args = b"".join(chain((_HEAD.pack(len(counts), width, position, kernel),), rows))
        if total > limit:
            pool.run(driver, args, total, 2 * total // limit)
        else:
            driver(args, 0, total)

    return run
