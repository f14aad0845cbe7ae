"""The device ``toy``. This module is what the entry point names: it imports no driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensocket_plugins.contract import Descriptor, Limits, Profile, hookimpl
from tensocket_plugins.kit.host_operators import HOST_OPERATORS, SEQUENCE_OPERATORS

if TYPE_CHECKING:
    from .backend import ToyBackend

NAME = "toy"
#: What the device claims to do. Conformance verifies it in both directions.
PROFILE = Profile(
    dtypes=frozenset({"bool", "uint8", "int8", "int16", "int32", "int64", "uint32", "float16", "float32", "float64"}),
    features=frozenset({"streams", "events", "fp64", "deterministic"}),
    # Operators that the runtime may run on the host for this device; each use is counted, everything else is refused.
    host_kernels=HOST_OPERATORS | SEQUENCE_OPERATORS,
    limits=Limits(max_bytes=256 << 20),
)


@hookimpl
def tensocket_describe() -> Descriptor:
    """Name, supported contract versions (first included, last excluded) and claims."""
    return Descriptor(NAME, ((1, 1), (2, 0)), PROFILE)


@hookimpl
def tensocket_backend() -> ToyBackend:
    """The backend; called once, when somebody first uses the device's name. Here a driver may be imported."""
    from .backend import ToyBackend

    return ToyBackend()
