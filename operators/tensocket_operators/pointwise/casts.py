"""Conversions to other dtypes and devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket_core.device import DeviceState, open_device
from tensocket_core.dispatch.call import call
from tensocket_core.formats import preserve_format
from tensocket_core.keys import AUTOGRAD, DTYPE_MASK, DTYPE_OF, dtype_bit
from tensocket_core.strides import suggested_format
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.devices import HOST_DEVICE, Device
from tensocket_plugins.contract.dtypes import DType, as_dtype
from tensocket_plugins.contract.errors import ArgumentTypeError
from tensocket_plugins.contract.launch_recorder import RECORDERS
from tensocket_plugins.kit.host_kernels_quiet import quiet

from ..kinds.composite import composite
from ..shapes.copies import convert

#: Elements up to which copies convert by NumPy, with the same results (``launch/copies.py``).
_SMALL: Final = 1023


def _refused(given: str) -> ArgumentTypeError:
    return ArgumentTypeError("to", given, "arguments are a dtype, a device or a tensor",
                             "for example .to('cpu', tensocket.float32)")


@quiet
def _as_type(array: Any, kind: Any) -> Any:
    return array.astype(kind)


def _small_conversion(key: int, state: DeviceState) -> Callable[[Any, DType], Any]:
    """Return ``convert(tensor, dtype)`` for tensors of a key: NumPy's conversion of few elements; None for others."""
    own = DTYPE_OF.get(key & DTYPE_MASK)
    served = own is not None and own.native and own.kind != "complex" and not key & AUTOGRAD

    def convert_small(input: Any, dtype: DType) -> Any:
        array = input._array
        if not served or RECORDERS or not dtype.native or dtype.kind == "complex" or array.size > _SMALL or not (
                array.flags.c_contiguous and dtype.name in state.runtime.profile.dtypes):
            return None
        return wrap(_as_type(array, dtype.numpy), state.key | dtype_bit(dtype))

    return convert_small


def _to_host_path(key: int, state: DeviceState, body: Any) -> Any:
    """Return a closure for calls with one dtype, or with the host's name; the body serves all others."""
    own, convert_small = DTYPE_OF.get(key & DTYPE_MASK), _small_conversion(key, state)

    def direct_to(input: Any, *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False,
                  copy: bool = False, memory_format: Any = None) -> Any:
        if not (copy or memory_format is not None or device is not None) and len(args) + (dtype is not None) == 1:
            wanted = args[0] if args else dtype
            if wanted is own:
                return input
            kind = type(wanted)
            if kind is DType:
                made = convert_small(input, wanted)
                if made is not None:
                    return made
            elif kind is str and wanted == HOST_DEVICE and open_device(wanted) is state:
                return input
        return body(input, *args, device=device, dtype=dtype, non_blocking=non_blocking, copy=copy,
                    memory_format=memory_format)

    return direct_to


@composite(
    "to(Tensor input, any args, *, device? device=None, dtype? dtype=None, bool non_blocking=False, "
    "bool copy=False, any memory_format=None) -> Tensor~",
    function=False, host_path=_to_host_path,
)
def to(
    input: Any, *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False, copy: bool = False,
    memory_format: Any = None
) -> Any:
    """Return this tensor with another dtype or on another device; itself if nothing changes and ``copy`` is False."""
    for position, arg in enumerate(args):
        if isinstance(arg, DType):
            dtype = arg
        elif (kind := as_dtype(arg)) is not None:
            dtype = kind
        elif isinstance(arg, (str, Device)):
            device = arg
        elif hasattr(arg, "_key"):
            device, dtype = arg.device, arg.dtype
        elif type(arg) is bool and position:  # non_blocking, then copy
            copy, non_blocking = (arg, non_blocking) if type(args[position - 1]) is bool else (copy, arg)
        elif arg is not None:
            raise _refused(f"{type(arg).__name__} {arg!r}")
    target = input._device_state if device is None else open_device(device)
    wanted = input.dtype if dtype is None else as_dtype(dtype)
    if wanted is None:
        raise _refused(f"dtype {dtype!r}")
    keeps = memory_format is None or memory_format is preserve_format
    if target is input._device_state and wanted is input.dtype:
        if copy:
            return input.clone(memory_format=memory_format)
        return input if keeps else _laid_out(input, memory_format)
    # Gradients end at conversions to integers.
    result = call(convert, input if wanted.category >= 2 else input.detach(), target, wanted)
    return result if keeps else _laid_out(result, memory_format)


def _laid_out(tensor: Any, format: Any) -> Any:
    """Return the tensor with the strides of a format, which differ even if sizes of 1 make two formats equivalent."""
    if suggested_format(tuple(tensor.shape), tensor.stride()) is format:
        return tensor.contiguous(memory_format=format)
    return tensor.clone(memory_format=format)


def _conversion(dtype: DType, name: str) -> Any:
    """Return the method ``name()`` that converts to a dtype."""

    def run(input: Any, memory_format: Any = None) -> Any:
        return input.to(dtype) if memory_format is None else input.to(dtype, memory_format=memory_format)

    def host_path(key: int, state: DeviceState, body: Any) -> Any:
        convert_small, same = _small_conversion(key, state), DTYPE_OF.get(key & DTYPE_MASK) is dtype

        def direct(input: Any, memory_format: Any = None) -> Any:
            made = None if memory_format is not None else input if same else convert_small(input, dtype)
            return body(input, memory_format) if made is None else made

        return direct

    run.__doc__ = f"This tensor as {dtype.name}."
    run.__name__ = f"to_{name}"
    schema = f"{name}(Tensor input, any memory_format=None) -> Tensor~"
    return composite(schema, function=False, host_path=host_path)(run)


to_float: Final = _conversion(dtypes.float32, "float")
to_double: Final = _conversion(dtypes.float64, "double")
to_half: Final = _conversion(dtypes.float16, "half")
to_bfloat16: Final = _conversion(dtypes.bfloat16, "bfloat16")
to_int: Final = _conversion(dtypes.int32, "int")
to_long: Final = _conversion(dtypes.int64, "long")
to_short: Final = _conversion(dtypes.int16, "short")
to_char: Final = _conversion(dtypes.int8, "char")
to_byte: Final = _conversion(dtypes.uint8, "byte")
to_bool: Final = _conversion(dtypes.bool_, "bool")
to_chalf: Final = _conversion(dtypes.complex32, "chalf")
to_cfloat: Final = _conversion(dtypes.complex64, "cfloat")
to_cdouble: Final = _conversion(dtypes.complex128, "cdouble")


@composite("type_as(Tensor input, Tensor other) -> Tensor~", function=False)
def type_as(input: Any, other: Any) -> Any:
    """Return this tensor with another tensor's dtype."""
    return input.to(other.dtype)


@composite("cpu(Tensor input, any memory_format=None) -> Tensor~", function=False)
def cpu(input: Any, memory_format: Any = None) -> Any:
    """Return this tensor in host memory."""
    return input.to(HOST_DEVICE, memory_format=memory_format)


@composite("cuda(Tensor input, any device=None, bool non_blocking=False, any memory_format=None) -> Tensor~",
           function=False)
def cuda(input: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
    """Return this tensor on the device ``cuda``, or on another one given by number or name."""
    if type(device) is int:
        device = f"cuda:{device}"
    return input.to("cuda" if device is None else device, memory_format=memory_format)
