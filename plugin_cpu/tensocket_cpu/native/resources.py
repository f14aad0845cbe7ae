"""The device's memory and threads for machine code: one block of addresses, and functions that allocate and divide.

Built-in functions serve arrays of some hundred thousand elements like small ones: large results take their memory from
the device's pool, and its workers share the iterations of a kernel. Both start when the Python code first needs them,
and write their addresses to the block. Until then, and while no worker runs (in a forked child, or after the number of
threads changed), the functions refuse, so that the next path serves the call, and starts them.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final

import numpy as np

from ..code.immortal import immortal
from ..threads.worker_code import FIELDS

if TYPE_CHECKING:
    from ..memory.arena import Arena
    from ..threads.workers import Workers
    from .layout import Layout

#: The words of the block. C functions: ``PyArray_NewFromDescr``, ``Py_IncRef``, ``Py_DecRef``, ``PyErr_Clear``.
#: The class of arrays. ``PyContextVar_Set`` and ``PyContextVar_Reset``; NumPy's variable and the pool's handler, or 0.
#: Addresses of the number of allocations until one has to fail, for tests, of the workers' ``run``, and of their shared
#: memory, or 0.
_WORDS: Final = ("create", "retain", "release", "clear", "kind", "set", "reset", "variable", "handler",
                 "countdown", "run", "pool")


class Resources:
    """The block of one device. Machine code is never unloaded, so the block lives as long as the process.

    Attributes:
        address: The address of the block.
    """

    def __init__(self, layout: Layout) -> None:
        self._words = immortal((ctypes.c_uint64 * len(_WORDS))())
        self.address = ctypes.addressof(self._words)
        self._put(create=layout.new_array, retain=layout.retain, release=layout.release, clear=layout.clear,
                  kind=id(np.ndarray), set=layout.set_variable, reset=layout.reset_variable)

    def use_arena(self, arena: Arena) -> None:
        """Let large results come from a pool in machine code."""
        self._put(variable=id(arena.variable), countdown=arena.address_of("countdown"))
        self._put(handler=id(arena.handler))

    def use_workers(self, workers: Workers) -> None:
        """Let workers share the iterations of kernels."""
        run, pool = workers.place
        self._put(run=run)
        self._put(pool=pool)

    def _put(self, **words: int) -> None:
        for name, word in words.items():
            self._words[_WORDS.index(name)] = word


def resources_text(pooled: int) -> str:
    """Return LLVM IR of three internal functions.

    ``@allocate(block, dtype, rank, sizes, strides, nbytes)`` returns a new array; null, and no error, if the next path
    has to allocate. ``@divide(block, kernel, slots, count, pieces)`` runs a kernel. ``@ready(block)`` tells whether
    workers run.

    Args:
        pooled: The bytes from which an array's memory comes from the pool.
    """
    loads = "\n".join(f"  %{name}.at = getelementptr i64, ptr %block, i64 {k}\n  %{name} = load ptr, ptr %{name}.at"
                      for k, name in enumerate(_WORDS))
    return _TEXT.replace("$loads", loads).replace("$pooled", str(pooled)).replace("$most", str(FIELDS["most"]))


_TEXT: Final = """\
define internal ptr @allocate(ptr %block, ptr %dtype, i32 %rank, ptr %sizes, ptr %strides, i64 %nbytes) {
entry:
$loads
  %large = icmp uge i64 %nbytes, $pooled
  br i1 %large, label %pooled, label %make
pooled:
  %none = icmp eq ptr %handler, null
  br i1 %none, label %refuse, label %started
started:
  %left = load i64, ptr %countdown
  %counts = icmp ne i64 %left, 0
  br i1 %counts, label %refuse, label %choose
choose:
  %given = call ptr %set(ptr %variable, ptr %handler)
  %failed = icmp eq ptr %given, null
  br i1 %failed, label %forget, label %make
make:
  %token = phi ptr [ null, %entry ], [ %given, %choose ]
  call void %retain(ptr %dtype)
  %made = call ptr %create(ptr %kind, ptr %dtype, i32 %rank, ptr %sizes, ptr %strides, ptr null, i32 0, ptr null)
  %lost = icmp eq ptr %made, null
  br i1 %lost, label %clean, label %restore
clean:
  call void %clear()
  br label %restore
restore:
  br i1 %large, label %back, label %out
back:
  %stuck = call i32 %reset(ptr %variable, ptr %token)
  call void %release(ptr %token)
  %wrong = icmp ne i32 %stuck, 0
  br i1 %wrong, label %keep, label %out
keep:
  call void %clear()
  br label %out
out:
  ret ptr %made
forget:
  call void %clear()
  br label %refuse
refuse:
  ret ptr null
}
define internal void @divide(ptr %block, ptr %kernel, ptr %slots, i64 %count, i64 %pieces) {
entry:
$loads
  %several = icmp sgt i64 %pieces, 1
  br i1 %several, label %together, label %alone
together:
  call void %run(ptr %pool, ptr %kernel, ptr %slots, i64 %count, i64 %pieces)
  ret void
alone:
  call void %kernel(ptr %slots, i64 0, i64 %count)
  ret void
}
define internal i1 @ready(ptr %block) {
entry:
$loads
  %none = icmp eq ptr %pool, null
  br i1 %none, label %no, label %look
look:
  %at = getelementptr i8, ptr %pool, i64 $most
  %most = load atomic i64, ptr %at acquire, align 8
  %some = icmp sgt i64 %most, 0
  ret i1 %some
no:
  ret i1 false
}
"""
