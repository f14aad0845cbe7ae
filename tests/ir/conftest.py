"""Shared fixtures of the kernel IR's tests: random numbers, and ways to run printed programs."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from functools import partial

import numpy as np
import pytest

from tensocket_plugins.contract.dtypes import int32
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.launch import geometry, host_function
from tensocket_plugins.ir.nodes import Buffer, If, Kernel, Let, LoopKind, Program, Scalar, Var, loop
from tensocket_plugins.ir.printers.c import entry_name, kernel_params, print_c
from tensocket_plugins.ir.printers.dialect import OPENCL, C
from tensocket_plugins.ir.verify import verify

LANES = 64


@pytest.fixture
def rng():
    return np.random.default_rng(20240817)


def pointwise(params, *body, dialect=OPENCL, check=True):
    """A program that runs ``body`` for every ``i`` below ``n``: groups of lanes, or a plain nest for serial C."""
    i, n = Var("i", int32), Var("n", int32)
    if dialect.serial:
        statements = (loop(i, n, body, LoopKind.PARALLEL),)
    else:
        g, l = Var("g", int32), Var("l", int32)
        inner = (Let(i, g * LANES + l), If(i < n, tuple(body)))
        statements = (loop(g, (n + (LANES - 1)) // LANES, (loop(l, LANES, inner, LoopKind.LANE),), LoopKind.GROUP),)
    program = Program("p", (*params, Scalar("n", int32)), (Kernel("k", statements),))
    if check:
        verify(program)
    return program



@pytest.fixture(scope="session")
def opencl():
    """``run(program, arrays, scalars)`` on the first OpenCL device."""
    cl = pytest.importorskip("pyopencl")
    try:
        device = cl.get_platforms()[0].get_devices()[0]
    except (cl.Error, IndexError) as error:
        pytest.skip(f"no OpenCL device: {error}")
    context = cl.Context([device])
    queue = cl.CommandQueue(context)

    def run(program, arrays, scalars):
        built = cl.Program(context, print_c(program, OPENCL)).build(["-cl-fp32-correctly-rounded-divide-sqrt"])
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        # A few elements in front of each array: the kernels must add the offset.
        padded = [np.concatenate([np.zeros(3, a.dtype), a]) for a in arrays]
        memory = {b.name: cl.Buffer(context, flags, hostbuf=a) for b, a in zip(program.buffers, padded, strict=True)}
        named = {s.name: v for s, v in zip(program.scalars, scalars, strict=True)}
        for t in program.temporaries:
            size = host_function((t.size,))(named)[0]
            memory[t.name] = cl.Buffer(context, cl.mem_flags.READ_WRITE, size * t.dtype.itemsize)
        for kernel in program.kernels:
            args = []
            for p in kernel_params(program, kernel, OPENCL):
                args += [p.dtype.numpy.type(named[p.name])] if isinstance(p, Scalar) else [memory[p.name]]
                args += [np.int64(3)] if isinstance(p, Buffer) else []
            grid, group = geometry(kernel)(named)
            lanes = tuple(x * y for x, y in zip(grid, group, strict=True))
            getattr(built, entry_name(kernel))(queue, lanes, group, *args)
        for b, a, whole in zip(program.buffers, arrays, padded, strict=True):
            cl.enqueue_copy(queue, whole, memory[b.name])
            a[...] = whole[3:]

    return run


@pytest.fixture(scope="session")
def serial_c(tmp_path_factory):
    """``run(program, arrays, scalars)`` through the C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("c")

    def run(program, arrays, scalars):
        source = folder / f"k{len(list(folder.iterdir()))}.c"
        source.write_text(print_c(program, C))
        library = source.with_suffix(".so")
        subprocess.run([compiler, "-std=c99", "-O2", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-ffp-contract=off",
                        "-shared", "-fPIC", str(source), "-o", str(library), "-lm"], check=True)
        loaded = ctypes.CDLL(str(library))
        named = {s.name: v for s, v in zip(program.scalars, scalars, strict=True)}
        memory = {b.name: a for b, a in zip(program.buffers, arrays, strict=True)}
        for t in program.temporaries:
            memory[t.name] = np.zeros(host_function((t.size,))(named)[0], t.dtype.numpy)
        for kernel in program.kernels:
            args = []
            for p in kernel_params(program, kernel, C):
                if isinstance(p, Scalar):
                    args.append(np.ctypeslib.as_ctypes_type(p.dtype.numpy)(named[p.name]))
                else:
                    args.append(ctypes.c_void_p(memory[p.name].ctypes.data))
                    args += [ctypes.c_int64(0)] if isinstance(p, Buffer) else []
            getattr(loaded, entry_name(kernel))(*args)

    return run


@pytest.fixture(params=[OPENCL, C], ids=["opencl", "c"])
def dialect(request):
    """The language that a test runs in."""
    return request.param


@pytest.fixture
def execute(dialect, request):
    """``execute(program, arrays, scalars)`` writes into the arrays."""
    return request.getfixturevalue("serial_c" if dialect.serial else "opencl")


@pytest.fixture
def nest(dialect):
    """``nest(params, *statements)``: a program that runs the statements for every ``i`` below ``n``."""
    return partial(pointwise, dialect=dialect)


@pytest.fixture
def simt_nest():
    """The same for a language with groups and lanes."""
    return pointwise


@pytest.fixture
def serial_nest():
    """The same, unscheduled."""
    return partial(pointwise, dialect=C)


@pytest.fixture
def run(execute):
    """Runs a program and gives the arrays that it and the interpreter made of the same input."""

    def both(program, arrays, scalars=(200,)):
        actual, expected = [a.copy() for a in arrays], [a.copy() for a in arrays]
        execute(program, actual, scalars)
        interpret(program, expected, scalars)
        return actual, expected

    return both


@pytest.fixture(scope="session")
def nvrtc():
    """``compile(source)`` to an sm_90 cubin; gives the log on failure."""
    pytest.importorskip("cuda.bindings")
    from cuda.bindings import nvrtc as api

    def compile_source(source):
        error, program = api.nvrtcCreateProgram(source.encode(), b"k.cu", 0, [], [])
        options = [b"--gpu-architecture=sm_90", b"--fmad=false", b"--std=c++17"]
        (result,) = api.nvrtcCompileProgram(program, len(options), options)
        _, size = api.nvrtcGetProgramLogSize(program)
        log = b"\0" * size
        api.nvrtcGetProgramLog(program, log)
        assert (error.value, result.value) == (0, 0), log.decode() + source
        _, size = api.nvrtcGetCUBINSize(program)
        assert size > 0

    return compile_source
