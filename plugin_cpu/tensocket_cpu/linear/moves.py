"""Copies of small matrices into and out of the memory of Fortran routines, as launches of machine code.

Routines read other layouts and precisions than programs have, and leave numbers in triangles that are zero by
definition. NumPy copies such matrices, too, but a recording of launches could not repeat that.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from string import Template
from typing import TYPE_CHECKING, Any, Final

from numpy.typing import NDArray

from tensocket_plugins.contract.errors import KernelError
from tensocket_plugins.contract.launch_recorder import RECORDERS, note_launch

from ..code.executable import LaunchWords, make_entry
from ..code.pointers import address_of

if TYPE_CHECKING:
    from ..code.compiler import Compiler

Array = NDArray[Any]

#: Source and target, by kind and bytes of their elements, and LLVM's conversion.
_KINDS: Final = {"f4": "float", "f8": "double", "i4": "i32", "i8": "i64"}
_CONVERSIONS: Final = {("f4", "f4"): "", ("f8", "f8"): "", ("f4", "f8"): "fpext", ("f8", "f4"): "fptrunc",
                       ("i8", "i8"): "", ("i8", "i4"): "trunc", ("i4", "i8"): "sext"}
_WORDS: Final = ("target", "source", "status", "rows", "columns", "target_row", "target_column", "source_row",
                 "source_column", "low", "high", "unit")
_PACK: Final = struct.Struct(f"={len(_WORDS)}q").pack
_DIVIDE_PACK: Final = struct.Struct("=4q2d").pack
#: The bounds of ``low`` and ``high`` that admit everything.
_ALL: Final = -(1 << 62), 1 << 62
_DATA: Final = {2: (0, 1), 3: (0, 1, 2)}
_TEXT: Final = Template("""\
define void @move_$name(ptr %args, i64 %begin, i64 %end) nounwind {
entry:
$slots
  %guards = icmp ne i64 %status, 0
  %status.at = inttoptr i64 %status to ptr
  %target.at = inttoptr i64 %target to ptr
  %source.at = inttoptr i64 %source to ptr
  %has.unit = icmp ne i64 %unit, 0
  %some.rows = icmp sgt i64 %rows, 0
  %some.columns = icmp sgt i64 %columns, 0
  %some = and i1 %some.rows, %some.columns
  br i1 %some, label %row, label %done
row:
  %i = phi i64 [ 0, %entry ], [ %i.next, %row.end ]
  %bad.row = phi i64 [ 0, %entry ], [ %bad.next, %row.end ]
  %target.first = mul i64 %i, %target_row
  %source.first = mul i64 %i, %source_row
  br label %column
column:
  %j = phi i64 [ 0, %row ], [ %j.next, %column ]
  %bad = phi i64 [ %bad.row, %row ], [ %bad.next, %column ]
  %source.far = mul i64 %j, %source_column
  %source.index = add i64 %source.first, %source.far
  %source.place = getelementptr $source, ptr %source.at, i64 %source.index
  %x = load $source, ptr %source.place
$inside
  %wrong.inside = and i1 %wrong, %guards
  %wrong.word = zext i1 %wrong.inside to i64
  %bad.next = or i64 %bad, %wrong.word
  %safe = select i1 %wrong.inside, $source $instead, $source %x
  %kept = select i1 %keeps, $source %safe, $source $zero
  $convert
  %value = select i1 %is.one, $target $one, $target %converted
  %target.far = mul i64 %j, %target_column
  %target.index = add i64 %target.first, %target.far
  %target.place = getelementptr $target, ptr %target.at, i64 %target.index
  store $target %value, ptr %target.place
  %j.next = add i64 %j, 1
  %more.columns = icmp slt i64 %j.next, %columns
  br i1 %more.columns, label %column, label %row.end
row.end:
  %i.next = add i64 %i, 1
  %more.rows = icmp slt i64 %i.next, %rows
  br i1 %more.rows, label %row, label %done
done:
  %bad.all = phi i64 [ 0, %entry ], [ %bad.next, %row.end ]
  br i1 %guards, label %note, label %end.of.it
note:
  store i64 %bad.all, ptr %status.at
  ret void
end.of.it:
  ret void
}
""")
#: ``divide(args, begin, end)``: rows times the reciprocals of values, or times 0 for values up to the cut.
_DIVIDE: Final = """
declare double @llvm.fabs.f64(double)
define void @divide_rows(ptr %args, i64 %begin, i64 %end) nounwind {
entry:
  %values = load ptr, ptr %args
  %target.slot = getelementptr i64, ptr %args, i64 1
  %target = load ptr, ptr %target.slot
  %count.slot = getelementptr i64, ptr %args, i64 2
  %count = load i64, ptr %count.slot
  %columns.slot = getelementptr i64, ptr %args, i64 3
  %columns = load i64, ptr %columns.slot
  %absolute.slot = getelementptr i64, ptr %args, i64 4
  %absolute = load double, ptr %absolute.slot
  %relative.slot = getelementptr i64, ptr %args, i64 5
  %relative = load double, ptr %relative.slot
  br label %largest
largest:
  %k = phi i64 [ 0, %entry ], [ %k.next, %largest ]
  %top = phi double [ 0.0, %entry ], [ %top.next, %largest ]
  %one.place = getelementptr double, ptr %values, i64 %k
  %one = load double, ptr %one.place
  %one.size = call double @llvm.fabs.f64(double %one)
  %larger = fcmp ogt double %one.size, %top
  %top.next = select i1 %larger, double %one.size, double %top
  %k.next = add i64 %k, 1
  %more.values = icmp slt i64 %k.next, %count
  br i1 %more.values, label %largest, label %cuts
cuts:
  %scaled = fmul double %relative, %top.next
  %more.relative = fcmp ogt double %scaled, %absolute
  %cut = select i1 %more.relative, double %scaled, double %absolute
  br label %row
row:
  %i = phi i64 [ 0, %cuts ], [ %i.next, %row.end ]
  %value.place = getelementptr double, ptr %values, i64 %i
  %value = load double, ptr %value.place
  %size = call double @llvm.fabs.f64(double %value)
  %used = fcmp ogt double %size, %cut
  %reciprocal = fdiv double 1.0, %value
  %factor = select i1 %used, double %reciprocal, double 0.0
  %first = mul i64 %i, %columns
  br label %column
column:
  %j = phi i64 [ 0, %row ], [ %j.next, %column ]
  %index = add i64 %first, %j
  %place = getelementptr double, ptr %target, i64 %index
  %x = load double, ptr %place
  %product = fmul double %x, %factor
  store double %product, ptr %place
  %j.next = add i64 %j, 1
  %more.columns = icmp slt i64 %j.next, %columns
  br i1 %more.columns, label %column, label %row.end
row.end:
  %i.next = add i64 %i, 1
  %more.rows = icmp slt i64 %i.next, %count
  br i1 %more.rows, label %row, label %done
done:
  ret void
}
"""
#: Floats: elements outside of the band of diagonals are zero; wrong ones are not finite.
_BAND: Final = Template("""\
  %diagonal = sub i64 %j, %i
  %above = icmp sge i64 %diagonal, %low
  %below = icmp sle i64 %diagonal, %high
  %keeps = and i1 %above, %below
  %on.diagonal = icmp eq i64 %diagonal, 0
  %is.one = and i1 %has.unit, %on.diagonal
  %difference = fsub $source %x, %x
  %wrong = fcmp une $source %difference, 0.0""")
#: Integers: wrong ones are outside of the bounds.
_BOUNDS: Final = Template("""\
  $wide
  %too.low = icmp slt i64 %wide, %low
  %too.high = icmp sgt i64 %wide, %high
  %wrong = or i1 %too.low, %too.high
  %keeps = icmp eq i64 0, 0
  %is.one = icmp ne i64 0, 0""")


class Moves:
    """Copies between matrices, vectors or numbers of equal sizes, of any strides.

    Args:
        find_compiler: Returns the compiler.
    """

    def __init__(self, find_compiler: Callable[[], Compiler]) -> None:
        self._find_compiler = find_compiler
        self._entries: dict[tuple[str, str], Any] | None = None
        self._divide: Any = None

    def work(self) -> bool:
        """Whether there is a compiler."""
        if self._entries is None:
            self._entries = self._compiled()
        return bool(self._entries)

    def __call__(self, target: Array, source: Array, low: int = _ALL[0], high: int = _ALL[1], *, unit: bool = False,
                 status: Array | None = None) -> None:
        """Copy elements, converted to the target's dtype.

        Args:
            target: The target; ``work()`` is true, and the dtypes are in the table of this module.
            source: The source, of the same shape.
            low: Of floats, the lowest diagonal to copy, numbered from 0, the main one, to the right; elements outside
                of the copied diagonals become 0. Of integers, the smallest valid one.
            high: The highest diagonal, or the largest valid integer.
            unit: Whether the main diagonal becomes ones.
            status: An int64 number that becomes 1 if an element of the source is not finite, or not valid, else 0; such
                elements are copied as 0, integers as 1.
        """
        assert self._entries is not None
        entry = self._entries[source.dtype.str[1:], target.dtype.str[1:]]
        words = _PACK(address_of(target), address_of(source), 0 if status is None else address_of(status),
                      *_sizes(target), *_steps(target), *_steps(source), low, high, unit)
        if RECORDERS:
            arrays = (target, source) if status is None else (target, source, status)
            note_launch(entry, arrays, (True, False, True)[:len(arrays)], LaunchWords(words, 1, 1, _DATA[len(arrays)]))
        entry(words, 0, 1)

    def divide_rows(self, target: Array, values: Array, absolute: float, relative: float) -> None:
        """Divide contiguous rows in double precision by values in place.

        A value up to the larger one of ``absolute`` and ``relative`` times the largest value makes its row 0.
        """
        assert self._divide is not None
        words = _DIVIDE_PACK(address_of(values), address_of(target), *target.shape, absolute, relative)
        if RECORDERS:
            note_launch(self._divide, (values, target), (False, True), LaunchWords(words, 1, 1, _DATA[2]))
        self._divide(words, 0, 1)

    def _compiled(self) -> dict[tuple[str, str], Any]:
        names = ["_".join(pair) for pair in _CONVERSIONS]
        slots = "\n".join(f"  %{name}.slot = getelementptr i64, ptr %args, i64 {k}\n"
                          f"  %{name} = load i64, ptr %{name}.slot" for k, name in enumerate(_WORDS))
        text = "".join(_text(pair, slots) for pair in _CONVERSIONS) + _DIVIDE
        try:
            addresses, library = self._find_compiler().compile_text(
                "moves", text, [*[f"move_{name}" for name in names], "divide_rows"])
        except (ImportError, KernelError):
            return {}
        self._divide = make_entry(addresses.pop(), library)
        return {pair: make_entry(address, library) for pair, address in zip(_CONVERSIONS, addresses, strict=True)}


def _text(pair: tuple[str, str], slots: str) -> str:
    source, target = (_KINDS[kind] for kind in pair)
    instruction, floats = _CONVERSIONS[pair], pair[0][0] == "f"
    widen = "sext" if source == "i32" else "bitcast"
    inside = _BAND.substitute(source=source) if floats else _BOUNDS.substitute(
        wide=f"%wide = {widen} {source} %x to i64")
    return _TEXT.substitute(
        name="_".join(pair), source=source, target=target, slots=slots, inside=inside,
        zero="0.0" if floats else "0", instead="0.0" if floats else "1", one="1.0" if floats else "1",
        convert=f"%converted = {instruction or 'bitcast'} {source} %kept to {target}")


def _sizes(x: Array) -> tuple[int, int]:
    """Return rows and columns; a vector is a row."""
    rank = x.ndim
    return x.shape if rank == 2 else (1, x.size)


def _steps(x: Array) -> tuple[int, int]:
    """Return the elements from one row and from one column to the next."""
    strides, size = x.strides, x.itemsize
    if x.ndim == 2:
        return strides[0] // size, strides[1] // size
    return 0, strides[0] // size if strides else 0
