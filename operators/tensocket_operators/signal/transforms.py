"""Records of transforms, and the choice between a library and kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from tensocket_core.device import DeviceState
from tensocket_core.keys import dtype_bit
from tensocket_core.launch.path import Signature
from tensocket_core.tensor import wrap
from tensocket_plugins.contract.dtypes import FROM_NUMPY
from tensocket_plugins.contract.launch_recorder import may_round_freely

from ..kinds.host_library import HostOperator, Kind
from ..kinds.programs import Programs
from . import fourier_kernel_cpu

#: Real values, complex ones, or the first half of complex ones that mirror each other.
Values = Literal["real", "complex", "half"]

#: Elements from which on calls launch kernels: a library transforms few of them before kernels are compiled.
MANY: Final = 1 << 12
_PROGRAMS: Final = Programs("short_transforms", cpu=True, simt=False)
_RESULTS: Final[dict[Values, Kind]] = {"real": "real", "complex": "same", "half": "complex"}


def by_kernels(state: DeviceState, x: Any, axes: Sequence[int], sizes: Sequence[int], scale: float, forward: bool,
               result: Values) -> Any:
    """Return what ``fourier_kernel_cpu.transformed`` does, as a tensor; None without kernels that suit the array."""
    made = fourier_kernel_cpu.transformed(
        state, x, axes, sizes, scale, forward, result) if _PROGRAMS.of(state) else None
    return None if made is None else wrap(made, state.key | dtype_bit(FROM_NUMPY[made.dtype]))


class Transform(HostOperator):
    """A record of transforms: a library computes those of few elements, kernels all others that suit them.

    Kernels also serve recordings that may round otherwise than the library.

    Args:
        result: The values along the last axis of the result.
        arguments: ``arguments(shape, *arguments)``: axes, sizes, factor and whether exponents are negative.
        record: As of ``HostOperator``.
    """

    def __init__(self, schema: str, doc: str, compute: Callable[..., Any], result: Values,
                 arguments: Callable[..., tuple[Sequence[int], Sequence[int], float, bool]], **record: Any) -> None:
        super().__init__(schema, doc, compute, result=_RESULTS[result], **record)
        self._holds, self._arguments = result, arguments

    def rounds_alike(self, call: Signature, args: Sequence[Any] = ()) -> bool:
        """Whether kernels also serve calls that are not recorded."""
        return bool(args) and args[0]._array.size >= MANY

    def on_device(self, state: DeviceState, args: tuple[Any, ...]) -> Any:
        """Launch kernels, or compute on the host."""
        x = args[0]
        if _PROGRAMS.of(state) and (x._array.size >= MANY or may_round_freely()):
            axes, sizes, scale, forward = self._arguments(tuple(x.shape), *args[1:])
            made = by_kernels(state, x.detach().contiguous()._array, axes, sizes, scale, forward, self._holds)
            if made is not None:
                return made
        return super().on_device(state, args)
