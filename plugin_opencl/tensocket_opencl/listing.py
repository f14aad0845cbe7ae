"""Lists OpenCL devices; runs as a separate program, because drivers may have side effects or crash.

PoCL starts threads when a program lists devices, and a later fork of that process would lack them. The program prints
one JSON object per platform. It uses only the standard library, to start quickly.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any, Final

_NO_PLATFORM: Final = -1001  # the code of an ICD loader without any driver
_NO_DEVICE: Final = -1
_ALL: Final = 0xFFFFFFFF

_PLATFORM_NAME: Final = 0x0902
_TEXTS: Final = {"name": 0x102B, "driver": 0x102D, "version": 0x102F}
_NUMBERS: Final = {"type": 0x1000, "compute_units": 0x1002, "memory": 0x101F, "local_memory": 0x1023,
                   "available": 0x1027, "compiler": 0x1028}


class _Failure(Exception):
    """The error that an OpenCL call returned."""


def _check(code: int, function: str) -> None:
    if code:
        raise _Failure(f"{function} failed with code {code}")


def _ids(function: Any, *args: Any, none: int) -> list[int]:
    """Return the handles that ``function`` lists; ``none`` is its code for an empty list."""
    count = ctypes.c_uint()
    code = function(*args, 0, None, ctypes.byref(count))
    if code == none:
        return []
    _check(code, function.__name__)
    handles = (ctypes.c_void_p * count.value)()
    _check(function(*args, count, handles, None), function.__name__)
    return [handle or 0 for handle in handles]


def _info(function: Any, handle: int, parameter: int) -> bytes:
    subject, size = ctypes.c_void_p(handle), ctypes.c_size_t()
    _check(function(subject, parameter, ctypes.c_size_t(0), None, ctypes.byref(size)), function.__name__)
    value = ctypes.create_string_buffer(size.value)
    _check(function(subject, parameter, size, value, None), function.__name__)
    return value.raw


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode(errors="replace").strip()


def _device(library: Any, handle: int) -> dict[str, Any]:
    texts = {key: _text(_info(library.clGetDeviceInfo, handle, number)) for key, number in _TEXTS.items()}
    numbers = {key: int.from_bytes(_info(library.clGetDeviceInfo, handle, number), sys.byteorder)
               for key, number in _NUMBERS.items()}
    return {**texts, **numbers}


def _platform(library: Any, handle: int) -> dict[str, Any]:
    found: dict[str, Any] = {"name": _text(_info(library.clGetPlatformInfo, handle, _PLATFORM_NAME)), "devices": []}
    try:
        devices = _ids(library.clGetDeviceIDs, ctypes.c_void_p(handle), ctypes.c_uint64(_ALL), none=_NO_DEVICE)
        found["devices"] = [_device(library, device) for device in devices]
    except _Failure as error:
        found["problem"] = str(error)
    return found


def main(extension: str) -> None:
    """Print the platforms that pyopencl, whose extension module is at ``extension``, will find."""
    # Loading the extension loads the OpenCL library that it links to; on Windows that is the system's.
    library = ctypes.CDLL("OpenCL.dll" if os.name == "nt" else extension)
    for handle in _ids(library.clGetPlatformIDs, none=_NO_PLATFORM):
        print(json.dumps(_platform(library, handle)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
