"""The backward pass of a compiled call: what its forward pass saves, and the graph that runs later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensocket_core.keys import LAZY, dtype_bit
from tensocket_core.tensor import Tensor, wrap

from ..autograd.joint import Joint
from ..autograd.node import attach_node
from ..capture.recorder import Recording, plain_array
from ..execute.runner import Runner, makers_of
from ..memory.regions import Array, Region
from .results import Results


class Backward:
    """The backward graph of a variant.

    Args:
        joint: The recorded backward pass.
        recording: The operations of both passes.
        given: The tensor arguments of the captured call, and their regions.
        captured: The tensors that it captured.
        results: The results of the forward graph.

    Attributes:
        saved: Further regions that the forward graph returns, for this one.
        runner: The graph.
    """

    def __init__(self, joint: Joint, recording: Recording, given: tuple[Sequence[Any], Sequence[Region]],
                 captured: Sequence[Any], results: Results) -> None:
        tensors, inputs = given
        returned, self._live = results.regions, list(results.live_numbers)
        operations = recording.operations[joint.begin:]
        makers = makers_of(recording.operations[:joint.begin])
        own = set(makers_of(operations))
        reads = {x.buffer.number: x.buffer for operation in operations
                 for x in (*operation.reads, *operation.number_reads, *operation.writes)}
        needed = [makers[number].results for number, buffer in reads.items()
                  if buffer.kind == "temporary" and number in makers and number not in own]
        homes = {region.buffer.number: region for regions in needed for region in regions
                 if region.buffer.number in reads}
        self._from_results = [k for k, region in enumerate(returned) if region.buffer.number in homes]
        given_again = [returned[k] for k in self._from_results]
        taken = {region.buffer.number for region in given_again}
        self.saved = [region for number, region in homes.items() if number not in taken]
        self._count = len(returned)
        self._read_inputs = [k for k, region in enumerate(inputs) if region.buffer.number in reads]
        self._captured = [x for x in captured if _buffer_of(x, recording) in reads]
        positions = {id(x): k for k, x in enumerate(tensors)}
        self._leaves = [(None, positions[id(x)]) if id(x) in positions else (x, -1) for x in joint.leaves]
        self._cotangents = [(region, x._device_state) for region, x in zip(joint.cotangents, joint.outputs,
                                                                           strict=True)]
        self._arguments = [*joint.cotangents, *given_again, *self.saved, *[inputs[k] for k in self._read_inputs]]
        self._results = [x for x in joint.gradients if x is not None]
        numbers = iter(range(len(self._results)))
        self._gradients = [None if x is None else (next(numbers), leaf._device_state.key | dtype_bit(x.dtype))
                           for x, leaf in zip(joint.gradients, joint.leaves, strict=True)]
        self.runner = Runner(replace(recording, operations=operations), self._arguments, self._results)

    def assemble(self) -> None:
        """Assemble the graph on the arrays of the captured call."""
        self.runner.assemble([region.array(region.buffer.array) for region in self._arguments])

    def leaves(self, tensors: Sequence[Any]) -> list[Any]:
        """Return the tensors that gradients flow to, from the tensor arguments of a call."""
        return [x if position < 0 else tensors[position] for x, position in self._leaves]

    def attach(self, made: Sequence[Any], tensors: Sequence[Any], given: Sequence[Array], arrays: Sequence[Array],
               again: Callable[[Sequence[Any]], list[Any]] | None = None) -> None:
        """Make results of a call the outputs of a node that runs this graph.

        Args:
            made: The new tensors among the results.
            tensors: The tensor arguments of the call.
            given: Their memory when it began.
            arrays: All that the forward graph returned.
            again: See ``CompiledNode``.
        """
        leaves = self.leaves(tensors)
        read = [tensors[k] for k in self._read_inputs]
        held = [*[arrays[k] for k in self._from_results], *arrays[self._count:], *[given[k] for k in self._read_inputs]]
        saved = [*self._captured, *read, *[made[k] for k in self._from_results]]
        attach_node([made[k] for k in self._live], leaves, saved, held, self._run, again)

    def _run(self, gradients: Sequence[Any], held: Sequence[Array]) -> list[Any]:
        """Return the gradients of the leaves from those of the outputs."""
        given = [_dense(x, region, state) for x, (region, state) in zip(gradients, self._cotangents, strict=True)]
        arrays = self.runner([*given, *held])
        return [None if x is None else wrap(arrays[x[0]], x[1]) for x in self._gradients]


def _buffer_of(tensor: Any, recording: Recording) -> int:
    buffer = recording.memory.find(plain_array(tensor))
    return -1 if buffer is None else buffer.number


def _dense(gradient: Any, region: Region, state: Any) -> Array:
    """Return the array of a gradient, row-major; zeros if none arrived."""
    if gradient is None:
        return wrap(state.runtime.empty(region.shape, region.dtype, state.stream),
                    state.key | dtype_bit(region.dtype)).zero_()._array
    array = gradient._array
    if type(gradient) is Tensor and type(array) is np.ndarray and array.flags.c_contiguous:
        return array
    detached = gradient.detach()
    plain = detached.resolve_conj().resolve_neg() if detached._key & LAZY else detached
    return plain.contiguous()._array
