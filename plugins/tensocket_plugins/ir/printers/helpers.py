"""Helper functions of the C-family printer, for meanings of the IR that C's operators lack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...contract.dtypes import BY_SHORT, DType
from ..nodes import IRError
from .dialect import Dialect


def wide_unsigned(dtype: DType) -> str:
    """Return the name of the unsigned type for integer arithmetic on ``dtype``: it wraps around and is not promoted."""
    return "uint64" if dtype.itemsize == 8 else "uint32"


def _minmax(dialect: Dialect, name: str, dtype: DType) -> str:
    t, sign = dialect.types[dtype.name], "<" if "_min_" in name else ">"
    # A NaN in a is caught by a != a; with a NaN in b every comparison is false and b is the result.
    nan = " || a != a" if dtype.kind == "float" else ""
    return f"{dialect.function}{t} {name}({t} a, {t} b) {{ return (a {sign} b{nan}) ? a : b; }}"


def _abs(dialect: Dialect, name: str, dtype: DType) -> str:
    t, u = dialect.types[dtype.name], dialect.types[wide_unsigned(dtype)]
    return f"{dialect.function}{t} {name}({t} a) {{ return a < 0 ? ({t})(0 - ({u})a) : a; }}"


def _division(dialect: Dialect, name: str, dtype: DType) -> str:
    # Dividing the lowest integer by -1 traps on some machines.
    t, u = dialect.types[dtype.name], dialect.types[wide_unsigned(dtype)]
    special, sign = (f"({t})(0 - ({u})a)", "/") if "_idiv_" in name else ("0", "%")
    return f"{dialect.function}{t} {name}({t} a, {t} b) {{ return b == -1 ? {special} : ({t})(a {sign} b); }}"


def _bfloat16_to_float(dialect: Dialect, name: str, dtype: DType) -> str:
    t, u, from_bits = dialect.types["bfloat16"], dialect.types["uint32"], dialect.from_bits["float32"]
    return f"{dialect.function}float {name}({t} x) {{ return {from_bits}(({u})x << 16); }}"


def _float_to_bfloat16(dialect: Dialect, name: str, dtype: DType) -> str:
    t, u = dialect.types["bfloat16"], dialect.types["uint32"]
    return (f"{dialect.function}{t} {name}(float x) {{\n"
            f"    {u} u = {dialect.bits_of['float32']}(x);\n"
            f"    if ((u & 0x7fffffffu) > 0x7f800000u) return ({t})(u >> 16 | 0x40u);\n"
            f"    return ({t})((u + 0x7fffu + (u >> 16 & 1u)) >> 16);\n}}")


_MAKERS: Final[dict[str, Callable[[Dialect, str, DType], str]]] = {
    "min": _minmax, "max": _minmax, "abs": _abs, "idiv": _division, "imod": _division,
}


def _atomic(dialect: Dialect, name: str, function: str, dtype: DType, space: str) -> str:
    """Return a compare-and-swap loop; ``name`` is ``ts_atomic_<function>_<short>_<space>``."""
    bits = 8 * dtype.itemsize
    exchange = dialect.compare_exchange.get(bits)
    if exchange is None:
        raise IRError(f"{dialect.name} has no atomic {function} of {dtype.name}")
    t, u = dialect.types[dtype.name], dialect.types[f"uint{bits}"]
    pointer = dialect.local_pointer if space == "local" else dialect.global_space
    if dtype.kind == "float":
        value = f"{dialect.from_bits[dtype.name]}(seen)"
        back = f"({u}){dialect.bits_of[dtype.name]}"
    else:
        value, back = f"({t})seen", f"({u})"
    merged = f"{value} + v" if function == "add" else f"ts_{function}_{dtype.short}({value}, v)"
    return (f"{dialect.function}void {name}({pointer}{t} *p, {t} v) {{\n"
            f"    {pointer}{u} *q = ({pointer}{u} *)p;\n"
            f"    {u} old = *q, seen;\n"
            f"    do {{\n        seen = old;\n        old = {exchange}(q, seen, {back}({merged}));\n"
            f"    }} while (old != seen);\n}}")


class HelperSet:
    """The helpers that a source needs, in the order in which they must be defined."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._texts: dict[str, str] = {}

    @property
    def texts(self) -> list[str]:
        """Return the definitions; each only uses earlier ones."""
        return list(self._texts.values())

    def conversion(self, name: str) -> str:
        """Require a conversion of 16-bit floats, or another helper of the dialect, and return its name."""
        if name not in self._texts:
            if name == "ts_double_to_half":
                self.conversion("ts_float_to_half")
            if name in self._dialect.helpers:
                text = self._dialect.helpers[name].format(f=self._dialect.function)
            else:
                make = _bfloat16_to_float if name == "ts_bfloat16_to_float" else _float_to_bfloat16
                text = make(self._dialect, name, BY_SHORT["bf16"])
            self._texts[name] = text
        return name

    def function(self, function: str, dtype: DType) -> str:
        """Require ``min``, ``max``, ``abs``, ``idiv`` or ``imod`` of a dtype and return the helper's name."""
        name = f"ts_{function}_{dtype.short}"
        if name not in self._texts:
            self._texts[name] = _MAKERS[function](self._dialect, name, dtype)
        return name

    def atomic(self, function: str, dtype: DType, space: str) -> str:
        """Require an atomic that is a compare-and-swap loop and return the helper's name.

        Raises:
            IRError: The dialect has no compare-and-swap of this size.
        """
        name = f"ts_atomic_{function}_{dtype.short}_{space}"
        if name not in self._texts:
            if function != "add":
                self.function(function, dtype)
            self._texts[name] = _atomic(self._dialect, name, function, dtype, space)
        return name
