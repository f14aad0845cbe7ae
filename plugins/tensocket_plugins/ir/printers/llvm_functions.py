"""Scalar functions of the IR as LLVM instructions.

A bool is ``i1`` as a value and ``i8`` in memory; bfloat16 is ``i16`` bits in both, and like float16 only converted.
Nothing here has fast-math flags, so results are those of every other printer.
"""

from __future__ import annotations

import ctypes
import math
import struct
from typing import Final

from ...contract.dtypes import DType, bfloat16, bool_, float16, float32, float64, int32, int64
from ..nodes import IRError

_VALUE: Final = {
    "bool": "i1", "uint8": "i8", "int8": "i8", "uint16": "i16", "int16": "i16", "uint32": "i32", "int32": "i32",
    "uint64": "i64", "int64": "i64", "float16": "half", "bfloat16": "i16", "float32": "float", "float64": "double",
}
_INTEGER: Final = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor", "shl": "shl"}
_FLOAT: Final = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "fmod": "frem"}
_INTRINSIC: Final = {"abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint"}
_LIBM: Final = frozenset({"exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "pow"})


def value_type(dtype: DType) -> str:
    """LLVM's type of a value."""
    try:
        return _VALUE[dtype.name]
    except KeyError:
        raise IRError(f"LLVM kernels do not compute with {dtype.name}") from None


def memory_type(dtype: DType) -> str:
    """LLVM's type of an element in memory."""
    return "i8" if dtype is bool_ else value_type(dtype)


def is_narrow(dtype: DType) -> bool:
    """Whether values are only stored and converted."""
    return dtype is float16 or dtype is bfloat16


class Writer:
    """The instructions of one function; values are numbered, blocks are labelled.

    Args:
        declarations: Lines for external functions, shared by the functions of a module.
    """

    def __init__(self, declarations: dict[str, str]) -> None:
        self.lines: list[str] = []
        self.label = "entry"
        self._count = 0
        self._declarations = declarations

    def fresh(self, prefix: str) -> str:
        """A new name."""
        self._count += 1
        return f"{prefix}{self._count}"

    def op(self, text: str) -> str:
        """Add an instruction with a result; returns the result."""
        name = "%" + self.fresh("v")
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Add an instruction without a result."""
        self.lines.append(f"  {text}")

    def start(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")
        self.label = label

    def call(self, name: str, result: str, args: list[str], kind: str) -> str:
        """Call an external function of ``args`` that all have type ``kind``."""
        types = ", ".join([kind] * len(args))
        # Compilers may treat C's mathematical functions as pure: nobody reads errno.
        self._declarations[name] = f"declare {result} @{name}({types}) nounwind willreturn memory(none)"
        return self.op(f"call {result} @{name}({', '.join(f'{kind} {a}' for a in args)})")


# -------------------------------------------------------------------------------------------------- constants


def _float_bits(value: float) -> str:
    """A float or double literal: the bits of the value as a double."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _half_bits(value: float) -> int:
    if math.isnan(value):
        return 0x7E00
    try:
        return int(struct.unpack("<H", struct.pack("<e", value))[0])
    except OverflowError:
        return 0xFC00 if value < 0 else 0x7C00


def _bfloat16_bits(value: float) -> int:
    bits = ctypes.c_uint32.from_buffer(ctypes.c_float(value)).value
    if math.isnan(value):
        return bits >> 16 | 0x40
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF


def constant(value: bool | int | float, dtype: DType) -> str:
    """A literal of ``dtype``, rounded to it or wrapped around."""
    if dtype is bool_:
        return "true" if value else "false"
    if dtype is float64:
        return _float_bits(float(value))
    if dtype is float32:
        return _float_bits(ctypes.c_float(value).value)
    if dtype is float16:
        return f"0xH{_half_bits(float(value)):04X}"
    if dtype is bfloat16:
        return str(_bfloat16_bits(float(value)))
    bits = dtype.itemsize * 8
    return str((int(value) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1))


# ---------------------------------------------------------------------------------------------------- casts


def widen(w: Writer, x: str, dtype: DType) -> str:
    """A 16-bit float as ``float``; exact."""
    if dtype is float16:
        return w.op(f"fpext half {x} to float")
    high = w.op(f"shl i32 {w.op(f'zext i16 {x} to i32')}, 16")
    return w.op(f"bitcast i32 {high} to float")


def narrow(w: Writer, x: str, dtype: DType) -> str:
    """A ``float`` rounded to a 16-bit float, halves to even; a NaN stays one."""
    if dtype is float16:
        return w.op(f"fptrunc float {x} to half")
    bits = w.op(f"bitcast float {x} to i32")
    high = w.op(f"lshr i32 {bits}, 16")
    bias = w.op(f"add i32 {w.op(f'and i32 {high}, 1')}, 32767")
    rounded = w.op(f"lshr i32 {w.op(f'add i32 {bits}, {bias}')}, 16")
    nan = w.op(f"fcmp uno float {x}, {x}")
    quiet = w.op(f"or i32 {high}, 64")
    return w.op(f"trunc i32 {w.op(f'select i1 {nan}, i32 {quiet}, i32 {rounded}')} to i16")


def _to_odd(w: Writer, x: str) -> str:
    """A double as the ``float`` towards zero with its last bit set if inexact: rounding that once more is right."""
    near = w.op(f"fptrunc double {x} to float")
    back = w.op(f"fpext float {near} to double")
    beyond = w.op(f"fcmp ogt double {_absolute(w, back)}, {_absolute(w, x)}")
    bits = w.op(f"bitcast float {near} to i32")
    below = w.op(f"sub i32 {bits}, {w.op(f'zext i1 {beyond} to i32')}")
    inexact = w.op(f"fcmp one double {back}, {x}")
    sticky = w.op(f"zext i1 {inexact} to i32")
    return w.op(f"bitcast i32 {w.op(f'or i32 {below}, {sticky}')} to float")


def _absolute(w: Writer, x: str) -> str:
    return w.call("llvm.fabs.f64", "double", [x], "double")


def cast(w: Writer, x: str, source: DType, target: DType) -> str:
    """``x`` converted, with the IR's rules."""
    if source is target:
        return x
    if is_narrow(source):
        return cast(w, widen(w, x, source), float32, target)
    if is_narrow(target):
        wide = _to_odd(w, x) if source is float64 and target is float16 else cast(w, x, source, float32)
        return narrow(w, wide, target)
    before, after = value_type(source), value_type(target)
    if target is bool_:
        test = f"fcmp une {before} {x}, 0.0" if source.kind == "float" else f"icmp ne {before} {x}, 0"
        return w.op(test)
    if source.kind == "float":
        return _from_float(w, x, source, target)
    signed = source.kind == "int"
    if target.kind == "float":
        return w.op(f"{'sitofp' if signed else 'uitofp'} {before} {x} to {after}")
    if before == after:
        return x
    if source is not bool_ and source.itemsize > target.itemsize:
        return w.op(f"trunc {before} {x} to {after}")
    return w.op(f"{'sext' if signed else 'zext'} {before} {x} to {after}")


def _from_float(w: Writer, x: str, source: DType, target: DType) -> str:
    """A float or double as another float or an integer; out of range gives some number, hence ``freeze``."""
    before, after = value_type(source), value_type(target)
    if target.kind == "float":
        return w.op(f"{'fpext' if source is float32 else 'fptrunc'} {before} {x} to {after}")
    # Narrow integers wrap around as in C, through a wider one; so do negative numbers in unsigned ones.
    through = int32 if target.itemsize < 4 else int64 if target.name == "uint32" else target
    instruction = "fptoui" if through.kind == "uint" else "fptosi"
    whole = w.op(f"freeze {value_type(through)} "
                 f"{w.op(f'{instruction} {before} {x} to {value_type(through)}')}")
    return cast(w, whole, through, target)


def bitcast(w: Writer, x: str, source: DType, target: DType) -> str:
    """The same bits."""
    before, after = value_type(source), value_type(target)
    return x if before == after else w.op(f"bitcast {before} {x} to {after}")


# ------------------------------------------------------------------------------------------------- functions


def _computable(function: str, dtype: DType) -> DType:
    if is_narrow(dtype):
        raise IRError(f"{function} of {dtype.name}: convert it to float32 first")
    return dtype


def compare(w: Writer, function: str, dtype: DType, x: str, y: str) -> str:
    """``eq``, ``ne``, ``lt`` or ``le``; comparisons with NaN are false, except ``ne``."""
    kind = value_type(_computable(function, dtype))
    if dtype.kind == "float":
        return w.op(f"fcmp {'une' if function == 'ne' else 'o' + function} {kind} {x}, {y}")
    order = "" if function in ("eq", "ne") else "s" if dtype.kind == "int" else "u"
    return w.op(f"icmp {order}{function} {kind} {x}, {y}")


def apply(w: Writer, function: str, dtype: DType, args: list[str]) -> str:
    """A function of rule ``same``."""
    _computable(function, dtype)
    if function in ("min", "max"):
        return _extreme(w, function, dtype, *args)
    return _float(w, function, dtype, args) if dtype.kind == "float" else _integer(w, function, dtype, args)


def _extreme(w: Writer, function: str, dtype: DType, x: str, y: str) -> str:
    kind = value_type(dtype)
    if dtype is bool_:
        return w.op(f"{'and' if function == 'min' else 'or'} i1 {x}, {y}")
    if dtype.kind == "float":
        first = w.op(f"fcmp {'olt' if function == 'min' else 'ogt'} {kind} {x}, {y}")
        first = w.op(f"or i1 {first}, {w.op(f'fcmp uno {kind} {x}, {x}')}")
    else:
        order = ("s" if dtype.kind == "int" else "u") + ("lt" if function == "min" else "gt")
        first = w.op(f"icmp {order} {kind} {x}, {y}")
    return w.op(f"select i1 {first}, {kind} {x}, {kind} {y}")


def _float(w: Writer, function: str, dtype: DType, args: list[str]) -> str:
    kind, suffix = value_type(dtype), "f32" if dtype is float32 else "f64"
    if function in _FLOAT:
        return w.op(f"{_FLOAT[function]} {kind} {args[0]}, {args[1]}")
    if function == "neg":
        return w.op(f"fneg {kind} {args[0]}")
    if function in _INTRINSIC:
        return w.call(f"llvm.{_INTRINSIC[function]}.{suffix}", kind, args, kind)
    if function in _LIBM:
        return w.call(function + ("f" if dtype is float32 else ""), kind, args, kind)
    raise IRError(f"{function} of {dtype.name} has no LLVM form")


def _integer(w: Writer, function: str, dtype: DType, args: list[str]) -> str:
    kind, x = value_type(dtype), args[0]
    if function in _INTEGER:
        return w.op(f"{_INTEGER[function]} {kind} {x}, {args[1]}")
    if function == "shr":
        return w.op(f"{'ashr' if dtype.kind == 'int' else 'lshr'} {kind} {x}, {args[1]}")
    if function == "not":
        return w.op(f"xor {kind} {x}, {'true' if dtype is bool_ else '-1'}")
    if function == "neg":
        return w.op(f"sub {kind} 0, {x}")
    if function == "abs":
        if dtype.kind == "uint":
            return x
        negative = w.op(f"icmp slt {kind} {x}, 0")
        return w.op(f"select i1 {negative}, {kind} {w.op(f'sub {kind} 0, {x}')}, {kind} {x}")
    if function in ("idiv", "imod"):
        return _divide(w, function, dtype, x, args[1])
    raise IRError(f"{function} of {dtype.name} has no LLVM form")


def _divide(w: Writer, function: str, dtype: DType, x: str, y: str) -> str:
    """Quotient or remainder; the smallest integer over -1, which traps on some processors, wraps around."""
    kind, signed = value_type(dtype), dtype.kind == "int"
    instruction = ("s" if signed else "u") + ("div" if function == "idiv" else "rem")
    literal = not y.startswith("%")
    if not signed or (literal and y != "-1"):
        return w.op(f"{instruction} {kind} {x}, {y}")
    special = w.op(f"icmp eq {kind} {y}, -1")
    safe = w.op(f"select i1 {special}, {kind} 1, {kind} {y}")
    result = w.op(f"{instruction} {kind} {x}, {safe}")
    other = w.op(f"sub {kind} 0, {x}") if function == "idiv" else "0"
    return w.op(f"select i1 {special}, {kind} {other}, {kind} {result}")


# --------------------------------------------------------------------------------------------- index arithmetic

#: Functions that index arithmetic computes in 64 bits without wrapping around.
INDEX_FUNCTIONS: Final = frozenset({"add", "sub", "mul", "neg", "min", "max"})


def index_apply(w: Writer, function: str, args: list[str]) -> str:
    """A function of ``INDEX_FUNCTIONS`` on ``i64``; overflow cannot happen, which LLVM is told."""
    if function in ("min", "max"):
        return _extreme(w, function, int64, *args)
    if function == "neg":
        return w.op(f"sub nsw i64 0, {args[0]}")
    return w.op(f"{function} nsw i64 {args[0]}, {args[1]}")
