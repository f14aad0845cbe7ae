"""The pool of large blocks in machine code, as an allocator for NumPy: blocks come and go without a line of Python.

NumPy takes the memory of new arrays from a *handler* and returns it there (NEP 49); a context variable holds the
handler. While a kernel of this backend runs, the handler is this pool. All arrays that NumPy then makes, temporaries
included, reuse blocks, which saves the page faults of fresh ones. An array knows its handler; any thread may free it at
any time. Outside of kernels, NumPy's default handler serves users' own arrays.

The code is never unloaded, because arrays may be freed until the very end of the process.
"""

from __future__ import annotations

import contextvars
import ctypes
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.errors import KernelError

from ..code.immortal import immortal
from .arena_code import FIELDS, NAMES, WORDS, arena_text

if TYPE_CHECKING:
    from ..code.compiler import Compiler

#: The value that means no limit.
NO_LIMIT: Final = 1 << 62
#: The index of ``PyDataMem_SetHandler`` in NumPy's table of C functions, since NumPy 1.22.
_SET_HANDLER: Final = 304
#: The bytes of a handler's name and version, with padding.
_NAME_BYTES: Final = 128


class Arena:
    """The pool in machine code.

    Attributes:
        variable: NumPy's context variable of the handler.
        handler: The variable's value while arrays come from the pool.
    """

    variable: contextvars.ContextVar[Any]
    handler: Any

    def __init__(self, addresses: list[int]) -> None:
        self._state: Any = (ctypes.c_uint64 * WORDS)()
        self["limit"] = self["keep"] = NO_LIMIT
        self._trim: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(addresses[4])
        name = b"tensocket".ljust(_NAME_BYTES - 1, b"\0") + b"\1"
        words = (ctypes.c_uint64 * 5)(ctypes.addressof(self._state), *addresses[:4])
        self._handler: Any = ctypes.create_string_buffer(name + bytes(words), len(name) + ctypes.sizeof(words))
        # Arrays may be freed after the module is gone.
        immortal(self._state)
        immortal(self._handler)

    def address_of(self, field: str) -> int:
        """Return the address of a word of the state."""
        return ctypes.addressof(self._state) + ctypes.sizeof(ctypes.c_uint64) * FIELDS.index(field)

    def __getitem__(self, field: str) -> int:
        return int(self._state[FIELDS.index(field)])

    def __setitem__(self, field: str, value: int) -> None:
        self._state[FIELDS.index(field)] = value

    def unlock(self) -> None:
        """Release the lock in a forked child: a thread that exists only in the parent may have held it."""
        self["lock"] = 0

    def trim(self) -> None:
        """Give unused blocks back to the system."""
        self._trim(ctypes.addressof(self._state))

    def connect(self) -> bool:
        """Give NumPy the handler, and return whether it works as expected."""
        api = ctypes.pythonapi
        make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
            ("PyCapsule_New", api))
        point = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
        module: Any = np._core._multiarray_umath  # type: ignore[attr-defined]
        table = point(module._ARRAY_API, None)
        place = ctypes.c_void_p.from_address(table + ctypes.sizeof(ctypes.c_void_p) * _SET_HANDLER).value
        name = ctypes.c_char_p(b"mem_handler")
        immortal(name)
        self.handler = make(ctypes.addressof(self._handler), name, None)
        immortal(self.handler)
        select = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(place or 0)
        context = contextvars.copy_context()
        before = set(context.keys())
        context.run(select, self.handler)
        chosen = [variable for variable in context if context[variable] is self.handler]
        if len(chosen) != 1 or chosen[0] in before:
            return False
        (self.variable,) = chosen
        return self._works(module)

    def _works(self, module: Any) -> bool:
        token = self.variable.set(self.handler)
        try:
            named = module.get_handler_name() == "tensocket"
            first, small = np.zeros(1 << 15), np.zeros(3)
            place = first.__array_interface__["data"][0]
            right = named and self["allocations"] == 1 and not first.any() and not small.any() and place % 64 == 0
            first[...] = 7
            del first
            again = np.zeros(1 << 15)
            right = right and again.__array_interface__["data"][0] == place and not again.any()
            again.resize(1 << 16, refcheck=False)
        finally:
            self.variable.reset(token)
        return right and module.get_handler_name() != "tensocket"


def make_arena(compiler: Compiler, limit: int | None, keep: int, pooled: int) -> Arena | None:
    """Return the pool in machine code; None if NumPy's handlers are missing or differ, or LLVM cannot compile it.

    Args:
        compiler: LLVM.
        limit: The most bytes, in use and unused.
        keep: The most unused bytes that the pool keeps.
        pooled: The bytes from which a block is pooled.
    """
    try:
        addresses, _ = compiler.compile_text("arena", arena_text(pooled), NAMES)
        arena = Arena(addresses)
        if not arena.connect():
            return None
    except (KernelError, AttributeError, ValueError, OSError):
        return None
    arena.trim()
    arena["limit"], arena["keep"] = NO_LIMIT if limit is None else limit, keep
    for field in ("allocations", "frees", "peak_allocated", "peak_reserved"):
        arena[field] = 0
    return arena
