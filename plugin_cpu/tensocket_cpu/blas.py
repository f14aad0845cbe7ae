"""The number of threads of the BLAS that NumPy brings, which multiplies matrices for this backend."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

#: Names of the function in OpenBLAS as it is built for NumPy's wheels, newest first.
_SETTERS = ("scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads", "openblas_set_num_threads64_",
            "openblas_set_num_threads")


@cache
def _setter() -> Callable[[int], Any] | None:
    """The function that sets it; None where NumPy uses a BLAS that this module does not know."""
    package = Path(np.__file__).parent
    for folder in (package.with_name("numpy.libs"), package / ".dylibs"):
        for file in sorted(folder.glob("*openblas*")):
            library = ctypes.CDLL(str(file))
            for name in _SETTERS:
                function = getattr(library, name, None)
                if function is not None:
                    function.argtypes, function.restype = [ctypes.c_int], None
                    return function  # type: ignore[no-any-return]
    return None


def set_blas_threads(threads: int) -> None:
    """Let products of matrices use ``threads`` threads, where the BLAS lets itself be told."""
    setter = _setter()
    if setter is not None:
        setter(threads)
