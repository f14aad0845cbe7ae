"""Types, constants, conversions and selections of values in LLVM IR.

A bool is ``i1`` as a value and ``i8`` in memory; bfloat16 is ``i16`` bits in both and, like float16, only converted.
Values may be vectors, as ``llvm_functions`` describes.
"""

from __future__ import annotations

import ctypes
import math
import struct
from typing import Final

from ...contract.dtypes import DType, bfloat16, bool_, float16, float32, float64, int32, int64
from ..nodes import IRError
from .llvm_writer import Writer

_VALUE: Final = {
    "bool": "i1", "uint8": "i8", "int8": "i8", "uint16": "i16", "int16": "i16", "uint32": "i32", "int32": "i32",
    "uint64": "i64", "int64": "i64", "float16": "half", "bfloat16": "i16", "float32": "float", "float64": "double",
}


def value_type(dtype: DType) -> str:
    """Return LLVM's type of a value."""
    try:
        return _VALUE[dtype.name]
    except KeyError:
        raise IRError(f"LLVM kernels do not compute with {dtype.name}") from None


def memory_type(dtype: DType) -> str:
    """Return LLVM's type of an element in memory."""
    return "i8" if dtype is bool_ else value_type(dtype)


def is_narrow(dtype: DType) -> bool:
    """Whether values are only stored and converted."""
    return dtype is float16 or dtype is bfloat16


# -------------------------------------------------------------------------------------------------- constants


def float_bits(value: float) -> str:
    """Return a float or double literal: the bits of the value as a double."""
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
    """Return a literal of ``dtype``, rounded to it or wrapped around."""
    if dtype is bool_:
        return "true" if value else "false"
    if dtype is float64:
        return float_bits(float(value))
    if dtype is float32:
        return float_bits(ctypes.c_float(value).value)
    if dtype is float16:
        return f"0xH{_half_bits(float(value)):04X}"
    if dtype is bfloat16:
        return str(_bfloat16_bits(float(value)))
    bits = dtype.itemsize * 8
    return str((int(value) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1))


# ---------------------------------------------------------------------------------------------------- casts


def widen(w: Writer, x: str, dtype: DType) -> str:
    """Return a 16-bit float as ``float``; exact."""
    if dtype is float16:
        return w.op(f"fpext {w.kind('half')} {x} to {w.kind('float')}")
    whole = w.kind("i32")
    bits = w.op(f"zext {w.kind('i16')} {x} to {whole}")
    high = w.op(f"shl {whole} {bits}, {w.literal('i32', '16')}")
    return w.op(f"bitcast {whole} {high} to {w.kind('float')}")


def narrow(w: Writer, x: str, dtype: DType) -> str:
    """Return a ``float`` rounded to a 16-bit float, halves to even; a NaN stays NaN."""
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
    """Round a double towards zero to ``float``, with the last bit set if inexact: rounding that again is correct."""
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
    """Convert ``x`` by the IR's rules."""
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
    """Return a float or double as another float or an integer; out of range gives some number, hence ``freeze``."""
    before = w.kind(value_type(source))
    if target.kind == "float":
        return w.op(f"{'fpext' if source is float32 else 'fptrunc'} {before} {x} to {w.kind(value_type(target))}")
    # Narrow integers wrap around as in C, through a wider one; so do negative numbers converted to unsigned.
    through = int32 if target.itemsize < 4 else int64 if target.name == "uint32" else target
    instruction, kind = "fptoui" if through.kind == "uint" else "fptosi", w.kind(value_type(through))
    whole = w.op(f"freeze {kind} {w.op(f'{instruction} {before} {x} to {kind}')}")
    return cast(w, whole, through, target)


def bitcast(w: Writer, x: str, source: DType, target: DType) -> str:
    """Return the same bits as another dtype of equal size."""
    before, after = value_type(source), value_type(target)
    return x if before == after else w.op(f"bitcast {w.kind(before)} {x} to {w.kind(after)}")


def choose(w: Writer, condition: str, yes: str, no: str, scalar: str) -> str:
    """Return ``yes`` where ``condition`` holds, else ``no``."""
    kind = w.kind(scalar)
    return w.op(f"select {w.kind('i1')} {condition}, {kind} {yes}, {kind} {no}")
