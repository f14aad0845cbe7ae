"""Expressions of sizes as text: Python's, and the form in which SymPy writes them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import reduce
from typing import Any, Final

from ..symbols import COMPARISONS, FUNCTIONS, Comparison, Expression

#: Longest text that is parsed.
_LONGEST: Final = 10_000
_BINARY: Final[dict[type, str]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Div: "truediv",
    ast.Pow: "pow", ast.LShift: "lshift", ast.RShift: "rshift"}
_COMPARED: Final[dict[type, str]] = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt",
                                     ast.GtE: "ge"}
#: SymPy's functions of one or more arguments, by the names of those here.
_OF_SYMPY: Final = {"Add": "add", "Mul": "mul", "Pow": "pow", "PowByNatural": "pow", "FloorDiv": "floordiv",
                    "CleanDiv": "floordiv", "Mod": "mod", "PythonMod": "mod", "IntTrueDiv": "truediv", "Max": "max",
                    "Min": "min", "ToFloat": "sym_float", "FloorToInt": "floor", "CeilToInt": "ceil", "Abs": "abs",
                    "TruncToInt": "sym_int", "floor": "floor", "ceiling": "ceil", "int": "sym_int",
                    "float": "sym_float"}
_FOLDED: Final = ("add", "mul", "max", "min")


def parse(text: str, leaf: Callable[[str], Any]) -> Expression:
    """Return the expression that a text writes; nothing in it is run.

    Args:
        text: The text.
        leaf: Returns the expression of a name, or of an access such as ``L['x'].size()[0]``.

    Raises:
        ValueError: It is not an expression of sizes.
    """
    return _parsed(_tree(text), leaf)


def parse_comparison(text: str, leaf: Callable[[str], Any]) -> Comparison:
    """Return the comparison that a text writes.

    Raises:
        ValueError: It is not a comparison of sizes.
    """
    tree = _tree(text)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and len(tree.args) == 2 and (
            tree.func.id.lower() in COMPARISONS):
        return Comparison(tree.func.id.lower(), _parsed(tree.args[0], leaf), _parsed(tree.args[1], leaf), "")
    if not isinstance(tree, ast.Compare) or len(tree.ops) != 1 or type(tree.ops[0]) not in _COMPARED:
        raise ValueError(f"{text[:80]!r} is not a comparison of sizes")
    return Comparison(_COMPARED[type(tree.ops[0])], _parsed(tree.left, leaf), _parsed(tree.comparators[0], leaf), "")


def _tree(text: str) -> ast.expr:
    if len(text) > _LONGEST:
        raise ValueError(f"an expression of {len(text)} characters")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"{text[:80]!r} is not an expression of sizes") from error


def _parsed(tree: ast.expr, leaf: Callable[[str], Any]) -> Expression:
    if isinstance(tree, ast.Constant) and type(tree.value) in (int, float):
        return tree.value
    if isinstance(tree, ast.Name):
        return leaf(tree.id)
    if isinstance(tree, ast.Subscript):
        return leaf(ast.unparse(tree))
    if isinstance(tree, ast.BinOp) and type(tree.op) in _BINARY:
        return (_BINARY[type(tree.op)], _parsed(tree.left, leaf), _parsed(tree.right, leaf))
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        inner = _parsed(tree.operand, leaf)
        return -inner if isinstance(inner, (int, float)) else ("neg", inner)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        return _called(tree.func.id, tree.args, leaf)
    raise ValueError(f"{ast.unparse(tree)[:80]!r} is not an expression of sizes")


def _called(name: str, args: list[ast.expr], leaf: Callable[[str], Any]) -> Expression:
    if name == "Symbol" and args and isinstance(args[0], ast.Constant) and isinstance(args[0].value, str):
        return leaf(args[0].value)
    parts = [_parsed(x, leaf) for x in args]
    if name in ("Integer", "Float", "Number") and len(parts) == 1 and isinstance(parts[0], (int, float)):
        return parts[0]
    if name == "Rational" and len(parts) == 2:
        return ("truediv", *parts)
    function = _OF_SYMPY.get(name, name)
    if function not in FUNCTIONS or not parts:
        raise ValueError(f"{name[:80]!r} is not a function of sizes")
    if function in _FOLDED:
        return reduce(lambda a, b: (function, a, b), parts)
    return (function, *parts)
