"""The BLAS library: a private OpenBLAS, else NumPy's.

OpenBLAS has kernels for many processors and chooses among them once, when it is loaded. It chooses by its own table,
which lacks processors that are newer than the library and gives them kernels of half their vector width, or by
environment variables, which may be meant for other libraries of a program. So this module leaves NumPy's library alone,
which programs load before this backend. It loads a second one, from the package ``scipy-openblas64``, by its path and
with its own variables. That library has one thread: the backend's workers divide products.

``TENSOCKET_BLAS_CORETYPE`` names the kernels of the private library, as ``OPENBLAS_CORETYPE`` does in other programs.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.forks import Rank, held_over_forks

#: The spellings of names in the OpenBLAS builds of wheels, with and without 64-bit integers, newest first.
_SPELLINGS: Final = ("scipy_{}_64_", "scipy_{}_", "{}_64_", "{}_")
_SETTERS: Final = ("scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads", "openblas_set_num_threads64_",
                   "openblas_set_num_threads")
_CORES: Final = ("scipy_openblas_get_corename64_", "scipy_openblas_get_corename", "openblas_get_corename64_",
                 "openblas_get_corename")
#: Features that a processor must have for the kernels called SkylakeX.
_WIDE: Final = ("avx512f", "avx512dq", "avx512cd", "avx512bw", "avx512vl")
#: The setting that names the library's kernels.
CORE_SETTING: Final = "TENSOCKET_BLAS_CORETYPE"
_ENVIRONMENT: Final = held_over_forks(threading.Lock(), Rank.LIBRARIES)


@dataclass(frozen=True, slots=True)
class Library:
    """A loaded BLAS and LAPACK.

    Attributes:
        handle: The library.
        spelling: The format of its routines' names.
        private: Whether it is the backend's own, with one thread.
    """

    handle: Any
    spelling: str
    private: bool

    def address(self, routine: str) -> int:
        """Return the address of a routine with Fortran's calling convention, such as ``sgemm``; 0 if it is missing."""
        function = getattr(self.handle, self.spelling.format(routine), None)
        return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0

    def core(self) -> str:
        """Return the processor whose kernels the library uses; empty if it does not report it."""
        for name in _CORES:
            function = getattr(self.handle, name, None)
            if function is not None:
                function.restype = ctypes.c_char_p
                return str(function().decode())
        return ""

    def set_threads(self, threads: int) -> None:
        """Set the number of the library's own threads, if it has a function for that."""
        for name in _SETTERS:
            function = getattr(self.handle, name, None)
            if function is not None:
                function.argtypes, function.restype = [ctypes.c_int], None
                function(threads)
                return


@contextmanager
def environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Replace all OpenBLAS variables of the environment by ``settings``, and restore them afterwards."""
    with _ENVIRONMENT:
        before = {name: value for name, value in os.environ.items() if name.startswith("OPENBLAS_")}
        for name in before:
            del os.environ[name]
        os.environ.update(settings)
        try:
            yield
        finally:
            for name in settings:
                os.environ.pop(name, None)
            os.environ.update(before)


def core_type(processor: str, features: Mapping[str, bool]) -> str | None:
    """Return the kernels to request from the library; None if its own choice is right.

    The library knows Intel's processors. Of AMD's with 512-bit vectors it knows some, depending on its version.

    Args:
        processor: LLVM's name of the processor.
        features: LLVM's names of the processor's features.
    """
    requested = os.environ.get(CORE_SETTING)
    if requested:
        return requested
    return "SkylakeX" if processor.startswith("znver") and all(features.get(name) for name in _WIDE) else None


def load_private(processor: str, features: Mapping[str, bool]) -> Library | None:
    """Load the private library; None if its package is missing or cannot be loaded."""
    found = importlib.util.find_spec("scipy_openblas64")
    if found is None or found.origin is None:
        return None
    core = core_type(processor, features)
    settings = {"OPENBLAS_NUM_THREADS": "1"} | ({} if core is None else {"OPENBLAS_CORETYPE": core})
    for file in sorted((Path(found.origin).parent / "lib").glob("*openblas*")):
        if file.suffix not in (".so", ".dylib", ".dll"):
            continue
        try:
            with environment(settings):
                handle = ctypes.CDLL(str(file))
        except OSError:
            continue
        library = _spelt(handle, private=True)
        if library is not None:
            library.set_threads(1)
            return library
    return None


@cache
def numpy_library() -> Library | None:
    """Return the library in NumPy's wheel; None if NumPy uses one that this module does not know."""
    package = Path(np.__file__).parent
    for folder in (package.with_name("numpy.libs"), package / ".dylibs"):
        for file in sorted(folder.glob("*openblas*")):
            library = _spelt(ctypes.CDLL(str(file)), private=False)
            if library is not None:
                return library
    return None


def _spelt(handle: Any, *, private: bool) -> Library | None:
    for spelling in _SPELLINGS:
        if getattr(handle, spelling.format("sgemm"), None) is not None:
            return Library(handle, spelling, private)
    return None


@cache
def host_features() -> Mapping[str, bool]:
    """Return whether this processor has each feature, by LLVM's names; empty if LLVM cannot query it."""
    import llvmlite.binding as llvm

    try:
        features: Mapping[str, bool] = llvm.get_host_cpu_features()
    except RuntimeError:
        return {}
    return features


@cache
def best_library() -> Library | None:
    """Return the library for this process's matrix products: the private one, else NumPy's, else None."""
    import llvmlite.binding as llvm

    return load_private(llvm.get_host_cpu_name(), host_features()) or numpy_library()


def set_blas_threads(threads: int) -> None:
    """Set the number of threads of NumPy's own products and factorisations."""
    library = numpy_library()
    if library is not None:
        library.set_threads(threads)

