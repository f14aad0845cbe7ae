"""Runs on the recording device, with the memory that each launch uses as numbers of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensocket_plugins.contract.arrays import DeviceArray
from tensocket_plugins.contract.dtypes import DType, uint8
from tensocket_plugins.contract.errors import CompileError
from tensocket_plugins.ir.launch import host_function
from tensocket_plugins.ir.nodes import Program

from .device import Check, Contents, Event, Fill, Launch


@dataclass(frozen=True, slots=True)
class Use:
    """An array of a step.

    Attributes:
        block: Number of its block.
        offset: Its first element, in elements from the block's beginning.
        dtype: Its dtype.
    """

    block: int
    offset: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a run.

    Attributes:
        kind: The action, in a form that is equal for the same steps of runs with other sizes.
        event: The event.
        uses: Its arrays; after those of a launch, its temporaries.
        written: Whether it writes to each of them.
        numbers: Its numbers.
    """

    kind: tuple[object, ...]
    event: Event
    uses: tuple[Use, ...]
    written: tuple[bool, ...]
    numbers: tuple[int | float, ...]


@dataclass(slots=True)
class Block:
    """A block of memory.

    Attributes:
        role: ``input``, ``output``, ``state``, ``constant`` or ``temporary``.
        number: Its position among the inputs, outputs or states.
        nbytes: Its size.
        data: Contents of a state before the first run, or of a constant.
    """

    role: str
    number: int
    nbytes: int
    data: bytes | None = None


@dataclass(slots=True)
class Run:
    """A run whose blocks have numbers, by their first use.

    Attributes:
        sizes: The sizes that change, of this run.
        steps: The steps that matter for outputs and states.
        blocks: The blocks.
        shapes: Shapes of the outputs.
    """

    sizes: tuple[int, ...]
    steps: list[Step] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)


def contents_of(array: DeviceArray) -> Contents:
    """Return the memory of an array."""
    found: Contents = array.storage.block.buffer
    return found


def needed_events(events: Sequence[Event], kept: set[int]) -> list[Event]:
    """Return the events that change memory with the given identities, and all checks."""
    needed = set(kept)
    found: list[Event] = []
    for event in reversed(events):
        if isinstance(event, Fill):
            if id(event.contents) in needed:
                found.append(event)
            continue
        arrays = (event.array,) if isinstance(event, Check) else event.arrays
        if isinstance(event, Check) or any(
                id(contents_of(x)) in needed for x, w in zip(arrays, event.written, strict=True) if w):
            needed |= {id(contents_of(x)) for x in arrays}
            found.append(event)
    return found[::-1]


