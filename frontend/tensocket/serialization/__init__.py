"""Files of tensors and nested values in PyTorch's format, and safetensors. Reading executes no code by default."""

from __future__ import annotations

from .loading import get_unsafe_globals_in_checkpoint, load
from .locations import MAP_LOCATION as MAP_LOCATION
from .locations import default_restore_location, location_tag, register_package
from .names import StorageType
from .names import _get_layout as _get_layout
from .options import (
    LoadEndianness,
    SourceChangeWarning,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
    skip_data,
)
from .safetensors import load_safetensors, save_safetensors
from .safety import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from .saving import DEFAULT_PROTOCOL as DEFAULT_PROTOCOL
from .saving import save

__all__ = [
    "LoadEndianness",
    "SourceChangeWarning",
    "StorageType",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "load_safetensors",
    "location_tag",
    "register_package",
    "safe_globals",
    "save",
    "save_safetensors",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
]
