"""A PyTorch-compatible tensor runtime whose devices are plugs.

``import tensocket as torch`` runs ordinary PyTorch programs. Devices are selected by name; no backend is imported
before its name is used.
"""

from __future__ import annotations

import builtins
import math
import sys
from importlib import import_module
from typing import TYPE_CHECKING as TYPE_CHECKING
from typing import Any as Any

from .namespace import _preload as _preload  # isort: skip  it is fast only if it comes first
from tensocket_core.dispatch.packets import ATTRIBUTES as _OF_OVERLOADS
from tensocket_operators import *
from tensocket_operators import Tensor
from tensocket_operators import UntypedStorage as Storage
from tensocket_operators import __all__ as _names_of_core
from tensocket_operators import bool_ as bool
from tensocket_operators import complex32 as chalf
from tensocket_operators import complex64 as cfloat
from tensocket_operators import complex128 as cdouble
from tensocket_operators import float16 as half
from tensocket_operators import float32 as float
from tensocket_operators import float64 as double
from tensocket_operators import former_paths as _former_paths
from tensocket_operators import int16 as short
from tensocket_operators import int32 as int
from tensocket_operators import int64 as long
from tensocket_operators import set_array_namespace as _set_array_namespace
from tensocket_operators.functions import *
from tensocket_operators.library import Tag
from tensocket_operators.namespaces import define_by as _define_by
from tensocket_operators.namespaces import find_lists_by as _find_lists_by
from tensocket_operators.namespaces import ops

from .namespace.former_paths import MODULES as _MOVED
from .namespace.later import MODULES as _MODULES
from .namespace.later import SOURCES as _SOURCES
from .namespace.losses import LOSSES as _LOSSES

if TYPE_CHECKING:
    from . import _C as _C
    from . import (
        amp,
        autograd,
        cpu,
        cuda,
        dispatch,
        errors,
        fft,
        func,
        library,
        linalg,
        masked,
        nn,
        optim,
        overrides,
        random,
        serialization,
        signal,
        sparse,
        special,
        utils,
        version,
    )
    from .amp.autocast_mode import (
        autocast,
        autocast_decrement_nesting,
        autocast_increment_nesting,
        clear_autocast_cache,
        get_autocast_cpu_dtype,
        get_autocast_dtype,
        get_autocast_gpu_dtype,
        is_autocast_cache_enabled,
        is_autocast_cpu_enabled,
        is_autocast_enabled,
        set_autocast_cache_enabled,
        set_autocast_cpu_dtype,
        set_autocast_cpu_enabled,
        set_autocast_dtype,
        set_autocast_enabled,
        set_autocast_gpu_dtype,
    )
    from .amp.grad_scaler import GradScaler
    from .autograd.anomaly_mode import is_anomaly_check_nan_enabled, is_anomaly_enabled
    from .autograd.anomaly_mode import set_detect_anomaly as set_anomaly_enabled
    from .errors import OutOfMemoryError
    from .func import vmap
    from .namespace.devices import available_devices
    from .namespace.legacy import (
        compiled_with_cxx11_abi,
        dsmm,
        eig,
        frobenius_norm,
        get_num_interop_threads,
        is_distributed,
        is_vulkan_available,
        is_warn_always_enabled,
        lstsq,
        matrix_rank,
        norm_except_dim,
        nuclear_norm,
        range,
        set_flush_denormal,
        set_num_interop_threads,
        set_warn_always,
        solve,
        spmm,
        sym_float,
        sym_int,
        sym_ite,
        sym_max,
        sym_min,
        sym_not,
        symeig,
    )
    from .nn.functional import celu_, rrelu_, selu_, threshold_
    from .serialization import load, save

globals().update(_LOSSES)
_former_paths.add(_MOVED)
_set_array_namespace(lambda: import_module("tensocket.array_api"))
_find_lists_by(lambda name: _function_of_lists(name))
_define_by("profiler", lambda: import_module("tensocket.profiler.operators"))
_OF_OVERLOADS["_schema"] = lambda record: import_module("tensocket.namespace.operator_schemas").schema_of(record)

