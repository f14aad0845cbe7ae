"""Kernels whose outermost loop several threads may share: the loop's range becomes two parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tensocket_plugins.contract.errors import CompileError
from tensocket_plugins.ir.nodes import Call, Const, Expr, For, Kernel, LoopKind, Program, Scalar, Var

_FIRST: Final = "part_first"
_LAST: Final = "part_last"
#: Integer arithmetic in C.
_SPELLING: Final = {"add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "idiv": "({} / {})",
                    "imod": "({} % {})", "neg": "(-{})", "min": "({0} < {1} ? {0} : {1})",
                    "max": "({0} > {1} ? {0} : {1})",
                    "select": "({} ? {} : {})", "eq": "({} == {})", "ne": "({} != {})", "lt": "({} < {})",
                    "le": "({} <= {})", "cast": "(int64_t)({})"}


def shared_extent(kernel: Kernel) -> Expr | None:
    """Return the number of iterations that threads may share; None if the kernel has no such loop."""
    if len(kernel.body) == 1 and isinstance(kernel.body[0], For) and kernel.body[0].kind is LoopKind.PARALLEL:
        return kernel.body[0].stop
    return None


def with_ranges(program: Program) -> Program:
    """Return a program of which kernels with a shared loop run a part of it."""
    kernels, dtype = [], None
    for kernel in program.kernels:
        if shared_extent(kernel) is not None:
            loop = kernel.body[0]
            assert isinstance(loop, For)
            dtype = loop.var.dtype
            loop = replace(loop, start=Var(_FIRST, dtype), stop=Var(_LAST, dtype))
            kernel = replace(kernel, body=(loop,))
        kernels.append(kernel)
    if dtype is None:
        return program
    return replace(program, kernels=tuple(kernels), params=(*program.params, Scalar(_FIRST, dtype),
                                                            Scalar(_LAST, dtype)))


def extent_text(extent: Expr, numbers: Mapping[str, str]) -> str:
    """Return a number of iterations as C.

    Args:
        extent: It, over scalar parameters.
        numbers: The parameters' values, as C.

    Raises:
        CompileError: It is no integer arithmetic.
    """
    if isinstance(extent, Const) and extent.dtype.kind != "float":
        return str(int(extent.value))
    if isinstance(extent, Var):
        return f"(int64_t)({numbers[extent.name]})"
    if isinstance(extent, Call) and extent.function in _SPELLING and extent.dtype.kind != "float":
        return _SPELLING[extent.function].format(*[extent_text(x, numbers) for x in extent.args])
    raise CompileError("compile_c", f"a loop of {extent} iterations", "numbers of iterations are integer arithmetic",
                       "leave out the operator")
