"""Scalar functions of the IR as LLVM instructions.

Nothing here has fast-math flags, so results are those of every other printer.

While ``Writer.lanes`` is set, every value is a vector of that many elements: ``Writer.kind`` spells types and
``Writer.literal`` spells constants accordingly, and the functions of this module print vector instructions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Final

from ...contract.dtypes import DType, bool_, float32, int64
from ..nodes import IRError
from .llvm_division import divide, remainder
from .llvm_values import choose, is_narrow, memory_type, value_type
from .llvm_writer import Writer

_INTEGER: Final = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor", "shl": "shl"}
_FLOAT: Final = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INTRINSIC: Final = {"abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint",
                     "fma": "fma"}
_LIBM: Final = frozenset({"exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "pow"})


# ------------------------------------------------------------------------------------------------- functions


def _computable(function: str, dtype: DType) -> DType:
    if is_narrow(dtype):
        raise IRError(f"{function} of {dtype.name}: convert it to float32 first")
    return dtype


def compare(w: Writer, function: str, dtype: DType, x: str, y: str) -> str:
    """Print ``eq``, ``ne``, ``lt`` or ``le``; comparisons with NaN are false, except ``ne``."""
    kind = w.kind(value_type(_computable(function, dtype)))
    if dtype.kind == "float":
        return w.op(f"fcmp {'une' if function == 'ne' else 'o' + function} {kind} {x}, {y}")
    order = "" if function in ("eq", "ne") else "s" if dtype.kind == "int" else "u"
    return w.op(f"icmp {order}{function} {kind} {x}, {y}")


def apply(w: Writer, function: str, dtype: DType, args: list[str]) -> str:
    """Print a function of rule ``same`` and return the result."""
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
    if function == "fmod":
        return remainder(w, scalar, *args)
    if function in _FLOAT:
        return w.op(f"{_FLOAT[function]} {kind} {args[0]}, {args[1]}")
    if function == "neg":
        return w.op(f"fneg {kind} {args[0]}")
    if function in _INTRINSIC:
        return w.intrinsic(_INTRINSIC[function], scalar, args)
    if function in _LIBM:
        return w.call(function + ("f" if dtype is float32 else ""), scalar, args, scalar)
    raise IRError(f"{function} of {dtype.name} has no LLVM form")


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
        return divide(w, function, dtype, x, args[1])
    raise IRError(f"{function} of {dtype.name} has no LLVM form")


# --------------------------------------------------------------------------------------------- index arithmetic

#: Functions that index arithmetic computes in 64 bits without wrapping around.
INDEX_FUNCTIONS: Final = frozenset({"add", "sub", "mul", "neg", "min", "max"})
_INDEX: Final[dict[str, Callable[[int, int], int]]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "min": min, "max": max}


def index_apply(w: Writer, function: str, args: list[str]) -> str:
    """Print a function of ``INDEX_FUNCTIONS`` on ``i64``; overflow cannot happen, and LLVM is told so.

    Constants are folded here: LLVM takes longer, and keeps an array in registers only if its indices are literals
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
    """Return the address of an array's element; ``position`` is an ``i64``."""
    return pointer if position == "0" else w.element(pointer, memory_type(dtype), position)
