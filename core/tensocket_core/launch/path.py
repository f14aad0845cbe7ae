"""The ladder: all ways in which a call of an operator may run on a device, fastest first.

A path makes a closure for one key: it serves the calls that its guard admits and hands all others to the next path.
The last one, ``compose``, is the reference: it serves everything and says what is wrong. Kinds of operators say what
the paths need (an entry's program, a host kernel, whether launches may be replayed, plans); the order is here only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import TensocketError
from tensocket_plugins.contract.kernels import Kernel

from ..device import DeviceState
from ..dispatch.operator import Operator
from ..keys import DIM0, dtype_bit
from .entries import EntrySpec, build_entry
from .replay import replayed

Closure = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Signature:
    """What a key settles for all calls with it; decided once, and read by every path.

    Attributes:
        key: The key, without layers.
        state: The device.
        dtype: Dtype of the operands; None where the operands of each call decide.
        compute: Dtype that is computed in, where ``dtype`` is known.
        result: Dtype of the result, where ``dtype`` is known.
        number: Whether one operand is a Python number.
        kernel: The host kernel for small arrays, where NumPy rounds as all other paths do.
    """

    key: int
    state: DeviceState
    dtype: DType | None = None
    compute: DType | None = None
    result: DType | None = None
    number: bool = False
    kernel: Kernel | None = None

    @property
    def zero_dim(self) -> bool:
        """Whether an operand has no dimensions."""
        return bool(self.key & DIM0)

    @property
    def result_key(self) -> int:
        """Key of the result, without ``DIM0``."""
        assert self.result is not None
        return self.state.key | dtype_bit(self.result)


class Path(Protocol):
    """One way to run calls. ``explain`` tells why a path does not serve a call.

    Attributes:
        name: As ``explain`` and ``registrations`` show it.
    """

    name: str

    def build(self, operator: LadderOperator, call: Signature, next_path: Closure) -> Closure | None:
        """A closure that serves what it can and calls ``next_path`` for the rest; None if it could serve nothing."""


class Entry:
    """Machine code that takes the tensors themselves: small dense operands of the key's dtype."""

    name = "entry"

    def build(self, operator: LadderOperator, call: Signature, next_path: Closure) -> Closure | None:
        """The entry, or what counts calls until it is worth compiling."""
        spec = operator.entry(call)
        return None if spec is None else build_entry(operator, call.key, call.state, spec, next_path)


class HostKernel:
    """One call of NumPy, or of what the vendor registered in its place: small arrays on a host-resident device."""

    name = "host kernel"

    def build(self, operator: LadderOperator, call: Signature, next_path: Closure) -> Closure | None:
        """What the kind makes of its host kernel."""
        return operator.host_closure(call, next_path) if call.state.runtime.profile.host_resident else None


class Replay:
    """Launches of an earlier call with the same layouts and arguments, as one call of machine code."""

    name = "replay"

    def build(self, operator: LadderOperator, call: Signature, next_path: Closure) -> Closure | None:
        """A closure that records launches and replays them."""
        if not operator.replays(call):
            return None
        return replayed(call.state, operator.schema.tensors, len(operator.schema.names), next_path)


class Planned:
    """A generated kernel whose launch is planned once for the operands' layouts."""

    name = "plan"

    def build(self, operator: LadderOperator, call: Signature, next_path: Closure) -> Closure | None:
        """A closure that looks plans up."""
        return operator.planned_path(call, next_path)


#: Fastest first.
LADDER: Final[tuple[Path, ...]] = (Entry(), HostKernel(), Replay(), Planned())


class LadderOperator(Operator):
    """An operator whose calls take the ladder. A kind implements ``compose`` and what its other paths need."""

    paths: tuple[Path, ...] = LADDER

    def build(self, key: int, state: DeviceState) -> Closure:
        """The closure for a key: all paths that can serve its calls, each with the next one behind it."""
        return self.rungs(key, state)[0][1]

    def rungs(self, key: int, state: DeviceState) -> list[tuple[str, Closure]]:
        """Names and closures of the paths for a key, fastest first."""
        call = self.signature(key, state)
        found = [("compose", self.compose(call))]
        for path in reversed(self.paths):
            made = path.build(self, call, found[0][1])
            if made is not None and made is not found[0][1]:
                found.insert(0, (path.name, made))
        return found

    def how(self, state: DeviceState, dtype: DType) -> str:
        """Return the fastest path for operands of a dtype; where that is ``compose``, how it computes."""
        try:
            name = self.rungs(state.key | dtype_bit(dtype), state)[0][0]
        except TensocketError:  # the operator is not defined for the dtype
            name = "compose"
        return super().how(state, dtype) if name == "compose" else name

    def signature(self, key: int, state: DeviceState) -> Signature:
        """What the key settles."""
        return Signature(key, state)

    def compose(self, call: Signature) -> Closure:
        """The reference: serves every call, and raises what is wrong with it."""
        raise NotImplementedError

    def entry(self, call: Signature) -> EntrySpec | None:
        """What an entry is compiled from; None where there is none."""
        return None

    def host_closure(self, call: Signature, next_path: Closure) -> Closure | None:
        """The closure over the host kernel; None where there is none."""
        return None

    def replays(self, call: Signature) -> bool:
        """Whether calls do nothing but launch kernels."""
        return False

    def planned_path(self, call: Signature, next_path: Closure) -> Closure | None:
        """The closure over planned launches; None where there is none."""
        return None
