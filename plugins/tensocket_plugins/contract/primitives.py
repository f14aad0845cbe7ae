"""The primitives: kernels that a backend without a code generator registers; the runtime decomposes the rest.

Each is called as ``kernel(outs, ins, scalars, stream)`` (see ``kernels.py``) with one output. The runtime guarantees:

* pointwise inputs have one dtype (``where``: bool, then two of one dtype) and the output's shape; strides are arbitrary
  and 0 along broadcast dimensions;
* outputs are contiguous, except that of ``copy``; an output may be the same array as the first input, but never
  overlaps it in part;
* indices are int64, non-negative and within bounds, divisors of ``idiv`` and ``imod`` are not zero;
* ``dims`` are non-negative, sorted and unique; the output has no reduced dimensions; ``amax``, ``amin``, ``argmax`` and
  ``argmin`` never reduce zero elements;
* a kernel is never called for an output without elements.

Pointwise results of float16 and bfloat16 are computed in float32 and rounded once. No primitive may trap on values: a
float-to-integer conversion out of range is unspecified, integer arithmetic wraps.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from .dtypes import dtype_from_name

if TYPE_CHECKING:
    from .kernels import KernelTable

#: ``same``: the dtype of the last input. ``bool``, ``int64``, ``uint32``: that dtype. ``any``: any dtype.
OutputRule = Literal["same", "bool", "int64", "uint32", "any"]
Family = Literal["pointwise", "reduction", "contraction", "movement", "creation"]


@dataclass(frozen=True, slots=True)
class Primitive:
    """One primitive.

    Attributes:
        name: The name for registration.
        family: Name of the rules in this module's docstring that its arguments follow.
        inputs: Number of input arrays.
        scalars: Names of its other arguments, in order.
        domain: Kinds of dtype that it must support: ``b`` bool, ``i`` integers, ``f`` floats.
        output: Rule for the output's dtype.
        meaning: The value that it computes.
        function: The scalar function of the kernel IR that it applies to arrays; None for other primitives.
    """

    name: str
    family: Family
    inputs: int
    scalars: tuple[str, ...]
    domain: str
    output: OutputRule
    meaning: str
    function: str | None = None


def _unary() -> list[Primitive]:
    rows = (
        ("neg", "if", "-x; integers wrap"),
        ("abs", "if", "|x|; the smallest integer stays itself"),
        ("sqrt", "f", "square root, correctly rounded; NaN below zero"),
        ("floor", "f", "largest integer not above x"),
        ("ceil", "f", "smallest integer not below x"),
        ("trunc", "f", "x without its fraction"),
        ("rint", "f", "nearest integer, halves to the even one"),
        ("exp", "f", "e to the power of x"),
        ("expm1", "f", "exp(x) - 1, accurate near 0"),
        ("log", "f", "natural logarithm; -inf at 0, NaN below"),
        ("log1p", "f", "log(1 + x), accurate near 0"),
        ("sin", "f", "sine of x in radians"),
        ("cos", "f", "cosine of x in radians"),
        ("tanh", "f", "hyperbolic tangent"),
        ("erf", "f", "error function"),
    )
    result = [Primitive(name, "pointwise", 1, (), domain, "same", text, name) for name, domain, text in rows]
    flip = "every bit flipped; for bool: not x"
    result.append(Primitive("bitwise_not", "pointwise", 1, (), "bi", "same", flip, "not"))
    return result


def _binary() -> list[Primitive]:
    rows = (
        ("add", "if", "same", "x + y", "add"),
        ("sub", "if", "same", "x - y", "sub"),
        ("mul", "if", "same", "x * y", "mul"),
        ("div", "f", "same", "x / y, correctly rounded, with IEEE infinities and NaN", "div"),
        ("idiv", "i", "same", "integer quotient, truncated towards zero", "idiv"),
        ("imod", "i", "same", "x - y * idiv(x, y): the remainder with the sign of x", "imod"),
        ("fmod", "f", "same", "exact remainder of the division truncated towards zero, with the sign of x", "fmod"),
        ("pow", "f", "same", "x to the power of y, with the special cases of C's pow", "pow"),
        ("maximum", "bif", "same", "the larger one; NaN if either is NaN", "max"),
        ("minimum", "bif", "same", "the smaller one; NaN if either is NaN", "min"),
        ("bitwise_and", "bi", "same", "and of every bit", "and"),
        ("bitwise_or", "bi", "same", "or of every bit", "or"),
        ("bitwise_xor", "bi", "same", "exclusive or of every bit", "xor"),
        ("shl", "i", "same", "bits of x moved y places up; 0 <= y < number of bits", "shl"),
        ("shr", "i", "same", "bits of x moved y places down; signed integers keep their sign", "shr"),
        ("eq", "bif", "bool", "x == y", "eq"),
        ("ne", "bif", "bool", "x != y", "ne"),
        ("lt", "bif", "bool", "x < y", "lt"),
        ("le", "bif", "bool", "x <= y", "le"),
    )
    result: list[Primitive] = []
    for name, domain, output, text, function in rows:
        rule: OutputRule = "bool" if output == "bool" else "same"
        result.append(Primitive(name, "pointwise", 2, (), domain, rule, text, function))
    result.append(Primitive("fma", "pointwise", 3, (), "f", "same", "x * y + z, rounded once", "fma"))
    result.append(Primitive("where", "pointwise", 3, (), "bif", "same", "y where x (bool) is true, else z", "select"))
    return result


def _reductions() -> list[Primitive]:
    sums = "; partial results in the profile's accumulation dtype, pairwise or wider"
    first = "; the first of equals, NaN before everything; counted row-major over the reduced dimensions"
    rows: tuple[tuple[str, str, OutputRule, str], ...] = (
        ("sum", "if", "same", "sum of the elements, 0 of none" + sums),
        ("prod", "if", "same", "product of the elements, 1 of none" + sums),
        ("amax", "bif", "same", "largest element; NaN if any is NaN"),
        ("amin", "bif", "same", "smallest element; NaN if any is NaN"),
        ("argmax", "bif", "int64", "position of the largest element" + first),
        ("argmin", "bif", "int64", "position of the smallest element" + first),
    )
    return [Primitive(name, "reduction", 1, ("dims",), domain, output, text) for name, domain, output, text in rows]


def _others() -> list[Primitive]:
    matmul = "[batch..., m, k] times [batch..., k, n] with equal batches, accumulated like sum; zeros for k = 0"
    gather = "out[..., i, ...] = x[..., index[..., i, ...], ...] along dim; index has the output's shape"
    scatter = "out = x, then out[..., index[..., i, ...], ...] = src[..., i, ...] along dim; of duplicates any one wins"
    scatter_add = "out = x, then out[..., index[..., i, ...], ...] += src[..., i, ...] along dim; duplicates add up"
    philox = ("word i is lane i % 4 of Philox 4x32-10 for the block offset + i // 4, whose counter is "
              "(low, high word of the block, 0, 0); key is (low, high word of seed)")
    return [
        Primitive("bitcast", "pointwise", 1, (), "if", "any", "the same bits read as the output's dtype of equal size",
                  "bitcast"),
        Primitive("matmul", "contraction", 2, (), "if", "same", matmul),
        Primitive("copy", "movement", 1, (), "bif", "any",
                  "the input's elements, converted to the output's dtype: towards zero from float to integer, "
                  "x != 0 to bool; either side may be strided", "cast"),
        Primitive("gather", "movement", 2, ("dim",), "bif", "same", gather),
        Primitive("scatter", "movement", 3, ("dim",), "bif", "same", scatter),
        Primitive("scatter_add", "movement", 3, ("dim",), "if", "same", scatter_add),
        Primitive("fill", "creation", 0, ("value",), "bif", "any", "value everywhere"),
        Primitive("arange", "creation", 0, ("start", "step"), "if", "any", "start + i * step in one dimension"),
        Primitive("philox_bits", "creation", 0, ("seed", "offset"), "i", "uint32", philox),
    ]


#: Every primitive by name, in the order of this file.
PRIMITIVES: Final[dict[str, Primitive]] = {
    primitive.name: primitive for primitive in (*_unary(), *_binary(), *_reductions(), *_others())
}

#: Name of the primitive by scalar function of the kernel IR.
BY_FUNCTION: Final[dict[str, str]] = {
    primitive.function: primitive.name for primitive in PRIMITIVES.values() if primitive.function is not None
}


def missing_primitives(kernels: KernelTable, dtypes: Collection[str] = ("float32", "int64", "bool")) -> list[str]:
    """Return primitives without a kernel for a dtype of their domain, as ``name`` or ``name/dtype``; empty if complete.

    Args:
        kernels: The kernels that a backend registered.
        dtypes: Names of the dtypes that it declares.
    """
    letters = {"bool": "b", "uint": "i", "int": "i", "float": "f", "complex": "c"}
    missing: list[str] = []
    for primitive in PRIMITIVES.values():
        served = [name for name in dtypes if letters[dtype_from_name(name).kind] in primitive.domain]
        lacking = [name for name in served if kernels.find(primitive.name, name, direct=False) is None]
        missing += [primitive.name] if lacking and lacking == served else [f"{primitive.name}/{n}" for n in lacking]
    return missing
