"""Taking nests apart and building index arithmetic; shared by all schedules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce as fold

from ...contract.dtypes import DType, int32
from ..nodes import (
    Assign,
    Atomic,
    Call,
    Const,
    Declare,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    LoopKind,
    Program,
    Reduce,
    Stmt,
    Store,
    Var,
    call,
    const,
    loop,
)
from ..scope import parts

#: A loop that starts at 0: its variable and its extent.
Axis = tuple[Var, Expr]


def walk(body: Iterable[Stmt]) -> Iterator[Stmt]:
    """Yield all statements, outer ones first, including those inside loops, conditions and reductions."""
    for statement in body:
        yield statement
        if isinstance(statement, For | If | Reduce):
            yield from walk(statement.body)


def expressions(statement: Stmt) -> tuple[Expr, ...]:
    """Return the expressions of a statement itself, without those of statements inside it."""
    match statement:
        case Let(_, value) | Declare(_, value) | Assign(_, value):
            return (value,)
        case Store(_, index, value) | Atomic(_, _, index, value):
            return (index, value)
        case For(_, start, stop, step):
            return (start, stop, step)
        case If(condition):
            return (condition,)
        case Reduce(_, loops, _, values, identity, combine):
            return (*(extent for _, extent in loops), *values, *identity, *combine.values)
    return ()


def subexpressions(expr: Expr) -> Iterator[Expr]:
    """Yield all parts of an expression and then itself, each once."""
    yield from parts(expr)


def loads(body: Iterable[Stmt]) -> Iterator[Load]:
    """Yield all loads in ``body``."""
    for statement in walk(body):
        for expr in expressions(statement):
            yield from (part for part in subexpressions(expr) if isinstance(part, Load))


def stored(body: Iterable[Stmt]) -> set[str]:
    """Return the names of the buffers that ``body`` writes."""
    return {statement.buffer for statement in walk(body) if isinstance(statement, Store | Atomic)}


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """Return ``expr`` with variables replaced by expressions."""
    match expr:
        case Var(name):
            return values.get(name, expr)
        case Load(buffer, index, dtype):
            return Load(buffer, substitute(index, values), dtype)
        case Call(function, args, dtype):
            return Call(function, tuple(substitute(arg, values) for arg in args), dtype)
    return expr


def definitions(body: Iterable[Stmt]) -> dict[str, Expr]:
    """Return the expressions for which the names in ``body`` stand, free of these names."""
    named: dict[str, Expr] = {}
    for statement in walk(body):
        if isinstance(statement, Let):
            named[statement.var.name] = substitute(statement.value, named)
    return named


def _defined(statement: Stmt) -> tuple[Var, ...]:
    match statement:
        case Let(var) | Declare(var) | For(var):
            return (var,)
        case Reduce(results, loops, _, _, _, combine):
            return (*results, *(var for var, _ in loops), *combine.left, *combine.right)
    return ()


class Names:
    """Source of names that a program does not use yet."""

    def __init__(self, program: Program) -> None:
        self._taken = {item.name for item in (*program.params, *program.temporaries, *program.kernels)}
        for kernel in program.kernels:
            self._taken |= {item.name for item in kernel.locals}
            self._taken |= {var.name for statement in walk(kernel.body) for var in _defined(statement)}

    def fresh(self, stem: str) -> str:
        """Return ``stem`` itself, or with the lowest number that makes it new."""
        name, count = stem, 0
        while name in self._taken:
            count += 1
            name = f"{stem}{count}"
        self._taken.add(name)
        return name

    def var(self, stem: str, dtype: DType) -> Var:
        """Return a variable with a new name."""
        return Var(self.fresh(stem), dtype)


def index_dtype(kernel: Kernel) -> DType:
    """Return the integer type of the kernel's loop variables; int32 if it has no loops."""
    for statement in walk(kernel.body):
        if isinstance(statement, For):
            return statement.var.dtype
        if isinstance(statement, Reduce):
            return statement.loops[0][0].dtype
    return int32


