"""The scalar functions of the kernel IR: one row each, with the rule that types it.

Rules: ``same`` (all arguments and the result have one dtype), ``compare`` (one argument dtype, result bool),
``select`` (bool, then two of one dtype), ``cast`` and ``bitcast`` (the call names the result dtype).
``domain`` states the kinds of dtype that a function takes: ``b`` bool, ``i`` integers, ``f`` floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Rule = Literal["same", "compare", "select", "cast", "bitcast"]


@dataclass(frozen=True, slots=True)
class Function:
    """A scalar function.

    Attributes:
        name: Its name in the IR.
        arity: Number of arguments.
        rule: Rule for the result's dtype from the arguments'.
        domain: Kinds of dtype that it takes.
        decomposable: Whether ``decompose`` may replace it, for targets that lack it or compute it badly.
        processors_only: Whether programs for processors alone contain it; the printers of C refuse it.
    """

    name: str
    arity: int
    rule: Rule
    domain: str
    decomposable: bool = False
    processors_only: bool = False


def _rows() -> list[Function]:
    rows = [Function(name, 2, "same", "if") for name in ("add", "sub", "mul")]
    # min and max return NaN if either argument is NaN.
    rows += [Function(name, 2, "same", "bif") for name in ("min", "max")]
    rows += [Function("neg", 1, "same", "if"), Function("abs", 1, "same", "if")]
    # Float division is correctly rounded; integer division truncates and its divisor must not be zero.
    rows += [Function("div", 2, "same", "f"), Function("idiv", 2, "same", "i"), Function("imod", 2, "same", "i")]
    # x * y + z, rounded once.
    rows += [Function("fma", 3, "same", "f")]
    # fmod keeps the dividend's sign and is exact, as in C.
    rows += [Function("fmod", 2, "same", "f")]
    # rint rounds halves to even. All are correctly rounded.
    rows += [Function(name, 1, "same", "f") for name in ("sqrt", "floor", "ceil", "trunc", "rint")]
    rows += [Function(name, 2, "same", "bi") for name in ("and", "or", "xor")]
    rows += [Function("not", 1, "same", "bi")]
    # Shift counts are within 0 .. bits-1; shr is arithmetic for signed integers.
    rows += [Function(name, 2, "same", "i") for name in ("shl", "shr")]
    rows += [Function(name, 2, "compare", "bif") for name in ("eq", "ne", "lt", "le")]
    rows += [Function("select", 3, "select", "bif")]
    # select whose second argument is seldom needed: a call of a decomposable function, which the LLVM printer
    # computes behind a branch.
    rows += [Function("rarely", 3, "select", "f", processors_only=True)]
    # Float to integer truncates (out of range: unspecified, but no trap); anything to bool is ``x != 0``.
    rows += [Function("cast", 1, "cast", "bif"), Function("bitcast", 1, "bitcast", "if")]
    rows += [Function(name, 1, "same", "f", decomposable=True) for name in (
        "exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf")]
    rows += [Function("pow", 2, "same", "f", decomposable=True)]
    return rows


FUNCTIONS: Final[dict[str, Function]] = {row.name: row for row in _rows()}
