"""Host memory: a pool reuses large blocks, which saves the page faults of fresh ones; small blocks are NumPy's.

The pool is machine code that NumPy calls (``arena``) if NumPy and LLVM support it, else Python (``tokens``).
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from tensocket_plugins.contract.arrays import Block
from tensocket_plugins.contract.backend import Allocator, MemoryStats, Stream
from tensocket_plugins.contract.dtypes import DType, uint8
from tensocket_plugins.contract.errors import ArgumentError, KernelError, OutOfMemoryError
from tensocket_plugins.kit import host_memory

from ..threads.pool import in_children
from .tokens import TokenPool, size_class

if TYPE_CHECKING:
    from ..code.compiler import Compiler
    from .arena import Arena

#: The bytes from which a block is pooled.
POOLED: Final = 1 << 16
#: The environment variable with the most bytes of pooled memory, a plain number.
_SETTING: Final = "TENSOCKET_CPU_MEMORY_LIMIT"


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 4 << 30


def _limit_of_environment() -> int | None:
    value = os.environ.get(_SETTING, "")
    if not value:
        return None
    if not value.isascii() or not value.isdigit():
        raise ArgumentError(_SETTING, f"{value!r}", "the limit is a number of bytes", "set it to an integer")
    return int(value)


class HostAllocator(Allocator):
    """A pool of large blocks.

    Args:
        limit: The most bytes of pooled memory, in use and unused; None for ``TENSOCKET_CPU_MEMORY_LIMIT`` or, if that
            is not set, no limit but the machine's.
        keep: The most unused bytes that the pool keeps; a quarter of the physical memory by default.
        compiler: Returns the compiler of the pool in machine code; called for the first large block.
        serves_kernels: Whether NumPy's large arrays inside host kernels come from the pool, too.
    """

    def __init__(self, limit: int | None = None, keep: int | None = None,
                 compiler: Callable[[], Compiler] | None = None, serves_kernels: bool = False) -> None:
        limit = _limit_of_environment() if limit is None else limit
        self._compiler = compiler
        self._serves_kernels = serves_kernels
        self._pool = TokenPool(limit, _physical_memory() // 4 if keep is None else keep)
        self._arena: Arena | None = None
        self._waiting: list[Callable[[Arena], None]] = []
        self._started = compiler is None
        self._lock = threading.Lock()
        in_children(self, HostAllocator.renew_locks)

    def renew_locks(self) -> None:
        """Replace the locks in a forked child: a thread that exists only in the parent may have held them."""
        self._lock = threading.Lock()
        if self._arena is not None:
            self._arena.unlock()

    def array(self, shape: tuple[int, ...], dtype: DType) -> NDArray[Any]:
        """Return an uninitialised C-contiguous array; a large one comes from the pool.

        Raises:
            OutOfMemoryError: The memory does not suffice, even after unused blocks were released.
        """
        return self.of(shape, dtype.numpy)

    def of(self, shape: tuple[int, ...], dtype: np.dtype[Any], operator: str = "empty") -> NDArray[Any]:
        """Return an array as ``array`` does, for a dtype of NumPy's and an operator that errors name."""
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes < POOLED:
            return np.empty(shape, dtype)
        arena = self._arena
        if arena is None:
            return self._array_slowly(shape, dtype, nbytes, operator)
        variable = arena.variable
        token = variable.set(arena.handler)
        try:
            return np.empty(shape, dtype)
        except (MemoryError, ValueError):  # NumPy raises ValueError if the array exceeds the address space
            raise self.exhausted(operator, f"{nbytes} bytes") from None
        finally:
            variable.reset(token)

    def _array_slowly(self, shape: tuple[int, ...], dtype: np.dtype[Any], nbytes: int, operator: str
                      ) -> NDArray[Any]:
        if not self._started:
            self._start()
            return self.of(shape, dtype, operator)
        try:
            return self._pool.array(shape, dtype, nbytes)
        except MemoryError:
            raise self.exhausted(operator, f"{nbytes} bytes") from None

    def _start(self) -> None:
        """Choose the pool, once."""
        with self._lock:
            if not self._started and self._compiler is not None:
                from .arena import make_arena  # needs LLVM

                with suppress(KernelError):  # without LLVM, the pool in Python serves
                    self._arena = make_arena(self._compiler(), self._pool.limit, self._pool.keep, POOLED)
                if self._arena is not None and self._serves_kernels:
                    host_memory.install(self._arena.variable, self._arena.handler, self.exhausted)
                if self._arena is not None:
                    for use in self._waiting:
                        use(self._arena)
                self._started = True

    def when_started(self, use: Callable[[Arena], None]) -> None:
        """Call ``use`` with the pool in machine code as soon as there is one."""
        with self._lock:
            self._waiting.append(use)
            if self._arena is not None:
                use(self._arena)

    def allocate(self, nbytes: int, stream: Stream) -> Block:
        """Return a block whose ``buffer`` is a flat uint8 array."""
        return Block(self.array((nbytes,), uint8), nbytes, stream)

    def free(self, block: Block) -> None:
        """Take a block back; arrays that still use its buffer keep the buffer alive."""
        block.buffer = None

    def set_limit(self, nbytes: int | None) -> None:
        """Set the most bytes of pooled memory from now on; None for no limit but the machine's."""
        self._pool.limit = nbytes
        if self._arena is not None:
            from .arena import NO_LIMIT

            self._arena["limit"] = NO_LIMIT if nbytes is None else nbytes

    def refuse_after(self, allocations: int) -> None:
        """Let one later large allocation fail, for tests of out-of-memory errors: the n-th, or none for 0."""
        if not self._started:
            self._start()
        if self._arena is not None:
            self._arena["countdown"] = allocations
        self._pool.countdown = allocations

    def stats(self) -> MemoryStats:
        """Return the bytes and counts of pooled memory."""
        arena = self._arena
        if arena is None:
            return self._pool.stats()
        return MemoryStats(arena["allocated"], arena["reserved"], arena["peak_allocated"], arena["peak_reserved"],
                           arena["allocations"], arena["frees"])

    def reset_peak(self) -> None:
        """Reset peaks to the current numbers."""
        self._pool.reset_peak()
        if self._arena is not None:
            self._arena["peak_allocated"], self._arena["peak_reserved"] = (
                self._arena["allocated"], self._arena["reserved"])

    def empty_cache(self) -> None:
        """Give unused blocks back to the system."""
        self._pool.trim()
        if self._arena is not None:
            self._arena.trim()

    def exhausted(self, operator: str, wanted: str = "an array") -> OutOfMemoryError:
        """Return the error of an allocation that failed."""
        stats, limit = self.stats(), self._pool.limit
        reason = "the system has no more memory" if limit is None else f"the limit is {limit} bytes"
        return OutOfMemoryError(
            operator, f"{wanted} on cpu; {stats.allocated} bytes are in use, {stats.reserved} reserved, the peak "
            f"was {stats.peak_allocated}", reason, "use smaller tensors, or delete some first")


__all__ = ["POOLED", "HostAllocator", "size_class"]
