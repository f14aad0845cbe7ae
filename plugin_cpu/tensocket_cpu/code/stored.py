"""Programs on disk, by the text of the nest that they follow from: neither schedule nor printer need to run again.

A file holds a scheduled program and the key of its object code. Its own key covers the nest, the target, the processor,
LLVM, Python, and the sources of everything between the nest and the code, so that other versions find nothing.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

import tensocket_plugins.ir as ir
from tensocket_plugins.contract.plans import ProgramPlan
from tensocket_plugins.ir.nodes import Program

from .compiler import Compiler, entry_names, printed
from .pointers import POINTER_FIELD

#: Folders with all code that a stored program depends on.
_SOURCES: Final = (Path(ir.__file__).parent, Path(__file__).parent)


@cache  # one entry, for the life of the process
def sources_text() -> str | None:
    """Return a digest of the sources that stored programs depend on; None if there are no sources to read."""
    digest = hashlib.blake2b()
    try:
        files = [path for folder in _SOURCES for path in sorted(folder.rglob("*.py"))]
        for path in files:
            data = path.read_bytes()
            digest.update(len(data).to_bytes(8, "little") + data)
    except OSError:
        return None
    return digest.hexdigest() if files else None


def compile_stored(compiler: Compiler, plan: ProgramPlan) -> tuple[Program, list[int], Any]:
    """Return a scheduled program, the addresses of its kernels' entries, and an object that keeps these valid.

    Raises:
        KernelError: LLVM rejects the program.
    """
    sources = sources_text() if compiler.cache.directory is not None else None
    key = None if sources is None else compiler.key(plan.text, sources, sys.version, str(POINTER_FIELD),
                                                    str(plan.draft))
    if key is not None:
        stored = _read(compiler, key)
        found = stored and compiler.load(stored[0].name, stored[1], entry_names(stored[0]))
        if stored and found:
            return stored[0], *found
    program = plan.schedule()
    text, vectors = printed(program)
    made = compiler.compile_text(program.name, text, entry_names(program), vectors=vectors, draft=plan.draft)
    if key is not None:
        compiler.cache.put(key, pickle.dumps((program, compiler.text_key(text, vectors, plan.draft))))
    return program, *made


def _read(compiler: Compiler, key: str) -> tuple[Program, str] | None:
    """Return the program and the key of its code that the cache has under a key; None if it has none."""
    data = compiler.cache.get(key)
    if data is None:
        return None
    try:
        program, code = pickle.loads(data)
    except Exception:  # any, by the nature of pickles; the file is written anew
        return None
    return (program, code) if isinstance(program, Program) and isinstance(code, str) else None
