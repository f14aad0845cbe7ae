"""The GPUs that a process may use, without starting CUDA there: a child forked after ``cuInit`` cannot use CUDA.

NVML, the library of ``nvidia-smi``, lists the GPUs of the machine. ``CUDA_VISIBLE_DEVICES`` chooses among them.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_uint, c_void_p, create_string_buffer
from typing import Any, Final

#: NVML's library, which comes with the driver.
LIBRARY: Final = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
_UUID_BYTES: Final = 96


def count() -> int | None:
    """Return the number of GPUs that CUDA would show to this process.

    Returns:
        None if only CUDA itself can tell: NVML is missing, or a GPU is split into instances (MIG).
    """
    try:
        nvml = ctypes.CDLL(LIBRARY)
        if nvml.nvmlInit_v2():
            return None
    except (OSError, AttributeError):
        return None
    try:
        identities = _identities(nvml)
    finally:
        nvml.nvmlShutdown()
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if identities is None or (chosen is not None and "MIG" in chosen):
        return None
    return len(identities) if chosen is None else selected(chosen, identities)


def _identities(nvml: Any) -> list[str] | None:
    """Return the UUID of every GPU; None if NVML reports an error or a split GPU."""
    number = c_uint()
    if nvml.nvmlDeviceGetCount_v2(byref(number)):
        return None
    found = []
    for index in range(number.value):
        handle, text, split, pending = c_void_p(), create_string_buffer(_UUID_BYTES), c_uint(), c_uint()
        if nvml.nvmlDeviceGetHandleByIndex_v2(c_uint(index), byref(handle)):
            return None
        # GPUs that cannot be split answer this question with an error.
        if nvml.nvmlDeviceGetMigMode(handle, byref(split), byref(pending)) == 0 and split.value:
            return None
        if nvml.nvmlDeviceGetUUID(handle, c_char_p(ctypes.addressof(text)), c_uint(_UUID_BYTES)):
            return None
        found.append(text.value.decode())
    return found


def selected(chosen: str, identities: Sequence[str]) -> int:
    """Return how many GPUs ``CUDA_VISIBLE_DEVICES`` leaves, by CUDA's rules.

    It lists indices, or beginnings of UUIDs that fit one GPU. The list ends before the first entry that fits none; a
    GPU listed twice hides all.

    >>> gpus = ["GPU-1a", "GPU-1b", "GPU-2"]
    >>> selected("2,0", gpus), selected("GPU-2,1,7,0", gpus), selected("GPU-1", gpus), selected("1,1", gpus)
    (2, 2, 0, 0)
    """
    places: list[int] = []
    for entry in chosen.split(","):
        text = entry.strip()
        if text.startswith("GPU-"):
            fitting = [i for i, identity in enumerate(identities) if identity.startswith(text)]
        else:
            fitting = [int(text)] if text.isdecimal() and int(text) < len(identities) else []
        if len(fitting) != 1:
            break
        places += fitting
    return len(places) if len(set(places)) == len(places) else 0
