"""Kernels whose outermost loop several threads may share: the loop's range becomes two parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tensocket_plugins.ir.nodes import Expr, For, Kernel, LoopKind, Program, Scalar, Var

_FIRST: Final = "part_first"
_LAST: Final = "part_last"


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
            loop = replace(loop, start=Var(_FIRST, dtype), stop=Var(_LAST, dtype), kind=LoopKind.SERIAL)
            kernel = replace(kernel, body=(loop,))
        kernels.append(kernel)
    if dtype is None:
        return program
    return replace(program, kernels=tuple(kernels), params=(*program.params, Scalar(_FIRST, dtype),
                                                            Scalar(_LAST, dtype)))
