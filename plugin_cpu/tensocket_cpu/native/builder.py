"""A builder of LLVM IR: values with operators, and functions with structured control flow.

Functions of this package that take values write instructions; their docstrings say what the instructions do. Addresses
of objects and C functions are in a table that each function reads, not in the text, so that the text is the same in
every process, and the disk cache can store its machine code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import and_
from typing import Any, Final, TypeAlias, Union
from weakref import proxy

from .layout import Layout

#: The null pointer.
NULL: Final = "null"
#: Fields that are not pointers.
_FIELD_TYPES: Final = {"rank": "i32", "flags": "i32", "number": "double", "length": "i64"}
#: The results of C functions that do not return a pointer.
_RESULT_TYPES: Final = {
    "Py_IncRef": "void", "Py_DecRef": "void", "PyErr_Clear": "void", "PyContextVar_Reset": "i32",
    "PyTuple_Size": "i64", "PyTuple_SetItem": "i32", "PyList_SetItem": "i32", "PyLong_AsLongLongAndOverflow": "i64",
    "PyObject_SetAttr": "i32", "PyType_IsSubtype": "i32", "PyArray_SetBaseObject": "i32",
    "PyObject_RichCompareBool": "i32"}
#: A value, a word, or the name of a function or of the null pointer.
Operand: TypeAlias = Union["Value", int, str]


def _type(operand: Operand) -> str:
    return operand.type if isinstance(operand, Value) else "i64" if isinstance(operand, int) else "ptr"


def _typed(operand: Operand) -> str:
    return f"{_type(operand)} {operand}"


def _arithmetic(instruction: str) -> Callable[[Value, Operand], Value]:
    return lambda x, y: x.function.op(x.type, f"{instruction} {x.type} {x}, {y}")


def _comparison(condition: str) -> Callable[[Value, Any], Value]:
    return lambda x, y: x.compare(condition, y)


class Value:
    """A value of a function, of an LLVM type; operators write the instructions that compute with it.

    A pointer plus a number is the address so many bytes further; an index counts words of 8 bytes. Division and
    comparisons are signed.
    """

    __slots__ = ("_name", "function", "type")
    __hash__ = object.__hash__

    def __init__(self, function: Function, name: str, type_: str) -> None:
        self.function, self._name, self.type = function, name, type_

    def __str__(self) -> str:
        return self._name

    def __add__(self, other: Operand) -> Value:
        if self.type == "ptr":
            return self.function.op("ptr", f"getelementptr i8, ptr {self}, i64 {other}")
        return self.function.op(self.type, f"add {self.type} {self}, {other}")

    __sub__ = _arithmetic("sub")
    __mul__ = _arithmetic("mul")
    __floordiv__ = _arithmetic("sdiv")
    __and__ = _arithmetic("and")
    __or__ = _arithmetic("or")
    __xor__ = _arithmetic("xor")
    __rshift__ = _arithmetic("lshr")
    __eq__ = _comparison("eq")  # type: ignore[assignment]
    __ne__ = _comparison("ne")  # type: ignore[assignment]
    __lt__ = _comparison("slt")
    __le__ = _comparison("sle")
    __gt__ = _comparison("sgt")
    __ge__ = _comparison("sge")

    def compare(self, condition: str, other: Operand) -> Value:
        """Compare by one of LLVM's conditions."""
        return self.function.op("i1", f"icmp {condition} {self.type} {self}, {other}")

    def select(self, yes: Operand, no: Operand) -> Value:
        """Return the first operand if this condition holds, else the second."""
        type_ = _type(no if isinstance(yes, int) else yes)
        return self.function.op(type_, f"select i1 {self}, {_typed(yes)}, {_typed(no)}")

    def cast(self, instruction: str, type_: str) -> Value:
        """Convert to another type."""
        return self.function.op(type_, f"{instruction} {self.type} {self} to {type_}")

    def load(self, offset: Operand = 0, type_: str = "ptr", options: str = "") -> Value:
        """Load the value so many bytes after this pointer."""
        place = self if isinstance(offset, int) and not offset else self + offset
        return self.function.op(type_, f"load {type_}, ptr {place}{options}")

    def field(self, name: str, type_: str = "") -> Value:
        """Load a field of an object, by its name in ``Layout``."""
        return self.load(self.function.offset(name), type_ or _FIELD_TYPES.get(name, "ptr"))

    def _place(self, index: Operand) -> Value:
        return self.function.op("ptr", f"getelementptr i64, ptr {self}, i64 {index}")

    def __getitem__(self, index: Operand) -> Value:
        return self._place(index).load(type_="i64")

    def pointer(self, index: Operand) -> Value:
        """Load an element of an array of pointers."""
        return self._place(index).load()

    def items(self) -> Value:
        """Return the address of the items of a list or tuple."""
        inside = self + self.function.offset("items")
        return (self.field("type") == self.function.object(list)).select(inside.load(), inside)

    def __setitem__(self, index: Operand, value: Operand) -> None:
        self._place(index).store(value)

    def store(self, value: Operand) -> None:
        """Store a value at this address."""
        self.function.do(f"store {_typed(value)}, ptr {self}")


