"""Groups: operations over the same elements that become one kernel, in an order in which they can run.

An operation joins the earliest group behind all that it reads, if that group goes over the same elements. Within a
group, values pass from operation to operation without memory; this needs each reader to read, in every iteration, the
element that the writer makes in that iteration. Operations without a formula are groups of their own: calls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from tensocket_core.geometry import Shape

from ..capture.recorder import Operation
from ..memory.regions import Region
from .dependencies import Dependencies
from .forms import Form, form_of

#: Most arrays of a kernel: addresses of more do not fit into registers.
_ARRAYS: Final = 28


@dataclass(eq=False, slots=True)
class Group:
    """Operations that one kernel computes, or one call.

    Attributes:
        number: Its position.
        outer: Sizes of the outer dimensions; with ``last``, those of a row's elements.
        last: The last size, along which rows are reduced; None while all values are one per row.
        operations: Its operations, in order.
        call: Whether it is one operation that runs as it does eagerly.
        rows: Operations with one value for each row.
        device: State of the device.
    """

    number: int
    outer: Shape
    last: int | None
    device: object
    call: bool = False
    operations: list[Operation] = field(default_factory=list)
    rows: set[Operation] = field(default_factory=set)

    @property
    def shape(self) -> Shape:
        """Sizes of the domain."""
        return self.outer if self.last is None else (*self.outer, self.last)

    def arrays(self) -> set[tuple[int, int]]:
        """Return buffer and offset of everything that it reads or writes."""
        return {(x.buffer.number, x.offset) for operation in self.operations
                for x in (*operation.reads, *operation.results)}

    def strides(self, region: Region, domain: Shape) -> Shape | None:
        """Return the strides of an operand or result of an operation over ``domain``; see ``strides_along``."""
        return strides_along(region, domain, self.outer, self.last)


def strides_along(region: Region, over: Shape, outer: Shape, last: int | None) -> Shape | None:
    """Return the strides of a region along a group's dimensions, 0 along sizes of 1; None if it does not broadcast.

    Args:
        region: An operand or result of an operation.
        over: The domain of the operation; it has one element per row if it lacks the group's last dimension.
        outer: The group's outer sizes.
        last: The group's last size.
    """
    shape, strides = region.shape, region.strides
    domain = outer if last is None else (*outer, last)
    if last is not None and len(over) == len(outer) and over == outer:
        shape, strides = (*shape, 1), (*strides, 0)
    elif last is None and len(shape) == len(outer) + 1 and shape[-1] == 1:
        shape, strides = shape[:-1], strides[:-1]
    lead = len(domain) - len(shape)
    if lead < 0 or any(n not in (1, m) for n, m in zip(shape, domain[lead:], strict=True)):
        return None
    return (*[0] * lead, *[0 if n == 1 else s for n, s in zip(shape, strides, strict=True)])


class _Planner:
    """The state of planning."""

    def __init__(self, dependencies: dict[Operation, Dependencies]) -> None:
        self.groups: list[Group] = []
        self._of: dict[Operation, Group] = {}
        self._forms: dict[Operation, Form] = {}
        self._dependencies = dependencies

    def add(self, operation: Operation) -> None:
        """Put an operation into a group."""
        form = form_of(operation)
        depends = self._dependencies[operation]
        behind = [self._of[x].number for x in depends.reads] + [self._of[x].number for x, _ in depends.overwrites]
        least = max(behind, default=0)
        if form is None:
            group = Group(len(self.groups), (), None, operation.device, call=True)
            self.groups.append(group)
        else:
            found = next((group for group in self.groups[least:] if self._joins(group, operation, form)), None)
            group = found or self._new(operation, form)
            self._extend(group, operation, form)
            self._forms[operation] = form
        group.operations.append(operation)
        self._of[operation] = group

    def _new(self, operation: Operation, form: Form) -> Group:
        shape = form.domain
        # A value for each element of a vector may become one for each row of a matrix; see ``_extend``.
        outer, last = (shape, None) if len(shape) < 2 and not form.reduces else (shape[:-1], shape[-1])
        group = Group(len(self.groups), outer, last, operation.device)
        self.groups.append(group)
        return group

    @staticmethod
    def _extend(group: Group, operation: Operation, form: Form) -> None:
        if group.last is None and len(form.domain) == len(group.outer) + 1 and form.domain[-1] != 1:
            group.last = form.domain[-1]
            group.rows.update(group.operations)
        if group.last is not None and (form.reduces == "row" or form.domain != group.shape):
            group.rows.add(operation)

    def _joins(self, group: Group, operation: Operation, form: Form) -> bool:
        """Whether an operation may join a group that everything it depends on precedes or is."""
        if group.call or group.device is not operation.device:
            return False
        outer, last, domain = group.outer, group.last, form.domain
        if last is None and domain[:-1] == outer and len(domain) == len(outer) + 1 and outer and domain[-1] != 1:
            last = domain[-1]  # the group's values become those of rows
        full = outer if last is None else (*outer, last)
        per_row = not form.reduces and domain in (outer, (*outer, 1))
        if domain != full and not per_row:
            return False
        if form.reduces and last is None:
            return False
        # Values of rows in a kernel over elements cost more than a kernel of their own, unless they meet.
        grows = math.prod(full) != math.prod(group.shape)
        if (grows or (per_row and last is not None)) and not self._shares(group, operation):
            return False
        if len(group.arrays()) + len(operation.reads) + len(operation.results) > _ARRAYS:
            return False
        return self._is_local(group, operation, form, outer, last)

    @staticmethod
    def _shares(group: Group, operation: Operation) -> bool:
        made = {x.buffer for other in group.operations for x in other.results}
        return any(x.buffer in made for x in operation.reads)

    def _is_local(self, group: Group, operation: Operation, form: Form, outer: Shape, last: int | None) -> bool:
        """Whether each dependency inside the group is on the same element of the same iteration."""
        depends = self._dependencies[operation]
        inside = set(group.operations)
        for region, source in zip(operation.reads, depends.sources, strict=True):
            if source is None or source.operation not in inside:
                continue
            if form.gathers is not None and region is form.gathers:
                # A value at another place of the row; ``last`` may be new, and then all values are those of rows.
                if source.operation in group.rows or group.last is None or (
                        operation.args[1] != len(region.shape) - 1) or (
                        not _same((region, region.shape), (source.region, source.region.shape), outer, last)):
                    return False
                continue
            if not _same((region, form.domain), (source.region, source.region.shape), outer, last):
                return False
        writers = {source.operation for source in depends.sources if source is not None}
        if any(x in inside and x not in writers for x in depends.reads):
            return False  # it wrote only a part
        return all(_same((region, region.shape if region in x.results else self._forms[x].domain),
                         (written, written.shape), outer, last) for x, region in depends.overwrites if x in inside
                   for written in operation.writes if region.overlaps(written))


def _same(one: tuple[Region, Shape], other: tuple[Region, Shape], outer: Shape, last: int | None) -> bool:
    """Whether two regions, each of an operation over a domain, are the same element in every iteration."""
    (x, over_x), (y, over_y) = one, other
    if x.buffer is not y.buffer or x.offset != y.offset or x.dtype is not y.dtype:
        return False
    strides = strides_along(x, over_x, outer, last)
    return strides is not None and strides == strides_along(y, over_y, outer, last)


def plan_groups(dependencies: dict[Operation, Dependencies]) -> list[Group]:
    """Return the groups of a run, in an order in which they can run, from its operations and their dependencies."""
    planner = _Planner(dependencies)
    for operation in dependencies:
        planner.add(operation)
    return planner.groups
