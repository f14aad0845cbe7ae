"""Tapes: noted launches as a table of words, which one function of machine code, the same for all tapes, walks over.

A record has an entry, the address of its words, a number of iterations and a number of pieces. Words refer to arrays by
object, as slots of kernels do, or by the address of the elements, as calls of libraries do. A call writes the words
that refer to arrays of its own, and the numbers that it gives, then the walk begins. It releases the interpreter's
lock, so that a lock of the tape keeps other threads from its words.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.backend import Stream
from tensocket_plugins.contract.plans import TapePlan

from ..code.executable import LaunchWords, array_slot
from ..code.pointers import address_of
from ..threads.pool import ThreadPool
from ..threads.streams import CpuQueue
from .builder import Function
from .resources import run_divided

if TYPE_CHECKING:
    from ..code.compiler import Compiler

_NAME: Final = "tensocket_tape"
#: Words of a record.
_RECORD: Final = 4
_WORD: Final = 8
_FLOAT: Final = struct.Struct("=d")
_DOUBLE: Final = struct.Struct("=Q")


@cache
def _text() -> str:
    """Return the LLVM IR of ``walk(records, count, run, pool)``; ``run`` is null if threads do not divide launches."""
    f = Function(None, _NAME, "ptr i64 ptr ptr", "void")
    records, count, run, pool = f.parameters
    with f.loop(count) as k:
        record = records + k * (_RECORD * _WORD)
        run_divided(run, pool, record.pointer(0), record.pointer(1), record[2], record[3])
    f.returns()
    return f.text()


def make_tape(compiler: Compiler, pool: ThreadPool, plan: TapePlan
              ) -> Callable[[Sequence[Any], Sequence[int | float], Stream | None], None]:
    """Compile a tape; the threads of the pool divide large launches."""
    return _Tape(compiler, pool, plan)


class _Tape:
    """The table of a tape. It keeps alive all that its words refer to."""

    def __init__(self, compiler: Compiler, pool: ThreadPool, plan: TapePlan) -> None:
        address, self._library = compiler.compile_once(_text(), _NAME)
        pointer, word = ctypes.c_void_p, ctypes.c_int64
        self._walk = ctypes.CFUNCTYPE(None, pointer, word, pointer, pointer)(address)
        self._pool, self._calls = pool, plan.calls
        self._lock = threading.Lock()
        launches: list[LaunchWords] = [call.arguments for call in plan.calls]
        self._words = np.frombuffer(bytearray(b"".join(launch.words for launch in launches) or bytes(_WORD)), np.uint64)
        begins = np.cumsum([0, *[len(launch.words) // _WORD for launch in launches]])
        base = address_of(self._words)
        self._records = np.array([(call.kernel.address, base + _WORD * int(begin), launch.iterations, launch.pieces)
                                  for call, launch, begin in zip(plan.calls, launches, begins, strict=False)]
                                 or [(0,) * _RECORD], np.uint64)
        self._view = memoryview(self._words.data).cast("B").cast("Q")
        self._patches = _patches(plan, launches, begins)
        self._numbers = [[int(begins[call]) + len(plan.calls[call].arrays) + k for call, k in places]
                         for places in plan.numbers]

    def __call__(self, arrays: Sequence[Any], numbers: Sequence[int | float], stream: Stream | None) -> None:
        if type(stream) is CpuQueue:
            given = tuple(arrays), tuple(numbers)
            stream.submit(_NAME, lambda: self(*given, None))
            return
        view = self._view
        with self._lock:
            for array, (objects, addresses) in zip(arrays, self._patches, strict=True):
                if objects:
                    slot = array_slot(array)
                    for at in objects:
                        view[at] = slot
                if addresses:
                    address = address_of(array)
                    for at in addresses:
                        view[at] = address
            for spots, number in zip(self._numbers, numbers, strict=True):
                (bits,) = _DOUBLE.unpack(_FLOAT.pack(number))
                for at in spots:
                    view[at] = bits
            workers: Any = self._pool.native if self._pool.threads > 1 else None
            run, pool = (None, None) if workers is None else workers.place
            self._walk(address_of(self._records), len(self._calls), run, pool)


def _patches(plan: TapePlan, launches: Sequence[LaunchWords], begins: Any
             ) -> list[tuple[list[int], list[int]]]:
    """Return, for each array that changes, the words that refer to it by object and by address."""
    found: list[tuple[list[int], list[int]]] = [([], []) for _ in plan.changing]
    places = {id(x): k for k, x in enumerate(plan.changing)}
    for call, launch, begin in zip(plan.calls, launches, begins, strict=False):
        for k, array in enumerate(call.arrays):
            place = places.get(id(array))
            if place is not None:
                at = int(begin) + (launch.data[k] if launch.data else k)
                found[place][bool(launch.data)].append(at)
    return found
