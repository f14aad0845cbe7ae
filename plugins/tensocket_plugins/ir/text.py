"""Programs as text: for people, for error messages, and as cache keys (equal texts mean equal programs).

    kernel add(in0: f32[], in1: f32[], out0: mut f32[], n: i32)
      parallel i in n:
        out0[i] = in0[i] + in1[i]

Numbers without a suffix are i32, f32 or bool by their spelling; all others carry their dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from ..contract.dtypes import DType, bool_, float32, int32
from .nodes import (
    Assign,
    Atomic,
    Barrier,
    Buffer,
    Call,
    Const,
    Declare,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Param,
    Program,
    Reduce,
    Stmt,
    Store,
    Var,
)
from .vector_access import LoadVector, StoreVector

#: Operator functions with their precedence; operators of equal precedence group from the left.
_INFIX: Final[dict[str, tuple[str, int]]] = {
    "or": ("|", 1), "xor": ("^", 2), "and": ("&", 3), "eq": ("==", 4), "ne": ("!=", 4), "lt": ("<", 4), "le": ("<=", 4),
    "shl": ("<<", 5), "shr": (">>", 5), "add": ("+", 6), "sub": ("-", 6), "mul": ("*", 7), "div": ("/", 7),
    "idiv": ("//", 7), "imod": ("%", 7),
}
_PREFIX: Final[dict[str, str]] = {"neg": "-", "not": "~"}
_TIGHT: Final = 8


def format_expression(expression: Expr) -> str:
    """Return an expression on one line."""
    return _spell(expression)[0]


def format_statement(statement: Stmt) -> str:
    """Return the first line of a statement."""
    return next(_lines(statement))


def format_program(program: Program) -> str:
    """Return the whole program, one statement a line, ending with a newline."""
    params = ", ".join(map(_param, program.params))
    first = program.kernels[0] if program.kernels else None
    if len(program.kernels) == 1 and first is not None and first.name == program.name and not program.temporaries:
        return _kernel(first, f"({params})")
    text = f"program {program.name}({params})\n"
    for t in program.temporaries:
        text += f"  temporary {t.name}: {t.dtype.short}[{format_expression(t.size)}]\n"
    return text + "".join(_kernel(kernel, "") for kernel in program.kernels)


def _param(param: Param) -> str:
    if isinstance(param, Buffer):
        return f"{param.name}: {'mut ' if param.writable else ''}{param.dtype.short}[]"
    return f"{param.name}: {param.dtype.short}"


def _kernel(kernel: Kernel, params: str) -> str:
    lines = [f"kernel {kernel.name}{params}"]
    lines += [f"  {'private' if local.private else 'local'} {local.name}: {local.dtype.short}[{local.size}]"
              for local in kernel.locals]
    lines += _block(kernel.body)
    return "".join(line + "\n" for line in lines)


def _block(statements: Iterable[Stmt]) -> Iterator[str]:
    for statement in statements:
        for line in _lines(statement):
            yield "  " + line


def _constant(value: bool | int | float, dtype: DType) -> str:
    if dtype is bool_:
        return "true" if value else "false"
    return f"{value!r}{'' if dtype in (int32, float32) else dtype.short}"


def _spell(e: Expr) -> tuple[str, int]:
    """Return an expression's text and the precedence of its outermost operator."""
    if isinstance(e, Var):
        return e.name, _TIGHT + 1
    if isinstance(e, Const):
        text = _constant(e.value, e.dtype)
        return text, _TIGHT if text.startswith("-") else _TIGHT + 1
    if isinstance(e, Load):
        return f"{e.buffer}[{format_expression(e.index)}]", _TIGHT + 1
    if not isinstance(e, Call):
        return f"<{type(e).__name__}>", _TIGHT + 1
    if e.function in _INFIX and len(e.args) == 2:
        sign, strength = _INFIX[e.function]
        # Comparisons do not chain.
        left = _operand(e.args[0], strength + (strength == 4))
        return f"{left} {sign} {_operand(e.args[1], strength + 1)}", strength
    if e.function in _PREFIX and len(e.args) == 1:
        # Parentheses distinguish the negation of a number from a negative number.
        inner = e.args[0]
        text = f"({format_expression(inner)})" if isinstance(inner, Const) else _operand(inner, _TIGHT)
        return _PREFIX[e.function] + text, _TIGHT
    name = {"cast": e.dtype.short, "bitcast": f"bits_{e.dtype.short}"}.get(e.function, e.function)
    return f"{name}({', '.join(map(format_expression, e.args))})", _TIGHT + 1


def _operand(e: Expr, at_least: int) -> str:
    text, strength = _spell(e)
    return text if strength >= at_least else f"({text})"


def _list(expressions: Iterable[Expr]) -> str:
    return ", ".join(map(format_expression, expressions))


def _for(s: For) -> Iterator[str]:
    start, stop, step = map(format_expression, (s.start, s.stop, s.step))
    zero = isinstance(s.start, Const) and s.start.value == 0 and s.start.dtype is s.stop.dtype
    one = isinstance(s.step, Const) and s.step.value == 1 and s.step.dtype is s.stop.dtype
    span = stop if zero and one else f"range({start}, {stop}, {step})"
    yield f"{s.kind.value} {s.var.name} in {span}:"
    yield from _block(s.body)


def _if(s: If) -> Iterator[str]:
    yield f"if {format_expression(s.condition)}:"
    yield from _block(s.body)


def _reduce(s: Reduce) -> Iterator[str]:
    loops = ", ".join(f"{var.name} in {format_expression(stop)}" for var, stop in s.loops)
    yield f"reduce {_list(s.results)} over {loops}:"
    yield from _block(s.body)
    yield f"  give {_list(s.values)}"
    yield f"  from {_list(s.identity)}"
    yield f"  merge ({_list(s.combine.left)}) ({_list(s.combine.right)}) -> {_list(s.combine.values)}"


def _lines(statement: Stmt) -> Iterator[str]:
    spell = _STATEMENTS.get(type(statement))
    return spell(statement) if spell else iter([f"<{type(statement).__name__}>"])


def _line(spell: Callable[[Any], str]) -> Callable[[Any], Iterator[str]]:
    return lambda s: iter([spell(s)])


_STATEMENTS: Final[dict[type[Stmt], Callable[[Any], Iterator[str]]]] = {
    Let: _line(lambda s: f"let {s.var.name} = {format_expression(s.value)}"),
    Declare: _line(lambda s: f"var {s.var.name} = {format_expression(s.value)}"),
    Assign: _line(lambda s: f"{s.var.name} = {format_expression(s.value)}"),
    Store: _line(lambda s: f"{s.buffer}[{format_expression(s.index)}] = {format_expression(s.value)}"),
    Atomic: _line(lambda s: f"atomic {s.function} {s.buffer}[{format_expression(s.index)}], "
                            f"{format_expression(s.value)}"),
    LoadVector: _line(lambda s: f"load {s.array} = {s.buffer}[{format_expression(s.index)}] up to "
                                f"{format_expression(s.count)}"),
    StoreVector: _line(lambda s: f"store {s.buffer}[{format_expression(s.index)}] = {s.array} up to "
                                 f"{format_expression(s.count)}"),
    Barrier: _line(lambda s: "barrier"),
    For: _for,
    If: _if,
    Reduce: _reduce,
}
