"""Inner products by BLAS: it multiplies a matrix of one row by a vector in four times the time."""

from __future__ import annotations

import ctypes
import struct
from string import Template
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from tensocket_plugins.contract.launch_recorder import RECORDERS, note_launch

from ..code.executable import LaunchWords
from ..code.pointers import address_of
from .blas import Library

if TYPE_CHECKING:
    from ..code.compiler import Compiler

Array = NDArray[Any]

#: The LLVM type and BLAS's letter of a dtype. Complex results have no calling convention that compilers agree on.
_TYPES: Final = {"float32": ("float", "s"), "float64": ("double", "d")}
_WORDS: Final = ("dot", "size", "x", "incx", "y", "incy", "out", "add")
_PACK: Final = struct.Struct(f"={len(_WORDS)}q").pack
_DATA: Final = tuple([_WORDS.index(name) for name in ("x", "y", "out")])
_TEXT: Final = Template("""\
define void @inner_$type(ptr %args, i64 %begin, i64 %end) {
$slots
  %dot = load ptr, ptr %dot.at
  %x = load ptr, ptr %x.at
  %y = load ptr, ptr %y.at
  %out = load ptr, ptr %out.at
  %add = load i64, ptr %add.at
  %product = call $type %dot(ptr %size.at, ptr %x, ptr %incx.at, ptr %y, ptr %incy.at)
  %adds = icmp ne i64 %add, 0
  br i1 %adds, label %more, label %only
more:
  %before = load $type, ptr %out
  %sum = fadd $type %before, %product
  store $type %sum, ptr %out
  ret void
only:
  store $type %product, ptr %out
  ret void
}
""")


class InnerProducts:
    """Inner products of the real dtypes that BLAS knows.

    Args:
        library: The BLAS.
        compiler: Compiles the calls.
    """

    def __init__(self, library: Library, compiler: Compiler) -> None:
        names = [f"inner_{kind}" for kind, _ in _TYPES.values()]
        slots = "\n".join(f"  %{name}.at = getelementptr i64, ptr %args, i64 {k}" for k, name in enumerate(_WORDS))
        text = "".join(_TEXT.substitute(type=kind, slots=slots) for kind, _ in _TYPES.values())
        addresses, code = compiler.compile_text("inner", text, names)
        self._entries: dict[np.dtype[Any], tuple[Any, int]] = {}
        for (dtype, (_, letter)), address in zip(_TYPES.items(), addresses, strict=True):
            entry: Any = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64)(address)
            entry.address, entry.library = address, (code, library)
            routine = library.address(f"{letter}dot")
            if routine:
                self._entries[np.dtype(dtype)] = entry, routine

    def of_vectors(self, x: Array, y: Array) -> Any:
        """Return the inner product of two vectors in new memory; NotImplemented for others, and for recorded calls."""
        size, dtype, item = len(x), x.dtype, x.itemsize
        step, other = x.strides[0], y.strides[0]
        if dtype not in self._entries or not size or len(y) != size or y.dtype is not dtype or RECORDERS or (
                step != item or other != item or not (x.flags.aligned and y.flags.aligned)):
            return NotImplemented
        out = np.empty((), dtype)
        self.run(x, y, out, size, (1, 1), False)
        return out

    def has(self, dtype: np.dtype[Any]) -> bool:
        """Whether there are inner products of a dtype."""
        return dtype in self._entries

    def run(self, x: Array, y: Array, out: Array, size: int, steps: tuple[int, int], add: bool) -> None:
        """Write the product of ``size`` elements of two arrays, ``steps`` elements apart, to ``out``, or add it."""
        entry, routine = self._entries[out.dtype]
        args = _PACK(routine, size, address_of(x), steps[0], address_of(y), steps[1], address_of(out), add)
        if RECORDERS:
            note_launch(entry, (x, y, out), (False, False, True), LaunchWords(args, 1, 1, _DATA), False)
        entry(args, 0, 1)
