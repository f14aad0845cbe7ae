"""Rebuilding programs: mapping their expressions, and naming what an expression uses more than once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

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

Change = Callable[[Expr], Expr]


def children(e: Expr) -> tuple[Expr, ...]:
    """The direct parts of an expression."""
    return e.args if isinstance(e, Call) else (e.index,) if isinstance(e, Load) else ()


def with_children(e: Expr, new: Sequence[Expr]) -> Expr:
    """``e`` with other parts; itself where they are the same."""
    if all(a is b for a, b in zip(children(e), new, strict=True)):
        return e
    if isinstance(e, Load):
        return Load(e.buffer, new[0], e.dtype)
    return Call(e.function, tuple(new), e.dtype) if isinstance(e, Call) else e


class Rewrite:
    """Applies ``change`` to every expression, parts before wholes. What was one object stays one object."""

    def __init__(self, change: Change) -> None:
        self._change = change
        # The old expressions are kept, so that their ids stay theirs.
        self._known: dict[int, tuple[Expr, Expr]] = {}

    def expression(self, e: Expr) -> Expr:
        """The changed expression."""
        for part in parts(e):
            if id(part) not in self._known:
                new = with_children(part, [self._known[id(child)][1] for child in children(part)])
                self._known[id(part)] = part, self._change(new)
        return self._known[id(e)][1]

    def program(self, program: Program) -> Program:
        """The changed program."""
        kernels = tuple(replace(k, body=self.block(k.body)) for k in program.kernels)
        temporaries = tuple(replace(t, size=self.expression(t.size)) for t in program.temporaries)
        return replace(program, kernels=kernels, temporaries=temporaries)

    def block(self, statements: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """The changed statements."""
        return tuple(map(self.statement, statements))

    def statement(self, s: Stmt) -> Stmt:
        """The changed statement."""
        new = self.expression
        match s:
            case Let() | Declare() | Assign():
                return replace(s, value=new(s.value))
            case Store() | Atomic():
                return replace(s, index=new(s.index), value=new(s.value))
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
    """The same program with a ``Let`` for every call or load that the expressions of a block use more than once.

    Printers write expressions as trees: without this, one whose parts are shared grows exponentially. Bounds of loops
    other than SERIAL ones and the combining of reductions stay as they are; apply it again after a schedule has turned
    these into statements.
    """
    namer = _Namer(program)
    return replace(program, kernels=tuple(replace(kernel, body=namer.block(kernel.body)) for kernel in program.kernels))


class _Namer:
    """Makes names that the program does not use yet, and goes through its blocks."""

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
        self.uses = _Uses(mutable)

    def fresh(self, e: Expr) -> Var:
        """A new variable for the value of ``e``."""
        while (name := f"t{self._count}") in self._taken:
            self._count += 1
        self._count += 1
        return Var(name, e.dtype)

    def block(self, statements: Sequence[Stmt], outer: _Block | None = None) -> tuple[Stmt, ...]:
        """The statements with names for shared parts; names of the outer block hold inside, too."""
        block = _Block(self.fresh, self.uses, self.uses.shared(statements), outer)
        for s in statements:
            block.out.append(self._statement(block, s))
            block.forget(s)
        return tuple(block.out)

    def _statement(self, block: _Block, s: Stmt) -> Stmt:
        match s:
            case Let():
                return Let(s.var, block.name(s.value, s.var))
            case Declare() | Assign():
                return replace(s, value=block.name(s.value))
            case Store() | Atomic():
                return replace(s, index=block.name(s.index), value=block.name(s.value))
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
        block = _Block(self.fresh, self.uses, self.uses.shared([s]), outer)
        for let in s.body:
            block.out.append(Let(let.var, block.name(let.value, let.var)))
        values = tuple(map(block.name, s.values))
        return replace(s, body=tuple(b for b in block.out if isinstance(b, Let)), values=values)


class _Uses:
    """What the expressions of statements consist of; each is looked at once. Expressions are told by their ids.

    Attributes:
        fragile: Whether the value of an expression can change with a store, and with an assignment.
    """

    def __init__(self, mutable: set[str]) -> None:
        self.fragile: dict[int, tuple[bool, bool]] = {}
        self._mutable = mutable
        self._parts: dict[int, frozenset[int]] = {}
        self._children: dict[int, tuple[int, ...]] = {}
        self._inside: dict[int, tuple[set[int], list[int]]] = {}

    def parts(self, e: Expr) -> frozenset[int]:
        """All that an expression consists of."""
        found = self._parts.get(id(e))
        if found is None:
            for part in (every := parts(e)):
                if id(part) not in self.fragile:
                    self._learn(part)
            found = self._parts[id(e)] = frozenset(map(id, every))
        return found

    def _learn(self, e: Expr) -> None:
        if not isinstance(e, Call | Load):
            self.fragile[id(e)] = False, isinstance(e, Var) and e.name in self._mutable
            return
        inner = self._children[id(e)] = tuple(map(id, children(e)))
        self.fragile[id(e)] = (isinstance(e, Load) or any(self.fragile[part][0] for part in inner),
                               any(self.fragile[part][1] for part in inner))

    def shared(self, statements: Sequence[Stmt]) -> set[int]:
        """Calls and loads that statements, with those inside them, use more than once."""
        inside = [self._statement(s) for s in statements]
        every = set().union(*[expressions for expressions, _ in inside])
        uses = Counter(chain.from_iterable([self._children[e] for e in every if e in self._children]))
        uses.update(chain.from_iterable([roots for _, roots in inside]))
        return {e for e, count in uses.items() if count > 1 and e in self._children}

    def _statement(self, s: Stmt) -> tuple[set[int], list[int]]:
        """All expressions in a statement, and those that are no parts of others."""
        found = self._inside.get(id(s))
        if found is None:
            named = _named_in(s)
            found = self._inside[id(s)] = set().union(*map(self.parts, named)), list(map(id, named))
            for inner in s.body if isinstance(s, For | If | Reduce) else ():
                expressions, roots = self._statement(inner)
                found[0].update(expressions)
                found[1].extend(roots)
        return found


class _Block:
    """The statements of one block while they are rebuilt, and the names that hold at its end."""

    def __init__(self, fresh: Callable[[Expr], Var], uses: _Uses, shared: set[int], outer: _Block | None) -> None:
        self.out: list[Stmt] = []
        self._fresh = fresh
        self._uses = uses
        self._shared = shared
        self._names: dict[int, Var] = {}
        if outer:
            self._names.update((key, v) for key, v in outer._names.items() if not any(uses.fragile[key]))

    def name(self, e: Expr, own: Var | None = None) -> Expr:
        """``e`` over names; new ones are defined at the block's end. ``own`` is a name that ``e`` gets anyway."""
        inside = self._uses.parts(e)
        if self._shared.isdisjoint(inside) and self._names.keys().isdisjoint(inside):
            return e
        new: dict[int, Expr] = {}
        for part in parts(e):
            if id(part) in self._names:
                new[id(part)] = self._names[id(part)]
                continue
            built = with_children(part, [new[id(child)] for child in children(part)])
            if id(part) in self._shared:
                if part is e and own is not None:
                    self._names[id(part)] = own
                else:
                    self._names[id(part)] = var = self._fresh(part)
                    self.out.append(Let(var, built))
                    built = var
            new[id(part)] = built
        return new[id(e)]

    def forget(self, s: Stmt) -> None:
        """Names of values that ``s`` may have changed hold no longer."""
        if isinstance(s, Let | Declare | Reduce):
            return
        stored, assigned = not isinstance(s, Assign), isinstance(s, Assign | For | If)
        fragile = self._uses.fragile
        self._names = {key: var for key, var in self._names.items()
                       if not ((fragile[key][0] and stored) or (fragile[key][1] and assigned))}


def _named_in(s: Stmt) -> tuple[Expr, ...]:
    """The expressions of a statement whose parts get names in front of it."""
    match s:
        case Let() | Declare() | Assign():
            return (s.value,)
        case Store() | Atomic():
            return (s.index, s.value)
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
