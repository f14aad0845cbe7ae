"""The numbers that the host computes before a launch: sizes of temporaries and the shape of the grid.

Each tuple of expressions over scalar parameters becomes one Python function, so a launch evaluates it in well under a
microsecond. Python's integers do not overflow, so sizes are exact whatever the program's index type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from math import prod
from typing import Final

from .nodes import Call, Const, Expr, For, IRError, Kernel, LoopKind, Stmt, Var

#: Number of groups and of lanes per group along up to three axes; axis 0 is the fastest (the last loop of its kind).
Geometry = tuple[tuple[int, ...], tuple[int, ...]]
Scalars = Mapping[str, int]

MAX_AXES: Final = 3


def _idiv(left: int, right: int) -> int:
    """Divide towards zero."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _imod(left: int, right: int) -> int:
    """Return the remainder of ``_idiv``."""
    return left - right * _idiv(left, right)


_HELPERS: Final[dict[str, object]] = {"_idiv": _idiv, "_imod": _imod, "__name__": __name__}
_SPELLING: Final[dict[str, str]] = {
    "add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "neg": "(-{})", "abs": "abs({})",
    "idiv": "_idiv({}, {})", "imod": "_imod({}, {})", "min": "min({}, {})", "max": "max({}, {})",
    "eq": "({} == {})", "ne": "({} != {})", "lt": "({} < {})", "le": "({} <= {})",
    "select": "({1} if {0} else {2})", "and": "({} & {})", "or": "({} | {})", "shl": "({} << {})", "shr": "({} >> {})",
    "cast": "int({})",
}  # fmt: skip


def _spell(expr: Expr) -> str:
    """Return Python source of ``expr``, with scalar parameters read from a mapping called ``scalars``."""
    match expr:
        case Const(value, dtype) if dtype.kind != "float":
            return f"({value!r})"
        case Var(name):
            return f"scalars[{name!r}]"
        case Call(function, args, dtype) if function in _SPELLING and dtype.kind != "float":
            return _SPELLING[function].format(*map(_spell, args))
    raise IRError(f"the host cannot evaluate {expr}: sizes are integer arithmetic on scalar parameters")


@lru_cache(maxsize=4096)
def host_function(exprs: tuple[Expr, ...]) -> Callable[[Scalars], tuple[int, ...]]:
    """Return a function from scalar values by name to the values of ``exprs``.

    Raises:
        IRError: An expression is not integer arithmetic on constants and scalar parameters.
    """
    source = f"lambda scalars: ({''.join(f'{_spell(expr)}, ' for expr in exprs)})"
    # The source is made of the table above. Python forgets an interrupt that ends the program if it evaluates a text.
    function: Callable[[Scalars], tuple[int, ...]] = eval(compile(source, __file__, "eval"), dict(_HELPERS))
    return function


def evaluate(expr: Expr, scalars: Scalars) -> int:
    """Return the value of an expression over scalar parameters, given by name.

    Raises:
        IRError: The expression is not integer arithmetic on constants and scalar parameters.
        KeyError: A scalar has no value.
    """
    return host_function((expr,))(scalars)[0]


def _launch_loops(body: tuple[Stmt, ...]) -> Iterator[For]:
    """Yield the GROUP and LANE loops that enclose the other statements, outermost first."""
    while len(body) == 1 and isinstance(body[0], For) and body[0].kind in (LoopKind.GROUP, LoopKind.LANE):
        yield body[0]
        body = body[0].body


def lanes_per_group(kernel: Kernel) -> int:
    """Return the number of lanes of a group; 1 without LANE loops."""
    return prod(int(loop.stop.value) for loop in _launch_loops(kernel.body)
                if loop.kind is LoopKind.LANE and isinstance(loop.stop, Const))


def geometry(kernel: Kernel) -> Callable[[Scalars], Geometry]:
    """Return the launch geometry of a scheduled kernel, as a function of the scalar parameters by name.

    The function returns ``(grid, group)``: the number of groups and of lanes per group along the same one to three
    axes, the fastest first. A kernel without GROUP or LANE loops is one group of one lane. If any number of groups is
    zero, there is nothing to launch.

    Raises:
        IRError: There are more than three GROUP or LANE loops, or a LANE extent is not constant.
    """
    loops = list(_launch_loops(kernel.body))
    groups = tuple(loop.stop for loop in reversed(loops) if loop.kind is LoopKind.GROUP)
    lanes = tuple(loop.stop for loop in reversed(loops) if loop.kind is LoopKind.LANE)
    axes = max(len(groups), len(lanes), 1)
    if axes > MAX_AXES:
        raise IRError(f"kernel {kernel.name} has {axes} axes of groups or lanes; a launch has {MAX_AXES}")
    group = tuple(int(stop.value) for stop in lanes if isinstance(stop, Const))
    if len(group) != len(lanes):
        raise IRError(f"kernel {kernel.name} has a LANE loop whose extent is not constant")
    group += (1,) * (axes - len(group))
    extents, padding = host_function(groups), (1,) * (axes - len(groups))
    return lambda scalars: (extents(scalars) + padding, group)
