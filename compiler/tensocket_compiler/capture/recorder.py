"""The recorder of a run: which operators it called on which memory."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any, Final

import numpy as np

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.lazy import Lazy
from tensocket_core.dispatch.operator import Operator
from tensocket_core.dispatch.protocol import TorchDispatchMode
from tensocket_core.formats import memory_format
from tensocket_core.keys import WRAPPER
from tensocket_core.recording import OVERRIDDEN_KERNELS
from tensocket_operators.kinds.inplace import InPlace
from tensocket_operators.kinds.pointwise import Pointwise
from tensocket_operators.kinds.reduction import Reduction
from tensocket_operators.random.generator import Generator
from tensocket_operators.random.positions import positions
from tensocket_plugins.contract.drafts import drafting
from tensocket_plugins.contract.dtypes import DType, int64
from tensocket_plugins.contract.errors import TensocketError
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS, unobserved

from ..memory.regions import Memory, Region, regions_of
from .numbers import NumberNotes, SymFloat, regions_in, symbolic_numbers
from .options import OptionReads
from .places import Place
from .shapes import reason_of_shapes
from .watch import place_of
from .whole import stays_whole

#: Packages whose frames are not those of the program.
RUNTIME: Final = ("tensocket_core", "tensocket_operators", "tensocket_plugins", "tensocket_compiler", "tensocket")
#: Factories whose result is one number everywhere: the number, by name.
FILLS: Final = {"new_ones": 1, "new_zeros": 0, "ones": 1, "zeros": 0, "ones_like": 1, "zeros_like": 0}
#: Factories whose result follows from their arguments alone.
_CONSTANT: Final = frozenset({*FILLS, "arange", "linspace", "logspace", "eye", "scalar_tensor", "tril_indices",
                              "triu_indices"})
#: Factories whose result follows from their arguments alone if these are plain numbers, neither symbolic ones nor data
#: of other libraries, with the number of operands in front that only give dtype and device.
_OF_NUMBERS: Final = {"full": 0, "tensor": 0, "full_like": 1, "new_full": 1}


class CannotRecord(Exception):  # not an error of the program: the call runs eagerly
    """Raised for a call that has no place in a graph; its text is the reason."""


@dataclass(eq=False, slots=True)
class Operation:
    """One call of an operator.

    Attributes:
        number: Its position in the run.
        operator: The record.
        args: Arguments by position, regions in place of tensors.
        keywords: Keyword-only arguments.
        results: Regions of the results; for an operator that writes an argument, its region.
        writes: Regions that it writes.
        device: State of the device that runs it.
        compute: Dtype that a pointwise operator or a reduction computes in.
    """

    number: int
    operator: Any
    args: tuple[Any, ...]
    keywords: dict[str, Any]
    results: tuple[Region, ...]
    writes: tuple[Region, ...]
    device: Any
    compute: DType | None = None
    _reads: list[Region] | None = field(default=None, init=False)
    _number_reads: list[Region] | None = field(default=None, init=False)

    @property
    def name(self) -> str:
        """Name of the operator."""
        return str(self.operator.name)

    @property
    def reads(self) -> list[Region]:
        """Regions among the arguments, in order."""
        if self._reads is None:
            self._reads = regions_of([*self.args, *self.keywords.values()])
        return self._reads

    @property
    def number_reads(self) -> list[Region]:
        """Elements from which symbolic numbers among the arguments follow."""
        if self._number_reads is None:
            self._number_reads = [x for value in self.symbolic for x in regions_in(value.expression)]
        return self._number_reads

    @property
    def symbolic(self) -> list[SymFloat]:
        """Symbolic numbers among the arguments, in order."""
        return [x for x in _flat([*self.args, *self.keywords.values()]) if type(x) is SymFloat]

    def __repr__(self) -> str:
        given = ", ".join([*map(repr, self.args), *[f"{name}={value!r}" for name, value in self.keywords.items()]])
        return f"{', '.join(map(repr, self.results))} = {self.name}({given})"


@dataclass(frozen=True, slots=True)
class Range:
    """Integers that must be at least ``low`` and less than ``high``, or ``other``.

    Attributes:
        region: The integers; nothing in the run writes them before.
        low: The smallest number.
        high: The first number that is too large.
        other: A number that is allowed as well.
    """

    region: Region
    low: int
    high: int
    other: int


@dataclass(slots=True)
class Recording:
    """The operations of a run.

    Attributes:
        operations: In order.
        memory: The buffers.
        notes: The uses of symbolic numbers.
        ranges: Ranges of elements that the run checked.
        reasons: Why the run is no graph; empty if it is.
        versions: Version counters that calls increased, with by how much, by identity.
    """

    operations: list[Operation] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)
    notes: NumberNotes = field(default_factory=NumberNotes)
    ranges: list[Range] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    versions: dict[int, list[Any]] = field(default_factory=dict)


class Recorder(TorchDispatchMode):
    """Mode that records the calls of a block; it keeps all arrays alive, so that addresses stay unique.

    Args:
        places: Places that hold other tensors or numbers at each call.
    """

    def __init__(self, places: Iterable[Place] = ()) -> None:
        super().__init__()
        self.recording = Recording()
        self.options = OptionReads(places, self.number, self.recording.reasons)
        #: The views that operators made, with the operators and their arguments, by identity.
        self.views: dict[int, tuple[Any, Any, tuple[Any, ...], dict[str, Any]]] = {}
        #: Number of operations at the beginning that none may come between.
        self.fixed = 0
        #: Number of operations before the last call that runs apart.
        self.apart_at = 0
        self._alive: list[Any] = []
        #: The last operation that wrote to each buffer.
        self._writers: dict[int, Operation] = {}
        #: States of the random streams when the run began, and before and after each call.
        self._drawn: list[tuple[Any, Any]] = []
        #: Calls of the factories that made constants, by buffer; recorded when something writes to one.
        self._factories: dict[int, Operation] = {}
        #: Calls whose shapes follow from those of their arguments.
        self._inferred: set[Hashable] = set()

    def region(self, tensor: Any) -> Region:
        """Return the region of a tensor.

        Raises:
            CannotRecord: It is lazily conjugated or negated.
        """
        array = plain_array(tensor)
        self._alive.append(array)
        return self.recording.memory.region(array, tensor.dtype, device=tensor._device_state)

    def __enter__(self) -> Any:
        self._start, self._drawn = positions(), []
        if OVERRIDDEN_KERNELS:
            self.recording.reasons.append("kernels of built-in operators are overridden")
        VALUE_OBSERVERS[get_ident()] = self
        self._numbers = symbolic_numbers()
        self._numbers.__enter__()
        self._drafts = drafting()  # the graph has kernels of its own
        self._drafts.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        drawn = [*self._drawn, (positions(), None)]
        # Generators of devices that were opened meanwhile have drawn nothing.
        if any(after[key] != before[key] for (_, after), (before, _) in itertools.pairwise(
                [(None, self._start), *drawn]) for key in after):
            self.recording.reasons.append("random numbers are drawn outside of operators")
        VALUE_OBSERVERS.pop(get_ident(), None)
        self._drafts.__exit__(*error)
        self._numbers.__exit__(*error)
        super().__exit__(*error)

    def number(self, tensor: Any) -> SymFloat:
        """Return the element of a tensor without dimensions as a symbolic number."""
        with unobserved():
            value, region = float(tensor.item()), self.region(tensor)
        reads = frozenset([(region, self._writers.get(region.buffer.number))])
        return SymFloat(value, region, self.recording.notes, reads)

    def number_at(self, table: dict[str, Any], key: str) -> Any:
        """Return an option."""
        return self.options.number_at(table, key)

    def run_apart(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call a function that computes options; operators that it calls are a reason against the graph."""
        self.apart_at = len(self.recording.operations)
        return self.options.run(function, args)

    def note_read(self, source: Any) -> None:
        """Note that code outside of operators reads elements."""
        self.recording.reasons.append(f"elements of a tensor are read{caller()}")

    def note_range(self, array: Any, low: int, high: int, other: int) -> None:
        """Note that code outside of operators needs elements in a range."""
        if array.dtype not in (np.int64, int64):
            self.recording.reasons.append(f"indices that are not int64 are checked{caller()}")
            return
        region = self.recording.memory.region(array, int64)
        self._alive.append(array)
        if region.buffer.number in self._writers:
            self.recording.reasons.append(f"computed elements are checked{caller()}")
        else:
            self.recording.ranges.append(Range(region, low, high, other))

    def keeps(self, operator: Any, args: tuple[Any, ...]) -> bool:
        """Whether a call of a composite operator is one operation."""
        return stays_whole(operator, args)

    def __torch_dispatch__(self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        """Run a call and record it; a reason against the graph lets the run go on unrecorded."""
        kwargs = kwargs or {}
        reasons = self.recording.reasons
        given: Any = ()
        named: dict[str, Any] = {}
        before: list[Any] = []
        if self.options.is_apart:
            reasons.append(f"a schedule calls {func.name}{caller()}")
        if not reasons:
            try:
                given, named = self._symbolic(args), self._symbolic(kwargs)
                before = self._versions(func, args)
            except CannotRecord as error:
                reasons.append(f"{error}{caller()}")
        states = positions()
        with unobserved():  # a call reads again whatever it reads now
            result = func(*_plain(args), **_plain(kwargs))
        self._drawn.append((states, positions()))
        if not reasons:
            try:
                self._record(func, (args, kwargs), (given, named), result)
                self._note_versions(before)
            except (CannotRecord, TensocketError) as error:
                reasons.append(f"{error}{caller()}")
        return result

    def _versions(self, func: Any, args: tuple[Any, ...]) -> list[Any]:
        """Return the tensors that a call modifies, with their versions."""
        schema = getattr(func, "schema", None)
        if schema is None:
            return []
        return [(x, 0 if x._version_counter is None else x._version_counter[0])
                for p, value in zip(schema.parameters, args, strict=False) if p.mutated for x in _flat([value])]

    def _note_versions(self, before: list[Any]) -> None:
        for tensor, version in before:
            counter = tensor._version_counter
            if counter is not None and counter[0] != version:
                known = self.recording.versions.setdefault(id(counter), [counter, 0])
                known[1] += counter[0] - version

    def _record(self, func: Any, arguments: tuple[tuple[Any, ...], dict[str, Any]], symbolic: tuple[Any, ...],
                result: Any) -> None:
        """Record a call that has run.

        Raises:
            CannotRecord: It has no place in a graph.
        """
        (args, kwargs), (given, named) = arguments, symbolic
        schema = getattr(func, "schema", None)
        mutated = [] if schema is None else [x for p, x in zip(schema.parameters, given, strict=False) if p.mutated]
        made = [x for x in (result if isinstance(result, (tuple, list)) else (result,)) if hasattr(x, "_key")]
        if mutated:
            results = writes = tuple(regions_of(mutated))
        else:
            fresh = [x for x in made if self.recording.memory.find(plain_array(x)) is None]
            if not fresh:
                self._note_view(func, args, kwargs, result)
                return
            if len(fresh) != len(made):
                raise CannotRecord(f"{func.name} returned a view beside a new tensor")
            results = writes = tuple([self._made(func, x, args, kwargs) for x in made])
        device = made[0]._device_state if made else next(
            x for x in _flat(args) if hasattr(x, "_key"))._device_state
        operation = Operation(len(self.recording.operations), func, tuple(given), named, results, writes, device,
                              _computed_dtype(func, _plain(args), kwargs))
        if not mutated:
            reason = reason_of_shapes(func, _plain(args), _plain(kwargs), made, self._inferred)
            if reason is not None:
                raise CannotRecord(reason)
        if not mutated and all(region.buffer.kind == "constant" for region in results):
            self._factories.update({region.buffer.number: operation for region in results})
            return
        for region in writes:
            self.make_writable(region)
            region.buffer.changed |= bool(mutated)
            self._writers[region.buffer.number] = operation
        operation.number = len(self.recording.operations)
        self.recording.operations.append(operation)

    def _note_view(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Note the call that made a view of its first argument."""
        others = _flat([*args[1:], *kwargs.values()])
        if hasattr(result, "_key") and result is not args[0] and not any(
                hasattr(x, "_key") or type(x) is SymFloat for x in others):
            self.views[id(result)] = result, func, args, kwargs

    def make_writable(self, region: Region) -> None:
        """Record the factory of a constant that is about to be written, before its readers: each call needs a new one.

        Readers of constants that were made like it count, because their factories may be recorded later.

        Raises:
            CannotRecord: An operation before ``fixed`` reads it.
        """
        factory, operations = self._factories.pop(region.buffer.number, None), self.recording.operations
        if factory is not None:
            made = {region.buffer}
            for other in self._factories.values():
                if not made.isdisjoint([x.buffer for x in other.reads]):
                    made.update([x.buffer for x in other.results])
            later = itertools.islice(operations, factory.number, None)  # operations before it cannot read its result
            at = next((one.number for one in later if any(
                x.buffer in made for x in (*one.reads, *one.number_reads))), len(operations))
            if at < self.fixed:
                raise CannotRecord(f"its backward pass writes the result of {factory.name}")
            region.buffer.kind = "temporary"
            operations.insert(at, factory)
            for number in range(at, len(operations)):
                operations[number].number = number

    def _made(self, func: Any, tensor: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Region:
        self._alive.append(tensor._array)
        constant = func.name in _CONSTANT or _is_of_numbers(func, args, kwargs)
        region = self.recording.memory.region(tensor._array, tensor.dtype, "constant" if constant else "temporary",
                                              tensor._device_state)
        if func.name in FILLS:
            region.buffer.fill, region.buffer.filled = FILLS[func.name], region.dtype
        return region

    def _symbolic(self, value: Any) -> Any:
        """Return arguments with regions in place of tensors."""
        if hasattr(value, "_key"):
            if value._key & WRAPPER:
                raise CannotRecord(f"a {type(value).__name__} wraps other tensors")
            return self.region(value)
        if isinstance(value, Generator) and value not in self._start:
            raise CannotRecord("it draws from a generator that it makes")  # each call makes another one
        if type(value) is SymFloat and any(self._writers.get(x.buffer.number) is not one for x, one in value.reads):
            raise CannotRecord("it uses a number that it read before it changed the tensor")
        if isinstance(value, dict):
            return {name: self._symbolic(x) for name, x in value.items()}
        if type(value) in (list, tuple):
            return type(value)([self._symbolic(x) for x in value])
        return value


def plain_array(tensor: Any) -> Any:
    """Return the handle of a tensor's memory.

    Raises:
        CannotRecord: The memory holds the conjugates or negatives of the elements.
    """
    if isinstance(tensor._array, Lazy):
        raise CannotRecord("graphs have no lazily conjugated or negated views")
    return tensor._array


def caller() -> str:
    """Return the place of the innermost frame of a program, as `` at file:line``."""
    return f" at {place_of(sys._getframe())}"


def _computed_dtype(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> DType | None:
    """Return the dtype that a pointwise operator or a reduction computes in."""
    record = operator.origin if isinstance(operator, InPlace) else operator
    if isinstance(record, Pointwise):
        return record.compute_dtype(args[record.condition: record.count])
    if isinstance(record, Reduction):
        return record.compute_dtype(args[0].dtype, kwargs.get("dtype"))
    return None


def _is_of_numbers(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call is that of a factory whose result follows from plain numbers."""
    operands = _OF_NUMBERS.get(func.name)
    return operands is not None and all(
        x is None or type(x) in (bool, int, float, str, DType, DeviceState, memory_format)
        for x in _flat([*args[operands:], *kwargs.values()]))


def _plain(value: Any) -> Any:
    """Return arguments with numbers in place of symbolic ones."""
    if type(value) is SymFloat:
        return value.value
    if isinstance(value, dict):
        return {name: _plain(x) for name, x in value.items()}
    if type(value) in (list, tuple):
        return type(value)([_plain(x) for x in value])
    return value


def _flat(values: Sequence[Any]) -> list[Any]:
    return [x for value in values for x in (_flat(value) if isinstance(value, (list, tuple)) else [value])]
