"""Arrays of a group's kernel: names, strides along the fewest dimensions that visit all of them, and addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensocket_core.geometry import Shape, coalesce
from tensocket_core.launch.programs import index_dtype
from tensocket_core.strides import memory_order
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.build.nest import ProgramBuilder, dot
from tensocket_plugins.ir.nodes import Expr, Var, const

from ..memory.regions import Region
from .groups import Group

#: Names an access: memory, and strides along the domain.
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """An array of the kernel: its name, and its strides along the domain."""

    name: str
    region: Region
    strides: Shape


class Accesses:
    """The arrays of a kernel: ``note`` each of them, then ``declare`` them once.

    Args:
        group: The group.
        by_rows: Whether the nest has rows: a loop over the outer dimensions, and loops along the last one inside.

    Attributes:
        nest: The program, with its buffers, sizes and strides declared.
        variables, bounds: The variables of the loops over the domain, or over the rows, and their sizes.
        length: The size of a row; None without rows.
        scalars: Arguments for sizes and strides.
    """

    def __init__(self, group: Group, by_rows: bool) -> None:
        self._group, self.by_rows = group, by_rows
        self._all: list[Access] = []
        self._places: dict[Key, int] = {}

    def note(self, region: Region, domain: Shape, *, writes: bool = False, axis: int | None = None) -> None:
        """Add an operand or result of an operation over ``domain``; indices replace the position along ``axis``."""
        strides = self._strides_of(region, domain, axis)
        key = self._key(region, strides, axis)
        if key in self._places:
            return
        assert strides is not None, "operands of fused operations broadcast to the domain"
        kind = "out" if writes else "in"
        self._places[key] = len(self._all)
        self._all.append(Access(f"{kind}{sum(x.name.startswith(kind) for x in self._all)}", region, strides))

    def key(self, region: Region, domain: Shape, axis: int | None = None) -> Key:
        """Return the name of an access."""
        return self._key(region, self._strides_of(region, domain, axis), axis)

    def _strides_of(self, region: Region, domain: Shape, axis: int | None) -> Shape | None:
        return self._group.strides(region if axis is None else _without(region, axis), domain)

    @staticmethod
    def _key(region: Region, strides: Shape | None, axis: int | None) -> Key:
        return region.buffer.number, region.offset, region.dtype.name, strides, axis

    # ----------------------------------------------------------------------------------------------- declaration

    def declare(self, title: str) -> None:
        """Start the program: its dimensions, buffers, sizes and strides. Strides of 0 and 1 in the last one are known.

        Args:
            title: Its name.
        """
        self._coalesce()
        self.nest = nest = ProgramBuilder(title, self._index_dtype())
        for access in self._all:
            nest.buffer(access.name, access.region.dtype, writable=access.name.startswith("out"))
        self.bounds, self.variables = nest.sizes("n", len(self.sizes)), nest.variables("i", len(self.sizes))
        self.length: Any = nest.sizes("m", 1)[0] if self.by_rows else None
        self._strides: list[list[Expr]] = []
        self.scalars: list[int] = [*self.sizes, *([self._group.last] if self.by_rows else [])]  # type: ignore[list-item]
        for number, access in enumerate(self._all):
            steps = [*self._across[number], *([self._along[number]] if self.by_rows else [])]
            given: list[Expr] = [*nest.strides(access.name, len(steps))]
            self.scalars += steps
            if steps and steps[-1] in (0, 1):
                given[-1] = const(steps[-1], nest.index)
            self._strides.append(given)

    def _coalesce(self) -> None:
        """Find the fewest dimensions that visit all arrays, and the strides along them."""
        outer, shape = self._group.outer, self._group.shape
        steps = [x.strides for x in self._all]
        self.sizes: Shape = ()
        if self.by_rows:
            rank = len(outer)
            across: Sequence[Shape] = [() for _ in steps]
            if outer:
                self.sizes, across = coalesce(outer, [s[:rank] for s in steps])
            self._along = [s[rank] for s in steps]
            self._across = list(across)
        else:
            order = memory_order(shape, [steps[0]]) if steps and len(shape) > 1 else list(range(len(shape)))
            self.sizes, found = coalesce(tuple([shape[k] for k in order]),
                                         [tuple([s[k] for k in order]) for s in steps])
            self._across = list(found)

    def _index_dtype(self) -> DType:
        shape = self._group.shape
        state: Any = self._group.device
        reach = [sum((n - 1) * abs(s) for n, s in zip(shape, x.strides, strict=True)) for x in self._all]
        gathered = [x.region.span[1] // x.region.dtype.itemsize for x in self._all]
        return index_dtype(state, [*shape, *reach, *gathered])

    # ----------------------------------------------------------------------------------------------- use

    def __getitem__(self, number: int) -> Access:
        return self._all[number]

    @property
    def regions(self) -> tuple[Region, ...]:
        """The buffers of the kernel, in order."""
        return tuple([access.region for access in self._all])

    def find(self, key: Key) -> int | None:
        """Return the number of an access; None if the kernel does not have it."""
        return self._places.get(key)

    def number(self, region: Region, domain: Shape, axis: int | None = None) -> int:
        """Return the number of an access that was noted."""
        return self._places[self.key(region, domain, axis)]

    def is_per_row(self, number: int) -> bool:
        """Whether an array has one element for each row."""
        return self.by_rows and self._along[number] == 0

    def address(self, number: int, j: Expr | None) -> Expr:
        """Return the position of an array's element in the current iteration.

        Args:
            number: The array.
            j: The position in the row; None for row values.
        """
        strides = self._strides[number]
        if not self.by_rows:
            return dot(self.variables, strides)
        terms: list[Expr] = [*self.variables] if j is None else [*self.variables, j]
        return dot(terms, strides[:len(terms)]) if terms else const(0, self.nest.index)

    def step(self, stride: int) -> Expr:
        """Return a stride along which indices move, a scalar of the kernel unless it is 0 or 1."""
        if stride in (0, 1):
            return const(stride, self.nest.index)
        step: Var
        (step,) = self.nest.strides(f"step{len(self.scalars)}", 1)
        self.scalars.append(stride)
        return step


def _without(region: Region, axis: int) -> Region:
    """Return a region along whose axis nothing moves, because indices replace it."""
    sizes, strides = list(region.shape), list(region.strides)
    sizes[axis], strides[axis] = 1, 0
    return Region(region.buffer, region.offset, tuple(sizes), tuple(strides), region.dtype)
