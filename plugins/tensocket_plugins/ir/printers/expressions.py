"""Expressions in a dialect of C: every function of ``ir/functions.py`` with its meaning in the IR."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from ...contract.dtypes import BY_NAME, DType, float32
from ..functions import FUNCTIONS
from ..nodes import Call, Const, Expr, IRError, Load, Var
from .dialect import Dialect
from .helpers import HelperSet, wide_unsigned

_OPERATORS: Final = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^",
                     "idiv": "/", "imod": "%"}
_COMPARISONS: Final = {"eq": "==", "ne": "!=", "lt": "<", "le": "<="}
_LIBRARY: Final = frozenset({"sqrt", "floor", "ceil", "trunc", "rint", "fma", "fmod", "exp", "expm1", "log", "log1p",
                             "sin", "cos", "tanh", "erf", "pow"})
#: Nesting depth of expressions beyond which they are split, because compilers limit the nesting of brackets.
DEPTH: Final = 12



def is_half(dtype: DType) -> bool:
    """Whether values of ``dtype`` are printed as 16-bit patterns."""
    return dtype.kind == "float" and dtype.itemsize == 2


class ExpressionPrinter:
    """Printer of expressions, which collects the helpers and language features that they need.

    Args:
        dialect: The language.
        helpers: Collects the needed helper functions.
        name: Converts the name of a variable or array to an identifier.
    """

    def __init__(self, dialect: Dialect, helpers: HelperSet, name: Callable[[str], str]) -> None:
        self.dialect = dialect
        self.helpers = helpers
        self.name = name
        self.float64 = False
        # Integer variables made of loop variables and scalars only. Arithmetic on these stays within the range of
        # addresses, so it is printed without wrapping, and compilers may assume that it does not overflow.
        self.plain: set[str] = set()

    def type(self, dtype: DType) -> str:
        """Return the type of a value.

        Raises:
            IRError: The dialect has no such type.
        """
        if dtype.name == "float64":
            self.float64 = True
        try:
            return self.dialect.types[dtype.name]
        except KeyError:
            raise IRError(f"{self.dialect.name} has no type for {dtype.name}") from None

    def storage(self, dtype: DType) -> str:
        """Return the type of an element in memory."""
        return self.dialect.storage.get(dtype.name) or self.type(dtype)

    def vector(self, dtype: DType, count: int) -> str:
        """Return the type of ``count`` elements in memory; the dialect has vectors."""
        if "ts_vector" in self.dialect.helpers:
            self.helpers.conversion("ts_vector")
        return self.dialect.vector.format(t=self.storage(dtype), n=count)

    def is_plain(self, e: Expr, known: dict[int, bool]) -> bool:
        """Whether an integer expression has only loop variables, scalars and constants; ``known`` caches its parts."""
        if isinstance(e, Var):
            return e.name in self.plain
        if isinstance(e, Call):
            return e.dtype.kind == "int" and e.dtype.itemsize >= 4 and all(known[id(a)] for a in e.args)
        return isinstance(e, Const)

    # ----------------------------------------------------------------------------------------------- constants

    def constant(self, value: bool | int | float, dtype: DType) -> str:
        """Return a literal of ``dtype``."""
        if dtype.kind == "bool":
            return "1" if value else "0"
        if dtype.kind != "float":
            return self._integer(int(value), dtype)
        if is_half(dtype):
            return self._half_bits(float(value), dtype)
        return self._float(float(value), dtype)

    def _integer(self, value: int, dtype: DType) -> str:
        suffix = self.dialect.suffix.get(dtype.name, "")
        if dtype.kind == "int" and dtype.itemsize >= 4 and value == -1 << 8 * dtype.itemsize - 1:
            return f"(-{-value - 1}{suffix} - 1)"  # the digits of the lowest integer alone would be too large
        return f"({value}{suffix})" if value < 0 else f"{value}{suffix}"

    def _half_bits(self, value: float, dtype: DType) -> str:
        with np.errstate(all="ignore"):
            if dtype.name == "float16":
                bits = int(np.float16(value).view(np.uint16))
            else:
                word = int(np.float32(value).view(np.uint32))
                bits = word >> 16 | 0x40 if math.isnan(value) else word + 0x7FFF + (word >> 16 & 1) >> 16
        return f"(({self.type(dtype)})0x{bits:04x}u)"

    def _float(self, value: float, dtype: DType) -> str:
        self.type(dtype)
        if dtype is float32:
            with np.errstate(all="ignore"):
                value = float(np.float32(value))
        if math.isnan(value):
            return self.dialect.nan[dtype.name]
        if math.isinf(value):
            infinity = self.dialect.infinity[dtype.name]
            return infinity if value > 0 else f"(-{infinity})"
        digits, _, exponent = value.hex().partition("p")
        text = f"{value!r}" if value.is_integer() and abs(value) < 1e6 else f"{digits.rstrip('0')}p{exponent}"
        text += self.dialect.suffix.get(dtype.name, "")
        return f"({text})" if text[0] == "-" else text

    # --------------------------------------------------------------------------------------------------- nodes

    def node(self, e: Expr, args: list[str], plain: bool) -> str:
        """Return the text of one node, given the texts of its parts.

        Args:
            e: The node.
            args: Texts of its parts, each an operand that needs no further brackets.
            plain: Whether it is integer arithmetic that cannot overflow.
        """
        if isinstance(e, Var):
            return self.name(e.name)
        if isinstance(e, Const):
            return self.constant(e.value, e.dtype)
        if isinstance(e, Load):
            element = f"{self.name(e.buffer)}[{args[0]}]"
            return f"({element} != 0)" if e.dtype.kind == "bool" else element
        if isinstance(e, Call):
            return self._call(e, args, plain)
        raise IRError(f"{type(e).__name__} is not an expression")

    def _call(self, e: Call, args: list[str], plain: bool) -> str:
        function, of = e.function, e.args[-1].dtype
        if FUNCTIONS[function].processors_only:
            raise IRError(f"{self.dialect.name} has no {function}: decompose the program for the device's target, or "
                          "replace each call by math.written_out")
        if function == "select":
            return f"({args[0]} ? {args[1]} : {args[2]})"
        if function == "cast":
            return self._cast(args[0], of, e.dtype)
        if function == "bitcast":
            return self._bitcast(args[0], of, e.dtype)
        if is_half(of):
            raise IRError(f"{function} of {of.name}: 16-bit floats are converted to float32 first")
        if function in _COMPARISONS:
            return f"({args[0]} {_COMPARISONS[function]} {args[1]})"
        if of.kind == "float":
            return self._float_call(function, args, of)
        return self._bool_call(function, args) if of.kind == "bool" else self._int_call(function, args, of, plain)

    def _float_call(self, function: str, args: list[str], dtype: DType) -> str:
        if function in ("min", "max"):
            self.type(dtype)
            return f"{self.helpers.function(function, dtype)}({', '.join(args)})"
        if function == "neg":
            return f"(-{args[0]})"
        if function in _OPERATORS:
            return f"({args[0]} {_OPERATORS[function]} {args[1]})"
        if function == "abs":
            function = "fabs"
        elif function not in _LIBRARY:
            raise IRError(f"no way to print {function} of {dtype.name}")
        spelled = self.dialect.math.get(f"{function}.{dtype.name}")
        return f"{spelled or function + self.dialect.math_suffix[dtype.name]}({', '.join(args)})"

    def _bool_call(self, function: str, args: list[str]) -> str:
        operator = {"and": "&", "or": "|", "xor": "^", "min": "&", "max": "|"}.get(function)
        if operator is None and function != "not":
            raise IRError(f"no way to print {function} of bool")
        return f"(!{args[0]})" if operator is None else f"({args[0]} {operator} {args[1]})"

    def _int_call(self, function: str, args: list[str], dtype: DType, plain: bool) -> str:
        t, wide = self.type(dtype), self.dialect.types[wide_unsigned(dtype)]
        signed, narrow = dtype.kind == "int", dtype.itemsize < 4
        if function in ("min", "max") or (signed and function == "abs"):
            return f"{self.helpers.function(function, dtype)}({', '.join(args)})"
        if function in ("idiv", "imod") and signed and not narrow and not plain:
            return f"{self.helpers.function(function, dtype)}({', '.join(args)})"
        if function == "abs":
            return args[0]
        if function in ("add", "sub", "mul", "neg", "shl"):
            return self._wrapping(function, args, t, "" if plain or not (signed or narrow) else f"({wide})")
        if function == "not":
            text = f"~{args[0]}"
        elif function == "shr" or function in _OPERATORS:
            text = f"{args[0]} {_OPERATORS.get(function, '>>')} {args[1]}"
        else:
            raise IRError(f"no way to print {function} of {dtype.name}")
        return f"(({t})({text}))" if narrow else f"({text})"

    def _wrapping(self, function: str, args: list[str], t: str, wide: str) -> str:
        """Return arithmetic that wraps around: C leaves signed overflow undefined, so ``wide`` makes them unsigned."""
        if function == "neg":
            text = f"0 - {wide}{args[0]}" if wide else f"-{args[0]}"
        elif function == "shl":
            text = f"{wide}{args[0]} << {args[1]}"
        else:
            text = f"{wide}{args[0]} {_OPERATORS[function]} {wide}{args[1]}"
        return f"(({t})({text}))" if wide else f"({text})"

    # --------------------------------------------------------------------------------------------- conversions

    def _cast(self, text: str, of: DType, to: DType) -> str:
        if of is to:
            return text
        if is_half(of):
            name = "ts_half_to_float" if of.name == "float16" else "ts_bfloat16_to_float"
            return self._cast(f"{self.helpers.conversion(name)}({text})", float32, to)
        t = self.type(to)
        if to.kind == "bool":
            return f"({text} != 0)"
        if is_half(to):
            if to.name == "bfloat16":
                return f"{self.helpers.conversion('ts_float_to_bfloat16')}({self._cast(text, of, float32)})"
            if of.name == "float64":
                return f"{self.helpers.conversion('ts_double_to_half')}({text})"
            return f"{self.helpers.conversion('ts_float_to_half')}({self._cast(text, of, float32)})"
        if of.kind == "float" and to.kind in ("int", "uint") and (to.itemsize < 4 or to.kind == "uint"):
            # Through the next wider signed type, so that negative numbers wrap around.
            between = "int64" if to.itemsize >= 4 else "int32"
            if to.itemsize < 8:
                return f"(({t})({self.dialect.types[between]}){text})"
        return f"(({t}){text})"

    def _bitcast(self, text: str, of: DType, to: DType) -> str:
        if of is to:
            return text
        t = self.type(to)
        if of.name in self.dialect.bits_of:
            text = f"{self.dialect.bits_of[of.name]}({text})"
        if to.name in self.dialect.from_bits:
            unsigned = self.dialect.types[f"uint{8 * to.itemsize}"]
            return f"{self.dialect.from_bits[to.name]}(({unsigned}){text})"
        return f"(({t}){text})"


def parts(e: Expr) -> tuple[Expr, ...]:
    """Return the direct parts of an expression."""
    if isinstance(e, Call):
        return e.args
    return (e.index,) if isinstance(e, Load) else ()


def postorder(roots: tuple[Expr, ...]) -> tuple[list[Expr], dict[int, int]]:
    """Return the distinct nodes below ``roots``, parts first, and the number of uses of each.

    It does not recurse, because chains of calls may be long.
    """
    order: list[Expr] = []
    uses: dict[int, int] = {}
    stack: list[tuple[Expr, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        e, done = stack.pop()
        if done:
            order.append(e)
            continue
        uses[id(e)] = uses.get(id(e), 0) + 1
        if uses[id(e)] == 1:
            stack.append((e, True))
            stack.extend((part, False) for part in reversed(parts(e)))
    return order, uses


#: Element types that exist in C and need no float64.
INDEX_DTYPES: Final = (BY_NAME["int32"], BY_NAME["int64"])
