"""Integer quotients, and remainders of integers and floats, in LLVM IR; processors have no vectors of these."""

from __future__ import annotations

import math

from ...contract.dtypes import DType, int64
from .llvm_branches import where_any
from .llvm_values import choose, float_bits, value_type
from .llvm_writer import Writer


def remainder(w: Writer, scalar: str, x: str, y: str) -> str:
    """Return the exact remainder of a division: inline if the quotient has few bits, else by the C library.

    A quotient below 2^23 (2^52) is truncated to the right integer or, if it was rounded up, to the next one; the
    product with either is subtracted without error. Lanes of a vector call the library only if at least one of them has
    to.
    """
    kind, truth = w.kind(scalar), w.kind("i1")
    size, divisor, start = (w.intrinsic("fabs", scalar, [v]) for v in (w.op(f"fdiv {kind} {x}, {y}"), y, x))
    # All are positive: the remainder has the sign of the dividend. For 0 and infinity it is NaN, as required.
    quotient = w.intrinsic("trunc", scalar, [size])
    rest = w.intrinsic("fma", scalar, [w.op(f"fneg {kind} {quotient}"), divisor, start])
    under = w.op(f"fcmp olt {kind} {rest}, {w.literal(scalar, float_bits(0.0))}")
    rest = choose(w, under, w.op(f"fadd {kind} {rest}, {divisor}"), rest, scalar)
    # A smaller dividend is its own remainder, also for an infinite divisor.
    rest = choose(w, w.op(f"fcmp olt {kind} {start}, {divisor}"), start, rest, scalar)
    signed = w.intrinsic("copysign", scalar, [rest, x])
    many = w.op(f"fcmp oge {kind} {size}, {w.literal(scalar, float_bits(2.0 ** (23 if scalar == 'float' else 52)))}")
    finite = w.op(f"fcmp olt {kind} {start}, {w.literal(scalar, float_bits(math.inf))}")
    divisible = w.op(f"fcmp ogt {kind} {divisor}, {w.literal(scalar, float_bits(0.0))}")
    called = w.op(f"and {truth} {many}, {w.op(f'and {truth} {finite}, {divisible}')}")
    return _where_called(w, "fmodf" if scalar == "float" else "fmod", scalar, called, signed, [x, y])


def _where_called(w: Writer, name: str, scalar: str, called: str, known: str, args: list[str]) -> str:
    """Call a function of the C library where ``called`` holds, in all lanes if in any; return ``known`` elsewhere.

    LLVM must not know that the function has no side effects: it would then call it in any case.
    """
    w.declare(name, scalar, ", ".join(f"{scalar} {arg}" for arg in args))
    call = _lane_by_lane if w.lanes else _called
    return where_any(w, called, w.lanes, w.kind(scalar), known, lambda: call(w, name, scalar, args))


def _called(w: Writer, name: str, scalar: str, args: list[str]) -> str:
    """Print a call of a scalar function at this point and return the result."""
    result = w.fresh("%called")
    w.do(f"{result} = call {scalar} @{name}({', '.join(f'{scalar} {arg}' for arg in args)})")
    return result


def _lane_by_lane(w: Writer, name: str, scalar: str, args: list[str]) -> str:
    """Call a scalar function for every lane of vectors, one after the other, and return the vector of results."""
    kind, begin, again, done = w.kind(scalar), w.label, w.fresh("lane"), w.fresh("lanes")
    at, following, last, old, new = (w.fresh(f"%{stem}") for stem in ("at", "following", "last", "old", "new"))
    elements = [w.fresh("%element") for _ in args]
    w.do(f"br label %{again}")
    w.start(again)
    w.do(f"{at} = phi i64 [ 0, %{begin} ], [ {following}, %{again} ]")
    w.do(f"{old} = phi {kind} [ poison, %{begin} ], [ {new}, %{again} ]")
    for element, arg in zip(elements, args, strict=True):
        w.do(f"{element} = extractelement {kind} {arg}, i64 {at}")
    w.do(f"{new} = insertelement {kind} {old}, {scalar} {_called(w, name, scalar, elements)}, i64 {at}")
    w.do(f"{following} = add i64 {at}, 1")
    w.do(f"{last} = icmp eq i64 {following}, {w.lanes}")
    w.do(f"br i1 {last}, label %{done}, label %{again}")
    w.start(done)
    return new


