"""Compiles scheduled programs to machine code: LLVM IR as text, optimised for this processor, cached on disk.

The cache holds object code, not IR, so a kernel from the cache skips all of LLVM but its linker. ``stored.py`` skips
schedule and printer, too.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, overload

import llvmlite
import llvmlite.binding as llvm

from tensocket_plugins.contract.errors import KernelError
from tensocket_plugins.contract.forks import Rank, held_over_forks
from tensocket_plugins.ir.nodes import Program
from tensocket_plugins.ir.printers.llvm import print_llvm
from tensocket_plugins.ir.printers.llvm_calls import entry_name
from tensocket_plugins.ir.schedule.adjacent import all_vectors
from tensocket_plugins.kit.disk_cache import BuildStats, DiskCache

from .immortal import immortal
from .pointers import POINTER_FIELD

#: Part of the cache key. Change it with the passes below, so that code from other passes is compiled again.
_PASSES: Final = "3"


def _hold_library() -> None:
    """Make forks wait for llvmlite's own lock, which all of its functions take, even during garbage collection."""
    lock = getattr(getattr(getattr(llvm.ffi, "lib", None), "_lock", None), "_lock", None)
    if hasattr(lock, "acquire"):
        held_over_forks(lock, Rank.LIBRARIES)


def _features() -> str:
    """Return the features of this processor for LLVM; empty if LLVM cannot query it."""
    try:
        found = llvm.get_host_cpu_features()
    except RuntimeError:
        return ""
    # For Intel's processors LLVM takes vectors of 32 bytes where it could take 64: exp and log run 1.3 times faster.
    return str(found.flatten()) + (",-prefer-256-bit" if found.get("avx512f") else "")


