"""The device ``toy``. The entry point names this module, which must not import a driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensocket_plugins.contract import Descriptor, Limits, Profile, hookimpl
from tensocket_plugins.kit.host_operators import HOST_OPERATORS, SEQUENCE_OPERATORS

if TYPE_CHECKING:
    from .backend import ToyBackend

NAME = "toy"
#: The claims of the device. Conformance verifies them in both directions.
PROFILE = Profile(
    dtypes=frozenset({"bool", "uint8", "int8", "int16", "int32", "int64", "uint32", "float16", "float32", "float64"}),
    features=frozenset({"streams", "events", "fp64", "deterministic"}),
    # Operators that the runtime may run on the host for this device; it counts each use, and refuses all others.
    host_kernels=HOST_OPERATORS | SEQUENCE_OPERATORS,
    limits=Limits(max_bytes=256 << 20),
)


@hookimpl
def tensocket_describe() -> Descriptor:
    """Return the name, the supported contract versions (first included, last excluded) and the claims."""
    return Descriptor(NAME, ((1, 1), (2, 0)), PROFILE)


@hookimpl
def tensocket_backend() -> ToyBackend:
    """Return the backend; called once, at the first use of the device's name. This may import a driver."""
    from .backend import ToyBackend

    return ToyBackend()
