"""Functions of corresponding elements of lists of tensors, in one kernel call for all of them.

A *rule* is written over tensors: ``lambda p, g, rate: (p - g * rate,)`` takes one tensor of each list, then numbers. A
*row* is the tensors at one index of the lists. The rule is evaluated in two forms: with tensors, row by row, and with
one ``Element`` per tensor, as kernel IR. The kernel is the same for every row; ``OpenDevice.compile_list`` runs it over
all of them. Both forms round alike, because an element's methods are the formulas of the operators, each rounded to the
dtype that a tensor would have stored.

The kernel serves plain floating-point tensors of one dtype on one device, if autograd does not record and no mode is
active. All other rows are evaluated with tensors, or by the caller's function for one row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import repeat
from operator import attrgetter, or_
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_core.device import BY_KEY, DeviceState
from tensocket_core.dispatch.modes import STATE
from tensocket_core.dispatch.versions import bump, check_writable
from tensocket_core.geometry import contiguous, overlaps_partially
from tensocket_core.keys import DEVICE_MASK, DIM0, DTYPE_MASK, DTYPE_OF
from tensocket_core.launch.pointwise_plan import run_generated
from tensocket_core.launch.programs import index_dtype, launch_list
from tensocket_core.recording import OVERRIDDEN_KERNELS
from tensocket_core.tensor import wrap
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.strategies import Strategy

from .foreach_element import Element
from .foreach_targets import CheckedTargets, owner_id

if TYPE_CHECKING:
    from tensocket_plugins.ir.build.math import Computed
    from tensocket_plugins.ir.nodes import Program, Stmt


Column = Sequence[Any]
_array_of: Final = attrgetter("_array")
_key_of: Final = attrgetter("_key")
_shape_of: Final = attrgetter("shape")
_counter_of: Final = attrgetter("_version_counter")
_dense: Final = attrgetter("flags.c_contiguous")
_dense_and_writable: Final = attrgetter("flags.carray")
_NUMBERS: Final = (float, int)


#: Device and dtype by key; None for keys that no kernel serves.
_KINDS: Final[dict[int, tuple[DeviceState, DType] | None]] = {}


def kernel_kind(key: int) -> tuple[DeviceState, DType] | None:
    """Return the device and the floating-point dtype of plain tensors whose keys, without ``DIM0``, or to ``key``."""
    try:
        return _KINDS[key]
    except KeyError:
        pass
    state, dtype = BY_KEY.get(key & DEVICE_MASK), DTYPE_OF.get(key & DTYPE_MASK)
    served = None
    if not key & ~(DEVICE_MASK | DTYPE_MASK) and state is not None and dtype is not None:
        if state.runtime.target is not None and dtype.kind == "float" and dtype.itemsize > 1:
            served = state, dtype
    _KINDS[key] = served
    return served


class ListFunction:
    """A rule over lists.

    Args:
        name: Name of its kernels.
        rule: Takes a tensor (or an ``Element``) of each list and one number each of ``numbers``; returns a tuple: new
            values of the lists in ``writes``, then results.
        writes: Positions of the lists that are changed in place.
        results: Number of lists of results.
        row: Does the same to the tensors of one row that the kernel cannot take, and returns a tuple of results. By
            default the rule itself, with the new values copied into the tensors.
    """

    def __init__(self, name: str, rule: Callable[..., tuple[Any, ...]], writes: Sequence[int] = (0,),
                 results: int = 0, row: Callable[..., tuple[Any, ...]] | None = None) -> None:
        self.name = name
        self.rule = rule
        self.writes = tuple(writes)
        self.results = results
        self._row = self._by_tensors if row is None else row
        self._checked = CheckedTargets()

    def __call__(self, lists: Sequence[Column], numbers: Sequence[Any] = ()) -> list[list[Any]]:
        """Run the rule over all rows.

        Args:
            lists: Lists of tensors of equal length.
            numbers: One number for all rows each, or a list with one number per row.

        Returns:
            The lists of results.
        """
        mask = STATE.mask
        rows = len(lists[0])
        if rows and mask is not None and not OVERRIDDEN_KERNELS and _plain(numbers):
            served = kernel_kind(reduce(or_, (reduce(or_, map(_key_of, column)) for column in lists)) & mask & ~DIM0)
            if served is not None:
                found = self._together(*served, lists, numbers)
                if found is not None:
                    return found
                return self._one_by_one(lists, numbers, served)
            return self._by_kind(lists, numbers, mask)
        return self._one_by_one(lists, numbers, None)

    # ------------------------------------------------------------------------------------------ grouping

    def _by_kind(self, lists: Sequence[Column], numbers: Sequence[Any], mask: int) -> list[list[Any]]:
        """Run rows of the same device and dtype together, in the order in which these first occur."""
        kinds: dict[int, list[int]] = {}
        for row, items in enumerate(zip(*lists, strict=True)):
            kinds.setdefault(reduce(or_, map(_key_of, items)) & mask & ~DIM0, []).append(row)
        if len(kinds) == 1:
            return self._one_by_one(lists, numbers, None)
        results: list[list[Any]] = [[None] * len(lists[0]) for _ in range(self.results)]
        for chosen in kinds.values():
            part = self([[column[row] for row in chosen] for column in lists],
                        [[x[row] for row in chosen] if isinstance(x, list) else x for x in numbers])
            for whole, found in zip(results, part, strict=True):
                for row, result in zip(chosen, found, strict=True):
                    whole[row] = result
        return results

    # ------------------------------------------------------------------------------------------ paths

    def _together(self, state: DeviceState, dtype: DType, lists: Sequence[Column],
                  numbers: Sequence[Any]) -> list[list[Any]] | None:
        """Run all rows in one call; None if shapes, layouts or shared memory do not allow that."""
        # A list that is passed twice is read once.
        taken = {id(column): list(map(_array_of, column)) for column in lists}
        arrays = [taken[id(column)] for column in lists]
        targets = [arrays[k] for k in self.writes]
        counters = [x for k in self.writes for x in map(_counter_of, lists[k])]
        if not {list, type(None)}.issuperset(map(type, counters)):
            return None  # inference tensors have counters of their own
        if not (targets and self._checked.admits(arrays, self.writes)):
            if not _regular(arrays, targets):
                return None
            if targets:
                self._checked.note(arrays, self.writes)
        first = arrays[0]
        sizes = [x.size for x in first]
        made = [[state.runtime.empty(x.shape, dtype, state.stream) for x in first] for _ in range(self.results)]
        rows = len(first)
        index = index_dtype(state, (max(sizes),))
        launch_list(state, (self, dtype, len(arrays), len(numbers), index),
                    lambda: self._program(dtype, len(arrays), len(numbers), index), Strategy.SERIAL,
                    [*targets, *made, *arrays], [sizes, *[x if isinstance(x, list) else repeat(x, rows)
                                                          for x in numbers]])
        if None in counters:
            for k in self.writes:
                for target in lists[k]:
                    bump(target)
        else:
            for counter in counters:
                counter[-1] += 1
        key = state.key | 1 << dtype.bit
        return [[wrap(x, key) for x in column] for column in made]

    def _one_by_one(self, lists: Sequence[Column], numbers: Sequence[Any],
                    served: tuple[DeviceState, DType] | None) -> list[list[Any]]:
        """Run each row by itself, in one kernel call if possible."""
        count = len(lists[0])
        rows = zip(zip(*lists, strict=True),
                   zip(*[x if isinstance(x, list) else [x] * count for x in numbers], strict=True)
                   if numbers else [()] * count, strict=True)
        results: list[list[Any]] = [[] for _ in range(self.results)]
        for items, values in rows:
            found = self._alone(*served, items, values, count) if served is not None else None
            if found is None:
                found = self._row(*items, *values)
            for column, result in zip(results, found, strict=True):
                column.append(result)
        return results

    def _alone(self, state: DeviceState, dtype: DType, items: Sequence[Any], numbers: Sequence[Any],
               rows: int) -> tuple[Any, ...] | None:
        """Run one row; None if its shapes or shared memory do not allow a kernel."""
        if rows > 1:
            found = self._together(state, dtype, [[x] for x in items], numbers)
            if found is not None:
                return tuple([column[0] for column in found])
        arrays = [x._array for x in items]
        targets = [arrays[k] for k in self.writes]
        shape = arrays[0].shape
        if self.results or 0 in shape or all(map(contiguous, arrays)):
            return None
        if any(x.shape != shape or overlaps_partially(x, y) for x in arrays for y in targets):
            return None
        # Tensors of one shape with different layouts.
        for k in self.writes:
            check_writable(self.name, items[k])
        run_generated(state, (self.name, self, dtype), self._formula(dtype),
                      [*[(x, dtype) for x in arrays], *[(x, dtype) for x in numbers]], shape,
                      [(x, dtype) for x in targets])
        for k in self.writes:
            bump(items[k])
        return ()

    def _by_tensors(self, *args: Any) -> tuple[Any, ...]:
        found = self.rule(*args)
        for k, value in zip(self.writes, found, strict=False):
            args[k].copy_(value)
        return found[len(self.writes):]

    # ------------------------------------------------------------------------------------------ the kernel

    def _program(self, dtype: DType, lists: int, numbers: int, index: DType) -> Program:
        from tensocket_plugins.ir.build.nest import Operand, pointwise_nest

        operands = [*[Operand("flat", dtype)] * lists, *[Operand("number", dtype)] * numbers]
        results = [Operand("flat", dtype)] * (len(self.writes) + self.results)
        return pointwise_nest(self.name, self._formula(dtype), operands, results, 1, index)

    def _formula(self, dtype: DType) -> Callable[..., Computed]:
        """Return the rule over expressions. All new values are named before the first store, because stores overwrite
        operands.
        """

        def formula(*values: Any) -> Computed:
            from tensocket_plugins.ir.build.math import Computed
            from tensocket_plugins.ir.nodes import Let, Var

            elements = [Element(x, dtype) for x in values]
            found = [x.value for x in self.rule(*elements)]
            named = [Var(f"new{k}", x.dtype) for k, x in enumerate(found)]
            statements: list[Stmt] = [Let(name, x) for name, x in zip(named, found, strict=True)]
            return Computed(tuple(statements), tuple(named))

        return formula


def _plain(numbers: Sequence[Any]) -> bool:
    """Whether all numbers are real Python numbers, or lists of them."""
    return all(isinstance(x, _NUMBERS) or (type(x) is list and all(isinstance(y, _NUMBERS) for y in x))
               for x in numbers)


def _regular(arrays: Sequence[Column], targets: Sequence[Column]) -> bool:
    """Whether each row has one shape, arrays are contiguous, and no row shares memory with another row's targets."""
    shapes = list(map(_shape_of, arrays[0]))
    if any(list(map(_shape_of, column)) != shapes for column in arrays[1:]):
        return False
    on_host = type(arrays[0][0]) is np.ndarray
    owners: set[int] = set()
    count = 0
    for k, column in enumerate(arrays):
        written = any(column is target for target in targets)
        if not all(map(_dense_and_writable if written else _dense, column) if on_host else map(contiguous, column)):
            return False
        if all(column is not other for other in arrays[:k]):
            count += len(column)
            owners.update(map(owner_id, column))
    # Arrays with different owners do not share memory.
    return len(owners) == count or (len(shapes) == 1 and not any(
        overlaps_partially(x, y) for (x,) in arrays for (y,) in targets))
