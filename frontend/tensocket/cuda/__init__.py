"""The devices that programs call ``cuda``.

These are the devices of the backend ``cuda`` if it is installed and has any, or those of the backend that answers for
it (``python -m tensocket.as_torch --device X``). Without a device, functions behave as in PyTorch on a machine without
one: seeding and memory statistics do nothing, and functions that need a device raise.
"""

from __future__ import annotations

from typing import Any

from tensocket_operators.interop.typenames import kinds_on
from tensocket_plugins.contract.errors import OutOfMemoryError

from . import amp, memory, nvtx, random, streams
from .graphs import CUDAGraph, graph, make_graphed_callables
from .memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_summary,
    memory_usage,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from .names import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_gencode_flags,
    init,
    ipc_collect,
    is_available,
    is_bf16_supported,
    is_current_stream_capturing,
    is_initialized,
    is_tf32_supported,
    set_device,
    synchronize,
)
from .random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .streams import Event, Stream, StreamContext, current_stream, default_stream, set_stream, stream

#: Always true: every device computes with float16.
has_half = True
#: None of NVIDIA's libraries for decompositions is used.
has_magma = False

_KINDS = kinds_on("cuda")
BFloat16Storage = _KINDS["BFloat16Storage"]
BoolStorage = _KINDS["BoolStorage"]
ByteStorage = _KINDS["ByteStorage"]
CharStorage = _KINDS["CharStorage"]
ComplexDoubleStorage = _KINDS["ComplexDoubleStorage"]
ComplexFloatStorage = _KINDS["ComplexFloatStorage"]
DoubleStorage = _KINDS["DoubleStorage"]
FloatStorage = _KINDS["FloatStorage"]
HalfStorage = _KINDS["HalfStorage"]
IntStorage = _KINDS["IntStorage"]
LongStorage = _KINDS["LongStorage"]
ShortStorage = _KINDS["ShortStorage"]
BFloat16Tensor = _KINDS["BFloat16Tensor"]
BoolTensor = _KINDS["BoolTensor"]
ByteTensor = _KINDS["ByteTensor"]
CharTensor = _KINDS["CharTensor"]
DoubleTensor = _KINDS["DoubleTensor"]
FloatTensor = _KINDS["FloatTensor"]
HalfTensor = _KINDS["HalfTensor"]
IntTensor = _KINDS["IntTensor"]
LongTensor = _KINDS["LongTensor"]
ShortTensor = _KINDS["ShortTensor"]


def __getattr__(name: str) -> Any:
    """Return ``default_generators``, one generator per device (opens the devices), or the current ``_initialized``."""
    if name == "_initialized":
        return is_initialized()
    if name == "default_generators":
        return tuple(random._generators())
    raise AttributeError(f"module 'tensocket.cuda' has no attribute {name!r}")


__all__ = [
    "BFloat16Storage",
    "BFloat16Tensor",
    "BoolStorage",
    "BoolTensor",
    "ByteStorage",
    "ByteTensor",
    "CUDAGraph",
    "CharStorage",
    "CharTensor",
    "ComplexDoubleStorage",
    "ComplexFloatStorage",
    "DoubleStorage",
    "DoubleTensor",
    "Event",
    "FloatStorage",
    "FloatTensor",
    "HalfStorage",
    "HalfTensor",
    "IntStorage",
    "IntTensor",
    "LongStorage",
    "LongTensor",
    "OutOfMemoryError",
    "ShortStorage",
    "ShortTensor",
    "Stream",
    "StreamContext",
    "amp",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "get_rng_state",
    "get_rng_state_all",
    "graph",
    "has_half",
    "has_magma",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "memory_usage",
    "nvtx",
    "random",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "streams",
    "synchronize",
]
