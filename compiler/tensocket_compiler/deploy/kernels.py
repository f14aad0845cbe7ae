"""Kernels of a C library: their definitions, and the calls of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from tensocket_plugins.contract.errors import CompileError
from tensocket_plugins.ir.nodes import Buffer, IRError, Kernel, Program, Scalar, Temporary
from tensocket_plugins.ir.printers.c import KernelParam, entry_name, kernel_params, print_programs
from tensocket_plugins.ir.printers.dialect import C

from .interface import c_type
from .parts import extent_text, shared_extent, with_ranges

#: Functions of a library are its own.
DIALECT: Final = replace(C, kernel="static void {name}", header="", independent="TS_INDEPENDENT")
#: The definitions that kernels need first. GCC compares at most ten pairs of arrays before it gives up on vectors.
PRELUDE: Final = f"""\
{C.header.rstrip()}

#if defined(__GNUC__) && !defined(__clang__)
#define TS_INDEPENDENT _Pragma("GCC ivdep")
#else
#define TS_INDEPENDENT
#endif"""

_SHARE: Final = """\
static void ts_share(const {name} *self, void (*work)(void *, int64_t, int64_t), void *argument, int64_t count)
{{
    if (self->parallel && count > 1) self->parallel(self->context, work, argument, count);
    else work(argument, 0, count);
}}"""


def share_text(name: str) -> str:
    """Return the function that shares a loop among threads; ``name`` is the type of models."""
    return _SHARE.format(name=name)


def kernels_text(programs: Sequence[Program], shared: Sequence[Program]) -> str:
    """Return the definitions of the kernels, and of the functions that run a part of one of ``shared`` programs.

    Raises:
        CompileError: C cannot express one of them.
    """
    ranged = [with_ranges(program) for program in programs]
    try:
        text = print_programs(ranged, DIALECT).strip("\n")
    except IRError as error:
        raise CompileError("compile_c", f"a kernel that C cannot express: {error}", "kernels are loops over numbers of "
                           "C's types", "leave out the operator, or convert its operands") from error
    parts = [_part(program, kernel) for program in map(with_ranges, shared) for kernel in program.kernels
             if _is_shared(program, kernel)]
    return "\n\n".join([text, *parts])


def _is_shared(program: Program, kernel: Kernel) -> bool:
    """Whether a kernel of a ranged program has a range."""
    return any(p.name == "part_first" for p in kernel_params(program, kernel, DIALECT))


def _members(params: Sequence[KernelParam]) -> list[tuple[str, str]]:
    """Return types and names of a kernel's arguments, in order, without those of its range."""
    found: list[tuple[str, str]] = []
    for p in params:
        if p.name in ("part_first", "part_last"):
            continue
        t = c_type(p.dtype)
        if isinstance(p, Scalar):
            found.append((t, p.name))
            continue
        found.append((f"const {t} *" if isinstance(p, Buffer) and not p.writable else f"{t} *", p.name))
        if isinstance(p, Buffer):
            found.append(("int64_t", f"{p.name}_offset"))
    return found


def _part(program: Program, kernel: Kernel) -> str:
    """Return the function that runs a part of a kernel for a thread."""
    members = _members(kernel_params(program, kernel, DIALECT))
    name = entry_name(kernel)
    fields = "\n".join([f"    {t} a{k};" for k, (t, _) in enumerate(members)])
    passed = ", ".join([*[f"a->a{k}" for k in range(len(members))], "first", "last"])
    return (f"struct {name}_arguments {{\n{fields}\n}};\n\n"
            f"static void {name}_part(void *argument, int64_t first, int64_t last)\n{{\n"
            f"    const struct {name}_arguments *const a = argument;\n    {name}({passed});\n}}")


def kernel_calls(program: Program, pointers: Sequence[Callable[[str], str]], offsets: Sequence[str],
                 scalars: Sequence[str], *, share: bool) -> list[str]:
    """Return the calls of a program's kernels.

    Args:
        program: The program, with the names of the library.
        pointers: The beginning of each buffer and temporary, as C of a pointer type.
        offsets: The first element of each of them, as C.
        scalars: The numbers, as C.
        share: Whether the work is enough for several threads.
    """
    ranged = with_ranges(program)
    arrays: tuple[Buffer | Temporary, ...] = (*program.buffers, *program.temporaries)
    places = {p.name: k for k, p in enumerate(arrays)}
    numbers = dict(zip([s.name for s in program.scalars], scalars, strict=True))
    lines = []
    for kernel, own in zip(ranged.kernels, program.kernels, strict=True):
        given: list[str] = []
        for p in kernel_params(ranged, kernel, DIALECT):
            if p.name in places:
                k, const = places[p.name], "const " if isinstance(p, Buffer) and not p.writable else ""
                given.append(pointers[k](f"{const}{c_type(p.dtype)}"))
                given += [offsets[k]] if isinstance(p, Buffer) else []
            elif p.name in numbers:
                given.append(numbers[p.name])
        name = entry_name(kernel)
        extent = shared_extent(own)
        count = "" if extent is None else extent_text(extent, numbers)
        if extent is None:
            lines.append(f"{name}({', '.join(given)});")
        elif not share:
            lines.append(f"{name}({', '.join([*given, '0', count])});")
        else:
            lines.append(f"{{ struct {name}_arguments ts_given = {{{', '.join(given)}}}; "
                         f"ts_share(self, {name}_part, &ts_given, {count}); }}")
    return lines

