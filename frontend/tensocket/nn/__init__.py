"""Neural networks: modules, parameters, losses and initialisation."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tensocket.errors import ArgumentTypeError

from . import functional, init, modules, parameter, utils
from .modules import *  # noqa: F403  # every layer is here, too
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Return the arguments ``device``, ``dtype`` and ``memory_format`` of a layer; some may be in ``factory_kwargs``.

    Raises:
        ArgumentTypeError: There are other arguments, or one is given twice.
    """
    given = dict(kwargs or {})
    inner = dict(given.pop("factory_kwargs", {}))
    for name in (*given, *inner):
        if name not in ("device", "dtype", "memory_format"):
            raise ArgumentTypeError("factory_kwargs", f"{name!r}", "layers are made with device, dtype and "
                                    "memory_format", "leave others out")
        if name in given and name in inner:
            raise ArgumentTypeError("factory_kwargs", f"{name} in both", "an argument is specified once",
                                    "pass it in one place")
    return {**inner, **given}


def __getattr__(name: str) -> Any:
    """Import a name that few programs need, at its first use."""
    if name in ("_reduction", "attention", "common_types", "grad", "parallel", "quantized"):
        return import_module(f"tensocket.nn.{name}")
    if name == "DataParallel":
        return import_module("tensocket.nn.parallel").DataParallel
    raise AttributeError(f"module 'tensocket.nn' has no attribute {name!r}")


__all__ = [
    "Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "factory_kwargs", "functional", "init",
    "modules", "parameter", "utils",
]
__all__ += modules.__all__
