"""Old names of tensor types: ``FloatTensor`` and the others."""

from __future__ import annotations

import warnings
from typing import Any, Final

from tensocket_core.device import set_default_device
from tensocket_core.promotion import get_default_dtype, set_default_dtype
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.devices import HOST_DEVICE, NUMBERED, parse_device
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError
from tensocket_plugins.contract.naming import package_name

from .. import creation
from .storage_kinds import storage_kind
from .typed_storages import NAME_OF

_NAMES: Final = {
    "Float": dtypes.float32, "Double": dtypes.float64, "Half": dtypes.float16, "BFloat16": dtypes.bfloat16,
    "Long": dtypes.int64, "Int": dtypes.int32, "Short": dtypes.int16, "Char": dtypes.int8, "Byte": dtypes.uint8,
    "Bool": dtypes.bool_, "ComplexFloat": dtypes.complex64, "ComplexDouble": dtypes.complex128,
}  # fmt: skip
_NAME_OF: Final = {dtype: name for name, dtype in _NAMES.items()}


class _Kind(type):
    """The metaclass of classes whose instances are tensors of one dtype and device type, by instance check only."""

    dtype: DType
    place: str

    def __new__(mcs, name: str, bases: tuple[type, ...], content: dict[str, Any]) -> Any:
        """Return a new class of this kind; programs derive from ``Tensor`` instead.

        Raises:
            ArgumentTypeError: The class has bases.
        """
        if bases:
            raise ArgumentTypeError("class", f"{name} of {bases[0].__name__}",
                                    "this type is not an acceptable base type",
                                    f"derive it from {package_name()}.Tensor")
        return super().__new__(mcs, name, bases, content)

    def __instancecheck__(cls, instance: object) -> bool:
        return (isinstance(instance, Tensor) and instance.dtype is cls.dtype
                and instance.device.type == parse_device(cls.place).type)

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"

    @property
    def is_cuda(cls) -> bool:
        """Whether the class is for tensors on a device called ``cuda``."""
        return cls.place == NUMBERED

    def __call__(cls, *given: Any, device: Any = None, **named: Any) -> Any:
        """Return a tensor with sizes, values, or another tensor's values."""
        return creation.make_legacy(cls.__name__, given, named, cls.dtype, cls.place if device is None else device)


def _kind(name: str, place: str = HOST_DEVICE) -> Any:
    dtype = _NAMES[name]
    memory, module = ("host memory", "tensocket") if place == HOST_DEVICE else (f"a {place} device's memory",
                                                                                f"tensocket.{place}")
    return _Kind(f"{name}Tensor", (), {"dtype": dtype, "place": place, "__module__": module,
                                       "__doc__": f"Tensors of {dtype.name} in {memory}."})


def kinds_on(place: str) -> dict[str, Any]:
    """Return the classes of a kind of device by name, such as ``FloatTensor`` and ``FloatStorage``."""
    storage_kinds = (storage_kind(dtype, place) for dtype in NAME_OF)
    return {**{f"{name}Tensor": _kind(name, place) for name in _NAMES if not name.startswith("Complex")},
            **{kind.__name__: kind for kind in storage_kinds}}


FloatTensor: Final = _kind("Float")
DoubleTensor: Final = _kind("Double")
HalfTensor: Final = _kind("Half")
BFloat16Tensor: Final = _kind("BFloat16")
LongTensor: Final = _kind("Long")
IntTensor: Final = _kind("Int")
ShortTensor: Final = _kind("Short")
CharTensor: Final = _kind("Char")
ByteTensor: Final = _kind("Byte")
BoolTensor: Final = _kind("Bool")


def type_name(tensor: Any) -> str:
    """Return the type name of a tensor: ``tensocket.FloatTensor``, ``tensocket.opencl.LongTensor``."""
    name = _NAME_OF.get(tensor.dtype, tensor.dtype.name)
    place = "" if tensor.device.type == HOST_DEVICE else f"{tensor.device.type}."
    return f"{package_name()}.{place}{name}Tensor"


def _named(wanted: str) -> tuple[str, DType]:
    """Return the device and dtype of a type name; the device is empty for the host.

    Raises:
        ArgumentError: The name is unknown.
    """
    module, _, name = wanted.rpartition(".")
    dtype = _NAMES.get(name.removesuffix("Tensor"))
    root, _, place = module.partition(".")
    if dtype is None or root not in ("tensocket", "torch") or not name.endswith("Tensor"):
        raise ArgumentError("type", repr(wanted), "a name is like 'tensocket.FloatTensor'", "pass a dtype")
    return place, dtype


def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype and device by a tensor class or its name, as programs did before dtypes existed.

    Raises:
        ArgumentTypeError: ``t`` is not a class or name of tensors, or its dtype is not a real floating-point dtype.
    """
    warnings.warn("set_default_tensor_type is deprecated as of PyTorch 2.1, please use set_default_dtype() and "
                  "set_default_device() as alternatives", UserWarning, stacklevel=2)
    place, dtype = _named(t) if isinstance(t, str) else ("", getattr(t, "dtype", None))
    if not isinstance(dtype, DType) or not dtype.is_floating_point:
        raise ArgumentTypeError("set_default_tensor_type", repr(t), "the default type is of real floats",
                                "pass for example tensocket.FloatTensor, or use set_default_dtype")
    set_default_dtype(dtype)
    set_default_device(place or None)


def converted(tensor: Any, wanted: Any) -> Any:
    """Return a tensor converted to another dtype, given as a dtype, a class or a name.

    ``Tensor`` itself, or its name, stands for the default dtype in host memory, as in ``Tensor(2)``.

    Raises:
        ArgumentError: The name is unknown.
        ArgumentTypeError: ``wanted`` is none of these.
    """
    if isinstance(wanted, DType):
        return tensor.to(wanted)
    if isinstance(wanted, _Kind):
        return tensor.to(wanted.place, wanted.dtype)
    if wanted is Tensor or wanted in ("tensocket.Tensor", "torch.Tensor"):
        return tensor.to(HOST_DEVICE, get_default_dtype())
    if not isinstance(wanted, str):
        raise ArgumentTypeError("type", f"{wanted!r}", "a type is a dtype, a class of tensors or its name",
                                "pass for example tensocket.float32")
    place, dtype = _named(wanted)
    return tensor.to(place or HOST_DEVICE, dtype)


def typename(obj: Any) -> str:
    """Return the type name of a tensor, the name of a class, function or module, or that of an object's class."""
    if isinstance(obj, Tensor):
        return type_name(obj)
    named = obj if hasattr(obj, "__qualname__") or hasattr(obj, "__name__") else type(obj)
    name = getattr(named, "__qualname__", None) or named.__name__
    place = getattr(named, "__module__", None) or ""
    return str(name if place in ("", "builtins") else f"{place}.{name}")


__all__ = ["BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
           "IntTensor", "LongTensor", "ShortTensor", "set_default_tensor_type", "typename"]
