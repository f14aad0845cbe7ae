"""Elements of tensors as NumPy arrays and Python numbers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.dtypes import ALL
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, ShapeError
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS, note_read
from tensocket_plugins.ir.element_types import arithmetic_dtype

from ..device import PENDING, wait_for_values
from ..dispatch.lazy import resolved
from ..dispatch.modes import untransformed
from ..keys import LAZY, WRAPPER
from ..tensor import tensor_methods
from .stream_use import copy_arrays

#: Bits of tensors whose elements are not values in their memory as NumPy reads it.
_INDIRECT: Final = LAZY | WRAPPER | sum(1 << dtype.bit for dtype in ALL if not dtype.native)


@tensor_methods
class HostValues:
    """Methods that convert a tensor to NumPy arrays and Python numbers."""

    __slots__ = ()

    def _host(self: Any) -> np.ndarray[Any, Any]:
        """Return the elements as a NumPy array; on a host-resident device it shares memory, unless they are lazy."""
        state = self._device_state
        if self._key & LAZY:
            with untransformed():
                return resolved(self)._host()  # type: ignore[no-any-return]
        if VALUE_OBSERVERS:
            note_read(self)
        if state.runtime.profile.host_resident:
            if PENDING:
                wait_for_values()
            return self._array  # type: ignore[no-any-return]
        with untransformed():
            source = self._cut().contiguous()
        host = np.empty(source._array.shape, self.dtype.numpy)
        copy_arrays(state, host, source._array)
        return host

    def _values(self: Any) -> np.ndarray[Any, Any]:
        """Return the elements in a NumPy dtype: dtypes that NumPy lacks are widened to float32, or complex64."""
        if self.dtype.native:
            return self._host()  # type: ignore[no-any-return]
        with untransformed():
            return self._cut().to(arithmetic_dtype(self.dtype))._host()  # type: ignore[no-any-return]

    def item(self: Any) -> Any:
        """Return the only element as a Python number.

        Raises:
            ShapeError: The tensor does not have exactly one element.
        """
        array = self._array
        if type(array) is np.ndarray and not (self._key & _INDIRECT or VALUE_OBSERVERS or PENDING):
            try:
                return array.item()
            except ValueError:  # as many elements as the next test finds
                pass
        if array.size != 1:
            raise ShapeError("item", f"a tensor of shape {list(self.shape)}",
                             "only one element converts to a Python number", "use .tolist()")
        return self._values().item()

    def tolist(self: Any) -> Any:
        """Return the elements as nested lists of Python numbers."""
        array = self._array
        if type(array) is np.ndarray and not (self._key & _INDIRECT or VALUE_OBSERVERS or PENDING):
            return array.tolist()
        return self._values().tolist()

    def __bool__(self: Any) -> bool:
        array = self._array
        if type(array) is np.ndarray and array.size == 1 and not (self._key & _INDIRECT or VALUE_OBSERVERS or PENDING):
            return array.item() != 0  # type: ignore[no-any-return]
        if array.size != 1:
            raise ShapeError("bool", f"a tensor of shape {list(self.shape)}", "only one element has a truth value",
                             "use .any() or .all()")
        return self.item() != 0  # type: ignore[no-any-return]

    def __int__(self: Any) -> int:
        return int(real_number("int", self.item()))

    def __float__(self: Any) -> float:
        return float(real_number("float", self.item()))

    def __index__(self: Any) -> int:
        if self.dtype.kind not in ("bool", "int", "uint") or self._array.size != 1:
            raise ArgumentTypeError("index", f"a tensor of shape {list(self.shape)} and dtype {self.dtype.name}",
                                    "only one integer converts to an index", "convert it with int(...)")
        return int(self.item())


def real_number(operator: str, value: Any) -> Any:
    """Return a real Python number as it is, and the real part of a complex one without imaginary part.

    Raises:
        ArgumentError: The imaginary part is not zero.
    """
    if type(value) is complex and value.imag:
        raise ArgumentError(operator, f"the complex number {value}", "a real number has no imaginary part",
                            "take .real or .abs() first")
    return value.real
