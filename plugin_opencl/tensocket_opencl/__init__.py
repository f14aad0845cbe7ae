"""OpenCL backend of tensocket: GPUs, and processors through PoCL. Importing it touches no driver."""

from __future__ import annotations

from tensocket_plugins.contract.backend import Backend
from tensocket_plugins.contract.descriptor import Descriptor, Profile
from tensocket_plugins.contract.hooks import hookimpl
from tensocket_plugins.kit.host_operators import HOST_OPERATORS

__version__ = "0.1.0"

DESCRIPTOR = Descriptor(
    name="opencl",
    contract=((1, 1), (2, 0)),
    profile=Profile(
        host_kernels=HOST_OPERATORS,
        dtypes=frozenset({
            "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
            "float16", "bfloat16", "float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
            "complex32",
        }),
        # Not deterministic, even on processors: work-items add floats at equal positions in the order of their arrival.
        features=frozenset({"streams", "events", "fp64", "multi_device"}),
    ),
)


@hookimpl
def tensocket_describe() -> Descriptor:
    """Return the description of the backend's abilities."""
    return DESCRIPTOR


@hookimpl
def tensocket_backend() -> Backend:
    """Return the backend. Its probe imports pyopencl; opening a device creates a context."""
    from .backend import OpenCLBackend

    return OpenCLBackend()
