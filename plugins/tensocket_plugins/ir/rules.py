"""The rules of the IR, as tables: the nodes that each rule checks, and its message."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ..contract.dtypes import BY_NAME, DType, bfloat16, bool_, float16
from .functions import FUNCTIONS
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
    Local,
    LoopKind,
    Program,
    Reduce,
    Store,
    Var,
)
from .scope import Scope, parts, varies
from .vector_access import LoadVector, StoreVector

#: Element types that kernels can hold.
DTYPES: Final = frozenset(BY_NAME[name] for name in (
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64"))
#: Types that are only stored and converted; arithmetic is in float32.
NARROW: Final = frozenset({float16, bfloat16})
ATOMIC_DTYPES: Final = frozenset(BY_NAME[name] for name in ("int32", "int64", "float32", "float64"))
MAX_AXES: Final = 3

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule.

    Attributes:
        name: Its subject.
        node: Class of the nodes that it checks.
        check: Takes a node and its scope; returns the problem, or None.
    """

    name: str
    node: type
    check: Callable[[Any, Scope], str | None]


# ------------------------------------------------------------------------------------------------ expressions


def _constant(e: Const, scope: Scope) -> str | None:
    expected = {"bool": bool, "float": float}.get(e.dtype.kind, int)
    if type(e.value) is not expected:
        return f"constant {e.value!r} of {e.dtype.name} is a {expected.__name__}"
    if expected is int:
        bits = e.dtype.itemsize * 8 - e.dtype.is_signed
        if not -(1 << bits) * e.dtype.is_signed <= e.value < 1 << bits:
            return f"constant {e.value} does not fit into {e.dtype.name}"
    return None


def _variable(e: Var, scope: Scope) -> str | None:
    known = scope.variables.get(e.name)
    if known is None:
        return f"variable {e.name} is not defined here"
    return None if known.dtype is e.dtype else f"variable {e.name} is {known.dtype.name}, used as {e.dtype.name}"


def _source(e: Load, scope: Scope) -> str | None:
    return _element(e.buffer, e.dtype, e.index, scope)


def _element(array: str, dtype: DType, index: Expr, scope: Scope) -> str | None:
    known = scope.arrays.get(array)
    if known is None:
        return f"array {array} is not known here"
    if known.dtype is not dtype:
        return f"array {array} holds {known.dtype.name}, used as {dtype.name}"
    if index.dtype.kind not in ("int", "uint"):
        return f"index of {array} is {index.dtype.name}; an index is an integer"
    return None


def _call(e: Call, scope: Scope) -> str | None:
    row = FUNCTIONS.get(e.function)
    if row is None:
        return f"function {e.function!r} is unknown"
    if len(e.args) != row.arity:
        return f"{e.function} takes {row.arity} arguments, not {len(e.args)}"
    values = e.args[1:] if row.rule == "select" else e.args
    kind = values[0].dtype
    if any(a.dtype is not kind for a in values):
        return f"{e.function} of {', '.join(a.dtype.name for a in values)}: the dtypes are equal"
    if row.rule == "select" and e.args[0].dtype is not bool_:
        return "the condition of select is bool"
    if not _in_domain(kind, row.domain):
        return f"{e.function} does not take {kind.name}"
    if kind in NARROW and e.function not in ("select", "cast", "bitcast"):
        return f"{e.function} of {kind.name}: convert it to float32 first"
    if row.rule == "bitcast" and (e.dtype.itemsize != kind.itemsize or not _in_domain(e.dtype, row.domain)):
        return f"bitcast from {kind.name} to {e.dtype.name}: numbers of one size"
    result = {"compare": bool_, "cast": e.dtype, "bitcast": e.dtype}.get(row.rule, kind)
    return None if e.dtype is result else f"{e.function} gives {result.name}, not {e.dtype.name}"


def _in_domain(dtype: DType, domain: str) -> bool:
    return {"bool": "b", "int": "i", "uint": "i", "float": "f"}.get(dtype.kind, "?") in domain


