"""Exported programs as C libraries: ``compile_c``."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from tensocket.errors import ArgumentError
from tensocket_compiler.deploy.build_files import Build, cmake, makefile
from tensocket_compiler.deploy.header import cpp_header, header
from tensocket_compiler.deploy.interface import Argument, Interface
from tensocket_compiler.deploy.plan import Plan, make_plan
from tensocket_compiler.deploy.source import Source
from tensocket_compiler.deploy.weights import weight_file, weight_source

from ..exported_program import ExportedProgram
from .tracing import Tracer, identifier
from .training import TrainingTracer

#: Names of processors, which go into build files as they are.
_CPU: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,62}", re.ASCII)
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}", re.ASCII)
#: Names of parameters and variables in a library, which would hide its type.
_LOCAL: Final = frozenset({"argument", "context", "count", "made", "nbytes", "parallel", "path", "states", "texts",
                           "weights", "work"})


@dataclass(frozen=True, slots=True)
class CLibrary:
    """The files of a C library.

    Attributes:
        name: Its name.
        folder: The folder.
        files: Names of the files, sorted.
        arena_bytes: Bytes of memory that a call needs.
        weight_bytes: Bytes of weights.
        launches: Launches of kernels and products in a call.
        kernels: Different kernels.
    """

    name: str
    folder: Path
    files: tuple[str, ...]
    arena_bytes: int
    weight_bytes: int
    launches: int
    kernels: int


def compile_c(program: ExportedProgram, folder: str | os.PathLike[str], *, name: str = "model",
              weights: Literal["source", "file"] = "source", max_sizes: Mapping[str, int] | None = None,
              optimizer: Callable[[list[Any]], Any] | None = None, cpu: str | None = None,
              products: Literal["tiles", "cblas"] = "tiles") -> CLibrary:
    """Write a program as a C99 library: source, headers for C and C++, weights, a Makefile and a CMakeLists.txt.

    The library needs a C compiler and its mathematical library, neither Python nor this package. Its functions are
    ``name_init``, ``name_run``, ``name_free`` and those that the header describes.

    Args:
        program: The program, in evaluation mode unless it updates its buffers.
        folder: The folder for the files, which is made if it does not exist.
        name: Prefix of all names: lower-case letters, digits and underscores.
        weights: Whether weights are in C (``source``) or in a file beside it, which ``name_init`` reads.
        max_sizes: The largest value of sizes that have no limit, by the name of the ``Dim``.
        optimizer: Makes an optimizer of a list of parameters. Then a call is a step of training: the program's first
            output is the loss, and the parameters change in place. Options such as the learning rate stay as they are.
        cpu: The processor whose instructions the build files allow, as ``-march`` calls it, such as ``x86-64-v3`` or
            ``znver4``; by default every one of the compiler's target.
        products: Whether matrices of float32 and float64 are multiplied by the library itself (``tiles``) or by the
            BLAS that is linked, with ``cblas.h``. Convolutions and other dtypes are always multiplied by tiles.

    Returns:
        The files and figures of the library.

    Raises:
        ArgumentError: The name or an option is not allowed.
        ExportError: The program has inputs, outputs or sizes that C has no form for.
        CompileError: The program does something that launches of kernels cannot: it reads elements, draws random
            numbers, or calls an operator that runs on the host.
        OSError: The files cannot be written.
    """
    from tensocket import no_grad

    _check(program, name, weights)
    build = _build(weights, cpu, products)
    tracer = Tracer(program, max_sizes or {})
    with no_grad():
        trace = tracer.run if optimizer is None else TrainingTracer(tracer, optimizer).run
        plan = make_plan(trace, [s.low for s in tracer.sizes], [s.high for s in tracer.sizes])
    return write_library(plan, interface_of(tracer, plan, name), Path(folder), build)


def _check(program: Any, name: str, weights: str) -> None:
    if not isinstance(program, ExportedProgram):
        raise ArgumentError("compile_c", f"a {type(program).__name__}", "C libraries are made of exported programs",
                            "pass what torch.export.export returned")
    if not _NAME.fullmatch(name) or identifier(name) != name or name in _LOCAL:
        raise ArgumentError("compile_c", f"the name {name!r}", "a name begins with a lower-case letter, has "
                            "lower-case letters, digits and underscores, and is no word of C", "choose another name")
    if weights not in ("source", "file"):
        raise ArgumentError("compile_c", f"weights={weights!r}", "weights are in the 'source' or in a 'file'",
                            "pass one of these")


def _build(weights: str, cpu: str | None, products: str) -> Build:
    if products not in ("tiles", "cblas"):
        raise ArgumentError("compile_c", f"products={products!r}", "matrices are multiplied by 'tiles' or 'cblas'",
                            "pass one of these")
    if cpu is not None and (type(cpu) is not str or not _CPU.fullmatch(cpu)):
        raise ArgumentError("compile_c", f"cpu={cpu!r}", "a processor is a name that compilers take after -march=",
                            "pass 'x86-64-v3', 'znver4' or the like")
    return Build(weights == "file", cpu, products == "cblas")


def interface_of(tracer: Tracer, plan: Plan, name: str) -> Interface:
    """Return the names of a library, all different."""
    taken = {name, *[size.name for size in tracer.sizes]}

    def fresh(wanted: str) -> str:
        found = wanted
        while found in taken:
            found += "_"
        taken.add(found)
        return found

    inputs = [x for x in tracer.inputs([s.high for s in tracer.sizes]) if hasattr(x, "_array")]
    outputs = tracer.outputs
    shapes = tracer.input_shapes()
    return Interface(
        name,
        tuple([Argument(fresh(n), x.dtype, shape)
               for n, x, shape in zip(tracer.input_names, inputs, shapes, strict=True)]),
        tuple([Argument(fresh("output" if len(outputs) == 1 else f"output{k}"), x.dtype, tuple(shape))
               for k, (x, shape) in enumerate(zip(outputs, plan.shapes, strict=True))]),
        tuple([(path, x.dtype) for path, x in tracer.states.items()]), tuple(tracer.sizes), tuple(tracer.conditions()))


def write_library(plan: Plan, interface: Interface, folder: Path, build: Build) -> CLibrary:
    """Write all files of a library; none is half-written, and none appears if one cannot be made."""
    source, name = Source(plan, interface, in_file=build.in_file, blas=build.blas), interface.name
    files: dict[str, bytes] = {
        f"{name}.c": source.text().encode(),
        f"{name}.h": header(interface, source.arena, source.weight_bytes, writes=source.writes,
                            in_file=build.in_file).encode(),
        f"{name}.hpp": cpp_header(interface).encode(),
        "Makefile": makefile(name, build).encode(),
        "CMakeLists.txt": cmake(name, build).encode()}
    if build.in_file:
        files[f"{name}.weights"] = weight_file(source.weights, source.weight_bytes)
    else:
        files[f"{name}_weights.c"] = weight_source(name, source.weights).encode()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as made:
        for file, content in files.items():
            (Path(made) / file).write_bytes(content)
        for file in files:
            os.replace(Path(made) / file, folder / file)
    launches = sum(step.kind not in ("check", "fill") for step in plan.steps)
    return CLibrary(name, folder, tuple(sorted(files)), source.arena, source.weight_bytes, launches,
                    len(plan.programs))


__all__ = ["CLibrary", "compile_c"]
