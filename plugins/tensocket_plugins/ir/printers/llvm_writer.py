"""Writing LLVM IR: one function's instructions, each once and outside of the loops that it does not depend on.

LLVM could do the same, but its passes over a whole module take several times as long.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

#: The values in an instruction.
_VALUES: Final = re.compile(r"%[\w.]+")
#: A sum of indices.
_SUM: Final = re.compile(r"add (?:nsw )?i64 (\S+), (\S+)")
#: Prefixes of instructions whose result may differ the next time, that have side effects, or that belong to a block.
_MEMORY: Final = ("load ", "call ", "atomicrmw ", "phi ")
#: Prefixes of instructions that may trap.
_TRAPPING: Final = ("sdiv ", "srem ", "udiv ", "urem ")


@dataclass(slots=True)
class _Loop:
    """A loop that is being printed.

    Attributes:
        written: Names of arrays and variables that its iterations write.
        before: Instructions to insert before it.
        place: Line number for these instructions.
        known: Results that are valid after it.
        untouched: Memory that may be read before the loop although it is written: no iteration has written it yet, and
            each reads only its own writes.
    """

    written: frozenset[str]
    place: int
    known: dict[str, str]
    before: list[str] = field(default_factory=list)
    untouched: str | None = None


class Writer:
    """The instructions of one function; values are numbered, blocks are labelled.

    Args:
        declarations: Lines for external functions, shared by the functions of a module.
        settled: Whether its loops need no LLVM passes: addresses are then hidden from LLVM. Otherwise its strength
            reduction takes longer than all its other passes over large register tiles, to no effect.

    Attributes:
        lanes: Number of elements of the vectors that instructions work on; 0 for scalars.
        certain: Number of loops around the innermost condition; instructions that may fail stay inside of it.
    """

    def __init__(self, declarations: dict[str, str], settled: bool) -> None:
        self.lines: list[str] = []
        self.label = "entry"
        self.lanes = 0
        self.certain = 0
        self._count = 0
        self._declarations = declarations
        self._settled = settled
        self._loops: list[_Loop] = []
        # Results that are valid at the next instruction, and the loop depth of values.
        self._known: dict[str, str] = {}
        self._depths: dict[str, int] = {}
        self._sums: dict[str, tuple[str, ...]] = {}

    def fresh(self, prefix: str) -> str:
        """Return a new name."""
        self._count += 1
        return f"{prefix}{self._count}"

    def op(self, text: str) -> str:
        """Add an instruction with a result, unless the result is known already; return the result."""
        name = self._known.get(text)
        if name is not None:
            return name
        if text.startswith(_MEMORY):
            return self._add(text, len(self._loops))
        name = self._known[text] = self._add(text, self._depth(text, self.certain if text.startswith(_TRAPPING) else 0))
        if found := _SUM.match(text):
            self._sums[name] = found.groups()
        return name

    def load(self, kind: str, place: str, array: str, annotation: str = "") -> str:
        """Read an array or variable of this name; before a loop that does not write it, once for the whole loop."""
        text = f"load {kind}, ptr {place}{annotation}"
        least = next((depth for depth in range(len(self._loops), self.certain, -1)
                      if array in self._loops[depth - 1].written and array != self._loops[depth - 1].untouched),
                     self.certain)
        return self._add(text, self._depth(text, least))

    def assume_independent(self, array: str) -> None:
        """Declare that iterations of the innermost loop do not read each other's writes to ``array``.

        Until one writes there (``touch``), reads that are common to all iterations happen once before the loop. LLVM
        knows too little about the memory to do so, and its vectoriser takes exponential time over long formulas of such
        values.
        """
        self._loops[-1].untouched = array

    def touch(self) -> None:
        """Note a write to memory, which later reads may see."""
        for loop in self._loops:
            loop.untouched = None

    def count(self, counter: str, start: str, before: str, following: str) -> str:
        """Return the instructions that begin a loop with its counter.

        Args:
            counter: Their result.
            start: Its first value.
            before: The block before the loop.
            following: Its value at the end of the block that is being written.
        """
        values = f"phi i64 [ {start}, %{before} ], [ {following}, %{self.label} ]"
        if not self._settled:
            return f"  {counter} = {values}"
        # This is no instruction at all, but LLVM does not know that.
        return f'  {counter}.known = {values}\n  {counter} = call i64 asm "", "=r,0"(i64 {counter}.known)'

    def element(self, pointer: str, kind: str, position: str) -> str:
        """Return the address of element ``position`` of an array of type ``kind``.

        The terms that a loop adds are added in that loop: the rest is then in a register.
        """
        if not self._settled:
            return self.op(f"getelementptr inbounds {kind}, ptr {pointer}, i64 {position}")
        parts: dict[int, str] = {}
        for term in self._terms(position):
            # Literals come last: instructions include them at no cost.
            depth = self._depths.get(term, 0) if term.startswith("%") else len(self._loops) + 1
            parts[depth] = self._sum(parts[depth], term) if depth in parts else term
        for _, part in sorted(parts.items()):
            pointer = self.op(f"getelementptr {kind}, ptr {pointer}, i64 {part}")
        return pointer

    def _terms(self, value: str) -> list[str]:
        """Return the terms whose sum is an index."""
        parts = self._sums.get(value)
        return [value] if parts is None else [term for part in parts for term in self._terms(part)]

    def _sum(self, left: str, right: str) -> str:
        return self.op(f"add i64 {left}, {right}") if left.startswith("%") else str(int(left) + int(right))

    def _depth(self, text: str, least: int) -> int:
        """Return the number of loops in which an instruction must be."""
        if len(self._loops) <= least:
            return len(self._loops)
        depths = self._depths
        return max([least, *[depths.get(value, 0) for value in _VALUES.findall(text)]])

    def _add(self, text: str, depth: int) -> str:
        name = "%" + self.fresh("v")
        if depth:
            self._depths[name] = depth
        lines = self.lines if depth == len(self._loops) else self._loops[depth].before
        lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Add an instruction without a result."""
        self.lines.append(f"  {text}")

    def start(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")
        self.label = label

    def enter_loop(self, counter: str, following: str, written: frozenset[str]) -> None:
        """Begin a block before a loop.

        Args:
            counter: Value that counts its iterations.
            following: Its value in the next iteration.
            written: Names of the memory that the iterations write.
        """
        self.start(self.fresh("before"))
        self._loops.append(_Loop(written, len(self.lines), self._known))
        self._known = dict(self._known)
        self._depths[counter] = self._depths[following] = len(self._loops)
        self.lines.append("")

    def leave_loop(self) -> None:
        """End the innermost loop."""
        loop = self._loops.pop()
        self.lines[loop.place] = "\n".join(loop.before)
        self._known = loop.known

    def enter_condition(self) -> tuple[int, dict[str, str]]:
        """Note that the following code may not run; return the state for ``leave_condition``."""
        state = self.certain, self._known
        self.certain, self._known = len(self._loops), dict(self._known)
        return state

    def leave_condition(self, state: tuple[int, dict[str, str]]) -> None:
        """End the innermost condition."""
        self.certain, self._known = state

    def kind(self, scalar: str) -> str:
        """Return the type of values whose elements have type ``scalar``."""
        return f"<{self.lanes} x {scalar}>" if self.lanes else scalar

    def literal(self, scalar: str, text: str) -> str:
        """Return a constant as an operand of type ``kind(scalar)``."""
        return f"splat ({scalar} {text})" if self.lanes else text

    def intrinsic(self, function: str, scalar: str, args: list[str]) -> str:
        """Call one of LLVM's own functions, which exist for vectors too."""
        suffix = {"float": "f32", "double": "f64"}[scalar]
        kind = self.kind(scalar)
        return self.call(f"llvm.{function}.{f'v{self.lanes}' if self.lanes else ''}{suffix}", kind, args, kind)

    def declare(self, name: str, result: str, args: str) -> None:
        """Declare an external function from the arguments of a call."""
        # An argument is a type and a value; the type may have spaces within brackets.
        types = [re.match(r"<[^>]*>|\S+", arg.strip()) for arg in re.split(r",(?![^<(]*[>)])", args)]
        self._declarations[name] = f"declare {result} @{name}({', '.join(t.group() for t in types if t)})"

    def call(self, name: str, result: str, args: list[str], kind: str) -> str:
        """Call an external function of ``args``, all of type ``kind``."""
        types = ", ".join([kind] * len(args))
        # Compilers may treat C's mathematical functions as pure: no code reads errno.
        self._declarations[name] = f"declare {result} @{name}({types}) nounwind willreturn memory(none)"
        text = f"call {result} @{name}({', '.join(f'{kind} {a}' for a in args)})"
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._add(text, self._depth(text, 0))
        return known


class Metadata:
    """PointwiseWithConstants metadata nodes of a module."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, text: str) -> str:
        """Add a node and return its name, for which ``self`` in the text stands."""
        name = f"!{len(self.lines)}"
        self.lines.append(f"{name} = {text.replace('self', name)}")
        return name
