"""Fortran routines over all matrices of a batch, called from machine code, because calls from Python take longer."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensocket_plugins.contract.errors import KernelError
from tensocket_plugins.contract.launch_recorder import (
    RECORDERS,
    forbid_replay,
    is_recording,
    note_constant,
    note_launch,
)
from tensocket_plugins.kit.bounded import BoundedCache

from ..code.executable import LaunchWords, make_entry
from ..code.pointers import address_of
from .moves import Moves

if TYPE_CHECKING:
    from ..code.compiler import Compiler

#: The lengths of strings, which Fortran may expect after all other arguments; no routine here has more strings.
_LENGTHS: Final = ", ".join(["i64 1"] * 4)
_NAME: Final = "repeated"


class PerMatrix(NamedTuple):
    """An argument of which every call gets its own part.

    Attributes:
        array: A contiguous array of the parts, one after the other.
    """

    array: NDArray[Any]


#: An array that all calls share, an array with a part for each, a number or a letter.
Argument = NDArray[Any] | PerMatrix | int | bytes


class BatchCaller:
    """A caller of routines for all matrices of a batch.

    Args:
        find_compiler: Returns the compiler; if it fails, the calls come from Python.

    Attributes:
        move: Copies matrices into and out of the routines' memory.
    """

    def __init__(self, find_compiler: Callable[[], Compiler]) -> None:
        self._find_compiler = find_compiler
        self.move = Moves(find_compiler)
        self._entries: dict[int, tuple[Any, Callable[..., bytes]]] = {}

    def run(self, address: int, count: int, *args: Argument) -> None:
        """Call a routine ``count`` times.

        Args:
            address: The address of its code.
            count: The number of calls.
            args: Its arguments; those that are not ``PerMatrix`` are the same for all calls.
        """
        if RECORDERS:
            forbid_replay()  # results of large matrices are copied by NumPy
        held = [_memory(arg) for arg in args]
        places = [place for _, place in held]
        if count == 1:
            steps = [0] * len(args)
        else:
            steps = [arg.array.nbytes // count if type(arg) is PerMatrix and count else 0 for arg in args]
        entry, pack = self._entry(len(args))
        if entry is not None:
            entry(pack(address, *places, *steps), 0, count)
            return
        call = ctypes.CFUNCTYPE(None)(address)
        lengths = [ctypes.c_size_t(1)] * 4
        for k in range(count):
            call(*[ctypes.c_void_p(place + k * step) for place, step in zip(places, steps, strict=True)], *lengths)

    def prepare(self, address: int, *args: Argument) -> Callable[[], object] | None:
        """Return a function that calls a routine once with these arguments; None without a compiler.

        It keeps the arrays alive. The routine may write to all of them that are writable. In a recording, each call is
        a launch of it.
        """
        held = [_memory(arg) for arg in args]
        entry, pack = self._entry(len(args))
        if entry is None:
            return None
        words = pack(address, *[place for _, place in held], *[0] * len(args))
        if is_recording():
            return partial(_launch, entry, words, [array for array, _ in held])
        return _Prepared(entry, words, 0, 1, held=held)

    def _entry(self, arity: int) -> tuple[Any, Callable[..., bytes]]:
        """Return the compiled loop for routines with ``arity`` arguments, None without a compiler; and its packing."""
        found = self._entries.get(arity)
        if found is None:
            try:
                (address,), library = self._find_compiler().compile_text(_NAME, _text(arity), [_NAME])
                entry = make_entry(address, library)
            except (ImportError, KernelError):
                entry = None
            found = self._entries[arity] = entry, struct.Struct(f"={1 + 2 * arity}q").pack
        return found


def _launch(entry: Any, words: bytes, arrays: list[NDArray[Any]]) -> None:
    """Call a routine, and note the call."""
    written = [array.flags.writeable and array.size > 0 for array in arrays]
    for array in arrays:
        if not array.flags.writeable:
            note_constant(array)
    note_launch(entry, arrays, written, LaunchWords(words, 1, 1, tuple(range(1, 1 + len(arrays)))))
    entry(words, 0, 1)


def constant(value: Any, dtype: Any) -> NDArray[Any]:
    """Return an array that nobody writes to, and that does not depend on operands."""
    array = np.array(value, dtype)
    array.flags.writeable = False
    note_constant(array)
    return array


class _Prepared(partial[bytes]):
    """A call whose attribute ``held`` owns the memory that its packed addresses point to."""

    def __new__(cls, entry: Any, packed: bytes, begin: int, end: int, *, held: object) -> _Prepared:
        made = super().__new__(cls, entry, packed, begin, end)
        made.held = held
        return made

    held: object


#: Most numbers and letters that stay in memory, by value; routines only read them. Cleared when it is full.
_CONSTANTS: Final[BoundedCache[int | bytes, tuple[NDArray[Any], int]]] = BoundedCache(1024)


def _memory(arg: Argument) -> tuple[NDArray[Any], int]:
    """Return an argument as an array, because Fortran takes all arguments by reference, and its address."""
    kind = type(arg)
    if kind is int or kind is bytes:
        known = _CONSTANTS.get(arg)  # type: ignore[arg-type]
        return _constant(arg) if known is None else known  # type: ignore[arg-type]
    array = arg.array if kind is PerMatrix else arg  # type: ignore[union-attr]
    return array, address_of(array)  # type: ignore[return-value]


def _constant(value: int | bytes) -> tuple[NDArray[Any], int]:
    array = constant(value, np.int64) if isinstance(value, int) else np.frombuffer(value, np.uint8)
    known = _CONSTANTS[value] = array, address_of(array)
    return known


def _text(arity: int) -> str:
    """Return the LLVM IR of ``repeated(arguments, begin, end)``.

    The slots of ``arguments`` are the routine's address, then the addresses and steps of its arguments.
    """
    lines, passed = [f"define void @{_NAME}(ptr %args, i64 %begin, i64 %end) nounwind {{",
                     "  %routine = load ptr, ptr %args"], []
    for k in range(arity):
        lines += [f"  %at{k} = getelementptr i64, ptr %args, i64 {1 + k}", f"  %first{k} = load ptr, ptr %at{k}",
                  f"  %by{k} = getelementptr i64, ptr %args, i64 {1 + arity + k}",
                  f"  %step{k} = load i64, ptr %by{k}"]
    lines += ["  %some = icmp slt i64 %begin, %end", "  br i1 %some, label %again, label %done", "again:",
              "  %i = phi i64 [ %begin, %0 ], [ %next, %again ]"]
    for k in range(arity):
        lines += [f"  %far{k} = mul i64 %i, %step{k}", f"  %arg{k} = getelementptr i8, ptr %first{k}, i64 %far{k}"]
        passed.append(f"ptr %arg{k}")
    return "\n".join([*lines, f"  call void %routine({', '.join(passed)}, {_LENGTHS})", "  %next = add i64 %i, 1",
                      "  %more = icmp slt i64 %next, %end", "  br i1 %more, label %again, label %done", "done:",
                      "  ret void", "}"])
