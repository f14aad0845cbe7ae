"""The CPU as an opened device: array handles are NumPy arrays."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.backend import Executable, OpenDevice, Stream
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import KernelError, TensocketError
from tensocket_plugins.contract.forks import Rank, held_over_forks
from tensocket_plugins.contract.kernels import KernelTable
from tensocket_plugins.contract.launch_recorder import RECORDERS, is_recording
from tensocket_plugins.contract.plans import (
    EntryPlan,
    FactoryPlan,
    FormPlan,
    JoinPlan,
    ListPlan,
    Plan,
    ProductPlan,
    ProgramPlan,
    ReplayPlan,
    TapePlan,
    ViewPlan,
    WordsPlan,
)
from tensocket_plugins.ir.decompose import decompose
from tensocket_plugins.ir.nodes import Program
from tensocket_plugins.ir.target import Target
from tensocket_plugins.kit.disk_cache import BuildStats, DiskCache, default_directory
from tensocket_plugins.kit.host_kernels import register_host_kernels

from . import DESCRIPTOR
from .code.executable import make_executable
from .code.pointers import address_of
from .kernels.attention import Attention
from .kernels.convolution import Convolutions
from .kernels.memcpy_kernels import RunCopies
from .kernels.recurrent import Recurrences
from .linear.blas import Library, best_library, host_features, set_blas_threads
from .linear.lapack import install_lapack
from .linear.products import Multiply, NumpyProducts, Parts, register_products
from .memory.allocator import HostAllocator
from .threads.pool import ThreadPool
from .threads.streams import CpuEvent, CpuStream, Streams

if TYPE_CHECKING:
    from .code.compiler import Compiler
    from .linear.halves import Halves
    from .lowp_gemm.products import LowPrecisionProducts
    from .native import FactoryCompiler, FormCompiler, ReplayCompiler, Resources, ViewCompiler
    from .threads.workers import Workers

#: The number of elements from which a generated kernel beats NumPy's addition.
HOST_LIMIT: Final = 16384
#: The device as schedules see it.
_TARGET: Final = Target(kind="cpu", parallelism=16, wide_arithmetic=True)


class CpuDevice(OpenDevice):
    """The host's memory and cores.

    Attributes:
        pool: The threads that divide large kernels.
        build_stats: The number of compiled programs, the time that compilation took, and the number of programs from
            the disk cache.
    """

    def __init__(self, index: int = 0) -> None:
        self.name = f"cpu:{index}"
        self.index = index
        self.profile = DESCRIPTOR.profile
        self.allocator: HostAllocator = HostAllocator(compiler=lambda: self.compiler, serves_kernels=True)
        self.default_stream: Stream = CpuStream()
        self.streams = Streams()
        self.pool = ThreadPool(make_workers=self._make_workers)
        self.target = _TARGET
        self.kernels = KernelTable()
        register_host_kernels(self.kernels, limit=HOST_LIMIT)
        empty = partial(self.allocator.of, operator="matmul")
        parts = Parts(self._make_products, self._make_halves, self._make_narrow, empty)
        self.lowp_products = parts.narrow
        register_products(self.kernels, parts)
        install_lapack(self._library, lambda: self.compiler)
        self.own_programs: dict[Any, Executable] = {}
        Convolutions(self)
        Recurrences(self)
        Attention(self)
        self.build_stats = BuildStats()
        moving = RunCopies(lambda: self.compiler, self.pool, self.build_stats)
        self.kernels.register("copy", moving.copy)
        self.kernels.register("cat", moving.join)
        self.kernels.register("gather", moving.gather)
        self._compiler: Compiler | None = None
        self._replays: ReplayCompiler | None = None
        self._resources: Resources | None = None
        self._views: ViewCompiler | None = None
        self._factories: FactoryCompiler | None = None
        self._forms: FormCompiler | None = None
        self._lock = held_over_forks(threading.Lock(), Rank.COMPILERS)

    @property
    def compiler(self) -> Compiler:
        """LLVM, loaded at first use.

        Raises:
            KernelError: LLVM cannot be loaded.
        """
        with self._lock:
            if self._compiler is None:
                try:
                    from .code.compiler import Compiler

                    self._compiler = Compiler(DiskCache(default_directory("cpu")), self.build_stats)
                except (ImportError, OSError, RuntimeError) as error:
                    raise KernelError("compile", f"{self.name}: {type(error).__name__}: {error}",
                                      "LLVM cannot be loaded", "install llvmlite anew") from error
        return self._compiler

    def _make_workers(self) -> Workers | None:
        """Return native threads; None if the process has none or they do not work correctly."""
        from .threads.workers import make_workers

        return make_workers(self.compiler)

    def _library(self) -> Library | None:
        """Return the library of matrix products, with one thread; None if the process has none that is known."""
        library = best_library()
        if library is None or not all(library.address(f"{letter}gemm") for letter in "sdcz"):
            return None
        if not library.private:
            library.set_threads(1)
        return library

    def _make_products(self) -> Multiply:
        """Return matrix products by the best available library, or else by NumPy."""
        from .linear.gemm import Products

        library = self._library()
        if library is None:
            return NumpyProducts()
        return Products(library, self.compiler, self.pool, partial(self.allocator.of, operator="matmul"))

    def _make_halves(self, dtype: str) -> Halves:
        from .linear.halves import Halves

        return Halves(dtype, self.compiler, self.pool)

    def _make_narrow(self, dtype: str) -> LowPrecisionProducts | None:
        """Return low-precision products in the backend's own code; None if processor or dtype is unsupported."""
        from .lowp_gemm.arithmetic import arithmetic_of
        from .lowp_gemm.products import LowPrecisionProducts

        arithmetic = arithmetic_of(dtype, host_features())
        return None if arithmetic is None else LowPrecisionProducts(
            arithmetic, self.compiler, self.pool, partial(self.allocator.of, operator="matmul"))

    def compile_ir(self, program: Program) -> Executable:
        """Compile a program scheduled for kind ``cpu`` to machine code.

        Raises:
            IRError: The program is not scheduled for a processor.
            KernelError: LLVM rejects the program.
        """
        return self._executable(program, *self.compiler.compile(program))

    def _executable(self, program: Program, addresses: list[int], library: Any) -> Executable:
        empty = partial(self.allocator.of, operator=program.name)
        return make_executable(program, addresses, library, self.pool, empty, self.compile_ir)

    def program(self, make: Callable[..., Program], *args: Any) -> Executable:
        """Return ``make(*args)``, a program of the backend's own kernels, compiled or, if that fails, interpreted."""
        found = self.own_programs.get((make, *args))
        if found is None:
            program = decompose(make(*args), _TARGET)
            try:
                found = self.compile_ir(program)
            except KernelError as error:
                from tensocket_plugins.kit.interpreted import interpreted, note_failure  # hardly ever needed

                note_failure(self.build_stats, "cpu", program, error)
                found = interpreted(program)
            self.own_programs[make, *args] = found
        return found

    def compile_plan(self, plan: Plan, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        """Compile a plan to machine code; entries, products, joins and replays only if objects have the known layout.

        Raises:
            IRError, KernelError: As ``compile_ir``.
        """
        if type(plan) is ProgramPlan:
            compiler = self.compiler  # first: an error if LLVM is missing
            from .code.stored import compile_stored

            return self._executable(*compile_stored(compiler, plan))
        if type(plan) is ListPlan:
            from .code.lists import make_list

            return make_list(self.compiler, plan.program, self.pool)
        if type(plan) is TapePlan:
            from .native.tape import make_tape

            return make_tape(self.compiler, self.pool, plan)
        from .native import (  # imports LLVM
            LAYOUT,
            FactoryCompiler,
            FormCompiler,
            ReplayCompiler,
            ViewCompiler,
            make_entry,
            make_join,
            make_product,
        )

        if LAYOUT is None:
            return None
        if type(plan) is WordsPlan:
            from .native.words import make_words

            return make_words(self.compiler, LAYOUT, plan)
        if type(plan) is EntryPlan:
            return make_entry(self.compiler, LAYOUT, self._shared(), plan, next_path)
        if type(plan) is ProductPlan:
            library = self._library()
            return None if library is None else make_product(self.compiler, LAYOUT, library, plan, next_path)
        if type(plan) is JoinPlan:
            return make_join(self.compiler, LAYOUT, self._shared(), plan, next_path)
        if type(plan) is ReplayPlan:
            self._replays = self._replays or ReplayCompiler(lambda: self.compiler, LAYOUT, self._shared())
            return self._replays.compile(plan, next_path)
        if type(plan) is FormPlan:
            self._forms = self._forms or FormCompiler(lambda: self.compiler, LAYOUT)
            return self._forms.compile(plan)
        if type(plan) is ViewPlan:
            self._views = self._views or ViewCompiler(lambda: self.compiler, LAYOUT)
            return self._views.compile(plan, next_path)
        if type(plan) is FactoryPlan:
            self._factories = self._factories or FactoryCompiler(lambda: self.compiler, LAYOUT)
            return self._factories.compile(plan, next_path)
        return None

    def _shared(self) -> Resources:
        """Return the addresses of memory and threads, which machine code reads."""
        from .native import Resources

        made = self._resources
        if made is None:  # two threads may make one each; both work
            made = self._resources = Resources()
            self.allocator.when_started(made.use_arena)
            self.pool.when_started(made.use_workers)
        return made

    def empty(self, shape: tuple[int, ...], dtype: DType, stream: Stream) -> Any:
        """Return an uninitialised C-contiguous array of ``dtype.numpy``.

        Raises:
            OutOfMemoryError: The host has no memory left for it.
        """
        made = self.allocator.array(shape, dtype)
        if RECORDERS and is_recording():  # only kernels may write to it: a recording would miss NumPy's writes
            made.flags.writeable = False
        return made

    def copy(self, dst: Any, src: Any, stream: Stream) -> None:
        """Copy bytes between two contiguous arrays of equal size, after all work queued on ``stream``."""
        stream.synchronize()
        dst.reshape(-1).view(np.uint8)[...] = np.ascontiguousarray(src).reshape(-1).view(np.uint8)

    def synchronize(self) -> None:
        """Block until all work on all streams is done.

        Raises:
            TensocketError: Some work failed; the error names the operator.
        """
        self.streams.synchronize()

    def create_stream(self, priority: int = 0) -> Stream:
        """Return a new stream, with a thread of its own."""
        return self.streams.create()

    def close(self) -> None:
        """Block until queued work is done, before the interpreter exits; drop its errors, which nobody reads then."""
        with suppress(TensocketError):
            self.streams.synchronize()

    def create_event(self, *, timing: bool = False) -> CpuEvent:
        """Return a new event."""
        return CpuEvent(timing=timing)

    def data_ptr(self, array: Any) -> int:
        """Return the address of the first element."""
        return address_of(array)

    def set_num_threads(self, threads: int) -> None:
        """Divide large kernels over ``threads`` threads; only results of matrix products depend on their number.

        Raises:
            ArgumentError: ``threads`` is not a positive int.
        """
        self.pool.resize(threads)
        set_blas_threads(threads)

    def get_num_threads(self) -> int:
        """Return the number of threads in use."""
        return self.pool.threads
