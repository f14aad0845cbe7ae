"""Methods of tensors for other Python libraries: arrays, DLPack, pickle, copy."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tensocket_core.device import PENDING
from tensocket_core.dispatch.modes import STATE
from tensocket_core.dispatch.overrides import call_torch_function, overridden
from tensocket_core.keys import AUTOGRAD, LAZY, WRAPPER
from tensocket_core.tensor import tensor_methods
from tensocket_plugins.contract.dtypes import ALL
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, AutogradError
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS

from ..interop import dlpack, pickling
from ..interop.exported import fix_size
from ..interop.namespace import array_namespace
from ..interop.numpy import check_resolved, from_ufunc, to_array

#: Bits of tensors that need a check or a conversion on the way to NumPy.
_INDIRECT: Final = AUTOGRAD | LAZY | WRAPPER | sum(1 << dtype.bit for dtype in ALL if not dtype.native)


@tensor_methods
class InteropMethods:
    """Methods of tensors that other libraries call."""

    __slots__ = ()

    #: NumPy's arrays and numbers defer to the tensor in mixed arithmetic.
    __array_priority__: float = 1000.0

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        """Return ``tensocket.array_api``, the module with the array API standard's functions over tensors."""
        return array_namespace(api_version)

    def to_device(self: Any, device: Any, /, *, stream: Any = None) -> Any:
        """Return the tensor on another device, as in the array API standard; the tensor itself if it is already there.

        Raises:
            ArgumentError: ``stream`` is given; copies run on the devices' current streams.
        """
        if stream is not None:
            raise ArgumentError("to_device", f"stream={stream!r}", "copies run on the current streams",
                                "set the stream with set_stream")
        return self.to(device)

    @property
    def is_meta(self) -> bool:
        """Whether the tensor has a shape and a dtype, but no data."""
        return not self._device_state.holds_data  # type: ignore[attr-defined]

    def numpy(self: Any, *, force: bool = False) -> np.ndarray[Any, Any]:
        """Return a NumPy array that shares memory with this tensor.

        Args:
            force: Detach and copy to the host as needed.

        Raises:
            ArgumentTypeError: The tensor is not on the host, or NumPy lacks its dtype.
            AutogradError: The tensor requires grad.
            ExchangeError: The tensor is a conjugated or negated view.
        """
        array: np.ndarray[Any, Any] = self._array
        if type(array) is np.ndarray and not (force or self._key & _INDIRECT or VALUE_OBSERVERS or PENDING):
            fix_size(array)
            return array
        if not force:
            if self._key & AUTOGRAD and STATE.grad_enabled:
                raise AutogradError("numpy", "a tensor that requires grad", "NumPy arrays have no gradients",
                                    "call .detach().numpy()")
            if not self._device_state.runtime.profile.host_resident:
                raise ArgumentTypeError("numpy", f"a tensor on {self.device}", "NumPy arrays are in host memory",
                                        "call .cpu().numpy()")
            check_resolved(self)
        if not self.dtype.native:
            raise ArgumentTypeError("numpy", f"a tensor of dtype {self.dtype.name}", "NumPy has no such dtype",
                                    "call .float().numpy()")
        array = self._host()
        fix_size(array)
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return to_array(self, dtype, copy)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return from_ufunc(array)

    def __dlpack__(self, stream: Any = None, *, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        """Return a DLPack capsule with this tensor's memory.

        Args:
            stream: The consumer's stream, in DLPack's numbering for the device; -1 if the consumer synchronises itself.
                None on the host.
            max_version: The newest version that the consumer supports; None means a version before 1.0.
            dl_device: The device that the consumer wants, as DLPack's type and number.
            copy: True always copies, False never; None copies only to reach ``dl_device``.

        Raises:
            ExchangeError: The tensor requires grad, or its memory cannot be shared as requested.
            ArgumentError: The device shares no memory, or has no such stream.
        """
        return dlpack.export(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self: Any) -> tuple[int, int]:
        """Return DLPack's type and number of the device."""
        return dlpack.dlpack_device("__dlpack_device__", self._device_state)

    def module_load(self: Any, other: Any, assign: bool = False) -> Any:
        """Prepare ``other``, a value from a state dict, to be swapped with this tensor of a module.

        ``Module.load_state_dict`` calls it under ``__future__.set_swap_module_params_on_conversion(True)``. Classes
        whose values are not in the tensor's memory override it, or handle it in ``__torch_function__``.

        Args:
            other: The value from the state dict.
            assign: Whether ``load_state_dict`` was called with ``assign=True``.

        Returns:
            A new tensor: on this tensor's memory with the values of ``other``, or with ``assign`` on that of ``other``.
        """
        if overridden(self, other):
            return call_torch_function("module_load", InteropMethods.module_load, (self, other), (self, other),
                                       {"assign": assign})
        return (other if assign else self.copy_(other)).detach()

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return pickling.reduce_tensor(self)

    def __copy__(self) -> Any:
        return pickling.copy_tensor(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return pickling.deepcopy_tensor(self, memo)
