"""CPU backend of tensocket: kernels compiled by LLVM, small arrays through NumPy, matrix products through OpenBLAS."""

from __future__ import annotations

from tensocket_plugins.contract.backend import Backend
from tensocket_plugins.contract.descriptor import Descriptor, Profile
from tensocket_plugins.contract.hooks import hookimpl

__version__ = "0.1.0"

DESCRIPTOR = Descriptor(
    name="cpu",
    contract=((1, 1), (2, 0)),
    profile=Profile(
        dtypes=frozenset({
            "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
            "float16", "bfloat16", "float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
            "complex32",
        }),
        accumulation={"float32": "float64"},
        features=frozenset({"streams", "events", "fp64", "deterministic"}),
        host_resident=True,
    ),
)


@hookimpl
def tensocket_describe() -> Descriptor:
    """Return the description of the backend's abilities."""
    return DESCRIPTOR


@hookimpl
def tensocket_backend() -> Backend:
    """Return the backend. LLVM is loaded only when the first kernel is compiled."""
    from .backend import CpuBackend

    return CpuBackend()
