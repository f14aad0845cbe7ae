"""The kernel IR: typed loop nests over index expressions.

A ``Program`` has parameters (buffers and scalars), temporaries and one or more ``Kernel``s that run in order. A kernel
is a tuple of statements. Expressions are immutable and typed; arithmetic on them with Python operators builds calls.

Before scheduling, a kernel uses ``PARALLEL`` loops (iterations are independent) and ``Reduce``. A schedule maps
these to the features of a target: ``GROUP`` and ``LANE`` loops (work-groups and work-items: all iterations run at once
and, within a group, meet at ``Barrier``), ``SERIAL`` loops, local buffers, and ``VECTOR`` loops of constant extent.

Semantics: a statement sees the stores of earlier statements of its own iteration; lanes of a group see each other's
stores after a barrier; kernels see all stores of earlier kernels. A ``Load``'s or ``Store``'s index counts elements
from the array's first element (printers add the array's offset). An expression is evaluated at its statement; ``Let``
fixes a value for later statements.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ..contract.dtypes import DType, bool_
from .functions import FUNCTIONS


class IRError(Exception):
    """A program that breaks a rule of the IR: always a bug in the code that built it."""


# ------------------------------------------------------------------------------------------------ expressions


class Expr:
    """A typed value."""

    __slots__ = ()
    dtype: DType

    def __add__(self, other: Operand) -> Expr:
        return call("add", self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __radd__(self, other: Operand) -> Expr:
        return call("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return call("sub", self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __rsub__(self, other: Operand) -> Expr:
        return call("sub", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return call("mul", self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __rmul__(self, other: Operand) -> Expr:
        return call("mul", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return call("div", self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __rtruediv__(self, other: Operand) -> Expr:
        return call("div", other, self)

    def __floordiv__(self, other: Operand) -> Expr:
        """Divide integers towards zero; index arithmetic is never negative."""
        return call("idiv", self, other)

    def __mod__(self, other: Operand) -> Expr:
        return call("imod", self, other)

    def __neg__(self) -> Expr:
        return call("neg", self)

    def __abs__(self) -> Expr:
        return call("abs", self)

    def __invert__(self) -> Expr:
        return call("not", self)

    def __and__(self, other: Operand) -> Expr:
        return call("and", self, other)

    def __or__(self, other: Operand) -> Expr:
        return call("or", self, other)

    def __xor__(self, other: Operand) -> Expr:
        return call("xor", self, other)

    def __lshift__(self, other: Operand) -> Expr:
        return call("shl", self, other)

    def __rshift__(self, other: Operand) -> Expr:
        return call("shr", self, other)

    def __lt__(self, other: Operand) -> Expr:
        return call("lt", self, other)

    def __le__(self, other: Operand) -> Expr:
        return call("le", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return call("lt", other, self)

    def __ge__(self, other: Operand) -> Expr:
        return call("le", other, self)


@dataclass(frozen=True, slots=True, eq=False)
class Const(Expr):
    """A constant; ``value`` is a bool, int or float (infinities and NaN included)."""

    value: bool | int | float
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Var(Expr):
    """A loop variable, scalar parameter, ``Let`` or mutable variable, by name."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Load(Expr):
    """An element of a buffer, temporary or local array."""

    buffer: str
    index: Expr
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expr):
    """A scalar function of ``functions.FUNCTIONS`` applied to arguments."""

    function: str
    args: tuple[Expr, ...]
    dtype: DType


Operand = Expr | bool | int | float
#: The same, for operators: other types (complex values) may define the reflected operator.
_OPERANDS: Final[tuple[type, ...]] = (Expr, bool, int, float)


def const(value: bool | int | float, dtype: DType) -> Const:
    """Return a constant of ``dtype``; the value is converted to the dtype's Python type."""
    if dtype.kind == "bool":
        return Const(bool(value), dtype)
    return Const(float(value) if dtype.kind == "float" else int(value), dtype)


def call(function: str, *args: Operand, dtype: DType | None = None) -> Expr:
    """Return a typed call. Python numbers take the dtype of the other arguments.

    Args:
        function: A name of ``FUNCTIONS``.
        args: Arguments; at least one is an expression.
        dtype: The result's dtype, for ``cast`` and ``bitcast`` only.

    Raises:
        IRError: The function is unknown, or the arguments do not fit its rule.
    """
    rule = FUNCTIONS.get(function)
    if rule is None:
        raise IRError(f"unknown scalar function {function!r}")
    if len(args) != rule.arity:
        raise IRError(f"{function} takes {rule.arity} arguments, not {len(args)}")
    valued = args[1:] if rule.rule == "select" else args
    kind = next((a.dtype for a in valued if isinstance(a, Expr)), None)
    if kind is None:
        raise IRError(f"{function} of Python numbers only")
    typed = [a if isinstance(a, Expr) else const(a, kind) for a in valued]
    if any(a.dtype is not kind for a in typed):
        raise IRError(f"{function} of mixed dtypes {', '.join(a.dtype.name for a in typed)}")
    if rule.rule == "select":
        condition = args[0]
        if not isinstance(condition, Expr) or condition.dtype is not bool_:
            raise IRError("select's first argument is a bool expression")
        typed.insert(0, condition)
    if (dtype is None) == (rule.rule in ("cast", "bitcast")):
        raise IRError(f"{function} {'needs' if dtype is None else 'takes no'} dtype")
    return Call(function, tuple(typed), dtype or (bool_ if rule.rule == "compare" else kind))