def _dtype(e: Expr, scope: Scope) -> str | None:
    return None if e.dtype in DTYPES else f"kernels do not compute with {e.dtype.name}"


# ------------------------------------------------------------------------------------------------- statements


def _new_name(name: str, scope: Scope) -> str | None:
    if not _NAME.fullmatch(name):
        return f"{name!r} is not a name"
    return f"name {name} is taken here" if scope.knows(name) else None


def _definition(s: Let | Declare, scope: Scope) -> str | None:
    if s.var.dtype is not s.value.dtype:
        return f"{s.var.name} is {s.var.dtype.name}, its value {s.value.dtype.name}"
    return _new_name(s.var.name, scope)


def _assignment(s: Assign, scope: Scope) -> str | None:
    known = scope.variables.get(s.var.name)
    if known is None or known.origin != "mutable":
        return f"{s.var.name} is not a declared variable"
    if known.depth != scope.depth:
        return f"{s.var.name} is declared outside of a loop whose iterations run at once"
    if known.dtype is not s.value.dtype or known.dtype is not s.var.dtype:
        return f"{s.var.name} is {known.dtype.name}, its new value {s.value.dtype.name}"
    return None


def _target(s: Store | Atomic, scope: Scope) -> str | None:
    return _read_only(s.buffer, scope) or _element(s.buffer, s.value.dtype, s.index, scope)


def _read_only(array: str, scope: Scope) -> str | None:
    known = scope.arrays.get(array)
    return f"buffer {array} is not writable" if isinstance(known, Buffer) and not known.writable else None


def _load_vector(s: LoadVector, scope: Scope) -> str | None:
    return _private(s, scope) or _element(s.buffer, s.dtype, s.index, scope)


def _store_vector(s: StoreVector, scope: Scope) -> str | None:
    return _private(s, scope) or _read_only(s.buffer, scope) or _element(s.buffer, s.dtype, s.index, scope)


def _private(s: LoadVector | StoreVector, scope: Scope) -> str | None:
    known = scope.arrays.get(s.array)
    if not isinstance(known, Local) or not known.private or known.dtype is not s.dtype:
        return f"{s.array} is not a private array of {s.dtype.name}"
    if known.size & (known.size - 1):
        return f"private array {s.array} has {known.size} elements; a vector has a power of two"
    return None if s.count.dtype is s.index.dtype else f"the number of elements of {s.array} is {s.count.dtype.name}"


def _atomic(s: Atomic, scope: Scope) -> str | None:
    if s.function not in ("add", "min", "max"):
        return f"atomic {s.function!r}: only add, min and max are"
    return None if s.value.dtype in ATOMIC_DTYPES else f"there are no atomics on {s.value.dtype.name}"


def _condition(s: If, scope: Scope) -> str | None:
    return None if s.condition.dtype is bool_ else f"the condition is {s.condition.dtype.name}, not bool"


def _loop_variable(s: For, scope: Scope) -> str | None:
    if s.var.dtype.kind != "int" or any(e.dtype is not s.var.dtype for e in (s.start, s.stop, s.step)):
        return f"{s.var.name} and its bounds are integers of one signed dtype"
    return _new_name(s.var.name, scope)


def _bounds(s: For, scope: Scope) -> str | None:
    if s.kind is not LoopKind.SERIAL and (_number(s.start), _number(s.step)) != (0, 1):
        return f"a {s.kind.value} loop starts at 0 and has step 1"
    step = _number(s.step)
    return "the step is positive" if step is not None and step <= 0 else None


def _number(e: Expr) -> int | None:
    return int(e.value) if isinstance(e, Const) else None


def _parallel(s: For, scope: Scope) -> str | None:
    mixed = s.kind is LoopKind.PARALLEL and scope.inside(LoopKind.GROUP, LoopKind.LANE, LoopKind.VECTOR)
    return "a parallel loop does not stand inside group, lane and vector loops" if mixed else None


