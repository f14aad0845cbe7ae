"""Prints a program that was scheduled for kind ``cpu`` as a module of LLVM IR. Needs no LLVM itself.

The calling convention of kernels is in ``llvm_calls``.

Index arithmetic is in 64 bits without wrapping around, whatever the program's index type, so addresses are plain sums.
LLVM can analyse them if it is to vectorise loops itself, otherwise they are hidden from it (see ``Writer``). VECTOR
loops become vector instructions (``llvm_vectors``); one that calls a function of the C library stays a loop. The
iterations of PARALLEL loops are declared free of dependences, so that LLVM vectorises them without run-time checks of
aliasing. Strides of 1 that are arguments are left to LLVM's own loop versioning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...contract.dtypes import DType, int64
from ..lanes import is_vector_loop
from ..math import written_out
from ..nodes import (
    Assign,
    Atomic,
    Call,
    Const,
    Declare,
    Expr,
    For,
    If,
    IRError,
    Kernel,
    Let,
    Load,
    Local,
    LoopKind,
    Program,
    Scalar,
    Stmt,
    Store,
    Var,
)
from ..schedule.adjacent import all_vectors, prints_in_vectors, row_in_vectors
from ..schedule.nest import Names
from .llvm_calls import entry_name, slots, split_loop, walk
from .llvm_functions import INDEX_FUNCTIONS, apply, compare, element_address, index_apply
from .llvm_values import bitcast, cast, constant, memory_type, value_type
from .llvm_vectors import VectorLoop
from .llvm_writer import Metadata, Writer

#: Name that stands for all memory except local arrays.
_MEMORY = ""
_LOOPS = (LoopKind.PARALLEL, LoopKind.SERIAL, LoopKind.VECTOR)


def print_llvm(program: Program, *, settled: bool | None = None, pointer_field: int | None = None,
               internal: bool = False) -> str:
    """Return the text of a module with one function per kernel.

    Args:
        program: A program scheduled for kind ``cpu``.
        settled: ``all_vectors(program)``, if the caller knows it: no loop is left to LLVM's own passes.
        pointer_field: None if array slots hold addresses of elements. If they hold addresses of objects, which a caller
            may have at hand sooner: the byte offset of the field with the elements' address.
        internal: Whether only other functions of the module call the kernels.

    Raises:
        IRError: The program is not scheduled for kind ``cpu``, or uses a dtype or function that the printer lacks.
    """
    declarations: dict[str, str] = {}
    metadata = Metadata()
    settled = all_vectors(program) if settled is None else settled
    functions = [_KernelPrinter(program, number, kernel, Writer(declarations, settled), metadata)
                 .text(pointer_field, internal)
                 for number, kernel in enumerate(program.kernels)]
    return "\n".join([f"; {program.name}", *sorted(declarations.values()), *functions, *metadata.lines, ""])


@dataclass(frozen=True, slots=True)
class _Value:
    """The meaning of a name: a value, with its 64-bit form if it is an index, or a mutable variable in memory."""

    text: str
    wide: str | None = None
    mutable: bool = False


class _KernelPrinter:
    """Printer of one kernel."""

    def __init__(self, program: Program, number: int, kernel: Kernel, writer: Writer, metadata: Metadata) -> None:
        self.program = program
        self.kernel = kernel
        self.name = entry_name(number, kernel)
        self.split = split_loop(program, kernel)
        self.w = writer
        self.metadata = metadata
        self.names: dict[str, _Value] = {}
        self.pointers: dict[str, str] = {}
        self.local_arrays: dict[str, Local] = {}
        self.stack: list[str] = []
        self.access: str | None = None
        self.streams = {buffer.name for buffer in program.buffers if buffer.streamed}
        self.unkept = ""
        # Values of the current statement's expressions, by identity: plain and 64-bit.
        self.known: dict[int, str] = {}
        self.known_index: dict[int, str] = {}
        self.known_affine: dict[int, bool] = {}
        # Names that bodies of loops write, by the ids of the bodies.
        self.writes: dict[int, frozenset[str]] = {}

    def text(self, pointer_field: int | None, internal: bool) -> str:
        """Return the function's definition."""
        self.arguments(pointer_field)
        self.local_arrays = {local.name: local for local in self.kernel.locals}
        for local in self.kernel.locals:
            self.pointers[local.name] = self.alloca(f"[{local.size} x {memory_type(local.dtype)}]")
        self.block(self.kernel.body)
        if self.streams:
            self.w.do("fence seq_cst")  # such stores wait in their own buffers, and other threads must see them too
        self.w.do("ret void")
        linkage = "internal " if internal else ""
        head = f"define {linkage}void @{self.name}(ptr noalias readonly %args, i64 %begin, i64 %end) nounwind {{"
        return "\n".join([head, "entry:", *self.stack, *self.w.lines, "}"])

    def arguments(self, pointer_field: int | None) -> None:
        """Print the reads of the argument slots."""
        for position, item in enumerate(slots(self.program)):
            at = self.w.op(f"getelementptr i64, ptr %args, i64 {position}")
            if not isinstance(item, Scalar):
                pointer = self.w.op(f"load ptr, ptr {at}")
                if pointer_field is not None:
                    field = self.w.op(f"getelementptr i8, ptr {pointer}, i64 {pointer_field}")
                    pointer = self.w.op(f"load ptr, ptr {field}")
                self.pointers[item.name] = pointer
            elif item.dtype.kind == "float":
                number = self.w.op(f"load double, ptr {at}")
                self.names[item.name] = _Value(
                    number if item.dtype.itemsize == 8 else self.w.op(f"fptrunc double {number} to float"))
            else:
                number = self.w.op(f"load i64, ptr {at}")
                self.names[item.name] = self.integer(number, item.dtype)

    def integer(self, wide: str, dtype: DType) -> _Value:
        """Return a 64-bit integer as a value of ``dtype``."""
        text = wide if dtype.itemsize == 8 else self.w.op(f"trunc i64 {wide} to {value_type(dtype)}")
        return _Value(text, wide if dtype.kind == "int" else None)

    def alloca(self, kind: str) -> str:
        """Reserve memory on the stack, once at entry, and return its name."""
        name = "%" + self.w.fresh("a")
        self.stack.append(f"  {name} = alloca {kind}, align 64")
        return name

    # ---------------------------------------------------------------------------------------------- expressions

    def value(self, e: Expr) -> str:
        """Return the value of an expression at the current statement."""
        match e:
            case Const(number, dtype):
                return constant(number, dtype)
            case Var(name, dtype):
                known = self.variable(name)
                return self.w.load(value_type(dtype), known.text, name) if known.mutable else known.text
        if id(e) not in self.known:
            self.known[id(e)] = self.load(e) if isinstance(e, Load) else self.call(e)
        return self.known[id(e)]

    def variable(self, name: str) -> _Value:
        try:
            return self.names[name]
        except KeyError:
            raise IRError(f"kernel {self.kernel.name}: variable {name} is not defined") from None

    def call(self, e: Expr) -> str:
        if not isinstance(e, Call):
            raise IRError(f"kernel {self.kernel.name}: {type(e).__name__} is not an expression")
        if e.function == "rarely":
            return self.either(e)
        source = e.args[-1].dtype
        args = [self.value(arg) for arg in e.args]
        match e.function:
            case "select":
                kind = value_type(source)
                return self.w.op(f"select i1 {args[0]}, {kind} {args[1]}, {kind} {args[2]}")
            case "cast":
                return cast(self.w, args[0], source, e.dtype)
            case "bitcast":
                return bitcast(self.w, args[0], source, e.dtype)
            case "eq" | "ne" | "lt" | "le":
                return compare(self.w, e.function, source, *args)
        return apply(self.w, e.function, source, args)

    def either(self, e: Call) -> str:
        """Print both forms of a function: LLVM vectorises loops without branches only."""
        whole, outer = written_out(e), dict(self.known)
        value, self.known = self.value(whole), outer  # without the ids of expressions that end here
        return value

    def load(self, e: Load) -> str:
        kind = memory_type(e.dtype)
        array = e.buffer if e.buffer in self.local_arrays else _MEMORY
        value = self.w.load(kind, self.address(e.buffer, e.index, e.dtype), array, self.annotation())
        return self.w.op(f"icmp ne i8 {value}, 0") if e.dtype.kind == "bool" else value

    def pointer(self, buffer: str) -> str:
        """Return the address of an array's first element."""
        try:
            return self.pointers[buffer]
        except KeyError:
            raise IRError(f"kernel {self.kernel.name}: array {buffer} is not defined") from None

    def address(self, buffer: str, index: Expr, dtype: DType) -> str:
        """Return the address of an element."""
        return element_address(self.w, self.pointer(buffer), self.index(index), dtype)

    def streaming(self, buffer: str) -> str:
        """Return the mark of a store that bypasses the caches."""
        if buffer not in self.streams:
            return ""
        self.unkept = self.unkept or self.metadata.add("!{i32 1}")
        return f", !nontemporal {self.unkept}"

    def annotation(self) -> str:
        """Return the mark of a memory access without dependences between the iterations of the innermost loop."""
        return f", !llvm.access.group {self.access}" if self.access else ""

    def is_affine(self, e: Expr) -> bool:
        """Whether an expression is index arithmetic on known 64-bit values."""
        if isinstance(e, Var):
            return self.variable(e.name).wide is not None
        if not isinstance(e, Call):
            return isinstance(e, Const) and e.dtype.kind == "int"
        if id(e) not in self.known_affine:
            simple = e.function in INDEX_FUNCTIONS and e.dtype.kind == "int"
            self.known_affine[id(e)] = simple and all(map(self.is_affine, e.args))
        return self.known_affine[id(e)]

    def index(self, e: Expr) -> str:
        """Return an integer expression in 64 bits, for addresses and loop bounds."""
        if isinstance(e, Const):
            return str(int(e.value))
        if isinstance(e, Var) and (wide := self.variable(e.name).wide) is not None:
            return wide
        if id(e) not in self.known_index:
            if isinstance(e, Call) and e.function in INDEX_FUNCTIONS and e.dtype.kind == "int":
                found = index_apply(self.w, e.function, [self.index(arg) for arg in e.args])
            else:
                found = cast(self.w, self.value(e), e.dtype, int64)
            self.known_index[id(e)] = found
        return self.known_index[id(e)]

    # ----------------------------------------------------------------------------------------------- statements

    def block(self, statements: Sequence[Stmt]) -> None:
        """Print statements in order, in their own scope."""
        outer = dict(self.names)
        for statement in statements:
            self.forget()
            match statement:
                case Let():
                    self.let(statement)
                case Declare(var, value):
                    text = self.value(value)
                    place = self.alloca(value_type(var.dtype))
                    self.w.do(f"store {value_type(var.dtype)} {text}, ptr {place}")
                    self.names[var.name] = _Value(place, mutable=True)
                case Assign(var, value):
                    self.w.do(f"store {value_type(var.dtype)} {self.value(value)}, ptr {self.variable(var.name).text}")
                case Store(buffer, index, value):
                    self.store(buffer, index, value)
                case Atomic():
                    self.atomic(statement)
                case If():
                    self.branch(statement)
                case For() if is_vector_loop(statement):
                    outer_names = dict(self.names)
                    VectorLoop(self, statement).print()
                    self.names = outer_names
                case For() if prints_in_vectors(statement):
                    self.row(statement)
                case For() if statement.kind in _LOOPS:
                    self.loop(statement)
                case _:
                    kind = f" {statement.kind.value}" if isinstance(statement, For) else ""
                    raise IRError(f"kernel {self.kernel.name}: {type(statement).__name__}{kind} in a kernel for a "
                                  f"processor; schedule it first")
        self.names = outer

    def forget(self) -> None:
        """Forget values of expressions: a new statement begins."""
        self.known, self.known_index, self.known_affine = {}, {}, {}

    def let(self, s: Let) -> None:
        """Define a name."""
        wide = self.index(s.value) if self.is_affine(s.value) else None
        self.names[s.var.name] = _Value(self.value(s.value), wide)

    def store(self, buffer: str, index: Expr, value: Expr) -> None:
        text, place = self.value(value), self.address(buffer, index, value.dtype)
        self.write(text, place, value.dtype)

    def write(self, text: str, place: str, dtype: DType) -> None:
        if dtype.kind == "bool":
            text = self.w.op(f"zext i1 {text} to i8")
        self.w.touch()
        self.w.do(f"store {memory_type(dtype)} {text}, ptr {place}{self.annotation()}")

    def atomic(self, s: Atomic) -> None:
        """Print an indivisible instruction if threads may interfere, otherwise a plain update."""
        dtype = s.value.dtype
        value, place = self.value(s.value), self.address(s.buffer, s.index, dtype)
        if self.split is not None:
            prefix = "u" if dtype.kind == "uint" and s.function != "add" else ""
            self.w.op(f"atomicrmw {prefix}{s.function} ptr {place}, {value_type(dtype)} {value} monotonic")
            return
        old = self.w.op(f"load {memory_type(dtype)}, ptr {place}")
        self.w.do(f"store {memory_type(dtype)} {apply(self.w, s.function, dtype, [old, value])}, ptr {place}")

    def branch(self, s: If) -> None:
        inside, after = self.w.fresh("then"), self.w.fresh("after")
        self.w.do(f"br i1 {self.value(s.condition)}, label %{inside}, label %{after}")
        self.w.start(inside)
        state = self.w.enter_condition()
        self.block(s.body)
        self.w.leave_condition(state)
        self.w.do(f"br label %{after}")
        self.w.start(after)

    def row(self, s: For) -> None:
        """Print a loop over adjacent elements as loops over vectors."""
        names = Names(self.program)
        first, stop = (names.var(stem, s.var.dtype) for stem in ("first", "stop"))
        bounds = ("%begin", "%end") if s is self.split else (self.index(s.start), self.index(s.stop))
        for var, bound in zip((first, stop), bounds, strict=True):
            self.names[var.name] = self.integer(bound, var.dtype)
        self.block(row_in_vectors(s, first, stop, names))

    def loop(self, s: For, print_body: Callable[[], None] | None = None) -> None:
        """Print a loop tested at its end, after a test of whether it runs at all.

        Args:
            s: The loop.
            print_body: Prints the body in a form other than scalars.
        """
        start, stop, step = (self.index(e) for e in (s.start, s.stop, s.step))
        if s is self.split:
            start, stop = "%begin", "%end"
        body, after = self.w.fresh("loop"), self.w.fresh("after")
        counter, following = "%" + self.w.fresh("i"), "%" + self.w.fresh("next")
        enough = self.w.op(f"icmp slt i64 {start}, {stop}")
        place = len(self.w.lines)
        self.w.do("")
        self.w.enter_loop(counter, following, self.written(s.body))
        before = self.w.label
        self.w.lines[place] = f"  br i1 {enough}, label %{before}, label %{after}"
        self.w.do(f"br label %{body}")
        self.w.start(body)
        phi = len(self.w.lines)
        self.w.do("")
        outer, self.names = self.names, dict(self.names)
        self.names[s.var.name] = self.integer(counter, s.var.dtype)
        mark = ""
        if print_body is None:
            mark = self.inside(s)
        else:
            print_body()
        self.names = outer
        self.w.lines[phi] = self.w.count(counter, start, before, following)
        self.w.do(f"{following} = add nsw i64 {counter}, {step}")
        again = self.w.op(f"icmp slt i64 {following}, {stop}")
        self.w.do(f"br i1 {again}, label %{body}, label %{after}{mark}")
        self.w.leave_loop()
        self.w.start(after)

    def written(self, body: tuple[Stmt, ...]) -> frozenset[str]:
        """Return the names of variables and local arrays that statements write; the rest of memory counts as one."""
        found = self.writes.get(id(body))
        if found is None:
            names: set[str] = set()
            for s in body:
                if isinstance(s, Declare | Assign):
                    names.add(s.var.name)
                elif isinstance(s, Store | Atomic):
                    names.add(s.buffer if s.buffer in self.local_arrays else _MEMORY)
                elif isinstance(s, For | If):
                    names |= self.written(s.body)
            found = self.writes[id(body)] = frozenset(names)
        return found

    def inside(self, s: For) -> str:
        """Print a loop's body and return the annotation of its branch."""
        independent = s.kind is not LoopKind.SERIAL and not any(isinstance(t, For | Atomic) for t in walk(s.body))
        if not independent:
            self.block(s.body)
            return ""
        outer, self.access = self.access, self.metadata.add("distinct !{}")
        self.w.assume_independent(_MEMORY)
        self.block(s.body)
        free = self.metadata.add(f'!{{!"llvm.loop.parallel_accesses", {self.access}}}')
        self.access = outer
        return f", !llvm.loop {self.metadata.add(f'distinct !{{self, {free}}}')}"
