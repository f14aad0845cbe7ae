"""Automatic choice of precisions for a block, a function, or a thread."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, Final

from tensocket_core.dispatch.autocast import PRECISION, forget_conversions, switch
from tensocket_core.dispatch.decorate import decorate
from tensocket_operators import Tensor, bfloat16, float16, is_available
from tensocket_plugins.contract.devices import HOST_DEVICE, parse_device
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.registry import registry

from ..errors import ArgumentError, ArgumentTypeError, DeviceError

#: Supported low precisions.
_LOW: Final = (bfloat16, float16)
#: Device types that programs may name even if no backend for them is installed.
_FOREIGN: Final = frozenset({"cuda", "hpu", "mps", "mtia", "xla", "xpu"})
#: The device type of functions without a device argument, as in PyTorch.
_UNNAMED: Final = "cuda"


def _kind(device_type: Any) -> str:
    """Return a device type of an installed backend, or one that PyTorch has.

    Raises:
        ArgumentError: It is not a string.
        DeviceError: The device type does not exist or does not compute.
    """
    if not isinstance(device_type, str):
        raise ArgumentError("autocast", f"device_type of type {type(device_type).__name__}",
                            "a device type is a string", "pass device.type")
    if not is_autocast_available(device_type):
        raise DeviceError("autocast", f"device type {device_type!r}", "the device type is that of a backend",
                          f"use one of {', '.join(registry().names())}")
    return parse_device(device_type).type


def is_autocast_available(device_type: str) -> bool:
    """Whether precisions can be chosen for this device type, even if no such device exists."""
    kind = parse_device(device_type).type
    return kind in _FOREIGN or kind in registry().names()


# ----------------------------------------------------------------------------------------------- the thread's choice


def get_autocast_dtype(device_type: str) -> DType:
    """Return the low precision of a device type: as set, otherwise bfloat16 on the host and float16 elsewhere."""
    kind = _kind(device_type)
    return PRECISION.chosen.get(kind) or (bfloat16 if kind == HOST_DEVICE else float16)


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Set the low precision of a device type in this thread."""
    kind = _kind(device_type)
    PRECISION.chosen[kind] = dtype
    if kind in PRECISION.enabled:
        switch(kind, dtype)


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether precisions are chosen for a device type in this thread; by default, for ``cuda``."""
    return _kind(_UNNAMED if device_type is None else device_type) in PRECISION.enabled


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Choose precisions from now on: ``set_autocast_enabled("cpu", True)``; by default, for ``cuda``.

    Raises:
        ArgumentTypeError: The device type is given, but not the value.
    """
    if enabled is None:
        if isinstance(device_type, str):
            raise ArgumentTypeError("set_autocast_enabled", f"device type {device_type!r} alone",
                                    "it is switched on or off", "pass True or False as second argument")
        enabled = device_type
        device_type = _UNNAMED
    kind = _kind(device_type)
    switch(kind, get_autocast_dtype(kind) if enabled else None)


def is_autocast_cache_enabled() -> bool:
    """Whether converted parameters are cached until the outermost block ends."""
    return PRECISION.caching


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Set whether converted parameters are cached until the outermost block ends."""
    PRECISION.caching = enabled


def clear_autocast_cache() -> None:
    """Clear the cache of converted parameters of this thread."""
    forget_conversions()


def autocast_increment_nesting() -> int:
    """Enter a block and return the number of active blocks."""
    PRECISION.depth += 1
    return PRECISION.depth


def autocast_decrement_nesting() -> int:
    """Leave a block and return the number of active blocks."""
    PRECISION.depth -= 1
    return PRECISION.depth


def is_autocast_cpu_enabled() -> bool:
    """Return ``is_autocast_enabled("cpu")``."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Call ``set_autocast_enabled("cpu", enabled)``."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> DType:
    """Return ``get_autocast_dtype("cpu")``."""
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: DType) -> None:
    """Call ``set_autocast_dtype("cpu", dtype)``."""
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> DType:
    """Return ``get_autocast_dtype("cuda")``."""
    return get_autocast_dtype(_UNNAMED)


def set_autocast_gpu_dtype(dtype: DType) -> None:
    """Call ``set_autocast_dtype("cuda", dtype)``."""
    set_autocast_dtype(_UNNAMED, dtype)