class Compiler:
    """LLVM set up for this processor.

    Args:
        cache: The disk cache of object code.
        stats: The counters of compilation costs.
    """

    def __init__(self, cache: DiskCache, stats: BuildStats | None = None) -> None:
        self.cache = cache
        self.stats = BuildStats() if stats is None else stats
        self._lock = held_over_forks(threading.Lock(), Rank.CODE)
        self._once: dict[str, tuple[int, Any]] = {}
        _hold_library()
        self._number = itertools.count()
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._target = llvm.Target.from_default_triple()
        self._cpu = llvm.get_host_cpu_name()
        self._features = _features()
        # Code and constants are mapped separately; in a full address space, they can be farther apart than short
        # addresses reach.
        self._machine, self._draft_machine = (self._target.create_target_machine(
            cpu=self._cpu, features=self._features, opt=level, reloc="static", codemodel="large") for level in (3, 0))
        self._linker = immortal(llvm.create_lljit_compiler(self._machine))

    def compile(self, program: Program) -> tuple[list[int], Any]:
        """Compile a scheduled program to machine code.

        Returns:
            The address of each kernel's entry (see ``ir/printers/llvm_calls.py``), and an object that keeps the
            addresses valid.

        Raises:
            IRError: The program is not scheduled for a CPU.
            KernelError: LLVM rejects the printed IR.
        """
        text, vectors = printed(program)
        return self.compile_text(program.name, text, entry_names(program), vectors=vectors)

    def compile_once(self, text: str, name: str) -> tuple[int, Any]:
        """Compile a module with one function, ``name``, that many objects share; later calls return the same code."""
        found = self._once.get(text)
        if found is None:
            (address,), library = self.compile_text(name, text, [name])
            found = self._once.setdefault(text, (address, library))
        return found

    def compile_text(self, name: str, text: str, names: Sequence[str], *, vectors: bool = False,
                     draft: bool = False) -> tuple[list[int], Any]:
        """Compile a module to machine code.

        Args:
            name: The module's name in messages.
            text: LLVM IR.
            names: Functions whose addresses to return.
            vectors: Whether the hot loops are vector instructions already.
            draft: Whether the code runs only a few times, so that compiling it quickly matters more than its speed.

        Raises:
            KernelError: LLVM rejects the text.
        """
        return self._compile(name, self.text_key(text, vectors, draft), names,
                             lambda: self._build(name, text, vectors, draft))

    def text_key(self, text: str, vectors: bool = False, draft: bool = False) -> str:
        """Return the name under which the cache has the code of a module."""
        return self.key(text, "draft" if draft else str(vectors))

    def key(self, *parts: str) -> str:
        """Return the name under which the cache has what follows from texts, this processor and this LLVM."""
        return self.cache.key(*parts, self._cpu, self._features, self._target.triple, llvmlite.__version__,
                              str(llvm.llvm_version_info), _PASSES)

    def load(self, name: str, key: str, names: Sequence[str]) -> tuple[list[int], Any] | None:
        """Return the code that the cache has under a key as ``compile_text`` does; None if it has none."""
        return self._compile(name, key, names, None)

    @overload
    def _compile(self, name: str, key: str, names: Sequence[str], build: Callable[[], bytes]
                 ) -> tuple[list[int], Any]: ...
    @overload
    def _compile(self, name: str, key: str, names: Sequence[str], build: None) -> tuple[list[int], Any] | None: ...
    def _compile(self, name: str, key: str, names: Sequence[str], build: Callable[[], bytes] | None
                 ) -> tuple[list[int], Any] | None:
        began = time.perf_counter()
        with self._lock:
            code = self.cache.get(key)
            hit = code is not None
            try:
                if code is None:
                    if build is None:
                        return None
                    code = build()
                    self.cache.put(key, code)
                addresses, library = self._link(names, code)
            except RuntimeError as error:
                if isinstance(error, KernelError):
                    raise
                raise KernelError("compile", f"program {name}", f"LLVM makes no code of it: {error}",
                                  "report this with the processor's name") from error
            self.stats.kernels += 1
            self.stats.cache_hits += hit
            self.stats.seconds += time.perf_counter() - began
        return addresses, library

    def _build(self, name: str, text: str, vectors: bool, draft: bool) -> bytes:
        try:
            module = llvm.parse_assembly(text)
            module.triple = self._target.triple
            module.data_layout = str(self._machine.target_data)
            module.verify()
        except RuntimeError as error:
            raise KernelError("compile", f"program {name}", f"LLVM rejects its kernels: {error}",
                              "report this: the printer of LLVM IR has a bug") from error
        if not draft:
            (_optimise_vectors if vectors else _optimise_loops)(module, self._machine)
        code: bytes = (self._draft_machine if draft else self._machine).emit_object(module)
        return code

    def _link(self, names: Sequence[str], code: bytes) -> tuple[list[int], Any]:
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for name in names:
            builder.export_symbol(name)
        # Threads may still run the code when its last owner goes, and built-in functions call it until the very end.
        library = immortal(builder.link(self._linker, f"program{next(self._number)}"))
        return [library[name] for name in names], library


def entry_names(program: Program) -> list[str]:
    """Return the names of the kernels' entries."""
    return [entry_name(number, kernel) for number, kernel in enumerate(program.kernels)]


def printed(program: Program) -> tuple[str, bool]:
    """Return a scheduled program as LLVM IR, and whether its hot loops are vector instructions."""
    vectors = all_vectors(program)
    return print_llvm(program, settled=vectors, pointer_field=POINTER_FIELD), vectors


def _optimise_vectors(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """Run the few passes that vector instructions need: promote arrays to registers, simplify index arithmetic.

    Schedules and the printer have done the rest; LLVM's own pipeline takes ten times as long and finds nothing more.
    """
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    passes = llvm.create_new_module_pass_manager()
    passes.add_simplify_cfg_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)


def _optimise_loops(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """Run LLVM's own passes on scalar loops; higher levels specialise loops and are no faster here."""
    tuning = llvm.create_pipeline_tuning_options(speed_level=1)
    tuning.loop_vectorization = True
    # Vectorised loops are interleaved anyway. Unrolling, above all that of VECTOR loops before they are vectorised,
    # makes sums 3 times as slow to build and 6 times as slow to run; vectorising straight-line code finds nothing.
    tuning.loop_unrolling = False
    tuning.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