class Variable:
    """A variable of a function; LLVM keeps it in a register unless its place in memory is used."""

    def __init__(self, place: Value, type_: str) -> None:
        self.place, self._type = place, type_

    @property
    def value(self) -> Value:
        """The value at this point of the function."""
        return self.place.load(type_=self._type)

    @value.setter
    def value(self, value: Operand) -> None:
        self.place.store(value)


class Function:
    """A function; its parameters' types stand in a text, and the first one is the table of addresses.

    ``require`` leads to the label ``slow``. It and ``failed`` return null, unless the function has its own lines there.

    Attributes:
        addresses: The contents of the table, which the function shares with its helpers.
    """

    def __init__(self, layout: Layout | None, name: str, types: str, returns: str = "ptr", linkage: str = "") -> None:
        self.layout, self.name, self._returns, self._linkage = layout, name, returns, linkage
        self._me = proxy(self)  # a cycle of references would delay the end of all values
        self.parameters = [Value(self._me, f"%p{k}", type_) for k, type_ in enumerate(types.split())]
        self.table = self.parameters[0]
        self.addresses: list[int] = []
        self._helpers: dict[str, str] = {}
        self._variables: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self._is_open = True

    def text(self) -> str:
        """Return the LLVM IR of this function and its helpers."""
        for name in ("slow", "failed"):
            if f"{name}:" not in self._lines:
                self.label(name)
                self.returns(None if self._returns == "void" else "zeroinitializer")
        head = f"define {self._linkage}{self._returns} @{self.name}({', '.join(map(_typed, self.parameters))}) {{"
        helpers = [] if self._linkage else self._helpers.values()
        return "\n".join([*helpers, head, "entry:", *self._variables, *self._lines, "}", ""])

    def _next(self) -> int:
        self._count += 1
        return self._count

    def op(self, type_: str, text: str) -> Value:
        """Write an instruction with a result of a type."""
        made = Value(self._me, f"%v{self._next()}", type_)
        self.do(f"{made} = {text}")
        return made

    def do(self, text: str) -> None:
        """Write an instruction without a result."""
        self._lines.append(f"  {text}")

    def offset(self, field: str) -> int:
        """Return the byte offset of a field, by its name in ``Layout``."""
        found: int = getattr(self.layout, field)
        return found

    def known(self, address: int, type_: str = "ptr") -> Value:
        """Return an address of the table; with another type, some other word that differs between processes."""
        self.addresses.append(address)
        return self.table._place(len(self.addresses) - 1).load(type_=type_)

    def object(self, value: Any) -> Value:
        """Return a Python object; the owner of the table keeps it alive."""
        return self.known(id(value))

    def call(self, function: Value | Callable[..., None], *args: Operand, returns: str = "ptr") -> Value:
        """Call a function by its address, or a helper; the result of a void call means nothing.

        Args:
            function: The address; or a function that takes a ``Function`` and its parameters, and writes it.
            args: The arguments.
            returns: The type of the result.
        """
        name = str(function)
        if not isinstance(function, Value):
            name, args = f"@{function.__name__}", (self.table, *args)
            if function.__name__ not in self._helpers:
                self._write_helper(function, args, returns)
        text = f"call {returns} {name}({', '.join(map(_typed, args))})"
        if returns == "void":
            self.do(text)
            return self.table
        return self.op(returns, text)

    def _write_helper(self, write: Callable[..., None], args: Sequence[Operand], returns: str) -> None:
        made = Function(self.layout, write.__name__, " ".join(map(_type, args)), returns, "internal ")
        made.addresses, made._helpers = self.addresses, self._helpers
        self._helpers[write.__name__] = ""  # from now on it may call itself
        write(made, *made.parameters[1:])
        self._helpers[write.__name__] = made.text()

    def api(self, name: str, *args: Operand) -> Value:
        """Call a C function of Python or NumPy."""
        assert self.layout is not None
        return self.call(self.known(self.layout.functions[name]), *args, returns=_RESULT_TYPES.get(name, "ptr"))

    def retain(self, value: Value) -> Value:
        """Add a reference to an object, and return it."""
        self.api("Py_IncRef", value)
        return value

    def release(self, value: Value) -> None:
        """Drop a reference to an object."""
        self.api("Py_DecRef", value)

    def copy(self, to: Value, source: Value, nbytes: Operand) -> None:
        """Copy bytes."""
        self._helpers["memcpy"] = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
        self.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {nbytes}, i1 false)")

    def stack(self, count: int, type_: str = "i64") -> Value:
        """Return memory that lasts until the function returns."""
        place = Value(self._me, f"%v{self._next()}", "ptr")
        self._variables.append(f"  {place} = alloca [{count} x {type_}], align 16")
        return place

    def variable(self, value: Operand) -> Variable:
        """Return a variable."""
        made = Variable(self.stack(1, _type(value)), _type(value))
        made.value = value
        return made

    def constant(self, value: int, type_: str) -> Value:
        """Return a number that is not a word."""
        return Value(self._me, str(value), type_)

    def label(self, name: str) -> None:
        """Begin the lines that ``goto`` and ``require`` lead to."""
        if self._is_open:
            self.goto(name)
        self._lines.append(f"{name}:")
        self._is_open = True

    def _end(self, text: str) -> None:
        self.do(text)
        self._is_open = False

    def goto(self, label: str) -> None:
        """Continue at a label."""
        self._end(f"br label %{label}")

    def returns(self, value: Operand | None = None) -> None:
        """Return from the function."""
        self._end("ret void" if value is None else f"ret {self._returns} {value}")

    def _branch(self, condition: Value, label: str, otherwise: str) -> None:
        self._end(f"br i1 {condition}, label %{label}, label %{otherwise}")
        self.label(label)

    def require(self, *conditions: Value, otherwise: str = "slow") -> None:
        """Continue at a label unless all conditions hold."""
        if conditions:
            self._branch(reduce(and_, conditions), f"fit{self._next()}", otherwise)

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Run a block if a condition holds."""
        end = f"end{self._next()}"
        self._branch(condition, f"then{self._next()}", end)
        yield
        self.label(end)

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """Run a block if the condition of the ``when`` right before it does not hold."""
        jump, end = self._lines[-2], self._lines[-1].removesuffix(":")
        after = f"after{self._next()}"
        if jump == f"  br label %{end}":
            self._lines[-2] = f"  br label %{after}"
        yield
        self.label(after)

    @contextmanager
    def loop(self, count: Operand) -> Iterator[Value]:
        """Repeat a block; yield the number of the repetition, which starts at 0."""
        counter, head, done = self.variable(0), f"loop{self._next()}", f"done{self._next()}"
        self.label(head)
        number = counter.value
        self._branch(number < count, f"body{self._next()}", done)
        yield number
        counter.value = number + 1
        self.goto(head)
        self.label(done)
