"""The libraries of matrix products: one of our own, else NumPy's.

OpenBLAS has kernels for many processors and picks some when it is loaded: by its own table, which lacks processors that
are newer than it and gives them kernels of half their vector width, or as variables of the environment say, which may
be meant for other libraries of a program. Afterwards, nothing changes it. So NumPy's library, which programs load
before they load us, is left as it is, and a second one, from the package ``scipy-openblas64``, is loaded by its path,
with variables of our choice. It has one thread: products are divided by the backend's own workers.

``TENSOCKET_BLAS_CORETYPE`` is what ``OPENBLAS_CORETYPE`` is to other programs: it names the kernels of this library.
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

#: How names are spelt in OpenBLAS as it is built for wheels, with 64-bit integers and without, newest first.
_SPELLINGS: Final = ("scipy_{}_64_", "scipy_{}_", "{}_64_", "{}_")
_SETTERS: Final = ("scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads", "openblas_set_num_threads64_",
                   "openblas_set_num_threads")
_CORES: Final = ("scipy_openblas_get_corename64_", "scipy_openblas_get_corename", "openblas_get_corename64_",
                 "openblas_get_corename")
#: Features that a processor must have for the kernels called SkylakeX.
_WIDE: Final = ("avx512f", "avx512dq", "avx512cd", "avx512bw", "avx512vl")
_SETTING: Final = "TENSOCKET_BLAS_CORETYPE"
_ENVIRONMENT: Final = held_over_forks(threading.Lock(), Rank.LIBRARIES)


@dataclass(frozen=True, slots=True)
class Library:
    """A loaded BLAS and LAPACK.

    Attributes:
        handle: The library.
        spelling: How it spells the name of a routine.
        private: Whether it is ours, and has one thread.
    """

    handle: Any
    spelling: str
    private: bool

    def address(self, routine: str) -> int:
        """Address of a routine in Fortran's calling convention, ``sgemm``; 0 where it is missing."""
        function = getattr(self.handle, self.spelling.format(routine), None)
        return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0

    def core(self) -> str:
        """Return the processor whose kernels it uses; empty where it does not say."""
        for name in _CORES:
            function = getattr(self.handle, name, None)
            if function is not None:
                function.restype = ctypes.c_char_p
                return str(function().decode())
        return ""

    def set_threads(self, threads: int) -> None:
        """Use so many threads of its own, where it lets itself be told."""
        for name in _SETTERS:
            function = getattr(self.handle, name, None)
            if function is not None:
                function.argtypes, function.restype = [ctypes.c_int], None
                function(threads)
                return


@contextmanager
def environment(settings: Mapping[str, str]) -> Iterator[None]:
    """No variables for OpenBLAS in the environment but these; all are put back as they were afterwards."""
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
    """Return the kernels to ask for; None where the library's own choice is right.

    Processors of Intel are known to it. Of AMD's with 512-bit vectors it knows some, depending on its age.

    Args:
        processor: LLVM's name of it.
        features: LLVM's names of what it can do.
    """
    asked = os.environ.get(_SETTING)
    if asked:
        return asked
    return "SkylakeX" if processor.startswith("znver") and all(features.get(name) for name in _WIDE) else None


def load_private(processor: str, features: Mapping[str, bool]) -> Library | None:
    """Return a library of our own; None where the package is missing, or cannot be loaded."""
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
    """Return the library that NumPy brings; None where it uses one that this module does not know."""
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
    """LLVM's names of what this processor can do, or cannot; none where LLVM does not know how to ask it."""
    import llvmlite.binding as llvm

    try:
        features: Mapping[str, bool] = llvm.get_host_cpu_features()
    except RuntimeError:
        return {}
    return features


@cache
def best_library() -> Library | None:
    """Return the library that multiplies matrices in this process: the private one, else NumPy's, else None."""
    import llvmlite.binding as llvm

    return load_private(llvm.get_host_cpu_name(), host_features()) or numpy_library()


def set_blas_threads(threads: int) -> None:
    """Let NumPy's own products and factorisations use ``threads`` threads."""
    library = numpy_library()
    if library is not None:
        library.set_threads(threads)

