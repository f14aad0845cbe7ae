"""Reasons why a path of the ladder does not serve a call, for ``explain``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tensocket_core.geometry import contiguous
from tensocket_core.launch.entries import ENABLED
from tensocket_core.launch.path import LADDER, LadderOperator, Signature
from tensocket_core.launch.replay import CALLS, ELEMENTS

from .unrolled.fronts import CALLS as UNROLLED_CALLS

Args = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class PathReasons:
    """The reasons of one path.

    Attributes:
        absent: ``absent(operator, call)`` returns the reason why the path has no closure for a key.
        refused: ``refused(operator, call, args)`` returns the reason why the closure handed a call on.
    """

    absent: Callable[[LadderOperator, Signature], str]
    refused: Callable[[LadderOperator, Signature, Args], str]


def _no_entry(operator: LadderOperator, call: Signature) -> str:
    if not ENABLED:
        return "TENSOCKET_NATIVE=0 turns entries off"
    if not call.state.runtime.profile.host_resident:
        return "the device's memory is not the host's"
    return _no_code(call) or _undecided(operator, call) or "the operator has no entry for such operands"


def _entry_refused(operator: LadderOperator, call: Signature, args: Args) -> str:
    spec = operator.entry(call)
    if spec is None:
        return "compiled after many calls only, or the arguments are not those of its plan"
    plan = spec.build()
    limit = min(plan.limit, spec.limit or plan.limit)
    if _size(args) > limit:
        return f"{_size(args)} elements: entries serve up to {limit}"
    if not all(contiguous(x._array) for x in args if hasattr(x, "_array")):
        return "an operand is not contiguous"
    return "compiled after many calls only" if spec.counted else "the arguments are not those of its plan"


def _no_host_kernel(operator: LadderOperator, call: Signature) -> str:
    if not call.state.runtime.profile.host_resident:
        return "the device's memory is not the host's"
    return _undecided(operator, call) or "NumPy has no kernel for it that rounds as generated kernels do"


def _host_kernel_refused(operator: LadderOperator, call: Signature, args: Args) -> str:
    limit = None if call.kernel is None else call.kernel.limit
    if limit is not None and _size(args) > limit:
        return f"{_size(args)} elements: NumPy serves up to {limit}"
    return "NumPy would lay the result out in another way, or refuses the arguments"


def _no_views(operator: LadderOperator, call: Signature) -> str:
    return _no_code(call) or _no_entry(operator, call)


def _views_refused(operator: LadderOperator, call: Signature, args: Args) -> str:
    return ("compiled after many calls only, or the call copies elements, came once, or has arguments that are not "
            "compared")


def _no_replay(operator: LadderOperator, call: Signature) -> str:
    return _no_code(call) or "calls are not declared to do nothing but launch kernels"


def _replay_refused(operator: LadderOperator, call: Signature, args: Args) -> str:
    if _size(args) > ELEMENTS:
        return f"{_size(args)} elements: replays serve up to {ELEMENTS}"
    return f"recorded after {CALLS} calls with the same layouts and arguments, where the device can"


def _no_plan(operator: LadderOperator, call: Signature) -> str:
    return _no_code(call) or _undecided(operator, call) or "the operator plans its launches in compose"


def _plan_refused(operator: LadderOperator, call: Signature, args: Args) -> str:
    return "so few elements that planning does not pay, or layouts that have to be checked or converted first"


def _not_unrolled(operator: LadderOperator, call: Signature) -> str:
    return "the operator is not a function over others"


def _unrolled_refused(operator: LadderOperator, call: Signature, args: Args) -> str:
    return f"unrolled after {UNROLLED_CALLS} equal calls, if the function reads nothing but layouts"


def _no_code(call: Signature) -> str:
    return "" if call.state.runtime.target is not None else "the device has no code generator"


def _undecided(operator: LadderOperator, call: Signature) -> str:
    settled = call.dtype is not None or operator.paths is not LADDER
    return "" if settled else "dtypes and numbers of each call decide what is computed in"


def _size(args: Args) -> int:
    return max((int(x._array.size) for x in args if hasattr(x, "_array")), default=0)


#: Reasons by the name of the path.
REASONS: Final[dict[str, PathReasons]] = {
    "views": PathReasons(_no_views, _views_refused),
    "entry": PathReasons(_no_entry, _entry_refused),
    "host kernel": PathReasons(_no_host_kernel, _host_kernel_refused),
    "replay": PathReasons(_no_replay, _replay_refused),
    "unrolled": PathReasons(_not_unrolled, _unrolled_refused),
    "plan": PathReasons(_no_plan, _plan_refused),
}
