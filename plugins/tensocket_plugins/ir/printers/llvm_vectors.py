"""VECTOR loops as vector instructions: one lane per iteration.

Values that differ between iterations are vectors; the printer of the kernel prints all others as scalars. An index that
grows by one from lane to lane reads or writes adjacent elements at once; other indices gather and scatter. ``If``
becomes a mask: masked elements are neither read nor written. SERIAL loops inside run for all lanes together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from ...contract.dtypes import DType, int32, int64
from ..math import rare_form
from ..nodes import Assign, Call, Const, Declare, Expr, For, If, Let, Load, Stmt, Store, Var
from .llvm_branches import where_any
from .llvm_functions import apply, compare, element_address, index_apply
from .llvm_shuffles import Spread, fits, shuffled
from .llvm_values import bitcast, cast, choose, constant, memory_type, value_type
from .llvm_writer import Writer
from .scalar_printer import ScalarPrinter

#: Bytes of a cache line.
LINE: Final = 64
#: Spelling of element types in the names of intrinsics.
_MANGLED = {"half": "f16", "float": "f32", "double": "f64"}


@dataclass(frozen=True, slots=True)
class _Lanes:
    """A name that differs between lanes: a vector or its memory; for an index, the first lane's and the step."""

    text: str
    first: str | None = None
    step: int = 0
    mutable: bool = False


