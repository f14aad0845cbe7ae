"""The public interface of the operators of tensocket, by family, and of the tensor with all its methods."""

from __future__ import annotations

__version__ = "0.1.0"

import tensocket_core as _core
from tensocket_core import *
from tensocket_core import (
    bool_ as bool_,
)
from tensocket_core import (
    errors as errors,
)

from . import autograd as autograd
from . import functions as functions
from . import transforms as transforms
from .assembly import Tensor
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
from .device_api import (
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
from .device_api import backends as backends
from .device_module import DeviceModule as DeviceModule
from .device_module import accelerator, get_device_module
from .former_paths import install as _install_former_paths
from .functions import *
from .interop.asarray import as_tensor, asarray
from .interop.dlpack import from_dlpack
from .interop.files import from_file
from .interop.namespace import set_array_namespace as set_array_namespace
from .interop.numpy import from_numpy, frombuffer
from .interop.storage import UntypedStorage, is_storage
from .interop.typed_storages import TypedStorage
from .interop.typenames import (
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
from .listing import registrations
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
from .shapes.diagonals import tril_indices, triu_indices
from .shapes.reshaping import atleast_1d, atleast_2d, atleast_3d, broadcast_shapes
from .signal.signal_windows import bartlett_window, blackman_window, hamming_window, hann_window, kaiser_window
from .sparse import addmm as saddmm
from .sparse import (
    hspmm,
    smm,
    sparse_bsc_tensor,
    sparse_bsr_tensor,
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
    sspaddmm,
)
from .sparse import hspmm as hsmm
from .tensor_methods.printing import get_printoptions, printoptions, set_printoptions

_install_former_paths()

#: The names for programs; those with an alias above are for the layers above the operators.
__all__ = [
    *_core.__all__,
    *functions.__all__,
    "registrations",
    "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode",
    "is_deterministic_algorithms_warn_only_enabled",
    "set_deterministic_debug_mode",
    "use_deterministic_algorithms",
    "get_float32_matmul_precision",
    "get_num_threads",
    "set_float32_matmul_precision",
    "set_num_threads",
    "Event",
    "Stream",
    "build_stats",
    "device_count",
    "empty_cache",
    "get_device_info",
    "is_available",
    "memory_allocated",
    "memory_stats",
    "profile",
    "reset_peak_memory_stats",
    "synchronize",
    "get_printoptions",
    "printoptions",
    "set_printoptions",
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
    "seed",
    "typename",
    "accelerator",
    "arange",
    "as_tensor",
    "asarray",
    "bernoulli",
    "binomial",
    "multinomial",
    "normal",
    "poisson",
    "randint_like",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "from_file",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "Generator",
    "get_device_module",
    "get_rng_state",
    "initial_seed",
    "hsmm",
    "hspmm",
    "linspace",
    "logspace",
    "manual_seed",
    "ones",
    "ones_like",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "randperm",
    "saddmm",
    "set_rng_state",
    "smm",
    "sparse_bsc_tensor",
    "sparse_bsr_tensor",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
    "sspaddmm",
    "tensor",
    "tril_indices",
    "bartlett_window",
    "blackman_window",
    "hamming_window",
    "hann_window",
    "kaiser_window",
    "triu_indices",
    "Tensor",
    "zeros",
    "zeros_like",
]