def _group(s: For, scope: Scope) -> str | None:
    if s.kind is not LoopKind.GROUP:
        return None
    if scope.conditional or any(o.kind is not LoopKind.GROUP for o in scope.loops) or not scope.alone:
        return "group loops enclose everything else"
    if len(scope.loops) == MAX_AXES:
        return f"there are at most {MAX_AXES} group loops"
    outside = [e for e in parts(s.stop) if isinstance(e, Load) or (
        isinstance(e, Var) and (e.name not in scope.variables or scope.variables[e.name].origin != "scalar"))]
    return "the extent of a group loop uses scalar parameters only" if outside else None


def _lane(s: For, scope: Scope) -> str | None:
    if s.kind is not LoopKind.LANE:
        return None
    if (scope.conditional or any(o.kind not in (LoopKind.GROUP, LoopKind.LANE) for o in scope.loops)
            or not scope.alone):
        return "lane loops stand directly inside the group loops and enclose everything else"
    if sum(o.kind is LoopKind.LANE for o in scope.loops) == MAX_AXES:
        return f"there are at most {MAX_AXES} lane loops"
    return None if (_number(s.stop) or 0) > 0 else "the extent of a lane loop is a positive constant"


def _vector(s: For, scope: Scope) -> str | None:
    if s.kind is not LoopKind.SERIAL and scope.inside(LoopKind.VECTOR):
        return "only serial loops stand inside a vector loop"
    if s.kind is not LoopKind.VECTOR:
        return None
    return None if (_number(s.stop) or 0) > 0 else "the extent of a vector loop is a positive constant"


def _barrier(s: Barrier, scope: Scope) -> str | None:
    if not scope.inside(LoopKind.LANE):
        return "a barrier stands inside a lane loop"
    if scope.conditional:
        return "a barrier does not stand inside a condition"
    if scope.inside(LoopKind.VECTOR) or any(
            varies(scope.varying, loop.start, loop.stop, loop.step) for loop in scope.loops):
        return "a barrier does not stand inside a loop whose extent differs between lanes"
    return None


def _reduce_placement(s: Reduce, scope: Scope) -> str | None:
    scheduled = scope.inside(LoopKind.GROUP, LoopKind.LANE, LoopKind.VECTOR)
    return "a reduction does not stand inside group, lane and vector loops" if scheduled else None


def _reduce_arity(s: Reduce, scope: Scope) -> str | None:
    counts = {len(part) for part in (s.results, s.values, s.identity, s.combine.left, s.combine.right,
                                     s.combine.values)}
    if len(counts) != 1 or not s.results:
        return "a reduction has one result, value, identity, left, right and combined value per accumulator"
    return None if s.loops else "a reduction has at least one loop"


def _reduce_dtypes(s: Reduce, scope: Scope) -> str | None:
    for result, *others in zip(s.results, s.values, s.identity, s.combine.left, s.combine.right, s.combine.values,
                               strict=False):
        wrong = next((other.dtype for other in others if other.dtype is not result.dtype), None)
        if wrong is not None:
            return f"accumulator {result.name} is {result.dtype.name}, a part of it {wrong.name}"
    return None


def _reduce_loops(s: Reduce, scope: Scope) -> str | None:
    if any(var.dtype.kind != "int" or extent.dtype is not var.dtype for var, extent in s.loops):
        return "the variables and extents of a reduction are signed integers of one dtype"
    return None


def _reduce_names(s: Reduce, scope: Scope) -> str | None:
    variables = (*(v for v, _ in s.loops), *(let.var for let in s.body), *s.results, *s.combine.left, *s.combine.right)
    names = [var.name for var in variables]
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        return f"name {double} is defined twice in a reduction"
    return next((m for name in names if (m := _new_name(name, scope)) is not None), None)


