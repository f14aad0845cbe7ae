"""The routine that multiplies matrices of a dtype: the backend's own where the processor can run it, else BLAS's."""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import TYPE_CHECKING, Final

from ..linear.blas import CORE_SETTING, Library, host_features
from .routine import LIBRARY, NAME, routine_text
from .shapes import shape_of

if TYPE_CHECKING:
    from ..code.compiler import Compiler

_LETTERS: Final = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
_MADE: Final[weakref.WeakKeyDictionary[Compiler, dict[tuple[str, int], int]]] = weakref.WeakKeyDictionary()


def gemm_address(compiler: Compiler, library: Library, dtype: str) -> int:
    """Return the address of the routine ``gemm`` for a dtype, compiled at the first call.

    Who names the library's kernels (``TENSOCKET_BLAS_CORETYPE``) gets them for all products.

    Args:
        compiler: Compiles the routine.
        library: The BLAS, to which the routine leaves some small products.
        dtype: A float or complex dtype's name.
    """
    foreign = library.address(f"{_LETTERS[dtype]}gemm")
    shape = None if os.environ.get(CORE_SETTING) else shape_of(dtype, host_features())
    if shape is None:
        return foreign
    made = _MADE.setdefault(compiler, {})
    if (dtype, foreign) not in made:
        (address, place), _ = compiler.compile_text(f"gemm_{dtype}", routine_text(shape), [NAME, LIBRARY], vectors=True)
        ctypes.c_void_p.from_address(place).value = foreign
        made[dtype, foreign] = address
    return made[dtype, foreign]
