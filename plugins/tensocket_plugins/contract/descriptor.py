"""A backend's description of itself, made before any driver is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .dtypes import BY_NAME


@dataclass(frozen=True)
class Limits:
    """Hard limits of the device, which the runtime never exceeds."""

    max_rank: int = 16
    max_bytes: int = 1 << 40
    alignment: int = 64


@dataclass(frozen=True)
class Profile:
    """The abilities that a backend claims. Conformance verifies the claims in both directions.

    Attributes:
        dtypes: Names of the element types that it stores and computes with.
        accumulation: Element type to the wider one that accumulates its sums; without an entry, it is the same type
            (float16 and bfloat16 always accumulate in float32).
        features: Any of ``streams``, ``events``, ``pinned``, ``fp64``, ``dlpack``, ``multi_device``, ``deterministic``
            (a call with the same arguments has the same bits each time, also where it adds floats at equal positions),
            ``reference`` (an oracle, never chosen as accelerator).
        host_resident: Whether array handles are NumPy arrays; then kernels may allocate their results.
        host_kernels: Operators that this backend runs on the host; the ledger counts them.
        limits: Hard limits.
    """

    dtypes: frozenset[str]
    accumulation: Mapping[str, str] = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    host_resident: bool = False
    host_kernels: frozenset[str] = frozenset()
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        unknown = sorted({*self.dtypes, *self.accumulation, *self.accumulation.values()} - BY_NAME.keys())
        if unknown:
            raise ValueError(f"unknown dtypes in profile: {', '.join(unknown)}")


@dataclass(frozen=True)
class Descriptor:
    """Name, contract range and claims of a backend; pure data.

    Attributes:
        name: The device name; the same as the entry point's.
        contract: First supported and first unsupported contract version: ``((1, 0), (2, 0))``.
        profile: The claims.
    """

    name: str
    contract: tuple[tuple[int, int], tuple[int, int]]
    profile: Profile


@dataclass(frozen=True)
class DeviceInfo:
    """A device's description of itself, queried without creating a context where the driver allows it."""

    model: str
    memory: int
    driver: str
    details: Mapping[str, str] = field(default_factory=dict)
