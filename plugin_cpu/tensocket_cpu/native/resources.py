"""The device's memory and threads for machine code: one block of addresses, and functions that allocate and divide.

Built-in functions serve arrays of some hundred thousand elements like small ones: large results take their memory from
the device's pool, and its workers share the iterations of a kernel. Both start when the Python code first needs them,
and write their addresses to the block. Until then, and while no worker runs (in a forked child, or after the number of
threads changed), the functions refuse, so that the next path serves the call, and starts them.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final

import numpy as np

from ..code.immortal import immortal
from ..memory.allocator import POOLED
from ..threads.worker_code import FIELDS
from .builder import NULL, Function, Operand, Value

if TYPE_CHECKING:
    from ..memory.arena import Arena
    from ..threads.workers import Workers

#: The words of the block: NumPy's context variable and the pool's handler, or 0; addresses of the number of allocations
#: until one has to fail, for tests, of the workers' ``run``, and of their shared memory, or 0.
_WORDS: Final = ("variable", "handler", "countdown", "run", "pool")


class Resources:
    """The block of one device, and helpers of machine code, which the docstrings of their writers describe.

    Machine code is never unloaded, so the block lives as long as the process.
    """

    def __init__(self) -> None:
        self._words = immortal((ctypes.c_uint64 * len(_WORDS))())

    def use_arena(self, arena: Arena) -> None:
        """Let large results come from a pool in machine code."""
        self._put(variable=id(arena.variable), countdown=arena.address_of("countdown"))
        self._put(handler=id(arena.handler))

    def use_workers(self, workers: Workers) -> None:
        """Let workers share the iterations of kernels."""
        run, pool = workers.place
        self._put(run=run)
        self._put(pool=pool)

    def _put(self, **words: int) -> None:
        for name, word in words.items():
            self._words[_WORDS.index(name)] = word

    def _word(self, f: Function, name: str) -> Value:
        return f.known(ctypes.addressof(self._words)).pointer(_WORDS.index(name))

    def divide(self, f: Function, kernel: Value, slots: Value, count: Value, pieces: Value) -> None:
        """Run a kernel."""
        run_divided(self._word(f, "run"), self._word(f, "pool"), kernel, slots, count, pieces)
        f.returns()

    def ready(self, f: Function) -> None:
        """Tell whether workers run."""
        pool = self._word(f, "pool")
        f.require(pool != NULL)
        most = f.op("i64", f"load atomic i64, ptr {pool + FIELDS['most']} acquire, align 8")
        f.returns(most > 0)

    def allocate(self, f: Function, dtype: Value, rank: Value, sizes: Value, strides: Value, nbytes: Value) -> None:
        """Return a new array; null, and no error, if the next path has to allocate."""
        is_large = nbytes.compare("uge", POOLED)
        token = f.variable(NULL)
        with f.when(is_large):
            handler = self._word(f, "handler")
            f.require(handler != NULL)
            f.require(self._word(f, "countdown")[0] == 0)
            token.value = f.api("PyContextVar_Set", self._word(f, "variable"), handler)
            with f.when(token.value == NULL):
                f.api("PyErr_Clear")
                f.returns(NULL)
        made = new_array(f, dtype, rank, sizes, strides)
        with f.when(made == NULL):
            f.api("PyErr_Clear")
        with f.when(is_large):
            failed = f.api("PyContextVar_Reset", self._word(f, "variable"), token.value)
            f.release(token.value)
            with f.when(failed != 0):
                f.api("PyErr_Clear")
        f.returns(made)


def new_array(f: Function, dtype: Value, rank: Value, sizes: Operand, strides: Operand = NULL, data: Operand = NULL,
              flags: Value | None = None) -> Value:
    """Make an array; null, and an error, if there is no memory."""
    f.retain(dtype)
    return f.api("PyArray_NewFromDescr", f.object(np.ndarray), dtype, rank, sizes, strides, data,
                 f.constant(0, "i32") if flags is None else flags, NULL)


def run_divided(run: Value, pool: Value, kernel: Value, slots: Value, count: Value, pieces: Value) -> None:
    """Run a kernel, with workers if there are pieces for several, and if ``run`` is not null."""
    f = kernel.function
    with f.when((pieces > 1) & (run != NULL)):
        f.call(run, pool, kernel, slots, count, pieces, returns="void")
    with f.otherwise():
        f.call(kernel, slots, 0, count, returns="void")
