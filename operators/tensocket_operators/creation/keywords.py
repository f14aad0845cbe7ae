"""Rarely used keywords of factories: sizes by name, layout, pinned memory and ``out``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Final

from tensocket_core.device import open_device
from tensocket_core.dispatch.modes import as_leaf, is_grad_enabled
from tensocket_core.formats import layout, strided
from tensocket_core.keys import AUTOGRAD
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    AutogradError,
    DeviceMismatch,
    DtypeError,
)

#: Factories that fill an ``out`` with the same number of elements, whatever its shape.
_RANGES: Final = frozenset({"arange", "linspace", "logspace", "range"})
#: Factories that support other layouts.
_ZEROS: Final = frozenset({"empty", "zeros", "empty_like", "zeros_like", "new_empty", "new_zeros"})
#: Factories for other layouts: ``make(operator, args, keywords)``; the first argument of a method is its tensor.
LAYOUTS: Final[dict[layout, Callable[..., Any]]] = {}
#: Factories that warn when they change the shape of an ``out`` with elements.
_WARNING: Final = frozenset({"arange", "normal", "range"})


def apply_rare_keywords(make: Callable[..., Any], args: tuple[Any, ...], given: dict[str, Any], rest: dict[str, Any],
              known: frozenset[str]) -> Any:
    """Repeat a factory's call after its rare keywords are applied.

    Args:
        make: The factory.
        args: Positional arguments; in a method, the sizes follow the tensor.
        given: The keywords of its signature.
        rest: Other keywords: ``size``, ``layout``, ``pin_memory`` (accepted: copies to devices need none),
            ``out``.
        known: The keywords among these that this factory supports.

    Raises:
        ArgumentTypeError: The keyword is unknown, or its value has another type.
        ArgumentError: The factory has no such layout.
        AutogradError, DeviceMismatch, DtypeError: ``out`` does not fit.
    """
    operator = make.__name__
    for name in rest:
        if name not in known:
            raise ArgumentTypeError(operator, f"a keyword {name!r}", "keywords are those that the function documents",
                                    "leave it out")
    if _check_layout(operator, rest.get("layout")):
        return LAYOUTS[rest["layout"]](operator, (*args, *([tuple(rest["size"])] if "size" in rest else ())), given)
    if rest.get("layout") is strided and args and hasattr(args[0], "_key") and args[0].layout is not strided:
        args = (args[0].to_dense(), *args[1:])  # only the geometry matters
    pinned = rest.get("pin_memory")
    if pinned is not None and not isinstance(pinned, bool):
        raise ArgumentTypeError(operator, f"pin_memory={pinned!r}", "pin_memory is True or False", "pass one of them")
    if "size" in rest:
        args = _with_size(operator, args, rest["size"])
    out = rest.get("out")
    return make(*args, **given) if out is None else _into(operator, out, make, args, given)


def _check_layout(operator: str, value: Any) -> bool:
    """Whether the layout is not strided."""
    if value is None:
        return False
    if not isinstance(value, layout):
        raise ArgumentTypeError(operator, f"layout of type {type(value).__name__}", "a layout is tensocket.strided",
                                "leave layout out")
    if value.name == "strided":
        return False
    if value not in LAYOUTS or operator not in _ZEROS:
        raise ArgumentError(operator, f"layout {value!r}", "tensors are strided", "leave layout out")
    return True


def _with_size(operator: str, args: tuple[Any, ...], size: Any) -> tuple[Any, ...]:
    lead = args[:1] if args and hasattr(args[0], "_key") else ()
    if len(args) > len(lead):
        raise ArgumentTypeError(operator, f"sizes {args[len(lead):]!r} and size={size!r}", "sizes are given once",
                                "leave one of them out")
    if not isinstance(size, (tuple, list)):
        raise ArgumentTypeError(operator, f"size={size!r}", "size is a tuple of integers", "pass for example size=(3,)")
    return (*lead, tuple(size))


def _into(operator: str, out: Any, make: Callable[..., Any], args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """Return the result in the memory of ``out``, which also determines its dtype and device."""
    if not hasattr(out, "_key"):
        raise ArgumentTypeError(operator, f"out of type {type(out).__name__}", "out is a tensor", "pass a tensor")
    if given.get("memory_format") is not None:
        raise ArgumentError(operator, "memory_format and out", "out lies in memory as it does", "leave one of them out")
    if out._key & AUTOGRAD and is_grad_enabled():
        raise AutogradError(operator, "an out that requires grad", "what is written to out has no gradient",
                            "detach() it")
    dtype, device = given.get("dtype"), given.get("device")
    if dtype is not None and dtype is not out.dtype:
        raise DtypeError(operator, f"dtype {dtype} for out of dtype {out.dtype.name}", "out says the result's dtype",
                         "leave dtype out")
    if device is not None and open_device(device) is not out._device_state:
        raise DeviceMismatch(operator, f"device {device} for out on {out.device}", "out says the result's device",
                             "leave device out")
    properties = {name: value for name, value in given.items() if name != "requires_grad"}
    properties |= {"dtype": out.dtype, "device": out.device}
    if out.layout in LAYOUTS:
        made = LAYOUTS[out.layout](operator, args, properties)
        return out.resize_as_(made).copy_(made).requires_grad_(bool(given.get("requires_grad")))
    made = make(*args, **properties)
    if operator in _RANGES and made.numel() == out.numel():
        made = made.view(out.shape)
    if made._array.shape != out._array.shape:
        if operator in _WARNING and out.numel():
            warnings.warn(f"[{operator}] An output with one or more elements was resized: {list(out.shape)} became "
                          f"{list(made.shape)} — out has the result's shape, or no elements — call out.resize_(0) "
                          "first",
                          UserWarning, stacklevel=5)
        out.resize_(tuple(made.shape))
    out.copy_(made)
    return as_leaf(out) if given.get("requires_grad") else out
