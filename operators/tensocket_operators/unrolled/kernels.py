"""The tracer of recorded launches: operators launch kernels where their closures may call a host library.

A recording holds launches only, and neither entries nor NumPy. While one is made that wants kernels, this tracer gives
all operators the path that launches them. Its maker says whether they may round otherwise than the library
(``ReplayPlan.rounds_freely``); if not, operators with a library that does end the recording.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket_core.device import BY_KEY
from tensocket_core.dispatch.layers import highest
from tensocket_core.dispatch.modes import thread_state
from tensocket_core.dispatch.trace import Tracer
from tensocket_core.keys import AUTOGRAD, DEVICE_MASK, DTYPE_MASK
from tensocket_core.launch.path import HostKernel, LadderOperator, Planned, climb
from tensocket_plugins.contract.errors import TensocketError
from tensocket_plugins.contract.launch_recorder import (
    forbid_replay,
    may_round_freely,
    note_constant,
    outside_recording,
    takes_other_branch,
    wants_kernels,
)

from .checks import DECLARED

#: Factories that launch a kernel, or nothing, in a recording.
_FILLING: Final = ("empty", "full", "new_empty", "new_full", "new_ones", "new_zeros", "ones", "zeros")
_FILLING_LIKE: Final = tuple(f"{name}_like" for name in _FILLING if "_" not in name)


class _Kernels(Tracer):
    """See the module.

    Args:
        marks: Whether marks of tensors belong to the result: those of views, which the user sees, but no rule reads.
    """

    def __init__(self, marks: bool) -> None:
        super().__init__(None, None)
        self._marks = marks

    def operator(self, operator: Any, key: int, kernel: Any, args: tuple[Any, ...]) -> Any:
        """Call the plan of an operator, or its reference; composites call operators that come here."""
        below, state = key & ~AUTOGRAD, BY_KEY.get(key & DEVICE_MASK)
        if highest(below) is not None:
            forbid_replay()  # a layer above autograd handles other objects than arrays
        elif state is None or not key & DTYPE_MASK:
            pass
        else:
            kernel = self._kernel(operator, below, state, args)
            if key & AUTOGRAD and operator.is_recorded:
                kernel = (operator.recording_calls(operator.unrecorded(kernel), key) if operator.kind == "composite"
                          else operator.recording(kernel, key))
        return operator.invoke(kernel, args)

    def _kernel(self, operator: Any, key: int, state: Any, args: tuple[Any, ...]) -> Callable[..., Any]:
        """Return the closure of an operator that launches kernels."""
        if operator.body is not None or not isinstance(operator, LadderOperator):
            rungs = operator.rungs(key, state)
            # The host paths of replayable composites launch kernels, or end the recording.
            quick = [path for name, path in rungs if name == HostKernel.name and operator.replayable]
            return quick[0] if quick else rungs[-1][1]  # type: ignore[no-any-return]
        call = operator.signature(key, state)
        if not may_round_freely() and not operator.rounds_alike(call, args):
            forbid_replay()
        return climb(operator, call, operator.compose(call), (Planned(),))[0][1]

    def helper(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call a function that checks values or marks tensors.

        It ends the recording if it does not declare the values, or if the marks belong to the result.
        """
        if self._marks and function not in DECLARED:
            forbid_replay()
        with thread_state(tracer=self):
            try:
                return function(*args)
            except TensocketError:
                if not takes_other_branch():
                    raise
                return None  # recordings run on contents of all kinds, also on wrong ones

    def factory(self, function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Make a tensor: by a launch, or as a constant, which follows from arguments and shapes."""
        if function.__name__ in _FILLING or function.__name__ in _FILLING_LIKE:
            return function(*args, **keywords)
        with outside_recording():
            made = function(*args, **keywords)
        note_constant(made._array)
        return made


_KERNELS: Final = {marks: _Kernels(marks) for marks in (False, True)}


def launching_kernels(*, marks: bool) -> thread_state:
    """Return a block in which operators launch kernels if this thread's recording wants that; see ``_Kernels``."""
    return thread_state(tracer=_KERNELS[marks] if wants_kernels() else None)
