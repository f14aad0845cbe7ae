"""Rebuilding programs: mapping their expressions, and naming expressions with several uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from operator import is_
from typing import Self

from .nodes import (
    Assign,
    Atomic,
    Call,
    Combine,
    Declare,
    Expr,
    For,
    If,
    Let,
    Load,
    LoopKind,
    Program,
    Reduce,
    Stmt,
    Store,
    Var,
)
from .scope import parts
from .vector_access import LoadVector, StoreVector

Change = Callable[[Expr], Expr]


def children(e: Expr) -> tuple[Expr, ...]:
    """Return the direct parts of an expression."""
    return e.args if isinstance(e, Call) else (e.index,) if isinstance(e, Load) else ()


def with_children(e: Expr, new: Sequence[Expr]) -> Expr:
    """Return ``e`` with other parts; ``e`` itself if they are the same."""
    if isinstance(e, Call):
        return e if all(map(is_, e.args, new)) else Call(e.function, tuple(new), e.dtype)
    return Load(e.buffer, new[0], e.dtype) if isinstance(e, Load) and e.index is not new[0] else e


class Rewrite:
    """Function that applies ``change`` to every expression, parts before wholes. One object stays one object.

    Args:
        change: Function from an expression to another.
        concerned: Whether ``change`` affects an expression; expressions without affected parts are visited only once.
            By default, all are affected.
    """

    def __init__(self, change: Change, concerned: Callable[[Expr], bool] | None = None) -> None:
        self._change = change
        self._concerned = concerned
        # The old expressions are kept alive, so that their ids are not reused.
        self._known: dict[int, tuple[Expr, Expr]] = {}

    def expression(self, e: Expr) -> Expr:
        """Return the changed expression."""
        known = self._known
        if id(e) not in known:
            if self._concerned is not None and not any(map(self._concerned, parts(e))):
                return e
            for part in parts(e, known=known):
                new = with_children(part, [known[id(child)][1] for child in children(part)])
                known[id(part)] = part, self._change(new)
        return known[id(e)][1]

    def program(self, program: Program) -> Program:
        """Return the changed program."""
        kernels = tuple(replace(k, body=self.block(k.body)) for k in program.kernels)
        temporaries = tuple(replace(t, size=self.expression(t.size)) for t in program.temporaries)
        return replace(program, kernels=kernels, temporaries=temporaries)

    def block(self, statements: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """Return the changed statements."""
        return tuple(map(self.statement, statements))

    def statement(self, s: Stmt) -> Stmt:
        """Return the changed statement."""
        new = self.expression
        match s:
            case Let() | Declare() | Assign():
                return replace(s, value=new(s.value))
            case Store() | Atomic():
                return replace(s, index=new(s.index), value=new(s.value))
            case LoadVector() | StoreVector():
                return replace(s, index=new(s.index), count=new(s.count))
            case For():
                return replace(s, start=new(s.start), stop=new(s.stop), step=new(s.step), body=self.block(s.body))
            case If():
                return replace(s, condition=new(s.condition), body=self.block(s.body))
            case Reduce():
                combine = Combine(s.combine.left, s.combine.right, tuple(map(new, s.combine.values)))
                return Reduce(s.results, tuple((var, new(stop)) for var, stop in s.loops),
                              tuple(replace(let, value=new(let.value)) for let in s.body),
                              tuple(map(new, s.values)), tuple(map(new, s.identity)), combine)
        return s


def name_shared(program: Program) -> Program:
    """Return the same program with a ``Let`` for every call or load that a block uses more than once.

    Printers write expressions as trees: without this, an expression with shared parts grows exponentially. Bounds of
    loops other than SERIAL ones and the combine of reductions do not change; call this again after a schedule has
    turned those into statements.
    """
    namer = _Namer(program)
    return replace(program, kernels=tuple(replace(kernel, body=namer.block(kernel.body)) for kernel in program.kernels))


class _Namer:
    """Walk over a program's blocks with a supply of unused names.

    Attributes:
        uses: The parts of expressions.
        names: Names of values at the current statement, by the ids of their expressions.
    """

    def __init__(self, program: Program) -> None:
        self._taken = {x.name for x in (*program.params, *program.temporaries)}
        self._count = 0
        mutable: set[str] = set()
        for kernel in program.kernels:
            self._taken.update(local.name for local in kernel.locals)
            for s in _statements(kernel.body):
                self._taken.update(v.name for v in _variables(s))
                if isinstance(s, Declare):
                    mutable.add(s.var.name)
        self.uses = _Uses((s for kernel in program.kernels for s in _statements(kernel.body)), mutable)
        self.names: dict[int, Var] = {}

    def fresh(self, e: Expr) -> Var:
        """Return a new variable for the value of ``e``."""
        while (name := f"t{self._count}") in self._taken:
            self._count += 1
        self._count += 1
        return Var(name, e.dtype)

    def block(self, statements: Sequence[Stmt], outer: _Block | None = None) -> tuple[Stmt, ...]:
        """Return the statements with names for shared parts; names of the outer block are valid inside too."""
        with _Block(self, statements, outer) as block:
            for s in statements:
                block.out.append(self._statement(block, s))
                block.forget(s)
            return tuple(block.out)

    def _statement(self, block: _Block, s: Stmt) -> Stmt:
        match s:
            case Let():
                return Let(s.var, block.name(s.value, s.var))
            case Declare() | Assign():
                return type(s)(s.var, block.name(s.value))
            case Store():
                return Store(s.buffer, block.name(s.index), block.name(s.value))
            case Atomic():
                return replace(s, index=block.name(s.index), value=block.name(s.value))
            case LoadVector() | StoreVector():
                return replace(s, index=block.name(s.index), count=block.name(s.count))
            case If():
                return If(block.name(s.condition), self.block(s.body, block))
            case For(kind=LoopKind.SERIAL):
                start, stop, step = map(block.name, (s.start, s.stop, s.step))
                return For(s.var, start, stop, step, self.block(s.body, block), s.kind)
            case For():
                return replace(s, body=self.block(s.body, block))
            case Reduce():
                return self._reduce(s, block)
        return s

    def _reduce(self, s: Reduce, outer: _Block) -> Reduce:
        with _Block(self, [s], outer) as block:
            for let in s.body:
                block.out.append(Let(let.var, block.name(let.value, let.var)))
            values = tuple(map(block.name, s.values))
            return replace(s, body=tuple(b for b in block.out if isinstance(b, Let)), values=values)


class _Uses:
    """The parts of the expressions of statements. Ids identify expressions.

    Few calls and loads have more than one use in a whole program: blocks search only these and the expressions that
    contain them.

    Attributes:
        wanted: The expressions with more than one use, and those that contain them.
    """

    def __init__(self, statements: Iterator[Stmt], mutable: set[str]) -> None:
        self._mutable = mutable
        self._fragile: dict[int, tuple[bool, bool]] = {}
        self._bodies: dict[int, tuple[set[int], list[int]]] = {}
        seen: set[int] = set()
        self._repeated: set[int] = set()
        wholes: list[Expr] = []
        for s in statements:
            stack = [*_named_in(s)]
            while stack:
                e = stack.pop()
                if not isinstance(e, Call | Load):
                    continue
                if id(e) in seen:
                    self._repeated.add(id(e))
                else:
                    seen.add(id(e))
                    wholes.append(e)
                    stack += children(e)
        self.wanted = set(self._repeated)
        # The parts of an expression that have more than one use.
        self._children: dict[int, tuple[int, ...]] = {}
        if self._repeated:
            # An expression with one use comes after its user.
            for e in reversed(wholes):
                kids = [id(child) for child in children(e) if id(child) in self.wanted]
                if kids:
                    self.wanted.add(id(e))
                    self._children[id(e)] = tuple(child for child in kids if child in self._repeated)

    def shared(self, statements: Sequence[Stmt]) -> set[int]:
        """Return calls and loads that statements, including nested ones, use more than once."""
        if not self._repeated:
            return set()
        every, roots = self._inside(statements)
        uses = Counter(roots)
        uses.update(chain.from_iterable([self._children[e] for e in every]))
        return {e for e, count in uses.items() if count > 1}

    def _inside(self, statements: Sequence[Stmt]) -> tuple[set[int], list[int]]:
        """Return the expressions in statements with parts that may be shared, and the candidates outside of them."""
        own = [e for s in statements for e in _named_in(s)]
        found = {id(e) for e in self.parts(*own) if id(e) in self._children}
        roots = [id(e) for e in own if id(e) in self._repeated]
        for s in statements:
            if isinstance(s, For | If | Reduce):
                # Each body is visited once, although every enclosing block needs it.
                if id(s) not in self._bodies:
                    self._bodies[id(s)] = self._inside(s.body)
                expressions, others = self._bodies[id(s)]
                found |= expressions
                roots += others
        return found, roots

    def parts(self, *expressions: Expr, known: Container[int] = ()) -> list[Expr]:
        """Return ``scope.parts`` of the wanted expressions only."""
        return parts(*(e for e in expressions if id(e) in self.wanted), known=known, among=self.wanted)

    def fragile(self, e: Expr) -> tuple[bool, bool]:
        """Return whether the value of an expression can change with a store, and with an assignment."""
        known = self._fragile
        for part in parts(e, known=known):
            inner = [known[id(child)] for child in children(part)]
            known[id(part)] = (isinstance(part, Load) or any(stored for stored, _ in inner),
                               any(assigned for _, assigned in inner)
                               or (isinstance(part, Var) and part.name in self._mutable))
        return known[id(e)]


class _Block:
    """The statements of one block during rebuilding, and the names that it adds to the namer's."""

    def __init__(self, namer: _Namer, statements: Sequence[Stmt], outer: _Block | None) -> None:
        self.out: list[Stmt] = []
        self._namer = namer
        self._names = namer.names
        self._shared = namer.uses.shared(statements)
        # The names by their end: with the block, a store, or an assignment.
        self._lasting: list[int] = []
        self._stored: list[int] = []
        self._assigned: list[int] = []
        fragile = {*outer._stored, *outer._assigned} if outer else set()
        self._hidden = {key: self._names.pop(key) for key in fragile if key in self._names}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._drop((*self._lasting, *self._stored, *self._assigned))
        self._names.update(self._hidden)

    def name(self, e: Expr, own: Var | None = None) -> Expr:
        """Return ``e`` over names; new ones are defined at the block's end. ``own`` is a name that ``e`` has anyway."""
        names, shared, uses = self._names, self._shared, self._namer.uses
        if id(e) not in uses.wanted or not (names or shared):
            return e
        new: dict[int, Expr] = {}

        def named(part: Expr) -> list[Expr]:
            return [names.get(id(c)) or new.get(id(c), c) for c in children(part)]

        for part in uses.parts(e, known=names):
            key = id(part)
            inner = named(part)
            if isinstance(part, Call) and part.function == "rarely":  # its second argument stays a call
                inner[1] = with_children(part.args[1], named(part.args[1]))
            built = with_children(part, inner)
            if key in shared:
                if part is e and own is not None:
                    self._keep(e, own)
                    return built
                var = self._namer.fresh(part)
                self.out.append(Let(var, built))
                self._keep(part, var)
            elif built is not part:
                new[key] = built
        return names.get(id(e)) or new.get(id(e), e)

    def _keep(self, e: Expr, name: Var) -> None:
        self._names[id(e)] = name
        stored, assigned = self._namer.uses.fragile(e)
        if stored:
            self._stored.append(id(e))
        if assigned:
            self._assigned.append(id(e))
        if not (stored or assigned):
            self._lasting.append(id(e))

    def forget(self, s: Stmt) -> None:
        """Drop the names of values that ``s`` may change."""
        if not isinstance(s, Let | Declare | Reduce | Assign):
            self._drop(self._stored)
            self._stored = []
        if isinstance(s, Assign | For | If):
            self._drop(self._assigned)
            self._assigned = []

    def _drop(self, keys: Sequence[int]) -> None:
        for key in keys:
            self._names.pop(key, None)


def _named_in(s: Stmt) -> tuple[Expr, ...]:
    """Return the expressions of a statement whose parts are named before it."""
    match s:
        case Let() | Declare() | Assign():
            return (s.value,)
        case Store() | Atomic():
            return (s.index, s.value)
        case LoadVector() | StoreVector():
            return (s.index, s.count)
        case If():
            return (s.condition,)
        case For(kind=LoopKind.SERIAL):
            return (s.start, s.stop, s.step)
        case Reduce():
            return s.values
    return ()


def _statements(body: Sequence[Stmt]) -> Iterator[Stmt]:
    for s in body:
        yield s
        if isinstance(s, For | If | Reduce):
            yield from _statements(s.body)


def _variables(s: Stmt) -> tuple[Var, ...]:
    match s:
        case Let() | Declare() | For():
            return (s.var,)
        case Reduce():
            return (*s.results, *(v for v, _ in s.loops), *s.combine.left, *s.combine.right)
    return ()