# ----------------------------------------------------------------------------------------------------------- blocks


class autocast:
    """``with autocast("cpu"):`` — operators on such devices choose their precision; also a decorator.

    Matrix products and convolutions compute in the low precision, operators that would overflow or lose digits there in
    float32, and all others in the dtypes of their operands. float64 does not change. Leave the block before
    ``backward()``: gradients are computed in the precisions of the forward pass.

    Args:
        device_type: ``cpu``, ``cuda``, or the name of another backend.
        dtype: The low precision, bfloat16 or float16; ``get_autocast_dtype(device_type)`` if not given.
        enabled: False disables the choice in the block.
        cache_enabled: Whether parameters are converted once per outermost block; by default as outside of the block.

    Raises:
        ArgumentError: The device type is not a string.
        DeviceError: The backend does not exist.
    """

    def __init__(self, device_type: str, dtype: DType | None = None, enabled: bool = True,
                 cache_enabled: bool | None = None) -> None:
        self.device = _kind(device_type)
        self.fast_dtype = get_autocast_dtype(self.device) if dtype is None else dtype
        if enabled and not is_available(self.device):
            warnings.warn(f"autocast: there is no device of type {self.device!r}; it stays off", UserWarning,
                          stacklevel=2)
            enabled = False
        if enabled and self.fast_dtype not in _LOW:
            warnings.warn(f"autocast: low precisions are bfloat16 and float16, not {self.fast_dtype}; it stays off",
                          UserWarning, stacklevel=2)
            enabled = False
        self._enabled = enabled
        self._cache_enabled = cache_enabled
        self._before: list[tuple[DType | None, DType | None, bool]] = []

    def __enter__(self) -> autocast:
        kind = self.device
        self._before.append((PRECISION.enabled.get(kind), PRECISION.chosen.get(kind), PRECISION.caching))
        PRECISION.chosen[kind] = self.fast_dtype
        switch(kind, self.fast_dtype if self._enabled else None)
        if self._cache_enabled is not None:
            PRECISION.caching = self._cache_enabled
        PRECISION.depth += 1
        return self

    def __exit__(self, *error: object) -> None:
        PRECISION.depth -= 1
        if not PRECISION.depth:
            forget_conversions()
        enabled, chosen, PRECISION.caching = self._before.pop()
        switch(self.device, enabled)
        if chosen is None:
            PRECISION.chosen.pop(self.device, None)
        else:
            PRECISION.chosen[self.device] = chosen

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a function."""
        return decorate(lambda: self, func)  # type: ignore[no-any-return]


# ----------------------------------------------------------------------------------------------- autograd functions


def _cast(value: Any, kind: str, to: DType) -> Any:
    """Convert floating-point tensors of a device type in a structure of lists and dicts; float64 stays."""
    if isinstance(value, Tensor):
        wanted = value.is_floating_point() and value.device.type == kind and value.dtype.itemsize < 8
        return value.to(to) if wanted else value
    if isinstance(value, dict):
        return {_cast(key, kind, to): _cast(item, kind, to) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_cast(item, kind, to) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def custom_fwd(fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: DType | None = None) -> Any:
    """Decorate ``forward`` of a ``Function`` so that it works under ``autocast``.

    Args:
        fwd: ``forward(ctx, *args)``.
        device_type: The device type that the function computes on.
        cast_inputs: The dtype to convert floating-point tensors to; the function then runs without ``autocast``. If not
            given, the function runs in the mode of its caller.

    Raises:
        ArgumentError: The device type is not a string.
    """
    kind = _kind(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        ctx, on = args[0], is_autocast_enabled(kind)
        ctx._dtype = get_autocast_dtype(kind)
        ctx._fwd_used_autocast = on and cast_inputs is None
        if not on or cast_inputs is None:
            return fwd(*args, **kwargs)
        with autocast(kind, enabled=False):
            return fwd(*_cast(args, kind, cast_inputs), **_cast(kwargs, kind, cast_inputs))

    return decorated


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorate ``backward`` of a ``Function`` whose ``forward`` has ``custom_fwd``, so that it runs in the same mode.

    Args:
        bwd: ``backward(ctx, *grads)``.
        device_type: The device type that the function computes on.

    Raises:
        ArgumentError: The device type is not a string.
    """
    kind = _kind(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast(kind, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return decorated


__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
