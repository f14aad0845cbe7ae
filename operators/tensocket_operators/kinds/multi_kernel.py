"""Operators that devices with a code generator run as a sequence of kernels: scans, sorting, search, sets.

On a host-resident device NumPy computes them on the device's own memory, unless the device has a code generator and the
input has many elements. A device without a code generator runs them as host kernels, like ``HostOperator``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.keys import dtype_bit
from tensocket_core.tensor import wrap
from tensocket_plugins.contract.dtypes import DType, complex64, complex128, float32, float64, int64
from tensocket_plugins.contract.launch_recorder import is_recording
from tensocket_plugins.ir.build.math import arithmetic_dtype

from ..scans.kernel import scan_array
from ..scans.nest import Scan
from .host_library import HostOperator, same_shape

#: Dtype in which values are combined on a device that computes in float64, as NumPy's scans here do.
_WIDER: Final = {float32: float64, complex64: complex128}


class SequenceOperator(HostOperator):
    """An operator with a function over NumPy arrays and one over tensors.

    Attributes:
        generate: ``generate(*arguments)`` with detached tensors of one device that has a code generator; may call
            any operators.
        many: Elements from which ``generate`` is faster than NumPy on the host; None for never.
        counted: Position of the argument that has these elements.
        replayable: Whether ``generate`` only launches kernels, as in composites; recordings then use it for arrays of
            all sizes.
    """

    kind = "sequence"

    def __init__(self, schema: str, doc: str, compute: Callable[..., Any], generate: Callable[..., Any],
                 many: int | None = None, counted: int = 0, replayable: bool = False, **record: Any) -> None:
        super().__init__(schema, doc, compute, **record)
        self.generate = generate
        self.many = many
        self.counted = counted
        self.replayable = replayable

    def how_composed(self, state: DeviceState, dtype: DType) -> str:
        """Return ``generated`` with a code generator, else the same as other host operators."""
        generates = state.runtime.target is not None and not state.runtime.profile.host_resident
        return "generated" if generates else super().how_composed(state, dtype)

    def on_device(self, state: DeviceState, args: tuple[Any, ...]) -> Any:
        """Run the kernels, or compute on the host."""
        if not self._generates(state, args[self.counted]):
            return super().on_device(state, args)
        return self.generate(*[x.detach() if hasattr(x, "_key") else x for x in args])

    def _generates(self, state: DeviceState, counted: Any) -> bool:
        target = state.runtime.target
        if target is None or not state.runtime.profile.host_resident:
            return target is not None
        if target.kind != "cpu" or self.many is None or not counted.ndim:
            return False
        return counted._array.size >= self.many or (self.replayable and is_recording())


def scan_operator(schema: str, doc: str, compute: Callable[..., Any], scan: Scan, *, result: Any = "same",
                  wide: bool = True, kinds: str = "ifc", derivative: Derivative | None = None) -> SequenceOperator:
    """Return an operator ``name(Tensor input, int dim) -> Tensor`` that combines the elements up to each one.

    Args:
        schema: Its schema; it has neither a public function nor a method.
        doc: Its documentation.
        compute: ``compute(array, dim)`` with NumPy.
        scan: The same function as a combination of elements.
        result: The result's dtype: ``same`` or ``int64``.
        wide: Whether values are combined in float64, if the device has it.
        kinds: Kinds of dtypes, as of ``HostOperator``.
        derivative: The gradient.
    """
    def generate(input: Any, dim: int) -> Any:
        state, dtype = input._device_state, input.dtype
        accumulator = arithmetic_dtype(dtype)
        if wide and state.runtime.target.float64:
            accumulator = _WIDER.get(accumulator, accumulator)
        stored = int64 if result == "int64" else dtype
        array = scan_array(state, operator.name, scan, input._array, dim, dtype, accumulator, stored)
        return wrap(array, state.key | dtype_bit(stored))

    operator = SequenceOperator(schema, doc, compute, generate, shape=same_shape, result=result, kinds=kinds,
                                derivative=derivative, method=False, function=False, many=1, replayable=True)
    return operator
