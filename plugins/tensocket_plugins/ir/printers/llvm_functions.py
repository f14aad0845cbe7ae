"""Scalar functions of the IR as LLVM instructions.

A bool is ``i1`` as a value and ``i8`` in memory; bfloat16 is ``i16`` bits in both, and like float16 only converted.
Nothing here has fast-math flags, so results are those of every other printer.

While ``Writer.lanes`` is set, every value is a vector of so many elements: ``Writer.kind`` spells types and
``Writer.literal`` constants accordingly, and the functions of this module give vector instructions.
"""

from __future__ import annotations

import ctypes
import math
import operator
import struct
from collections.abc import Callable
from typing import Final

from ...contract.dtypes import DType, bfloat16, bool_, float16, float32, float64, int32, int64
from ..nodes import IRError
from .llvm_writer import Writer

_VALUE: Final = {
    "bool": "i1", "uint8": "i8", "int8": "i8", "uint16": "i16", "int16": "i16", "uint32": "i32", "int32": "i32",
    "uint64": "i64", "int64": "i64", "float16": "half", "bfloat16": "i16", "float32": "float", "float64": "double",
}
_INTEGER: Final = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor", "shl": "shl"}
_FLOAT: Final = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "fmod": "frem"}
_INTRINSIC: Final = {"abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint",
                     "fma": "fma"}
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
        return w.op(f"fpext {w.kind('half')} {x} to {w.kind('float')}")
    whole = w.kind("i32")
    bits = w.op(f"zext {w.kind('i16')} {x} to {whole}")
    high = w.op(f"shl {whole} {bits}, {w.literal('i32', '16')}")
    return w.op(f"bitcast {whole} {high} to {w.kind('float')}")


def narrow(w: Writer, x: str, dtype: DType) -> str:
    """A ``float`` rounded to a 16-bit float, halves to even; a NaN stays one."""
    kind, whole = w.kind("float"), w.kind("i32")
    if dtype is float16:
        return w.op(f"fptrunc {kind} {x} to {w.kind('half')}")

    def integer(instruction: str, left: str, right: str) -> str:
        right = right if right.startswith("%") else w.literal("i32", right)
        return w.op(f"{instruction} {whole} {left}, {right}")

    bits = w.op(f"bitcast {kind} {x} to {whole}")
    high = integer("lshr", bits, "16")
    bias = integer("add", integer("and", high, "1"), "32767")
    rounded = integer("lshr", integer("add", bits, bias), "16")
    nan = w.op(f"fcmp uno {kind} {x}, {x}")
    quiet = integer("or", high, "64")
    result = w.op(f"select {w.kind('i1')} {nan}, {whole} {quiet}, {whole} {rounded}")
    return w.op(f"trunc {whole} {result} to {w.kind('i16')}")


def _to_odd(w: Writer, x: str) -> str:
    """A double as the ``float`` towards zero with its last bit set if inexact: rounding that once more is right."""
    double, single, whole, truth = w.kind("double"), w.kind("float"), w.kind("i32"), w.kind("i1")
    near = w.op(f"fptrunc {double} {x} to {single}")
    back = w.op(f"fpext {single} {near} to {double}")
    sizes = [w.intrinsic("fabs", "double", [v]) for v in (back, x)]
    beyond = w.op(f"fcmp ogt {double} {sizes[0]}, {sizes[1]}")
    bits = w.op(f"bitcast {single} {near} to {whole}")
    below = w.op(f"sub {whole} {bits}, {w.op(f'zext {truth} {beyond} to {whole}')}")
    inexact = w.op(f"fcmp one {double} {back}, {x}")
    sticky = w.op(f"zext {truth} {inexact} to {whole}")
    return w.op(f"bitcast {whole} {w.op(f'or {whole} {below}, {sticky}')} to {single}")


def cast(w: Writer, x: str, source: DType, target: DType) -> str:
    """``x`` converted, with the IR's rules."""
    if source is target:
        return x
    if is_narrow(source):
        return cast(w, widen(w, x, source), float32, target)
    if is_narrow(target):
        wide = _to_odd(w, x) if source is float64 and target is float16 else cast(w, x, source, float32)
        return narrow(w, wide, target)
    before, after = w.kind(value_type(source)), w.kind(value_type(target))
    if target is bool_:
        zero = w.literal(value_type(source), "0.0" if source.kind == "float" else "0")
        return w.op(f"{'fcmp une' if source.kind == 'float' else 'icmp ne'} {before} {x}, {zero}")
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
    before = w.kind(value_type(source))
    if target.kind == "float":
        return w.op(f"{'fpext' if source is float32 else 'fptrunc'} {before} {x} to {w.kind(value_type(target))}")
    # Narrow integers wrap around as in C, through a wider one; so do negative numbers in unsigned ones.
    through = int32 if target.itemsize < 4 else int64 if target.name == "uint32" else target
    instruction, kind = "fptoui" if through.kind == "uint" else "fptosi", w.kind(value_type(through))
    whole = w.op(f"freeze {kind} {w.op(f'{instruction} {before} {x} to {kind}')}")
    return cast(w, whole, through, target)


