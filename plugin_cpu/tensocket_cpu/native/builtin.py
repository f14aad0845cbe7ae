"""Built-in functions of the interpreter that run machine code with a table of addresses as their ``self``."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..code.immortal import immortal
from .builder import NULL, Function, Value

if TYPE_CHECKING:
    from ..code.compiler import Compiler
    from .layout import Layout

#: Flags of C functions that take an array of arguments, keyword arguments last, and a tuple of the keywords.
_FASTCALL: Final = 0x0080 | 0x0002


class _MethodDef(ctypes.Structure):
    """CPython's ``PyMethodDef``."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("doc", ctypes.c_char_p))


class Words(np.ndarray[Any, Any]):
    """Words of memory, and the owners of the addresses in them; made as ``Words(count, np.uint64)``."""

    alive: Any = None


#: Definitions of functions, by name and address; a function reads its definition until freed, so definitions stay.
_METHODS: Final[dict[tuple[str, int], _MethodDef]] = {}


@dataclass(frozen=True, slots=True)
class Code:
    """Machine code that built-in functions of one name share.

    Attributes:
        name, address: The name of the functions, and the address of their code.
        addresses: The beginning of each table.
        alive: The owners of these addresses.
    """

    name: str
    address: int
    addresses: list[int]
    alive: Any

    def table(self) -> Words:
        """Return a new table."""
        words = Words(len(self.addresses), np.uint64)
        words[:], words.alive = self.addresses, self.alive
        return words

    def method(self, words: Words) -> Callable[..., Any]:
        """Return a built-in function with a table.

        The table and its owners live as long as the function: the garbage collector does not traverse the function's
        ``self``; if it did, it could clear them before the last call.
        """
        definition = _METHODS.get((self.name, self.address))
        if definition is None:
            definition = immortal(_MethodDef(self.name.encode(), self.address, _FASTCALL, None))
            definition = _METHODS.setdefault((self.name, self.address), definition)
        table = words.view(np.ndarray)
        assert table.base is words, "NumPy skips views, but these own their memory"
        create = ctypes.pythonapi.PyCMethod_New
        create.restype = ctypes.py_object
        create.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p]
        made: Callable[..., Any] = create(ctypes.addressof(definition), table, None, None)
        return made


class Builtin(Function):
    """The machine code of a built-in function; its table is the array that is its ``self``.

    Attributes:
        args, count: The arguments, and the number of those by position.
        names: The names of the others, or null.

    Args:
        layout, name: As of any function.
        reserved: The number of words at the beginning of the table that are not addresses.
    """

    def __init__(self, layout: Layout, name: str, reserved: int = 0) -> None:
        super().__init__(layout, name, "ptr ptr i64 ptr")
        self.addresses += [0] * reserved
        own, self.args, self.count, self.names = self.parameters
        self.table = own.field("data")

    def arguments(self) -> Value:
        """Return the number of all arguments."""
        total = self.variable(self.count)
        with self.when(self.names != NULL):
            total.value = self.count + self.api("PyTuple_Size", self.names)
        return total.value

    def return_call(self, function: Value) -> None:
        """Return the result of a Python function for the same arguments."""
        self.returns(self.api("PyObject_Vectorcall", function, self.args, self.count, self.names))

    def compile(self, compiler: Compiler, name: str, *alive: Any, kernel: str = "", vectors: bool = False) -> Code:
        """Compile the function.

        Args:
            compiler: The compiler of the machine code.
            name: The function's name in Python.
            alive: The owners of the addresses in the table.
            kernel: The text of another function that this one calls.
            vectors: Whether this text needs few passes.
        """
        (address,), library = compiler.compile_text(name, kernel + self.text(), [self.name], vectors=vectors)
        return Code(name, address, self.addresses, (library, *alive))

    def make(self, compiler: Compiler, name: str, next_path: Callable[..., Any], *alive: Any, **options: Any
             ) -> Callable[..., Any]:
        """Compile and return the function; the next path serves the calls that lead to ``slow``."""
        self.label("slow")
        self.return_call(self.object(next_path))
        code = self.compile(compiler, name, next_path, *alive, **options)
        return code.method(code.table())
