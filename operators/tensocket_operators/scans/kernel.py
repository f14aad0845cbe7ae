"""Running combinations along a dimension as generated kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.geometry import coalesce, element_strides
from tensocket_core.launch.kernel_handles import kernel_handle
from tensocket_core.launch.programs import index_dtype, launch
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.element_types import COMPONENT
from tensocket_plugins.ir.strategies import Strategy

from ..kinds.programs import Programs
from .nest import ScanForm, scan_nest
from .nest_cpu import BLOCK, SIDE, columns_nest, rows_nest, tiles_nest
from .nest_groups import chunk_of, groups_nest
from .scan import Scan

#: Minimum length of rows that groups of lanes scan.
_SHORTEST: Final = 128
#: Minimum number of chunks in a block of a row that is divided, and of groups for each unit of parallelism.
_CHUNKS: Final = 4
#: Minimum number of elements per block of a divided row.
_BLOCK: Final = 64


class _Rows:
    """One scan: the rows' dimensions and the launches of its kernels."""

    def __init__(self, state: DeviceState, name: str, scan: Scan, accumulator: DType, sizes: Sequence[int],
                 index: DType) -> None:
        self.state, self.name, self.scan, self.accumulator = state, name, scan, accumulator
        self.sizes, self.index = tuple(sizes), index
        self.types = scan.types(accumulator, index)
        self.count = math.prod(sizes)

    def blocks(self, length: int) -> int:
        """Return the number of blocks per row: enough to keep the device busy, each large enough for an iteration."""
        target = self.state.runtime.target
        assert target is not None
        alone = target.sequential or _PROGRAMS.of(self.state) is _Processor
        lanes = target.parallelism * (1 if alone else target.group_size)
        wanted = min(-(-length // _BLOCK), -(-lanes // self.count))
        return -(-length // -(-length // wanted))

    def totals(self, per_row: int) -> list[Any]:
        """Allocate arrays for one set of values per block."""
        empty, stream = self.state.runtime.empty, self.state.stream
        return [empty((self.count * per_row,), dtype, stream) for dtype in self.types]

    def launch(self, outs: Sequence[Any], ins: Sequence[Any], carries: Sequence[Any], blocks: int, length: int,
               strides: Sequence[int], source: DType | None, result: DType | None, running: bool) -> None:
        """Launch one nest; ``source`` and ``result`` are the arrays' element types."""
        form = ScanForm(source, self.accumulator, result, len(self.sizes), running, bool(carries), self.index)
        self.start(("scan", self.name, form), partial(scan_nest, self.name, self.scan, form), Strategy.SERIAL, form,
                   [*outs, *ins, *carries], [*self.sizes, blocks, -(-length // blocks), length, *strides])

    def start(self, key: Any, build: Any, strategy: Strategy | None, form: ScanForm, arrays: Sequence[Any],
              scalars: Sequence[int]) -> None:
        """Launch a nest on the handles of results, inputs and carried totals."""
        types = [*([form.result] if form.result else self.types), *([form.source] if form.source else self.types),
                 *(self.types if form.carried else ())]
        launch(self.state, key, build, strategy,
               [kernel_handle(array, dtype) for array, dtype in zip(arrays, types, strict=True)], scalars)

    def run(self, outs: Sequence[Any], ins: Sequence[Any], length: int, strides: tuple[Sequence[int], Sequence[int]],
            source: DType | None, result: DType | None) -> None:
        """Scan rows of ``length`` elements; strides are those of the result and of the input, if they have any."""
        blocks = self.blocks(length)
        both = [*strides[0], *strides[1]]
        if blocks == 1:
            self.launch(outs, ins, (), 1, length, both, source, result, True)
            return
        totals, carries = self.totals(blocks), self.totals(blocks)
        self.launch(totals, ins, (), blocks, length, strides[1], source, None, False)
        self.run(carries, totals, blocks, ((), ()), None, None)
        self.launch(outs, ins, carries, blocks, length, both, source, result, True)


class _Processor(_Rows):
    """One scan on a processor, which processes several rows, blocks or columns at a time."""

    def walk(self, outs: Sequence[Any], ins: Sequence[Any], carries: Sequence[Any], blocks: int, length: int,
             strides: Sequence[int], source: DType | None, result: DType | None, running: bool) -> None:
        """Launch one nest of vectors; arguments are those of ``launch``, but ``length`` is that of a row."""
        form = ScanForm(source, self.accumulator, result, len(self.sizes), running, bool(carries), self.index, True)
        short = self.count >= SIDE and length < SIDE * SIDE and source is not None
        self.start(("scan_vectors", self.name, form, short),
                   partial(rows_nest if short else tiles_nest, self.name, self.scan, form), None, form,
                   [*outs, *ins, *carries], [*self.sizes, blocks, BLOCK if blocks > 1 else length, length, *strides])

    def run(self, outs: Sequence[Any], ins: Sequence[Any], length: int, strides: tuple[Sequence[int], Sequence[int]],
            source: DType | None, result: DType | None) -> None:
        """Scan rows as on other devices: whole if there are enough of them, else divided into blocks."""
        both = [*strides[0], *strides[1]]
        if source and self.sizes and strides[0][-1] != 1 and strides[0][-2] == strides[1][-2] == 1:
            form = ScanForm(source, self.accumulator, result, len(self.sizes), True, False, self.index)
            self.start(("scan_columns", self.name, form), partial(columns_nest, self.name, self.scan, form), None, form,
                       [*outs, *ins], [*self.sizes, 1, length, length, *both])
            return
        target = self.state.runtime.target
        assert target is not None
        apart = any(step and step[-1] != 1 for step in strides)
        # Additions without conversions run one by one as fast as vectors are transposed.
        narrow = source is None or len(self.types) > 1 or (self.accumulator.kind == "float" and source.itemsize < 8)
        enough = self.count >= target.parallelism
        if self.scan.identity is None or self.accumulator in COMPONENT or apart or (enough and not narrow):
            super().run(outs, ins, length, strides, source, result)
            return
        if enough or length < 4 * BLOCK:
            self.walk(outs, ins, (), 1, length, both, source, result, True)
            return
        blocks = -(-length // BLOCK)
        totals, carries = self.totals(blocks), self.totals(blocks)
        self.walk(totals, ins, (), blocks, length, strides[1], source, None, False)
        self.walk(carries, totals, (), 1, blocks, (), None, None, True)
        self.walk(outs, ins, carries, blocks, length, both, source, result, True)


class _Groups(_Rows):
    """One scan on a device that runs groups of lanes, which scan contiguous rows together."""

    def run(self, outs: Sequence[Any], ins: Sequence[Any], length: int, strides: tuple[Sequence[int], Sequence[int]],
            source: DType | None, result: DType | None) -> None:
        """Scan rows of at least some elements by groups: whole if there are enough of them, else in blocks."""
        target = self.state.runtime.target
        adjacent = source is not None and strides[0][-1] == strides[1][-1] == 1
        if not adjacent or target is None or target.kind != "simt" or target.sequential or not target.local_bytes or (
                self.scan.identity is None or self.accumulator in COMPONENT or length < _SHORTEST):
            super().run(outs, ins, length, strides, source, result)
            return
        assert source is not None
        chunk = chunk_of(target, source, length)
        blocks = min(-(-length // (_CHUNKS * chunk.size)), -(-_CHUNKS * target.parallelism // self.count))
        each = -(-length // (blocks * chunk.size)) * chunk.size  # elements of a block
        blocks = -(-length // each)
        both = [*strides[0], *strides[1]]

        def walk(outs: Sequence[Any], carries: Sequence[Any], steps: Sequence[int], result: DType | None) -> None:
            form = ScanForm(source, self.accumulator, result, len(self.sizes), result is not None, bool(carries),
                            self.index, True)
            self.start(("scan_groups", self.name, form, chunk),
                       partial(groups_nest, self.name, self.scan, form, chunk, target), None, form,
                       [*outs, *ins, *carries], [*self.sizes, blocks, each, length, *steps])

        if blocks == 1:
            walk(outs, (), both, result)
            return
        totals, carries = self.totals(blocks), self.totals(blocks)
        walk(totals, (), strides[1], None)
        super().run(carries, totals, blocks, ((), ()), None, None)
        walk(outs, carries, both, result)


_PROGRAMS: Final = Programs("scan", cpu=_Processor, simt=_Groups)


def scan_array(state: DeviceState, name: str, scan: Scan, array: Any, axis: int, source: DType, accumulator: DType,
               result: DType) -> Any:
    """Return a new array of the input's shape with a scan along ``axis``.

    Args:
        state: A device with a code generator.
        name: Name of the kernels; with the element types, it identifies the scan.
        scan: The mathematics.
        array: The input's handle.
        axis: The dimension; not negative. An array without dimensions is a row of one element.
        source: The input's element type.
        accumulator: The element type in which values are combined.
        result: The result's element type.
    """
    shape = array.shape
    out = state.runtime.empty(shape, result, state.stream)
    if 0 in shape:
        return out
    others = [k for k in range(len(shape)) if k != axis]
    steps = [element_strides(x) for x in (out, array)]
    sizes, outer = coalesce(tuple(shape[k] for k in others), [tuple(s[k] for k in others) for s in steps])
    if not others:
        sizes, outer = (), [(), ()]
    length = shape[axis] if shape else 1
    along = [s[axis] if shape else 1 for s in steps]
    reach = [sum((n - 1) * abs(s) for n, s in zip(shape, step, strict=True)) for step in steps]
    words = 2 if any(dtype in COMPONENT for dtype in (source, result)) else 1
    index = index_dtype(state, [words * n for n in (out.size, *reach)])
    rows = _PROGRAMS.of(state)(state, name, scan, accumulator, sizes, index)
    rows.run([out], [array], length, ((*outer[0], along[0]), (*outer[1], along[1])), source, result)
    return out