def cast(value: Expr, dtype: DType) -> Expr:
    """Convert ``value`` to ``dtype``; the expression itself if it already has that dtype."""
    if value.dtype is dtype:
        return value
    return const(value.value, dtype) if isinstance(value, Const) else call("cast", value, dtype=dtype)


def select(condition: Expr, yes: Operand, no: Operand) -> Expr:
    """Return ``yes`` where ``condition`` holds, else ``no``."""
    return call("select", condition, yes, no)


# ------------------------------------------------------------------------------------------------- statements


class Stmt:
    """A statement."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class Let(Stmt):
    """A definition that fixes a value under a name, for the rest of the enclosing block."""

    var: Var
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Declare(Stmt):
    """A mutable variable with its first value, for the rest of the enclosing block."""

    var: Var
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Assign(Stmt):
    """A change of a declared variable."""

    var: Var
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Store(Stmt):
    """A write to an element of a writable buffer, temporary or local array."""

    buffer: str
    index: Expr
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Atomic(Stmt):
    """An atomic ``buffer[index] = function(buffer[index], value)``; the function is add, min or max."""

    function: str
    buffer: str
    index: Expr
    value: Expr


class LoopKind(Enum):
    """Execution order of a loop's iterations; see the module's docstring."""

    PARALLEL = "parallel"
    GROUP = "group"
    LANE = "lane"
    SERIAL = "serial"
    VECTOR = "vector"


@dataclass(frozen=True, slots=True, eq=False)
class For(Stmt):
    """A loop ``for var in range(start, stop, step)``. Loops other than SERIAL start at 0 with step 1.

    The host evaluates GROUP extents before the launch: they may use scalar parameters only. LANE and VECTOR extents
    are constants. GROUP loops enclose all other statements; LANE loops come next; the first is the slowest axis.
    """

    var: Var
    start: Expr
    stop: Expr
    step: Expr
    body: tuple[Stmt, ...]
    kind: LoopKind


@dataclass(frozen=True, slots=True, eq=False)
class If(Stmt):
    """A condition: ``body`` runs where it holds. The body contains no barrier."""

    condition: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Barrier(Stmt):
    """A point where all lanes of a group wait for each other; earlier local and global stores are visible after it."""


@dataclass(frozen=True, slots=True, eq=False)
class Combine:
    """A merge of two partial results: ``values`` are expressions over ``left`` and ``right``; associative."""

    left: tuple[Var, ...]
    right: tuple[Var, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Reduce(Stmt):
    """A fold of the iterations of ``loops`` into ``results``, which later statements of the block may use.

    Attributes:
        results: One variable per accumulator.
        loops: Reduction variables and extents, outermost first; each starts at 0.
        body: ``Let``s evaluated in every iteration.
        values: The contributions of an iteration, one expression per accumulator.
        identity: Neutral values of ``combine``.
        combine: The merge of two partial results. Order may change only by associativity and commutativity.
    """

    results: tuple[Var, ...]
    loops: tuple[tuple[Var, Expr], ...]
    body: tuple[Let, ...]
    values: tuple[Expr, ...]
    identity: tuple[Expr, ...]
    combine: Combine


# --------------------------------------------------------------------------------------------------- programs


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array parameter. At run time: an opaque buffer and an element offset.

    ``streamed``: it starts at a cache line of 64 bytes, and a processor may write whole lines of it past its caches.
    """

    name: str
    dtype: DType
    writable: bool = False
    streamed: bool = False


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar parameter: a size, a stride or a number. bfloat16 and float16 scalars are passed as float32."""

    name: str
    dtype: DType


Param = Buffer | Scalar


@dataclass(frozen=True, slots=True, eq=False)
class Temporary:
    """Global memory for the duration of one run of the program; ``size`` uses scalar parameters only."""

    name: str
    dtype: DType
    size: Expr


@dataclass(frozen=True, slots=True)
class Local:
    """A local (shared) array of a work-group; ``size`` elements. A ``private`` one belongs to a single lane."""

    name: str
    dtype: DType
    size: int
    private: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """One launch."""

    name: str
    body: tuple[Stmt, ...]
    locals: tuple[Local, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Parameters and the kernels that run over them, in order."""

    name: str
    params: tuple[Param, ...]
    kernels: tuple[Kernel, ...]
    temporaries: tuple[Temporary, ...] = ()

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The array parameters, in order."""
        return tuple(p for p in self.params if isinstance(p, Buffer))

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """The scalar parameters, in order."""
        return tuple(p for p in self.params if isinstance(p, Scalar))


def loop(var: Var, stop: Operand, body: Iterable[Stmt], kind: LoopKind = LoopKind.SERIAL,
         start: Operand = 0, step: Operand = 1) -> For:
    """Return a loop whose bounds may be Python ints."""
    first, last, stride = (b if isinstance(b, Expr) else const(b, var.dtype) for b in (start, stop, step))
    return For(var, first, last, stride, tuple(body), kind)