def divide(w: Writer, function: str, dtype: DType, x: str, y: str) -> str:
    """Return quotient or remainder; the smallest integer over -1, which traps on some processors, wraps around."""
    scalar, signed = value_type(dtype), dtype.kind == "int"
    kind, minus, zero = w.kind(scalar), w.literal(scalar, "-1"), w.literal(scalar, "0")
    instruction = ("s" if signed else "u") + ("div" if function == "idiv" else "rem")
    literal = not y.startswith("%")
    if w.lanes and (dtype is int64 or (not literal and dtype.itemsize < 8)):
        return _divide_lanes(w, function, dtype, x, y)
    if w.lanes and not literal:  # masked lanes hold zeros
        y = choose(w, w.op(f"icmp eq {kind} {y}, {zero}"), w.literal(scalar, "1"), y, scalar)
    if not signed or (literal and y != minus):
        return w.op(f"{instruction} {kind} {x}, {y}")
    special = w.op(f"icmp eq {kind} {y}, {minus}")
    safe = choose(w, special, w.literal(scalar, "1"), y, scalar)
    result = w.op(f"{instruction} {kind} {x}, {safe}")
    other = w.op(f"sub {kind} {zero}, {x}") if function == "idiv" else zero
    return choose(w, special, other, result, scalar)


def _divide_lanes(w: Writer, function: str, dtype: DType, x: str, y: str) -> str:
    """Return quotients or remainders of vectors, which processors only divide as floats.

    A double holds integers of up to 32 bits, and truncating its quotient is correct: a quotient that is not an integer
    differs from one by more than the rounding error. For 64 bits, a first quotient is off by a few thousand, the
    quotient of its remainder is off by one, and the last remainder shows by how much. Sums wrap around.
    """
    scalar, signed = value_type(dtype), dtype.kind == "int"
    kind, wide = w.kind(scalar), w.kind("double")
    divisor = w.op(f"{'sitofp' if signed else 'uitofp'} {kind} {y} to {wide}")

    def quotient(dividend: str) -> str:
        number = w.op(f"{'sitofp' if signed else 'uitofp'} {kind} {dividend} to {wide}")
        ratio = w.op(f"fdiv {wide} {number}, {divisor}")
        if dtype is int64:  # a quotient that rounds up to 2^63 has no integer
            largest = w.literal("double", float_bits(2.0 ** 63 - 2.0 ** 10))
            over = w.op(f"fcmp ogt {wide} {ratio}, {largest}")
            ratio = choose(w, over, largest, ratio, "double")
        through = "i32" if dtype.itemsize < 4 else "i64"
        whole = w.op(f"freeze {w.kind(through)} {w.op(f'fptosi {wide} {ratio} to {w.kind(through)}')}")
        return whole if through == scalar else w.op(f"trunc {w.kind(through)} {whole} to {kind}")

    def left(dividend: str, ratio: str) -> str:
        return w.op(f"sub {kind} {dividend}, {w.op(f'mul {kind} {ratio}, {y}')}")

    first = quotient(x)
    rest = left(x, first)
    if dtype is not int64:
        return first if function == "idiv" else rest
    second = quotient(rest)
    return _settled_division(w, function, [x, y], left(rest, second), w.op(f"add {kind} {first}, {second}"))


def _settled_division(w: Writer, function: str, args: list[str], rest: str, quotient: str) -> str:
    """Return the quotient or remainder of int64 vectors, from a quotient that may be off by one.

    A remainder with the opposite sign to the dividend's means that the quotient is too large in magnitude, one that
    reaches the divisor means that it is too small.
    """
    kind, truth = w.kind("i64"), w.kind("i1")
    zero, one, minus = (w.literal("i64", text) for text in ("0", "1", "-1"))

    def negative(value: str) -> str:
        return w.op(f"icmp slt {kind} {value}, {zero}")

    def size(value: str) -> str:
        return choose(w, negative(value), w.op(f"sub {kind} {zero}, {value}"), value, "i64")

    x, y = args
    other = w.op(f"and {truth} {w.op(f'icmp ne {kind} {rest}, {zero}')}, "
                 f"{w.op(f'xor {truth} {negative(rest)}, {negative(x)}')}")
    reached = w.op(f"icmp uge {kind} {size(rest)}, {size(y)}")
    # If the quotient moves by one, away from 0 or towards it, the remainder moves by the divisor.
    below = w.op(f"xor {truth} {negative(x)}, {negative(y)}")
    away = choose(w, below, minus, one, "i64")
    step = choose(w, other, w.op(f"sub {kind} {zero}, {away}"), choose(w, reached, away, zero, "i64"), "i64")
    if function == "idiv":
        return w.op(f"add {kind} {quotient}, {step}")
    return w.op(f"sub {kind} {rest}, {w.op(f'mul {kind} {step}, {y}')}")