def _reduce_combine(s: Reduce, scope: Scope) -> str | None:
    sides = {var.name for var in (*s.combine.left, *s.combine.right)}
    for e in parts(*s.combine.values):
        if isinstance(e, Load):
            return "combining does not load"
        if isinstance(e, Var) and e.name not in sides and (
                e.name not in scope.variables or scope.variables[e.name].origin != "scalar"):
            return f"combining uses the two sides and scalar parameters only, not {e.name}"
    return None


def _reduce_body(s: Reduce, scope: Scope) -> str | None:
    return None if all(isinstance(b, Let) for b in s.body) else "the body of a reduction consists of lets"


# ------------------------------------------------------------------------------------------ programs and kernels


def _program_names(p: Program, scope: Scope) -> str | None:
    for kind, names in (("parameter", [x.name for x in (*p.params, *p.temporaries)]),
                        ("kernel", [k.name for k in p.kernels])):
        for name in names:
            if not _NAME.fullmatch(name):
                return f"{name!r} is not a name"
            if names.count(name) > 1:
                return f"{kind} {name} exists twice"
    return None if p.kernels else "a program has at least one kernel"


def _program_dtypes(p: Program, scope: Scope) -> str | None:
    for x in (*p.params, *p.temporaries):
        if x.dtype not in DTYPES:
            return f"kernels do not compute with {x.dtype.name} ({x.name})"
    narrow = next((s for s in p.scalars if s.dtype in NARROW), None)
    return f"scalar {narrow.name} is {narrow.dtype.name}; pass it as float32" if narrow else None


def _temporaries(p: Program, scope: Scope) -> str | None:
    wrong = next((t for t in p.temporaries if t.size.dtype.kind not in ("int", "uint")), None)
    return f"the size of temporary {wrong.name} is {wrong.size.dtype.name}, not an integer" if wrong else None


def _locals(k: Kernel, scope: Scope) -> str | None:
    for local in k.locals:
        if sum(other.name == local.name for other in k.locals) > 1 or local.name in scope.variables:
            return f"name {local.name} is taken here"
        if scope.arrays[local.name] is not local:
            return f"local array {local.name} has the name of a buffer or temporary"
        if local.size < 1 or local.dtype not in DTYPES:
            return f"local array {local.name} holds {local.size} elements of {local.dtype.name}"
    return None


RULES: Final[tuple[Rule, ...]] = (
    Rule("names", Program, _program_names),
    Rule("parameter dtypes", Program, _program_dtypes),
    Rule("sizes of temporaries", Program, _temporaries),
    Rule("local arrays", Kernel, _locals),
    Rule("dtype", Expr, _dtype),
    Rule("constant", Const, _constant),
    Rule("variable", Var, _variable),
    Rule("load", Load, _source),
    Rule("call", Call, _call),
    Rule("definition", Let, _definition),
    Rule("definition", Declare, _definition),
    Rule("assignment", Assign, _assignment),
    Rule("store", Store, _target),
    Rule("store", Atomic, _target),
    Rule("atomic", Atomic, _atomic),
    Rule("vector access", LoadVector, _load_vector),
    Rule("vector access", StoreVector, _store_vector),
    Rule("condition", If, _condition),
    Rule("loop variable", For, _loop_variable),
    Rule("loop bounds", For, _bounds),
    Rule("parallel loop", For, _parallel),
    Rule("group loop", For, _group),
    Rule("lane loop", For, _lane),
    Rule("vector loop", For, _vector),
    Rule("barrier", Barrier, _barrier),
    Rule("reduction placement", Reduce, _reduce_placement),
    Rule("reduction arity", Reduce, _reduce_arity),
    Rule("reduction dtypes", Reduce, _reduce_dtypes),
    Rule("reduction loops", Reduce, _reduce_loops),
    Rule("reduction body", Reduce, _reduce_body),
    Rule("reduction names", Reduce, _reduce_names),
    Rule("reduction combine", Reduce, _reduce_combine),
)