class VectorLoop:
    """Printer of one loop for which ``is_vector_loop`` holds."""

    def __init__(self, outer: ScalarPrinter, loop: For) -> None:
        self._outer = outer
        self._w = outer.w
        self._loop = loop
        assert isinstance(loop.stop, Const)
        self._lanes = int(loop.stop.value)
        self._names: dict[str, _Lanes] = {}
        self._mask: str | None = None
        self._known: dict[int, str] = {}
        self._differs: dict[int, bool] = {}

    def print(self) -> None:
        """Print the loop."""
        kind = value_type(self._loop.var.dtype)
        numbers = ", ".join(f"{kind} {lane}" for lane in range(self._lanes))
        self._names[self._loop.var.name] = _Lanes(f"<{numbers}>", "0", 1)
        self._block(self._loop.body)

    @contextmanager
    def _vectors(self) -> Iterator[Writer]:
        """Set the writer to vector instructions for a block."""
        self._w.lanes = self._lanes
        try:
            yield self._w
        finally:
            self._w.lanes = 0

    def _kind(self, scalar: str) -> str:
        return f"<{self._lanes} x {scalar}>"

    # ----------------------------------------------------------------------------------------------- statements

    def _block(self, statements: Sequence[Stmt]) -> None:
        for statement in statements:
            self._forget()
            match statement:
                case Let(var, value):
                    self._let(var, value)
                case Declare(var, value):
                    kind = self._kind(value_type(var.dtype))
                    text, place = self._vector(value), self._outer.alloca(kind)
                    self._w.do(f"store {kind} {text}, ptr {place}")
                    self._names[var.name] = _Lanes(place, mutable=True)
                case Assign(var, value):
                    place, kind = self._names[var.name].text, self._kind(value_type(var.dtype))
                    text = self._blend(self._vector(value), place, value_type(var.dtype))
                    self._w.do(f"store {kind} {text}, ptr {place}")
                case Store(buffer, index, value):
                    self._store(buffer, index, value)
                case If(condition, inside):
                    self._masked(condition, inside)
                case For():
                    self._outer.loop(statement, partial(self._inside, statement.body))

    def _inside(self, body: Sequence[Stmt]) -> None:
        """Print the body of a loop; names that it defines are valid only inside."""
        before = dict(self._names)
        self._block(body)
        self._names = before

    def _forget(self) -> None:
        self._outer.forget()
        self._known, self._differs = {}, {}

    def _let(self, var: Var, value: Expr) -> None:
        if not self._varies(value):
            self._names.pop(var.name, None)
            self._outer.let(Let(var, value))
            return
        affine = self._affine(value) if var.dtype.kind == "int" else None
        self._names[var.name] = _Lanes(self._vector(value), *(affine or ()))

    def _masked(self, condition: Expr, inside: Sequence[Stmt]) -> None:
        before, mask = self._mask, self._vector(condition)
        self._mask = mask if before is None else self._w.op(f"and {self._kind('i1')} {before}, {mask}")
        self._block(inside)
        self._mask = before

    def _blend(self, text: str, place: str, scalar: str) -> str:
        """Return ``text`` in the unmasked lanes, and the value at ``place`` in the others."""
        if self._mask is None:
            return text
        old = self._w.op(f"load {self._kind(scalar)}, ptr {place}")
        with self._vectors() as w:
            return choose(w, self._mask, text, old, scalar)

    # ---------------------------------------------------------------------------------------------- expressions

    def _varies(self, e: Expr) -> bool:
        """Whether an expression differs between lanes. A masked load counts: it must not happen without the mask."""
        if isinstance(e, Const):
            return False
        if isinstance(e, Var):
            return e.name in self._names
        if id(e) not in self._differs:
            if isinstance(e, Load):
                guarded = self._mask is not None and e.buffer not in self._outer.local_arrays
                self._differs[id(e)] = guarded or self._varies(e.index)
            else:
                self._differs[id(e)] = isinstance(e, Call) and any(map(self._varies, e.args))
        return self._differs[id(e)]

    def _vector(self, e: Expr) -> str:
        """Return the value of an expression in every lane."""
        if isinstance(e, Const):
            return f"splat ({value_type(e.dtype)} {constant(e.value, e.dtype)})"
        if isinstance(e, Var) and e.name in self._names:
            known = self._names[e.name]
            kind = self._kind(value_type(e.dtype))
            return self._w.load(kind, known.text, e.name) if known.mutable else known.text
        if id(e) not in self._known:
            if not self._varies(e):
                text = self._splat(self._outer.value(e), value_type(e.dtype))
            else:
                text = self._load(e) if isinstance(e, Load) else self._call(e)
            self._known[id(e)] = text
        return self._known[id(e)]

    def _splat(self, text: str, scalar: str) -> str:
        kind = self._kind(scalar)
        first = self._w.op(f"insertelement {kind} poison, {scalar} {text}, i64 0")
        return self._w.op(f"shufflevector {kind} {first}, {kind} poison, {self._kind('i32')} zeroinitializer")

    def _call(self, e: Expr) -> str:
        assert isinstance(e, Call)
        source = e.args[-1].dtype
        if e.function in ("lt", "le") and source.kind == "int" and (mask := self._lanes_within(e)) is not None:
            return mask
        if e.function == "cast" and e.dtype is int32 and source is int64 and (number := self._number(e.args[0])):
            return number
        if e.function == "rarely":
            return self._rarely(e)
        args = [self._vector(arg) for arg in e.args]
        with self._vectors() as w:
            match e.function:
                case "select":
                    return choose(w, *args, value_type(source))  # type: ignore[call-arg]  # three of them
                case "cast":
                    return cast(w, args[0], source, e.dtype)
                case "bitcast":
                    return bitcast(w, args[0], source, e.dtype)
                case "eq" | "ne" | "lt" | "le":
                    return compare(w, e.function, source, *args)
            return apply(w, e.function, source, args)

    def _rarely(self, e: Call) -> str:
        """Return a function whose costly form is computed only if an unmasked lane needs it."""
        condition, _, ordinary = e.args
        rare, usual, concerned = rare_form(e), self._vector(ordinary), self._vector(condition)
        state = dict(self._known), dict(self._differs)

        def mend() -> str:
            found = self._vector(rare)
            with self._vectors() as w:
                return choose(w, concerned, found, usual, value_type(e.dtype))

        needed = concerned if self._mask is None else self._w.op(f"and {self._kind('i1')} {concerned}, {self._mask}")
        value = where_any(self._w, needed, self._lanes, self._kind(value_type(e.dtype)), usual, mend)
        self._known, self._differs = state  # without the ids of expressions that end here
        self._outer.forget()
        return value

    def _lanes_within(self, e: Call) -> str | None:
        """Return a comparison of a growing index with a bound, as a comparison of 32-bit lane numbers; else None."""
        left, right = (self._affine(arg) for arg in e.args)
        if left is None or right is None or (left[1] > 0) == (right[1] > 0) or min(left[1], right[1]) < 0:
            return None
        below = left[1] > 0
        (index, step), (bound, _) = (left, right) if below else (right, left)
        # Lanes below a number, or from it on: index + lane <= bound means lane < bound - index + 1.
        distance = index_apply(self._w, "sub", [bound, index])
        if (e.function == "le") == below:
            distance = index_apply(self._w, "add", [distance, "1"])
        if step > 1:
            # Rounded up; a non-positive number becomes 0 anyway.
            distance = self._w.op(f"sdiv i64 {index_apply(self._w, 'add', [distance, str(step - 1)])}, {step}")
        within = index_apply(self._w, "min", [index_apply(self._w, "max", [distance, "0"]), str(self._lanes)])
        limit = self._splat(self._w.op(f"trunc i64 {within} to i32"), "i32")
        numbers = ", ".join(f"i32 {lane}" for lane in range(self._lanes))
        return self._w.op(f"icmp {'ult' if below else 'uge'} {self._kind('i32')} <{numbers}>, {limit}")

    def _number(self, e: Expr) -> str | None:
        """Return an index that grows by a constant, from 64 bits, as 32-bit numbers; else None."""
        affine = self._affine(e)
        if affine is None:
            return None
        first = self._splat(self._w.op(f"trunc i64 {affine[0]} to i32"), "i32")
        steps = ", ".join(f"i32 {lane * affine[1]}" for lane in range(self._lanes))
        return self._w.op(f"add {self._kind('i32')} {first}, <{steps}>")

    def _affine(self, e: Expr) -> tuple[str, int] | None:
        """Return the first lane's index, in 64 bits, and the constant step from lane to lane; None without one."""
        if not self._varies(e):
            return self._outer.index(e), 0
        if isinstance(e, Var):
            known = self._names[e.name]
            return None if known.first is None else (known.first, known.step)
        if not isinstance(e, Call) or e.dtype.kind != "int" or e.function not in ("add", "sub", "mul"):
            return None
        left, right = (self._affine(arg) for arg in e.args)
        if left is None or right is None:
            return None
        if e.function == "mul":
            factors = [int(arg.value) for arg in e.args if isinstance(arg, Const)]
            if not factors:
                return None
            step = (left[1] or right[1]) * factors[0]
        else:
            step = left[1] + right[1] if e.function == "add" else left[1] - right[1]
        return index_apply(self._w, e.function, [left[0], right[0]]), step

    # --------------------------------------------------------------------------------------------------- memory

    def _address(self, buffer: str, first: str, dtype: DType) -> str:
        return element_address(self._w, self._outer.pointer(buffer), first, dtype)

    def _addresses(self, buffer: str, index: Expr, dtype: DType) -> str:
        with_index = self._vector(index)
        with self._vectors() as w:
            wide = cast(w, with_index, index.dtype, int64)
        return self._w.op(f"getelementptr inbounds {memory_type(dtype)}, ptr {self._outer.pointer(buffer)}, "
                          f"{self._kind('i64')} {wide}")

    def _unguarded(self, buffer: str, first: str) -> bool:
        """Whether all lanes may access the elements from ``first`` on, masked or not."""
        local = self._outer.local_arrays.get(buffer)
        inside = local is not None and first.isdigit() and int(first) + self._lanes <= local.size
        return self._mask is None or inside

    def _small(self, buffer: str, affine: tuple[str, int] | None) -> Spread | None:
        """Return the elements of a small local array at known, non-adjacent places; else None."""
        local = self._outer.local_arrays.get(buffer)
        if local is None or affine is None or affine[1] < 2 or not affine[0].isdigit():
            return None
        places = [int(affine[0]) + lane * affine[1] for lane in range(self._lanes)]
        return Spread(self._w, local, self._outer.pointer(buffer), places) if fits(local, self._lanes) else None

    def _load(self, e: Load) -> str:
        affine, element = self._affine(e.index), memory_type(e.dtype)
        kind, align = self._kind(element), e.dtype.itemsize
        if (small := self._small(e.buffer, affine)) is not None:
            text = small.read()
        elif affine is not None and affine[1] == 1:
            place = self._address(e.buffer, affine[0], e.dtype)
            if self._unguarded(e.buffer, affine[0]):
                text = self._w.op(f"load {kind}, ptr {place}, align {align}")
            else:
                args = f"ptr {place}, i32 {align}, {{mask}}, {kind} zeroinitializer"
                text = self._intrinsic("load", element, args, "p0")
        elif affine is not None and affine[1] == 0:
            text = self._load_one(self._address(e.buffer, affine[0], e.dtype), element, align)
        elif affine is not None and affine[1] == -1:
            text = self._load_backwards(e.buffer, affine[0], e.dtype)
        elif affine is not None and affine[1] == 2:
            text = self._load_every_second(self._address(e.buffer, affine[0], e.dtype), element, align)
        else:
            places = self._addresses(e.buffer, e.index, e.dtype)
            text = self._intrinsic("gather", element, f"{self._kind('ptr')} {places}, i32 {align}, {{mask}}, "
                                   f"{kind} zeroinitializer", f"v{self._lanes}p0")
        return self._w.op(f"icmp ne {kind} {text}, zeroinitializer") if e.dtype.kind == "bool" else text

    def _load_one(self, place: str, element: str, align: int) -> str:
        """Return the element at ``place`` in every lane; it is read if any lane is active."""
        kind, masks = self._kind(element), self._kind("i1")
        bits = self._w.op(f"bitcast {masks} {self._mask or 'splat (i1 true)'} to i{self._lanes}")
        any_lane = self._w.op(f"icmp ne i{self._lanes} {bits}, 0")
        first = self._w.op(f"insertelement {masks} zeroinitializer, i1 {any_lane}, i64 0")
        found = self._masked_access("load", element, self._lanes, f"ptr {place}, i32 {align}, {masks} {first}, {kind} "
                                    "zeroinitializer", "p0")
        return shuffled(self._w, kind, found, "poison", ["0"] * self._lanes)

    def _load_backwards(self, buffer: str, last: str, dtype: DType) -> str:
        """Return the elements up to ``last`` in reverse order: the first lane has the last one."""
        element, align = memory_type(dtype), dtype.itemsize
        kind, first = self._kind(element), index_apply(self._w, "sub", [last, str(self._lanes - 1)])
        place = self._address(buffer, first, dtype)
        turned = ", ".join(f"i32 {lane}" for lane in reversed(range(self._lanes)))
        if self._mask is None:
            text = self._w.op(f"load {kind}, ptr {place}, align {align}")
        else:
            truth = self._kind("i1")
            mask = self._w.op(f"shufflevector {truth} {self._mask}, {truth} poison, {self._kind('i32')} <{turned}>")
            text = self._masked_access("load", element, self._lanes, f"ptr {place}, i32 {align}, {truth} {mask}, "
                                       f"{kind} zeroinitializer", "p0")
        return self._w.op(f"shufflevector {kind} {text}, {kind} poison, {self._kind('i32')} <{turned}>")

    def _load_every_second(self, place: str, element: str, align: int) -> str:
        """Return every second element from ``place`` on, by a read of twice as many with every other masked off."""
        mask, few, many = self._mask or "splat (i1 true)", self._lanes, 2 * self._lanes
        spread = ", ".join(f"i32 {lane}, i32 {few}" for lane in range(few))
        wide = self._w.op(f"shufflevector <{few} x i1> {mask}, <{few} x i1> zeroinitializer, <{many} x i32> <{spread}>")
        found = self._masked_access("load", element, many, f"ptr {place}, i32 {align}, <{many} x i1> {wide}, "
                                    f"<{many} x {element}> zeroinitializer", "p0")
        kept = ", ".join(f"i32 {2 * lane}" for lane in range(few))
        return self._w.op(f"shufflevector <{many} x {element}> {found}, <{many} x {element}> poison, "
                          f"<{few} x i32> <{kept}>")

    def _store(self, buffer: str, index: Expr, value: Expr) -> None:
        text, affine = self._vector(value), self._affine(index)
        dtype = value.dtype
        element, align = memory_type(dtype), dtype.itemsize
        kind = self._kind(element)
        if dtype.kind == "bool":
            text = self._w.op(f"zext {self._kind('i1')} {text} to {kind}")
        if self._mask is None and (small := self._small(buffer, affine)) is not None:
            small.write(text)
        elif affine is not None and affine[1] == 1:
            place = self._address(buffer, affine[0], dtype)
            if self._unguarded(buffer, affine[0]):
                mark = self._outer.streaming(buffer)
                whole = min(LINE, self._lanes * align) if mark else align
                self._w.do(f"store {kind} {self._blend(text, place, element)}, ptr {place}, align {whole}{mark}")
            else:
                self._intrinsic("store", element, f"{kind} {text}, ptr {place}, i32 {align}, {{mask}}", "p0")
        else:
            places = self._addresses(buffer, index, dtype)
            self._intrinsic("scatter", element, f"{kind} {text}, {self._kind('ptr')} {places}, i32 {align}, {{mask}}",
                            f"v{self._lanes}p0")

    def _intrinsic(self, action: str, element: str, args: str, places: str) -> str:
        """Return a masked access; ``args`` shows the position of the mask."""
        mask = self._mask or "splat (i1 true)"
        return self._masked_access(action, element, self._lanes, args.format(mask=f"{self._kind('i1')} {mask}"), places)

    def _masked_access(self, action: str, element: str, count: int, text: str, places: str) -> str:
        name = f"llvm.masked.{action}.v{count}{_MANGLED.get(element, element)}.{places}"
        result = f"<{count} x {element}>" if action in ("load", "gather") else "void"
        self._w.declare(name, result, text)
        call = f"call {result} @{name}({text})"
        if result == "void":
            self._w.do(call)
            return ""
        return self._w.op(call)
