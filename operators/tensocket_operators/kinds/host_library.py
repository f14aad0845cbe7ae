"""Operators that NumPy or SciPy computes on the host: linear algebra, Fourier transforms.

On a host-resident device the function works on the device's own memory. On any other device it is a host kernel: the
backend's profile declares it, or ``set_fallback`` allows it, and the ledger counts the bytes that it moves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

import numpy as np

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.fallback import note_host_operator
from tensocket_core.dispatch.operator import check_dtype
from tensocket_core.keys import dtype_bit
from tensocket_core.launch.copies import from_host
from tensocket_core.launch.host_convert import float32_of_bfloat16, to_dtype
from tensocket_core.launch.path import FUNCTION_LADDER, LadderOperator, Signature
from tensocket_core.meta import missing_data
from tensocket_core.promotion import FLOAT8, complex_dtype
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import DtypeError
from tensocket_plugins.ir.element_types import COMPONENT
from tensocket_plugins.kit.host_kernels_quiet import quiet
from tensocket_plugins.kit.host_memory import call_pooled

from .private import private

Shape = tuple[int, ...]
#: How the dtype of a result follows from that of the first tensor.
Kind = Literal["same", "int32", "int64", "bool", "real", "complex"]

#: Elements up to which an operator's temporaries are small.
_FEW: Final = 1024
_HALVES: Final = (dtypes.float16, dtypes.bfloat16)


def same_shape(first: Shape, *rest: Any) -> Shape:
    """Return the first tensor's shape."""
    return first


class HostOperator(LadderOperator):
    """An operator run by a function over NumPy arrays.

    Attributes:
        compute: ``compute(*arguments)`` with an array for every tensor; returns an array, or a tuple of arrays.
            Half-precision elements come as float32.
        shape: ``shape(*arguments)`` with the shape of every tensor; returns the shape of the result, or a list with
            the shapes of several results. None if the shape depends on values.
        result: Dtype of the result: that of the first tensor, the dtype named, or the first tensor's real or complex
            counterpart; for several results, a tuple of these.
        kinds: Letters of the dtype kinds that it accepts: ``b`` bool, ``i`` integers, ``f`` floats, ``c`` complex.
        halves: Whether it accepts half-precision floats.
        label: Name of the operator in errors.
        replayable: Whether ``compute`` may launch all of its work; see ``launch.replay``.
    """

    kind = "host"
    paths = FUNCTION_LADDER

    def __init__(self, schema: str, doc: str, compute: Callable[..., Any], *, shape: Callable[..., Any] | None,
                 result: Kind | tuple[Kind, ...] = "same", kinds: str = "bifc",
                 halves: bool = True, label: str | None = None, replayable: bool = False, **record: Any) -> None:
        super().__init__(schema, doc, **record)
        self.compute = quiet(compute)
        self.shape = shape
        self.result = result
        self.kinds = kinds
        self.halves = halves
        self.label = label or self.name
        self.replayable = replayable

    def compose(self, call: Signature) -> Callable[..., Any]:
        """Return the general closure."""
        return private(self.label, partial(self.run, call.state))

    def how_composed(self, state: DeviceState, dtype: DType) -> str:
        """Return ``host kernel`` on a host-resident device, else ``host``."""
        return "host kernel" if state.runtime.profile.host_resident else "host"

    def run(self, state: DeviceState, *args: Any) -> Any:
        """Check, then run on the device or infer the result.

        Raises:
            DtypeError: The operator is not defined for the dtype.
            UnsupportedOperator: The device is not host-resident, does not declare the operator, and no fallback is set.
        """
        given = [x for x in args if hasattr(x, "_key")]
        self._check(given[0].dtype)
        if not state.holds_data:
            return self._inferred(state, given[0].dtype, args)
        if max([x._array.size for x in given]) < _FEW:
            return self.on_device(state, args)
        return call_pooled(self.label, self.on_device, state, args)

    def on_device(self, state: DeviceState, args: tuple[Any, ...]) -> Any:
        """Fetch the arguments, compute on the host, and store the results on the device."""
        given = [x for x in args if hasattr(x, "_key")]
        if not state.runtime.profile.host_resident:
            for tensor in given:
                note_host_operator(self.name, tensor)
        result = self.compute(*[_values(x) if hasattr(x, "_key") else x for x in args])
        if type(result) is tuple:
            return tuple([self._stored(state, np.asarray(part), given[0].dtype) for part in result])
        return self._stored(state, np.asarray(result), given[0].dtype)

    def _inferred(self, state: DeviceState, source: DType, args: tuple[Any, ...]) -> Any:
        """Return a result without data, for arguments without data.

        Raises:
            MissingDataError: The result's shape depends on values.
        """
        if self.shape is None:
            raise missing_data(self.label, "a meta tensor, on whose values the shape of the result depends")
        shape = self.shape(*[tuple(x.shape) if hasattr(x, "_key") else x for x in args])
        if isinstance(self.result, tuple):
            return tuple([_empty(state, one, source, kind) for one, kind in zip(shape, self.result, strict=True)])
        return _empty(state, shape, source, self.result)

    def _stored(self, state: DeviceState, result: np.ndarray[Any, Any], source: DType) -> Any:
        """Store a result on the device; float32 results of half-precision arguments are rounded."""
        dtype = dtypes.FROM_NUMPY[result.dtype]
        if source in _HALVES and dtype is dtypes.float32:
            dtype = source
        check_dtype(self.label, state, dtype)
        stored = np.ascontiguousarray(to_dtype(result, dtype)).reshape(result.shape)
        array = stored if state.runtime.profile.host_resident else from_host(state, stored, dtype)
        return wrap(array, state.key | dtype_bit(dtype))

    def _check(self, dtype: DType) -> None:
        letter = "i" if dtype.kind == "uint" else dtype.kind[0]
        stored = dtype in FLOAT8 or dtype is dtypes.complex32
        if letter not in self.kinds or (dtype in _HALVES and not self.halves) or stored:
            raise DtypeError(self.label, f"dtype {dtype.name}", f"{self.label} is not defined for this dtype",
                             "convert with .to(dtype) first")


def _empty(state: DeviceState, shape: Shape, source: DType, kind: Kind) -> Any:
    """Return a result without data."""
    dtype = {"same": source, "int32": dtypes.int32, "int64": dtypes.int64, "bool": dtypes.bool_,
             "real": COMPONENT.get(source, source), "complex": source}[kind]
    if kind == "complex" and not source.is_complex:
        dtype = complex_dtype(source)
    return wrap(state.runtime.empty(shape, dtype, state.stream), state.key | dtype_bit(dtype))


def _values(tensor: Any) -> np.ndarray[Any, Any]:
    """Return a tensor's stored elements on the host, with half-precision elements widened to float32."""
    host: np.ndarray[Any, Any] = tensor._host()
    if tensor.dtype is dtypes.bfloat16:
        return float32_of_bfloat16(host)
    return host.astype(np.float32) if tensor.dtype is dtypes.float16 else host