def bitcast(w: Writer, x: str, source: DType, target: DType) -> str:
    """The same bits."""
    before, after = value_type(source), value_type(target)
    return x if before == after else w.op(f"bitcast {w.kind(before)} {x} to {w.kind(after)}")


# ------------------------------------------------------------------------------------------------- functions


def _computable(function: str, dtype: DType) -> DType:
    if is_narrow(dtype):
        raise IRError(f"{function} of {dtype.name}: convert it to float32 first")
    return dtype


def compare(w: Writer, function: str, dtype: DType, x: str, y: str) -> str:
    """``eq``, ``ne``, ``lt`` or ``le``; comparisons with NaN are false, except ``ne``."""
    kind = w.kind(value_type(_computable(function, dtype)))
    if dtype.kind == "float":
        return w.op(f"fcmp {'une' if function == 'ne' else 'o' + function} {kind} {x}, {y}")
    order = "" if function in ("eq", "ne") else "s" if dtype.kind == "int" else "u"
    return w.op(f"icmp {order}{function} {kind} {x}, {y}")


def choose(w: Writer, condition: str, yes: str, no: str, scalar: str) -> str:
    """``yes`` where ``condition`` holds, else ``no``."""
    kind = w.kind(scalar)
    return w.op(f"select {w.kind('i1')} {condition}, {kind} {yes}, {kind} {no}")


def apply(w: Writer, function: str, dtype: DType, args: list[str]) -> str:
    """A function of rule ``same``."""
    _computable(function, dtype)
    if function in ("min", "max"):
        return _extreme(w, function, dtype, *args)
    return _float(w, function, dtype, args) if dtype.kind == "float" else _integer(w, function, dtype, args)


def _extreme(w: Writer, function: str, dtype: DType, x: str, y: str) -> str:
    scalar = value_type(dtype)
    kind, truth = w.kind(scalar), w.kind("i1")
    if dtype is bool_:
        return w.op(f"{'and' if function == 'min' else 'or'} {truth} {x}, {y}")
    if dtype.kind == "float":
        first = w.op(f"fcmp {'olt' if function == 'min' else 'ogt'} {kind} {x}, {y}")
        first = w.op(f"or {truth} {first}, {w.op(f'fcmp uno {kind} {x}, {x}')}")
    else:
        order = ("s" if dtype.kind == "int" else "u") + ("lt" if function == "min" else "gt")
        first = w.op(f"icmp {order} {kind} {x}, {y}")
    return choose(w, first, x, y, scalar)


def _float(w: Writer, function: str, dtype: DType, args: list[str]) -> str:
    scalar = value_type(dtype)
    kind = w.kind(scalar)
    if function == "fmod" and not w.lanes:
        return _fmod(w, scalar, *args)
    if function in _FLOAT:
        return w.op(f"{_FLOAT[function]} {kind} {args[0]}, {args[1]}")
    if function == "neg":
        return w.op(f"fneg {kind} {args[0]}")
    if function in _INTRINSIC:
        return w.intrinsic(_INTRINSIC[function], scalar, args)
    if function in _LIBM:
        return w.call(function + ("f" if dtype is float32 else ""), scalar, args, scalar)
    raise IRError(f"{function} of {dtype.name} has no LLVM form")


