"""The ladder: all paths that a call of an operator may take on a device, fastest first.

A path makes a closure for one key: it serves the calls that its guard admits and hands all others to the next path.
The last path, ``compose``, is the reference: it serves every call and raises every error. Kinds of operators supply the
parts (an entry's program, a host kernel, whether launches may be replayed, plans); only this module orders the paths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import TensocketError
from tensocket_plugins.contract.kernels import Kernel

from ..device import DeviceState
from ..dispatch.operator import Operator
from ..keys import DIM0, SCALAR_MASK, dtype_bit
from .entries import EntrySpec, build_entry
from .replay import replayed, replayed_forms

Closure = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Signature:
    """The facts that a key settles for all its calls; determined once, and read by every path.

    Attributes:
        key: The key, without layers.
        state: The device.
        dtype: Dtype of the operands; None if the operands of each call decide it.
        compute: Dtype that is computed in, if ``dtype`` is known.
        result: Dtype of the result, if ``dtype`` is known.
        number: Whether one operand is a Python number.
        kernel: The host kernel for small arrays, if NumPy rounds as all other paths do.
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
    """A path of the ladder. ``explain`` tells why a path does not serve a call.

    Attributes:
        name: Its name in ``explain`` and ``registrations``.
    """

    name: str

    def build(self, operator: LadderOperator, call: Signature, next_path: Closure) -> Closure | None:
        """Return a closure that passes the calls it cannot serve to ``next_path``; None if it can serve no call."""


class Entry:
    """Machine code that takes the tensors themselves: small dense operands of the key's dtype."""

    name = "entry"

    def build(self, operator: LadderOperator, call: Signature, next_path: Closure) -> Closure | None:
        """Return the entry, or a closure that counts calls until it is worth compiling."""
        return operator.entry_closure(call, next_path)


class HostKernel:
    """One call of NumPy or of the vendor's registered kernel: small arrays on a host-resident device."""

    name = "host kernel"

    def build(self, operator: LadderOperator, call: Signature, next_path: Closure) -> Closure | None:
        """Return the kind's closure over its host kernel."""
        return operator.host_closure(call, next_path) if call.state.runtime.profile.host_resident else None


class Replay:
    """The launches of an earlier call with the same layouts and arguments, as one call of machine code."""

    name = "replay"

    def build(self, operator: LadderOperator, call: Signature, next_path: Closure) -> Closure | None:
        """Return a closure that records launches and replays them."""
        if not operator.replays(call):
            return None
        tensors, count = operator.schema.tensors, len(operator.schema.names)
        if call.key & SCALAR_MASK:
            return replayed_forms(call.state, tensors, count, next_path)
        return replayed(call.state, tensors, count, next_path, wants_kernels=operator.replays_kernels)


class Planned:
    """A generated kernel whose launch is planned once for the operands' layouts."""

    name = "plan"

    def build(self, operator: LadderOperator, call: Signature, next_path: Closure) -> Closure | None:
        """Return a closure that looks plans up."""
        return operator.planned_path(call, next_path)


#: Fastest first.
LADDER: Final[tuple[Path, ...]] = (Entry(), HostKernel(), Replay(), Planned())
#: The ladder of operators that are functions over others: a replay is one call, a host path several.
FUNCTION_LADDER: Final[tuple[Path, ...]] = (Replay(), Entry(), HostKernel())


def climb(operator: LadderOperator, call: Signature, compose: Closure, paths: Sequence[Path]
          ) -> list[tuple[str, Closure]]:
    """Return the names and closures of the paths over ``compose`` that can serve calls, fastest first."""
    found = [("compose", compose)]
    for path in reversed(paths):
        made = path.build(operator, call, found[0][1])
        if made is not None and made is not found[0][1]:
            found.insert(0, (path.name, made))
    return found


def _declined(*args: Any) -> None:
    """Stand for the next path, to find out whether an operator has a faster one."""


class LadderOperator(Operator):
    """An operator whose calls take the ladder. A kind implements ``compose`` and the methods that other paths call.

    Attributes:
        paths: The paths above ``compose``, fastest first.
        replayable: Whether calls only launch kernels, so that they can be replayed; see ``launch.replay``.
        replays_kernels: Whether kernels take the place of a host library in replays.
    """

    paths: tuple[Path, ...] = LADDER
    replayable = False
    replays_kernels = False

    def build(self, key: int, state: DeviceState) -> Closure:
        """Build the closure for a key: all paths that can serve its calls, each with the next one behind it."""
        return self.rungs(key, state)[0][1]

    def rungs(self, key: int, state: DeviceState) -> list[tuple[str, Closure]]:
        """Return the names and closures of the paths for a key, fastest first."""
        call = self.signature(key, state)
        return climb(self, call, self.compose(call), self.paths)

    def how(self, state: DeviceState, dtype: DType) -> str:
        """Return the name of the fastest path for operands of a dtype; for ``compose``, how it computes."""
        try:
            name = self.rungs(state.key | dtype_bit(dtype), state)[0][0]
        except TensocketError:  # the operator is not defined for the dtype
            name = "compose"
        return self.how_composed(state, dtype) if name == "compose" else name

    def how_composed(self, state: DeviceState, dtype: DType) -> str:
        """Return how ``compose`` computes."""
        return super().how(state, dtype)

    def signature(self, key: int, state: DeviceState) -> Signature:
        """Return the facts that the key settles."""
        return Signature(key, state)

    def compose(self, call: Signature) -> Closure:
        """Return the reference closure, which serves every call and raises every error."""
        raise NotImplementedError

    def entry(self, call: Signature) -> EntrySpec | None:
        """Return the spec that an entry is compiled from; None if the operator has none."""
        return None

    def entry_closure(self, call: Signature, next_path: Closure) -> Closure | None:
        """Return the entry, or a closure that compiles it later; None if the operator has none."""
        spec = self.entry(call)
        return None if spec is None else build_entry(self, call.key, call.state, spec, next_path)

    def host_closure(self, call: Signature, next_path: Closure) -> Closure | None:
        """Return the closure over the host kernel; None if there is none."""
        return None if self.host_path is None else self.host_path(call.key, call.state, next_path)

    def replays(self, call: Signature) -> bool:
        """Whether calls with this signature only launch kernels, so that they can be replayed."""
        return self.replayable

    def rounds_alike(self, call: Signature, args: Sequence[Any] = ()) -> bool:
        """Whether plan and reference make the bits of the faster paths; true if there are none."""
        resident = call.state.runtime.profile.host_resident
        return not resident or all(path(call, _declined) in (None, _declined)
                                   for path in (self.entry_closure, self.host_closure))

    def planned_path(self, call: Signature, next_path: Closure) -> Closure | None:
        """Return the closure over planned launches; None if the kind makes no plans."""
        return None