e = math.e
inf = math.inf
newaxis = None
_segment_reduce = segment_reduce
nan = math.nan
pi = math.pi


def __getattr__(name: str) -> Any:
    """Return a module or name that is imported at its first use, an operator over lists of tensors, or the version."""
    if name in _MODULES:
        return import_module(f"tensocket.{name}")
    if name == "torch":  # programs write torch.torch, which is the package itself
        return sys.modules[__name__]
    if name == "__version__":
        return import_module("tensocket.version").current()
    if name in _SOURCES:
        found = globals()[name] = getattr(import_module(f"tensocket.{_SOURCES[name]}"), name)
        return found
    if name.startswith("_foreach_") and (function := _function_of_lists(name)) is not None:
        return function
    raise AttributeError(f"module 'tensocket' has no attribute {name!r}")


def _function_of_lists(name: str) -> Any:
    return import_module("tensocket.namespace.foreach").FUNCTIONS.get(name.removeprefix("_foreach_"))


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_SOURCES, "__version__"})


def detach(input: Tensor) -> Tensor:
    """Return a tensor on the same memory, detached from the graph."""
    return input.detach()


def detach_(input: Tensor) -> Tensor:
    """Detach ``input`` from the graph, in place."""
    return input.detach_()


def get_device(input: Tensor) -> builtins.int:
    """Return the index of the device of ``input``, -1 on the host."""
    return input.get_device()


def is_tensor(obj: object) -> builtins.bool:
    """Whether ``obj`` is a tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> builtins.bool:
    """Whether the dtype of ``input`` is a real floating-point type."""
    return input.is_floating_point()


def is_nonzero(input: Tensor) -> builtins.bool:
    """Whether the single element is not zero."""
    return input.is_nonzero()


def is_same_size(input: Tensor, other: Tensor) -> builtins.bool:
    """Whether two tensors have the same shape."""
    return input.is_same_size(other)


def is_signed(input: Tensor) -> builtins.bool:
    """Whether the dtype of ``input`` has negative numbers."""
    return input.is_signed()


def numel(input: Tensor) -> builtins.int:
    """Return the number of elements."""
    return input.numel()


#: Core's names, which include those of all operators that are functions here, and the front end's own.
__all__ = [
    *_names_of_core,
    "__version__",
    "cuda",
    "cpu",
    "set_autocast_gpu_dtype",
    "set_autocast_enabled",
    "set_autocast_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cache_enabled",
    "is_autocast_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_cache_enabled",
    "get_autocast_gpu_dtype",
    "get_autocast_dtype",
    "get_autocast_cpu_dtype",
    "clear_autocast_cache",
    "autocast_increment_nesting",
    "autocast_decrement_nesting",
    "autocast",
    "amp",
    "array_api",
    "autograd",
    "Tag",
    "available_devices",
    "default_generator",
    "backends",
    "bool",
    "cdouble",
    "cfloat",
    "chalf",
    "detach",
    "detach_",
    "dispatch",
    "double",
    "e",
    "errors",
    "fft",
    "float",
    "func",
    "get_device",
    "half",
    "OutOfMemoryError",
    "inf",
    "int",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_floating_point",
    "is_nonzero",
    "is_same_size",
    "is_signed",
    "is_tensor",
    "library",
    "linalg",
    "load",
    "long",
    "masked",
    "Storage",
    "nan",
    "newaxis",
    "nn",
    "numel",
    "ops",
    "optim",
    "overrides",
    "pi",
    "compiled_with_cxx11_abi",
    "dsmm",
    "eig",
    "frobenius_norm",
    "get_num_interop_threads",
    "is_distributed",
    "is_vulkan_available",
    "is_warn_always_enabled",
    "lstsq",
    "matrix_rank",
    "norm_except_dim",
    "nuclear_norm",
    "range",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_warn_always",
    "solve",
    "spmm",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "symeig",
    "celu_",
    "rrelu_",
    "selu_",
    "threshold_",
    "GradScaler",
    "set_anomaly_enabled",
    "random",
    "save",
    "serialization",
    "short",
    "signal",
    "sparse",
    "special",
    "utils",
    "version",
    "vmap",
]
