"""The machine code of replays: one function that interprets a table (``replay``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Final

from .builder import NULL, Value
from .builtin import Builtin
from .layout import Layout
from .resources import Resources
from .wrappers import Wrapper

#: The most results of a call; below, the most arrays.
RESULTS: Final = 32
_ARRAYS: Final = 96
#: The number of words of a record. Operand: position, dtype (0: None), rank, address of sizes and strides. Result:
#: dtype, rank, addresses of sizes and of strides, bytes; then the slots' values. Patch: address to write, number of the
#: array, bytes after its first element. Kernel: function, slots, iterations, pieces. Trailing argument: position,
#: object. Range: number of the operand, count of its elements, smallest value, count of values from there on, one other
#: value. Zero: address, mask of the bits.
_OPERAND, _RESULT, _PATCH, _KERNEL, _TRAILING, _RANGE, _ZERO = 4, 5, 3, 4, 2, 5, 2
#: Words at the beginning of a table: for each kind of record their number and their address, then single words.
Head = IntEnum("Head", "OPERANDS OPERAND_PLACE RESULTS RESULT_PLACE PATCHES PATCH_PLACE KERNELS KERNEL_PLACE "
                       "TRAILING TRAILING_PLACE RANGES RANGE_PLACE ZEROS ZERO_PLACE ARGUMENTS IS_TUPLE NEXT_PATH "
                       "DIVIDED", start=0)


class ReplayCode(Builtin):
    """The function that replays the calls in a table; operands and results are of a class of wrappers."""

    def __init__(self, layout: Layout, resources: Resources, wrapper: Wrapper) -> None:
        super().__init__(layout, "tensocket_replay", len(Head))
        self.resources, self.wrapper = resources, wrapper
        self.result_words = _RESULT + len(wrapper.layout.slots)
        #: The addresses of the elements of operands and results; the results.
        self.data, self.made = self.stack(_ARRAYS), self.stack(RESULTS, "ptr")
        self._check_arguments()
        self._check_operands()
        self._check_ranges()
        self._make_results()
        with self._records(Head.PATCHES, _PATCH) as (_, record):
            record.pointer(0).store(self.data[record[1]] + record[2])
        with self._records(Head.KERNELS, _KERNEL) as (_, record):
            self.call(self.resources.divide, record.pointer(0), record.pointer(1), record[2], record[3], returns="void")
        self._check_zeros()
        self._answer()
        self.label("slow")
        self.return_call(self.table.pointer(Head.NEXT_PATH))

    @contextmanager
    def _records(self, head: Head, words: int) -> Iterator[tuple[Value, Value]]:
        """Put a loop over records of the table around a ``with`` block; yield number and address of the record."""
        first = self.table.pointer(head + 1)
        with self.loop(self.table[head]) as number:
            yield number, first + number * (8 * words)

    def _check_arguments(self) -> None:
        """Check number and identity of arguments, and that workers run if threads may divide a kernel."""
        self.require(self.names == NULL, self.count >= self.table[Head.ARGUMENTS])
        with self._records(Head.TRAILING, _TRAILING) as (_, record):
            self.require(self.args.pointer(record[0]) == record.pointer(1))
        with self.when(self.table[Head.DIVIDED] != 0):
            self.require(self.call(self.resources.ready, returns="i1"))

    def _check_operands(self) -> None:
        """Compare operands with their records, and store the addresses of their elements."""
        with self._records(Head.OPERANDS, _OPERAND) as (number, record):
            item, dtype = self.args.pointer(record[0]), record.pointer(1)
            with self.when(dtype == NULL):
                self.require(item == self.object(None))
            with self.otherwise():
                array = self.wrapper.open(item)
                rank = array.field("rank").cast("sext", "i64")
                self.require(array.field("dtype") == dtype, rank == record[2])
                sizes, strides, wanted = array.field("shape"), array.field("strides"), record.pointer(3)
                with self.loop(rank) as axis:
                    self.require(sizes[axis] == wanted[axis], strides[axis] == wanted[axis + rank])
                self.data[number] = array.field("data", "i64")

    def _check_ranges(self) -> None:
        """Compare the values of operands that have ranges: all of them without a branch, as vectors."""
        wrong = self.variable(0)
        with self._records(Head.RANGES, _RANGE) as (_, record):
            elements, low, span, other = self.data.pointer(record[0]), record[2], record[3], record[4]
            with self.loop(record[1]) as k:
                value = elements[k]
                is_wrong = (value - low).compare("uge", span) & (value != other)
                wrong.value = wrong.value | is_wrong.cast("zext", "i64")
        self.require(wrong.value == 0)

    def _make_results(self) -> None:
        """Allocate the results."""
        given = self.table[Head.OPERANDS]
        with self._records(Head.RESULTS, self.result_words) as (number, record):
            rank = record[1].cast("trunc", "i32")
            made = self.call(self.resources.allocate, record.pointer(0), rank, record.pointer(2), record.pointer(3),
                             record[4])
            with self.when(made == NULL):
                self._release(number)
                self.goto("slow")
            self.made[number] = made
            self.data[given + number] = made.field("data", "i64")

    def _check_zeros(self) -> None:
        """Test the elements that the function tests; if one is not zero, release the results and go to ``slow``."""
        with self._records(Head.ZEROS, _ZERO) as (_, record):
            found = record.pointer(0).load(type_="i64", options=", align 1")
            with self.when(found & record[1] != 0):
                self._release(self.table[Head.RESULTS])
                self.goto("slow")

    def _release(self, count: Value) -> None:
        """Release the first results."""
        with self.loop(count) as k:
            self.release(self.made.pointer(k))

    def _require_memory(self, made: Value, count: Value) -> None:
        """Release the results, which may be in wrappers, and return null if there is no memory for an object."""
        with self.when(made == NULL):
            self._release(count)
            self.returns(NULL)

    def _answer(self) -> None:
        """Return the results in wrappers: one, or a tuple."""
        count = self.table[Head.RESULTS]
        with self._records(Head.RESULTS, self.result_words) as (number, record):
            made = self.wrapper.new(self)
            self._require_memory(made, count)
            self.wrapper.fill(made, self.made.pointer(number), {
                name: record.pointer(_RESULT + k) for k, (name, _, _) in enumerate(self.wrapper.layout.slots)})
            self.made[number] = made
        with self.when(self.table[Head.IS_TUPLE] == 0):
            self.returns(self.made.pointer(0))
        answer = self.api("PyTuple_New", count)
        self._require_memory(answer, count)
        with self.loop(count) as k:
            self.api("PyTuple_SetItem", answer, k, self.made.pointer(k))
        self.returns(answer)
