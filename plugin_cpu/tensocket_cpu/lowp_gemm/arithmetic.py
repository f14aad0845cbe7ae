"""The instructions that multiply low-precision numbers: 16 words of 32 bits by 16 others, added to 16 sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: Features that a processor must have.
_NEEDED: Final = ("avx512f", "avx512dq", "avx512bw", "avx512vl")


@dataclass(frozen=True)
class Arithmetic:
    """The instructions that multiply numbers of a dtype.

    Attributes:
        name: The arithmetic's name.
        item: LLVM's type of an element in memory.
        size: The bytes of an element.
        terms: The number of terms in a word.
        widen: Converts ``$v``, a vector of ``$count`` elements, to ``$w``, parts of words.
        sums: LLVM's type of a sum.
        multiply: Adds the products of words ``$a`` and ``$b`` to sums ``$s``, which gives sums ``$t``.
        narrow: Converts sums ``$s`` to elements ``$r``.
        declared: Declarations of the functions that these call.
    """

    name: str
    item: str
    size: int
    terms: int
    widen: str
    sums: str
    multiply: str
    narrow: str
    declared: str = ""

    @property
    def part(self) -> str:
        """LLVM's type of a term in a word."""
        return f"i{32 // self.terms}"


_DOT: Final = """\
  $t.a = bitcast <16 x i32> $a to <32 x bfloat>
  $t.b = bitcast <16 x i32> $b to <32 x bfloat>
  $t = call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> $s, <32 x bfloat> $t.a, <32 x bfloat> $t.b)"""
_FMA: Final = """\
  $t.a = bitcast <16 x i32> $a to <16 x float>
  $t.b = bitcast <16 x i32> $b to <16 x float>
  $t = call <16 x float> @llvm.fma.v16f32(<16 x float> $t.a, <16 x float> $t.b, <16 x float> $s)"""
_PAIRS: Final = """\
  $t.a = bitcast <16 x i32> $a to <32 x i16>
  $t.b = bitcast <16 x i32> $b to <32 x i16>
  $t.p = call <16 x i32> @llvm.x86.avx512.pmaddw.d.512(<32 x i16> $t.a, <32 x i16> $t.b)
  $t = add <16 x i32> $t.p, $s"""
_SINGLE: Final = """\
  $t.p = mul <16 x i32> $a, $b
  $t = add <16 x i32> $t.p, $s"""
_DECLARED: Final = {
    _DOT: "declare <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float>, <32 x bfloat>, <32 x bfloat>)\n"
          "declare <16 x bfloat> @llvm.x86.avx512bf16.cvtneps2bf16.512(<16 x float>)\n",
    _FMA: "declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)\n",
    _PAIRS: "declare <16 x i32> @llvm.x86.avx512.pmaddw.d.512(<32 x i16>, <32 x i16>)\n",
    _SINGLE: "",
}

_SAME: Final = "  $w = bitcast <$count x $part> $v to <$count x $part>"
_WIDEN_BFLOAT16: Final = """\
  $v.wide = zext <$count x i16> $v to <$count x i32>
  $w = shl <$count x i32> $v.wide, splat (i32 16)"""
_WIDEN_FLOAT16: Final = """\
  $v.half = bitcast <$count x i16> $v to <$count x half>
  $v.wide = fpext <$count x half> $v.half to <$count x float>
  $w = bitcast <$count x float> $v.wide to <$count x i32>"""
# Add half a unit of the last place, less one bit if the last place is even; NaN keeps its sign and becomes quiet.
_NARROW_BFLOAT16: Final = """\
  $r.bits = bitcast <16 x float> $s to <16 x i32>
  $r.high = lshr <16 x i32> $r.bits, splat (i32 16)
  $r.odd = and <16 x i32> $r.high, splat (i32 1)
  $r.up = add <16 x i32> $r.odd, splat (i32 32767)
  $r.total = add <16 x i32> $r.bits, $r.up
  $r.rounded = lshr <16 x i32> $r.total, splat (i32 16)
  $r.nan = fcmp uno <16 x float> $s, $s
  $r.quiet = or <16 x i32> $r.high, splat (i32 64)
  $r.chosen = select <16 x i1> $r.nan, <16 x i32> $r.quiet, <16 x i32> $r.rounded
  $r = trunc <16 x i32> $r.chosen to <16 x i16>"""
# The instruction flushes subnormal numbers to zero, but sums of pairs are never subnormal.
_NARROW_PAIRS: Final = """\
  $r.narrow = call <16 x bfloat> @llvm.x86.avx512bf16.cvtneps2bf16.512(<16 x float> $s)
  $r = bitcast <16 x bfloat> $r.narrow to <16 x i16>"""
_NARROW_FLOAT16: Final = """\
  $r.half = fptrunc <16 x float> $s to <16 x half>
  $r = bitcast <16 x half> $r.half to <16 x i16>"""


def _integers(bits: int) -> Arithmetic:
    """Return the arithmetic of integers modulo a power of two; truncation does not change the lower bits."""
    way = _SINGLE if bits == 32 else _PAIRS
    return Arithmetic(
        f"int{bits}", f"i{bits}", bits // 8, 1 if bits == 32 else 2,
        "  $w = sext <$count x i8> $v to <$count x i16>" if bits == 8 else _SAME, "i32", way,
        f"  $r = {'bitcast' if bits == 32 else 'trunc'} <16 x i32> $s to <16 x i{bits}>", _DECLARED[way])


def _wide(name: str, widen: str, narrow: str) -> Arithmetic:
    return Arithmetic(name, "i16", 2, 1, widen, "float", _FMA, narrow, _DECLARED[_FMA])


#: Products in float32 of widened elements.
WIDENED: Final = {"bfloat16": _wide("bfloat16", _WIDEN_BFLOAT16, _NARROW_BFLOAT16),
                  "float16": _wide("float16", _WIDEN_FLOAT16, _NARROW_FLOAT16)}
#: Pairs of products by the processor's own instruction, which flushes subnormal numbers and sums to zero. So do other
#: libraries that use it for matrices of some size.
PAIRED: Final = Arithmetic("bfloat16_pairs", "i16", 2, 2, _SAME, "float", _DOT, _NARROW_PAIRS, _DECLARED[_DOT])
_INTEGERS: Final = {f"{sign}int{bits}": _integers(bits) for sign in ("", "u") for bits in (8, 16, 32)}


def arithmetic_of(dtype: str, features: Mapping[str, bool]) -> Arithmetic | None:
    """Return the best arithmetic for a dtype; None if this code does not serve the dtype.

    Args:
        dtype: The dtype's name.
        features: LLVM's names of the processor's features.
    """
    if not all(features.get(name) for name in _NEEDED):
        return None
    if dtype == "bfloat16" and features.get("avx512bf16"):
        return PAIRED
    return WIDENED.get(dtype) or _INTEGERS.get(dtype)