class RunBuilder:
    """Numbers the blocks of a run.

    Args:
        sizes: The sizes that change.
        inputs: Arrays of the arguments.
        states: Arrays of parameters, buffers and other tensors that stay, by path.
        outputs: Arrays of the results, each dense in memory of its own unless it is an input or a state.
    """

    def __init__(self, sizes: tuple[int, ...], inputs: Sequence[DeviceArray], states: Mapping[str, DeviceArray],
                 outputs: Sequence[DeviceArray]) -> None:
        self._run = Run(sizes, shapes=[x.shape for x in outputs])
        self._numbers: dict[int, int] = {}
        self._alive: list[Contents] = []
        self._states = {id(contents_of(x)) for x in states.values()}
        self._kept = self._states | {id(contents_of(x)) for x in outputs}
        for number, x in enumerate(inputs):
            self._add(contents_of(x), Block("input", number, x.nbytes))
        for number, x in enumerate(states.values()):
            memory = contents_of(x)
            if id(memory) not in self._numbers:
                self._add(memory, Block("state", number, memory.nbytes))
        for number, x in enumerate(outputs):
            self._add(contents_of(x), Block("output", number, x.nbytes))

    def _add(self, memory: Contents, block: Block) -> None:
        self._numbers[id(memory)] = len(self._run.blocks)
        self._run.blocks.append(block)
        self._alive.append(memory)

    def build(self, events: Sequence[Event], before: Mapping[int, bytes]) -> Run:
        """Return the run.

        Args:
            events: Its events.
            before: Contents of the states before it, by identity of their memory.

        Raises:
            CompileError: A launch reads memory that nothing wrote, or writes an input.
        """
        run, needed = self._run, needed_events(events, self._kept)
        fixed = self._constants(needed)
        for event in needed:
            if isinstance(event, Fill):
                if id(event.contents) not in fixed:
                    self._fill(event)
            elif isinstance(event, Check):
                use = self._use(event.array, fixed)
                run.steps.append(Step(("check", event.low, event.high, event.other), event, (use,), (False,),
                                      (event.array.size,)))
            else:
                self._launch(event, fixed)
        for block in run.blocks:
            if block.role == "state":
                block.data = before[next(k for k, n in self._numbers.items() if run.blocks[n] is block)]
        self._check_order()
        return run

    def _constants(self, events: Sequence[Event]) -> dict[int, bytes]:
        """Return the memory that only the host fills, before anything reads it, by identity."""
        written, read, late = set(self._numbers), set(), set()
        for event in events:
            if isinstance(event, Launch):
                read |= {id(contents_of(x)) for x in event.arrays}
                written |= {id(contents_of(x)) for x, w in zip(event.arrays, event.written, strict=True) if w}
            elif isinstance(event, Fill) and id(event.contents) in read:
                late.add(id(event.contents))
        arrays = [x for event in events if not isinstance(event, Fill)
                  for x in ((event.array,) if isinstance(event, Check) else event.arrays)]
        return {id(m): m.data for m in map(contents_of, arrays) if m.data is not None and id(m) not in written | late}

    def _use(self, array: DeviceArray, fixed: Mapping[int, bytes]) -> Use:
        memory = contents_of(array)
        if id(memory) not in self._numbers:
            data = fixed.get(id(memory))
            self._add(memory, Block("temporary" if data is None else "constant", 0, memory.nbytes, data))
        return Use(self._numbers[id(memory)], array.offset, array.dtype)

    def _fill(self, event: Fill) -> None:
        """Add a copy of bytes to memory that kernels write, too."""
        if id(event.contents) not in self._numbers:
            self._add(event.contents, Block("temporary", 0, event.contents.nbytes))
        source = Contents(len(event.data))
        self._add(source, Block("constant", 0, len(event.data), event.data))
        uses = (Use(self._numbers[id(event.contents)], event.start, uint8),
                Use(self._numbers[id(source)], 0, uint8))
        self._run.steps.append(Step(("fill",), event, uses, (True, False), (len(event.data),)))

    def _launch(self, event: Launch, fixed: Mapping[int, bytes]) -> None:
        uses, written = [self._use(x, fixed) for x in event.arrays], list(event.written)
        if not isinstance(event.program, Program):
            kind: tuple[object, ...] = (event.program.name, event.program.dtype, len(event.scalars))
        else:
            kind = ("kernel", event.digest)
            named: Any = dict(zip([s.name for s in event.program.scalars], event.scalars, strict=True))
            lengths = host_function(tuple(t.size for t in event.program.temporaries))(named)
            for temporary, count in zip(event.program.temporaries, lengths, strict=True):
                memory = Contents(count * temporary.dtype.itemsize)
                self._add(memory, Block("temporary", 0, memory.nbytes))
                uses.append(Use(self._numbers[id(memory)], 0, temporary.dtype))
                written.append(True)
        self._run.steps.append(Step(kind, event, tuple(uses), tuple(written), event.scalars))

    def _check_order(self) -> None:
        """Check that every block that a step reads has contents.

        Raises:
            CompileError: One has none, or a step writes an input.
        """
        run = self._run
        known = {n for n, block in enumerate(run.blocks) if block.role in ("input", "state", "constant")}
        for step in run.steps:
            for use, writes in zip(step.uses, step.written, strict=True):
                if writes and run.blocks[use.block].role == "input":
                    raise CompileError("compile_c", "a program that writes to an argument", "a C library only reads "
                                       "its inputs", "let the program write to a copy, and return it")
                if not writes and use.block not in known:
                    raise CompileError("compile_c", "a program whose kernels read memory that nothing wrote", "inputs, "
                                       "weights and constants are all that a C library starts from", "initialise the "
                                       "tensor, or pass it as an input")
            known |= {use.block for use, writes in zip(step.uses, step.written, strict=True) if writes}
        for n, block in enumerate(run.blocks):
            if block.role == "output" and n not in known and block.nbytes:
                raise CompileError("compile_c", f"a program whose output {block.number} has no contents", "kernels "
                                   "write all outputs", "initialise the tensor")
