"""Running combinations along a dimension as generated kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.complex import COMPONENT
from tensocket_plugins.ir.schedule import Strategy

from ..device import DeviceEntry
from .elements import kernel_handle
from .geometry import coalesce, element_strides
from .programs import index_dtype, launch
from .scan_nests import Scan, ScanForm, scan_nest

#: Elements that one iteration walks through at least, where a row is divided.
_BLOCK: Final = 64


class _Rows:
    """One scan: the rows' dimensions and how all of its kernels are called."""

    def __init__(self, entry: DeviceEntry, name: str, scan: Scan, accumulator: DType, sizes: Sequence[int],
                 index: DType) -> None:
        self.entry, self.name, self.scan, self.accumulator = entry, name, scan, accumulator
        self.sizes, self.index = tuple(sizes), index
        self.types = scan.types(accumulator, index)
        self.count = math.prod(sizes)

    def blocks(self, length: int) -> int:
        """Blocks per row: enough to keep the device busy, of a size that is worth an iteration."""
        target = self.entry.runtime.target
        assert target is not None
        lanes = target.parallelism * (1 if target.sequential else target.group_size)
        wanted = min(-(-length // _BLOCK), -(-lanes // self.count))
        return -(-length // -(-length // wanted))

    def totals(self, per_row: int) -> list[Any]:
        """Arrays for one set of values per block."""
        empty, stream = self.entry.runtime.empty, self.entry.stream
        return [empty((self.count * per_row,), dtype, stream) for dtype in self.types]

    def launch(self, outs: Sequence[Any], ins: Sequence[Any], carries: Sequence[Any], blocks: int, length: int,
               strides: Sequence[int], source: DType | None, result: DType | None, running: bool) -> None:
        """Run one nest; arrays come as handles with their element types."""
        form = ScanForm(source, self.accumulator, result, len(self.sizes), running, bool(carries), self.index)
        out_types = [result] if result else self.types
        in_types = [source] if source else self.types
        arrays = [*zip(outs, out_types, strict=True), *zip(ins, in_types, strict=True),
                  *zip(carries, self.types[:len(carries)], strict=True)]
        launch(self.entry, ("scan", self.name, form), partial(scan_nest, self.name, self.scan, form), Strategy.SERIAL,
               [kernel_handle(array, dtype) for array, dtype in arrays],
               [*self.sizes, blocks, -(-length // blocks), length, *strides])

    def run(self, outs: Sequence[Any], ins: Sequence[Any], length: int, strides: tuple[Sequence[int], Sequence[int]],
            source: DType | None, result: DType | None) -> None:
        """Scan rows of ``length`` elements; strides are those of the result and of the input, where they have any."""
        blocks = self.blocks(length)
        both = [*strides[0], *strides[1]]
        if blocks == 1:
            self.launch(outs, ins, (), 1, length, both, source, result, True)
            return
        totals, carries = self.totals(blocks), self.totals(blocks)
        self.launch(totals, ins, (), blocks, length, strides[1], source, None, False)
        self.run(carries, totals, blocks, ((), ()), None, None)
        self.launch(outs, ins, carries, blocks, length, both, source, result, True)


def scan_array(entry: DeviceEntry, name: str, scan: Scan, array: Any, axis: int, source: DType, accumulator: DType,
               result: DType) -> Any:
    """A new array of the input's shape with a scan along ``axis``.

    Args:
        entry: A device with a code generator.
        name: What the kernels are called; with the element types, it stands for the scan.
        scan: The mathematics.
        array: The input's handle.
        axis: The dimension; not negative. An array without dimensions is a row of one element.
        source: The input's element type.
        accumulator: The element type in which values are combined.
        result: The result's element type.
    """
    shape = array.shape
    out = entry.runtime.empty(shape, result, entry.stream)
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
    index = index_dtype(entry, [words * n for n in (out.size, *reach)])
    rows = _Rows(entry, name, scan, accumulator, sizes, index)
    rows.run([out], [array], length, ((*outer[0], along[0]), (*outer[1], along[1])), source, result)
    return out
