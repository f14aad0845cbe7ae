"""Objects that outlive the interpreter.

When an interpreter ends, it clears modules, then frees objects in no particular order, and threads of the system may
still run. Objects that C code or machine code refers to by address, without holding a reference, must therefore
never be freed: code itself, the memory of its threads, and the C structures of built-in functions.
"""

from __future__ import annotations

import ctypes
from typing import TypeVar

T = TypeVar("T")


def immortal(value: T) -> T:
    """Let an object live until the process ends, also while and after the interpreter frees all others."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
    return value
