"""Registered kernels and the calling convention.

``kernel(outs, ins, scalars, stream)``: the runtime derives shapes, promotes dtypes, expands pointwise inputs to the
output's shape (stride 0) and allocates ``outs``; ``scalars`` are the operator's other arguments in schema order.
A *direct* kernel, for host-resident devices only, is called as ``kernel(*ins, *scalars)``, allocates its result itself
and returns arrays (never NumPy scalars): a NumPy ufunc is one. ``limit`` keeps a direct kernel to small arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .dtypes import BY_NAME
from .launch_recorder import unrecorded


@dataclass(frozen=True, slots=True)
class Kernel:
    """One implementation of an operator.

    Attributes:
        run: The function, in the calling convention above.
        direct: Whether it takes inputs and returns outputs, instead of writing to ``outs``.
        limit: A direct kernel runs while every input has fewer elements than this; None means always.
    """

    run: Callable[..., Any]
    direct: bool = False
    limit: int | None = None


class KernelTable:
    """The kernels that a backend registers by operator, such as those of the vendor's library."""

    def __init__(self) -> None:
        self._kernels: dict[tuple[str, str | None, bool], Kernel] = {}

    def register(self, operator: str, run: Callable[..., Any], *, dtypes: Iterable[str] | None = None,
                 direct: bool = False, limit: int | None = None, recorded: bool = False) -> None:
        """Register ``run`` for ``operator``.

        Args:
            operator: Operator name, ``matmul``.
            run: The kernel, in the module's calling convention.
            dtypes: Names of the compute dtypes that it serves; None means all.
            direct: See ``Kernel``.
            limit: See ``Kernel``.
            recorded: Whether the kernel only launches executables, or calls ``forbid_replay`` before it does more. The
                runtime does not replay calls of other kernels that write into ``outs``.

        Raises:
            ValueError: A dtype name is unknown, or ``limit`` is given for a kernel that is not direct.
        """
        if limit is not None and not direct:
            raise ValueError(f"kernel for {operator!r}: only a direct kernel has a limit")
        names: list[str | None] = [None] if dtypes is None else list(dtypes)
        unknown = [name for name in names if name is not None and name not in BY_NAME]
        if unknown:
            raise ValueError(f"kernel for {operator!r}: unknown dtypes {unknown}")
        if not (direct or recorded):
            run = unrecorded(run)
        for name in names:
            self._kernels[operator, name, direct] = Kernel(run, direct, limit)

    def find(self, operator: str, dtype: str, *, direct: bool) -> Kernel | None:
        """Return the kernel for ``operator`` on ``dtype``: one registered for the dtype, else one for all dtypes."""
        return self._kernels.get((operator, dtype, direct)) or self._kernels.get((operator, None, direct))

    def operators(self) -> list[str]:
        """Return the names of the operators that have a kernel here, sorted."""
        return sorted({operator for operator, _, _ in self._kernels})