def _fmod(w: Writer, scalar: str, x: str, y: str) -> str:
    """The remainder of a division, exactly: in place where the quotient has few bits, else by the C library.

    A quotient below 2^23 (2^52) is cut off to the right integer or, where it was rounded up, to the next one; the
    product with either is subtracted without error.
    """
    near, far, after = (w.fresh(stem) for stem in ("near", "far", "remainder"))
    size, finite = (w.intrinsic("fabs", scalar, [v]) for v in (w.op(f"fdiv {scalar} {x}, {y}"), y))
    few = w.op(f"fcmp olt {scalar} {size}, {_float_bits(2.0 ** (23 if scalar == 'float' else 52))}")
    few = w.op(f"and i1 {few}, {w.op(f'fcmp one {scalar} {finite}, {_float_bits(math.inf)}')}")
    w.do(f"br i1 {few}, label %{near}, label %{far}")
    w.start(near)
    # All positive: the remainder has the sign of the dividend.
    quotient, start = w.intrinsic("trunc", scalar, [size]), w.intrinsic("fabs", scalar, [x])
    rest = w.intrinsic("fma", scalar, [w.op(f"fneg {scalar} {quotient}"), finite, start])
    under = w.op(f"fcmp olt {scalar} {rest}, {_float_bits(0.0)}")
    rest = choose(w, under, w.op(f"fadd {scalar} {rest}, {finite}"), rest, scalar)
    signed = w.intrinsic("copysign", scalar, [rest, x])
    w.do(f"br label %{after}")
    w.start(far)
    # A call, for LLVM takes a remainder for cheap enough to find it in any case.
    other = w.call("fmodf" if scalar == "float" else "fmod", scalar, [x, y], scalar)
    w.do(f"br label %{after}")
    w.start(after)
    return w.op(f"phi {scalar} [ {signed}, %{near} ], [ {other}, %{far} ]")


def _integer(w: Writer, function: str, dtype: DType, args: list[str]) -> str:
    scalar, x = value_type(dtype), args[0]
    kind = w.kind(scalar)
    if function in _INTEGER:
        return w.op(f"{_INTEGER[function]} {kind} {x}, {args[1]}")
    if function == "shr":
        return w.op(f"{'ashr' if dtype.kind == 'int' else 'lshr'} {kind} {x}, {args[1]}")
    if function == "not":
        return w.op(f"xor {kind} {x}, {w.literal(scalar, 'true' if dtype is bool_ else '-1')}")
    if function == "neg":
        return w.op(f"sub {kind} {w.literal(scalar, '0')}, {x}")
    if function == "abs":
        if dtype.kind == "uint":
            return x
        zero = w.literal(scalar, "0")
        negative = w.op(f"icmp slt {kind} {x}, {zero}")
        return choose(w, negative, w.op(f"sub {kind} {zero}, {x}"), x, scalar)
    if function in ("idiv", "imod"):
        return _divide(w, function, dtype, x, args[1])
    raise IRError(f"{function} of {dtype.name} has no LLVM form")


def _divide(w: Writer, function: str, dtype: DType, x: str, y: str) -> str:
    """Quotient or remainder; the smallest integer over -1, which traps on some processors, wraps around."""
    scalar, signed = value_type(dtype), dtype.kind == "int"
    kind, minus, zero = w.kind(scalar), w.literal(scalar, "-1"), w.literal(scalar, "0")
    instruction = ("s" if signed else "u") + ("div" if function == "idiv" else "rem")
    literal = not y.startswith("%")
    if not signed or (literal and y != minus):
        return w.op(f"{instruction} {kind} {x}, {y}")
    special = w.op(f"icmp eq {kind} {y}, {minus}")
    safe = choose(w, special, w.literal(scalar, "1"), y, scalar)
    result = w.op(f"{instruction} {kind} {x}, {safe}")
    other = w.op(f"sub {kind} {zero}, {x}") if function == "idiv" else zero
    return choose(w, special, other, result, scalar)


# --------------------------------------------------------------------------------------------- index arithmetic

#: Functions that index arithmetic computes in 64 bits without wrapping around.
INDEX_FUNCTIONS: Final = frozenset({"add", "sub", "mul", "neg", "min", "max"})
_INDEX: Final[dict[str, Callable[[int, int], int]]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "min": min, "max": max}


def index_apply(w: Writer, function: str, args: list[str]) -> str:
    """A function of ``INDEX_FUNCTIONS`` on ``i64``; overflow cannot happen, which LLVM is told.

    What is known is computed here: LLVM takes longer, and keeps an array in registers only if its indices are literals
    from the start.
    """
    if function == "neg":
        function, args = "sub", ["0", *args]
    left, right = args
    if not left.startswith("%") and not right.startswith("%"):
        return str(_INDEX[function](int(left), int(right)))
    if function in ("min", "max"):
        return _extreme(w, function, int64, left, right)
    neutral = "1" if function == "mul" else "0"
    if right == neutral:
        return left
    if left == neutral and function != "sub":
        return right
    if function == "mul" and "0" in (left, right):
        return "0"
    return w.op(f"{function} nsw i64 {left}, {right}")


def element_address(w: Writer, pointer: str, position: str, dtype: DType) -> str:
    """Where an array's element is; ``position`` is an ``i64``."""
    return pointer if position == "0" else w.element(pointer, memory_type(dtype), position)