def peel(body: tuple[Stmt, ...]) -> tuple[list[Axis], tuple[Stmt, ...]]:
    """Return the axes of the perfectly nested PARALLEL loops around ``body``, outermost first, and the body inside."""
    axes: list[Axis] = []
    while len(body) == 1 and isinstance(body[0], For) and body[0].kind is LoopKind.PARALLEL:
        axes.append((body[0].var, body[0].stop))
        body = body[0].body
    return axes, body


def nested(axes: Sequence[Axis], body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Return PARALLEL loops around ``body``, the first axis outermost."""
    inside = tuple(body)
    for var, extent in reversed(axes):
        inside = (loop(var, extent, inside, LoopKind.PARALLEL),)
    return inside


def unit_step(index: Expr, name: str) -> bool:
    """Whether ``index`` is ``name`` (perhaps times 1) plus terms without it."""
    match index:
        case Var(found):
            return found == name
        case Call("add", (left, right)):
            with_it = [side for side in (left, right) if _mentions(side, name)]
            return len(with_it) == 1 and unit_step(with_it[0], name)
        case Call("mul", (left, Const(1))):
            return unit_step(left, name)
        case Call("mul", (Const(1), right)):
            return unit_step(right, name)
    return False


def reads_across(body: Iterable[Stmt], column: str) -> bool:
    """Whether the reductions of an outer iteration step by one element from one ``column`` to the next.

    No array may be read with a step of one along a reduction, which is then the better direction. Where reductions read
    one element again and again, the loops that store decide.
    """
    body = list(body)
    places = [(load.index, reduce.loops[-1][0].name) for reduce in body if isinstance(reduce, Reduce)
              for load in loads((reduce,))]
    if not any(_mentions(place, column) or _mentions(place, along) for place, along in places):
        nests = [peel((statement,)) for statement in body if isinstance(statement, For)]
        places = [(s.index, axes[-1][0].name) for axes, inside in nests if axes for s in inside if isinstance(s, Store)]
    return any(unit_step(place, column) for place, _ in places) and not any(
        unit_step(place, along) for place, along in places)


def _mentions(index: Expr, name: str) -> bool:
    return any(isinstance(e, Var) and e.name == name for e in subexpressions(index))


def product(factors: Iterable[Expr], dtype: DType) -> Expr:
    """Return the product of sizes; 1 for none. Constants are folded."""
    number, rest = 1, []
    for factor in factors:
        if isinstance(factor, Const):
            number *= int(factor.value)
        else:
            rest.append(factor)
    if not rest or number == 0:
        return const(number, dtype)
    return fold(lambda left, right: left * right, rest if number == 1 else [*rest, const(number, dtype)])


def ceil_div(size: Expr, by: Expr | int) -> Expr:
    """Return ``size / by``, rounded up; both non-negative, ``by`` positive."""
    if isinstance(size, Const) and isinstance(by, int):
        return const(-(-int(size.value) // by), size.dtype)
    return (size + (by - 1)) // by


def smaller(left: Expr, right: Expr | int) -> Expr:
    """Return the lesser of two sizes; constants are folded."""
    if isinstance(left, Const) and isinstance(right, int):
        return const(min(int(left.value), right), left.dtype)
    return call("min", left, right)


def larger(left: Expr, right: Expr | int) -> Expr:
    """Return the greater of two sizes; constants are folded."""
    if isinstance(left, Const) and isinstance(right, int):
        return const(max(int(left.value), right), left.dtype)
    return call("max", left, right)


def flat_index(axes: Sequence[Axis], dtype: DType) -> Expr:
    """Return the row-major number of an iteration of ``axes``."""
    index: Expr | None = None
    for var, extent in axes:
        index = var if index is None else index * extent + var
    return const(0, dtype) if index is None else index


def recover(number: Expr, axes: Sequence[Axis], names: Names) -> list[Let]:
    """Return definitions of the variables of ``axes`` from the row-major number of their iteration."""
    lets: list[Let] = []
    for position, (var, extent) in reversed(list(enumerate(axes))):
        if position == 0:
            lets.append(Let(var, number))
            break
        lets.append(Let(var, number % extent))
        rest = number // extent
        if position == 1:
            number = rest
        else:
            number = names.var("rest", var.dtype)
            lets.append(Let(number, rest))
    return lets
