"""Prints programs as C: OpenCL C, CUDA C++ or plain serial C, according to a ``Dialect``.

The text depends only on the program and the dialect, so it can be the key of a cache on disk. Parts of an expression
with several uses in a statement are computed once, before it; all parts of an expression count as evaluated, also those
that a ``select`` does not choose.

A printed kernel takes the parameters that it uses, in the program's order (an array as a pointer and an ``int64``
element offset), then the temporaries that it uses: ``kernel_params`` lists them, and ``entry_name`` gives its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ...contract.dtypes import DType
from ..nodes import (
    Assign,
    Atomic,
    Barrier,
    Buffer,
    Const,
    Declare,
    Expr,
    For,
    If,
    IRError,
    Kernel,
    Let,
    Load,
    LoopKind,
    Program,
    Reduce,
    Scalar,
    Stmt,
    Store,
    Temporary,
    Var,
    call,
)
from ..vector_access import LoadVector, StoreVector, VectorAccess, elementwise
from .dialect import RESERVED, Dialect
from .expressions import DEPTH, INDEX_DTYPES, ExpressionPrinter, parts, postorder
from .helpers import HelperSet
from .statements import lane_extent, launch_loops, loop_hint, uses, walk

#: Bytes of the widest access to memory.
WIDEST: Final = 16
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

KernelParam = Buffer | Scalar | Temporary


def print_c(program: Program, dialect: Dialect) -> str:
    """Return the source of all kernels of ``program``.

    Args:
        program: A verified program; scheduled, unless the dialect is serial.
        dialect: The language.

    Raises:
        IRError: The dialect cannot express the program.
    """
    return print_programs((program,), dialect)


def print_programs(programs: Iterable[Program], dialect: Dialect) -> str:
    """Return one source of the kernels of several programs, whose names differ.

    Args:
        programs: Programs as ``print_c`` takes them.
        dialect: The language.

    Raises:
        IRError: The dialect cannot express one of the programs.
    """
    helpers = HelperSet(dialect)
    printers = [_KernelPrinter(program, kernel, dialect, helpers) for program in programs for kernel in program.kernels]
    kernels = [printer.text() for printer in printers]
    head = [dialect.header,
            dialect.float64_header if any(p.float64 for p in printers) else "",
            dialect.atomic64_header if any(p.atomic64 for p in printers) else ""]
    top = "\n".join(part for part in head if part)
    return "\n\n".join(part for part in (top, *helpers.texts, *kernels) if part) + "\n"


def entry_name(kernel: Kernel) -> str:
    """Return the name of a printed kernel: unlike any language's functions, and easy to find in a profile."""
    return f"tensocket_{kernel.name}"


def kernel_params(program: Program, kernel: Kernel, dialect: Dialect) -> tuple[KernelParam, ...]:
    """Return the arguments of a printed kernel, in order: the parameters and then the temporaries that it uses."""
    used: set[str] = set()
    for statement in walk(kernel.body):
        arrays, roots = uses(statement, dialect)
        used |= arrays
        for e in postorder(roots)[0]:
            if isinstance(e, Var):
                used.add(e.name)
            elif isinstance(e, Load):
                used.add(e.buffer)
    return tuple(p for p in (*program.params, *program.temporaries) if p.name in used)


