"""The minimal core of tensocket: tensors, dispatch, autograd and the operator records."""

from __future__ import annotations

__version__ = "0.1.0"

# First, because tensors, their generated methods and the records import each other, and this is the way in.
from .tensors import Size, Tensor

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
from . import transforms as transforms
from ._generated import functions as functions
from ._generated.functions import *
from .api import (
    Event,
    Stream,
    build_stats,
    device_count,
    empty_cache,
    get_device_info,
    is_available,
    memory_allocated,
    memory_stats,
    profile,
    reset_peak_memory_stats,
    synchronize,
)
from .api import backends as backends
from .autograd.inference import inference_mode, is_inference, is_inference_mode_enabled
from .creation import (
    arange,
    empty,
    empty_like,
    empty_permuted,
    empty_strided,
    eye,
    full,
    full_like,
    linspace,
    logspace,
    ones,
    ones_like,
    scalar_tensor,
    tensor,
    zeros,
    zeros_like,
)
from .deterministic import (
    are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode,
    is_deterministic_algorithms_warn_only_enabled,
    set_deterministic_debug_mode,
    use_deterministic_algorithms,
)
from .device import current_stream, get_default_device, set_default_device, set_stream
from .device_module import DeviceModule as DeviceModule
from .device_module import accelerator, get_device_module
from .dispatch.fallback import LedgerRecord, fallback_ledger, reset_fallback_ledger, set_fallback
from .dispatch.listing import registrations
from .dispatch.modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .formats import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    sparse_coo,
    sparse_csr,
    strided,
)
from .interop.asarray import as_tensor, asarray
from .interop.dlpack import from_dlpack
from .interop.files import from_file
from .interop.namespace import set_array_namespace as set_array_namespace
from .interop.numpy import from_numpy, frombuffer
from .limits import finfo, iinfo
from .ops.diagonals import tril_indices, triu_indices
from .ops.reshaping import atleast_1d, atleast_2d, atleast_3d, broadcast_shapes
from .ops.signal_windows import bartlett_window, blackman_window, hamming_window, hann_window, kaiser_window
from .printing import get_printoptions, printoptions, set_printoptions
from .promotion import can_cast, default_dtype, get_default_dtype, promote_types, set_default_dtype
from .promotion import pair_type as result_type
from .random import (
    Generator,
    bernoulli,
    binomial,
    get_rng_state,
    initial_seed,
    manual_seed,
    multinomial,
    normal,
    poisson,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
    seed,
    set_rng_state,
)
from .settings import (
    get_float32_matmul_precision,
    get_num_threads,
    set_float32_matmul_precision,
    set_num_threads,
)
from .sparse import addmm as saddmm
from .sparse import hspmm, smm, sparse_compressed_tensor, sparse_coo_tensor, sparse_csr_tensor, sspaddmm
from .sparse import hspmm as hsmm
from .storages import UntypedStorage, is_storage
from .typed_storages import TypedStorage
from .typenames import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
    set_default_tensor_type,
    typename,
)

#: The names of programs; those with an alias above are for what stands on core.
__all__ = [
    *functions.__all__,
    "empty_permuted",
    "empty_strided",
    "scalar_tensor",
    "broadcast_shapes",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "TypedStorage",
    "UntypedStorage",
    "is_storage",
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
    "set_default_tensor_type",
    "get_float32_matmul_precision",
    "get_num_threads",
    "set_float32_matmul_precision",
    "set_num_threads",
    "seed",
    "typename",
    "accelerator",
    "arange",
    "are_deterministic_algorithms_enabled",
    "as_tensor",
    "asarray",
    "bernoulli",
    "binomial",
    "multinomial",
    "normal",
    "poisson",
    "randint_like",
    "bfloat16",
    "build_stats",
    "can_cast",
    "channels_last",
    "channels_last_3d",
    "complex128",
    "complex32",
    "complex64",
    "contiguous_format",
    "current_stream",
    "default_dtype",
    "device",
    "device_count",
    "dtype",
    "empty",
    "empty_cache",
    "empty_like",
    "enable_grad",
    "Event",
    "eye",
    "fallback_ledger",
    "finfo",
    "float16",
    "float32",
    "float64",
    "float8_e4m3fn",
    "float8_e5m2",
    "from_dlpack",
    "from_file",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "Generator",
    "get_default_device",
    "get_default_dtype",
    "get_deterministic_debug_mode",
    "get_device_info",
    "get_device_module",
    "get_printoptions",
    "get_rng_state",
    "iinfo",
    "inference_mode",
    "initial_seed",
    "int16",
    "int32",
    "int64",
    "int8",
    "hsmm",
    "hspmm",
    "is_available",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_grad_enabled",
    "is_inference",
    "is_inference_mode_enabled",
    "layout",
    "LedgerRecord",
    "linspace",
    "logspace",
    "manual_seed",
    "memory_allocated",
    "memory_format",
    "memory_stats",
    "no_grad",
    "ones",
    "ones_like",
    "preserve_format",
    "printoptions",
    "profile",
    "promote_types",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "randperm",
    "registrations",
    "reset_fallback_ledger",
    "reset_peak_memory_stats",
    "result_type",
    "saddmm",
    "set_default_device",
    "set_default_dtype",
    "set_deterministic_debug_mode",
    "set_fallback",
    "set_grad_enabled",
    "set_printoptions",
    "set_rng_state",
    "set_stream",
    "Size",
    "Stream",
    "smm",
    "sparse_compressed_tensor",
    "sparse_coo",
    "sparse_coo_tensor",
    "sparse_csr",
    "sparse_csr_tensor",
    "sspaddmm",
    "strided",
    "synchronize",
    "tensor",
    "tril_indices",
    "bartlett_window",
    "blackman_window",
    "hamming_window",
    "hann_window",
    "kaiser_window",
    "triu_indices",
    "Tensor",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "use_deterministic_algorithms",
    "zeros",
    "zeros_like",
]
