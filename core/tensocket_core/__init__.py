"""The minimal core of tensocket: tensors, dispatch keys and the dispatcher, launches, autograd and transforms."""

from __future__ import annotations

__version__ = "0.1.0"

# Import device.py first: the class ``device`` below takes the module's name.
from .device import current_stream, get_default_device, set_default_device, set_stream

# isort: split
from tensocket_plugins.contract import errors as errors
from tensocket_plugins.contract.devices import Device as device
from tensocket_plugins.contract.dtypes import DType as dtype
from tensocket_plugins.contract.dtypes import (
    bfloat16,
    complex32,
    complex64,
    complex128,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tensocket_plugins.contract.dtypes import bool_ as bool_

from . import autograd as autograd
from . import functions as functions
from . import transforms as transforms
from .autograd.inference import inference_mode, is_inference, is_inference_mode_enabled
from .dispatch.fallback import LedgerRecord, fallback_ledger, reset_fallback_ledger, set_fallback
from .dispatch.modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .formats import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    jagged,
    layout,
    memory_format,
    preserve_format,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from .launch import host_values as _host_values  # noqa: F401  gives tensors their conversions
from .limits import finfo, iinfo
from .promotion import can_cast, default_dtype, get_default_dtype, promote_types, set_default_dtype
from .promotion import pair_type as result_type
from .tensor import Size

#: The public names for user programs. The names with an underscore above are for the packages on top of core.
__all__ = [
    "LedgerRecord",
    "Size",
    "bfloat16",
    "can_cast",
    "channels_last",
    "channels_last_3d",
    "complex32",
    "complex64",
    "complex128",
    "contiguous_format",
    "current_stream",
    "default_dtype",
    "device",
    "dtype",
    "enable_grad",
    "fallback_ledger",
    "finfo",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "get_default_device",
    "get_default_dtype",
    "iinfo",
    "inference_mode",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_grad_enabled",
    "is_inference",
    "is_inference_mode_enabled",
    "jagged",
    "layout",
    "memory_format",
    "no_grad",
    "preserve_format",
    "promote_types",
    "reset_fallback_ledger",
    "result_type",
    "set_default_device",
    "set_default_dtype",
    "set_fallback",
    "set_grad_enabled",
    "set_stream",
    "sparse_bsc",
    "sparse_bsr",
    "sparse_coo",
    "sparse_csc",
    "sparse_csr",
    "strided",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
