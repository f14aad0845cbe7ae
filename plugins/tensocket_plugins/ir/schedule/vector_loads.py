"""Adjacent elements that a lane reads at once: loads of single elements become loads of vectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ...contract.dtypes import DType
from ..nodes import Call, Const, Expr, Load, Local, Stmt, Var
from ..text import format_expression
from ..vector_access import LoadVector
from .nest import Names, definitions, loads, substitute, unit_step

#: Bytes that a lane moves at once.
BYTES: Final = 16


def mentions(expr: Expr, var: Var) -> bool:
    """Whether an index depends on a variable; its product with the constant 0 does not."""
    match expr:
        case Var(name):
            return name == var.name
        case Load(_, index):
            return mentions(index, var)
        case Call("mul", (_, Const(0)) | (Const(0), _)):
            return False
        case Call(_, args):
            return any(mentions(arg, var) for arg in args)
    return False


def vector_width(body: Iterable[Stmt], var: Var, others: Sequence[DType] = ()) -> int:
    """Return the elements along ``var`` that have 16 bytes; 1 if some loads are not adjacent along it.

    Args:
        body: The statements, with their loads.
        var: The variable that differs between the lanes.
        others: Further dtypes of elements that a lane moves.
    """
    statements = tuple(body)
    named = definitions(statements)
    widest = [dtype.itemsize for dtype in others]
    for load in loads(statements):
        index = substitute(load.index, named)
        if mentions(index, var):
            if not unit_step(index, var.name):
                return 1
            widest.append(load.dtype.itemsize)
    return max(1, BYTES // max(widest, default=BYTES))


class VectorLoads:
    """The change of expressions that takes loads along ``var`` from vectors.

    Args:
        var: The variable along which elements are adjacent.
        first: Its value at the first element of a lane.
        count: The number of a lane's elements.
        at: The number of an element in its vector.
        width: The number of elements of a vector; with 1, nothing changes.
        named: The expressions for which names in indices stand.
        names: Source of new names.

    Attributes:
        arrays: The private arrays that hold the vectors.
        statements: The loads of all vectors.
    """

    def __init__(self, var: Var, first: Expr, count: Expr, at: Expr, width: int, named: Mapping[str, Expr],
                 names: Names) -> None:
        self._var, self._first, self._count, self._at, self._width = var, first, count, at, width
        self._named, self._names = named, names
        self._held: dict[tuple[str, str], str] = {}
        self.arrays: list[Local] = []
        self.statements: list[Stmt] = []

    def __call__(self, e: Expr) -> Expr:
        """Return an element of a vector for a load along the variable, and other expressions as they are."""
        if not isinstance(e, Load) or self._width == 1:
            return e
        index = substitute(e.index, self._named)
        if not mentions(index, self._var):
            return e
        place = e.buffer, format_expression(index)
        if place not in self._held:
            array = self._held[place] = self.array(e.buffer, e.dtype)
            self.statements.append(LoadVector(array, e.buffer, self.start(index), self._count, e.dtype))
        return Load(self._held[place], self._at, e.dtype)

    def start(self, index: Expr) -> Expr:
        """Return the index of a lane's first element."""
        return substitute(index, {self._var.name: self._first})

    def array(self, stem: str, dtype: DType) -> str:
        """Return a new private array for a vector."""
        self.arrays.append(Local(self._names.fresh(f"{stem}_vector"), dtype, self._width, private=True))
        return self.arrays[-1].name
