"""Building and running C libraries in tests."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None or shutil.which("make") is None,
                                    reason="gcc and make are not installed")
STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]


def build(folder: Path, options: Sequence[str] = ("CFLAGS=-O2 -pedantic -Werror",)) -> None:
    """Build a library as its Makefile says, with all warnings as errors."""
    done = subprocess.run(["make", "-C", str(folder), "CC=gcc", *options], check=False,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[:3000]


def built_program(folder: Path, main: str, *flags: str) -> Path:
    """Compile a main function with the sources of a library, and return the program."""
    (folder / "main.c").write_text(main)
    sources = [str(x) for x in sorted(folder.glob("*.c"))]
    done = subprocess.run(["gcc", *STRICT, *flags, *sources, "-o", str(folder / "main"), "-lm", "-lpthread"],
                          check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[:3000]
    return folder / "main"


class Loaded:
    """A built library, called through ctypes."""

    def __init__(self, folder: Path, name: str, weights: str | None = None,
                 options: Sequence[str] = ("CFLAGS=-O2 -pedantic -Werror",)) -> None:
        build(folder, options)
        self.name, self.library = name, ctypes.CDLL(str(folder / f"lib{name}.so"))
        self.model = ctypes.c_void_p()
        path = None if weights is None else str(folder / weights).encode()
        assert self.function("init")(ctypes.byref(self.model), path) == 0

    def function(self, name: str) -> Any:
        """Return a function of the library."""
        return getattr(self.library, f"{self.name}_{name}")

    def status(self, sizes: list[int], *arrays: np.ndarray[Any, Any]) -> int:
        """Run the model on inputs and outputs, and return its result."""
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in arrays]
        return int(self.function("run")(self.model, None, *map(ctypes.c_int64, sizes), *pointers))

    def run(self, sizes: list[int], inputs: list[Any], like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Run the model, and return its output, with the form of an array."""
        output = np.full_like(like, 77)
        given = [np.ascontiguousarray(x.detach().numpy()) for x in inputs]
        assert self.status(sizes, *given, output) == 0
        return output

    def state(self, path: str, dtype: Any) -> np.ndarray[Any, Any] | None:
        """Return a copy of a parameter or buffer."""
        count = ctypes.c_size_t()
        find = self.function("state")
        find.restype = ctypes.c_void_p
        at = find(self.model, path.encode(), ctypes.byref(count))
        return None if at is None else np.frombuffer(ctypes.string_at(at, count.value), dtype).copy()

    def close(self) -> None:
        """Free the model."""
        self.function("free")(self.model)