class _KernelPrinter:
    """Printer of one kernel."""

    def __init__(self, program: Program, kernel: Kernel, dialect: Dialect, helpers: HelperSet) -> None:
        self.program = program
        self.kernel = kernel
        self.dialect = dialect
        self.expressions = ExpressionPrinter(dialect, helpers, self.name)
        self.atomic64 = False
        self.lines: list[str] = []
        self.indent = 1
        self.temporaries = 0
        self.mutable: set[str] = set()
        self.loops = {kind: launch_loops(kernel, kind) for kind in (LoopKind.GROUP, LoopKind.LANE)}
        self.locals = {local.name: local.dtype for local in kernel.locals}
        self.private = {local.name: local.size for local in kernel.locals if local.private}
        params = (*program.params, *program.temporaries)
        self.arrays = {p.name: p.dtype for p in params if not isinstance(p, Scalar)} | self.locals

    @property
    def float64(self) -> bool:
        """Whether the kernel needs float64."""
        return self.expressions.float64

    def text(self) -> str:
        """Return the kernel's definition."""
        params = kernel_params(self.program, self.kernel, self.dialect)
        declared: list[str] = []
        for p in params:
            declared += self._declare(p)
            if isinstance(p, Buffer):
                self.line(f"{self.name(p.name)} += {self.name(p.name)}_offset;")
        for local in self.kernel.locals:
            storage = self.expressions.storage(local.dtype)
            space = self.dialect.local_space
            if local.private:
                space = self.dialect.private_space.format(bytes=_vector_bytes(local.size * local.dtype.itemsize))
            self.line(f"{space}{storage} {self.name(local.name)}[{local.size}];")
        self.block(self.kernel.body)
        lanes = [] if self.dialect.serial else [lane_extent(loop) for loop in self.loops[LoopKind.LANE]]
        x, y, z = (*reversed(lanes), 1, 1, 1)[:3]
        bounds = self.dialect.bounds.format(x=x, y=y, z=z, total=x * y * z)
        head = self.dialect.kernel.format(name=self.name(entry_name(self.kernel)), bounds=bounds)
        params_text = ",\n    ".join(declared)
        return "\n".join([f"{head}(\n    {params_text})", "{", *self.lines, "}"])

    def _declare(self, p: KernelParam) -> list[str]:
        name, storage = self.name(p.name), self.expressions.storage(p.dtype)
        if isinstance(p, Scalar):
            if p.dtype in INDEX_DTYPES:
                self.expressions.plain.add(p.name)
            return [f"{storage} {name}"]
        const = "const " if isinstance(p, Buffer) and not p.writable else ""
        pointer = f"{self.dialect.global_space}{const}{storage} *{name}"
        return [pointer, f"{self.dialect.types['int64']} {name}_offset"] if isinstance(p, Buffer) else [pointer]

    def name(self, name: str) -> str:
        """Return an identifier for a name of the IR."""
        if not _IDENTIFIER.fullmatch(name):
            raise IRError(f"{name!r} cannot be a name in {self.dialect.name}")
        # Names with a double underscore or "ts_" are reserved for the language and the printer.
        return f"{name}_v" if name in RESERVED or name.startswith(("ts_", "__")) else name

    def line(self, text: str) -> None:
        """Add a line."""
        self.lines.append("    " * self.indent + text)

    # --------------------------------------------------------------------------------------------- expressions

    def values(self, *roots: Expr) -> list[str]:
        """Return the texts of the expressions of one statement; lines for shared parts are added first."""
        order, uses = postorder(roots)
        texts: dict[int, str] = {}
        depths: dict[int, int] = {}
        plain: dict[int, bool] = {}
        for e in order:
            inner = parts(e)
            plain[id(e)] = self.expressions.is_plain(e, plain)
            text = self.expressions.node(e, [texts[id(a)] for a in inner], plain[id(e)])
            depth = 1 + max((depths[id(a)] for a in inner), default=-1)
            if inner and (uses[id(e)] > 1 or depth >= DEPTH):
                name = f"ts_{self.temporaries}"
                self.temporaries += 1
                self.line(f"const {self.expressions.type(e.dtype)} {name} = {_bare(text)};")
                text, depth = name, 0
            texts[id(e)], depths[id(e)] = text, depth
        return [texts[id(root)] for root in roots]

    # ---------------------------------------------------------------------------------------------- statements

    def block(self, statements: tuple[Stmt, ...]) -> None:
        """Print statements in order."""
        for s in statements:
            if isinstance(s, (Let, Declare)):
                self.define(s)
            elif isinstance(s, Assign):
                self.line(f"{self.name(s.var.name)} = {_bare(self.values(s.value)[0])};")
            elif isinstance(s, Store):
                self.store(s)
            elif isinstance(s, Atomic):
                self.atomic(s)
            elif isinstance(s, (LoadVector, StoreVector)):
                self.vector_access(s)
            elif isinstance(s, For):
                self.loop(s, alone=len(statements) == 1)
            elif isinstance(s, If):
                self.line(f"if ({_bare(self.values(s.condition)[0])}) {{")
                self.inner(s.body)
            elif isinstance(s, Barrier):
                self.barrier()
            elif isinstance(s, Reduce):
                self.reduce(s)
            else:
                raise IRError(f"{type(s).__name__} is not a statement")

    def inner(self, body: tuple[Stmt, ...]) -> None:
        """Print a nested block, after its opening line."""
        self.indent += 1
        self.block(body)
        self.indent -= 1
        self.line("}")

    def define(self, s: Let | Declare) -> None:
        """Print a variable, fixed or mutable."""
        text = self.values(s.value)[0]
        name, dtype = s.var.name, s.var.dtype
        if isinstance(s, Declare):
            self.mutable.add(name)
        plain = isinstance(s, Let) and dtype in INDEX_DTYPES and self._plain(s.value)
        (self.expressions.plain.add if plain else self.expressions.plain.discard)(name)
        const = "" if isinstance(s, Declare) else "const "
        self.line(f"{const}{self.expressions.type(dtype)} {self.name(name)} = {_bare(text)};")

    def _plain(self, value: Expr) -> bool:
        known: dict[int, bool] = {}
        for e in postorder((value,))[0]:
            known[id(e)] = self.expressions.is_plain(e, known)
        return known[id(value)]

    def element_dtype(self, array: str) -> DType:
        """Return the dtype of an array's elements."""
        try:
            return self.arrays[array]
        except KeyError:
            raise IRError(f"kernel {self.kernel.name}: array {array} is not defined") from None

    def store(self, s: Store) -> None:
        """Print the write of an element."""
        index, value = self.values(s.index, s.value)
        self.element_dtype(s.buffer)
        self.line(f"{self.name(s.buffer)}[{_bare(index)}] = {_bare(value)};")

    def vector_access(self, s: VectorAccess) -> None:
        """Print an access to adjacent elements: whole vectors where all exist and the address is aligned."""
        (index,) = self.values(s.index)
        size, item = self.private[s.array], s.dtype.itemsize
        one_by_one = elementwise(s, size)
        if not self.dialect.vector:
            self.loop(one_by_one, alone=False)
            return
        array, pointer = self.name(s.array), f"({self.name(s.buffer)} + {index})"
        bytes = _vector_bytes(size * item)
        vector = self.expressions.vector(s.dtype, bytes // item)
        (enough,) = self.values(s.count)
        self.line(f"if ({enough} >= {size} && ((size_t){pointer} & {bytes - 1}) == 0) {{")
        for first in range(0, size, bytes // item):
            kept = f"*({vector} *)({array} + {first})"
            there = f"*({self.dialect.global_space}{{const}}{vector} *)({pointer} + {first})"
            self.line("    " + (f"{kept} = {there.format(const='const ')};" if isinstance(s, LoadVector)
                                else f"{there.format(const='')} = {kept};"))
        self.line("} else {")
        self.inner((one_by_one,))

    def atomic(self, s: Atomic) -> None:
        """Print an atomic update of an element."""
        index, value = self.values(s.index, s.value)
        dtype = self.element_dtype(s.buffer)
        element = f"{self.name(s.buffer)}[{_bare(index)}]"
        if self.dialect.serial:
            merged = self.expressions.node(_merge(s.function, dtype), [element, value], False)
            self.line(f"{element} = {_bare(merged)};")
            return
        self.atomic64 |= dtype.itemsize == 8
        native = self.dialect.atomics.get(f"{s.function}.{dtype.name}")
        if native is not None:
            self.line(native.format(p=f"&{element}", v=_bare(value)) + ";")
            return
        space = "local" if s.buffer in self.locals else "global"
        self.line(f"{self.expressions.helpers.atomic(s.function, dtype, space)}(&{element}, {_bare(value)});")

    def barrier(self) -> None:
        """Print a barrier, at which lanes meet."""
        if self.dialect.serial:
            raise IRError(f"{self.dialect.name} has no barriers: print the unscheduled program")
        self.line(self.dialect.barrier)

    # --------------------------------------------------------------------------------------------------- loops

    def loop(self, s: For, alone: bool) -> None:
        """Print a loop, or the hardware's index in place of one; ``alone`` in its block, it needs no braces."""
        if not self.dialect.serial:
            if s.kind is LoopKind.PARALLEL:
                raise IRError(f"kernel {self.kernel.name} is not scheduled: loop {s.var.name} is PARALLEL")
            if s.kind in (LoopKind.GROUP, LoopKind.LANE):
                self.hardware_loop(s, alone)
                return
        start, stop, step = self.values(s.start, s.stop, s.step)
        # C evaluates the bound again in every iteration.
        fixed = isinstance(s.stop, Const) or (isinstance(s.stop, Var) and s.stop.name not in self.mutable)
        if not fixed:
            stop = self.temporary(s.var.dtype, stop)
        if not isinstance(s.step, Const):
            step = self.temporary(s.var.dtype, step)
        if hint := loop_hint(s, self.dialect, self.locals):
            self.line(hint)
        self.counting_loop(s.var, start, stop, step, isinstance(s.step, Const) and s.step.value == 1)
        self.inner(s.body)

    def temporary(self, dtype: DType, text: str) -> str:
        """Print a new constant variable and return its name."""
        name = f"ts_{self.temporaries}"
        self.temporaries += 1
        self.line(f"const {self.expressions.type(dtype)} {name} = {_bare(text)};")
        return name

    def counting_loop(self, var: Var, start: str, stop: str, step: str, one: bool) -> None:
        """Print the opening line of a loop."""
        name = self.name(var.name)
        self.expressions.plain.add(var.name)
        advance = f"++{name}" if one else f"{name} += {step}"
        self.line(f"for ({self.expressions.type(var.dtype)} {name} = {_bare(start)}; {name} < {stop}; {advance}) {{")

    def hardware_loop(self, s: For, alone: bool) -> None:
        """Print the block that one group or lane runs."""
        indices = self.dialect.group_index if s.kind is LoopKind.GROUP else self.dialect.lane_index
        loops = self.loops[s.kind]
        if s not in loops or len(loops) > len(indices):
            raise IRError(f"kernel {self.kernel.name}: loop {s.var.name} is not among the outermost loops, at "
                          f"most {len(indices)} of a kind")
        index = indices[len(loops) - 1 - loops.index(s)]
        self.expressions.plain.add(s.var.name)
        t = self.expressions.type(s.var.dtype)
        if not alone:
            self.line("{")
            self.indent += 1
        self.line(f"const {t} {self.name(s.var.name)} = ({t}){index};")
        self.block(s.body)
        if not alone:
            self.indent -= 1
            self.line("}")

    def reduce(self, s: Reduce) -> None:
        """Print a reduction as a serial loop nest."""
        if not self.dialect.serial:
            raise IRError(f"kernel {self.kernel.name} is not scheduled: it has a Reduce")
        self.block(tuple(Declare(r, value) for r, value in zip(s.results, s.identity, strict=True)))
        extents = [self.temporary(var.dtype, text)
                   for (var, _), text in zip(s.loops, self.values(*(e for _, e in s.loops)), strict=True)]
        for (var, _), extent in zip(s.loops, extents, strict=True):
            self.counting_loop(var, "0", extent, "", one=True)
            self.indent += 1
        left = tuple(Let(var, result) for var, result in zip(s.combine.left, s.results, strict=True))
        right = tuple(Let(var, value) for var, value in zip(s.combine.right, s.values, strict=True))
        self.block((*s.body, *left, *right))
        merged = [self.temporary(r.dtype, text)
                  for r, text in zip(s.results, self.values(*s.combine.values), strict=True)]
        for result, text in zip(s.results, merged, strict=True):
            self.line(f"{self.name(result.name)} = {text};")
        for _ in s.loops:
            self.indent -= 1
            self.line("}")


def _vector_bytes(array: int) -> int:
    """Return the bytes of one access to a private array of so many bytes."""
    return min(array, WIDEST)


def _merge(function: str, dtype: DType) -> Expr:
    return call(function, Var("left", dtype), Var("right", dtype))


def _bare(text: str) -> str:
    """Return ``text`` without brackets around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for i, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and i < len(text) - 1:
            return text
    return text[1:-1]
